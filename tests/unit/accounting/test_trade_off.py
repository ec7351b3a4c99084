"""Trade-off curves: against the closed form of Gaussian noise and of randomized response, and as bounds that hold."""

import itertools
import math
import re
from statistics import NormalDist

import pytest

from hush.accounting import ApproximateDPEvent, GaussianEvent, RandomizedResponseEvent, compose
from hush.core import InvalidValueError


@pytest.mark.parametrize("sigma", [0.5, 1, 3])
def test_gaussian_noise_has_its_closed_form(sigma):
    normal = NormalDist()
    guarantee = compose([GaussianEvent(sigma=sigma)])
    for alpha, missed in guarantee.trade_off_curve(["0.01", "0.1", "0.3", "0.7"]):
        exact = normal.cdf(normal.inv_cdf(1 - alpha) - 1 / sigma)
        assert exact - 5e-3 <= missed <= exact + 1e-12


def test_randomized_response_has_its_corner():
    guarantee = compose([RandomizedResponseEvent(epsilon=1)])
    corner = 1 / (1 + math.e)
    ((_, missed),) = guarantee.trade_off_curve([corner])
    assert corner - 1e-2 <= missed <= corner + 1e-12


def test_ends():
    curve = compose([ApproximateDPEvent(epsilon=1, delta=0)]).trade_off_curve(points=11)
    assert curve[0][1] == pytest.approx(1)
    assert curve[-1] == (1.0, 0.0)
    assert all(earlier[1] >= later[1] for earlier, later in itertools.pairwise(curve))


def test_charts_of_both_kinds():
    guarantee = compose([GaussianEvent(sigma=1)])
    svg = guarantee.chart(guarantee * 4, names=["one", "four"], kind="trade-off").svg
    assert re.findall('class="line s.*?<title>(.*?)</title>', svg) == ["one", "four", "blind guessing"]
    with pytest.raises(InvalidValueError, match="kind"):
        guarantee.chart(kind="pie")
