"""Values that are looked up again and again remember their hash.

Expressions and statistics are trees of frozen dataclasses, with rationals in them, and keys of many dictionaries. A
tree never changes, so its hash is found once. It is no field: it is in no copy, comparison or representation.

>>> from dataclasses import dataclass
>>> @hashed_once
... @dataclass(frozen=True, slots=True)
... class Word(Hashed):
...     text: str
>>> len({Word("a"), Word("a")}), hash(Word("b")) == hash(Word("b"))
(1, True)
"""

from __future__ import annotations

from typing import TypeVar

_Class = TypeVar("_Class", bound="type[Hashed]")


class Hashed:
    """Has a place for its hash."""

    __slots__ = ("_hash",)
    _hash: int


def hashed_once(cls: _Class) -> _Class:
    """Make instances of a class remember what its own hash function finds."""
    find = cls.__hash__

    def remembered(self: Hashed) -> int:
        try:
            return self._hash
        except AttributeError:
            found = find(self)
            object.__setattr__(self, "_hash", found)
            return found

    cls.__hash__ = remembered  # type: ignore[assignment, method-assign]
    return cls
