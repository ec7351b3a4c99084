r"""Ends that cost next to nothing and hold for every composition: far tails, near certainty, and the largest loss.

* **Far out**, δ(ε) ≤ κ(c)·e^{K(c) − cε} for every c > 0 (:mod:`.renyi_conversion`): the upper end where δ is too small
  for a float, and a start for every other method.
* **Near 1.** 1 − δ(ε) = E min(1, e^{ε−L}) ≤ e^{sε}·E e^{-sL} = e^{sε + K(−s)} for 0 ≤ s ≤ 1, as min(1, y) ≤ y^s: the
  lower end where millions of steps make δ all but 1. K(−1/2) is asked for alone, in ball arithmetic.
* **At the top.** Where every pair has an atom at its largest loss, of mass pᵢ, their sum is an atom of mass p = Πpᵢ at
  the largest loss of all, and δ(ε) ≥ p·(1 − e^{ε − largest}): the lower end for δ far below p.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from hush.accounting.pairs.base import Floats
from hush.accounting.pairs.float_errors import UNIT
from hush.accounting.profile.cumulant import Cumulant
from hush.accounting.profile.method import LogInterval
from hush.accounting.profile.renyi_conversion import log_kappa
from hush.accounting.profile.saddle_point import COARSE
from hush.core.balls import Ball, ball, down, flint, precision, up

_MOST_PAIRS = 200
_BITS = 128


class TailBounds:
    """Certified ends in closed form."""

    last_resort: ClassVar[bool] = False

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.cumulant = cumulant
        self.largest = largest
        self._half: float | None = None
        self._top: float | None = None

    def _chernoff(self) -> tuple[Floats, Floats]:
        """Return abscissae c with certified upper ends of K(c) + ln κ(c)."""
        k, r = self.cumulant.line("real", lambda: COARSE)
        with np.errstate(all="ignore"):
            logs = k.real + r + log_kappa(COARSE)
            logs = logs + 64 * UNIT * (np.abs(k.real) + 1)
        good = np.isfinite(logs)
        return COARSE[good], logs[good]

    def _halfway(self) -> float:
        """Return an upper end of K(−1/2)."""
        if self._half is None:
            self._half = 0.0
            if len(self.cumulant.pairs) <= _MOST_PAIRS:
                with precision(_BITS):
                    total = flint().arb(0)
                    for pair, count in self.cumulant.pairs.items():
                        total += count * pair.moment(flint().acb(-0.5)).real.log()
                    self._half = up(total) if total.is_finite() else 0.0
        return self._half

    def _edge(self) -> tuple[float, Ball | None]:
        """Return a lower end of ln p, and the largest loss."""
        if self._top is None:
            self._top = -math.inf
            if math.isfinite(self.largest):
                with precision(_BITS):
                    total = flint().arb(0)
                    for pair, count in self.cumulant.pairs.items():
                        mass = pair.top_mass(reverse=self.cumulant.reverse)
                        if mass is None:
                            return self._top, None
                        total += count * mass.log()
                    self._top = down(total)
        return self._top, self._sum() if math.isfinite(self._top) else None

    def _sum(self) -> Ball:
        total = flint().arb(0)
        for pair, count in self.cumulant.pairs.items():
            loss = pair.largest_loss(reverse=self.cumulant.reverse)
            assert loss is not None  # noqa: S101 - the sum is finite
            total += count * loss
        return total

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        c, logs = self._chernoff()
        upper = float((logs - c * epsilon * (1 - 4 * UNIT)).min(initial=0.0))
        lower = -math.inf
        with precision(_BITS):
            mass, largest = self._edge()
            if largest is not None:
                share = -(ball(epsilon) - largest).expm1()
                if share > 0:
                    lower = down(ball(mass) + share.log())
            if upper > -1e-3:
                rest = ball(epsilon) / 2 + ball(self._halfway())
                if rest < 0:
                    lower = max(lower, down((-rest.exp()).log1p()))
        return LogInterval(lower=lower, upper=upper)

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        c, logs = self._chernoff()
        with np.errstate(all="ignore"):
            ends = (logs - target.lower) / c
            ends = ends + 16 * UNIT * (np.abs(logs) + abs(target.lower)) / c
        upper = max(float(ends.min(initial=math.inf)), 0.0)
        lower = 0.0
        with precision(_BITS):
            goal = ball(target.upper)
            mass, largest = self._edge()
            if largest is not None and goal < ball(mass):
                lower = max(lower, down(largest + (-(goal - ball(mass)).exp()).log1p()))
            if target.upper < 0 and self._halfway() < 0:
                rest = (-goal.expm1()).log() - ball(self._halfway())
                lower = max(lower, down(2 * rest))
        return lower, upper
