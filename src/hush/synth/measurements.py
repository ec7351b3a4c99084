"""Kept measurements: integers with exact noise, as they are stored with a receipt.

A measurement is one vector of counts, or of a residual (`hush.synth.marginals`), plus independent discrete noise of a
stated law on every entry. Everything a release shows is made from its measurements, so who keeps them can make it
again, bit for bit, and pays nothing.

>>> kept = [Measurement(columns=("a",), kind="counts", law="gaussian", parameter=Fraction(4), values=np.array([3, -1]))]
>>> header, again = unpack(pack({"release": "marginals"}, kept))
>>> header["release"], again[0].values.tolist(), again[0].variance
('marginals', [3, -1], 4.0)

**What a release pays, and the noise that it buys: Gaussian at a price of ρ, or Laplace at a price of ε.**

A release measures several integer vectors. Each gets a share of the price and noise of one law:

    gaussian   σ² = Δ₂²/(2·share·ρ), zero-concentrated DP adds up (Bun, Steinke 2016; Canonne, Kamath, Steinke 2020)
    laplace    scale = Δ₁/(share·ε), pure DP adds up; for budgets without δ

Parameters are short rationals, rounded up, so a release never costs more than its shares; what it costs is computed
from the rounded ones.

**Shares.** Noise on n cells errs by c·n/√share (gaussian) or c·n/share (laplace) altogether. Over several vectors the
sum of these errors is least for shares ∝ n^(2/3), or ∝ n^(1/2).

>>> price = Price(law="gaussian", amount=Fraction(1, 2))
>>> price.parameter(Fraction(1, 4), squared=Fraction(1), absolute=Fraction(1))
Fraction(4, 1)
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.accounting.events import ApproximateDPEvent, Event, ZCDPEvent
from hush.core import HushError, positive
from hush.core.numbers import assign
from hush.mechanisms.base import choose
from hush.noise import discrete_gaussian, discrete_laplace
from hush.synth.domain import Columns

_MAGIC = b"hush measurements 1\n"
_KINDS = ("counts", "residual", "scores", "factorised")
_LAWS = ("gaussian", "laplace")
_LEAST_VARIANCE = 2.0**-200
_COMPRESSED = 2**22
"""Compression hardly shrinks noise, so only arrays up to this number of bytes are compressed."""


class MeasurementsError(HushError):
    """Stored measurements cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measurement:
    """Noisy integers. Public."""

    columns: Columns
    kind: str
    """The kind of exact numbers: "counts" of a marginal, a "residual", "scores", or a "factorised" series."""
    law: str
    parameter: Fraction
    """σ² of the discrete Gaussian, or the scale of the discrete Laplace law."""
    values: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        choose(self.kind, _KINDS, "kind")
        choose(self.law, _LAWS, "law")
        positive(self.parameter, "parameter")
        if self.values.dtype != np.int64:
            assign(self, values=_integers(self.values))
        # Kept numbers are what the receipt stands for: nobody may change them later.
        self.values.flags.writeable = False

    @classmethod
    def of(cls, columns: Columns, exact: npt.NDArray[Any], *, kind: str, law: str, parameter: Fraction) -> Measurement:
        """Add fresh noise to exact integers: the one place in this package where private numbers become public."""
        values = np.asarray(exact, dtype=np.int64)
        draw = discrete_gaussian(variance=parameter, size=values.shape) if law == "gaussian" else None
        noise = discrete_laplace(parameter, size=values.shape) if draw is None else draw
        return cls(columns=columns, kind=kind, law=law, parameter=parameter, values=_integers(values + noise))

    @property
    def variance(self) -> float:
        """The noise's variance in one entry."""
        return noise_variance(self.law, self.parameter)


