"""A certified number: a float that is an upper bound and knows its lower end."""

from __future__ import annotations


class Bound(float):
    """A float that is the upper end of a certified interval [lower, upper]."""

    __slots__ = ("lower",)
    lower: float

    def __new__(cls, lower: float, upper: float) -> Bound:
        self = super().__new__(cls, upper)
        self.lower = float(lower)
        return self

    @property
    def upper(self) -> float:
        """The upper end: the value itself."""
        return float(self)
