"""Packages that only some uses of hush need: a missing one is a sentence with the command that installs it.

>>> optional("json", "arrow").dumps([1])
'[1]'
>>> optional("no_such_package", "arrow")
Traceback (most recent call last):
...
hush.core.errors.HushError: this needs no_such_package; install it with: pip install 'hush[arrow]'
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hush.core.errors import HushError


def optional(module: str, extra: str) -> Any:
    """Return a module of a package that an extra of hush installs."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise HushError(f"this needs {package}; install it with: pip install 'hush[{extra}]'") from None