def _integers(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return 64-bit integers; larger ones are cut to the ends, which is post-processing of noisy numbers."""
    if values.dtype == object:
        values = np.clip(values, -(2**62), 2**62)
    return np.asarray(values).astype(np.int64)


def pack(header: Mapping[str, Any], measurements: Sequence[Measurement]) -> bytes:
    """Return a header and measurements as bytes; equal measurements have equal bytes."""
    blocks, listed = [], []
    for measurement in measurements:
        # The smallest little-endian integers that hold all: -128 fits where 127 does, in two's complement.
        largest = max(int(measurement.values.max(initial=0)), -int(measurement.values.min(initial=0)) - 1)
        narrow = measurement.values.astype(np.min_scalar_type(-largest - 1).newbyteorder("<"))
        raw = narrow.tobytes()
        packed = len(raw) <= _COMPRESSED
        block = zlib.compress(raw, 6) if packed else raw
        blocks.append(block)
        listed.append(
            {
                "columns": list(measurement.columns),
                "kind": measurement.kind,
                "law": measurement.law,
                "parameter": str(measurement.parameter),
                "shape": list(measurement.values.shape),
                "type": narrow.dtype.str,
                "packed": packed,
                "bytes": len(block),
            }
        )
    head = json.dumps({"header": dict(header), "measurements": listed}, separators=(",", ":"), ensure_ascii=False)
    encoded = head.encode()
    return b"".join([_MAGIC, len(encoded).to_bytes(8, "big"), encoded, *blocks])


def unpack(data: bytes) -> tuple[dict[str, Any], list[Measurement]]:
    """Return the header and the measurements that `pack` wrote."""
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("not measurements")  # noqa: TRY301 - one message for all that cannot be read
        begin = len(_MAGIC) + 8
        end = begin + int.from_bytes(data[len(_MAGIC) : begin], "big")
        head = json.loads(data[begin:end])
        measurements = []
        for entry in head["measurements"]:
            block = data[end : end + entry["bytes"]]
            end += entry["bytes"]
            raw = zlib.decompress(block) if entry["packed"] else block
            values = np.frombuffer(raw, dtype=np.dtype(entry["type"])).astype(np.int64).reshape(entry["shape"])
            measurements.append(
                Measurement(
                    columns=tuple(entry["columns"]),
                    kind=entry["kind"],
                    law=entry["law"],
                    parameter=positive(entry["parameter"], "parameter"),
                    values=values,
                )
            )
        return dict(head["header"]), measurements
    except (ValueError, KeyError, TypeError, zlib.error, AttributeError, OverflowError) as error:
        raise MeasurementsError("These bytes hold no measurements of a release that can be read here.") from error


_FINE = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a whole release."""

    law: str
    amount: Fraction
    """ρ of zero-concentrated DP for Gaussian noise, ε for Laplace noise."""

    def __post_init__(self) -> None:
        choose(self.law, _LAWS, "law")
        positive(self.amount, "amount")

    def parameter(self, share: Fraction, *, squared: Fraction, absolute: Fraction) -> Fraction:
        """Return the noise's parameter for a vector with the sensitivities Δ₂² and Δ₁."""
        part = share * self.amount
        return short_up(squared / (2 * part) if self.law == "gaussian" else absolute / part)

    def cost(self, parameter: Fraction, *, squared: Fraction, absolute: Fraction) -> Fraction:
        """Return the price of noise with this parameter."""
        return squared / (2 * parameter) if self.law == "gaussian" else absolute / parameter

    def event(self, cost: Fraction) -> Event:
        """Return a cost as an event of the accountant's vocabulary."""
        return ZCDPEvent(rho=cost) if self.law == "gaussian" else ApproximateDPEvent(epsilon=cost)

    def magnitude(self, share: float = 1.0) -> float:
        """Return the mean size of the noise on a count, of sensitivity 1, that takes a share of the price."""
        if self.law == "gaussian":
            # E|N| = σ·√(2/π), with σ² = 1/(2ρ) for a sensitivity of 1.
            return math.sqrt(2 / math.pi) / math.sqrt(2 * share * float(self.amount))
        return 1 / (share * float(self.amount))

    @property
    def power(self) -> float:
        """Shares of vectors with n cells are best proportional to n to this power."""
        return 2 / 3 if self.law == "gaussian" else 1 / 2


def shares(weights: Sequence[float], total: Fraction) -> list[Fraction]:
    """Return parts of ``total`` proportional to weights, that add up to no more than it."""
    largest = max(weights)
    # Floats only choose the proportions; the fractions below add up to the total exactly.
    parts = [max(1, math.floor(_FINE * weight / largest)) for weight in weights]
    return [total * Fraction(part, sum(parts)) for part in parts]


def short_up(value: Fraction) -> Fraction:
    """Return a short rational that is no smaller: more noise, never less.

    Ledgers hold events with these parameters: another rounding would make a paid release another question.
    """
    # About twelve digits: a larger value has fewer places after the point.
    scale = 10 ** max(12 - len(str(ceil(value))), 0)
    return Fraction(ceil(value * scale), scale)


def noise_variance(law: str, parameter: Fraction) -> float:
    """Return the variance of discrete noise; for the Gaussian its parameter, which is never less."""
    if law == "gaussian":
        return float(parameter)
    rate = 1 / float(parameter)
    # expm1 keeps the digits that 1 - e^(-rate) loses for a large scale.
    # not 0 where floats end: estimates are weighted by its inverse, and more than the truth is the safe side
    return max(2 * math.exp(-rate) / math.expm1(-rate) ** 2, _LEAST_VARIANCE)


def quantile(law: str, confidence: float) -> float:
    """Return the half-width of noise of standard deviation 1; for sums of Laplace noise the larger of two laws'."""
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    # A single Laplace draw of deviation 1 has scale 1/√2 and the tail e^(-√2·t); a sum of many is nearly normal.
    return normal if law == "gaussian" else max(normal, -math.log(1 - confidence) / math.sqrt(2))
