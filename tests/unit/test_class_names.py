"""One class name for one concept in the whole package: who reads a name knows what it is without its import."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import hush

STILL_TWICE = {
    "Charge": "the price of an event in an account, and the ledger's decision to charge: both are public names",
    "Filter": "a relation's WHERE, and an account that admits charges: each is the word of its literature",
    "Plan": "of a question, and of mechanisms declared in advance: both are public names",
    "Question": "the typed tree, and a question of the utility planner: both are public names",
}
"""Names that stand for two concepts today, with what they are. A name leaves this list, none enters it."""


@cache
def twice() -> dict[str, list[str]]:
    """Return the class names that several modules define, with these."""
    source = Path(hush.__file__).parent
    homes: dict[str, list[str]] = defaultdict(list)
    for module in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(module.relative_to(source)))
    return {name: modules for name, modules in homes.items() if len(modules) > 1}


def test_no_further_class_name_stands_for_two_concepts() -> None:
    found = twice()
    assert {name: modules for name, modules in found.items() if name not in STILL_TWICE} == {}


def test_names_that_are_single_again_leave_the_list() -> None:
    assert sorted(set(STILL_TWICE) - set(twice())) == []
