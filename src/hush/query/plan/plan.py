"""The plan of a question: what the engine computes, how each number is noised, what it costs, how far off it will be.

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
from fractions import Fraction
from types import MappingProxyType

from hush.accounting.events import Event
from hush.core.values import dataclass
from hush.mechanisms.grouped import (
    GroupedDistribution,
    GroupedGaussian,
    GroupedLaplace,
    GroupedNoise,
    KeySelection,
    KeyThreshold,
    exact_share,
    sum_error,
    units_needed,
    zcdp_budget,
)
from hush.query.errors import TooSmallError, UnplannableError
from hush.query.plan.aggregates import Needs, check_sizes, compile_aggregates
from hush.query.plan.choices import Pick, Picks
from hush.query.plan.domains import MANY_KEYS, MAX_KEYS, Domain, Together, domains, most_keys, together, why_private
from hush.query.plan.estimators import Estimator, Linear, Picked
from hush.query.plan.limits import AS_DECLARED, Limits, TighterLimits, Units, limits
from hush.query.plan.statistics import Noised, Statistic, members, per_group
from hush.query.plan.winners import Winners
from hush.query.plan.wording import (
    beyond_bounds,
    caveats,
    chosen_by_noise,
    describe,
    describe_choices,
    gaussian_price,
)
from hush.query.question import Question
from hush.query.relations import Named, Relation
from hush.query.released import aggregates_in
from hush.query.schema import Schema

_SELECTION_WEIGHT = Fraction(1, 2)
_MOST_UNITS = 2**40
_FINE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """What the engine is asked for: exact integers, one row a group."""

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
    """How one statistic, or halves together, are protected: each number is given independent noise of one law."""

    noised: Noised
    law: GroupedNoise
    l1: int
    """ℓ₁ sensitivity of the vector over all groups and members, in steps."""
    l2_squared: int
    linf: int
    epsilon: Fraction

    @property
    def event(self) -> Event:
        """What an accountant needs."""
        return self.law.event

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """What is noised, one to three vectors over all groups."""
        return members(self.noised)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """How private keys are chosen."""

    epsilon: Fraction
    delta: Fraction
    mechanism: KeySelection | KeyThreshold

    @property
    def event(self) -> Event:
        """What an accountant needs."""
        return self.mechanism.event

    @property
    def gaussian(self) -> bool:
        """Whether a noisy number of units is compared with a threshold."""
        return isinstance(self.mechanism, KeyThreshold)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of the price."""

    what: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything about a question that is public."""

    question: Question
    extraction: Extraction
    estimators: tuple[Estimator, ...]
    noises: tuple[Noise, ...]
    picks: tuple[Pick, ...]
    selection: Selection | None
    epsilon: Fraction
    delta: Fraction
    """What the question takes of the budget's δ: what choosing private keys needs, and nothing else."""
    meant_at: Fraction
    """The δ at which ε is meant: ``delta``, and what Gaussian noise needs, which no budget counts by the question."""
    items: tuple[Item, ...]
    caveats: tuple[str, ...]
    confidence: float
    """How often an error bar holds."""
    winners: Winners | None = None
    """How noise decides which rows are shown; None where it does not."""

    @property
    def events(self) -> tuple[Event, ...]:
        """What is charged, in the vocabulary of `hush.accounting.events`."""
        chosen = () if self.selection is None else (self.selection.event,)
        return (*chosen, *(noise.event for noise in self.noises), *(pick.event for pick in self.picks))

    def pick(self, number: int) -> tuple[Pick, int]:
        """Return the pick that makes the choice of this number, and the choice's place in it."""
        pick = next(pick for pick in self.picks if number in pick.numbers)
        return pick, pick.numbers.index(number)

    @property
    def laws(self) -> Mapping[Statistic, GroupedNoise]:
        """The noise of each statistic."""
        return MappingProxyType({item: noise.law for noise in self.noises for item in noise.statistics})

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
        return [(factor, laws[item]) for item, factor in estimator.parts]


@dataclass(frozen=True, slots=True)
class Slip:
    """What a question may use of δ: in all, for keys, and whether for Gaussian noise, and of that how much at most."""

    delta: Fraction
    keys: Fraction
    gaussian: bool
    most_rho: Fraction | None = None
    prefer_gaussian: bool = False


@dataclass(frozen=True, slots=True)
class Worth:
    """What ε is worth in zCDP at a δ, as far as the accounts that pay can hold it."""

    delta: Fraction
    most: Fraction | None
    preferred: bool = False
    """Whether numbers get Gaussian noise wherever there is a ρ for it."""

    def rho(self, epsilon: Fraction) -> Fraction:
        """Return ρ; 0 where there is none."""
        if not self.delta or not epsilon:
            return Fraction(0)
        rho = zcdp_budget(epsilon, self.delta)
        return rho if self.most is None else min(rho, self.most)


