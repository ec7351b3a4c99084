"""The plan of a question about answers: a plan for each finished question, which share ε.

**Shares.** The questions together cost ε, by the sum (basic composition): each gets a share by how many aggregates it
has. δ is shared alike, equally.

**Adding up.** The levels of a ROLLUP are several questions. Where the keys of a finer level are public, all of them are
released, and a coarser level is the sum of its groups: it costs nothing and fits together with the finer one. That
works for whatever is made of sums over rows: counts, sums, means, variances. It does not for units and distinct values,
which may be in several groups, nor for quantiles: these levels are asked apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, cast

from hush.accounting.events import Event
from hush.core import InvalidValueError, Number, nonnegative, positive
from hush.core.values import dataclass
from hush.mechanisms.grouped import GroupedNoise, SummedNoise
from hush.query.composed import (
    AnswerTable,
    Asked,
    Composed,
    Computed,
    Matched,
    Qualified,
    Regrouped,
    Sorted,
    Stacked,
    Windowed,
    chosen_by_noise,
    columns_of,
    walk,
)
from hush.query.errors import TooSmallError, UnplannableError
from hush.query.expressions import Column, Expression, Released, columns_in, substituted, with_columns
from hush.query.plan import confident, plan, smallest, width_and_confidence
from hush.query.plan.domains import Listed, domains
from hush.query.plan.expected import expected_error
from hush.query.plan.plan import Item, Plan
from hush.query.question import AggregateKind, Question
from hush.query.schema import Schema

_K = AggregateKind
ADDITIVE = frozenset(
    {
        _K.COUNT,
        _K.SUM,
        _K.AVG,
        _K.VARIANCE,
        _K.VARIANCE_POPULATION,
        _K.COVARIANCE,
        _K.COVARIANCE_POPULATION,
        _K.CORRELATION,
    }
)
"""Aggregates that are made of sums over rows, so that those of several groups are known from the groups'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedPlan:
    """Everything about a question about answers that is public."""

    question: Composed
    """Its table reads the questions that are asked, and adds up the levels that are not."""
    parts: Mapping[int, Plan]
    """The plan of each question that is asked, by its number."""
    epsilon: Fraction
    confidence: float
    notes: tuple[str, ...] = ()

    @property
    def delta(self) -> Fraction:
        """What the questions take of the budget's δ: what choosing private keys needs."""
        return sum((part.delta for part in self.parts.values()), Fraction(0))

    @property
    def events(self) -> tuple[Event, ...]:
        """What is charged."""
        return tuple(event for part in self.parts.values() for event in part.events)

    @property
    def items(self) -> tuple[Item, ...]:
        """What is paid for, question by question."""
        many = len(self.parts) > 1
        return tuple(
            replace(item, what=f"{item.what}{_by(part) if many else ''}")
            for part in self.parts.values()
            for item in part.items
        )

    @property
    def caveats(self) -> tuple[str, ...]:
        """What can bias the answers, each once."""
        return tuple(dict.fromkeys([*(line for part in self.parts.values() for line in part.caveats), *self.notes]))


def _by(part: Plan) -> str:
    keys = [name for name, _ in part.question.keys]
    return f" by {', '.join(keys)}" if keys else " over all rows"


def plan_composed(
    question: Composed,
    schema: Schema,
    *,
    epsilon: Number | None = None,
    accuracy: Number | tuple[Number, Number] | None = None,
    delta: Number = 0,
    key_delta: Number | None = None,
    confidence: Number | None = None,
    **options: Any,
) -> ComposedPlan:
    """Plan the questions of a question about answers; the arguments are those of `hush.query.plan.plan`."""
    if (epsilon is None) == (accuracy is None):
        got, hint = "both" if accuracy is not None else "neither", "Say for instance epsilon 0.1, or accuracy 50."
        raise InvalidValueError("epsilon", got=got, allowed="given, or accuracy in its place", hint=hint)
    question, slip = _added_up(question), nonnegative(delta, "delta")
    keys = slip / 2 if key_delta is None else nonnegative(key_delta, "key_delta")

    def planned(price: Fraction, confidence: Number | None) -> ComposedPlan:
        return _at_price(question, schema, price, slip, keys, confidence, options)

    if epsilon is not None:
        return planned(positive(epsilon, "epsilon"), confidence)
    width, wanted = width_and_confidence(accuracy)
    price = smallest(lambda price: _reaches(planned, price, width, wanted))
    if price is None:
        raise UnplannableError(f"no ε up to 10⁶ makes the error as small as ±{width}; ask for less accuracy")
    return planned(price, wanted if confidence is None else confidence)


