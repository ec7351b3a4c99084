"""The error tree: everything hush raises on purpose is a HushError.

::

    HushError
    ├── InvalidValueError (ValueError)   a parameter outside what is allowed
    │   ├── OffGridError                 a value that is not a multiple of the public step
    │   └── UnknownEventError            a type or version of event that this release does not know
    ├── PrecisionError                   a figure that cannot be certified to the accuracy asked for
    │   └── UncertainError               the certified ends of a figure lie too far apart; it carries both
    ├── DescriptionError                 an event lacks what a question needs (Gaussian noise has no pure ε)
    └── BudgetExceededError              a price that does not fit into what is left

A message says what is wrong, what was got, what is allowed and what to do next, in the user's words. It may name
parameters and values the *caller* wrote, never a value taken from a protected row.

>>> raise InvalidValueError("scale", got=-1, allowed="a positive finite number")
Traceback (most recent call last):
...
hush.core.errors.InvalidValueError: The 'scale' parameter must be a positive finite number. Got -1 instead.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Iterable
from typing import Any, ClassVar

_MAX_SHOWN_LENGTH = 80


def shown(value: object) -> str:
    """Return a short, single-line picture of a value for a message; never fails.

    Numbers are shown as a person would write them (a Fraction as ``3/10``), all else by its repr, cut at 80 characters.
    """
    from fractions import Fraction

    try:
        text = str(value) if isinstance(value, Fraction) else repr(value)
    except Exception:  # noqa: BLE001 - the caller's object may break its own repr; the message must still come out
        text = f"an unprintable {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SHOWN_LENGTH else text[: _MAX_SHOWN_LENGTH - 1] + "…"


class HushError(Exception):
    """The root of every error that hush raises on purpose."""

    code: ClassVar[str] = "error"
    """A stable, machine-readable name, as printed by ``--json``: that of the class, where it says no other."""
    exit_status: ClassVar[int] = 2
    """The exit status of the command line: 2 for a bad question or policy, 3 for the budget."""

    def __init_subclass__(cls) -> None:
        """Derive the code from the name of the class: ``LedgerBusyError`` has ``ledger-busy``."""
        if "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__.removesuffix("Error")).lower()

    def __reduce__(self) -> tuple[object, ...]:
        # Made again without its constructor, whose arguments are not those of an exception.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]

    def pointer(self) -> str:
        """Return the line of the user's text with a mark under the error's position; "" if the position is unknown."""
        return ""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that a notebook shows: the caller's own frames, and the message.

        IPython calls this method. A user's mistake is reported at the user's line; the frames inside hush are left
        out.
        """
        import traceback

        lines = []
        entries = traceback.extract_tb(self.__traceback__)
        for (frame, _), entry in zip(traceback.walk_tb(self.__traceback__), entries, strict=True):
            package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
            if package == "hush":
                break
            if package != "IPython":
                source = "this cell" if "ipykernel_" in entry.filename else entry.filename
                lines += [f"{source}, line {entry.lineno}", f"    {entry.line}"]
        marked = self.pointer()
        return [*lines, "", *([marked, ""] if marked else []), f"{type(self).__name__}: {self}"]


class InvalidValueError(HushError, ValueError):
    """A parameter's value is not allowed."""

    def __init__(self, parameter: str, *, got: object, allowed: str, hint: str = "") -> None:
        self.parameter = parameter
        self.got = got
        self.allowed = allowed
        self.hint = hint
        message = f"The '{parameter}' parameter must be {allowed}. Got {shown(got)} instead."
        super().__init__(f"{message} {hint}" if hint else message)


def members(values: object, parameter: str, *, allowed: str, of: type | None = None) -> list[Any]:
    """Return the members of a list; refuse a text, any other non-list, and members that are no ``of``.

    >>> members((1, 2), "sensitivities", allowed="a list of numbers")
    [1, 2]
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidValueError(parameter, got=values, allowed=allowed)
    elements = list(values)
    wrong = [element for element in elements if of is not None and not isinstance(element, of)]
    if wrong:
        raise InvalidValueError(parameter, got=wrong[0], allowed=allowed)
    return elements


class OffGridError(InvalidValueError):
    """A value does not lie on the public grid."""


class PrecisionError(HushError, ArithmeticError):
    """A figure could not be certified to the accuracy asked for."""


class BudgetExceededError(HushError):
    """A price exceeds the remaining budget; nothing was charged."""

    exit_status = 3


class UnknownEventError(InvalidValueError):
    """An event's type or version is not in the vocabulary."""


class UncertainError(PrecisionError):
    """A figure's certified ends lie further apart than the accountant promises; both are sound, and carried along."""

    code = "precision"

    def __init__(self, figure: str, lower: float, upper: float) -> None:
        self.figure, self.lower, self.upper = figure, lower, upper
        super().__init__(
            f"{figure} is certified to lie between {lower:.9g} and {upper:.9g}, which is wider than promised. "
            "The upper end is sound: ask again with strict=False to have it."
        )


class DescriptionError(HushError, ValueError):
    """An event has no description of the kind that was asked for."""

    code = "no-description"
