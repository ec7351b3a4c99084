"""A release of synthetic rows: the table, more rows, counts with honest error bars, and how good it is.

Everything is made of kept measurements (`hush.synth.fitting`) and costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from hush.core import integer
from hush.core.values import dataclass
from hush.synth.domain import CodedTable, Columns, Domain
from hush.synth.fitting import Fitting, Settings, SynthesisPlan, certified_pairs
from hush.synth.measurements import Measurement, MeasurementsError, Price, pack, quantile, unpack
from hush.synth.model import Draws, Places


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The certified distance of one pair's table from the data: the sum of all differences of shares, from 0 to 2.

    >>> Quality(columns=("age", "sex"), distance=0.2, error=0.01).distance
    0.2
    """

    columns: Columns
    distance: float
    error: float
    """Half-width of the distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """How far the synthetic table is from the data, itself private.

    >>> worst = Quality(columns=("age", "sex"), distance=0.2, error=0.01)
    >>> Certificate(pairs=(worst,), mean=0.2, mean_error=0.01, confidence=0.95).worst.columns
    ('age', 'sex')
    """

    pairs: tuple[Quality, ...]
    mean: float
    mean_error: float
    confidence: float

    @property
    def worst(self) -> Quality:
        """The pair that is furthest from the data, as far as is known."""
        return max(self.pairs, key=lambda quality: quality.distance)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAnswer:
    """A count of rows, its half-width, and where it comes from.

    >>> CountAnswer(value=120.0, error=8.0, source="marginal").error
    8.0
    """

    value: float
    error: float | None
    """None where nothing is known."""
    source: str
    """"measured", "model with certificate", or why there is no bound."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Synthetic:
    """Synthetic rows and all that can be said of them, made of measurements alone. Public.

    >>> from fractions import Fraction
    >>> from hush.synth import CodedTable, Domain, Price, plan_synthesis, synthesise
    >>> domain = Domain.of({"age": 10, "sex": 2})
    >>> plan = plan_synthesis(domain, Price(law="gaussian", amount=Fraction(10)))
    >>> made = synthesise(plan, CodedTable.of(domain, {"age": [1, 2, 3] * 50, "sex": [0, 1, 0] * 50}))
    >>> made.table.domain == domain
    True
    """

    plan: SynthesisPlan
    measurements: tuple[Measurement, ...]
    seed: str
    fitted: Fitting

    @cached_property
    def table(self) -> CodedTable:
        """The rows that the certificate speaks of, as many as the table is estimated to have."""
        return self.fitted.draw(self.fitted.count, Draws(bytes.fromhex(self.seed)))

    def rows(self, count: int, *, seed: int = 0) -> CodedTable:
        """Return so many rows of the same model; free, as often as wanted, and the same for the same seed."""
        number = integer(count, "count", minimum=0, maximum=10**9)
        mixed = bytes.fromhex(self.seed) + integer(seed, "seed", minimum=0, maximum=2**63).to_bytes(8, "big")
        return self.fitted.draw(number, Draws(mixed))

    def rebuilt(self) -> Synthetic:
        """Fit again from the kept measurements: the same model and, with the same seed, the same rows bit for bit."""
        plan, names = self.plan, self.plan.domain.names
        pairs = list(combinations(range(len(names)), 2))
        state = Fitting(plan, self.measurements)
        if pairs:
            spent = plan.settings.pairs
            pending = list(self.measurements[len(names) :])
            used = list(self.measurements[: len(names)])
            for number in range(plan.settings.rounds):
                state.reference(pairs)
                used.append(pending.pop(0))
                part = spent / 2 if number + 1 < plan.settings.rounds else spent
                spent -= part
                chosen = state.chosen(used, pairs, part)
                used, pending = used + pending[: len(chosen)], pending[len(chosen) :]
                state.fit(used, lambda _stage, _part: None)
        return Synthetic(plan=plan, measurements=self.measurements, seed=self.seed, fitted=state)

    # what is known of it

    @cached_property
    def quality(self) -> Certificate | None:
        """The certified distance of every pair of columns; None without a certificate."""
        return self.certificate()

    def certificate(self, confidence: float = 0.95) -> Certificate | None:
        """Return the certificate at a confidence."""
        scores = self._certified()
        if scores is None:
            return None
        pairs, measurement = scores
        names, total = self.plan.domain.names, max(self.fitted.total, 1.0)
        deviation = math.sqrt(measurement.variance) / total
        half = quantile(measurement.law, confidence) * deviation
        qualities = tuple(
            Quality(columns=tuple(names[column] for column in pair), distance=float(score) / total, error=half)
            for pair, score in zip(pairs, measurement.values.tolist(), strict=True)
        )
        mean_error = quantile("gaussian", confidence) * deviation / math.sqrt(len(pairs))
        mean = sum(quality.distance for quality in qualities) / len(qualities)
        return Certificate(pairs=qualities, mean=mean, mean_error=mean_error, confidence=confidence)

    def _certified(self) -> tuple[list[Places], Measurement] | None:
        if not self.plan.settings.certificate or len(self.plan.domain) < 2:
            return None
        return certified_pairs(self.plan), [
            measurement for measurement in self.measurements if measurement.kind == "scores"
        ][-1]

    def count(self, where: Mapping[str, Iterable[int]], *, confidence: float = 0.95) -> CountAnswer:
        """Return how many rows have, in each named column, one of the given codes.

        Over one column the noisy one-way counts answer, if they are surer. Over two columns the synthetic table does,
        within what the certificate says. Over more there is no bound.
        """
        domain = self.plan.domain
        columns = domain.columns(where)
        mask = np.ones((), dtype=np.bool_)
        for name in columns:
            mask = np.logical_and.outer(mask, _mask(domain.size(name), where[name]))
        return self.count_where(columns, mask, confidence=confidence)

    def count_where(self, columns: Columns, mask: npt.NDArray[np.bool_], *, confidence: float = 0.95) -> CountAnswer:
        """Return how many rows lie in the cells of a marginal that a mask names; any shape of cells will do."""
        z = quantile(self.plan.price.law, confidence)
        if not columns:
            share = float(mask)
            error = z * self.fitted.total_deviation * share
            return CountAnswer(value=self.fitted.total * share, error=error, source="measured")
        value = float(np.count_nonzero(mask[tuple(self.table.column(name) for name in columns)]))
        options: list[CountAnswer] = []
        if len(columns) == 1:
            measurement = self.measurements[self.plan.domain.place(columns[0])]
            error = z * math.sqrt(measurement.variance * np.count_nonzero(mask))
            options.append(CountAnswer(value=float(measurement.values[mask].sum()), error=error, source="measured"))
        bound = self._bound(columns, confidence)
        if bound is not None:
            options.append(CountAnswer(value=value, error=bound, source="model with certificate"))
        if options:
            return min(options, key=lambda answer: answer.error or 0.0)
        reason = f"{len(columns)} columns; a certificate covers 2"
        if len(columns) <= 2:
            bought = self.plan.settings.certificate
            reason = "their table is too large for a certificate" if bought else "no certificate was bought"
        return CountAnswer(value=value, error=None, source=f"model without a bound: {reason}")

    def _bound(self, columns: Columns, confidence: float) -> float | None:
        """Return how far a count over at most two columns can be off: (e + |N - N'|)/2.

        A fifth of what may fail is left for the number of rows. Over one column every pair that holds it will do; the
        best is taken, and each may fail a part of the time only.
        """
        scores = self._certified()
        if scores is None or len(columns) > 2:
            return None
        places = {self.plan.domain.place(name) for name in columns}
        held = [value for pair, value in zip(scores[0], scores[1].values.tolist(), strict=True) if places <= set(pair)]
        if not held:
            return None
        miss = (1 - confidence) * 4 / 5 / len(held)
        sure = float(min(held)) + quantile(scores[1].law, 1 - 2 * miss) * math.sqrt(scores[1].variance)
        rows = quantile(self.plan.price.law, 1 - (1 - confidence) / 5) * self.fitted.total_deviation
        return max(0.0, sure + rows + abs(self.fitted.total - self.fitted.count)) / 2

    # keeping

    def to_bytes(self, header: Mapping[str, Any] | None = None) -> bytes:
        """Return the measurements as they are kept."""
        plan, settings = self.plan, self.plan.settings
        head = {
            "release": "synthetic",
            "domain": dict(zip(plan.domain.names, plan.domain.sizes, strict=True)),
            "ordered": sorted(plan.domain.ordered),
            "nulls": sorted(plan.domain.nulls),
            "price": [plan.price.law, str(plan.price.amount)],
            "rows": plan.rows,
            "touched": plan.touched,
            "settings": {field_.name: str(getattr(settings, field_.name)) for field_ in fields(settings)},
            "seed": self.seed,
            **(header or {}),
        }
        return pack(head, self.measurements)

    @classmethod
    def from_bytes(cls, data: bytes) -> Synthetic:
        """Return the release that was kept, fitted again."""
        head, kept = unpack(data)
        if head.get("release") != "synthetic":
            raise MeasurementsError(f"These are measurements of {head.get('release')}, not of synthetic rows.")
        given = head["settings"]
        exact = {"one_ways", "scores", "certificate"}
        chosen: dict[str, Any] = {
            name: Fraction(value) if name in exact else int(value) for name, value in given.items()
        }
        settings = Settings(**chosen)
        plan = SynthesisPlan(
            domain=Domain.of(head["domain"], ordered=head["ordered"], nulls=head["nulls"]),
            price=Price(law=head["price"][0], amount=Fraction(head["price"][1])),
            settings=settings,
            rows=head["rows"],
            touched=head["touched"],
        )
        raw = cls(plan=plan, measurements=tuple(kept), seed=head["seed"], fitted=Fitting(plan, kept))
        return raw.rebuilt()


def _mask(size: int, codes: Iterable[int]) -> npt.NDArray[np.bool_]:
    mask = np.zeros(size, dtype=np.bool_)
    for code in codes:
        mask[integer(code, "where", minimum=0, maximum=size - 1)] = True
    return mask
