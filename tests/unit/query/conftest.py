"""The clinic that questions are asked about."""

from __future__ import annotations

import pytest
from clinic import make_schema


@pytest.fixture(scope="session")
def schema():
    return make_schema()
