"""Choosing keys: the rational table is (ε,δ)-DP, and as good as the published optimum."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hush.accounting import ZCDPEvent
from hush.core import InvalidValueError, PrecisionError
from hush.mechanisms.grouped import KeySelection, KeyThreshold
from hush.mechanisms.grouped.keys import keep_probabilities


@pytest.mark.parametrize(("epsilon", "delta", "half"), [("1", "1e-5", 12), ("0.1", "1e-5", 86)])
def test_the_published_figures(epsilon: str, delta: str, half: int) -> None:
    table = keep_probabilities(Fraction(epsilon), Fraction(delta), 1)
    assert next(n for n, p in enumerate(table) if p >= Fraction(1, 2)) == half


def test_a_key_of_nobody_is_never_shown_and_one_of_many_always() -> None:
    shown = KeySelection(epsilon=1, delta="1e-6", keys=2).release([0] * 1000 + [10**6] * 1000)
    assert not shown[:1000].any()
    assert shown[1000:].all()


def test_nobody_to_choose_from() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert len(KeySelection(epsilon=1, delta="1e-6", keys=2).release(none)) == 0
    assert len(KeyThreshold(sigma=Fraction(10), delta=Fraction(1, 10**6), keys=1).release(none)) == 0


@pytest.mark.parametrize(("epsilon", "longer"), [("1", False), ("0.0002", True)])
def test_every_key_has_the_chance_of_its_own_number_of_units(epsilon: str, longer: bool) -> None:
    """Certain outcomes, in any order: below the first p of 1 with p next to 0 nothing is shown, from there on all.

    With 2,000 keys of one unit, each shown with probability 10⁻¹², one is with less than 10⁻⁸.
    """
    delta = Fraction(1, 10**12)
    table = keep_probabilities(Fraction(epsilon), delta, 1)
    assert (len(table) > 2**16) == longer
    units = np.array([1, len(table) - 1, len(table) + 2**20, 0] * 2000)
    shown = KeySelection(epsilon=epsilon, delta=delta).release(units)
    assert shown.reshape(2000, 4).tolist() == [[False, True, True, False]] * 2000


def test_an_epsilon_that_shows_nothing_is_refused() -> None:
    with pytest.raises(PrecisionError):
        keep_probabilities(Fraction(1, 10**9), Fraction(1, 10**40), 1)


@pytest.mark.parametrize(("sigma", "delta", "keys"), [("7.8", "1e-6", 3), ("0.9", "1e-3", 1), ("40", "1e-12", 50)])
def test_a_key_of_one_unit_hardly_ever_passes_the_threshold(sigma: str, delta: str, keys: int) -> None:
    threshold = KeyThreshold(sigma=Fraction(sigma), delta=Fraction(delta), keys=keys).threshold
    spread = float(Fraction(sigma))
    weights = [math.exp(-k * k / (2 * spread * spread)) for k in range(int(60 * spread) + 60)]
    whole = weights[0] + 2 * math.fsum(weights[1:])
    assert math.fsum(weights[threshold - 1 :]) / whole <= float(Fraction(delta)) / keys
    # and it is not wastefully high: two lower, or four per cent, would fail
    lower = math.floor((threshold - 3) * 0.96)
    assert math.fsum(weights[lower - 1 :]) / whole > float(Fraction(delta)) / keys


def test_thresholds_show_crowds_and_never_nobody() -> None:
    law = KeyThreshold(sigma=Fraction(10), delta=Fraction(1, 10**6), keys=1)
    shown = law.release(np.array([0] * 1000 + [1000] * 1000))
    assert not shown[:1000].any()
    assert shown[1000:].all()


def test_the_least_number_of_units_that_is_shown_so_often() -> None:
    chosen = KeySelection(epsilon=1, delta="1e-5", keys=2)
    for level in ("0.5", "0.95", "0.999"):
        units = chosen.error(level)
        assert chosen.probabilities[units - 1] < Fraction(level) <= chosen.probabilities[units]
    passed = KeyThreshold(sigma=Fraction(8), delta=Fraction(1, 10**6), keys=3)
    assert passed.error("0.5") == passed.threshold < passed.error("0.95")


@pytest.mark.parametrize("units", [[0.5], ["a"], [[1]], 3, [None]])
def test_what_is_no_column_of_counts_is_refused(units: object) -> None:
    with pytest.raises(InvalidValueError):
        KeySelection(epsilon=1, delta="1e-5").release(units)


@pytest.mark.parametrize("keywords", [{"epsilon": 0}, {"delta": 0}, {"delta": 1}, {"keys": 0}])
def test_parameters_that_make_no_sense_are_refused(keywords: dict[str, int]) -> None:
    with pytest.raises(InvalidValueError):
        KeySelection(**({"epsilon": 1, "delta": "1e-5"} | keywords))


def test_a_threshold_costs_the_noise_of_all_its_keys_and_its_delta() -> None:
    sigma, delta = Fraction(3, 2), Fraction(1, 10**6)
    assert KeyThreshold(sigma=sigma, delta=delta, keys=5).event == ZCDPEvent(rho=5 / (2 * sigma**2), delta=delta)


def test_noise_decides_near_the_threshold_and_a_key_of_nobody_never_passes() -> None:
    """Without noise all keys at the threshold pass and all below fail: of 400 each, with probability 2⁻³⁹⁹ or less."""
    how = KeyThreshold(sigma=Fraction(50), delta=Fraction(1, 2), keys=1)
    for units in (how.threshold, how.threshold - 1):
        assert 0 < how.release(np.full(400, units)).sum() < 400
    certain = KeyThreshold(sigma=Fraction(10**6), delta=Fraction(1, 2), keys=1)
    assert not certain.release(np.zeros(400, dtype=np.int64)).any()
    assert certain.release(np.ones(4000, dtype=np.int64)).any()
