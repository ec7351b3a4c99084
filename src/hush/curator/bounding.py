"""How much bounding cuts: a private estimate for owners, priced and charged like any question.

A unit counts with at most ``max_rows`` rows in a group and in at most ``max_groups`` groups. What it has beyond is
weighted down or dropped, and no error bar speaks of that. How much it is depends on the rows, so it has a price. Two
questions with half of ε each are asked, over one row per unit with the number n of its rows (or of its groups):

1. how many units have n in each of some eighty classes, 1 to 8, 10, 12, 14, 16, 20, … A unit is in one class, so noise
   of one scale protects all of them. The *proposal* is the least class that so many units (95 %) do not exceed, a
   private quantile. The last class that stands out of its noise says up to which M numbers are worth counting;
2. Σ min(n, limit) and Σ min(max(n - limit, 0), M - limit). The second over both is the *share beyond the bound*, with
   the error bar that ratios have. Where a unit has more than M, what it has beyond M is not counted.

The noise of a sum of clipped numbers grows with where they are clipped, and what is lost shrinks: at the best bound
about 1/ε units lie beyond it (Amin, Kulesza, Munoz Medina, Vassilvitskii 2019). So a proposal is a place to start from.

What comes out is public, and an owner may write it into the policy (``beyond = […]``, `Bounding.policy`): then the
notes of answers say it, as long as the limit is the one it was estimated for.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from itertools import accumulate
from typing import Any

from hush.core import Number, positive
from hush.core.errors import shown
from hush.core.format import decimal
from hush.core.numbers import fraction_between
from hush.core.values import dataclass
from hush.curator.answer import Answer, Money
from hush.query.builder import Asker
from hush.query.errors import QuestionError, did_you_mean
from hush.query.schema import Beyond, Schema

QUANTILE = Fraction(19, 20)
_CLASSES = tuple(sorted({part * 2**k // 4 for k in range(20) for part in (4, 5, 6, 7)} - {0} | {2**20}))
_STANDS_OUT = 2
"""A class counts as occupied if it has so many times its half-width, and 3 units."""
_GAP = 8
"""After so many classes in a row that are not, two octaves, nothing more is expected: noise alone would fill a few."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Bounding:
    """How many rows, or groups, units have, and what of them lies beyond a bound."""

    table: str
    by: str | None
    """The column whose values are the groups; None for rows."""
    limit: int
    """The bound of the policy."""
    share: float
    """The part of rows (or groups) beyond it."""
    error: float | None
    """Its half-width; None if nothing is known."""
    proposal: int
    """So many units have no more than this: the quantile that was asked for."""
    quantile: Fraction
    most: int
    """What units have beyond this is not counted."""
    units: tuple[tuple[int, int, float], ...]
    """(up to, number of units, half-width) by class."""
    confidence: float
    price: Money
    receipts: tuple[str, ...]
    when: str

    @property
    def beyond(self) -> Beyond | None:
        """What a policy may say of it; None where nothing is known."""
        if self.error is None or self.error > 0.9:
            return None
        share = Fraction(f"{max(self.share, 0.0):.6g}")
        error = Fraction(f"{1.01 * (self.error + 1e-6):.3g}")  # no less than it is, and what rounding the share adds
        receipt = ", ".join(self.receipts)
        return Beyond(
            by=self.by, limit=self.limit, share=min(share, Fraction(1)), error=error, receipt=receipt, when=self.when
        )

    def policy(self) -> str:
        """Return the line with which a policy tells analysts."""
        found = self.beyond
        if found is None:
            return ""
        by = "" if found.by is None else f'by = "{found.by}", '
        return (
            f'beyond = [{{ {by}{found.key} = {found.limit}, share = "{decimal(found.share)}", '
            f'error = "{decimal(found.error)}", receipt = "{found.receipt}", when = "{found.when}" }}]'
        )

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as plain JSON values."""
        return {
            "table": self.table,
            "by": self.by,
            "limit": self.limit,
            "share": self.share,
            "error": self.error,
            "proposal": self.proposal,
            "quantile": decimal(self.quantile),
            "most": self.most,
            "units": [list(row) for row in self.units],
            "confidence": self.confidence,
            "price": self.price.to_json(),
            "receipts": list(self.receipts),
            "when": self.when,
            "policy": self.policy(),
        }

    def lines(self) -> list[str]:
        """Return the estimate line by line."""
        what, key = ("rows", "max_rows") if self.by is None else (f"groups by {self.by}", "max_groups")
        share = "anything" if self.beyond is None else self.beyond.percent
        upto = f"; what a unit has beyond {self.most} is not counted" if self.most < _CLASSES[-1] else ""
        lines = [
            f"{what} beyond {key} = {self.limit}: {share}{upto}",
            f"proposal: {key} = {self.proposal}, which {100 * float(self.quantile):g}% of the units do not exceed",
            f"± at {100 * self.confidence:g}% confidence; price {self.price}; receipts {', '.join(self.receipts)}",
        ]
        if self.beyond is not None:
            lines.append(f"to let the notes of answers say so, write under the table in the policy: {self.policy()}")
        return lines

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__


def estimate(
    asker: Asker, schema: Schema, table: str, *, by: str | None, epsilon: Number, quantile: Number | None
) -> Bounding:
    """Ask how much the bounds of a table cut; see `hush.curator.curator.Curator.bounding`."""
    price = positive(epsilon, "epsilon")
    part = QUANTILE if quantile is None else fraction_between(quantile, "quantile")
    unit, limit = _bound(schema, table, by)
    number = "COUNT(*)" if by is None else f"COUNT(DISTINCT {_quoted(by)})"
    # a question like an analyst's: parsed and checked like any, never executed as it is written
    rows = f"(SELECT {number} AS n FROM {_quoted(table)} GROUP BY {_quoted(unit)})"  # noqa: S608
    classes = " ".join(f"WHEN n <= {upto} THEN {upto}" for upto in _CLASSES[:-1])
    classes = f"CASE {classes} ELSE {_CLASSES[-1]} END"
    counted: Answer = asker.ask(
        f"SELECT k, COUNT(*) AS units FROM (SELECT {classes} AS k FROM {rows}) GROUP BY k",  # noqa: S608
        epsilon=price / 2,
        data=schema.data,
    )
    units = tuple((int(row["k"]), int(row["units"]), float(row["units_error"])) for row in counted.rows())
    most = _last(units, limit)
    kept, over = f"SUM(CLIP(n, 0, {limit}))", f"SUM(CLIP(n - {limit}, 0, {most - limit}))"
    part_beyond = f"SELECT {over} / ({over} + {kept}) AS share FROM {rows}"  # noqa: S608
    shares: Answer = asker.ask(part_beyond, epsilon=price / 2, data=schema.data)
    (row,) = shares.rows()
    return Bounding(
        table=table,
        by=by,
        limit=limit,
        share=float("nan") if row["share"] is None else float(row["share"]),
        error=None if row["share"] is None else row["share_error"],
        proposal=proposed(units, part),
        quantile=part,
        most=most,
        units=units,
        confidence=shares.confidence,
        price=Money(
            epsilon=counted.price.epsilon + shares.price.epsilon, delta=counted.price.delta + shares.price.delta
        ),
        receipts=(counted.receipt, shares.receipt),
        when=dt.datetime.now(dt.UTC).date().isoformat(),
    )


def proposed(units: tuple[tuple[int, int, float], ...], quantile: Fraction) -> int:
    """Return the least class that so many units do not exceed.

    >>> proposed(((1, 50, 1.0), (2, 45, 1.0), (3, 5, 1.0)), Fraction(19, 20))
    2
    """
    everybody = sum(number for _, number, _ in units)
    upto = accumulate(number for _, number, _ in units)
    return next(
        last
        for (last, _, _), below in zip(units, upto, strict=True)
        if below >= quantile * everybody or last == units[-1][0]
    )


def _last(units: tuple[tuple[int, int, float], ...], limit: int) -> int:
    """Return the last class that stands out of its noise, or twice the limit."""
    last, gap = 2 * limit, 0
    for upto, number, error in units:
        occupied = number > _STANDS_OUT * error + 3
        last, gap = (max(last, upto), 0) if occupied else (last, gap + (upto > limit))
        if gap == _GAP:
            break
    return last


def _bound(schema: Schema, table: str, by: str | None) -> tuple[str, int]:
    """Return the unit's name, and the bound that is meant."""
    found = schema.tables.get(table)
    private = [name for name, one in schema.tables.items() if not one.public]
    if found is None or found.public:
        what = f"There is no private table {shown(table)}." if found is None else f"The table {table!r} is public."
        raise QuestionError(what, did_you_mean(str(table), private, otherwise=f"Bounded are {', '.join(private)}."))
    if found.unit is None:
        raise QuestionError(f"Every row of {table!r} is a unit of its own.", "Nothing is bounded there.")
    if by is not None and by not in found.columns:
        raise QuestionError(f"The table {table!r} has no column {shown(by)}.", did_you_mean(str(by), found.columns))
    return schema.unit or found.unit.column, found.max_rows if by is None else found.max_groups


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
