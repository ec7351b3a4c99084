r"""Proofs about ε from counts: bets against the claim, exact intervals, and which violation would have been found.

**The claim as a fair game.** A mechanism is (ε, δ)-private only if P[M(D)∈S] ≤ e^ε·P[M(D')∈S] + δ for all neighbours
and all events S. Let x be 1 if a run on D falls into S and y the same of an independent run on D'. If the claim is true
then z = x − e^ε·y − δ has a mean of at most zero, so that a player who stakes a share λ of the fortune on z,

    W ← W·(1 + λz),   0 ≤ λ < 1/(e^ε + δ),

plays a game that is fair at best. D, D', S, ε, the direction and λ may be anything that was fixed *before* the run: the
fortune stays a supermartingale, and Ville's inequality says that it ever reaches 1/α with probability at most α, at
whatever moment one looks or stops (J. Ville, *Étude critique de la notion de collectif*, 1939; I. Waudby-Smith and
A. Ramdas, *Estimating means of bounded random variables by betting*, JRSS B 2024). So events are chosen on earlier runs
and tested on later ones, all choices share one α, and stopping early is honest. A claimed *profile* δ(ε) is many claims
that hold together: a bet may be placed at whichever of its points looks worst.

**Lower bound of ε.** The same bets are placed against every ε of a grid. The smallest ε whose game has not been won is
a lower bound: the true ε's game is won with probability at most α.

**Intervals of one probability** are those of Clopper and Pearson (*Biometrika* 26, 1934), exact, from
`hush.utility.lower_bound`. After k looks one of level α/(k(k+1)) is taken: the errors of all looks add up to α.

**Power.** With Kelly's λ the log-fortune after n pairs of runs has mean n·g and variance n·v. It passes ln 1/α nine
times in ten if n·g − 1.2816·√(n·v) ≥ ln 1/α. :func:`detectable` solves that for the event that tells most about
Laplace noise, P[S] = ½; :func:`runs_needed` is the same read the other way.

**Goodness of fit.** Where the claimed law is a hush mechanism's, its probabilities are known, and a sampler of another
law is found long before its ε can be refuted. The test is again a bet: earlier runs estimate the law, and the
likelihood ratio of that estimate to the claimed law is the stake on the next runs. Under the claimed law each factor
has mean 1, so the product exceeds 1/α with probability at most α, whenever one looks.

>>> runs_needed(claimed=1, true=2, level=0.05)
156
>>> round(detectable(claimed=1, runs=156, level=0.05), 2)
2.0
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import InvalidValueError
from hush.utility import lower_bound, upper_bound

Floats = npt.NDArray[np.float64]
Numbers = Any
"""Floats, or arrays of floats."""
GRID = np.concatenate([np.arange(0.0, 1.0, 0.005), np.arange(1.0, 4.0, 0.02), np.arange(4.0, 14.0, 0.1)])
"""The ε against which bets are placed to bound ε from below."""
_MOST_STAKED = 0.98
"""The share of the largest allowed λ that is staked at most: no single run may ruin the player."""
_NINE_IN_TEN = NormalDist().inv_cdf(0.9)

_CELLS = 24
_WEIGHT = 64.0
"""How many runs of the claimed law the estimate begins with: few early runs move it little."""


def stake(p: Numbers, q: Numbers, epsilon: Numbers, delta: Numbers) -> Floats:
    """Return the λ of greatest expected log-growth if P[S] = p and P'[S] = q (Kelly 1956); 0 where no bet is good."""
    factor = np.exp(epsilon)
    payoffs, weights = _game(p, q, factor, delta)
    low = np.zeros(np.broadcast(p, factor).shape)
    high = np.broadcast_to(_MOST_STAKED / (factor + delta), low.shape).copy()
    # The growth Σ w·ln(1 + λz) is concave in λ: its slope Σ w·z/(1 + λz) is bisected.
    for _ in range(30):
        middle = (low + high) / 2
        rising = sum(w * z / (1 + middle * z) for w, z in zip(weights, payoffs, strict=True)) > 0
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    return np.where(p - factor * q - delta > 0, low, 0.0)


