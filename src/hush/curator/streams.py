"""``curator.stream``: releases that come again and again. A stream pays in one of two ways, and has one life.

::

    declared ─► set aside, or charged ─► period due ─► released ─► … ─► complete
       (one plan, durable)                   │            └ once; the same for ever, with a receipt
                                             └► failed, or skipped            stopped: from any state, for ever

*   **Each release anew** (``pays`` is "each release"): an owner declares any question with a schedule, and the price of
    all releases is set aside (`hush.ledger.streams`). Readers, who were declared too, only read
    (`hush.curator.declared_streams`).
*   **Running totals** (``pays`` is "once"): an analyst creates a count or sum by day and is charged once for its whole
    life. The noise of all periods is chosen together: the noise of days does not add up in totals
    (`hush.synth.streams`). Nobody else sees it. This module is about these.

A name is looked for among one's own running totals first, then among the declared streams that one may read.

``create`` charges the price and writes the stream's definition; ``advance`` releases every period that is over and was
not released yet. Rows that come late count in the period that is open when they arrive. What a stream remembers lies
beside the ledger (`hush.curator.stream_states`). Of two who advance a stream at once one is first; what the other
measured is thrown away.

**The policy of its day.** The noise was chosen for what one unit could add when the stream was made. So all that
decides this is written down with the definition, each part as a fingerprint (`_terms`). `advance` compares it before
any row is read, and refuses if a part differs. Released numbers are shown from the definition alone.
"""

from __future__ import annotations

import builtins
import datetime as dt
import io
import json
import re
import secrets
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from hush.core import InvalidValueError, integer
from hush.curator.answer import Answer, Money
from hush.curator.coding import Coding, ReleaseColumn
from hush.curator.data_sets import OpenDataSet
from hush.curator.declared_streams import StreamView, declared_release, declared_views
from hush.curator.kept_release import price_of
from hush.curator.pipeline import charge, parse, publish
from hush.curator.session import AnalystSession
from hush.curator.stream_states import StateFiles, StreamError, StreamState, read_state, sealed, unsealed
from hush.curator.terms import QuestionTerms, TotalsOrder, TotalsTerms, takes
from hush.engines.protocol import CodedRows
from hush.ledger import Charge, RequestConflictError
from hush.query.answers.tree import Composed
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression
from hush.query.plan.plan import gaussian_price
from hush.query.plan.rows import CodedColumn, RowPlan, plan_rows
from hush.query.plan.stability import MAX_ROWS, Units
from hush.query.question import AggregateKind, RowQuestion, fingerprint
from hush.query.relations import Project, scans
from hush.query.types import Kind, position
from hush.report.columns import AnswerColumn, uniform
from hush.synth.streams import MAX_KEYS, MAX_PERIODS, RunningTotals, Seen, StreamPlan, arrivals, plan_stream, seconds

PART = 2.0
"""The seconds of work, by public figures and besides reading rows, that are released at once."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HORIZON = re.compile(r"\s*(\d{1,6})\s*(hour|day|week|month|year|period)s?\s*", re.IGNORECASE)
_HOUR = 3600 * 10**6
_WIDTHS = {
    Kind.INTEGER: {"period": 1},
    Kind.DATE: {"day": 1, "week": 7},
    Kind.TIMESTAMP: {"hour": _HOUR, "day": 24 * _HOUR, "week": 168 * _HOUR},
}
_HOURS = {"hour": 1, "day": 24, "week": 168, "month": 744, "year": 8766}
_WINDOWS = {"hour": ("day", 24), "day": ("week", 7), "week": ("four_weeks", 4), "period": ("last_7", 7)}


@dataclass(frozen=True, kw_only=True)
class _TotalsQuestion:
    """The question of running totals: rows with a time, keys, and perhaps a value to be summed."""

    data_set: OpenDataSet
    rows: RowPlan
    time: CodedColumn
    keys: tuple[ReleaseColumn, ...]
    value: CodedColumn | None
    size: int
    """How many combinations of keys there are."""
    bound: int
    """The largest magnitude of a row's value, in steps."""
    step: Fraction
    shown: dict[str, Any]
    """The names and codes of the released columns, as plain JSON values."""


