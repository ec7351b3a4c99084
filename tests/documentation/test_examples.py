"""Every public name shows how it is used: help(hush.median) ends with an example that runs."""

from __future__ import annotations

import importlib
import inspect
import re
from types import ModuleType

import pytest

import hush

PACKAGES = [
    *(
        "hush.accounting",
        "hush.audit",
        "hush.core",
        "hush.distributed",
        "hush.learn",
        "hush.ledger",
        "hush.local",
        "hush.mechanisms",
    ),
    *("hush.noise", "hush.sensitivity", "hush.synth", "hush.utility"),
]


def _documented(package: ModuleType) -> list[str]:
    """Return the names of a package that are functions or classes, and no errors; of a module, those it defines."""
    defined = [name for name, value in vars(package).items() if getattr(value, "__module__", "") == package.__name__]
    names = getattr(package, "__all__", [name for name in defined if not name.startswith("_")])
    objects = {name: getattr(package, name) for name in names if name != "__version__"}
    return [
        name
        for name, value in objects.items()
        if (inspect.isclass(value) and not issubclass(value, Exception)) or inspect.isroutine(value)
    ]


def _examples(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.lstrip().startswith((">>>", "...")))


@pytest.mark.parametrize("name", _documented(hush))
def test_every_name_of_hush_has_an_example_of_its_own(name: str) -> None:
    assert ">>>" in (getattr(hush, name).__doc__ or "")


@pytest.mark.parametrize("package", PACKAGES)
def test_public_packages_show_their_names_in_use(package: str) -> None:
    """In the docstring of the name, or in that of the module where it lives."""
    module = importlib.import_module(package)
    lacking = []
    for name in _documented(module):
        value = getattr(module, name)
        home = importlib.import_module(value.__module__).__doc__ or ""
        if ">>>" not in (value.__doc__ or "") and not re.search(rf"\b{re.escape(name)}\b", _examples(home)):
            lacking.append(name)
    assert not lacking
