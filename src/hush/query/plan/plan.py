"""The plan of a question: exact statistics, noise, price and expected error.

A plan is a pure function of the question, the schema and the price; it reads no data. So the price, the mechanisms, the
caveats and whether a question can be asked at all depend on nothing private.

**Laplace or Gaussian.** Whichever errs less at this price: Gaussian noise where a unit counts in many groups or a
question has many aggregates. But it has no pure ε. Some accounts cannot take it at all (``gaussian=False``), and in
those that can, the first Gaussian release ends the counting by the sum of ε (`hush.accounting.filters.base`). So a
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
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from hush.accounting.events import Event
from hush.mechanisms.grouped import (
    GroupedDistribution,
    GroupedGaussian,
    GroupedLaplace,
    GroupedNoise,
    GroupedQuantile,
    KeySelection,
    KeyThreshold,
    exact_share,
    sum_error,
    units_needed,
    zcdp_budget,
)
from hush.query.errors import TooSmallError, UnplannableError
from hush.query.expressions import Column, Expression
from hush.query.functions import describe as written
from hush.query.plan.aggregates import Needs, check_sizes, compile_aggregates
from hush.query.plan.draws import Draw, DrawnAggregate, DrawPlanner, LineHistogram
from hush.query.plan.estimators import Drawn, Estimator, Linear, Mean
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
    AS_DECLARED,
    Distinct,
    DistinctCount,
    DistinctTotal,
    Halves,
    Limits,
    Matches,
    Noised,
    Population,
    Sensitivity,
    Statistic,
    TighterLimits,
    Total,
    UnitCount,
    Units,
    limits,
    members,
    sensitivity,
    uncounted,
)
from hush.query.plan.winners_curse import Winners
from hush.query.question import Question
from hush.query.relations import Named, Relation, scans
from hush.query.released import aggregates_in
from hush.query.schema import Schema
from hush.query.types import Type

_SELECTION_WEIGHT = Fraction(1, 2)
_MOST_UNITS = 2**40
_FINE = 1000
_LONGEST = 80


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
    law: GroupedNoise
    sensitivity: Sensitivity
    epsilon: Fraction

    @property
    def event(self) -> Event:
        """The event for the accountant."""
        return self.law.event

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics with this noise: one to three vectors over all groups."""
        return members(self.noised)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """How private keys are chosen."""

    epsilon: Fraction
    delta: Fraction
    mechanism: KeySelection | KeyThreshold

    @property
    def event(self) -> Event:
        """The event for the accountant."""
        return self.mechanism.event

    @property
    def gaussian(self) -> bool:
        """Whether a noisy number of units is compared with a threshold."""
        return isinstance(self.mechanism, KeyThreshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceItem:
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
    draws: tuple[Draw, ...]
    selection: Selection | None
    epsilon: Fraction
    delta: Fraction
    """The δ that the question spends from the budget: only for choosing private keys."""
    meant_at: Fraction
    """The δ of the (ε,δ) guarantee: ``delta`` plus the δ of Gaussian noise, which budgets do not count per question."""
    items: tuple[PriceItem, ...]
    caveats: tuple[str, ...]
    confidence: float
    """How often an error bar holds."""
    winners: Winners | None = None
    """How noise decides which rows are shown; None where it does not."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The events to charge, as in `hush.accounting.events`."""
        selected = () if self.selection is None else (self.selection.event,)
        return (*selected, *(noise.event for noise in self.noises), *(draw.event for draw in self.draws))

    def draw(self, number: int) -> tuple[Draw, int]:
        """Return the draw that makes the choice of this number, and the choice's place in it."""
        draw = next(draw for draw in self.draws if number in draw.numbers)
        return draw, draw.numbers.index(number)

    @property
    def laws(self) -> Mapping[Statistic, GroupedNoise]:
        """The noise of each statistic."""
        return MappingProxyType({statistic: noise.law for noise in self.noises for statistic in noise.statistics})

    def half_width(self, aggregate: int, confidence: float) -> float | None:
        """Return the half-width of an aggregate's interval where it does not depend on data, else None."""
        estimator = self.estimators[aggregate]
        if not isinstance(estimator, Linear):
            return None
        return float(estimator.widened(sum_error(self._parts(estimator), confidence)))

    def shorter(self, aggregate: int) -> tuple[float, Fraction]:
        """Return by how much the half-width may be shorter, and how often, so that it holds as often as is said."""
        estimator = self.estimators[aggregate]
        if not isinstance(estimator, Linear) or estimator.widened(estimator.grid) != estimator.grid:
            return 0.0, Fraction(0)
        less, share = exact_share(self._parts(estimator), self.confidence, estimator.grid)
        return float(less), share

    def _parts(self, estimator: Linear) -> list[tuple[Fraction, GroupedNoise]]:
        laws = self.laws
        return [(factor, laws[statistic]) for statistic, factor in estimator.parts]


@dataclass(frozen=True, slots=True)
class DeltaBudget:
    """The δ that a question may use."""

    total: Fraction
    for_keys: Fraction
    """The part for choosing private keys."""
    gaussian: bool
    """Whether the accounts that pay take Gaussian noise."""
    most_rho: Fraction | None = None
    """The zCDP that these accounts hold when they are empty."""
    prefer_gaussian: bool = False


@dataclass(frozen=True, slots=True)
class RhoBudget:
    """The zCDP that replaces a part of ε, at the δ of Gaussian noise."""

    delta: Fraction
    most: Fraction | None
    """The largest ρ that the accounts hold."""
    preferred: bool = False
    """Whether numbers get Gaussian noise wherever there is a ρ for it."""

    def rho(self, epsilon: Fraction) -> Fraction:
        """Return ρ with ρ-zCDP implying (ε, δ); 0 where the question has no δ for Gaussian noise."""
        if not self.delta or not epsilon:
            return Fraction(0)
        rho = zcdp_budget(epsilon, self.delta)
        return rho if self.most is None else min(rho, self.most)


def at_price(
    question: Question,
    schema: Schema,
    epsilon: Fraction,
    budget: DeltaBudget,
    confidence: float,
    tighter: TighterLimits = AS_DECLARED,
    keys: str | None = None,
    matches: Matches = uncounted,
) -> Plan:
    """Plan a question that costs ε."""
    delta, key_delta = budget.total, budget.for_keys
    public = _public_keys(question, keys, paid=bool(key_delta))
    by = [key for _, key in question.keys]
    key_count = _most(question, public, matches)
    bounds = limits(question.relation, schema, keys=key_count, matches=matches, by=by, tighter=tighter)
    estimators, needs = compile_aggregates(question.aggregates, weighted=bounds.units is not Units.ALONE)
    private_keys = bool(question.keys) and public is None
    if private_keys and not key_delta:
        why = why_private(question.keys, question.relation) if keys is None else "the question wants its keys chosen"
        way = ", and the question's own is 0: leave delta out" if delta else ": use a budget with a delta"
        raise UnplannableError(f"{why}. To choose them privately needs a delta above 0{way}")
    if not (needs.statistics or needs.choices or private_keys):
        epsilon = Fraction(0)  # public keys alone: the list is the policy's, and says nothing of the data
    check_sizes(needs)
    parts = _parts(needs, chosen=private_keys)
    selection = None
    noise_delta = delta if budget.gaussian else Fraction(0)
    if private_keys:
        # half for the selection's Gaussian threshold, half for the numbers
        noise_delta = (delta - key_delta) / 2 if budget.gaussian else Fraction(0)
        selection = _selection(parts[0] * epsilon, key_delta, noise_delta, bounds)
    combined = together(question.keys, question.relation) if public else ()
    winners = Winners.of(question, estimators, public, combined=bool(combined))
    # bars of quantiles are drawn with the answer, so their level is fixed before any data is read
    certain = confidence if winners is None else 1 - winners.prepared(1 - confidence)
    deciding = frozenset() if winners is None else winners.deciding
    choosing = DrawPlanner(
        choices=needs.choices,
        shares=[share * epsilon for share in parts[1 + len(needs.statistics) :]],
        confidences=[certain if choice in deciding else confidence for choice in needs.choices],
        alone=_alone(question, estimators) | deciding,
        bounds=bounds,
    )
    numeric = sum(parts[1 : 1 + len(needs.statistics)], Fraction(0)) * epsilon
    rho = RhoBudget(noise_delta, budget.most_rho, budget.prefer_gaussian)
    noises, draws, used = _protected(needs, choosing, numeric, rho)
    spent = selection.delta if selection else Fraction(0)
    meant_at = spent + (noise_delta if used else 0) + (noise_delta if selection and selection.gaussian else 0)
    return Plan(
        question=question,
        exact_query=ExactQuery(
            relation=question.relation,
            keys=question.keys,
            domains=public if question.keys else None,
            together=combined,
            limits=bounds,
            statistics=tuple(member for noised in needs.statistics for member in members(noised)),
            count_units=private_keys,
        ),
        estimators=estimators,
        noises=noises,
        draws=draws,
        selection=selection,
        epsilon=epsilon,
        delta=spent,
        meant_at=meant_at,
        items=_items(selection, noises, draws),
        caveats=(
            *caveats(question, bounds, estimators, draws, key_count, unit_word(schema), tighter),
            *beyond_bounds(question, bounds, schema),
            *([] if winners is None else chosen_by_noise(winners)),
            *([gaussian_price(meant_at, drawn=not _gaussian(selection, noises, draws))] if meant_at > spent else []),
        ),
        confidence=confidence,
        winners=winners,
    )


def _public_keys(question: Question, wanted: str | None, *, paid: bool) -> tuple[Domain, ...] | None:
    """Return the keys that are listed; None where they are chosen, for which an account with a δ has ``paid``."""
    if wanted == "private" and question.keys:
        return None
    lists = domains(question.keys, question.relation, MANY_KEYS if paid and wanted is None else MAX_KEYS)
    if wanted == "public" and lists is None:
        raise UnplannableError(f"{why_private(question.keys, question.relation)}. So keys='public' is not possible")
    return lists


def _most(question: Question, public: tuple[Domain, ...] | None, matches: Matches) -> int | None:
    """Return the largest number of groups of a unit; None if it is not known."""
    if not question.keys:
        return 1
    return None if public is None else most_keys(public, lambda relation: matches(relation, ()))


def _selection(epsilon: Fraction, delta: Fraction, meant_at: Fraction, bounds: Limits) -> Selection:
    """Return the mechanism that chooses keys: a noisy threshold where it shows keys with fewer units."""
    keys = bounds.cells
    needed = units_needed(epsilon, delta, keys)
    rho = zcdp_budget(epsilon, meant_at) if meant_at and keys > 1 else Fraction(0)
    if rho:
        above = KeyThreshold.for_rho(rho, delta=delta, keys=keys)
        # the mechanism that shows keys with fewer units is the better one
        if above.threshold <= min(needed, _MOST_UNITS):
            return Selection(epsilon=epsilon, delta=delta, mechanism=above)
    if math.isinf(needed):
        raise TooSmallError(
            "epsilon and delta are too small to choose keys privately: hardly any would ever be shown; "
            "raise epsilon, or ask the owner to declare the keys' values in the policy"
        )
    return Selection(epsilon=epsilon, delta=delta, mechanism=KeySelection(epsilon=epsilon, delta=delta, keys=keys))


def _parts(needs: Needs, *, chosen: bool) -> list[Fraction]:
    """Return the parts of ε for: choosing keys, each statistic, each choice."""
    weights = [*needs.statistics.values(), *(Fraction(1) for _ in needs.choices)]
    if chosen:
        return shares([_SELECTION_WEIGHT, *weights], 1 / 3) if weights else [Fraction(1)]
    return [Fraction(0), *(shares(weights, 1 / 3) if weights else [])]


def shares(weights: Sequence[Fraction], power: float) -> list[Fraction]:
    """Return parts of 1 proportional to weight^power, to about a tenth of a per cent, exactly adding up to 1.

    >>> shares([Fraction(1), Fraction(8)], 1 / 3)
    [Fraction(1, 3), Fraction(2, 3)]
    """
    # integers first, so that the fractions add up to 1 exactly
    parts = [max(1, round(_FINE * float(weight) ** power)) for weight in weights]
    return [Fraction(each, sum(parts)) for each in parts]


def _gaussian(selection: Selection | None, noises: tuple[Noise, ...], draws: tuple[Draw, ...]) -> bool:
    """Return whether there is Gaussian noise in a question."""
    return (
        (selection is not None and selection.gaussian)
        or any(isinstance(noise.law, GroupedGaussian) for noise in noises)
        or any(isinstance(draw.mechanism, GroupedDistribution) and draw.mechanism.rho is not None for draw in draws)
    )


def _alone(question: Question, estimators: tuple[Estimator, ...]) -> frozenset[object]:
    """Return choices that an output is computed from together with others of the same column."""
    compared: set[object] = set()
    for _, output in question.outputs:
        drawn = [
            estimator.choice
            for estimator in map(estimators.__getitem__, aggregates_in(output))
            if isinstance(estimator, Drawn)
        ]
        histograms = [choice.histogram for choice in drawn]
        compared.update(choice for choice in drawn if histograms.count(choice.histogram) > 1)
    return frozenset(compared)


def _protected(
    needs: Needs, choosing: DrawPlanner, numeric: Fraction, rho: RhoBudget
) -> tuple[tuple[Noise, ...], tuple[Draw, ...], bool]:
    """Return the noise of statistics and the draws of choices, and whether their ε holds only at a δ.

    Each kind on its own is paid for in zCDP where that errs less. Where both are, they share the ρ of their ε together,
    which is more than the sum of their parts.
    """
    drawn = sum(choosing.shares, Fraction(0))
    noises, gaussian = _noises(needs, choosing.bounds, numeric, rho.rho(numeric), preferred=rho.preferred)
    draws, divergent = _draws(choosing, rho.rho(drawn))
    if gaussian and divergent:
        # ρ of the sum of two ε exceeds the sum of their ρ, so both share it
        joint = rho.rho(numeric + drawn) / (numeric + drawn)
        noises, _ = _noises(needs, choosing.bounds, numeric, joint * numeric, preferred=rho.preferred)
        draws = choosing.made(joint * drawn)
    return noises, draws, gaussian or divergent


def _draws(choosing: DrawPlanner, rho: Fraction) -> tuple[tuple[Draw, ...], bool]:
    """Return how choices are made: for pure ε, or for ρ where that errs less."""
    pure = choosing.made()
    if not rho or not pure:
        return pure, False
    divergent = choosing.made(rho)
    better = math.fsum(draw.error() for draw in divergent) < math.fsum(draw.error() for draw in pure)
    return (divergent, True) if better else (pure, False)


def _noises(
    needs: Needs, bounds: Limits, epsilon: Fraction, rho: Fraction, *, preferred: bool
) -> tuple[tuple[Noise, ...], bool]:
    """Return the noise of every statistic: all Laplace, or all Gaussian where that errs less or is ``preferred``."""
    if not needs.statistics:
        return (), False
    weights = list(needs.statistics.values())
    bound = [sensitivity(noised, bounds) for noised in needs.statistics]
    steps = [limit.per_group for limit in bound]
    pure = [share * epsilon for share in shares(weights, 1 / 3)]
    laplace = [
        GroupedLaplace.for_epsilon(share, sensitivity=step, contribution=bounds.contribution)
        for step, share in zip(steps, pure, strict=True)
    ]
    laws: Sequence[GroupedNoise] = laplace
    parts = pure
    # one number in one group always has Laplace noise: see the top of this module
    single = len(weights) == 1 and bounds.cells == 1
    if rho and (preferred or not single):
        each = [share * rho for share in shares(weights, 1 / 2)]
        gaussian = [
            GroupedGaussian.for_rho(
                share, sensitivity=step, contribution=bounds.contribution, numbers=len(members(noised))
            )
            for noised, step, share in zip(needs.statistics, steps, each, strict=True)
        ]

        def total(candidates: Sequence[GroupedNoise]) -> float:
            return math.fsum(
                float(weight) * law.variance / step / step
                for weight, law, step in zip(weights, candidates, steps, strict=True)
            )

        if preferred or total(gaussian) < total(laplace):
            laws, parts = gaussian, [share * epsilon for share in shares(weights, 1 / 2)]
    noises = tuple(
        Noise(noised=noised, law=law, sensitivity=limit, epsilon=share)
        for noised, law, limit, share in zip(needs.statistics, laws, bound, parts, strict=True)
    )
    return noises, laws is not laplace


def _items(selection: Selection | None, noises: tuple[Noise, ...], draws: tuple[Draw, ...]) -> tuple[PriceItem, ...]:
    items = []
    if selection is not None:
        items.append(PriceItem(what="choosing keys", epsilon=selection.epsilon, delta=selection.delta))
    items += [PriceItem(what=describe(noise.noised), epsilon=noise.epsilon) for noise in noises]
    return (*items, *(PriceItem(what=describe_choices(draw.choices), epsilon=draw.epsilon) for draw in draws))


# the plan in words


def describe(statistic: Noised) -> str:
    """Return a few words for the price list, with the columns and the rows that are meant."""
    match statistic:
        case Halves():
            return _item("sum and count of", (statistic.factor.expression,), statistic.above.population)
        case Total():
            of = tuple(factor.expression for factor in statistic.factors)
            return _item("sum of", of, statistic.population)
        case DistinctTotal():
            return _item("sum of distinct values of", (statistic.expression,), statistic.population)
        case DistinctCount():
            return _item("distinct values of", (statistic.expression,), statistic.population)
        case UnitCount():
            return _item("count of units", (), statistic.population)
        case _:
            return _item("count", (), statistic.population)


def describe_choices(choices: tuple[DrawnAggregate, ...]) -> str:
    """Return the line of the price list for choices from one histogram."""
    choice, histogram = choices[0], choices[0].histogram
    of = histogram.factor.expression if isinstance(histogram, LineHistogram) else histogram.expression
    which = ", ".join(f"{float(each.fraction):g}" for each in choices if each.fraction is not None)
    kind = choice.kind.value + ("s" if len(choices) > 1 else "")
    return _item(f"{kind} {which} of" if which else f"{kind} of", (of,), histogram.population)


def _item(what: str, of: tuple[Expression, ...], population: Population) -> str:
    """Return a line of the price list: the statistic, its columns, and its condition on rows if it has one."""
    words = f"{what} {' * '.join(map(written, of))}".rstrip()
    if population.where is not None:
        words += f" where {written(population.where)}"
    not_null = [written(column) for column in population.not_null if column not in of]
    if not_null:
        words += f"{' and' if population.where is not None else ' where'} {' and '.join(not_null)} not NULL"
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def caveats(
    question: Question,
    bounds: Limits,
    estimators: tuple[Estimator, ...],
    draws: tuple[Draw, ...],
    key_count: int | None,
    unit: str,
    tighter: TighterLimits,
) -> tuple[str, ...]:
    """Return the caveats, the most important first: sources of bias and rows left out, from public facts alone."""
    lines = list(question.notes)
    quantiles = [draw.mechanism for draw in draws if isinstance(draw.mechanism, GroupedQuantile)]
    ranks = [-(-quantile.aims.rank // quantile.row_weight) for quantile in quantiles if quantile.aims.rank]
    if ranks:
        lines.append(
            f"MIN and MAX are quantiles, not the true extremes: about {max(ranks):,} rows lie beyond the value (with "
            "few rows it is the median); a higher price gets nearer to the extreme"
        )
    if bounds.units is not Units.ALONE:
        line = (
            f"each {unit} with more than {_many(bounds.rows, 'row')} in a group counts as {_many(bounds.rows, 'row')}"
        )
        if question.keys and (key_count is None or bounds.groups < key_count):
            line += f", and counts in at most {_many(bounds.groups, 'group')}"
        lines.append(line)
    if bounds.matches > 1:
        end = "and the limits grow with them"
        if tighter != AS_DECLARED:
            end = "and the question sets tighter limits: rows beyond them count less, groups beyond them do not count"
        lines.append(f"joins with public tables make up to {bounds.matches:,} rows of one, {end}")
    read = [type_ for scan in scans(question.relation) if not scan.public for _, _, type_ in scan.columns]
    computed = any(not isinstance(estimator, Drawn) and not _plain_count(estimator) for estimator in estimators)
    if computed or any(map(_clamped, read)):
        lines.append("values outside the declared bounds are moved to the nearest bound")
    if any(map(_distinct, estimators)):
        values = _many(bounds.rows, "different value")
        lines.append(f"at most {values} of each {unit} {'is' if bounds.rows == 1 else 'are'} counted in a group")
    if question.keys and not question.aggregates and key_count is not None:
        lines.append("the keys are public: the list is free, and does not say which of them the data have")
    elif any(quantile.aims.ties is not None for quantile in quantiles):
        lines.append(
            "where many rows share few values, the ± of a quantile also covers the gaps between them, and may be wider "
            "at a higher price; a step in the policy, or ROUND in the question, makes it narrower"
        )
    if question.keys:
        lines.append(_chosen_keys(question, unit) if key_count is None else _keys(question))
    return tuple(lines)


def unit_word(schema: Schema) -> str:
    """Return the word for a unit in notes: its column's name without a trailing ``_id``, or "row"."""
    return "row" if schema.unit is None else schema.unit.removesuffix("_id") or schema.unit


def gaussian_price(meant_at: Fraction, *, drawn: bool = False) -> str:
    """Return the caveat that the ε of Gaussian noise, or of many draws (``drawn``), holds at a δ."""
    subject = "this price, for values drawn from many groups," if drawn else "with Gaussian noise this price"
    return f"{subject} holds at δ={float(meant_at):.6g}, which the budget's δ already covers: it costs no δ"


def beyond_bounds(question: Question, bounds: Limits, schema: Schema) -> list[str]:
    """Return the owner's released estimates of the share of rows or groups beyond the question's limits."""
    if bounds.units is Units.ALONE:
        return []
    lines = []
    keys = {expression.name for _, expression in question.keys if isinstance(expression, Column)}
    for scan in scans(question.relation):
        grouped = {column for name, column, _ in scan.columns if name in keys}
        for beyond in schema.tables[scan.table].beyond:
            estimate = f"in an estimate of {beyond.when} (receipt {beyond.receipt}) {beyond.percent}"
            if beyond.by is None and beyond.limit == bounds.rows:
                lines.append(
                    f"{estimate} of the rows of {scan.table} were beyond max_rows = {beyond.limit}: so much is missing "
                    f"in a count of all rows{', and less within groups' if keys else ''}"
                )
            if beyond.by in grouped and beyond.limit == bounds.groups:
                lines.append(
                    f"{estimate} of the groups by {beyond.by} in {scan.table} were beyond max_groups = "
                    f"{beyond.limit}, and are left out"
                )
    return list(dict.fromkeys(lines))


def chosen_by_noise(winners: Winners) -> list[str]:
    """Return the caveats on error bars where noise decides which rows are shown."""
    lines = []
    if winners.ordered:
        lines.append(
            "noise also decides which rows come first, and favours rows whose noise is large: their ± is wider to "
            "cover that; ask for named groups to have a narrower one"
        )
    if winners.having:
        lines.append(
            "noise can bring a row past the limit of HAVING: where that is possible its ± is much wider, and covers "
            "0; leave HAVING out to have narrower ones"
        )
    return lines


def _chosen_keys(question: Question, unit: str) -> str:
    size = public_size(question.keys, question.relation)
    if size is None or size > MAX_KEYS:
        return f"groups with only a few units ({unit}) are left out"
    return (
        f"of {size:,} declared groups those with only a few units ({unit}) are left out; keys='public' lists them all"
    )


def _keys(question: Question) -> str:
    types = [expression.type for _, expression in question.keys]
    nulls = [type_.null_is_key for type_ in types if type_.nullable]
    rows = "rows without a value" if all(map(_clamped, types)) else "rows with another value, or without one,"
    if not any(nulls):
        return f"all declared groups are listed, also empty ones; {rows} are not counted"
    otherwise = "" if all(nulls) else ", or are not counted where NULL is not listed"
    return f"all declared groups are listed, also empty ones; {rows} count under NULL{otherwise}"


def _clamped(type_: Type) -> bool:
    """Return whether values are moved to the nearest bound."""
    return type_.values is None and (type_.lower is not None or type_.upper is not None)


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _plain_count(estimator: Estimator) -> bool:
    if not isinstance(estimator, Linear):
        return False
    return estimator.counts or isinstance(estimator.parts[0][0], DistinctCount)


def _distinct(estimator: Estimator) -> bool:
    if isinstance(estimator, Mean):
        return isinstance(estimator.count[0][0], DistinctCount)
    return isinstance(estimator, Linear) and isinstance(estimator.parts[0][0], Distinct)