def own_views(files: StateFiles) -> list[StreamView]:
    """Return an analyst's running totals."""
    return [_view(read_state(files, name)) for name in files.names()]


class Streams:
    """The streams of an analyst: their own running totals, and the declared streams that they may read."""

    def __init__(self, session: AnalystSession) -> None:
        self._session, self._files = session, StateFiles(session.streams, session.stream_states)

    def names(self) -> list[str]:
        """Return the names of all streams that one may read."""
        return [view.name for view in self.list()]

    def list(self) -> list[StreamView]:
        """Return all streams that one may read: one's own, then declared ones. Free."""
        return own_views(self._files) + self._declared()

    def own(self, name: str) -> StreamRelease | None:
        """Return running totals of one's own; None if there are none of this name."""
        return StreamRelease(self._session, name) if name in self._files.names() else None

    def _declared(self) -> builtins.list[StreamView]:
        session = self._session
        with session.in_use():
            return declared_views(session.ledger, session.analyst, {session.analyst: session.data_sets})

    @takes(TotalsTerms)
    def explain(self, terms: TotalsTerms) -> dict[str, Any]:
        """Return the price of `create` and the errors of days, weeks and totals. Spends nothing."""
        _, plan, definition, caveats = self._planned(terms)
        window, width = _WINDOWS[definition["every"]]
        last, step = definition["periods"], float(Fraction(definition["step"]))
        return {
            "price": {"epsilon": definition["epsilon"], "delta": "0"},
            "periods": last,
            "errors": {
                definition["every"]: step * max(plan.day_error(1), plan.day_error(last)),
                window: step * max(plan.window_error(min(width, last), width), plan.window_error(last, width)),
                "total": step * plan.total_error(last),
            },
            "confidence": plan.confidence,
            "caveats": caveats,
        }

    @takes(TotalsOrder)
    def create(self, order: TotalsOrder) -> StreamRelease:
        """Make a stream and charge its whole life."""
        name, request = order.name, order.request
        _check_name(name)
        totals, plan, definition, _ = self._planned(order)
        public = definition | {"name": name, "request": request}
        unit_key = sealed(secrets.token_bytes(16), name.encode()).hex()
        # locked until the state is written: two callers of one name cannot both be charged
        with self._session.in_use(), self._files.locked(name):
            if name in self._files.names():
                before = read_state(self._files, name).definition
                if request is not None and before.get("request") == request:
                    if public.items() <= (before | {"ended": False}).items():
                        return StreamRelease(self._session, name)
                    raise RequestConflictError(
                        f"The request id {request!r} was used before for another stream. "
                        "Use a new id for a new stream; nothing was charged."
                    )
                raise StreamError(f"There is a stream {name!r} already. Choose another name, or advance that one.")
            text = f"STREAM {name!r} of {plan.periods} periods: {order.question}"
            charged = charge(
                self._session,
                totals.data_set,
                plan.events,
                text=text,
                request=request,
                epsilon=Fraction(definition["epsilon"]),
            )
            receipt = str(charged.number)
            if not isinstance(charged, Charge):
                # its state was here once: to begin again would draw new noise for periods that may be known
                raise StreamError(
                    f"The request {request!r} made the stream {name!r} before (receipt {receipt}), and its state is "
                    "gone. Restore the state from a backup, or create another stream under a new request id. Nothing "
                    "was charged."
                )

            def begin() -> str:
                paid = public | {"receipt": receipt}
                stream = RunningTotals.begin(plan, totals.size)
                state = StreamState(paid | {"unit_key": unit_key}, stream, Seen.nothing())
                self._files.commit(name, self._files.prepare(name, state.to_bytes()))
                return json.dumps(paid)

            # the state is written before the charge counts as answered: an answered stream has been there
            publish(self._session, charged, begin, str.encode)
        return StreamRelease(self._session, name)

    def open(self, name: str) -> StreamRelease | DeclaredReleases:
        """Return a stream by its name: one's own, else a declared one."""
        _check_name(name)
        if (totals := self.own(name)) is not None:
            return totals
        for view in self._declared():
            if view.name.casefold() == name.casefold():
                return DeclaredReleases(self._session, view)
        names = ", ".join(self.names()) or "none yet"
        raise StreamError(f"There is no stream {name!r}; there are: {names}.")

    def _planned(self, terms: TotalsTerms) -> tuple[_TotalsQuestion, StreamPlan, dict[str, Any], builtins.list[str]]:
        """Return the question, the noise of all periods, the definition that is written down, and the caveats.

        The definition has no name, key for units, request and receipt yet. Nothing is read or charged.
        """
        totals = parse_totals(self._session, terms.question, terms.data)
        accounts = self._session.accounts(totals.data_set.schema.data)
        price, bought = price_of(accounts, terms.epsilon)
        if bought.law != "gaussian":
            raise QuestionError(
                "A stream needs Gaussian noise, which a budget without δ has no price for.",
                "Ask for single periods, or ask the owner for a budget with a δ.",
            )
        limits = totals.rows.limits
        declared = plan_rows(
            totals.rows.question, totals.data_set.schema, matches=totals.data_set.engine.matches
        ).limits
        cap = integer(terms.max_rows or declared.rows, "max_rows", minimum=1, maximum=MAX_ROWS)
        # where every row is a unit, a unit has one row
        cap = cap if limits.units is Units.COLUMN else 1
        kind = totals.time.type.kind
        every, widths = terms.every or ("period" if kind is Kind.INTEGER else "day"), _WIDTHS[kind]
        if every not in widths:
            allowed = f"one of {', '.join(widths)} for this time column"
            raise InvalidValueError("every", got=terms.every, allowed=allowed)
        width = widths[every]
        first = 0 if terms.start is None else _code(totals.time, terms.start)
        # no further than the bounds of the time column
        periods = min(_periods(terms.horizon, every), -(-(totals.time.levels - first) // width))
        plan = plan_stream(
            periods=integer(periods, "horizon", minimum=1, maximum=MAX_PERIODS, hint="Choose longer periods."),
            rho=bought.amount,
            contribution=cap * limits.touched * totals.bound,
            confidence=terms.confidence,
        )
        definition = {
            "question": terms.question,
            "data": totals.data_set.schema.data,
            "epsilon": str(price),
            "every": every,
            "width": width,
            "first": first,
            "periods": plan.periods,
            "cap": cap,
            "variance": str(plan.variance),
            "rho": str(plan.rho),
            "confidence": plan.confidence,
            "step": str(totals.step),
            "size": totals.size,
            "terms": _terms(totals, plan, cap),
            "ended": False,
            **totals.shown,
        }
        caveats = [f"of each unit at most {cap} row{'s' if cap > 1 else ''} count over the whole life"]
        if limits.units is not Units.COLUMN:
            caveats.append("rows are units here, so the table may only grow")
        caveats.append(gaussian_price(accounts.delta))
        return totals, plan, definition, caveats


def _periods(horizon: object, every: str) -> int:
    """Return how many periods of a kind ("day") cover a length of time such as "10 years"."""
    match = _HORIZON.fullmatch(horizon) if isinstance(horizon, str) else None
    if match is None:
        allowed = "a length of time such as '10 years' or '400 days'"
        raise InvalidValueError("horizon", got=horizon, allowed=allowed)
    count, unit = int(match[1]), match[2].lower()
    if "period" in {unit, every}:
        return count
    return -(-count * _HOURS[unit] // _HOURS[every])  # rounded up, so that the horizon is covered to its end


def parse_totals(session: AnalystSession, question: str, data: str | None) -> _TotalsQuestion:
    """Return the question of running totals: one COUNT(*) or SUM by a time column and public keys."""
    with session.in_use():
        data_set, query, _ = parse(session, QuestionTerms(question, data=data))
    if isinstance(query, Composed):
        raise QuestionError("A stream is one question about rows.", "Compute from what it releases instead.")
    if len(query.aggregates) != 1 or query.aggregates[0].kind not in {AggregateKind.COUNT, AggregateKind.SUM}:
        raise QuestionError("A stream has one COUNT(*) or one SUM.", "Make one stream for each number.")
    (aggregate,) = query.aggregates
    if aggregate.where is not None or (aggregate.kind is AggregateKind.COUNT and aggregate.arguments):
        raise QuestionError("A stream counts all its rows.", "Put conditions into WHERE.")
    if query.having is not None or query.limit is not None:
        raise QuestionError("A stream releases every period and key.", "Leave HAVING and LIMIT out.")
    times = [index for index, (_, key) in enumerate(query.keys) if key.type.kind in {Kind.DATE, Kind.TIMESTAMP}]
    times = times or [index for index, (_, key) in enumerate(query.keys) if key.type.kind is Kind.INTEGER][:1]
    if len(times) != 1:
        raise QuestionError("A stream is grouped by one time column.", "Write SELECT day, COUNT(*) … GROUP BY day.")
    (time_key,) = times
    columns: list[tuple[str, Expression]] = [query.keys[time_key]]
    columns += [key for index, key in enumerate(query.keys) if index != time_key]
    columns += [("\0value", argument) for argument in aggregate.arguments]
    # without the policy's limit: `arrivals` counts a unit's rows over the whole life of the stream
    names = tuple((f"c{index}", expression) for index, (_, expression) in enumerate(columns))
    asked = RowQuestion(
        data=query.data,
        relation=Project(source=query.relation, columns=names),
        columns=tuple((label, Column(name, key.type)) for (name, key), (label, _) in zip(names, columns, strict=True)),
        text=query.text,
    )
    rows = plan_rows(asked, data_set.schema, max_rows=MAX_ROWS, matches=data_set.engine.matches)
    if rows.limits.units is Units.NUMBERED:
        # the numbers of rows may differ from period to period, so nobody could say how much of a row counted already
        raise QuestionError(
            "A stream of rows without a unit cannot join a public table, which may make several rows of one.",
            "Leave the join out, or ask the owner to declare a unit.",
        )
    time, *tail = rows.columns
    if time.factor is None:
        raise QuestionError(f"The time column {time.name!r} has no bounds.", "Declare them in the policy.")
    value = tail.pop() if aggregate.arguments else None
    keys = tuple(ReleaseColumn.of(column) for column in tail)
    if (size := prod(column.size for column in keys)) > MAX_KEYS:
        raise QuestionError(f"A stream has at most {MAX_KEYS} keys.", "Group by fewer.")
    bound, step = 1, Fraction(1)
    if value is not None and value.factor is not None:
        bound, step = max(abs(value.factor.first), abs(value.factor.last), 1), value.factor.step
    output = next((name for name, expression in query.outputs if getattr(expression, "source", "") == "aggregate"), "n")
    coding = Coding((ReleaseColumn(time, 1), *keys))
    return _TotalsQuestion(
        data_set=data_set,
        rows=rows,
        time=time,
        keys=keys,
        value=value,
        size=size,
        bound=bound,
        step=step,
        shown={"columns": coding.to_json(), "output": output, "counts": bound == 1},
    )


def _terms(asked: _TotalsQuestion, plan: StreamPlan, cap: int) -> dict[str, str]:
    """Return a fingerprint of each part of the policy that decides how much a unit can add, by the part's name.

    It holds what the policy declares of the tables and columns that are read, and not the rest of the policy, nor what
    is in public tables: these may change, as long as codes and bounds stay as they were.
    """
    data_set, limits = asked.data_set, asked.rows.limits
    schema = data_set.schema
    parts: dict[str, object] = {
        "the neighbours": schema.neighbours,
        "the unit": (schema.unit, limits.units),
        "the price of its noise": plan.cost(cap * limits.touched * asked.bound),
    }
    for column in asked.rows.columns:
        codes = None if column.factor is None else (column.factor.step, column.factor.first, column.factor.last)
        name = "the summed value" if column is asked.value else f"the column {column.name}"
        parts[name] = (column.type.kind, codes, column.values, column.null)
    for scan in scans(asked.rows.question.relation):
        table = schema.tables[scan.table]
        hops = () if table.unit is None else table.unit.hops
        for name in (scan.table, *(hop.table for hop in hops)):
            parts[f"the source of the table {name}"] = data_set.places.get(name)
        parts[f"the unit of the table {scan.table}"] = (table.public, table.unit)
        parts[f"the limits of the table {scan.table}"] = (table.max_rows, table.max_groups)
        for _, column_name, _ in scan.columns:
            declared = table.columns.get(column_name) or table.keys.get(column_name)
            parts[f"the column {scan.table}.{column_name}"] = declared
    return {name: fingerprint(detail) for name, detail in parts.items()}


def _code(time: CodedColumn, value: object) -> int:
    """Return the code of a date, a time or a whole number, cut to the column's bounds."""
    if isinstance(value, str):
        try:
            value = (dt.datetime if time.type.kind is Kind.TIMESTAMP else dt.date).fromisoformat(value)
        except ValueError:
            raise InvalidValueError("start", got=value, allowed="a date such as 2024-12-31") from None
    if isinstance(value, int) and not isinstance(value, bool):
        value = Fraction(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime) and time.type.kind is Kind.TIMESTAMP:
        value = dt.datetime.combine(value, dt.time())  # timestamps here are without a zone
    try:
        coordinate = position(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidValueError("start", got=value, allowed="a value of the time column") from None
    assert time.factor is not None  # noqa: S101 - checked when the stream was understood
    return min(max(int(coordinate // time.factor.step) - time.factor.first, 0), time.levels)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("."):
        raise InvalidValueError("name", got=name, allowed="letters, digits, '_', '-' and '.', at most 64")


def _view(state: StreamState) -> StreamView:
    keys = ("name", "data", "question", "epsilon", "confidence", "every", "periods", "ended", "receipt")
    return StreamView(pays="once", released=state.stream.released, **{key: state.definition[key] for key in keys})


class StreamRelease:
    """One stream of running totals."""

    def __init__(self, session: AnalystSession, name: str) -> None:
        self._session, self._files, self.name = session, StateFiles(session.streams, session.stream_states), name

    def _state(self) -> StreamState:
        return read_state(self._files, self.name)

    @property
    def released(self) -> int:
        """How many periods were released."""
        return self._state().stream.released

    @property
    def receipt(self) -> str:
        """The receipt of the charge."""
        return str(self._state().definition["receipt"])

    def advance(self, through: object = None) -> int:
        """Release all periods that are over and were not released; return how many there are now.

        ``through`` is the last period to be released, as a date or whole number; by default the last one that is over,
        by the clock (UTC).
        """
        while self.advance_part(through):
            pass
        return self.released

    def advance_part(self, through: object = None) -> bool:
        """Release a part of bounded work of what `advance` would release; return whether there was anything.

        A part is durable when it is done, so what is interrupted is taken up by the next call.
        """
        hint = (
            f"What was released stays readable. Or stop it, hush stream stop {self.name}, and make another under "
            "another name. Nothing was read and nothing was charged."
        )
        with self._session.in_use():
            state = self._state()
            definition = state.definition
            if definition["ended"]:
                raise StreamError(f"The stream {self.name!r} has ended.")
            totals = parse_totals(self._session, definition["question"], definition["data"])
            initial = definition.get("terms")
            if initial is None:
                raise StreamError(
                    f"The stream {self.name!r} was made by an earlier version of hush, which did not write down the "
                    f"policy that its noise was chosen for. So it cannot go on. {hint}"
                )
            # the noise was chosen and paid for under the policy of that day
            now = _terms(totals, state.stream.plan, definition["cap"])
            if parts := sorted(term for term in initial.keys() | now.keys() if initial.get(term) != now.get(term)):
                raise StreamError(
                    f"The policy has changed since the stream {self.name!r} was made: {', '.join(parts)}. Its noise "
                    f"was chosen and paid for as they were. Take back the change to go on with it. {hint}"
                )
            last = self._last(totals, definition, through)
            if last <= state.stream.released:
                return False
            self._release(totals, state, last)
            return True

    def due(self, through: object = None) -> int:
        """Return how many periods `advance` would release now."""
        with self._session.in_use():
            state = self._state()
            totals = parse_totals(self._session, state.definition["question"], state.definition["data"])
            return max(self._last(totals, state.definition, through) - state.stream.released, 0)

    def _release(self, asked: _TotalsQuestion, before: StreamState, last: int) -> None:
        """Measure the next part of the periods up to ``last``, and release it, unless another caller was first."""
        self._session.ledger.check_room()  # the state grows: a quota of the disk holds for it too
        context, first = self.name.encode(), before.stream.released
        unit_key = unsealed(bytes.fromhex(before.definition["unit_key"]), context)
        resealed = {"unit_key": sealed(unit_key, context).hex()}  # with the key of today, if there is one by now
        compiled = asked.data_set.engine.prepare_rows(asked.rows, unit_key.hex())
        # how much is released at once, and when it appears, follow from public figures: declared rows, keys and periods
        rows, keys = compiled.effort.rows(asked.data_set.sizes), asked.size
        ends = range(first + 1, last + 1)
        fitting = bisect_right(ends, PART, key=lambda end: seconds(rows=0, keys=keys, first=first, last=end))
        last = ends[max(fitting - 1, 0)]
        work = compiled.effort.seconds(asked.data_set.sizes) + seconds(rows=rows, keys=keys, first=first, last=last)
        state_files: list[Path | bytes] = []

        def measure() -> int:
            """Read the state and the rows, and write the state that follows. How long this takes depends on rows."""
            state = read_state(self._files, self.name, StreamState.read)
            after = _advanced(state, asked, asked.data_set.engine.rows(compiled), last)
            data = replace(after, definition=after.definition | resealed).to_bytes()
            StreamState.read(io.BytesIO(data))  # what could not be read again does not replace what can
            state_files.append(self._files.prepare(self.name, data))
            return state.stream.released

        try:
            begun = publish(self._session, None, measure, None, work)
            with self._files.locked(self.name):
                now = self._state()
                # else another caller was first: nobody has seen this measurement, so it can be thrown away
                if not now.definition["ended"] and now.stream.released == begun == first:
                    self._files.commit(self.name, state_files[0])
                    # after the state: a mark ahead of it would make a good state look like an old copy
                    self._files.mark(self.name, ".released", str(last))
        finally:
            for prepared in state_files:
                self._files.discard(prepared)

    def _last(self, asked: _TotalsQuestion, definition: Mapping[str, Any], through: object) -> int:
        """Return how many periods are to be released altogether."""
        first, width, periods = definition["first"], definition["width"], definition["periods"]
        if through is not None:
            return int(min((_code(asked.time, through) - first) // width + 1, periods))
        if asked.time.type.kind is Kind.INTEGER:
            raise InvalidValueError("through", got=None, allowed="the last period, for time columns of whole numbers")
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        today = now if asked.time.type.kind is Kind.TIMESTAMP else now.date()
        # the period of today is not over, so it is not counted
        return int(min(max((_code(asked.time, today) - first) // width, 0), periods))

    def stop(self) -> None:
        """Release nothing more. The charge stays."""
        with self._files.locked(self.name):
            self._state()
            self._files.mark(self.name, ".ended")

    @property
    def answer(self) -> Answer:
        """All released periods: the value, the sum over the last window (a week of days) and the total, with errors."""
        state = self._state()
        definition = state.definition
        if "columns" not in definition:  # a stream of an earlier version: they come from the policy
            totals = parse_totals(self._session, definition["question"], definition["data"])
            if totals.size != definition["size"] or totals.step != Fraction(definition["step"]):
                raise StreamError(
                    f"The stream {self.name!r} was made by an earlier version of hush, and the policy has other "
                    "columns by now. Take back the change to see what was released."
                )
            definition = definition | totals.shown
        time, *keys = Coding.from_json(definition["columns"]).columns
        label, width = _WINDOWS[definition["every"]]
        series, step = state.stream.series(width), float(Fraction(definition["step"]))
        released, size, kind = state.stream.released, definition["size"], time.coded.type.kind
        times = [time.coded.value(definition["first"] + period * definition["width"]) for period in range(released)]
        repeated = uniform([moment for moment in times for _ in range(size)], kind)
        columns = [AnswerColumn(name=time.name, kind=kind, values=repeated)]
        for axis, column in enumerate(keys):
            cells = [combination[axis] for combination in product(*(key.values for key in keys))]
            columns.append(AnswerColumn(name=column.name, kind=column.coded.type.kind, values=tuple(cells) * released))
        for name, series_name in ((definition["output"], "value"), (label, "window"), ("total", "total")):
            errors = np.repeat(series[f"{series_name}_error"] * step, size).tolist()
            values = tuple((series[series_name] * step).ravel().tolist())
            how = {"values": values, "errors": tuple(errors), "counts": definition["counts"]}
            columns.append(AnswerColumn(name=name, kind=Kind.DECIMAL, **how))
        return Answer(
            columns=tuple(columns),
            confidence=definition["confidence"],
            price=Money.single("the whole stream", Fraction(definition["epsilon"])),
            receipt=definition["receipt"],
            question=definition["question"],
        )

    @property
    def table(self) -> Any:
        """The same as a pyarrow.Table."""
        return self.answer.table

    @property
    def view(self) -> StreamView:
        """The question, the price and the progress, without the numbers."""
        return _view(self._state())

    def to_json(self) -> dict[str, Any]:
        """Return the stream as plain JSON values, with all that was released."""
        return self.view.to_json() | {"cap": self._state().definition["cap"], **self.answer.to_json()}

    def __repr__(self) -> str:
        return f"<stream {self.name!r}, {self.released} periods released>"


def _advanced(state: StreamState, asked: _TotalsQuestion, rows: CodedRows, last: int) -> StreamState:
    """Return the state after the periods up to ``last`` were measured."""
    definition, stream = state.definition, state.stream
    time = rows.codes[asked.time.name].astype(np.int64)
    period = np.maximum((time - definition["first"]) // definition["width"], 0)
    # rows of later periods are left for them
    mask = period < last
    keys = np.zeros(len(time), dtype=np.int64)
    for column in asked.keys:
        keys = keys * column.size + column.grouped(rows.codes[column.name])
    values = None
    if asked.value is not None and asked.value.factor is not None:
        values = rows.codes[asked.value.name].astype(np.int64) + asked.value.factor.first
    came, history = arrivals(
        state.seen,
        None if rows.units is None else rows.units[mask],
        keys[mask],
        None if values is None else values[mask],
        cap=definition["cap"],
        bound=asked.bound,
        size=asked.size,
        # late rows count in the period that is open now: released periods never change
        period=np.maximum(period[mask] - stream.released, 0),
        steps=last - stream.released,
    )
    return StreamState(definition, stream.advance(came), history)


class DeclaredReleases:
    """The releases of a declared stream, for a reader."""

    def __init__(self, session: AnalystSession, view: StreamView) -> None:
        self._session, self.view, self.name = session, view, view.name
        self.released, self.receipt = view.released, view.receipt

    def release(self, period: str = "latest") -> Answer:
        """Return the release of a date ("2026-11-16"), the latest, or all releases in one table. Free."""
        session = self._session
        with session.in_use():
            reader, data_of = session.analyst, {session.analyst: session.data_sets}
            return declared_release(session.ledger, self.name, period, reader, data_of)[1]

    @property
    def answer(self) -> Answer:
        """All releases in one table, with their dates."""
        return self.release("all")

    @property
    def table(self) -> Any:
        """The same as a pyarrow.Table."""
        return self.answer.table

    def advance(self, through: object = None) -> int:  # noqa: ARG002 - as for running totals
        """Refuse: its releases are made at their dates, and its owner stops it."""
        raise StreamError(
            f"The owner declared the stream {self.name!r}: its releases are made at their dates, by hush serve or by "
            f"hush stream run, and its owner stops it: hush stream stop {self.name}. Nothing was charged."
        )

    stop = advance

    def to_json(self) -> dict[str, Any]:
        """Return the stream as plain JSON values."""
        return self.view.to_json()

    def __repr__(self) -> str:
        return f"<stream {self.view}>"
