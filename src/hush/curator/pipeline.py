"""The pipeline: how a question, or a whole release, goes from text to answer.

::

    parse ─► accounts ─► plan ─► prepare ─► charge ─► execute ─► release ─► estimate
    └────── depends on no private row ────┘        └ charged, whatever happens

`ask` reads like this picture, its last three steps stand in `Program.compute`, and `explain` is its beginning. Whole
releases (marginals, synthetic rows, models) and streams have other plans, and compute something else, but they are
charged and published by the same functions.

Everything that can be refused is refused before `charge`. After it nothing is refunded, and a failure shows one public
sentence: what exactly failed may depend on a row, so it goes to the owner's log. `publish` computes what was charged
for; the session's `Outlet` says when the outcome may leave.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from hush.accounting.events import Event
from hush.core import InvalidValueError, Number, nonnegative
from hush.curator.answer import Answer, Money
from hush.curator.data_sets import OpenDataSet
from hush.curator.estimates import GroupColumns, estimate_outputs, group_columns, with_intervals
from hush.curator.release import KeySelector, release
from hush.curator.session import Accounts, AnalystSession, MadeUpError
from hush.curator.terms import PRICE, QuestionOrder, QuestionTerms
from hush.engines.errors import EngineError
from hush.engines.registry import SqlEngine, Statements
from hush.ledger import ApprovalNeededError, Charge, Parked, Repeat, Replay, RequestConflictError, Share
from hush.query.errors import QuestionError
from hush.query.parameters import to_wire
from hush.query.plan import Plan
from hush.query.plan import plan as plan_question
from hush.query.question import Question, fingerprint
from hush.query.relations import awaited_by, with_answers
from hush.query.schema import Schema
from hush.query.types import Kind, Value
from hush.report.columns import AnswerColumn

if TYPE_CHECKING:
    from hush.curator.explanation import Explanation
    from hush.query.answers.plan import ComposedPlan
    from hush.query.answers.tree import Composed

log = logging.getLogger("hush.curator")
Result = TypeVar("Result")
KEY_PART = Fraction(1, 100)
"""Private keys take this part of the budget's δ, unless the question says otherwise. An account sets a part of δ aside
for them (a quarter, where it is not a plain sum of ε), so that many questions may group by private keys."""


class PlannedQuestion(NamedTuple):
    """A question that could be asked: its data set, and how it would be answered. Nothing was read or charged."""

    data_set: OpenDataSet
    plan: Plan | ComposedPlan


# the way of one question


def ask(session: AnalystSession, order: QuestionOrder) -> Answer:
    """Answer a question, and charge it; a question that was paid for before returns its stored answer."""
    with session.in_use():
        data_set, question, terms = parse(session, order)
        data, accounts = data_set.schema.data, session.accounts(data_set.schema.data)
        question_plan = plan(question, data_set, accounts, terms)
        # before the charge: a statement that the engine refuses must cost nothing
        program, kept_terms = prepare(question_plan, data_set), _kept_terms(terms, question_plan)
        # nothing to pay: no row is read for public keys alone, and invented rows reveal nobody
        if session.made_up or not question_plan.events:
            remaining = None if question_plan.events else accounts.remaining
            return replace(program.compute(), remaining=remaining, made_up=session.made_up)
        limited = ", ".join([f"{name}={value}" for name, value in terms.limits().items()])
        text = question_plan.question.text or str(order.question)
        decision = charge(
            session,
            data_set,
            question_plan.events,
            text=f"{text} -- {limited}" if limited else text,
            same=same_question(data_set, question_plan),
            request=order.request,
            fresh=order.fresh,
            epsilon=question_plan.epsilon,
            reason=order.reason,
        )
        match decision:
            case Charge():
                compute = partial(program.compute, kept_terms)
                answer = publish(session, decision, compute, Answer.to_bytes, program.seconds)
            case Replay() | Share():
                stored = Answer.from_bytes(decision.answer)
                if order.confidence is not None and stored.confidence != question_plan.confidence:
                    raise RequestConflictError(
                        f"The request {order.request!r} was answered at a confidence of {stored.confidence:g}, and is "
                        f"asked for at {question_plan.confidence:g}. Leave confidence out, or ask under a new request "
                        "id."
                    )
                answer = replace(stored, repeated=decision.when, shared=isinstance(decision, Share))
        return replace(
            answer,
            receipt=str(decision.number),
            remaining=session.accounts(data, again=True).remaining,
            spending=session.ledger.spending(decision.number),
        )


def explain(session: AnalystSession, terms: QuestionTerms, accounts: Accounts | None = None) -> Explanation:
    """Explain a question: its price and its half-widths, also at tighter limits. Reads no private row.

    It must fit ``accounts``: those of the session's analyst, unless others are given.
    """
    from hush.curator.explanation import Explanation

    with session.in_use():
        data_set, question, terms = parse(session, terms)
        accounts = accounts or session.accounts(data_set.schema.data)
        question_plan = plan(question, data_set, accounts, terms)
        tighter = []
        if isinstance(question_plan, Plan) and question_plan.epsilon:  # a free question has no error to be traded
            for max_rows, max_groups in question_plan.exact_query.limits.rungs():
                paid = replace(terms, epsilon=question_plan.epsilon, accuracy=None, confidence=question_plan.confidence)
                paid = replace(paid, max_rows=max_rows, max_groups=max_groups)
                tighter.append(plan(question, data_set, accounts, paid))
        outlook, notes = accounts.outlook(question_plan.events), _notes(data_set, question_plan)
        return Explanation(question_plan, tuple(cast("list[Plan]", tighter)), outlook, notes)


def explain_at_prices(session: AnalystSession, terms: QuestionTerms, epsilons: Sequence[Number]) -> list[Explanation]:
    """Explain a question at several prices; it is parsed once. Reads no private row."""
    from hush.curator.explanation import Explanation

    with session.in_use():
        data_set, question, terms = parse(session, terms)
        accounts = session.accounts(data_set.schema.data)
        plans = [plan(question, data_set, accounts, replace(terms, epsilon=price)) for price in epsilons]
        notes = _notes(data_set, plans[0]) if plans else ()
    return [Explanation(each, outlook=accounts.outlook(each.events), notes=notes) for each in plans]


def parse(session: AnalystSession, terms: QuestionTerms) -> tuple[OpenDataSet, Question | Composed, QuestionTerms]:
    """Return the data set of a question, the question as a typed tree, and its terms.

    A privacy clause in the text (BigQuery's) is taken out of it and becomes terms.
    """
    question, unit = terms.question, None
    if isinstance(question, str) and str(terms.dialect).lower() == "bigquery":
        from hush.query.sql.dialects import privacy_options

        clause = privacy_options(question)
        unit, stated = clause.unit, dict[str, Any]()
        for name in ("epsilon", "delta", "max_groups"):
            number, value = getattr(clause, name), getattr(terms, name)
            if number is not None and value is not None and nonnegative(value, name) != number:
                raise QuestionError(
                    f"The question says {name} = {number}, and it is asked with {value}.", "Say it once."
                )
            # the accuracy decides the price; an ε beside it would contradict
            if number is not None and (name != "epsilon" or terms.accuracy is None):
                stated[name] = number
        terms = replace(terms, **stated) if stated else terms
    elif not isinstance(question, str):
        from hush.query.builder import Builder

        if not isinstance(question, Builder):
            raise InvalidValueError("question", got=question, allowed="SQL as text, or a question built with table(…)")

    def read(schema: Schema) -> Question | Composed:
        if not isinstance(question, str):
            return question.question(schema)
        from hush.query.sql import parse

        return parse(question, schema, terms.parameters, terms.dialect)

    data_set, parsed = session.parse(read, terms.data)
    if unit is not None and unit.casefold() != str(data_set.schema.unit or "").casefold():
        raise QuestionError(
            f"The privacy unit is {unit}, and the policy's is {data_set.schema.unit or 'each row'}.",
            "Name the policy's, or leave privacy_unit_column out.",
        )
    return data_set, parsed, terms


def plan(
    question: Question | Composed, data_set: OpenDataSet, accounts: Accounts, terms: QuestionTerms
) -> Plan | ComposedPlan:
    """Choose mechanisms for a question, in the currency of the accounts that it must fit. Reads public tables alone."""
    key_delta = accounts.delta * KEY_PART if terms.delta is None else terms.delta
    options: dict[str, Any] = {
        "epsilon": terms.epsilon,
        "accuracy": terms.accuracy,
        "confidence": terms.confidence,
        "max_rows": terms.max_rows,
        "max_groups": terms.max_groups,
        "keys": terms.keys,
        "delta": max(accounts.delta, nonnegative(key_delta, "delta")),
        "key_delta": key_delta,
        "gaussian": accounts.take_gaussian,
        "prefer_gaussian": accounts.prefer_gaussian,
        "most_rho": accounts.most_rho,
        "matches": data_set.engine.matches,
    }
    if isinstance(question, Question):
        return plan_question(question, data_set.schema, **options)
    from hush.query.answers.plan import plan_composed

    return plan_composed(question, data_set.schema, **options)


def prepare(chosen: Plan | ComposedPlan, data_set: OpenDataSet) -> Program:
    """Write and resolve every statement of a plan; refuse a statement that the engine cannot execute."""
    statements, seconds = {}, 0.0
    for number, part in chosen.parts.items():
        if awaited := awaited_by(part.question.relation):
            # numbers that are released first: the longest of all is written, so that no other can be refused later
            longest = {index: _LONGEST.get(kind, _LONGEST_NUMBER) for index, kind in awaited.items()}
            part = with_numbers(part, longest)  # noqa: PLW2901
        statements[number] = data_set.engine.prepare(part)
        seconds += statements[number].effort.seconds(data_set.sizes)
    return Program(plan=chosen, engine=data_set.engine, statements=statements, seconds=seconds)


class Program(NamedTuple):
    """A plan with all its statements: nothing is left that could be refused."""

    plan: Plan | ComposedPlan
    engine: SqlEngine
    statements: Mapping[int, Statements]
    """Those of each question about rows, by its number."""
    seconds: float
    """How long the work should take, by public figures."""

    def compute(self, terms: Mapping[str, Any] | None = None) -> Answer:
        """Execute, release and estimate, after the charge and never before. The terms are kept with the answer."""
        groups: dict[int, GroupColumns] = {}
        notes: dict[str, None] = {}
        for number, part in self.plan.parts.items():
            statements = self.statements[number]
            if awaited := awaited_by(part.question.relation):
                # the same statements, with numbers that were released before
                numbers = {index: self._released(index, groups) for index in awaited}
                part = with_numbers(part, numbers)  # noqa: PLW2901
                statements = self.engine.prepare(part)
            # private keys: the engine shows the selector how many units each group has, and returns what it selects
            selector = KeySelector.of(part)
            exact = self.engine.execute(statements, selector)
            noisy = release(part, exact, selector)
            groups[number] = group_columns(part, noisy, partial(self.engine.compute, statements))
            notes |= dict.fromkeys(statements.notes)
        return Answer(
            columns=estimate(self.plan, groups),
            confidence=self.plan.confidence,
            price=Money(epsilon=self.plan.epsilon, delta=self.plan.delta, items=tuple(self.plan.items)),
            caveats=(*self.plan.caveats, *notes),
            question=self.plan.question.text,
            terms=terms,
        )

    def _released(self, place: int, groups: Mapping[int, GroupColumns]) -> Value:
        """Return a released number that rows are compared with: the decimal that is shown; NULL where there is none."""
        assert not isinstance(self.plan, Plan)  # noqa: S101 - a question about rows alone awaits no other
        table, column = self.plan.question.awaited[place]
        single = replace(self.plan, question=replace(self.plan.question, table=table, outputs=(("", column),)))
        value = estimate(single, groups)[0].values[0]
        if not isinstance(value, int | float):
            return cast("Value", value)
        return Fraction(str(value)) if math.isfinite(value) else None


_LONGEST: dict[Kind, Value] = {
    Kind.DATE: dt.date(2000, 1, 1),
    Kind.TIMESTAMP: dt.datetime(2000, 1, 1, microsecond=1),  # noqa: DTZ001 - as they are stored
}
_LONGEST_NUMBER = Fraction(-2.2250738585072014e-308)
"""For each kind, a value with the longest text: no other value of the kind is written longer."""


def with_numbers(part: Plan, numbers: Mapping[int, Value]) -> Plan:
    """Return a plan with the released numbers filled in that its rows are compared with."""
    relation, exact_query = part.question.relation, part.exact_query
    return replace(
        part,
        question=replace(part.question, relation=with_answers(relation, numbers)),
        exact_query=replace(exact_query, relation=with_answers(exact_query.relation, numbers)),
    )


def charge(
    session: AnalystSession,
    data_set: OpenDataSet,
    events: Sequence[Event],
    *,
    text: str,
    same: str | None = None,
    request: str | None = None,
    fresh: bool = False,
    epsilon: Fraction | None = None,
    reason: str = "",
) -> Charge | Replay | Share:
    """Charge events to a data set and an analyst, durably; an answered request returns its stored answer.

    ``same`` is equal for two requests if and only if they ask for the same: then one answer serves both. None where
    nothing is answered a second time.
    """
    if session.made_up:
        raise MadeUpError
    repeat = None if same is None else Repeat(question=same, fresh=fresh, shared=data_set.share)
    # the last point at which an asker who cancels pays nothing
    session.outlet.before_charge()
    decision = session.ledger.reserve(
        uuid.uuid4().hex if request is None else request,
        analyst=session.analyst,
        data=data_set.schema.data,
        question=text,
        events=list(events),
        repeat=repeat,
        epsilon=epsilon,
        reason=reason,
    )
    # nothing was charged: the owner has to approve the price first
    if isinstance(decision, Parked):
        raise ApprovalNeededError(decision.message, decision.number)
    session.outlet.after_charge()
    return decision


def publish(
    session: AnalystSession,
    charged: Charge | None,
    compute: Callable[[], Result],
    to_bytes: Callable[[Result], bytes] | None,
    seconds: float = 0.0,
) -> Result:
    """Do the charged work, and record its outcome when it leaves; a failure shows one public sentence.

    Without a charge the work is within an earlier charge, such as a further period of a stream.
    """

    def fail() -> None:
        assert charged is not None  # noqa: S101 - the callers looked
        session.ledger.failed(charged, "no answer could be computed")

    session.outlet.begin(seconds, None if charged is None else fail)
    failure: BaseException | None = None
    try:
        result = compute()
        # within the block: an answer that cannot be stored is a failure as well
        stored = b"" if to_bytes is None else to_bytes(result)
    except BaseException as error:  # noqa: BLE001 - it is looked at when the outcome may leave
        failure = error
    # a failure waits as long as an answer: the time at which it leaves must not depend on rows
    if not session.outlet.wait():
        raise EngineError
    if failure is None:
        if charged is not None:
            session.ledger.answered(charged, stored)
        return result
    if charged is not None:
        fail()
        if not isinstance(failure, Exception):
            note = f"The question was interrupted after its charge, and stays charged: {charged.number}"
            failure.add_note(note)
    if not isinstance(failure, Exception):
        raise failure
    # an engine has logged its own failures
    if not isinstance(failure, EngineError):
        log.debug("a question failed after its charge", exc_info=failure)
    # without its cause, which may depend on a row
    raise EngineError from None


def estimate(chosen: Plan | ComposedPlan, groups: Mapping[int, GroupColumns]) -> tuple[AnswerColumn, ...]:
    """Return the columns of an answer with their error bars, from released groups. Everything here is public."""
    if isinstance(chosen, Plan):
        columns = estimate_outputs(groups[0])
    else:
        from hush.curator.composed import Composer

        columns = Composer(chosen, groups).columns()
    return with_intervals(columns, chosen.question.intervals) if chosen.question.intervals else columns


def same_question(data_set: OpenDataSet, chosen: Plan | ComposedPlan) -> str:
    """Return the fingerprint of a question: equal for equal requests under one policy, and different otherwise.

    All of it is public: the typed tree, which data the owner says these are, the policy, the price, the confidence and
    the bounds.
    """
    return fingerprint(
        "question",
        chosen.question,
        data_set.identity,
        data_set.schema,
        (chosen.epsilon, chosen.delta, chosen.confidence),
        [(part.meant_at, part.exact_query.limits) for part in chosen.parts.values()],
    )


def _kept_terms(terms: QuestionTerms, chosen: Plan | ComposedPlan) -> dict[str, Any] | None:
    """Return the terms of a question but its price, as JSON values; None where its parameters have no JSON."""
    given = terms.given(but=PRICE)
    if not isinstance(terms.question, str):
        given |= {"question": str(terms.question), "parameters": terms.question.values}
    if terms.delta is not None:
        given["delta"] = str(nonnegative(terms.delta, "delta"))
    try:
        written: dict[str, Any] = to_wire(given)
    except QuestionError:
        return None
    return written | {"confidence": chosen.confidence}


def _notes(data_set: OpenDataSet, chosen: Plan | ComposedPlan) -> tuple[str, ...]:
    """Return an engine's notes on how it answers."""
    parts = chosen.parts.values()
    return tuple(dict.fromkeys(note for part in parts for note in data_set.engine.render(part).notes))
