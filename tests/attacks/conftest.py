"""The clinic of the unit tests, to attack."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_HERE = Path(__file__).parent.parent / "unit" / "query" / "conftest.py"


@pytest.fixture(scope="session")
def schema():
    spec = importlib.util.spec_from_file_location("clinic_schema", _HERE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make_schema()
