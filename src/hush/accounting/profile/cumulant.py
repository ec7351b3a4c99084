"""The cumulant of a whole composition, in double precision with an error bound, remembered where it was asked for.

Pairs of one kind are evaluated together, so ten thousand different Laplace mechanisms are one array expression. A
composition that was made by adding a few events to another one inherits the other's remembered values and adds the
new events only.

**Where to put the line: the saddle point c of e^{K(c) − cε}/(c(c+1)), from K on the real axis.**

c comes from a fixed geometric grid, so that compositions that differ by an event share their nodes. Between coarse
points K is interpolated, and where the choice falls it is evaluated. A grid of sixteen a decade is fine enough as long
as K bends gently; next to where a sampled Gaussian's cumulant turns upwards a step of the grid may cost hundreds of
nats, all of them lost to cancellation, so there c is sought between the grid's points, as finely as the bend asks for.

Everything here is a choice, and any choice gives a valid answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from hush.accounting.description import Description
from hush.accounting.pairs.base import Batch, Complexes, Floats, Pair
from hush.core.work import spend

_MAX_CACHED_LINES = 24
"""The number of lines of nodes that are remembered."""


def log_kappa(z: Floats) -> Floats:
    """Return ln κ(z) = −z·ln(1+1/z) − ln(1+z)."""
    return -z * np.log1p(1 / z) - np.log1p(z)


class Cumulant:
    """K of the pairs of a description, in one direction."""

    def __init__(
        self,
        description: Description,
        *,
        reverse: bool = False,
        base: Cumulant | None = None,
        added: Description | None = None,
    ) -> None:
        self.pairs = description.pairs
        self.reverse = reverse
        self._batches: list[Batch] | None = None
        self._lines: dict[object, tuple[Complexes, Floats]] = {}
        self._tails: dict[tuple[float, float, float], float] = {}
        self._inherited: dict[object, tuple[Complexes, Floats]] = {}
        self._inherited_tails: dict[tuple[float, float, float], float] = {}
        self._added: Cumulant | None = None
        if base is not None and added is not None and len(added.pairs) <= max(8, len(self.pairs) // 4):
            # Only the remembered values are kept, not the base itself: a long ledger must not chain its whole past.
            self._inherited = base._lines  # noqa: SLF001 - of its own kind
            self._inherited_tails = base._tails  # noqa: SLF001
            self._added = Cumulant(added, reverse=reverse)

    def batches(self) -> list[Batch]:
        """Return the pairs grouped by kind."""
        if self._batches is None:
            kinds: dict[type[Pair], tuple[list[Pair], list[int]]] = {}
            for pair, count in self.pairs.items():
                pairs, counts = kinds.setdefault(type(pair), ([], []))
                pairs.append(pair)
                counts.append(count)
            self._batches = [kind.batch(pairs, counts, reverse=self.reverse) for kind, (pairs, counts) in kinds.items()]
        return self._batches

    def line(self, key: object, nodes: Callable[[], Complexes]) -> tuple[Complexes, Floats]:
        """Return K and its error R at the nodes of a line, cached under ``key``."""
        values = self._lines.get(key)
        if values is None:
            inherited = self._inherited.get(key)
            if inherited is not None and self._added is not None:
                k, r = self._added.at(nodes())
                values = inherited[0] + k, inherited[1] + r + 4e-16 * np.abs(inherited[0] + k)
            else:
                values = self.at(nodes())
            if len(self._lines) >= _MAX_CACHED_LINES:
                self._lines.pop(next(iter(self._lines)))
            self._lines[key] = values
        return values

    def at(self, z: Complexes) -> tuple[Complexes, Floats]:
        """Return K and R at any nodes with a positive real part (a real array stays real, which is quicker)."""
        spend(1 + z.size * len(self.pairs) // 4)
        value = np.zeros(z.shape, dtype=z.dtype)
        error = np.zeros(z.shape)
        for batch in self.batches():
            with np.errstate(invalid="ignore"):  # an infinite K says that a batch claims nothing at that node
                k, r = batch.cumulant(z)
            value = value + k
            error = error + r + 4e-16 * np.abs(value)
        return value, error

    def affordable(self) -> int:
        """Return the largest number of nodes of a line: fewer for many different pairs."""
        return max(2048, min(1 << 15, 2_000_000 // max(1, len(self.pairs))))

    def real(self, c: Floats) -> Floats:
        """Return K on the real axis, for searches: infinite where nothing is claimed, else without its error."""
        with np.errstate(all="ignore"):
            k, r = self.at(c)
            return np.asarray(np.where(np.isfinite(r), k.real, np.inf))

    def log_tail(self, c: float, low: float, high: float) -> float:
        """Return an upper bound of ln|M(c+iu)| over low ≤ |u| ≤ high."""
        key = (c, low, high)
        bound = self._tails.get(key)
        if bound is None:
            inherited = self._inherited_tails.get(key)
            if inherited is not None and self._added is not None:
                # |M| is a product, so the bounds of its logarithm add up.
                bound = inherited + self._added.log_tail(c, low, high)
                bound += 1e-15 * abs(bound)
            else:
                bound = sum(batch.log_tail(c, low, high) for batch in self.batches())
            if len(self._tails) > 16 * _MAX_CACHED_LINES:
                self._tails.clear()
            self._tails[key] = bound
        return bound


GRID: Floats = 10.0 ** (np.arange(-9 * 16, 12 * 16 + 1) / 16)
"""The abscissae c that are used wherever K bends gently: sixteen a decade."""
COARSE: Floats = GRID[::4]
"""The abscissae at which K is evaluated on the real axis; between them it is interpolated to choose c."""
LOG_TOLERANCE = math.log(1e-15)
"""The logarithm of the share of δ that the cut and the aliases may take."""
_LARGEST_BEND = 2.0
"""The largest height in nats of a neighbour on the grid above the saddle point."""
_ZOOM_STEPS: Floats = np.arange(33) / 32


class SaddlePoint:
    """The choice of c, and of the period that it asks for, for one composition and direction.

    ``last``: the largest c that is of use; ``tolerance``: the logarithm of the share of δ that the errors are aimed at.
    """

    def __init__(self, cumulant: Cumulant, *, largest: float, last: float = math.inf) -> None:
        self.cumulant = cumulant
        self.largest = largest
        k, r = cumulant.line("real", lambda: COARSE)
        # Certified on the coarse grid; ln K against ln c is smooth, and a cubic through four points serves for guesses.
        self.coarse: Floats = np.where(np.isfinite(r) & (r < 1), k.real, np.inf)
        self.coarse_error: Floats = r
        self._real = _interpolated(self.coarse)
        self._sharp: set[int] = set()
        self._top = max(int(np.searchsorted(GRID, last)), 1) if last < GRID[-1] else len(GRID) - 1

    def _sharpen(self, index: int) -> bool:
        """Replace the interpolated K round a grid index by K itself; return whether that was new.

        Sampled noise has a cumulant that turns upwards within a fraction of a decade, which no interpolation follows.
        """
        low = max(index - index % 8 - 8, 0)
        if low in self._sharp or self.cumulant.affordable() < 1 << 15:
            return False
        self._sharp.add(low)
        window = slice(low, low + 24)
        k, r = self.cumulant.line(("real", "fine", low), lambda: GRID[window])
        with np.errstate(all="ignore"):
            self._real[window] = np.where(np.isfinite(r) & (r < 1), k.real, np.inf)
        return True

    def _sought(self, choose: Callable[[Floats, Floats], tuple[int, float] | None]) -> tuple[float, float] | None:
        """Return the c and the figure that ``choose`` gives: first with K itself near c, then on finer grids."""
        for _ in range(7):
            chosen = choose(GRID[: self._top + 1], self._real[: self._top + 1])
            if chosen is None:
                return None
            choice = chosen
            if not self._sharpen(choice[0]):
                break
        c, k, index = GRID, self._real, choice[0]
        for level in range(9):
            inside = 0 < index < len(c) - 1
            if self.cumulant.affordable() < 1 << 15 or not (_bent(c, k, index) if inside else level > 0):
                break
            # Next to a kink the first choice may be a step too low or too high: then go on from the edge.
            low = (
                float(c[index - 1]) if index > 0 else float(GRID[max(int(np.searchsorted(GRID, c[0] * 0.999)) - 1, 0)])
            )
            high = (
                float(c[index + 1])
                if index < len(c) - 1
                else float(GRID[int(np.searchsorted(GRID[:-1], c[-1] * 1.001))])
            )
            if not low < high:
                break
            finer = low * (high / low) ** _ZOOM_STEPS
            values, r = self.cumulant.line(("real", "zoom", level, low, high), lambda finer=finer: finer)  # type: ignore[misc]
            exact = np.where(np.isfinite(r) & (r < 1), values.real, np.inf)
            closer = choose(finer, exact)
            if closer is None:
                break
            c, k, choice, index = finer, exact, closer, closer[0]
        return float(c[choice[0]]), choice[1]

    def at_delta(self, log_delta: float) -> tuple[float, float] | None:
        """Return the c and the ε at which the saddle-point estimate of ln δ is nearest to the target."""

        def choose(c: Floats, k: Floats) -> tuple[int, float] | None:
            epsilon, estimate, _ = _profile(c, k)
            usable = np.isfinite(estimate) & np.isfinite(epsilon)
            if not usable.any():
                return None
            nearest = int(np.argmin(np.where(usable, np.abs(estimate - log_delta), np.inf)))
            guess = float(epsilon[nearest]) + float(estimate[nearest] - log_delta) / float(c[nearest])
            return nearest, min(max(guess, 0.0), self.largest)

        return self._sought(choose)

    def at_epsilon(self, epsilon: float) -> tuple[float, float] | None:
        """Return the c where the integrand is smallest, and an estimate of ln δ there."""

        def choose(c: Floats, k: Floats) -> tuple[int, float] | None:
            with np.errstate(all="ignore"):
                height = k - c * epsilon - np.log(c) - np.log1p(c)
            height = np.where(np.isfinite(height), height, np.inf)
            lowest = int(np.argmin(height))
            if not math.isfinite(height[lowest]):
                return None
            _, _, curvature = _profile(c, k)
            spread = float(curvature[lowest]) if math.isfinite(float(curvature[lowest])) else 1.0
            # Laplace's method: the integral is about e^{height}/√(2π·curvature).
            return lowest, min(float(height[lowest]) - 0.5 * math.log(2 * math.pi * max(spread, 1e-300)), -1e-3)

        return self._sought(choose)

    def root(self, log_delta: float) -> tuple[float, float] | None:
        """Return c and ε as :meth:`at_delta` does, by bisection on :meth:`at_epsilon`: slower, better at kinks."""
        with np.errstate(all="ignore"):
            # Chernoff's bound ln δ(ε) ≤ K(c) + ln κ(c) − cε, solved for ε: the answer lies below each of these.
            ends = (self.coarse + log_kappa(COARSE) - log_delta) / COARSE
        low, high = 0.0, min(float(np.min(ends[np.isfinite(ends)], initial=math.inf)), self.largest)
        if not math.isfinite(high):
            return None
        best = None
        for _ in range(50):
            middle = 0.5 * (low + high)
            saddle = self.at_epsilon(middle)
            if saddle is None:
                break
            best = saddle[0], middle
            low, high = (middle, high) if saddle[1] > log_delta else (low, middle)
            if (high - low) * saddle[0] < 0.1:
                break
        return best

    def ahead(self, c: float) -> tuple[Floats, Floats, Floats]:
        """Return points just right of c, with the cumulant and its error bound there."""
        after = int(np.searchsorted(GRID, c * 1.01))
        close = GRID[after : after + 6]
        nearby = self._real[max(after - 2, 0) : after + 2]
        if not np.isfinite(nearby).all() or nearby[-1] > 2.5 * nearby[0]:  # steep: nearer points are worth a look
            close = np.concatenate([c + (float(GRID[after]) - c) * 2.0 ** -np.arange(10.0, 0, -1), close])
        k, r = self.cumulant.line(("real", "ahead", c, close.size), lambda: close)
        return close, k.real, r

    def period(self, c: float, epsilon: float, log_delta: float) -> float:
        """Return the P at which both aliases are about 1e-15 of δ, for the abscissa c."""
        goal = log_delta + LOG_TOLERANCE
        close, values, error = self.ahead(c)
        first = int(np.searchsorted(GRID, c * 1.01))
        beyond = np.concatenate([close, GRID[first:]])
        with np.errstate(all="ignore"):
            cumulants = np.concatenate([np.where(error < 1, values, np.inf), self._real[first:]])
            needed = (cumulants - beyond * epsilon + log_kappa(beyond) - goal) / (beyond - c)
        needed = needed[np.isfinite(needed)]
        forward = min(float(needed.min()) if needed.size else math.inf, self.largest - epsilon)
        backward = -goal / c  # e^{-cP} ≤ e^{goal}, since δ ≤ 1 for the aliases m < 0
        return max(backward, forward if math.isfinite(forward) else backward, 1e-300)


def _bent(c: Floats, k: Floats, index: int) -> bool:
    """Whether a step of this grid rises too far above the saddle point: K'' times the square of the step."""
    with np.errstate(all="ignore"):
        low, high = (
            (k[index] - k[index - 1]) / (c[index] - c[index - 1]),
            (k[index + 1] - k[index]) / (c[index + 1] - c[index]),
        )
        bend = float((high - low) * (c[index + 1] - c[index - 1]) / 2)
    return not bend <= _LARGEST_BEND and float(c[index + 1] / c[index]) > 1 + 1e-12


def _profile(c: Floats, k: Floats) -> tuple[Floats, Floats, Floats]:
    """Return arrays along the grid of c: the ε that has its saddle point at c, an estimate of ln δ, the curvature."""
    log_c = np.log(c)
    with np.errstate(all="ignore"):
        # The saddle point of K(c) − cε − ln c − ln(1+c): its derivative vanishes at ε = K' − 1/c − 1/(1+c).
        first = np.gradient(k, log_c) / c
        second = np.maximum(np.gradient(first, log_c) / c, 0)
        curvature = second + 1 / c**2 + 1 / (1 + c) ** 2
        epsilon = first - 1 / c - 1 / (1 + c)
        log_delta = k - c * epsilon - log_c - np.log1p(c) - 0.5 * np.log(2 * np.pi * curvature)
    return epsilon, log_delta, curvature


def _interpolated(coarse: Floats) -> Floats:
    """Return K on GRID from K on COARSE: cubic in ln K against ln c; infinite wherever a neighbour is unknown."""
    with np.errstate(all="ignore"):
        logs = np.log(coarse)
    logs = np.where(np.isfinite(logs), logs, np.nan)
    padded = np.concatenate([[2 * logs[0] - logs[1]], logs, [2 * logs[-1] - logs[-2]]])
    a, b, c, d = padded[:-3], padded[1:-2], padded[2:-1], padded[3:]
    t = np.arange(4)[None, :] / 4
    # Catmull–Rom: the cubic through b and c with slopes (c−a)/2 and (d−b)/2.
    cubic = b[:, None] + 0.5 * t * (
        (c - a)[:, None] + t * ((2 * a - 5 * b + 4 * c - d)[:, None] + t * (3 * (b - c) + d - a)[:, None])
    )
    fine = np.append(cubic.ravel(), logs[-1])
    with np.errstate(all="ignore"):
        values = np.exp(fine)
    return np.where(np.isnan(values), np.inf, values)
