"""Names and packages that are imported when they are first used (PEP 562), or not at all.

A command such as ``hush ask`` needs one mechanism and one accountant of many. A package whose ``__init__`` imported all
it offers would make every command load all of them. So it shows a type checker its imports under ``TYPE_CHECKING``, and
the interpreter reads in the same lines where a name is to be found (as ``lazy_loader`` does, SPEC 1):

>>> find, names = on_demand("hush.noise")
>>> find("discrete_laplace").__module__, names[:2]
('hush.noise.laplace', ['bernoulli', 'bernoulli_exp'])
>>> find("continuous_laplace")
Traceback (most recent call last):
...
AttributeError: module 'hush.noise' has no attribute 'continuous_laplace'

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

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from hush.core.errors import HushError


def on_demand(package: str) -> tuple[Callable[[str], Any], list[str]]:
    """Return ``__getattr__`` and ``__all__`` of a package: the names of its imports under ``if TYPE_CHECKING``."""
    loader: Any = sys.modules[package].__loader__
    (block,) = (part for part in ast.parse(loader.get_source(package)).body if isinstance(part, ast.If))
    places = {
        alias.asname or alias.name: (line.module, alias.name)
        for line in block.body
        if isinstance(line, ast.ImportFrom) and line.module
        for alias in line.names
    }

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = places[name]
        # What a package imports from itself are its modules.
        value = import_module(f"{module}.{original}") if module == package else getattr(import_module(module), original)
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