def _reaches(
    planned: Callable[[Fraction, Number | None], ComposedPlan], price: Fraction, width: Fraction, confidence: float
) -> bool:
    """Return whether every result whose error is known in advance is as accurate as asked, at a price."""
    try:
        candidate = planned(price, confidence)
    except TooSmallError:
        return False
    table = candidate.question.table
    if chosen_by_noise(table):
        raise UnplannableError(
            "accuracy= cannot be promised where noise decides which rows are shown: nobody knows in advance how many "
            "there are to choose from; give epsilon= instead, or leave out LIMIT, HAVING or WHERE, which costs nothing"
        )
    columns = {column.name: column for column in columns_of(table)}
    known = []
    for label, name in candidate.question.outputs:
        if not columns[name].noisy:
            continue
        error = widest_error(candidate, name)
        if error is None:
            raise UnplannableError(
                f"accuracy= is about counts, sums, and sums and differences of these, which {label} is not; "
                "give epsilon= instead, or ask for what it is computed from"
            )
        known.append(error)
    if not known:
        raise UnplannableError("accuracy= needs a COUNT or SUM whose error is known in advance; give epsilon= instead")
    return max(known) <= width


def _at_price(
    question: Composed,
    schema: Schema,
    price: Fraction,
    slip: Fraction,
    keys: Fraction,
    confidence: Number | None,
    options: Mapping[str, Any],
) -> ComposedPlan:
    """Return the plan at a price, which the questions share by the number of their aggregates."""
    numbers = sorted({node.question for node in walk(question.table) if isinstance(node, Asked)})
    private = [number for number in numbers if _private(question.questions[number])]
    weights = {number: Fraction(_weight(question.questions[number])) for number in numbers}
    total = sum(weights.values(), Fraction(0))
    parts = {}
    for number in numbers:
        share = price * weights[number] / total if total else price
        parts[number] = plan(
            question.questions[number],
            schema,
            epsilon=share or price,
            delta=slip / len(numbers),
            key_delta=keys / max(len(private), 1) if number in private else Fraction(0),
            confidence=confidence,
            **options,
        )
    return ComposedPlan(
        question=question,
        parts=MappingProxyType(parts),
        epsilon=sum((part.epsilon for part in parts.values()), Fraction(0)),
        confidence=confident(confidence),
        notes=tuple(_notes(question)),
    )


def _weight(question: Question) -> Fraction:
    """Return the share of a question: its aggregates, and half of one for choosing keys; public keys alone are free."""
    return len(question.aggregates) + (Fraction(1, 2) if _private(question) else Fraction(0))


def _private(question: Question) -> bool:
    return bool(question.keys) and domains(question.keys, question.relation) is None


def _notes(question: Composed) -> list[str]:
    nodes = list(walk(question.table))
    lines = []
    if any(isinstance(node, Asked) and node.added_up is not None for node in nodes):
        lines.append("totals are the sums of the groups that are listed, and cost nothing")
    asked = [node.question for node in nodes if isinstance(node, Asked) and node.added_up is None]
    if any(isinstance(node, Stacked) and node.levels for node in nodes) and len(set(asked)) > 1:
        lines.append("levels that are asked apart have noise of their own, so they need not add up")
    if chosen_by_noise(question.table):
        lines.append(
            "noise has a part in which rows are shown: their ± is wider than of rows named beforehand, so that of "
            "those shown as few miss as the confidence says, on average over answers"
        )
    return lines


# adding up


def _added_up(question: Composed) -> Composed:
    """Return a question that adds up the levels which follow from finer ones, instead of asking them."""
    questions = list(question.questions)
    from_finer: dict[int, tuple[int, tuple[int, ...]]] = {}
    for node in walk(question.table):
        levels = _levels(node)
        for number in levels:
            coarse = questions[number]
            finer = [other for other in levels if _follows(coarse, questions[other])]
            if finer:
                source = max(finer, key=lambda other: len(questions[other].keys))
                known = [one for _, one in questions[source].keys]
                from_finer[number] = source, tuple(known.index(one) for _, one in coarse.keys)
    for number, (source, places) in from_finer.items():
        more = questions[number].outputs[len(places) + len(questions[number].aggregates) :]
        outputs = [(name, _moved(one, places)) for name, one in more]
        questions[source] = replace(questions[source], outputs=(*questions[source].outputs, *outputs))
    table = _with_sums(question.table, from_finer) if from_finer else question.table
    return replace(question, questions=tuple(questions), table=table)


def _levels(table: AnswerTable) -> set[int]:
    """Return the questions that are levels of one ROLLUP."""
    if not isinstance(table, Stacked) or not table.levels:
        return set()
    inner = (source.source if isinstance(source, Computed) else source for source in table.sources)
    return {one.question for one in inner if isinstance(one, Asked)}


