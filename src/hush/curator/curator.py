"""The curator: the way of one question from text to answer.

::

    parse ─► plan ─► compile ─► charge ─► execute ─► release ─► estimate
    └─ depends on question and policy alone ┘└ charged from here on, whatever happens

`Curator.ask` reads like this picture. What questions have in common with whole releases (finding the data, charging,
keeping) is in `hush.curator.access`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from hush.core import Number, nonnegative
from hush.curator.access import Accounts, Parameters
from hush.curator.answer import Answer, Money
from hush.curator.data_sets import OpenDataSet
from hush.curator.outputs import estimate_outputs, read_groups, with_intervals
from hush.curator.release import release
from hush.curator.whole_releases import WholeReleases
from hush.engines.base import AnyEngine, Compiled
from hush.ledger import Repeat, RequestConflictError
from hush.ledger.shares import Outlook
from hush.query.builder import Builder
from hush.query.builder import table as start
from hush.query.composed import Composed
from hush.query.errors import QuestionError, UnknownTableError, did_you_mean
from hush.query.plan import Plan, plan
from hush.query.plan.composed import ComposedPlan, plan_composed
from hush.query.question import Question, fingerprint

if TYPE_CHECKING:
    from hush.curator.bounding import Bounding
    from hush.curator.explanation import Explanation
    from hush.query.plan.limits import TighterLimits
    from hush.query.sql.migration import PrivacyOptions

KEY_PART = Fraction(1, 100)
"""Private keys take this part of the budget's δ, unless the question says otherwise. An account sets a part of δ aside
for them (a quarter, where it is not a plain sum of ε), so that many questions may group by private keys."""


class Terms(TypedDict, total=False):
    """On which terms a question is asked: price or accuracy, how often its error bars hold, how much of a unit counts.

    ``max_rows`` and ``max_groups`` may tighten the limits of the policy, never widen them.
    """

    epsilon: Number | None
    accuracy: Number | tuple[Number, Number] | None
    delta: Number | None
    confidence: Number | None
    max_rows: int | None
    max_groups: int | None
    keys: str | None


class PlannedQuestion(NamedTuple):
    """A question that could be asked: its data set, and how it would be answered. Nothing was read or charged."""

    data_set: OpenDataSet
    plan: Plan | ComposedPlan


class Curator(WholeReleases):
    """Answers one analyst's questions within their budget.

    >>> import hush
    >>> with hush.protect({"age": [30, 40, 50]}, bounds={"age": (0, 120)}, budget="1") as curator:
    ...     answer = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.25")
    ...     float(curator.budget()[0].remaining.epsilon)
    0.75
    """

    # asking

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table; finish it with ``.ask(epsilon=…)`` or ``.explain(epsilon=…)``."""
        return start(name, alias, asker=self)

    def plan(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        data: str | None = None,
        dialect: str = "duckdb",
        **terms: Unpack[Terms],
    ) -> PlannedQuestion:
        """Plan a question as `ask` would answer it. Reads no data and spends nothing."""
        data_set, asked = self._parse_with_terms(question, parameters, data, dialect, terms)
        return PlannedQuestion(data_set, _planned(asked, data_set, self.accounts(data_set.schema.data), terms))

    def _parse_with_terms(
        self, question: str | Builder, parameters: Parameters, data: str | None, dialect: str, terms: Terms
    ) -> tuple[OpenDataSet, Question | Composed]:
        """Return a data set and a question; terms of its own go to the others, and its unit must be the policy's."""
        question, options = _own_terms(question, dialect, terms)
        data_set, asked = self.parse(question, parameters, data, dialect)
        if options.unit is not None and options.unit.casefold() != str(data_set.schema.unit or "").casefold():
            raise QuestionError(
                f"The privacy unit is {options.unit}, and the policy's is {data_set.schema.unit or 'each row'}.",
                "Name the policy's, or leave privacy_unit_column out.",
            )
        return data_set, asked

    def at_prices(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        epsilons: Sequence[Number],
        data: str | None = None,
        dialect: str = "duckdb",
        **terms: Unpack[Terms],
    ) -> list[Explanation]:
        """Explain a question at several prices, which reads it once. Reads no data and spends nothing."""
        with self.in_use():
            data_set, asked = self._parse_with_terms(question, parameters, data, dialect, terms)
            accounts = self.accounts(data_set.schema.data)
            plans = [_planned(asked, data_set, accounts, terms | Terms(epsilon=price)) for price in epsilons]
            notes = _written_notes(data_set, plans[0]) if plans else ()
        return [_in_words(plan, notes) for plan in plans]

    def explain(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        epsilon: Number | None = None,
        accuracy: Number | tuple[Number, Number] | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        max_rows: int | None = None,
        max_groups: int | None = None,
        keys: str | None = None,
        data: str | None = None,
        dialect: str = "duckdb",
    ) -> Explanation:
        """Say what a question would cost and how accurate it would be. Reads no data and spends nothing.

        It also says how accurate it would be at tighter limits, ``max_rows`` and ``max_groups``, for the same price.
        """
        terms = Terms(epsilon=epsilon, accuracy=accuracy, delta=delta, confidence=confidence)
        terms |= Terms(max_rows=max_rows, max_groups=max_groups, keys=keys)
        with self.in_use():
            data_set, plan = self.plan(question, parameters, data=data, dialect=dialect, **terms)
            notes = _written_notes(data_set, plan)
            accounts = self.accounts(data_set.schema.data)
            if isinstance(plan, ComposedPlan):
                return _in_words(plan, notes, outlook=accounts.outlook(plan.events))
            paid = Terms(epsilon=plan.epsilon, delta=delta, confidence=plan.confidence, keys=keys)
            rungs = [
                _planned(plan.question, data_set, accounts, paid | _limits(rung))
                for rung in plan.extraction.limits.rungs()
                if plan.epsilon  # what costs nothing has no error to be traded
            ]
            tighter = tuple(rung for rung in rungs if isinstance(rung, Plan))
        return _in_words(plan, notes, tighter, outlook=accounts.outlook(plan.events))

    def ask(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        epsilon: Number | None = None,
        accuracy: Number | tuple[Number, Number] | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        max_rows: int | None = None,
        max_groups: int | None = None,
        keys: str | None = None,
        data: str | None = None,
        request: str | None = None,
        fresh: bool = False,
        reason: str = "",
        dialect: str = "duckdb",
    ) -> Answer:
        """Answer a question, and charge it.

        The same question asked again, in whatever spelling, brings back the answer that was paid for, free of charge.

        Parameters
        ----------
        question
            SQL, or a question built with `table`.
        parameters
            The values of ``?`` or ``$name`` in the SQL.
        epsilon
            What the whole question costs.
        accuracy
            Instead of ``epsilon``: (half-width, confidence) that every COUNT and SUM must reach, and what is made of
            them by adding and constants; or a number, at 0.95.
        delta
            What private keys may use of δ; by default a hundredth of the budget's.
        confidence
            How often an error bar holds: that of ``accuracy``, else 0.95. The price does not depend on it.
        max_rows, max_groups
            Of how many rows in a group, and in how many groups, a unit counts; at most what the policy declares. Fewer
            mean less noise, but what is left out is missing in the answer. `explain` shows the error at several.
        keys
            "public" to list all keys that are public, also where they are many; "private" to choose those that enough
            units have. Without it up to 10,000 public keys are listed.
        data
            Which data set, where the analyst has several and the tables' names do not tell.
        request
            An id of the asker's own: asked again with the same id, the stored answer comes back, free of charge, and
            at its own confidence; to ask for another one is refused.
        fresh
            Whether to ask anew, with new noise and a new charge, what was answered before.
        reason
            Why this is asked, for the owner, where the policy parks dear questions until they are approved.
        dialect
            Whose spelling the SQL has: "duckdb", "bigquery", "snowflake", "postgres", "spark" or "tsql".
        """
        terms = Terms(epsilon=epsilon, accuracy=accuracy, delta=delta, confidence=confidence)
        terms |= Terms(max_rows=max_rows, max_groups=max_groups, keys=keys)
        with self.in_use():
            data_set, plan = self.plan(question, parameters, data=data, dialect=dialect, **terms)
            data, engine = data_set.schema.data, data_set.engine
            compute = computing(plan, engine)
            if not plan.events:  # public keys alone: no row is read, and nothing is charged
                return replace(compute(), remaining=self.accounts(data).remaining, made_up=self.made_up)
            text = _with_limits(
                plan.question.text or str(question), max_rows=max_rows, max_groups=max_groups, keys=keys
            )
            repeat = Repeat(question=same_question(data_set, plan), fresh=fresh, shared=data_set.share)
            reservation = self.charge(data, text, plan.events, request, repeat, epsilon=plan.epsilon, reason=reason)
            if reservation.answer is None:
                answer = self.keep(reservation, compute, Answer.to_bytes)
            else:
                answer = Answer.from_bytes(reservation.answer)
                _check_confidence(answer, plan, request, asked=confidence is not None)
            remaining = self.accounts(data).remaining
            if self.made_up:
                return replace(answer, made_up=True)
            return replace(
                answer,
                receipt=str(reservation.number),
                remaining=remaining,
                spending=self._ledger.spending(reservation.number),
                repeated=reservation.when,
                shared=reservation.shared,
            )

    def dummy(self) -> Curator:
        """Return a curator for the same questions on made-up rows: free, without a ledger, and marked as such."""
        from hush.curator.made_up import MadeUpAccess

        class MadeUpCurator(MadeUpAccess, Curator):
            """Answers questions about made-up rows."""

        with self.in_use():
            return MadeUpCurator(self, self._ledger)

    def bounding(
        self,
        table: str,
        *,
        by: str | None = None,
        epsilon: Number,
        quantile: Number | None = None,
        data: str | None = None,
    ) -> Bounding:
        """Estimate how much the bounds of a table cut, and propose others; two questions of half the price each.

        Parameters
        ----------
        table
            A private table whose rows belong to units.
        by
            The column whose values are the groups: how many of its groups units lose by ``max_groups``. Without it, how
            many of their rows they lose by ``max_rows``, in questions without groups.
        epsilon
            What both questions cost together.
        quantile
            The proposal is the least bound that this part of the units does not exceed: 0.95 if not said.
        data
            Which data set, where several have a table of this name.
        """
        from hush.curator.bounding import estimate

        data_sets = [data_set for name, data_set in self.data_sets.items() if data in {None, name}]
        data_set = next((data_set for data_set in data_sets if table in data_set.schema.tables), None)
        if data_set is None:
            known = [
                name for data_set in data_sets for name, table_ in data_set.schema.tables.items() if not table_.public
            ]
            raise UnknownTableError(f"There is no table {table!r}.", did_you_mean(str(table), known))
        bounding = estimate(self, data_set.schema, table, by=by, epsilon=epsilon, quantile=quantile)
        if bounding.beyond is not None:  # as if it stood in the policy, as long as this curator lives
            schema = data_set.schema
            others = (beyond for beyond in schema.tables[table].beyond if beyond.by != by)
            estimated = replace(schema.tables[table], beyond=(*others, bounding.beyond))
            schema = replace(schema, tables={**schema.tables, table: estimated})
            self.data_sets[schema.data] = replace(data_set, schema=schema)
        return bounding


