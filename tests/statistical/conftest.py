"""Every answer here has noise of its own: one that was paid for before would measure nothing."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _fresh(no_answer_twice: None) -> None:
    """Refuse repeated answers."""
