"""Every public name shows how it is used: help(hush.median) ends with an example that runs."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import hush


def _documented(package: ModuleType) -> list[str]:
    """Return the names of a package that are functions or classes, and no errors."""
    names = [name for name in package.__all__ if name != "__version__"]
    objects = {name: getattr(package, name) for name in names}
    return [
        name
        for name, value in objects.items()
        if (inspect.isclass(value) and not issubclass(value, Exception)) or inspect.isroutine(value)
    ]


@pytest.mark.parametrize("name", _documented(hush))
def test_every_name_of_hush_has_an_example_of_its_own(name: str) -> None:
    assert ">>>" in (getattr(hush, name).__doc__ or "")