def _planned(
    question: Question | Composed,
    data_set: OpenDataSet,
    accounts: Accounts,
    terms: Terms,
) -> Plan | ComposedPlan:
    """Choose the mechanisms of a question, in the currency of the accounts that it must fit."""
    said = terms.get("delta")
    key_delta = accounts.delta * KEY_PART if said is None else said
    options: dict[str, Any] = {
        **terms,
        "delta": max(accounts.delta, nonnegative(key_delta, "delta")),
        "key_delta": key_delta,
        "gaussian": accounts.take_gaussian,
        "prefer_gaussian": accounts.prefer_gaussian,
        "most_rho": accounts.most_rho,
    }
    if isinstance(question, Composed):
        return plan_composed(question, data_set.schema, **options)
    return plan(question, data_set.schema, **options)


def _limits(rung: TighterLimits) -> Terms:
    return Terms(max_rows=rung.max_rows, max_groups=rung.max_groups)


def _own_terms(question: str | Builder, dialect: str, terms: Terms) -> tuple[str | Builder, PrivacyOptions]:
    """Return a question without its own privacy clause; what it says becomes the terms, if these say nothing."""
    from hush.query.sql.migration import PrivacyOptions, privacy_options

    if not isinstance(question, str):
        return question, PrivacyOptions()
    text, options = privacy_options(question, dialect)
    said: dict[str, Any] = {"epsilon": options.epsilon, "delta": options.delta, "max_groups": options.max_groups}
    for name, value in said.items():
        given = terms.get(name)
        if value is not None and given is not None and nonnegative(given, name) != value:
            raise QuestionError(f"The question says {name} = {value}, and it is asked with {given}.", "Say it once.")
        if value is not None and not (name == "epsilon" and terms.get("accuracy") is not None):
            terms[name] = value  # type: ignore[literal-required]
    return text, options