def growth(p: Numbers, q: Numbers, epsilon: Numbers, delta: Numbers) -> tuple[Floats, Floats]:
    """Return the mean and the variance of ln(1 + λz) under Kelly's λ."""
    share = stake(p, q, epsilon, delta)
    payoffs, weights = _game(p, q, np.exp(epsilon), delta)
    logs = [np.log1p(share * z) for z in payoffs]
    mean = sum(w * log for w, log in zip(weights, logs, strict=True))
    square = sum(w * log**2 for w, log in zip(weights, logs, strict=True))
    return np.asarray(mean), np.asarray(square - mean**2)


def rough_growth(p: Numbers, q: Numbers, epsilon: Numbers, delta: Numbers) -> Floats:
    """Return about the growth of the best bet, quickly, for comparing thousands of events.

    Where no bet is good the result is negative: the less so, the nearer the event is to a violation.
    """
    factor = np.exp(epsilon)
    mean = p - factor * q - delta
    square = p * (1 - p) + factor**2 * q * (1 - q) + mean**2
    # Kelly's stake of a small bet: the mean over the second moment.
    share = np.minimum(mean / np.maximum(square, 1e-300), _MOST_STAKED / (factor + delta))
    payoffs, weights = _game(p, q, factor, delta)
    total = sum(w * np.log1p(np.maximum(share, 0) * z) for w, z in zip(weights, payoffs, strict=True))
    return np.asarray(np.where(mean > 0, total, mean / 1000))


def _game(p: Numbers, q: Numbers, factor: Numbers, delta: Numbers) -> tuple[list[Floats], list[Floats]]:
    """Return the four values of z = x − e^ε·y − δ with their probabilities."""
    values = [1 - delta, -delta, 1 - factor - delta, -factor - delta]
    weights = [p * (1 - q), (1 - p) * (1 - q), p * q, (1 - p) * q]
    return [np.asarray(value) for value in values], [np.asarray(weight) for weight in weights]


class Fortune:
    """The bets of one audit: against the claim, and against every ε of a grid at the claim's δ.

    >>> fortune = Fortune(delta=0.0)
    >>> always, never = np.ones(40, bool), np.zeros(40, bool)
    >>> fortune.bet(always, never, p=0.98, q=0.02, point=(1.0, 0.0))
    >>> fortune.won(0.05), fortune.epsilon(0.05) > 2
    (True, True)
    """

    def __init__(self, *, delta: float) -> None:
        self.delta = np.float64(delta)
        self.log = self.best = 0.0
        self._grid, self._grid_best = np.zeros(len(GRID)), np.zeros(len(GRID))

    def bet(
        self,
        ours: npt.NDArray[np.bool_],
        theirs: npt.NDArray[np.bool_],
        *,
        p: float,
        q: float,
        point: tuple[float, float],
    ) -> None:
        """Stake on pairs of runs, whether each fell into the event; p and q are guesses from *earlier* runs."""
        epsilon, delta = np.float64(point[0]), np.float64(point[1])
        share = float(stake(np.float64(p), np.float64(q), epsilon, delta))
        path = self.log + np.cumsum(np.log1p(share * (ours - np.exp(epsilon) * theirs - delta)))
        self.log = float(path[-1])
        self.best = max(self.best, float(path.max()))  # Ville: the largest fortune on the way counts
        shares = stake(np.full(len(GRID), p), np.full(len(GRID), q), GRID, self.delta)
        for x, y in itertools.product((0, 1), repeat=2):
            times = int(np.count_nonzero((ours == x) & (theirs == y)))
            self._grid += times * np.log1p(shares * (x - np.exp(GRID) * y - self.delta))
        # Only after each batch: Ville's inequality holds for any moments one looks at, and counts tell no order.
        np.maximum(self._grid_best, self._grid, out=self._grid_best)

    def won(self, level: float) -> bool:
        """Return whether the claim is refuted with confidence 1 − level."""
        return self.best >= -math.log(level)

    def epsilon(self, level: float) -> float:
        """Return the lower bound of ε at the claim's δ: the smallest ε of the grid that is not refuted."""
        standing = self._grid_best < -math.log(level)
        # The ε of the grid below is refuted, and with it everything up to the next one that is not.
        first = int(np.argmax(standing)) if standing.any() else len(GRID) - 1
        return float(GRID[max(first - 1, 0)])


