"""Fields of frozen dataclasses, set where a value is made."""

from __future__ import annotations

from typing import Any


def assign(value: object, /, **fields: Any) -> None:
    """Set fields of a frozen dataclass, in its own ``__init__`` or ``__post_init__``."""
    for name, content in fields.items():
        object.__setattr__(value, name, content)
