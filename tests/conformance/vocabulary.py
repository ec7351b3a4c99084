"""What random questions are made of: the tables of `worlds` as an analyst sees them, constants, sources."""

from __future__ import annotations

from dataclasses import dataclass, field

VISITS = {
    "age": "number", "cost": "number", "free": "number", "wide": "number", "big": "number", "city": "text",
    "name": "text", "flag": "truth", "day": "date", "at": "moment",
}  # fmt: skip
ORDERS = {"price": "number", "item": "text", "visit": "number"}
ANSWERS = {"score": "number", "choice": "text", "note": "text", "grade": "number"}
BALLOTS = {"points": "number", "party": "text"}
REGIONS = {"town": "text", "region": "text", "factor": "number"}
ITEMS = {"weight": "number", "label": "text"}
TABLES = {
    "visits": VISITS,
    "orders": ORDERS,
    "items": ITEMS,
    "answers": ANSWERS,
    "ballots": BALLOTS,
    "regions": REGIONS,
}

NUMBERS = ["0", "1", "-3", "0.5", "2", "1e300", "9223372036854775807", "18446744073709551616", "0.1"]
WORDS = ["'a'", "'b'", "'zz'", "''", "'é'", "'%'", "'1'", "'2.5'", "'1970-01-05'"]
PATTERNS = ["'%a%'", "'_'", "'a%'", "''"]
DAYS = ["DATE '1970-01-01'", "DATE '1970-01-20'", "CAST('2020-02-29' AS DATE)"]


@dataclass
class Source:
    """What a FROM reads: its text, and its columns by kind, as they can be named."""

    text: str
    columns: list[tuple[str, str]]
    units: list[str]
    """How the unit can be named; none where rows are units."""
    lost: list[str] = field(default_factory=list)
    """Units of the optional side of an outer join."""

    def of(self, kind: str) -> list[str]:
        return [name for name, found in self.columns if found == kind]


def starred(source: Source) -> list[tuple[str, str]]:
    """Return the columns that * gives: of two with one name the second is x_1."""
    found: dict[str, str] = {}
    for qualified, kind in source.columns:
        plain = qualified.partition(".")[2]
        names = [plain, *(f"{plain}_{at}" for at in range(1, 99))]
        found[next(name for name in names if name not in found)] = kind
    return list(found.items())
