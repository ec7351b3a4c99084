"""Mechanisms that are broken in known ways, each with a correct twin: they show the power of an audit.

Every function is our own and small; most faults are those of published libraries or papers, and ``source`` says of
which. An audit that misses one of them says something about itself.

>>> case = CATALOGUE[0]
>>> case.name, case.source
('float Laplace', 'I. Mironov, CCS 2012; arXiv 2207.13793')
>>> case.audit(seconds=20).violation is not None, len(CATALOGUE) >= 24
(True, True)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.accounting import GaussianEvent, compose
from hush.audit.black_box import audit
from hush.audit.report import Report
from hush.core import Number
from hush.noise import bernoulli, bernoulli_exp, discrete_gaussian, discrete_laplace, geometric, uniform_integer

Rows = list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A broken function, its fault and the source of the fault, its correct twin, and the claim of both."""

    name: str
    fault: str
    broken: Callable[[Rows], Any]
    twin: Callable[[Rows], Any]
    source: str = ""
    epsilon: Number = 1
    claim: tuple[tuple[str, Any], ...] = ()
    """Further arguments of `audit`."""

    def audit(self, *, twin: bool = False, **options: Any) -> Report:
        """Audit the broken function, or its twin."""
        arguments: dict[str, Any] = {"epsilon": self.epsilon, "schema": (0, 1), "name": self.name, **dict(self.claim)}
        if "guarantee" in arguments:
            del arguments["epsilon"]
        return audit(self.twin if twin else self.broken, **{**arguments, **options})


# -- parts --------------------------------------------------------------------------------------------------------


def _clean(rows: Rows, lower: int = 0, upper: int = 1) -> list[int]:
    """Return whole numbers within bounds; a row without a number counts as the lower bound."""
    return [
        min(max(round(row), lower), upper) if isinstance(row, int | float) and math.isfinite(row)
        else upper if row == math.inf else lower
        for row in rows
    ]  # fmt: skip


def _laplace(scale: Number) -> int:
    return int(discrete_laplace(scale))


def _gaussian(sigma: Number) -> int:
    return int(discrete_gaussian(sigma))


def _count(rows: Rows) -> int:
    return len(rows) + _laplace(1)


def _uniform() -> float:
    return (uniform_integer(2**53 - 1) + 1) / 2**53


def _counts(rows: Rows, keys: tuple[str, ...]) -> dict[str, int]:
    return {key: sum(1 for row in rows if row == key) for key in keys}


_KEYS = ("a", "b", "c")
_LIST = (("schema", list(_KEYS)),)


# -- noise --------------------------------------------------------------------------------------------------------


def _float_laplace(rows: Rows) -> float:
    side = 1 if uniform_integer(2) else -1
    return len(rows) - side * math.log(_uniform())


