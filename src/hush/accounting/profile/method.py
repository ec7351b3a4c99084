"""The interface of the methods that compute δ(ε), and the certified inverse: ε at a given δ.

Any function that returns certified ends of ln δ(ε) can be inverted soundly: the answer's upper end is an ε at which the
*upper* end of ln δ was seen to be at most the target, the lower end one at which the *lower* end was seen to be at
least the target. The search that finds those points does not matter for soundness.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from hush.accounting.profile.cumulant import Cumulant, SaddlePoint
from hush.core.rounding import falling_root


@dataclass(frozen=True, slots=True)
class LogInterval:
    """ln δ between certified ends."""

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """The relative uncertainty of δ, as a difference of logarithms."""
        return self.upper - self.lower


NOTHING_KNOWN = LogInterval(lower=-math.inf, upper=0.0)
"""The ends that hold for every δ."""


class Method(ABC):
    """A method that computes certified ends of δ(ε) for the pairs of one direction."""

    last_resort: bool = False
    """Whether the method is costly, and skipped where cheaper ones gave a good answer."""

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.cumulant = cumulant
        self.largest = largest

    @cached_property
    def saddle(self) -> SaddlePoint:
        """The choice of c for this composition and direction."""
        return SaddlePoint(self.cumulant, largest=self.largest)

    @abstractmethod
    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        slope, guess = self.saddle.at_delta(target.lower) or (1.0, 1.0)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.largest)


class FittedMethod(Method):
    """A method that prepares a curve for one place: its ends hold everywhere, and are sharp next to that place."""

    @abstractmethod
    def fitted(self, c: float, epsilon: float, log_delta: float) -> Callable[[float], LogInterval] | None:
        """Return ends of ln δ as a function of ε, sharp next to the ε and ln δ that have their saddle point at c.

        None where the method has nothing to say there.
        """

    def log_delta(self, epsilon: float) -> LogInterval:
        saddle = self.saddle.at_epsilon(epsilon)
        curve = None if saddle is None else self.fitted(saddle[0], epsilon, saddle[1])
        return NOTHING_KNOWN if curve is None else curve(epsilon)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        saddle = self.saddle.at_delta(target.lower)
        if saddle is None:
            return 0.0, math.inf
        c, guess, log_delta = *saddle, target.lower
        if guess == 0.0:  # the answer may be ε = 0, where δ is above or below the target
            c, log_delta = self.saddle.at_epsilon(0.0) or (c, log_delta)
        curve = self.fitted(c, guess, log_delta)
        return (0.0, math.inf) if curve is None else invert(curve, target, guess=guess, slope=c, largest=self.largest)


def invert(
    log_delta: Callable[[float], LogInterval],
    target: LogInterval,
    *,
    guess: float,
    slope: float,
    largest: float,
) -> tuple[float, float]:
    """Return (lower, upper) around the smallest ε ≥ 0 with δ(ε) ≤ the target.

    ``slope`` is a first guess at −d ln δ/dε; ``largest`` bounds every loss: δ is 0 from there on (or infinite).
    """
    evaluations: dict[float, LogInterval] = {}

    def look(epsilon: float) -> LogInterval:
        if epsilon not in evaluations:
            evaluations[epsilon] = log_delta(epsilon)
        return evaluations[epsilon]

    # An estimate of the root first. It proves nothing: the ends are proved by evaluations on either side of it.
    middle = 0.5 * (target.lower + target.upper)
    root, slope = falling_root(lambda x: look(x).upper - middle, guess, slope=slope, largest=largest)
    excess, deficit = look(root).upper - target.lower, target.upper - look(root).lower
    # The first step covers the interval's own width at the known slope; at least one unit in the last place.
    right, left = (
        max(1.02 * gap / slope if math.isfinite(gap) and gap > 0 else 0.0, 2.3e-16 * root) for gap in (excess, deficit)
    )
    # No loss is above the largest, so δ is 0 there.
    upper = _walk(lambda x: look(x).upper <= target.lower, root, right, largest)
    lower = _walk(lambda x: look(x).lower >= target.upper, root, -left, 0.0)
    # Every evaluation on the way is evidence too.
    upper = min([upper, *(x for x, delta_ends in evaluations.items() if delta_ends.upper <= target.lower)])
    lower = max([lower, *(x for x, delta_ends in evaluations.items() if delta_ends.lower >= target.upper)])
    return lower, upper


def _walk(holds: Callable[[float], bool], root: float, step: float, end: float) -> float:
    """Return an ε that holds, by ever longer steps away from the root; the end, which holds, where none is found."""
    x = root
    for _ in range(80):
        if holds(x):
            return x
        x = root + step
        if not (x < end if step > 0 else x > end):
            break
        step *= 4
    return end
