"""Errors of questions: what an analyst asked cannot be understood, or may not be answered.

::

    HushError
    └── QuestionError            the question is refused; nothing was read and nothing is charged
        ├── UnknownTableError    it names a table that the data set does not have
        └── UnboundedError       a sum, mean or quantile of values whose public range is not known

A refusal depends on the question and the policy alone, never on a row.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hush.core import HushError


class QuestionError(HushError):
    """A question that is refused: what is wrong, and the way out."""

    code = "question"

    def __init__(self, what: str, hint: str = "") -> None:
        self.what = what
        self.hint = hint
        super().__init__(f"{what} {hint}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.what, self.hint))


class UnknownTableError(QuestionError):
    """A table that this data set does not have; another one may."""


class UnboundedError(QuestionError):
    """An aggregate needs to know between which values its argument lies."""

    code = "unbounded"


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return ``Did you mean 'x'?`` for the nearest known name, else ``otherwise``.

    >>> did_you_mean("diseese", ["age", "disease"])
    "Did you mean 'disease'?"
    """
    folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold()[:100], folded, n=1, cutoff=0.6)
    return f"Did you mean '{folded[near[0]]}'?" if near else otherwise