class LawTest:
    """Bets that noise does not have the law of a mechanism that adds noise on a grid, for instance `hush.Laplace`."""

    def __init__(self, mechanism: Any) -> None:
        if not hasattr(mechanism, "probabilities"):
            raise InvalidValueError("law", got=mechanism, allowed="a mechanism with probabilities: Laplace or Gaussian")
        self._step = float(mechanism.step)
        reach = math.ceil(8 * math.sqrt(mechanism.variance) / self._step) + 4
        probabilities = np.asarray(mechanism.probabilities(min(reach, 200_000)))
        # Cells of about equal probability; what lies beyond the table belongs to the outer ones.
        edges = np.searchsorted(np.cumsum(probabilities), np.linspace(0, 1, _CELLS + 1)[1:-1])
        self._edges = np.unique(edges) - (len(probabilities) - 1) // 2
        masses = np.add.reduceat(probabilities, np.concatenate([[0], np.unique(edges) + 1]))
        self._claimed = masses / masses.sum()
        self._counts = np.zeros(len(masses))
        self.log = self.best = 0.0

    def add(self, noise: Sequence[float] | npt.NDArray[np.float64]) -> None:
        """Bet on draws of noise with the law that earlier draws suggest, then add these draws to the estimate."""
        steps = np.asarray(noise, dtype=np.float64) / self._step
        whole = np.round(steps)
        # A value off the grid has probability 0 under the claimed law: one is a proof.
        if not np.all(np.abs(steps - whole) <= 1e-6 * np.maximum(1, np.abs(steps))):
            self.log = self.best = math.inf
            return
        cells = np.bincount(np.searchsorted(self._edges, whole), minlength=len(self._counts))
        seen = self._counts.sum()
        estimate = (self._counts + _WEIGHT * self._claimed) / (seen + _WEIGHT)
        self.log += float(cells @ np.log(estimate / self._claimed))
        self.best = max(self.best, self.log)
        self._counts += cells

    def refuted(self, level: float) -> bool:
        """Return whether the law is refuted with confidence 1 − level."""
        return self.best >= -math.log(level)


def interval(count: int, runs: int, *, level: float, look: int = 1) -> tuple[float, float]:
    """Return the Clopper-Pearson interval of a probability, at a level that may be spent at every look.

    >>> [round(end, 3) for end in interval(0, 100, level=0.05)]
    [0.0, 0.043]
    """
    miss = min(level / (look * (look + 1)) / 2, 0.49)
    return lower_bound(count, runs, miss=miss), upper_bound(count, runs, miss=miss)


def gaussian_mu(p: tuple[float, float], q: tuple[float, float]) -> float:
    """Return the least μ of Gaussian privacy that a point of the ROC curve allows, from intervals of p and q.

    μ-GDP says P[S] ≤ Φ(Φ⁻¹(P'[S]) + μ) (Dong, Roth & Su, JRSS B 2022), so μ ≥ Φ⁻¹(p₋) − Φ⁻¹(q₊).
    """
    if p[0] <= 0 or q[1] >= 1:
        return 0.0
    normal = NormalDist()
    # p₋ is moved down and q₊ up, if at all: the bound can only get smaller.
    return max(0.0, normal.inv_cdf(min(p[0], 1 - 1e-15)) - normal.inv_cdf(max(q[1], 1e-15)))


def runs_needed(*, claimed: float, true: float, level: float, delta: float = 0.0) -> int:
    """Return the runs per side after which a mechanism of this true ε is found nine times in ten."""
    # The event of an (ε, δ)-private threshold: P[S] = ½ and P'[S] = (½ − δ)·e^−ε.
    p, q = np.float64(0.5), (0.5 - delta) * np.exp(-np.float64(true))
    mean, variance = map(float, growth(p, q, np.float64(claimed), np.float64(delta)))
    if mean <= 0:
        return 2**62
    # n·g − z·√(n·v) = ln 1/α is a quadratic equation in √n.
    spread = _NINE_IN_TEN * math.sqrt(variance)
    return math.ceil(((spread + math.sqrt(spread**2 - 4 * mean * math.log(level))) / (2 * mean)) ** 2)


def detectable(*, claimed: float, runs: int, level: float, delta: float = 0.0) -> float:
    """Return the smallest true ε that ``runs`` runs per side would have found nine times in ten."""
    low, high = claimed, claimed + 40.0
    if runs_needed(claimed=claimed, true=high, level=level, delta=delta) > runs:
        return math.inf
    for _ in range(40):
        middle = (low + high) / 2
        enough = runs_needed(claimed=claimed, true=middle, level=level, delta=delta) <= runs
        low, high = (low, middle) if enough else (middle, high)
    return high
