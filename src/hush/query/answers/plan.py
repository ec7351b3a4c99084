"""The plan of a question about answers: a plan for each finished question, which share ε.

**Shares.** The questions together cost ε, by the sum (basic composition): each gets a share by how many aggregates it
has. δ is shared alike, equally.

**Adding up.** The levels of a ROLLUP are several questions. Where the keys of a finer level are public, all of them are
released, and a coarser level is the sum of its groups: it costs nothing and fits together with the finer one. That
works for whatever is made of sums over rows: counts, sums, means, variances. It does not for units and distinct values,
which may be in several groups, nor for quantiles: these levels are asked apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, cast

from hush.accounting.events import Event
from hush.core import Number
from hush.mechanisms.grouped import GroupedNoise, SummedNoise
from hush.query.answers.tree import (
    AnswerTable,
    Asked,
    Composed,
    Stacked,
    chosen_by_noise,
    columns_of,
    meanings,
)
from hush.query.errors import UnplannableError
from hush.query.expressions import Expression, Released, substituted
from hush.query.plan import at_epsilon_or_accuracy, computed_error, expected_error
from hush.query.plan.estimators import ADDITIVE
from hush.query.plan.keys import Listed, domains
from hush.query.plan.plan import Plan, PlanTerms, PriceItem, at_price
from hush.query.question import Question
from hush.query.relations import walk, with_sources
from hush.query.schema import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedPlan:
    """The public plan of a question about answers."""

    question: Composed
    """Its table reads the questions that are asked, and adds up the levels that are not."""
    parts: Mapping[int, Plan]
    """The plan of each question that is asked, by its number."""
    epsilon: Fraction
    confidence: float
    notes: tuple[str, ...] = ()

    @property
    def delta(self) -> Fraction:
        """The δ that the questions spend from the budget, for choosing private keys."""
        return sum((plan.delta for plan in self.parts.values()), Fraction(0))

    @property
    def events(self) -> tuple[Event, ...]:
        """The events to charge."""
        return tuple(event for plan in self.parts.values() for event in plan.events)

    @property
    def items(self) -> tuple[PriceItem, ...]:
        """The lines of the price list, question by question."""
        lines = []
        for part in self.parts.values():
            keys = ", ".join(name for name, _ in part.question.keys)
            by = "" if len(self.parts) == 1 else f" by {keys}" if keys else " over all rows"
            lines += [line._replace(what=f"{line.what}{by}") for line in part.items]
        return tuple(lines)

    @property
    def caveats(self) -> tuple[str, ...]:
        """The caveats of all questions, each once."""
        return tuple(dict.fromkeys([*(line for plan in self.parts.values() for line in plan.caveats), *self.notes]))


def plan_composed(
    question: Composed,
    schema: Schema,
    *,
    epsilon: Number | None = None,
    accuracy: Number | tuple[Number, Number] | None = None,
    confidence: Number | None = None,
    **options: Any,
) -> ComposedPlan:
    """Plan the questions of a question about answers; the arguments are those of `hush.query.plan.plan`."""
    question, terms = _added_up(question), PlanTerms(**options)
    tables = [question.table, *(table for table, _ in question.awaited)]
    numbers = sorted({node.question for table in tables for node in walk(table) if isinstance(node, Asked)})
    outputs = {number: dict(each.outputs) for number, each in enumerate(question.questions)}
    for table in tables:
        meanings(table, outputs)  # which refuses, before any charge, what grows without end where it is put in
    asked = {number: question.questions[number] for number in numbers}
    private = [number for number, each in asked.items() if each.keys and domains(each.keys, each.relation) is None]
    # by its aggregates, and half of one for choosing keys; public keys alone are free
    weights = {number: len(each.aggregates) + Fraction(number in private, 2) for number, each in asked.items()}
    total = sum(weights.values(), Fraction(0))

    def planned(price: Fraction, certain: float) -> ComposedPlan:
        """Return the plan at a price, which the questions share by weight."""
        parts = {}
        for number in numbers:
            share = price * weights[number] / total if total else price
            key_delta = terms.for_keys / len(private) if number in private else Fraction(0)
            own_terms = replace(terms, delta=terms.delta / len(numbers), key_delta=key_delta)
            parts[number] = at_price(asked[number], schema, own_terms, share or price, certain)
        return ComposedPlan(
            question=question,
            parts=MappingProxyType(parts),
            epsilon=sum((each.epsilon for each in parts.values()), Fraction(0)),
            confidence=certain,
            notes=tuple(_notes(question)),
        )

    return at_epsilon_or_accuracy(planned, _errors, epsilon, accuracy, confidence)


def _errors(candidate: ComposedPlan) -> list[float]:
    """Return the expected half-width of every noisy output; refuse one that is not known in advance."""
    table = candidate.question.table
    if chosen_by_noise(table):
        raise UnplannableError(
            "accuracy= cannot be promised where noise decides which rows are shown: nobody knows in advance how many "
            "there are to choose from; give epsilon= instead, or leave out LIMIT, HAVING or WHERE, which costs nothing"
        )
    columns = {column.name: column for column in columns_of(table)}
    errors = []
    for label, name in candidate.question.outputs:
        if not columns[name].noisy:
            continue
        error = widest_error(candidate, name)
        if error is None:
            raise computed_error(label)
        errors.append(error)
    return errors


def _notes(question: Composed) -> list[str]:
    nodes = list(walk(question.table))
    lines = []
    if question.awaited:
        lines.append("rows are compared with an answer that is released first: ± is about that number as it came out")
    if any(isinstance(node, Asked) and node.added_up is not None for node in nodes):
        lines.append("totals are the sums of the groups that are listed, and cost nothing")
    apart = [node.question for node in nodes if isinstance(node, Asked) and node.added_up is None]
    if any(isinstance(node, Stacked) and node.levels for node in nodes) and len(set(apart)) > 1:
        lines.append("levels that are asked apart have noise of their own, so they need not add up")
    if chosen_by_noise(question.table):
        lines.append(
            "noise has a part in which rows are shown: their ± is wider than of rows named beforehand, so that of "
            "those shown as few miss as the confidence says, on average over answers"
        )
    return lines


# adding up


def _added_up(question: Composed) -> Composed:
    """Return a question in which coarser levels are summed from finer ones where possible."""
    questions = list(question.questions)
    from_finer: dict[int, tuple[int, tuple[int, ...]]] = {}
    for rollup in (node for node in walk(question.table) if isinstance(node, Stacked) and node.levels):
        levels = {level.question for level in walk(rollup) if isinstance(level, Asked)}
        for number in levels:
            coarse = questions[number]
            # the sum of the groups of a finer level, if these are all public and released
            additive = bool(coarse.aggregates) and all(each.kind in ADDITIVE for each in coarse.aggregates)
            finer = [candidate for candidate in levels if additive and _refines(questions[candidate], coarse)]
            if finer:
                # all coarser levels follow from the finest one, so their totals agree
                source = max(finer, key=lambda candidate: len(questions[candidate].keys))
                finer_keys = [key for _, key in questions[source].keys]
                from_finer[number] = source, tuple(finer_keys.index(key) for _, key in coarse.keys)
    for number, (source, places) in from_finer.items():
        # outputs behind keys and aggregates were added for the engine: they are computed from keys of the finer level
        more = questions[number].outputs[len(places) + len(questions[number].aggregates) :]
        outputs = [(name, _moved(key, places)) for name, key in more]
        questions[source] = replace(questions[source], outputs=(*questions[source].outputs, *outputs))

    def with_sums(table: AnswerTable) -> AnswerTable:
        """Return a table that sums a finer level instead of asking the coarser one."""
        if isinstance(table, Asked) and table.question in from_finer:
            source, places = from_finer[table.question]
            return replace(table, question=source, added_up=places)
        return with_sources(table, with_sums)

    table = with_sums(question.table) if from_finer else question.table
    return replace(question, questions=tuple(questions), table=table)


def _moved(expression: Expression, places: tuple[int, ...]) -> Expression:
    """Return an expression over the keys of a finer level."""
    return substituted(
        expression, lambda key: replace(key, index=places[key.index]) if isinstance(key, Released) else None
    )


def _refines(fine: Question, coarse: Question) -> bool:
    """Return whether a level has public keys, with all those of a coarser one, and the same aggregates."""
    fine_keys = [key for _, key in fine.keys]
    return (
        len(fine.keys) > len(coarse.keys)
        and coarse.aggregates == fine.aggregates
        and all(key in fine_keys for _, key in coarse.keys)
        and domains(fine.keys, fine.relation) is not None
    )


# errors in advance


def widest_error(plan: ComposedPlan, name: str) -> float | None:
    """Return the widest half-width of a column that is made of counts and sums, row by row; None if it is not known."""
    question, widths = plan.question, []
    outputs = {number: dict(each.outputs) for number, each in enumerate(question.questions)}
    for meaning in meanings(question.table, outputs).get(name, {}).values():
        if meaning is None:
            return None
        part, times = plan.parts[meaning.question], 1
        for index, domain in enumerate(part.exact_query.domains or ()):
            if meaning.added_up is not None and index not in meaning.added_up:
                if not isinstance(domain, Listed):
                    return None  # how many groups are summed is not public
                # a sum over groups has the sum of their noises, as many as the dropped keys have combinations
                times *= len(domain.values)
        width = expected_error(part if times == 1 else added_up_plan(part, times), meaning.expression)
        if width is None:
            return None
        widths.append(width)
    return max(widths, default=None)


def added_up_plan(plan: Plan, times: int) -> Plan:
    """Return the plan of groups that are the sums of ``times`` groups."""
    laws = {statistic: cast("GroupedNoise", SummedNoise(law=law, times=times)) for statistic, law in plan.laws.items()}
    return replace(plan, laws=laws)
