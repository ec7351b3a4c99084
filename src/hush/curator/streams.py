"""``curator.stream``: a count or sum by day that keeps coming, charged once for its whole life.

``create`` charges the price and writes the stream's definition; ``advance`` releases every period that is over and was
not released yet. A released period never changes: its noisy integers are written to the state file before anybody sees
them, and are shown from there ever after. Rows that come late count in the period that is open when they arrive.

**State.** Beside the ledger, readable by its owner alone, lies one file for each stream: the definition, the exact
series so far, what was counted of each unit (by a keyed hash), and all that was released. It is replaced as a whole and
at once. Killed before that, a period was shown to nobody and is measured anew; killed after, it is released. So no
period ever has two noises. Of two who advance a stream at once one is first; what the other measured is thrown away.
Nobody waits for another's computation, for that would tell how long it took.

How many periods were released is also noted in a file of its own: a state file that is older than that is refused,
because to go on from it would release periods twice. Who puts both back to an earlier day is not noticed.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from hush.core import InvalidValueError, Number, integer
from hush.core.values import dataclass
from hush.curator.access import Access
from hush.curator.answer import Answer, Money
from hush.curator.coding import ReleaseColumn
from hush.curator.data_sets import OpenDataSet
from hush.curator.kept_release import price_of
from hush.curator.stream_state import StateFiles, StreamError, StreamState
from hush.engines.base import CodedRows
from hush.ledger import RequestConflictError
from hush.query.composed import Composed
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression
from hush.query.plan.limits import MAX_ROWS, Units
from hush.query.plan.rows import CodedColumn, RowPlan, plan_rows
from hush.query.plan.wording import gaussian_price
from hush.query.question import AggregateKind, Question, RowQuestion
from hush.query.relations import Project
from hush.query.types import Kind, position
from hush.report.columns import AnswerColumn, uniform
from hush.synth.streams import MAX_KEYS, MAX_PERIODS, Seen, Stream, StreamPlan, arrivals, plan_stream

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HORIZON = re.compile(r"\s*(\d{1,6})\s*(hour|day|week|month|year|period)s?\s*", re.IGNORECASE)
_HOUR = 3600 * 10**6
_STEPS = {Kind.DATE: {"day": 1, "week": 7}, Kind.TIMESTAMP: {"hour": _HOUR, "day": 24 * _HOUR, "week": 168 * _HOUR}}
_DAYS = {
    "hour": Fraction(1, 24),
    "day": Fraction(1),
    "week": Fraction(7),
    "month": Fraction(31),
    "year": Fraction(1461, 4),
}
_WINDOWS = {"hour": ("day", 24), "day": ("week", 7), "week": ("four_weeks", 4), "period": ("last_7", 7)}


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """A stream's question, understood: rows with a time, keys, and perhaps a value to be summed."""

    data_set: OpenDataSet
    rows: RowPlan
    time: CodedColumn
    keys: tuple[ReleaseColumn, ...]
    value: CodedColumn | None
    output: str

    @property
    def size(self) -> int:
        return prod(column.size for column in self.keys)

    @property
    def bound(self) -> int:
        """The largest magnitude of a row's value, in steps."""
        if self.value is None or self.value.factor is None:
            return 1
        return max(abs(self.value.factor.first), abs(self.value.factor.last), 1)

    @property
    def step(self) -> Fraction:
        return Fraction(1) if self.value is None or self.value.factor is None else self.value.factor.step


