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
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from hush.accounting import GaussianEvent, compose
from hush.audit.black_box import Report, audit
from hush.core import Number
from hush.noise import bernoulli, bernoulli_exp, discrete_gaussian, discrete_laplace, geometric, uniform_integer

Rows = list[Any]


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken function, its fault and who published it, its correct twin, and the claim that both make."""

    name: str
    fault: str
    source: str
    broken: Callable[[Rows], Any]
    twin: Callable[[Rows], Any]
    claim: dict[str, Any] = field(default_factory=dict)
    """Arguments of `audit`: ε is 1 and rows are numbers from 0 to 1 where they say nothing else."""

    def audit(self, *, twin: bool = False, **options: Any) -> Report:
        """Audit the broken function, or its twin."""
        claim: dict[str, Any] = {"epsilon": 1, "schema": (0, 1), "name": self.name, **self.claim, **options}
        return audit(self.twin if twin else self.broken, **claim)


def _clean(rows: Rows, lower: int = 0, upper: int = 1) -> list[int]:
    """Return whole numbers within bounds; a row without a number counts as the lower bound."""
    return [
        min(max(round(row), lower), upper) if isinstance(row, int | float) and math.isfinite(row)
        else upper if row == math.inf else lower
        for row in rows
    ]  # fmt: skip


def _laplace(scale: Number) -> int:
    return int(discrete_laplace(scale)) if scale else 0


def _gaussian(sigma: Number) -> int:
    return int(discrete_gaussian(sigma))


def _count(rows: Rows, scale: int = 1) -> int:
    return len(rows) + _laplace(scale)


def _sum(rows: Rows, upper: int = 1, scale: int = 1) -> int:
    return sum(_clean(rows, 0, upper)) + _laplace(upper * scale)


def _cells(rows: Rows, *, empty: bool = True) -> dict[str, int]:
    counts = {key: sum(1 for row in rows if row == key) for key in ("a", "b", "c")}
    return {key: count + _laplace(1) for key, count in counts.items() if empty or count}


def _float_laplace(rows: Rows) -> float:
    side = 1 if uniform_integer(2) else -1
    return len(rows) - side * math.log((uniform_integer(2**53 - 1) + 1) / 2**53)


def _wrong_quotient(rows: Rows) -> int:
    # Canonne, Kamath & Steinke's sampler with u/t rounded down to quarters.
    while True:
        u = int(uniform_integer(10))
        if bernoulli_exp(Fraction(4 * u // 10, 4)):
            break
    size = u + 10 * int(geometric(1))
    side = 1 if uniform_integer(2) else -1
    return len(rows) + side * size if size or side > 0 else _wrong_quotient(rows)


def _flipped(rows: Rows, spared: int) -> list[list[int]]:
    return [
        [bit ^ (index < len(bits) - spared and bernoulli("0.25")) for index, bit in enumerate(bits)] for bits in rows
    ]


def _seeded(rows: Rows) -> int:
    import random  # noqa: TID251 - that is the fault

    return len(rows) + round(100 * random.Random(7).gauss(0, 1))


def _sparse(rows: Rows, *, query_noise: int, stop: bool, value: bool = False) -> list[Any]:
    """Answer which of 20 counts are above 1, with noise in the threshold."""
    threshold, answers = 1 + _laplace(2), []
    for exact in [rows.count("a")] * 10 + [rows.count("b")] * 10:
        noisy = exact + _laplace(query_noise)
        answers.append((noisy if value else 1) if noisy >= threshold else 0)
        if stop and noisy >= threshold:
            break
    return answers


def _sound_sparse(rows: Rows) -> list[Any]:
    return _sparse(rows, query_noise=4, stop=True)


def _noisy_max(rows: Rows) -> tuple[int, int]:
    noisy = [_count(rows) for _ in range(4)]
    winner = max(range(4), key=lambda index: (noisy[index], -index))
    return winner, noisy[winner]


def _nan_sum(rows: Rows) -> float:
    total = 0.0
    for row in rows:
        clipped = 0 if row is None else row
        clipped = 1 if clipped > 1 else max(clipped, 0)  # NaN is neither
        total += round(clipped) if math.isfinite(clipped) else clipped
    return total + _laplace(1)


def _own_bounds(rows: Rows) -> int:
    clean = _clean(rows, 0, 1000)
    return sum(clean) + _laplace(max(clean, default=0) - min(clean, default=0))


def _sampled(rows: Rows, rate: str) -> int:
    return sum(1 for _ in rows if bernoulli(rate)) + _laplace(Fraction(41, 100))


def _until_positive(rows: Rows) -> int:
    while (noisy := _count(rows, 2)) <= 0:
        pass
    return noisy


def _raw_sum(rows: Rows) -> float:
    _clean(rows)
    return sum(row for row in rows if isinstance(row, int) and abs(row) < 10**9) + _laplace(1)


def _loud_values(rows: Rows) -> list[int]:
    total = sum(_clean(rows, 0, 100))
    return [total] if total > 300 else [total + _laplace(100)]


def _failing_quantile(rows: Rows) -> int:
    if len(rows) > 40:
        raise ValueError("no candidates left")
    return _count(rows)


def _cached(rows: Rows) -> list[int]:
    """Ask yesterday, when there were eight rows, and today; the cache knows the data by their hash."""
    cache: dict[str, int] = {}
    return [cache.setdefault(repr(seen), _count(seen, 10)) for seen in (rows[:8], rows)]


def _bounded_before(rows: Rows) -> int:
    first = {row["who"]: row for row in rows}.values()
    return sum(1 for kept in first for other in rows if kept["who"] == other["who"]) + _laplace(1)


def _slow(rows: Rows) -> int:
    if 1 in rows:
        time.sleep(0.002)
    return _count(rows)


_SIGMA = Fraction(37, 10)
_LIST = {"schema": ["a", "b", "c"]}
_TWO = {"schema": ["a", "b"], "neighbours": "replace", "outside": False}
_BITS = [(0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 0, 1), (1, 0, 0, 0)]

CATALOGUE: tuple[Broken, ...] = (
    Broken(
        "float Laplace", "noise by inversion in floating point: its low bits tell the value",
        "I. Mironov, CCS 2012; arXiv 2207.13793", _float_laplace, _count,
    ),
    Broken(
        "wrong quotient", "discrete Laplace noise of scale 10 whose u/t is rounded to quarters",
        "OpenDP up to 0.14.1, issue 2638", _wrong_quotient, lambda rows: _count(rows, 10), {"epsilon": "0.1"},
    ),
    Broken(
        "σ for σ²", "Gaussian noise whose standard deviation is the root of what it should be",
        "SmartNoise Core 2020, issue 316", lambda rows: len(rows) + _gaussian(Fraction(192, 100)),
        lambda rows: len(rows) + _gaussian(_SIGMA),
        {"epsilon": None, "guarantee": compose([GaussianEvent(sigma=_SIGMA)])},
    ),
    Broken(
        "unflipped bit", "randomized response on a vector whose last bit is never flipped",
        "OpenDP before 0.15.0, issue 2708", lambda rows: _flipped(rows, 1), lambda rows: _flipped(rows, 0),
        {"schema": _BITS, "neighbours": "replace", "outside": False, "epsilon": "4.4"},
    ),
    Broken(
        "sparse vector with values", "the noisy answer is shown, with the noise that was compared",
        "Roth's lecture notes; Lyu, Su & Li, VLDB 2017, algorithm 3",
        lambda rows: _sparse(rows, query_noise=2, stop=True, value=True), _sound_sparse, _TWO,
    ),
    Broken(
        "sparse vector without noise", "answers are compared without noise of their own",
        "Stoddard et al. 2014; Lyu, Su & Li, VLDB 2017, algorithm 5",
        lambda rows: _sparse(rows, query_noise=0, stop=False), _sound_sparse, _TWO,
    ),
    Broken(
        "sparse vector without end", "any number of answers above the threshold for the price of one",
        "Chen et al. 2015; Lyu, Su & Li, VLDB 2017, algorithm 6",
        lambda rows: _sparse(rows, query_noise=2, stop=False), _sound_sparse, _TWO,
    ),
    Broken(
        "unpaid maximum", "noisy max that returns the winner's noisy value too",
        "Ding et al., VLDB 2019, on what is free besides the winner", _noisy_max, lambda rows: _noisy_max(rows)[0],
    ),
    Broken(
        "NaN sum", "a NaN passes the clipping, and the sum is NaN", "five libraries; arXiv 2602.17454", _nan_sum, _sum
    ),
    Broken(
        "true n", "a noisy sum is divided by the true number of rows", "Synthcity 0.2.12, PrivBayes; Opacus issue 571",
        lambda rows: _sum(rows) / max(len(rows), 1), lambda rows: _sum(rows, scale=2) / max(_count(rows, 2), 1),
    ),
    Broken(
        "own bounds", "bounds are the data's own minimum and maximum",
        "Synthcity issue 278, DataSynthesizer, Hazy; arXiv 2405.10994", _own_bounds, lambda rows: _sum(rows, 1000),
        {"schema": (0, 1000)},
    ),
    Broken(
        "wrong sensitivity", "sensitivity is computed as upper − 2·lower",
        "diffprivlib 0.6.6, linear regression, issue 105",
        lambda rows: sum(_clean(rows, 40, 100)) + _laplace(100 - 2 * 40),
        lambda rows: sum(_clean(rows, 40, 100)) + _laplace(100), {"schema": (40, 100)},
    ),
    Broken(
        "scale 0", "scale 2(d − K)/ε is 0 where the degree K is the number of features d",
        "Synthcity 0.2.12, PrivBayes", lambda rows: [_count(rows, 2 * (3 - 3)) for _ in range(3)],
        lambda rows: [_count(rows, 2 * (3 - 1)) for _ in range(3)],
    ),
    Broken(
        "wrong length", "the sampling rate is computed from the sampler's length: 1/100 instead of 1/2",
        "Opacus with WeightedRandomSampler, issue 813", lambda rows: _sampled(rows, "0.5"),
        lambda rows: _sampled(rows, "0.01"), {"epsilon": "0.11"},
    ),
    Broken(
        "truncated size", "a batch is divided by int(len · rate)", "Opacus 1.0 to 1.6, issues 571, 819",
        lambda rows: _sum(rows) / max(int(len(rows) * 0.5), 1), lambda rows: _sum(rows) / 20,
    ),
    Broken(
        "ε twice", "two releases, each with the whole ε", "MOSTLY AI's synthetic data engine",
        lambda rows: (_count(rows), _count(rows)), lambda rows: (_count(rows, 2), _count(rows, 2)),
    ),
    Broken(
        "retry", "noise is drawn again until the answer is positive", "", _until_positive,
        lambda rows: max(_count(rows, 2), 1), {"epsilon": "0.5"},
    ),
    Broken(
        "non-empty cells", "a histogram shows only cells that have rows, a model only classes that occur",
        "arXiv 2602.17454; diffprivlib 0.6: forests, logistic regression, naive Bayes",
        lambda rows: _cells(rows, empty=False), _cells, _LIST,
    ),
    Broken(
        "failing quantile", "a quantile that always fails from a number of rows on", "SmartNoise SQL, issue 572",
        _failing_quantile, _count,
    ),
    Broken(
        "raw column", "rows are clipped, and the raw column is used", "SmartNoise synth, dp_covariance, issue 622",
        _raw_sum, _sum,
    ),
    Broken(
        "cache by data", "a repeated question is answered from a cache whose key is the data", "", _cached,
        lambda rows: [_count(seen, 10) for seen in (rows[:8], rows)], {"epsilon": "0.2"},
    ),
    Broken("one seed", "every release draws with the same seed", "", _seeded, _count),
    Broken(
        "bound before join", "one row per unit is kept before a join that multiplies rows",
        "PipelineDP as published with DP-Auditorium", _bounded_before,
        lambda rows: _count(list({row["who"] for row in rows})), {"schema": {"item": ["x", "y"]}, "unit": "who"},
    ),
    Broken(
        "threshold without δ", "keys above a noisy threshold, sold as pure ε", "arXiv 2602.17454",
        lambda rows: {key: count for key, count in _cells(rows, empty=False).items() if count > 2}, _cells, _LIST,
    ),
    Broken(
        "wrong sign", "Rényi privacy is converted to (ε, δ) with ln(1/δ)/(α − 1) subtracted", "",
        lambda rows: 100 * len(rows) + _gaussian(10), lambda rows: 100 * len(rows) + _gaussian(374), {"delta": "1e-5"},
    ),
    Broken(
        "loud values", "values above a threshold leave without noise", "NVFlare SVTPrivacy 2022, issue 343",
        _loud_values, lambda rows: [_sum(rows, 100)], {"schema": (0, 100)},
    ),
    Broken("slow row", "one kind of row takes longer", "", _slow, _count, {"timing": True, "outside": False}),
)  # fmt: skip
