"""Errors of questions: a question is not understood, or must not be answered.

::

    HushError
    ├── QuestionError            the question is refused; nothing was read and nothing is charged
    │   ├── UnknownTableError    it names a table that the data set does not have
    │   └── UnboundedError       a sum, mean or quantile of values whose public range is not known
    └── UnplannableError         the planner refuses: no private answer as it stands
        └── TooSmallError        the ε does not suffice to choose keys privately; a larger one would

A refusal depends on the question and the policy alone, never on a row.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hush.core import HushError
from hush.core.format import visible


class QuestionError(HushError):
    """A refused question, with the reason and a hint."""

    def __init__(self, what: str, hint: str = "") -> None:
        self.what = what
        self.hint = hint
        self.place: tuple[int, int] | None = None
        """Where in the question's text: its first and last character, counted from 0."""
        self.text = ""
        super().__init__(f"{what} {hint}".rstrip())

    def pointer(self) -> str:
        """Return the line of the question that is meant, with a mark under the place.

        >>> error = QuestionError("There is no column 'ag' here.", "Did you mean 'age'?")
        >>> error.text, error.place = "SELECT AVG(ag) FROM visits", (11, 12)
        >>> print(error.pointer())
        SELECT AVG(ag) FROM visits
                   ^^
        """
        if self.place is None or not self.text:
            return ""
        first, last = self.place
        begin = self.text.rfind("\n", 0, first) + 1
        line = self.text[begin:].partition("\n")[0]
        marked = visible(line[: first - begin]), visible(line[first - begin : last + 1 - begin])
        return f"{visible(line)}\n{' ' * len(marked[0])}{'^' * max(1, len(marked[1]))}"


class UnknownTableError(QuestionError):
    """A table that this data set does not have; another one may."""

    code = "question"
    table: str = ""
    """Its name, as it was written."""


class UnboundedError(QuestionError):
    """An aggregate needs to know between which values its argument lies."""


def did_you_mean(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """Return ``Did you mean 'x'?`` for the nearest known name, else ``otherwise``.

    >>> did_you_mean("diseese", ["age", "disease"])
    "Did you mean 'disease'?"
    """
    folded = {candidate.casefold(): candidate for candidate in known}
    near = difflib.get_close_matches(name.casefold()[:100], folded, n=1, cutoff=0.6)
    return f"Did you mean '{folded[near[0]]}'?" if near else otherwise


class UnplannableError(HushError, ValueError):
    """A question that cannot be answered privately as it stands; the message has the reason and a remedy."""


class TooSmallError(UnplannableError):
    """The ε does not suffice to choose keys privately; a larger one would."""

    code = "unplannable"