class Streams:
    """All streams of a curator."""

    def __init__(self, access: Access, files: StateFiles) -> None:
        self._access, self._files = access, files

    def names(self) -> list[str]:
        """Return the names of the streams."""
        return self._files.names()

    def explain(self, question: str, **options: Any) -> dict[str, Any]:
        """Say what `create` would cost and how far off days, weeks and totals would be. Spends nothing."""
        _, definition, plan, caveats = self._planned(question, **options)
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
            "caveats": list(caveats),
        }

    def create(self, question: str, *, name: str, request: str | None = None, **options: Any) -> StreamRelease:
        """Make a stream and charge its whole life.

        Parameters
        ----------
        question
            ``SELECT day, COUNT(*) AS n FROM … GROUP BY day``, or SUM of a bounded column; further public keys may be
            grouped by.
        name
            What the stream is called.
        horizon
            How long it lasts: "10 years", "400 days".
        epsilon
            What it costs.
        every
            "day", "week" or "hour", "period" for whole numbers; by default the time column's own step.
        request
            An id of the asker's own: made again with the same id, the stream is there, and nothing is charged.
        start
            The first period; by default the lower bound of the time column.
        max_rows
            How many rows of one unit count over the whole life; what the policy declares, if it is not said.
        """
        _check_name(name)
        asked, definition, plan, _ = self._planned(question, **options)
        definition |= {"name": name, "unit_key": secrets.token_hex(16), "request": request}
        public = {key: value for key, value in definition.items() if key != "unit_key"}
        with self._access.in_use(), self._files.locked(name):
            if (there := self._files.open(name)) is not None:
                with there:
                    before = StreamState.public(there).definition
                if request is not None and before.get("request") == request:
                    if public.items() <= (before | {"ended": False}).items():
                        return StreamRelease(self._access, self._files, name)
                    raise RequestConflictError(
                        f"The request id {request!r} was used before for another stream. "
                        "Use a new id for a new stream; nothing was charged."
                    )
                raise StreamError(f"There is a stream {name!r} already. Choose another name, or advance that one.")
            text = f"STREAM {name!r} of {plan.periods} periods: {question}"
            price = Fraction(definition["epsilon"])
            reservation = self._access.charge(asked.data_set.schema.data, text, plan.events, epsilon=price)
            receipt = str(reservation.number)
            self._access.keep(reservation, lambda: json.dumps(public | {"receipt": receipt}), str.encode)
            begun = Stream.begin(plan, asked.size)
            state = StreamState(definition | {"receipt": receipt}, begun, Seen.nothing())
            self._files.write(name, state.to_bytes())
        return StreamRelease(self._access, self._files, name)

    def open(self, name: str) -> StreamRelease:
        """Return a stream that was made before."""
        _check_name(name)
        there = self._files.open(name)
        if there is None:
            known = ", ".join(self.names()) or "none yet"
            raise StreamError(f"There is no stream {name!r}; there are: {known}.")
        there.close()
        return StreamRelease(self._access, self._files, name)

    def _planned(
        self,
        question: str,
        *,
        horizon: str,
        epsilon: Number | None = None,
        every: str | None = None,
        start: object = None,
        max_rows: int | None = None,
        confidence: float = 0.95,
        data: str | None = None,
    ) -> tuple[_Asked, dict[str, Any], StreamPlan, tuple[str, ...]]:
        asked = understood(self._access, question, data)
        planned = self._access.planned_rows(asked.data_set, asked.rows)
        price, bought = price_of(planned, epsilon)
        if bought.law != "gaussian":
            raise QuestionError(
                "A stream needs Gaussian noise, which a budget without δ has no price for.",
                "Ask for single periods, or ask the owner for a budget with a δ.",
            )
        limits = asked.rows.limits
        cap = integer(max_rows or _declared(asked), "max_rows", minimum=1, maximum=MAX_ROWS)
        cap = cap if limits.units is Units.COLUMN else 1
        kind = asked.time.type.kind
        chosen = every or ("period" if kind is Kind.INTEGER else "day")
        width = 1 if kind is Kind.INTEGER else _STEPS.get(kind, {}).get(chosen)
        if width is None:
            allowed = ", ".join(_STEPS.get(kind, {"period": 1}))
            raise InvalidValueError("every", got=every, allowed=f"one of {allowed} for this time column")
        first = _code(asked.time, start) if start is not None else 0
        periods = min(_periods(horizon, chosen), -(-(asked.time.levels - first) // width))
        plan = plan_stream(
            periods=integer(periods, "horizon", minimum=1, maximum=MAX_PERIODS, hint="Choose longer periods."),
            rho=bought.amount,
            contribution=cap * limits.touched * asked.bound,
            confidence=confidence,
        )
        definition = {
            "question": question,
            "data": asked.data_set.schema.data,
            "epsilon": str(price),
            "every": chosen,
            "width": width,
            "first": first,
            "periods": plan.periods,
            "cap": cap,
            "variance": str(plan.variance),
            "rho": str(plan.rho),
            "confidence": plan.confidence,
            "step": str(asked.step),
            "size": asked.size,
            "ended": False,
        }
        rows = "rows are units here, so the table may only grow" if limits.units is not Units.COLUMN else ""
        caveats = [f"of each unit at most {cap} row{'s' if cap > 1 else ''} count over the whole life", rows]
        return asked, definition, plan, (*filter(None, caveats), gaussian_price(planned.delta))


def understood(access: Access, question: str, data: str | None) -> _Asked:
    """Return what a stream counts: one COUNT(*) or SUM by a time column, and public keys."""
    data_set, asked = access.parse(question, (), data)
    if isinstance(asked, Composed):
        raise QuestionError("A stream is one question about rows.", "Compute from what it releases instead.")
    if len(asked.aggregates) != 1 or asked.aggregates[0].kind not in {AggregateKind.COUNT, AggregateKind.SUM}:
        raise QuestionError("A stream has one COUNT(*) or one SUM.", "Make one stream for each number.")
    (aggregate,) = asked.aggregates
    if aggregate.where is not None or (aggregate.kind is AggregateKind.COUNT and aggregate.arguments):
        raise QuestionError("A stream counts all its rows.", "Put conditions into WHERE.")
    if asked.having is not None or asked.limit is not None:
        raise QuestionError("A stream releases every period and key.", "Leave HAVING and LIMIT out.")
    times = [at for at, (_, key) in enumerate(asked.keys) if key.type.kind in {Kind.DATE, Kind.TIMESTAMP}]
    times = times or [at for at, (_, key) in enumerate(asked.keys) if key.type.kind is Kind.INTEGER][:1]
    if len(times) != 1:
        raise QuestionError("A stream is grouped by one time column.", "Write SELECT day, COUNT(*) … GROUP BY day.")
    named: list[tuple[str, Expression]] = [asked.keys[times[0]]]
    named += [key for at, key in enumerate(asked.keys) if at != times[0]]
    named += [("\0value", argument) for argument in aggregate.arguments]
    rows = plan_rows(_rows(asked, named), data_set.schema, max_rows=MAX_ROWS)
    time, *rest = rows.columns
    if time.factor is None:
        raise QuestionError(f"The time column {time.name!r} has no bounds.", "Declare them in the policy.")
    value = rest.pop() if aggregate.arguments else None
    keys = tuple(ReleaseColumn.of(column) for column in rest)
    if prod(column.size for column in keys) > MAX_KEYS:
        raise QuestionError(f"A stream has at most {MAX_KEYS} keys.", "Group by fewer.")
    output = next((name for name, item in asked.outputs if getattr(item, "source", "") == "aggregate"), "n")
    return _Asked(data_set=data_set, rows=rows, time=time, keys=keys, value=value, output=output)


def _rows(asked: Question, named: list[tuple[str, Expression]]) -> RowQuestion:
    columns = tuple((f"c{at}", expression) for at, (_, expression) in enumerate(named))
    relation = Project(source=asked.relation, columns=columns)
    shown = tuple(
        (name, Column(unique, expression.type)) for (unique, expression), (name, _) in zip(columns, named, strict=True)
    )
    return RowQuestion(data=asked.data, relation=relation, columns=shown, text=asked.text)


def _declared(asked: _Asked) -> int:
    """Return how many rows of a unit the policy lets count."""
    return plan_rows(asked.rows.question, asked.data_set.schema).limits.rows


def _periods(horizon: object, every: str) -> int:
    found = _HORIZON.fullmatch(horizon) if isinstance(horizon, str) else None
    if found is None:
        raise InvalidValueError("horizon", got=horizon, allowed="a length of time such as '10 years' or '400 days'")
    count, unit = int(found[1]), found[2].lower()
    if "period" in {unit, every}:
        return count
    return int(-(-count * _DAYS[unit] // _DAYS[every]))


def _code(time: CodedColumn, value: object) -> int:
    """Return the code of a date, a time or a whole number, cut to the column's bounds."""
    if isinstance(value, str):
        try:
            value = (
                dt.datetime.fromisoformat(value) if time.type.kind is Kind.TIMESTAMP else dt.date.fromisoformat(value)
            )
        except ValueError:
            raise InvalidValueError("start", got=value, allowed="a date such as 2024-12-31") from None
    if isinstance(value, int) and not isinstance(value, bool):
        value = Fraction(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime) and time.type.kind is Kind.TIMESTAMP:
        value = dt.datetime(value.year, value.month, value.day)  # noqa: DTZ001 - timestamps here are without a zone
    try:
        place = position(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidValueError("start", got=value, allowed="a value of the time column") from None
    assert time.factor is not None  # noqa: S101 - checked when the stream was understood
    return min(max(int(place // time.factor.step) - time.factor.first, 0), time.levels)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith("."):
        raise InvalidValueError("name", got=name, allowed="letters, digits, '_', '-' and '.', at most 64")


class StreamRelease:
    """One stream."""

    def __init__(self, access: Access, files: StateFiles, name: str) -> None:
        self._access, self._files, self.name = access, files, name

    def _state(self, read: Callable[[IO[bytes]], StreamState] = StreamState.public) -> StreamState:
        """Return the state; if nothing else is said, what is public of it."""
        file = self._files.open(self.name)
        if file is None:
            raise StreamError(f"There is no stream {self.name!r} any more.")
        with file:
            state = read(file)
        if self._files.ended(self.name):
            state = replace(state, definition=state.definition | {"ended": True})
        known = self._files.marked(self.name)
        if known > state.stream.released:
            raise StreamError(
                f"The state of {self.name!r} ends at period {state.stream.released}, but {known} were released. "
                "It is an old copy, and to go on from it would release periods twice. Restore the newest state."
            )
        return state

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
        with self._access.in_use():
            while True:
                state = self._state()
                definition = state.definition
                if definition["ended"]:
                    raise StreamError(f"The stream {self.name!r} has ended.")
                asked = understood(self._access, definition["question"], definition["data"])
                if asked.size != definition["size"] or asked.step != Fraction(definition["step"]):
                    raise StreamError(
                        f"The policy's columns of {self.name!r} have changed since it was made; make a new one."
                    )
                last = self._last(asked, definition, through)
                if last <= state.stream.released or self._release(asked, state, last):
                    return max(last, state.stream.released)

    def _release(self, asked: _Asked, before: StreamState, last: int) -> bool:
        """Measure the periods up to ``last`` and release them, unless somebody else changed the stream meanwhile."""
        compiled = asked.data_set.engine.compile_rows(asked.rows, before.definition["unit_key"])
        written: list[Path | bytes] = []

        def measure() -> int:
            """Read the state and the rows, and write the state that follows. How long this takes depends on rows."""
            state = self._state(StreamState.read)
            after = _advanced(state, asked, asked.data_set.engine.rows(compiled), last)
            written.append(self._files.prepare(self.name, after.to_bytes()))
            return state.stream.released

        try:
            begun = self._access.measured(measure)
            with self._files.locked(self.name):
                now = self._state()
                if now.definition["ended"] or not now.stream.released == begun == before.stream.released:
                    return False
                self._files.commit(self.name, written.pop())
                self._files.mark(self.name, last)
                return True
        finally:
            for prepared in written:
                self._files.discard(prepared)

    def _last(self, asked: _Asked, definition: Mapping[str, Any], through: object) -> int:
        """Return how many periods are to be released altogether."""
        first, width, periods = definition["first"], definition["width"], definition["periods"]
        if through is not None:
            return int(min((_code(asked.time, through) - first) // width + 1, periods))
        if asked.time.type.kind is Kind.INTEGER:
            raise InvalidValueError("through", got=None, allowed="the last period, for time columns of whole numbers")
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        today = now if asked.time.type.kind is Kind.TIMESTAMP else now.date()
        return int(min(max((_code(asked.time, today) - first) // width, 0), periods))

    def end(self) -> None:
        """End the stream: nothing more will be released. What was paid stays paid."""
        with self._files.locked(self.name):
            self._state()
            self._files.end(self.name)

    @property
    def answer(self) -> Answer:
        """All that was released, period by period: the value, the last week's, and the total, each with its error."""
        state = self._state()
        definition = state.definition
        asked = understood(self._access, definition["question"], definition["data"])
        label, width = _WINDOWS[definition["every"]]
        series, step = state.stream.series(width), float(Fraction(definition["step"]))
        released, size = state.stream.released, asked.size
        times = [asked.time.value(definition["first"] + at * definition["width"]) for at in range(released)]
        columns = [
            AnswerColumn(
                name=asked.time.name,
                kind=asked.time.type.kind,
                values=uniform([time for time in times for _ in range(size)], asked.time.type.kind),
            )
        ]
        for at, column in enumerate(asked.keys):
            cells = [combination[at] for combination in product(*(item.values for item in asked.keys))]
            columns.append(AnswerColumn(name=column.name, kind=column.coded.type.kind, values=tuple(cells) * released))
        for name, part in ((asked.output, "value"), (label, "window"), ("total", "total")):
            errors = np.repeat(series[f"{part}_error"] * step, size).tolist()
            values = tuple((series[part] * step).ravel().tolist())
            columns.append(
                AnswerColumn(name=name, kind=Kind.DECIMAL, values=values, errors=tuple(errors), counts=asked.bound == 1)
            )
        epsilon = Fraction(definition["epsilon"])
        return Answer(
            columns=tuple(columns),
            confidence=definition["confidence"],
            price=Money(epsilon=epsilon, delta=Fraction(0), items=(("the whole stream", epsilon, Fraction(0)),)),
            receipt=definition["receipt"],
            question=definition["question"],
        )

    @property
    def table(self) -> Any:
        """The same as a pyarrow.Table."""
        return self.answer.table

    def to_json(self) -> dict[str, Any]:
        """Return the stream as plain JSON values."""
        definition = self._state().definition
        shown = {key: definition[key] for key in ("name", "question", "every", "periods", "cap", "ended")}
        return shown | {"released": self.released, **self.answer.to_json()}

    def __repr__(self) -> str:
        return f"<stream {self.name!r}, {self.released} periods released>"


def _advanced(state: StreamState, asked: _Asked, rows: CodedRows, last: int) -> StreamState:
    """Return the state after the periods up to ``last`` were measured."""
    definition, stream, seen = state.definition, state.stream, state.seen
    time = rows.codes[asked.time.name].astype(np.int64)
    period = np.maximum((time - definition["first"]) // definition["width"], 0)
    keys = np.zeros(len(time), dtype=np.int64)
    for column in asked.keys:
        keys = keys * column.size + column.grouped(rows.codes[column.name])
    values = None
    if asked.value is not None and asked.value.factor is not None:
        values = rows.codes[asked.value.name].astype(np.int64) + asked.value.factor.first
    for number in range(stream.released, last):
        there = period <= number
        came, seen = arrivals(
            seen,
            None if rows.units is None else rows.units[there],
            keys[there],
            None if values is None else values[there],
            cap=definition["cap"],
            bound=asked.bound,
            size=asked.size,
        )
        stream = stream.advance(came)
    return StreamState(definition, stream, seen)