def at_price(
    question: Question,
    schema: Schema,
    epsilon: Fraction,
    slip: Slip,
    confidence: float,
    tighter: TighterLimits = AS_DECLARED,
    keys: str | None = None,
) -> Plan:
    """Plan a question that costs ε."""
    delta, key_delta = slip.delta, slip.keys
    public = _public_keys(question, keys, paid=bool(key_delta))
    by = [key for _, key in question.keys]
    bounds = limits(question.relation, schema, keys=_most(question, public), by=by, tighter=tighter)
    estimators, needs = compile_aggregates(question.aggregates, weighted=bounds.units is not Units.ALONE)
    chosen = bool(question.keys) and public is None
    if chosen and not key_delta:
        why = why_private(question.keys, question.relation) if keys is None else "the question wants its keys chosen"
        way = ", and the question's own is 0: leave delta out" if delta else ": use a budget with a delta"
        raise UnplannableError(f"{why}. To choose them privately needs a delta above 0{way}")
    if not (needs.statistics or needs.choices or chosen):
        epsilon = Fraction(0)  # public keys alone: the list is the policy's, and says nothing of the data
    check_sizes(needs)
    parts = _parts(needs, chosen=chosen)
    selection = None
    noise_delta = delta if slip.gaussian else Fraction(0)
    if chosen:
        noise_delta = (delta - key_delta) / 2 if slip.gaussian else Fraction(0)
        selection = _selection(parts[0] * epsilon, key_delta, noise_delta, bounds)
    combined = together(question.keys, question.relation) if public else ()
    winners = Winners.of(question, estimators, public, combined=bool(combined))
    certain = confidence if winners is None else 1 - winners.prepared(1 - confidence)
    deciding = frozenset() if winners is None else winners.deciding
    choosing = Picks(
        choices=needs.choices,
        shares=[share * epsilon for share in parts[1 + len(needs.statistics) :]],
        confidences=[certain if choice in deciding else confidence for choice in needs.choices],
        alone=_alone(question, estimators) | deciding,
        bounds=bounds,
    )
    numeric = sum(parts[1 : 1 + len(needs.statistics)], Fraction(0)) * epsilon
    noises, picks, used = _protected(needs, choosing, numeric, Worth(noise_delta, slip.most_rho, slip.prefer_gaussian))
    spent = selection.delta if selection else Fraction(0)
    meant_at = spent + (noise_delta if used else 0) + (noise_delta if selection and selection.gaussian else 0)
    return Plan(
        question=question,
        extraction=Extraction(
            relation=question.relation,
            keys=question.keys,
            domains=public if question.keys else None,
            together=combined,
            limits=bounds,
            statistics=tuple(member for item in needs.statistics for member in members(item)),
            count_units=chosen,
        ),
        estimators=estimators,
        noises=noises,
        picks=picks,
        selection=selection,
        epsilon=epsilon,
        delta=spent,
        meant_at=meant_at,
        items=_items(selection, noises, picks),
        caveats=(
            *caveats(question, bounds, estimators, picks, public),
            *beyond_bounds(question, bounds, schema),
            *([] if winners is None else chosen_by_noise(winners)),
            *([gaussian_price(meant_at, drawn=not _gaussian(selection, noises, picks))] if meant_at > spent else []),
        ),
        confidence=confidence,
        winners=winners,
    )


def _public_keys(question: Question, wanted: str | None, *, paid: bool) -> tuple[Domain, ...] | None:
    """Return the keys that are listed; None where they are chosen, for which an account with a δ has ``paid``."""
    if wanted == "private" and question.keys:
        return None
    listed = domains(question.keys, question.relation, MANY_KEYS if paid and wanted is None else MAX_KEYS)
    if wanted == "public" and listed is None:
        raise UnplannableError(f"{why_private(question.keys, question.relation)}. So keys='public' is not possible")
    return listed


def _most(question: Question, public: tuple[Domain, ...] | None) -> int | None:
    """Return in how many groups a unit can be at most; None if that is not known."""
    if not question.keys:
        return 1
    return None if public is None else most_keys(public)


def _selection(epsilon: Fraction, delta: Fraction, meant_at: Fraction, bounds: Limits) -> Selection:
    """Choose how to choose keys: by a noisy threshold where that shows keys with fewer units."""
    keys = bounds.cells
    needed = units_needed(epsilon, delta, keys)
    rho = zcdp_budget(epsilon, meant_at) if meant_at and keys > 1 else Fraction(0)
    if rho:
        above = KeyThreshold.for_rho(rho, delta=delta, keys=keys)
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
    parts = [max(1, round(_FINE * float(weight) ** power)) for weight in weights]
    return [Fraction(part, sum(parts)) for part in parts]