def _written_notes(data_set: OpenDataSet, plan: Plan | ComposedPlan) -> tuple[str, ...]:
    """Return what an engine has to say of how it answers."""
    parts = plan.parts.values() if isinstance(plan, ComposedPlan) else [plan]
    return tuple(dict.fromkeys(note for part in parts for note in data_set.engine.write(part).notes))


def _in_words(
    plan: Plan | ComposedPlan,
    notes: Sequence[str],
    tighter: tuple[Plan, ...] = (),
    outlook: Outlook | None = None,
) -> Explanation:
    from hush.curator.explanation import ComposedExplanation, Explanation

    if isinstance(plan, ComposedPlan):
        return ComposedExplanation(replace(plan, notes=(*plan.notes, *notes)), outlook=outlook)
    return Explanation(replace(plan, caveats=(*plan.caveats, *notes)), tighter, outlook)


def same_question(data_set: OpenDataSet, plan: Plan | ComposedPlan) -> str:
    """Return what a question has in common with every other way to ask the same, and with nothing else.

    All of it is public: the typed tree, which data the owner says these are, the policy, the price, the confidence and
    the bounds. Estimates of what lies beyond bounds are left out, which change no answer.
    """
    schema = data_set.schema
    tables = {name: replace(table, beyond=()) for name, table in schema.tables.items()}
    parts = [plan] if isinstance(plan, Plan) else list(plan.parts.values())
    return fingerprint(
        "question",
        plan.question,
        data_set.identity,
        replace(schema, tables=tables),
        (plan.epsilon, plan.delta, plan.confidence),
        [(part.meant_at, part.extraction.limits) for part in parts],
    )


