"""The plan of a question: exact statistics, noise, price and expected error.

A plan is a pure function of the question, the schema and the price; it reads no data. So the price, the mechanisms, the
caveats and whether a question can be asked at all depend on nothing private.

**Laplace or Gaussian.** Whichever errs less at this price: Gaussian noise where a unit counts in many groups or a
question has many aggregates. But it has no pure ε. Some accounts cannot take it at all (``gaussian=False``), and in
those that can, the first Gaussian release ends the counting by the sum of ε (`hush.accounting.filters`). So a
single number always has Laplace noise: at a very small ε Gaussian noise would err a little less, and cost the account
much. The rule looks at the question and the account's kind, never at what was spent, so a question has one price.

**Splitting ε.** With Laplace noise the variance of a statistic is proportional to 1/ε_i². Measured against its own
bound (that is: relative to a typical value of the same number of rows) every statistic has the same sensitivity, so the
total Σ w_i/ε_i² under Σε_i = ε is least for ε_i ∝ w_i^{1/3}, where w_i says how much the answers depend on the
statistic. With Gaussian noise the variance is proportional to 1/ρ_i, and ρ_i ∝ w_i^{1/2}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from hush.accounting.events import Event
from hush.core import InvalidValueError, integer, nonnegative
from hush.core.numbers import assign
from hush.mechanisms import grouped
from hush.mechanisms.grouped import GroupedGaussian, GroupedLaplace, GroupedNoise, zcdp_budget
from hush.query.errors import TooSmallError, UnplannableError
from hush.query.expressions import Column, Expression, Released
from hush.query.functions import describe as written
from hush.query.plan.draws import DRAWN, Draw, DrawnAggregate, planned_draws
from hush.query.plan.estimators import Estimator, Needs, Parts, compile_aggregates
from hush.query.plan.keys import (
    MANY_KEYS,
    MAX_KEYS,
    Domain,
    Together,
    domains,
    most_keys,
    public_size,
    together,
    why_private,
)
from hush.query.plan.stability import (
    Count,
    Distinct,
    Halves,
    Limits,
    Matches,
    Noised,
    Statistic,
    Total,
    UnitCount,
    Units,
    limits,
    members,
    sensitivity,
    uncounted,
)
from hush.query.plan.winners_curse import Winners
from hush.query.question import AggregateKind, Question
from hush.query.relations import Named, Relation, scans
from hush.query.released import aggregates_in
from hush.query.schema import Schema
from hush.query.types import Type

_SMALLEST, _LARGEST = Fraction(1, 10**100), 10**9
"""The smallest ε and the largest; the smallest is also the smallest δ above 0."""
_FINE = 1000  # shares of ε are multiples of about a thousandth
_LONGEST = 80  # the longest line of a price list, in characters


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactQuery:
    """The query for the engine: exact integers, one row per group."""

    relation: Relation
    keys: tuple[Named, ...]
    domains: tuple[Domain, ...] | None
    """The public keys; None where they are chosen privately (or there are none)."""
    together: tuple[Together, ...] = ()
    """Public keys that occur only in the combinations of a public table."""
    limits: Limits
    statistics: tuple[Statistic, ...]
    count_units: bool
    """Whether the number of units of every group is needed, to choose keys by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise of one statistic, or of halves together: independent draws from one distribution."""

    noised: Noised
    statistics: tuple[Statistic, ...]
    """The statistics with this noise: one to three vectors over all groups."""
    law: GroupedNoise
    epsilon: Fraction


class Selection(NamedTuple):
    """How private keys are chosen."""

    epsilon: Fraction
    delta: Fraction
    mechanism: grouped.KeySelection | grouped.KeyThreshold

    @property
    def gaussian(self) -> bool:
        """Whether a noisy number of units is compared with a threshold."""
        return isinstance(self.mechanism, grouped.KeyThreshold)


class PriceItem(NamedTuple):
    """One line of the price."""

    what: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The public plan of a question."""

    question: Question
    exact_query: ExactQuery
    estimators: tuple[Estimator, ...]
    noises: tuple[Noise, ...]
    laws: Mapping[Statistic, GroupedNoise]
    """The noise of each statistic; where groups are added up, that of its sums."""
    draws: tuple[Draw, ...]
    selection: Selection | None
    epsilon: Fraction
    delta: Fraction
    """The δ that the question spends from the budget: only for choosing private keys."""
    meant_at: Fraction
    """The δ of the (ε,δ) guarantee: ``delta`` plus the δ of Gaussian noise, which budgets do not count per question."""
    caveats: tuple[str, ...]
    confidence: float
    """How often an error bar holds."""
    winners: Winners | None = None
    """How noise decides which rows are shown; None where it does not."""

    @property
    def parts(self) -> Mapping[int, Plan]:
        """The plans of the questions about rows, by number: this one; a question over answers may have several."""
        return {0: self}

    @property
    def events(self) -> tuple[Event, ...]:
        """The events to charge, as in `hush.accounting.events`."""
        keys = () if self.selection is None else (self.selection.mechanism.event,)
        return (*keys, *(noise.law.event for noise in self.noises), *(draw.mechanism.event for draw in self.draws))

    @property
    def items(self) -> tuple[PriceItem, ...]:
        """The price list: choosing keys, then the noises and the draws."""
        lines = [PriceItem(_price_line(noise.noised), noise.epsilon) for noise in self.noises]
        lines += [PriceItem(_price_line(draw.choices), draw.epsilon) for draw in self.draws]
        if self.selection is not None:
            lines.insert(0, PriceItem("choosing keys", self.selection.epsilon, self.selection.delta))
        return tuple(lines)

    def draw(self, choice: DrawnAggregate) -> Draw:
        """Return the draw that makes a choice."""
        return next(draw for draw in self.draws if choice in draw.confidences)

    def estimator(self, output: Expression) -> Estimator | None:
        """Return the estimator of an output that is an aggregate; None for any other."""
        if isinstance(output, Released) and output.source == "aggregate":
            return self.estimators[output.index]
        return None

    def noise_of(self, parts: Parts) -> list[tuple[Fraction, GroupedNoise]]:
        """Return the noise of Σ factor·statistic: its factors and laws."""
        return [(factor, self.laws[statistic]) for statistic, factor in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTerms:
    """The terms of a question beside its price: δ, the noise that its accounts take, its limits, its kind of keys."""

    delta: Fraction = Fraction(0)
    """The δ that the question may use, for private keys and Gaussian noise; 0 keeps it pure."""
    key_delta: Fraction | None = None
    """The part of δ that private keys take, half of δ by default. A live budget counts this as spent, whereas the δ
    of Gaussian noise only says at which δ its ε is meant."""
    gaussian: bool = True
    """Whether the accounts that pay can take Gaussian noise, which has no pure ε."""
    prefer_gaussian: bool = False
    """Whether it is taken also where Laplace noise errs less at this price: of many equal releases it errs less at
    their price together."""
    most_rho: Fraction | None = None
    """How much zCDP the accounts that pay can hold when they are empty."""
    max_rows: int | None = None
    """A tighter limit than the policy's on the rows of one unit: less noise, and more that is left out."""
    max_groups: int | None = None
    keys: str | None = None
    """"public" to list all of many public keys, "private" to choose them privately although they are public."""
    for_keys: Fraction = field(init=False)
    """``key_delta``, or its default."""
    matches: Matches = uncounted
    """The engine's number of rows of a public relation that agree on some expressions at most."""

    def __post_init__(self) -> None:
        if self.keys not in {None, "public", "private"}:
            raise InvalidValueError(
                "keys", got=self.keys, allowed="'public' to list them, 'private' to choose them, or left out"
            )
        total = nonnegative(self.delta, "delta")
        for_keys = total / 2 if self.key_delta is None else nonnegative(self.key_delta, "key_delta")
        if for_keys > total:
            raise InvalidValueError("key_delta", got=self.key_delta, allowed=f"at most delta, {total}")
        if total >= 1 or 0 < for_keys < _SMALLEST:
            raise InvalidValueError("delta", got=self.delta, allowed="0, or from 1e-100 to below 1")
        assign(self, delta=total, for_keys=for_keys)
        for name in ("max_rows", "max_groups"):
            if (value := getattr(self, name)) is not None:
                assign(self, **{name: integer(value, name, minimum=1)})

    def rho(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """Return ρ with ρ-zCDP implying (ε, δ); 0 where the question has no δ for Gaussian noise."""
        if not delta or not epsilon:
            return Fraction(0)
        rho = zcdp_budget(epsilon, delta)
        return rho if self.most_rho is None else min(rho, self.most_rho)


def at_price(question: Question, schema: Schema, terms: PlanTerms, epsilon: Fraction, confidence: float) -> Plan:
    """Plan a question that costs ε: its keys, limits and statistics, the split of ε, all noise, its δ and its notes."""
    if not _SMALLEST <= epsilon <= _LARGEST:  # beyond, the floats that weigh one noise against another give up
        raise InvalidValueError("epsilon", got=epsilon, allowed="from 1e-100 to 1e9")
    by, matches = [key for _, key in question.keys], terms.matches

    # public keys are listed; others are chosen, for which an account with a δ pays
    public: tuple[Domain, ...] | None = None
    if terms.keys != "private" or not by:
        most_listed = MANY_KEYS if terms.for_keys and terms.keys is None else MAX_KEYS
        public = domains(question.keys, question.relation, most_listed)
    private_keys = public is None
    if private_keys and terms.keys == "public":
        raise UnplannableError(f"{why_private(question.keys, question.relation)}. So keys='public' is not possible")
    key_count = None if public is None else most_keys(public, matches)

    # what is computed, and how much one unit moves it
    bounds = limits(
        question.relation,
        schema,
        keys=key_count,
        matches=matches,
        by=by,
        max_rows=terms.max_rows,
        max_groups=terms.max_groups,
    )
    estimators, needs = compile_aggregates(question.aggregates, weighted=bounds.units is not Units.ALONE)
    if private_keys and not terms.for_keys:  # that a key is shown would tell that somebody has it
        wanted = "the question wants its keys chosen"
        why = why_private(question.keys, question.relation) if terms.keys is None else wanted
        way = ", and the question's own is 0: leave delta out" if terms.delta else ": use a budget with a delta"
        raise UnplannableError(f"{why}. To choose them privately needs a delta above 0{way}")
    if not (needs.statistics or needs.choices or private_keys):
        epsilon = Fraction(0)  # public keys alone: the list is the policy's, and says nothing of the data

    # the ε of each part: choosing keys has the weight 1/2, each statistic its own, and each choice 1
    weights: dict[object, Fraction] = dict.fromkeys(needs.choices, Fraction(1))
    weights.update(needs.statistics.items())
    if private_keys:
        weights["keys"] = Fraction(1, 2)
    parts = {item: share * epsilon for item, share in zip(weights, shares([*weights.values()], 1 / 3), strict=True)}
    for_choices = {choice: parts[choice] for choice in needs.choices}

    # the δ at which the ε of Gaussian noise holds
    noise_delta = Fraction(0)
    if terms.gaussian:
        # of what choosing keys leaves, half is for its Gaussian threshold and half for the numbers
        noise_delta = (terms.delta - terms.for_keys) / 2 if private_keys else terms.delta
    selection = _selection(parts["keys"], terms.for_keys, noise_delta, bounds) if private_keys else None

    # where noise decides which rows are shown, bars are wider; those of quantiles are drawn with the answer, so their
    # level is fixed before any data is read
    combined = together(question.keys, question.relation) if public and len(by) > 1 else ()
    winners = None
    if question.having is not None or question.order:
        winners = Winners.of(question, estimators, public, combined=bool(combined))
    certain = confidence if winners is None else 1 - winners.prepared(1 - confidence)
    deciding = frozenset() if winners is None else winners.deciding
    confidences = {choice: certain if choice in deciding else confidence for choice in needs.choices}
    # choices that an output is computed from together with others of the same column have noise of their own, too
    alone: set[object] = {*deciding}
    for _, output in question.outputs if needs.choices else ():
        read = [estimators[aggregate] for aggregate in aggregates_in(output)]
        drawn = [estimator for estimator in read if isinstance(estimator, DrawnAggregate)]
        histograms = [choice.histogram for choice in drawn]
        alone.update(choice for choice in drawn if histograms.count(choice.histogram) > 1)
    draws_for = partial(planned_draws, for_choices, confidences, alone, bounds)

    # statistics and choices are each paid for in zCDP where that errs less; where both are, they share the ρ of their ε
    # together, which is more than the sum of their parts
    drawn_part = sum(for_choices.values(), Fraction(0))
    numeric = epsilon - drawn_part - parts.get("keys", 0)
    noises, gaussian = _noises(needs, bounds, numeric, terms.rho(numeric, noise_delta), preferred=terms.prefer_gaussian)
    draws, divergent = draws_for() if for_choices else (), False
    if rho := terms.rho(drawn_part, noise_delta):
        others = draws_for(rho)
        divergent = math.fsum(draw.error() for draw in others) < math.fsum(draw.error() for draw in draws)
        draws = others if divergent else draws
    if gaussian and divergent:
        joint = terms.rho(numeric + drawn_part, noise_delta) / (numeric + drawn_part)
        noises, _ = _noises(needs, bounds, numeric, joint * numeric, preferred=terms.prefer_gaussian)
        draws = draws_for(joint * drawn_part)

    # the δ that is spent, and the one that the guarantee holds at
    spent = selection.delta if selection else Fraction(0)
    meant_at = spent + (gaussian or divergent) * noise_delta
    if selection is not None and selection.gaussian:
        meant_at += noise_delta
    laws = {statistic: noise.law for noise in noises for statistic in noise.statistics}
    plan = Plan(
        question=question,
        exact_query=ExactQuery(
            relation=question.relation,
            keys=question.keys,
            domains=public if question.keys else None,
            together=combined,
            limits=bounds,
            statistics=tuple(laws),
            count_units=private_keys,
        ),
        estimators=estimators,
        noises=noises,
        laws=laws,
        draws=draws,
        selection=selection,
        epsilon=epsilon,
        delta=spent,
        meant_at=meant_at,
        caveats=(),
        confidence=confidence,
        winners=winners,
    )
    return replace(plan, caveats=_caveats(plan, key_count, schema, terms))


def _selection(epsilon: Fraction, delta: Fraction, meant_at: Fraction, bounds: Limits) -> Selection:
    """Return the mechanism that chooses keys: a noisy threshold where it shows keys with fewer units."""
    cells = bounds.contribution.cells  # the groups that a neighbour may change
    needed = grouped.units_needed(epsilon, delta, cells)
    rho = zcdp_budget(epsilon, meant_at) if meant_at and cells > 1 else Fraction(0)
    if rho:
        above = grouped.KeyThreshold.for_rho(rho, delta=delta, keys=cells)
        if above.threshold <= min(needed, 2**40):
            return Selection(epsilon=epsilon, delta=delta, mechanism=above)
    if math.isinf(needed):
        raise TooSmallError(
            "epsilon and delta are too small to choose keys privately: hardly any would ever be shown; "
            "raise epsilon, or ask the owner to declare the keys' values in the policy"
        )
    return Selection(
        epsilon=epsilon, delta=delta, mechanism=grouped.KeySelection(epsilon=epsilon, delta=delta, keys=cells)
    )


def shares(weights: Sequence[Fraction], power: float) -> list[Fraction]:
    """Return parts of 1 proportional to weight^power, to about a tenth of a per cent, exactly adding up to 1.

    >>> shares([Fraction(1), Fraction(8)], 1 / 3)
    [Fraction(1, 3), Fraction(2, 3)]
    """
    # integers first, so that the fractions add up to 1 exactly
    parts = [max(1, round(_FINE * float(weight) ** power)) for weight in weights]
    total = sum(parts)
    return [Fraction(part, total) for part in parts]


def _noises(
    needs: Needs, bounds: Limits, epsilon: Fraction, rho: Fraction, *, preferred: bool
) -> tuple[tuple[Noise, ...], bool]:
    """Return the noise of every statistic: all Laplace, or all Gaussian where that errs less or is ``preferred``."""
    contribution, weights = bounds.contribution, list(needs.statistics.values())
    laplace: list[Noise] = []
    for noised, share in zip(needs.statistics, shares(weights, 1 / 3), strict=True):
        step, part = sensitivity(noised, bounds), share * epsilon
        law = GroupedLaplace.for_epsilon(part, sensitivity=step, contribution=contribution)
        laplace.append(Noise(noised=noised, statistics=members(noised), law=law, epsilon=part))
    # one number in one group always has Laplace noise: see the top of this module
    single = len(weights) == 1 and contribution.cells == 1
    if not rho or not laplace or (single and not preferred):
        return tuple(laplace), False
    gaussian: list[Noise] = []
    of_laplace, of_gaussian = [], []
    for pure, weight, share in zip(laplace, weights, shares(weights, 1 / 2), strict=True):
        step, numbers = pure.law.sensitivity, len(pure.statistics)
        normal = GroupedGaussian.for_rho(share * rho, sensitivity=step, contribution=contribution, numbers=numbers)
        gaussian.append(replace(pure, law=normal, epsilon=share * epsilon))
        of_laplace.append(float(weight) * pure.law.variance / step / step)
        of_gaussian.append(float(weight) * normal.variance / step / step)
    better = preferred or math.fsum(of_gaussian) < math.fsum(of_laplace)
    return tuple(gaussian if better else laplace), better


# the plan in words


_WORDS = {
    Halves: "sum and count of",
    Total: "sum of",
    Distinct: "distinct values of",
    UnitCount: "count of units",
    Count: "count",
}


def _price_line(item: Noised | tuple[DrawnAggregate, ...]) -> str:
    """Return a line of the price list: a statistic or choices, their columns, and the condition on rows if any."""
    read = item[0].histogram if isinstance(item, tuple) else members(item)[0]
    if isinstance(item, tuple):
        which = ", ".join(f"{float(choice.fraction):g}" for choice in item if choice.kind is AggregateKind.QUANTILE)
        words = " ".join(filter(None, [item[0].kind.value + "s" * (len(item) > 1), which, "of"]))
    else:
        words = "sum of " * (isinstance(item, Distinct) and item.factor is not None) + _WORDS[type(item)]
    expressions: list[Expression] = []
    if isinstance(read, Total):
        expressions = [factor.expression for factor in read.factors]
    elif not isinstance(read, Count | UnitCount):
        expressions = [read.expression]
    words = f"{words} {' * '.join(map(written, expressions))}".rstrip()
    population = read.population
    if population.where is not None:
        words += f" where {written(population.where)}"
    not_null = [written(column) for column in population.not_null if column not in expressions]
    if not_null:
        words += f"{' and' if population.where is not None else ' where'} {' and '.join(not_null)} not NULL"
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


_COUNTS = {AggregateKind.COUNT, AggregateKind.COUNT_UNITS, AggregateKind.COUNT_DISTINCT}
_DISTINCT = {AggregateKind.COUNT_DISTINCT, AggregateKind.SUM_DISTINCT, AggregateKind.AVG_DISTINCT}


def _caveats(plan: Plan, key_count: int | None, schema: Schema, terms: PlanTerms) -> tuple[str, ...]:
    """Return the caveats, the most important first: sources of bias and rows left out, from public facts alone."""
    question, bounds, draws = plan.question, plan.exact_query.limits, [draw.mechanism for draw in plan.draws]
    lines = list(question.notes)
    # a unit by its column's name without a trailing _id, or "row"
    unit = "row" if schema.unit is None else schema.unit.removesuffix("_id") or schema.unit
    several = "s" * (bounds.rows != 1)
    outermost, ties = 0, False
    for draw in draws:
        if isinstance(draw, grouped.GroupedQuantile):
            outermost = max(outermost, -(-draw.rank // draw.row_weight))
            ties = ties or draw.ties is not None
    if outermost:
        lines.append(
            f"MIN and MAX are quantiles, not the true extremes: about {outermost:,} rows lie beyond the value (with "
            "few rows it is the median); a higher price gets nearer to the extreme"
        )
    if bounds.units is not Units.ALONE:
        line = f"each {unit} with more than {bounds.rows} row{several} in a group counts as {bounds.rows} row{several}"
        if question.keys and (key_count is None or bounds.groups < key_count):
            line += f", and counts in at most {bounds.groups} group{'s' * (bounds.groups != 1)}"
        lines.append(line)
    if bounds.matches > 1:
        end = "and the limits grow with them"
        if terms.max_rows or terms.max_groups:
            end = "and the question sets tighter limits: rows beyond them count less, groups beyond them do not count"
        lines.append(f"joins with public tables make up to {bounds.matches:,} rows of one, {end}")
    kinds = {aggregate.kind for aggregate in question.aggregates}
    read = [type_ for scan in scans(question.relation) if not scan.public for _, _, type_ in scan.columns]
    if any(map(_clamped, read)) or kinds - _COUNTS - DRAWN:
        lines.append("values outside the declared bounds are moved to the nearest bound")
    if kinds & _DISTINCT:
        are = "is" if bounds.rows == 1 else "are"
        lines.append(f"at most {bounds.rows} different value{several} of each {unit} {are} counted in a group")
    if question.keys and not question.aggregates and key_count is not None:
        lines.append("the keys are public: the list is free, and does not say which of them the data have")
    elif ties:
        lines.append(
            "where many rows share few values, the ± of a quantile also covers the gaps between them, and may be wider "
            "at a higher price; a step in the policy, or ROUND in the question, makes it narrower"
        )
    # which groups are in the answer, and where rows with other keys count
    if question.keys and key_count is None:
        size, few = public_size(question.keys, question.relation), f"with only a few units ({unit}) are left out"
        listed = size is not None and size <= MAX_KEYS
        lines.append(
            f"of {size:,} declared groups those {few}; keys='public' lists them all" if listed else f"groups {few}"
        )
    elif question.keys:
        types = [key.type for _, key in question.keys]
        others = "rows without a value" if all(map(_clamped, types)) else "rows with another value, or without one,"
        nulls = [type_.null_is_key for type_ in types if type_.nullable]
        otherwise = "" if all(nulls) else ", or are not counted where NULL is not listed"
        counted = f"count under NULL{otherwise}" if any(nulls) else "are not counted"
        lines.append(f"all declared groups are listed, also empty ones; {others} {counted}")
    # the owner's released estimates of the share of rows or groups beyond the question's limits
    keys = {key.name for _, key in question.keys if isinstance(key, Column)}
    for scan in scans(question.relation) if bounds.units is not Units.ALONE else ():
        key_columns = {column for name, column, _ in scan.columns if name in keys}
        for beyond in schema.tables[scan.table].beyond:
            estimate = f"in an estimate of {beyond.when} (receipt {beyond.receipt}) {beyond.percent}"
            if beyond.by is None and beyond.limit == bounds.rows:
                lines.append(
                    f"{estimate} of the rows of {scan.table} were beyond max_rows = {beyond.limit}: so much is missing "
                    f"in a count of all rows{', and less within groups' if keys else ''}"
                )
            if beyond.by in key_columns and beyond.limit == bounds.groups:
                lines.append(
                    f"{estimate} of the groups by {beyond.by} in {scan.table} were beyond max_groups = "
                    f"{beyond.limit}, and are left out"
                )
    if plan.winners is not None and plan.winners.ordered:
        lines.append(
            "noise also decides which rows come first, and favours rows whose noise is large: their ± is wider to "
            "cover that; ask for named groups to have a narrower one"
        )
    if plan.winners is not None and plan.winners.having:
        lines.append(
            "noise can bring a row past the limit of HAVING: where that is possible its ± is much wider, and covers "
            "0; leave HAVING out to have narrower ones"
        )
    if plan.meant_at > plan.delta:
        # draws may be paid for in zCDP without any Gaussian noise
        noisy = plan.selection is not None and plan.selection.gaussian
        noisy = noisy or any(isinstance(noise.law, GroupedGaussian) for noise in plan.noises)
        listed = any(isinstance(draw, grouped.GroupedDistribution) and draw.rho is not None for draw in draws)
        lines.append(gaussian_price(plan.meant_at, drawn=not noisy and not listed))
    return tuple(dict.fromkeys(lines))


def gaussian_price(meant_at: Fraction, *, drawn: bool = False) -> str:
    """Return the caveat that the ε of Gaussian noise, or of many draws (``drawn``), holds at a δ."""
    subject = "this price, for values drawn from many groups," if drawn else "with Gaussian noise this price"
    return f"{subject} holds at δ={float(meant_at):.6g}, which the budget's δ already covers: it costs no δ"


def _clamped(type_: Type) -> bool:
    """Return whether values are moved to the nearest bound."""
    return type_.values is None and (type_.lower is not None or type_.upper is not None)