def _wrong_quotient(rows: Rows) -> int:
    # Canonne, Kamath & Steinke's sampler with u/t rounded down to quarters.
    while True:
        u = int(uniform_integer(10))
        if bernoulli_exp(Fraction(4 * u // 10, 4)):
            break
    size = u + 10 * int(geometric(1))
    side = 1 if uniform_integer(2) else -1
    return len(rows) + side * size if size or side > 0 else _wrong_quotient(rows)


_SIGMA = Fraction(37, 10)
_PROFILE = (("guarantee", compose([GaussianEvent(sigma=_SIGMA)])),)


def _flipped(bits: Any, spared: int) -> list[int]:
    return [bit ^ (index < len(bits) - spared and bernoulli("0.25")) for index, bit in enumerate(bits)]


_BITS = [(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 0, 1), (1, 0, 0, 0)]
_VECTOR = (("schema", _BITS), ("neighbours", "replace"), ("outside", False))


def _seeded(rows: Rows) -> int:
    import random  # noqa: TID251 - that is the fault

    return len(rows) + round(100 * random.Random(7).gauss(0, 1))


# -- sparse vectors, maxima ---------------------------------------------------------------------------------------

_TWO = (("schema", ["a", "b"]), ("neighbours", "replace"), ("outside", False))
_ASKED = 10


def _queries(rows: Rows) -> list[int]:
    return [sum(1 for row in rows if row == "a")] * _ASKED + [sum(1 for row in rows if row == "b")] * _ASKED


def _sparse(rows: Rows, *, query_noise: int, stop: bool, value: bool) -> list[Any]:
    """Answer which of 20 counts are above 1, with noise in the threshold."""
    threshold, answers = 1 + _laplace(2), []
    for exact in _queries(rows):
        noisy = exact + (_laplace(query_noise) if query_noise else 0)
        answers.append((noisy if value else 1) if noisy >= threshold else 0)
        if stop and noisy >= threshold:
            break
    return answers


def _noisy_max(rows: Rows, *, value: bool) -> Any:
    noisy = [len(rows) + _laplace(1) for _ in range(4)]
    winner = max(range(4), key=lambda index: (noisy[index], -index))
    return (winner, noisy[winner]) if value else winner


# -- sums, means, bounds ------------------------------------------------------------------------------------------


def _nan_sum(rows: Rows) -> float:
    total = 0.0
    for row in rows:
        clipped = 0 if row is None else row
        clipped = 1 if clipped > 1 else max(clipped, 0)  # NaN is neither
        total += round(clipped) if math.isfinite(clipped) else clipped
    return total + _laplace(1)


def _own_bounds(rows: Rows) -> int:
    clean = _clean(rows, 0, 1000)
    span = max(clean, default=0) - min(clean, default=0)
    return sum(clean) + (_laplace(span) if span else 0)


def _wrong_sensitivity(rows: Rows) -> int:
    return sum(_clean(rows, 40, 100)) + _laplace(100 - 2 * 40)


def _scale_of(features: int, degree: int, rows: Rows) -> list[int]:
    scale = 2 * (features - degree)
    return [len(rows) + (_laplace(scale) if scale else 0) for _ in range(features)]


def _sampled(rows: Rows, rate: str) -> int:
    return sum(1 for _ in rows if bernoulli(rate)) + _laplace(Fraction(41, 100))


def _batch_mean(rows: Rows) -> float:
    return (sum(_clean(rows)) + _laplace(1)) / max(int(len(rows) * 0.5), 1)


def _until_positive(rows: Rows) -> int:
    while (noisy := len(rows) + _laplace(2)) <= 0:
        pass
    return noisy


def _raw_sum(rows: Rows) -> float:
    _clean(rows)
    return sum(row for row in rows if isinstance(row, int) and abs(row) < 10**9) + _laplace(1)


def _loud_values(rows: Rows) -> list[int]:
    total = sum(_clean(rows, 0, 100))
    return [total] if total > 300 else [total + _laplace(100)]


# -- keys, sizes, state -------------------------------------------------------------------------------------------


def _nonempty(rows: Rows) -> dict[str, int]:
    return {key: count + _laplace(1) for key, count in _counts(rows, _KEYS).items() if count}


def _all_cells(rows: Rows) -> dict[str, int]:
    return {key: count + _laplace(1) for key, count in _counts(rows, _KEYS).items()}


def _priors(rows: Rows) -> list[int]:
    return [sum(1 for row in rows if row == key) + _laplace(1) for key in sorted({str(row) for row in rows})]


def _threshold_keys(rows: Rows) -> dict[str, int]:
    counts = {key: count + _laplace(1) for key, count in _counts(rows, _KEYS).items() if count}
    return {key: count for key, count in counts.items() if count > 2}


def _failing_quantile(rows: Rows) -> int:
    if len(rows) > 40:
        raise ValueError("no candidates left")
    return _count(rows)


def _cached(rows: Rows) -> list[int]:
    """Ask yesterday, when there were eight rows, and today; the cache knows the data by their hash."""
    cache: dict[str, int] = {}
    return [cache.setdefault(repr(seen), len(seen) + _laplace(10)) for seen in (rows[:8], rows)]


_ITEMS = (("schema", {"item": ["x", "y"]}), ("unit", "who"))


def _bounded_before(rows: Rows) -> int:
    first = {row["who"]: row for row in rows}.values()
    return sum(1 for one in first for other in rows if one["who"] == other["who"]) + _laplace(1)


def _bounded_after(rows: Rows) -> int:
    return len({row["who"] for row in rows}) + _laplace(1)


def _slow(rows: Rows) -> int:
    if any(row == 1 for row in rows):
        time.sleep(0.002)
    return _count(rows)


def _converted(rows: Rows, sigma: Fraction) -> int:
    return 100 * len(rows) + _gaussian(sigma)


_APPROXIMATE = (("delta", "1e-5"),)

CATALOGUE: tuple[Broken, ...] = (
    Broken(
        name="float Laplace", fault="noise by inversion in floating point: its low bits tell the value",
        source="I. Mironov, CCS 2012; arXiv 2207.13793", broken=_float_laplace, twin=_count,
    ),
    Broken(
        name="wrong quotient", fault="discrete Laplace noise of scale 10 whose u/t is rounded to quarters",
        source="OpenDP up to 0.14.1, issue 2638", broken=_wrong_quotient, epsilon="0.1",
        twin=lambda rows: len(rows) + _laplace(10),
    ),
    Broken(
        name="σ for σ²", fault="Gaussian noise whose standard deviation is the root of what it should be",
        source="SmartNoise Core 2020, issue 316", claim=_PROFILE,
        broken=lambda rows: len(rows) + _gaussian(Fraction(192, 100)), twin=lambda rows: len(rows) + _gaussian(_SIGMA),
    ),
    Broken(
        name="unflipped bit", fault="randomized response on a vector whose last bit is never flipped", epsilon="4.4",
        source="OpenDP before 0.15.0, issue 2708", claim=_VECTOR,
        broken=lambda rows: [_flipped(row, 1) for row in rows], twin=lambda rows: [_flipped(row, 0) for row in rows],
    ),
    Broken(
        name="sparse vector with values", fault="the noisy answer is shown, with the noise that was compared",
        source="Roth's lecture notes; Lyu, Su & Li, VLDB 2017, algorithm 3", claim=_TWO,
        broken=lambda rows: _sparse(rows, query_noise=2, stop=True, value=True),
        twin=lambda rows: _sparse(rows, query_noise=4, stop=True, value=False),
    ),
    Broken(
        name="sparse vector without noise", fault="answers are compared without noise of their own",
        source="Stoddard et al. 2014; Lyu, Su & Li, VLDB 2017, algorithm 5", claim=_TWO,
        broken=lambda rows: _sparse(rows, query_noise=0, stop=False, value=False),
        twin=lambda rows: _sparse(rows, query_noise=4, stop=True, value=False),
    ),
    Broken(
        name="sparse vector without end", fault="any number of answers above the threshold for the price of one",
        source="Chen et al. 2015; Lyu, Su & Li, VLDB 2017, algorithm 6", claim=_TWO,
        broken=lambda rows: _sparse(rows, query_noise=2, stop=False, value=False),
        twin=lambda rows: _sparse(rows, query_noise=4, stop=True, value=False),
    ),
    Broken(
        name="unpaid maximum", fault="noisy max that returns the winner's noisy value too",
        source="Ding et al., VLDB 2019, on what is free besides the winner",
        broken=lambda rows: _noisy_max(rows, value=True), twin=lambda rows: _noisy_max(rows, value=False),
    ),
    Broken(
        name="NaN sum", fault="a NaN passes the clipping, and the sum is NaN",
        source="five libraries; arXiv 2602.17454",
        broken=_nan_sum, twin=lambda rows: sum(_clean(rows)) + _laplace(1),
    ),
    Broken(
        name="true n", fault="a noisy sum is divided by the true number of rows",
        source="Synthcity 0.2.12, PrivBayes; Opacus issue 571",
        broken=lambda rows: (sum(_clean(rows)) + _laplace(1)) / max(len(rows), 1),
        twin=lambda rows: (sum(_clean(rows)) + _laplace(2)) / max(len(rows) + _laplace(2), 1),
    ),
    Broken(
        name="own bounds", fault="bounds are the data's own minimum and maximum",
        source="Synthcity issue 278, DataSynthesizer, Hazy; arXiv 2405.10994", claim=(("schema", (0, 1000)),),
        broken=_own_bounds, twin=lambda rows: sum(_clean(rows, 0, 1000)) + _laplace(1000),
    ),
    Broken(
        name="classes of the data", fault="one number for each class that occurs", claim=_LIST,
        source="diffprivlib 0.6: forests, logistic regression, naive Bayes", broken=_priors,
        twin=lambda rows: list(_all_cells(rows).values()),
    ),
    Broken(
        name="wrong sensitivity", fault="sensitivity is computed as upper − 2·lower",
        source="diffprivlib 0.6.6, linear regression, issue 105", claim=(("schema", (40, 100)),),
        broken=_wrong_sensitivity, twin=lambda rows: sum(_clean(rows, 40, 100)) + _laplace(100),
    ),
    Broken(
        name="scale 0", fault="scale 2(d − K)/ε is 0 where the degree K is the number of features d",
        source="Synthcity 0.2.12, PrivBayes", broken=lambda rows: _scale_of(3, 3, rows),
        twin=lambda rows: _scale_of(3, 1, rows),
    ),
    Broken(
        name="wrong length", fault="the sampling rate is computed from the sampler's length: 1/100 instead of 1/2",
        source="Opacus with WeightedRandomSampler, issue 813", epsilon="0.11",
        broken=lambda rows: _sampled(rows, "0.5"), twin=lambda rows: _sampled(rows, "0.01"),
    ),
    Broken(
        name="truncated size", fault="a batch is divided by int(len · rate)",
        source="Opacus 1.0 to 1.6, issues 571, 819",
        broken=_batch_mean, twin=lambda rows: (sum(_clean(rows)) + _laplace(1)) / 20,
    ),
    Broken(
        name="ε twice", fault="two releases, each with the whole ε", source="MOSTLY AI's synthetic data engine",
        broken=lambda rows: (_count(rows), _count(rows)),
        twin=lambda rows: (len(rows) + _laplace(2), len(rows) + _laplace(2)),
    ),
    Broken(
        name="retry", fault="noise is drawn again until the answer is positive", epsilon="0.5",
        broken=_until_positive, twin=lambda rows: max(len(rows) + _laplace(2), 1),
    ),
    Broken(
        name="non-empty cells", fault="a histogram shows only cells that have rows",
        source="arXiv 2602.17454", claim=_LIST, broken=_nonempty, twin=_all_cells,
    ),
    Broken(
        name="failing quantile", fault="a quantile that always fails from a number of rows on",
        source="SmartNoise SQL, issue 572", broken=_failing_quantile, twin=_count,
    ),
    Broken(
        name="raw column", fault="rows are clipped, and the raw column is used",
        source="SmartNoise synth, dp_covariance, issue 622", broken=_raw_sum,
        twin=lambda rows: sum(_clean(rows)) + _laplace(1),
    ),
    Broken(
        name="cache by data", fault="a repeated question is answered from a cache whose key is the data", epsilon="0.2",
        broken=_cached, twin=lambda rows: [len(seen) + _laplace(10) for seen in (rows[:8], rows)],
    ),
    Broken(name="one seed", fault="every release draws with the same seed", broken=_seeded, twin=_count),
    Broken(
        name="bound before join", fault="one row per unit is kept before a join that multiplies rows",
        source="PipelineDP as published with DP-Auditorium", claim=_ITEMS, broken=_bounded_before, twin=_bounded_after,
    ),
    Broken(
        name="threshold without δ", fault="keys above a noisy threshold, sold as pure ε", claim=_LIST,
        source="arXiv 2602.17454", broken=_threshold_keys, twin=_all_cells,
    ),
    Broken(
        name="wrong sign", fault="Rényi privacy is converted to (ε, δ) with ln(1/δ)/(α − 1) subtracted",
        claim=_APPROXIMATE, broken=lambda rows: _converted(rows, Fraction(10)),
        twin=lambda rows: _converted(rows, Fraction(374)),
    ),
    Broken(
        name="loud values", fault="values above a threshold leave without noise", claim=(("schema", (0, 100)),),
        source="NVFlare SVTPrivacy 2022, issue 343", broken=_loud_values,
        twin=lambda rows: [sum(_clean(rows, 0, 100)) + _laplace(100)],
    ),
    Broken(
        name="slow row", fault="one kind of row takes longer", claim=(("timing", True), ("outside", False)),
        broken=_slow, twin=_count,
    ),
)  # fmt: skip
"""The catalogue, in the order of docs/audit.md."""
