"""PostgreSQL's types, each stated once in ``types.tsv``: its numbers, names, and use."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple


class PgType(NamedTuple):
    """A type: its numbers and names, how many bytes it takes, and its category."""

    oid: int
    name: str
    shown: str
    size: int
    category: str
    array: int
    """The number of the type of its lists; 0 without one."""
    beside: int
    """The type of a parameter that is compared with it; 0 where that is not known."""
    stored: str
    """The embedded engine's type for a column of the catalogue."""


def lines(name: str) -> list[str]:
    """Return the lines of a file beside this module, without comments."""
    text = (files("hush.server.pgwire") / name).read_text("utf-8")
    return [line for line in text.splitlines() if not line.startswith(("#", "--"))]


OWN_TYPES = [
    PgType(int(oid), name, shown, int(size), category, int(array), int(beside), stored)
    for oid, name, shown, size, category, array, beside, stored in (line.split("\t") for line in lines("types.tsv"))
]
LISTS = [
    PgType(kind.array, f"_{kind.name}", f"{kind.shown}[]", -1, "A", 0, 0, f"{kind.stored}[]")
    for kind in OWN_TYPES
    if kind.array
]
BY_OID = {kind.oid: kind for kind in (*OWN_TYPES, *LISTS)}
_NAMED = [(name, kind) for kind in BY_OID.values() for name in (kind.shown, kind.name)]
BESIDE = {name: kind.beside for name, kind in _NAMED}
"""The type of a parameter beside a value of a type, by the names of that type."""
STORED = {name: kind.stored for name, kind in _NAMED} | {
    "int2vector": "BIGINT[]", "oidvector": "BIGINT[]", "_aclitem": "VARCHAR[]", "anyarray": "VARCHAR[]",
}  # fmt: skip
"""The engine's type for a column of the catalogue; the last ones are lists that no driver looks up."""
ARRAYS = {kind.array: kind.oid for kind in OWN_TYPES if kind.array}
"""The types of lists, each with the type of its elements."""
