"""The closed form: one pair, or Gaussians alone, which add up to one, in ball arithmetic to any accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

from hush.accounting.pairs import Pair
from hush.accounting.pairs.gaussian import gaussian_profile
from hush.accounting.profile.cumulant import Cumulant
from hush.accounting.profile.method import LogInterval, invert
from hush.accounting.profile.saddle_point import SaddlePoint
from hush.core.balls import Ball, ball, down, flint, precision, up

_MOST_BITS = 1 << 16


def closed_profile(pairs: Mapping[Pair, int], epsilon: Ball, *, reverse: bool) -> Ball:
    """Return δ(ε) of one pair, or of Gaussians alone."""
    squares = [(pair.gaussian(), count) for pair, count in pairs.items()]
    if all(square is not None for square, _ in squares):
        total = sum((count * ball(square) for square, count in squares if square is not None), flint().arb(0))
        return gaussian_profile(total, epsilon)
    return next(iter(pairs)).profile(epsilon, reverse=reverse)


class ClosedForm:
    """One pair, or Gaussians alone: the closed form in ball arithmetic."""

    last_resort: ClassVar[bool] = False

    def __init__(self, cumulant: Cumulant, *, largest: float) -> None:
        self.cumulant = cumulant
        self.largest = largest

    @staticmethod
    def suits(pairs: Mapping[Pair, int]) -> bool:
        """Whether there is one step alone with a quick profile, or nothing but Gaussians."""
        if all(pair.gaussian() is not None for pair in pairs):
            return True
        return list(pairs.values()) == [1] and next(iter(pairs)).brief()

    def log_delta(self, epsilon: float) -> LogInterval:
        """Return certified ends of ln δ(ε)."""
        bits = 128
        while True:
            with precision(bits):
                value = closed_profile(self.cumulant.pairs, ball(epsilon), reverse=self.cumulant.reverse)
                if value > 0 and value.rel_accuracy_bits() > 56:
                    log = value.log()
                    return LogInterval(lower=down(log), upper=up(log))
                if value.is_zero():
                    return LogInterval(lower=-math.inf, upper=-math.inf)
                if bits > _MOST_BITS:
                    top = value.abs_upper()
                    return LogInterval(lower=-math.inf, upper=min(0.0, up(top.log())) if top.is_finite() else 0.0)
            bits *= 4

    def epsilon(self, target: LogInterval) -> tuple[float, float]:
        """Return certified ends of ε at a target for ln δ."""
        guess, slope = SaddlePoint(self.cumulant, largest=self.largest).first_guess(target.lower)
        return invert(self.log_delta, target, guess=guess, slope=slope, largest=self.largest)