def _gaussian(selection: Selection | None, noises: tuple[Noise, ...], picks: tuple[Pick, ...]) -> bool:
    """Return whether there is Gaussian noise in a question."""
    return (
        (selection is not None and selection.gaussian)
        or any(isinstance(noise.law, GroupedGaussian) for noise in noises)
        or any(isinstance(pick.mechanism, GroupedDistribution) and pick.mechanism.rho is not None for pick in picks)
    )


def _alone(question: Question, estimators: tuple[Estimator, ...]) -> frozenset[object]:
    """Return choices that an output is computed from together with others of the same column."""
    found: set[object] = set()
    for _, output in question.outputs:
        chosen = [
            item.choice for item in map(estimators.__getitem__, aggregates_in(output)) if isinstance(item, Picked)
        ]
        histograms = [choice.histogram for choice in chosen]
        found.update(choice for choice in chosen if histograms.count(choice.histogram) > 1)
    return frozenset(found)


def _protected(
    needs: Needs, choosing: Picks, numeric: Fraction, worth: Worth
) -> tuple[tuple[Noise, ...], tuple[Pick, ...], bool]:
    """Return how numbers and choices are protected, and whether their ε holds at a δ only.

    Each kind on its own is paid for in zCDP where that errs less. Where both are, they share the ρ of their ε together,
    which is more than their parts are worth.
    """
    chosen = sum(choosing.shares, Fraction(0))
    noises, gaussian = _noises(needs, choosing.bounds, numeric, worth.rho(numeric), preferred=worth.preferred)
    picks, divergent = _picks(choosing, worth.rho(chosen))
    if gaussian and divergent:
        joint = worth.rho(numeric + chosen) / (numeric + chosen)
        noises, _ = _noises(needs, choosing.bounds, numeric, joint * numeric, preferred=worth.preferred)
        picks = choosing.made(joint * chosen)
    return noises, picks, gaussian or divergent


def _picks(choosing: Picks, rho: Fraction) -> tuple[tuple[Pick, ...], bool]:
    """Return how choices are made: for pure ε, or for ρ where that errs less."""
    pure = choosing.made()
    if not rho or not pure:
        return pure, False
    divergent = choosing.made(rho)
    better = math.fsum(pick.error() for pick in divergent) < math.fsum(pick.error() for pick in pure)
    return (divergent, True) if better else (pure, False)


def _noises(
    needs: Needs, bounds: Limits, epsilon: Fraction, rho: Fraction, *, preferred: bool
) -> tuple[tuple[Noise, ...], bool]:
    """Return the noise of every statistic: all Laplace, or all Gaussian where that errs less or is ``preferred``."""
    if not needs.statistics:
        return (), False
    weights = list(needs.statistics.values())
    steps = [per_group(item, bounds.rows) for item in needs.statistics]
    pure = [share * epsilon for share in shares(weights, 1 / 3)]
    laplace = [
        GroupedLaplace.for_epsilon(part, sensitivity=step, contribution=bounds.contribution)
        for step, part in zip(steps, pure, strict=True)
    ]
    laws: Sequence[GroupedNoise] = laplace
    parts = pure
    single = len(weights) == 1 and bounds.cells == 1
    if rho and (preferred or not single):
        each = [share * rho for share in shares(weights, 1 / 2)]
        gaussian = [
            GroupedGaussian.for_rho(
                part, sensitivity=step, contribution=bounds.contribution, numbers=len(members(item))
            )
            for item, step, part in zip(needs.statistics, steps, each, strict=True)
        ]

        def total(candidates: Sequence[GroupedNoise]) -> float:
            return math.fsum(
                float(weight) * law.variance / step / step
                for weight, law, step in zip(weights, candidates, steps, strict=True)
            )

        if preferred or total(gaussian) < total(laplace):
            laws, parts = gaussian, [share * epsilon for share in shares(weights, 1 / 2)]
    noises = tuple(
        Noise(
            noised=item,
            law=law,
            l1=bounds.cells * step,
            l2_squared=bounds.touched**2 * bounds.groups * step * step,
            linf=bounds.touched * step,
            epsilon=part,
        )
        for item, law, step, part in zip(needs.statistics, laws, steps, parts, strict=True)
    )
    return noises, laws is not laplace


def _items(selection: Selection | None, noises: tuple[Noise, ...], picks: tuple[Pick, ...]) -> tuple[Item, ...]:
    items = []
    if selection is not None:
        items.append(Item(what="choosing keys", epsilon=selection.epsilon, delta=selection.delta))
    items += [Item(what=describe(noise.noised), epsilon=noise.epsilon) for noise in noises]
    return (*items, *(Item(what=describe_choices(pick.choices), epsilon=pick.epsilon) for pick in picks))
