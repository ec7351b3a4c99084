"""A figure with both its certified ends.

>>> width = Bound(lower=0.9, upper=1.0)
>>> width, width + 1, width.lower
(1.0, 2.0, 0.9)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Bound"]


class Bound(float):
    """A float that is a certified upper bound, and knows the certified lower bound too."""

    __slots__ = ("lower",)
    lower: float

    def __new__(cls, *, lower: float, upper: float) -> Self:
        """Return the bound; a lower end above the upper one (both rounded) is drawn down to it."""
        self = super().__new__(cls, upper)
        self.lower = min(lower, upper)
        return self

    @property
    def upper(self) -> float:
        """The certified upper end, as a plain float."""
        return float(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (_bound, (self.lower, self.upper))


def _bound(lower: float, upper: float) -> Bound:
    return Bound(lower=lower, upper=upper)