def _with_limits(text: str, **limits: int | str | None) -> str:
    """Return a question's text with the limits and keys it asked for: with others it is another question."""
    asked = ", ".join(f"{name}={value}" for name, value in limits.items() if value is not None)
    return f"{text} -- {asked}" if asked else text


def computing(plan: Plan | ComposedPlan, engine: AnyEngine) -> Callable[[], Answer]:
    """Return what computes the answer, with all statements written: nothing is left that could be refused."""
    if isinstance(plan, Plan):
        return partial(_answer, plan, engine, engine.compile(plan))
    return partial(_composed, plan, engine, {number: engine.compile(part) for number, part in plan.parts.items()})


def _composed(plan: ComposedPlan, engine: AnyEngine, compiled: Mapping[int, Compiled]) -> Answer:
    """Execute and release every question, and make the table of their answers. Call this after the charge."""
    from hush.curator.answer_tables import Composer

    read = {}
    for number, part in plan.parts.items():
        released = release(part, partial(engine.execute, compiled[number]))
        read[number] = read_groups(part, released, partial(engine.compute, compiled[number]))
    notes = dict.fromkeys(note for one in compiled.values() for note in one.notes)
    return Answer(
        columns=with_intervals(Composer(plan, read).columns(), plan.question.intervals),
        confidence=plan.confidence,
        price=Money.of(plan),
        caveats=(*plan.caveats, *notes),
        question=plan.question.text,
    )


def _answer(plan: Plan, engine: AnyEngine, compiled: Compiled) -> Answer:
    """Execute, release and estimate: from exact integers to noisy answers. Call this after the charge, never before."""
    released = release(plan, partial(engine.execute, compiled))
    columns = estimate_outputs(plan, released, partial(engine.compute, compiled))
    return Answer(
        columns=with_intervals(columns, plan.question.intervals),
        confidence=plan.confidence,
        price=Money.of(plan),
        caveats=(*plan.caveats, *compiled.notes),
        question=plan.question.text,
    )


def _check_confidence(answer: Answer, plan: Plan | ComposedPlan, request: str | None, *, asked: bool) -> None:
    """Refuse to show a stored answer's error bars as those of another confidence."""
    if asked and answer.confidence != plan.confidence:
        raise RequestConflictError(
            f"The request {request!r} was answered at a confidence of {answer.confidence:g}, "
            f"and is asked for at {plan.confidence:g}. Leave confidence out, or ask under a new request id."
        )
