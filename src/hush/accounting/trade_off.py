"""Trade-off curves (f-DP): the errors of every test for the presence of one unit in the data.

Somebody sees a release and guesses whether a unit took part. The guess errs in two ways: α is the share of false
alarms, β the share of misses. f(α) is the least β of all tests with at most α; f(α) = 1 − α is blind guessing.

Every pair (ε, δ) that holds bounds β from below, by 1 − δ − e^ε·α and by e^−ε·(1 − δ − α) (Wasserman & Zhou, "A
statistical framework for differential privacy", JASA 2010). The whole curve δ(ε) is worth exactly as
much as f: f(α) = sup over ε ≥ 0 of max(0, 1 − δ(ε) − e^ε·α, e^−ε·(1 − δ(ε) − α)) (Dong, Roth & Su, "Gaussian
differential privacy", JRSS B 2022, section 2.3).

The supremum is taken over some points of the curve, with certified upper ends of δ. Each bound holds, so the greatest
holds, and it is at most the true f: the curve never claims more privacy than there is.

Rounding: where a bound is positive, e^ε·α and δ are below 1, so that a term is off by at most a few units of 2^−53;
eight of them are taken off.

>>> trade_off_points([(0.0, 0.25), (1.0, 0.0)], ["0.1", "0.5"])
[(0.1, 0.728...), (0.5, 0.2499...)]
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from hush.core import InvalidValueError, Number, integer, probability
from hush.core.chart import Chart, ChartLine, line_chart
from hush.core.svg import ChartAxis

PROFILE_POINTS = 60
"""The number of points of δ(ε) in the supremum."""
_LARGEST_EXPONENT = 700.0
"""Above it e^ε is no float, and bounds by it say nothing."""
_ROUNDING = 8 * 2.0**-53
_MAX_CURVE_POINTS = 10_000


def trade_off_points(
    profile: Sequence[tuple[float, float]], alphas: Sequence[Number] | None = None, *, points: int = 101
) -> list[tuple[float, float]]:
    """Return (α, f(α)) from points (ε, δ) that hold, f rounded down."""
    if alphas is None:
        last = integer(points, "points", minimum=2, maximum=_MAX_CURVE_POINTS) - 1
        alphas = [Fraction(i, last) for i in range(last + 1)]
    # Any subset of the points gives a true lower bound of f, so those beyond the range of floats are dropped.
    useful = [(math.exp(epsilon), delta) for epsilon, delta in profile if epsilon < _LARGEST_EXPONENT]
    return [(alpha, _misses(useful, alpha)) for alpha in (float(probability(value, "alpha")) for value in alphas)]


def _misses(profile: Sequence[tuple[float, float]], alpha: float) -> float:
    bounds = [max(1 - delta - factor * alpha, (1 - delta - alpha) / factor) for factor, delta in profile]
    return max(0.0, max(bounds, default=0.0) - _ROUNDING)  # downwards: a smaller f claims less privacy


def read_names(names: Sequence[str] | None, count: int) -> list[str]:
    """Return a name for each of ``count`` curves of a picture."""
    if names is None:
        return ["this"] if count == 1 else [f"guarantee {i + 1}" for i in range(count)]
    if len(names) != count:
        raise InvalidValueError("names", got=list(names), allowed=f"one name for each of {count} guarantees")
    return list(names)


def trade_off_chart(
    curves: Sequence[Sequence[tuple[float, float]]],
    *,
    names: Sequence[str],
    title: str = "What a test can tell",
    subtitle: str = "the nearer to the dashed line, the more private",
    measured: Sequence[ChartLine] = (),
) -> Chart:
    """Return a chart of trade-off curves, with the line of blind guessing and the measured points."""
    lines = [ChartLine(name=name, points=curve) for curve, name in zip(curves, names, strict=True)]
    blind = ChartLine(name="blind guessing", points=[(0.0, 1.0), (1.0, 0.0)], dashed=True)
    x, y = ChartAxis.between("false alarms, α", 0, 1), ChartAxis.between("misses, at least", 0, 1)
    return line_chart([*lines, *measured, blind], x, y, title=title, subtitle=subtitle, width=420)