def _follows(coarse: Question, fine: Question) -> bool:
    """Return whether one level's answers are sums of those of another, whose groups are all released."""
    known = [one for _, one in fine.keys]
    return (
        len(fine.keys) > len(coarse.keys)
        and coarse.aggregates == fine.aggregates
        and all(one in known for _, one in coarse.keys)
        and bool(coarse.aggregates)
        and all(aggregate.kind in ADDITIVE for aggregate in coarse.aggregates)
        and domains(fine.keys, fine.relation) is not None
    )


def _moved(expression: Expression, places: tuple[int, ...]) -> Expression:
    """Return an expression over the keys of a finer level."""

    def place(piece: Expression) -> Expression | None:
        return Released(piece.source, places[piece.index], piece.type) if isinstance(piece, Released) else None

    return substituted(expression, place)


def _with_sums(table: AnswerTable, from_finer: Mapping[int, tuple[int, tuple[int, ...]]]) -> AnswerTable:
    match table:
        case Asked():
            if table.question not in from_finer:
                return table
            source, places = from_finer[table.question]
            return replace(table, question=source, added_up=places)
        case Stacked():
            return replace(table, sources=tuple(_with_sums(one, from_finer) for one in table.sources))
        case Matched():
            left, right = (_with_sums(one, from_finer) for one in (table.left, table.right))
            return replace(table, left=left, right=right)
        case Qualified() | Computed() | Windowed() | Regrouped() | Sorted():
            return replace(table, source=_with_sums(table.source, from_finer))


# errors in advance


def widest_error(plan: ComposedPlan, name: str) -> float | None:
    """Return the widest half-width of a column that is made of counts and sums, row by row; None if it is not known."""
    widths = []
    for number, added_up, expression in _meanings(plan.question, plan.question.table).get(name, []):
        summed = _summed(plan.parts[number], added_up)
        width = None if summed is None else expected_error(summed, expression)
        if width is None:
            return None
        widths.append(width)
    return max(widths, default=None)


_Meaning = tuple[int, tuple[int, ...] | None, Expression]


def _meanings(question: Composed, table: AnswerTable) -> dict[str, list[_Meaning]]:
    """Return for each column the expressions over what single questions released that it is; none where it is not."""
    match table:
        case Asked():
            outputs = question.questions[table.question].outputs
            if table.added_up is not None:
                released = [Released("key", place, table.columns[at].type) for at, place in enumerate(table.added_up)]
                many = len(table.columns) - len(released)
                released += [Released("aggregate", at, table.columns[len(released) + at].type) for at in range(many)]
                outputs = tuple(("", one) for one in released)
            return {
                column.name: [(table.question, table.added_up, one)]
                for column, (_, one) in zip(table.columns, outputs, strict=False)
            }
        case Qualified() | Sorted() | Windowed():
            return _meanings(question, table.source)
        case Computed():
            known = _meanings(question, table.source)
            return {name: _through(one, known) for name, one in table.columns}
        case Stacked():
            found = [list(_meanings(question, source).values()) for source in table.sources]
            return {
                column.name: [one for columns in found for one in columns[place]]
                if all(columns[place] for columns in found)
                else []
                for place, column in enumerate(table.columns)
            }
        case Matched():
            return _meanings(question, table.left) | _meanings(question, table.right)
        case Regrouped():
            return {}


def _through(expression: Expression, known: Mapping[str, list[_Meaning]]) -> list[_Meaning]:
    used = [known.get(name, []) for name in sorted(columns_in(expression))]
    if any(len(one) != 1 for one in used) or len({one[0][:2] for one in used}) != 1:
        return known.get(expression.name, []) if isinstance(expression, Column) else []
    number, added_up, _ = used[0][0]
    return [(number, added_up, with_columns(expression, {name: known[name][0][2] for name in columns_in(expression)}))]


def _summed(plan: Plan, kept: tuple[int, ...] | None) -> Plan | None:
    """Return a plan whose groups are added up to fewer; None if nobody knows how many each is made of."""
    domains_ = plan.extraction.domains
    if kept is None or domains_ is None:
        return plan
    times = 1
    for place, domain in enumerate(domains_):
        if place not in kept:
            if not isinstance(domain, Listed):
                return None
            times *= len(domain.values)
    return added_up_plan(plan, times)


def added_up_plan(plan: Plan, times: int) -> Plan:
    """Return the plan of groups that are the sums of ``times`` groups."""
    noises = tuple(
        replace(noise, law=cast("GroupedNoise", SummedNoise(law=noise.law, times=times))) for noise in plan.noises
    )
    return replace(plan, noises=noises)
