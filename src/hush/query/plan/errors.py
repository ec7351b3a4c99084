"""What the planner refuses."""

from __future__ import annotations

from hush.core import HushError


class UnplannableError(HushError, ValueError):
    """A question that cannot be answered privately as it stands; the message says why and what to do."""

    code = "unplannable"


class TooSmallError(UnplannableError):
    """The ε does not suffice to choose keys privately; a larger one would."""
