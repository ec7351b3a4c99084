"""Packages that import their names on demand offer all of them, and commands load what they use."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import hush

PACKAGES = (
    "accounting",
    "core",
    "distributed",
    "ledger",
    "local",
    "mechanisms",
    "mechanisms.grouped",
    "noise",
    "sensitivity",
)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_is_there_and_no_module_takes_its_place(name: str) -> None:
    package = import_module(f"hush.{name}")
    modules = {path.stem for path in Path(package.__path__[0]).iterdir()}
    for offered in package.__all__:
        value = getattr(package, offered)
        assert isinstance(value, ModuleType) == (offered in modules), offered


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"hush\.accounting.*no attribute 'Guarantees'"):
        hush.accounting.Guarantees  # noqa: B018


def test_the_options_of_commands_load_no_curator() -> None:
    program = "import sys, hush.cli.options; print(*(name for name in sys.modules if name.startswith('hush.')))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    assert not [name for name in loaded if not name.startswith(("hush.cli", "hush.core"))]


def test_opening_a_policy_loads_neither_every_theorem_nor_charts_nor_other_engines() -> None:
    program = "import sys, hush.curator.opening; print(*(name for name in sys.modules if name.startswith('hush.')))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    unused = ("hush.accounting.profile", "hush.report.pictures", "hush.engines.postgresql", "hush.learn", "hush.synth")
    assert not [name for name in loaded if name.startswith(unused)]
