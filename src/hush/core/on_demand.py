"""Names and packages that are imported when they are first used (PEP 562), or not at all.

A command such as ``hush ask`` needs one mechanism and one accountant of many. A package whose ``__init__`` imported all
it offers would make every command load all of them. So it tells a type checker its names under ``TYPE_CHECKING``, and
the interpreter where to find them:

>>> find, names = on_demand("fractions", {"decimal": "Decimal ROUND_UP"})
>>> find("Decimal"), names
(<class 'decimal.Decimal'>, ['Decimal', 'ROUND_UP'])
>>> find("Decimals")
Traceback (most recent call last):
...
AttributeError: module 'fractions' has no attribute 'Decimals'

No name may be that of a module of its package: whoever imports the module first would put it in the name's place.

Packages that only some uses of hush need may be missing. That is a sentence with the command that installs them:

>>> optional("json", "arrow").dumps([1])
'[1]'
>>> optional("no_such_package", "arrow")
Traceback (most recent call last):
...
hush.core.errors.HushError: this needs no_such_package; install it with: pip install 'hush[arrow]'
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from hush.core.errors import HushError


def on_demand(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """Return ``__getattr__`` and ``__all__`` of a package; ``names`` has those of each module, by its full name.

    ``name=original`` renames, and ``name=.`` stands for the module itself.
    """
    places = {
        name: (module, original or name)
        for module, offered in names.items()
        for name, _, original in (part.partition("=") for part in offered.split())
    }

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = places[name]
        value = import_module(module)
        if original != ".":
            value = getattr(value, original)
        setattr(sys.modules[package], name, value)
        return value

    return find, sorted(places)


def optional(module: str, extra: str) -> Any:
    """Return a module of a package that an extra of hush installs."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise HushError(f"this needs {package}; install it with: pip install 'hush[{extra}]'") from None
