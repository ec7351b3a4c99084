"""How often an error bar holds: 95 % of the time, where nothing else is asked for.

>>> confident(None), confident("0.99")
(0.95, 0.99)
"""

from __future__ import annotations

from hush.core import InvalidValueError, Number, fraction_between

CONFIDENCE = 0.95
_LOWEST, _HIGHEST = 0.5, 0.999
"""Beyond, what is simulated would tell nothing."""


def confident(value: Number | None) -> float:
    """Return the confidence that is asked for."""
    confidence = CONFIDENCE if value is None else float(fraction_between(value, "confidence"))
    if not _LOWEST <= confidence <= _HIGHEST:
        raise InvalidValueError("confidence", got=value, allowed=f"from {_LOWEST} to {_HIGHEST}")
    return confidence
