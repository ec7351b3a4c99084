"""docs/reference.md is in step: it has every public name of `hush`. Every page is in the table of contents."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

import hush

_DOCS = Path(__file__).parents[2] / "docs"
_REFERENCE = (_DOCS / "reference.md").read_text("utf-8")
_MODULES = dict(re.findall(r"automodule:: ([\w.]+)\n(?:   :members: (.*)\n)?", _REFERENCE))
_CLASSES = re.findall(r"autoclass:: ([\w.]+)", _REFERENCE)
_NAMES = [name for name in hush.__all__ if not isinstance(getattr(hush, name), ModuleType)]


@pytest.mark.parametrize("name", _NAMES)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    public = getattr(hush, name)
    members = _MODULES.get(public.__module__)
    listed = members is not None and (not members or public.__name__ in members.split(", "))
    assert listed or f"{public.__module__}.{public.__name__}" in _CLASSES


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = re.findall(r"^[\w-]+$", (_DOCS / "index.md").read_text("utf-8"), re.MULTILINE)
    assert {path.stem for path in _DOCS.glob("*.md")} - {"index"} <= set(contents)
