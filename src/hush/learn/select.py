r"""Choosing among private models: try a random number of candidates, keep the best, at one known price.

Fitting ten models and keeping the best costs ten fits, and a grid search that is not accounted for costs nobody knows
what. Papernot and Steinke (2022, "Hyperparameter tuning with Rényi differential privacy", Theorem 2) draw the number of
trials K at random and release only the best model: for K geometric with mean m (their truncated negative binomial
with η = 1, γ = 1/m), base steps of Rényi divergence ε(α) and any orders α, β > 1,

    ε'(α) ≤ ε(α) + 2·(1 − 1/β)·ε(β) + 2·ln(m)/β + ln(m)/(α−1);

a pure ε becomes 3ε, whatever m is. Each trial picks a candidate uniformly, fits it and scores it. **The score may
look at public rows and at the model, never at protected rows**: those would need a price of their own. Neither K nor
the other scores leave.

>>> from hush.learn import NaiveBayes, Selection
>>> candidates = [NaiveBayes({"x": (0, 9)}, epsilon="0.1", delta=0), NaiveBayes({"x": (0, 4)}, epsilon="0.1", delta=0)]
>>> x, y = {"x": [1, 8] * 100}, [0, 1] * 100
>>> chosen: Selection = select(candidates, x, y, score=lambda model: 0.0, expected_trials=2)
>>> round(chosen.event.pure_epsilon(), 6), chosen.event == selection_event(candidates, expected_trials=2)
(0.3, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.accounting import ApproximateDPEvent, Event, RenyiEvent
from hush.core import InvalidValueError, Number, exact
from hush.core.errors import members
from hush.learn.model import Model
from hush.noise import bernoulli, uniform_integer

_ORDERS = [Fraction(order) for order in ("1.1", "1.25", "1.5", 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64)]
_ORDERS += [Fraction(order) for order in (80, 96, 128, 192, 256, 384, 512, 1024)]


@dataclass(frozen=True, slots=True)
class SelectedModel:
    """The best model of a random number of trials, with the price of the search."""

    model: Model
    event: Event


def selection_event(candidates: Sequence[Model], *, expected_trials: Number = 10) -> Event:
    """Return the price of choosing among candidates: the theorem's bound for the most expensive candidate."""
    mean = _mean(expected_trials)
    candidates = members(candidates, "candidates", allowed="a list of models", of=Model)
    if not candidates:
        raise InvalidValueError("candidates", got=[], allowed="at least one model")
    events = [candidate.event for candidate in candidates]
    pure = max(event.pure_epsilon() for event in events)
    if math.isfinite(pure):
        return ApproximateDPEvent(epsilon=3 * Fraction(pure))
    if any(event.delta_infinite > 0 for event in events):
        got, hint = "a model whose loss may be infinite", "The theorem needs a finite Rényi divergence."
        raise InvalidValueError("candidates", got=got, allowed="models of pure or Gaussian noise", hint=hint)
    base = {order: max(event.renyi(order) for event in events) for order in _ORDERS}
    # Rounded up, for the logarithm adds to the price.
    log = math.log(mean) * (1 + 1e-12)
    # The bound holds for every order β, so the best of them counts.
    repeated = min(2 * (1 - 1 / float(order)) * value + 2 * log / float(order) for order, value in base.items())
    # Floats of sums of positive terms: each is off by a few units in the last place, which the factor covers.
    points = [
        (order, Fraction((value + repeated + log / float(order - 1)) * (1 + 1e-12))) for order, value in base.items()
    ]
    return RenyiEvent(points=points)


def select(
    candidates: Sequence[Model],
    X: Any,  # noqa: N803 - scikit-learn's name
    y: Any = None,
    *,
    score: Callable[[Model], float],
    expected_trials: Number = 10,
) -> SelectedModel:
    """Fit a random number of randomly picked candidates and return the one with the best score.

    ``score`` takes a fitted model and returns a number, larger for better; it may look at public rows only.
    """
    event = selection_event(candidates, expected_trials=expected_trials)
    chance = 1 / Fraction(_mean(expected_trials))
    best: Model | None = None
    top = -math.inf
    while True:
        chosen = candidates[uniform_integer(len(candidates))]
        model: Any = type(chosen)(**chosen.get_params())
        model = model.fit(X) if y is None else model.fit(X, y)
        value = float(score(model))
        if best is None or value > top:
            best, top = model, value
        # Stopping with probability 1/m after each trial makes their number geometric with mean m.
        if bernoulli(chance):
            return SelectedModel(best, event)


def _mean(expected_trials: Number) -> float:
    mean = exact(expected_trials, "expected_trials")
    if not 1 <= mean <= 10**300:
        raise InvalidValueError("expected_trials", got=expected_trials, allowed="a number from 1 to 1e300")
    return float(mean)
