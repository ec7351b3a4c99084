"""The shape of the house: no import cycle, tests where a newcomer looks for them, locals that name what they hold."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from copy import deepcopy
from functools import cache
from pathlib import Path

import grimp
import pytest
from importlinter.configuration import configure
from importlinter.contracts.acyclic_siblings import AcyclicSiblingsContract

_ROOT = Path(__file__).parents[2]
_SOURCE, _TESTS = _ROOT / "src" / "hush", _ROOT / "tests"


@cache
def _modules() -> dict[tuple[str, ...], ast.Module]:
    """Return the tree of every module; not at import, for each process of the tests imports this file."""
    return {
        path.relative_to(_SOURCE).with_suffix("").parts: ast.parse(path.read_text("utf-8"))
        for path in sorted(_SOURCE.rglob("*.py"))
    }


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    configure()
    return grimp.build_graph("hush", cache_dir=None)


def _holds(imports: grimp.ImportGraph) -> bool:
    """Return whether the contract against cycles holds, as pyproject.toml writes it."""
    contracts = tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (written,) = [contract for contract in contracts if contract["type"] == "acyclic_siblings"]
    contract = AcyclicSiblingsContract(name=written["name"], session_options={}, contract_options=written)
    return contract.check(deepcopy(imports), verbose=False).kept


def test_there_is_no_cycle(imports: grimp.ImportGraph) -> None:
    assert _holds(imports)


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("hush.noise.bits", "hush.mechanisms.laplace"),  # of packages
        ("hush.accounting.pairs.base", "hush.accounting.events.base"),  # of folders in a package
        ("hush.noise.bits", "hush.noise.laplace"),  # of modules in a folder
    ],
)
def test_a_planted_cycle_breaks_the_contract(imports: grimp.ImportGraph, importer: str, imported: str) -> None:
    planted = deepcopy(imports)
    planted.add_import(importer=importer, imported=imported)
    assert not _holds(planted)


_THROUGH_OTHERS = {
    "hush.accounting.profile.contour": "unit/accounting/profile/test_direction.py",
    "hush.accounting.profile.cumulant": "unit/accounting/profile/test_direction.py",
    "hush.accounting.profile.method": "unit/accounting/profile/test_direction.py",
    "hush.cli.interview": "e2e/test_cli_init_questions.py",
    "hush.curator.synthetic_release": "unit/curator/test_releases.py",
    "hush.engines.public_tables": "conformance/test_public_ranges.py",
    "hush.engines.registry": "conformance/engines/test_postgresql.py",
    "hush.query.plan.winners_curse": "statistical/test_winners.py",
    "hush.server.pages.budget": "unit/server/test_requests.py",
    "hush.server.pgwire.connection": "unit/server/test_pgwire.py",
    "hush.storage.sqlite": "attacks/ledger/test_ledger_faults.py",
}
"""The tests of modules that are reached through others alone."""


def test_a_module_is_found_by_name_in_the_tests() -> None:
    """Of its package, or in those that are of no single package: by the file's name, the module's or a public name."""
    texts = {path.relative_to(_TESTS).as_posix(): path.read_text("utf-8") for path in sorted(_TESTS.rglob("*.py"))}
    words = {path: set(re.findall(r"\w+", text)) for path, text in texts.items()}
    missing = []
    for parts, tree in _modules().items():
        if parts[-1] == "__init__" or not any(isinstance(node, ast.FunctionDef) for node in ast.walk(tree)):
            continue
        defined = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
        public = {node.name for node in defined if not node.name.startswith("_")}
        module = ".".join(("hush", *parts))
        near = [path for path in texts if not re.match(rf"unit/(?!{parts[0]}/)\w+/", path)]
        named = any(f"_{parts[-1]}" in Path(path).name or public & words[path] for path in near)
        named = named or any(module in texts[path] for path in near)  # which takes longest to look for
        if not named and _THROUGH_OTHERS.get(module) not in texts:
            missing.append(module)
    assert missing == []


_VAGUE = {"at", "found", "here", "item", "known", "many", "most", "one", "place", "whole"}
_CEILINGS = {
    "accounting": 0, "audit": 14, "cli": 13, "client": 0, "core": 5, "curator": 11, "distributed": 0,
    "engines": 24, "learn": 0, "ledger": 31, "local": 0, "mechanisms": 0, "noise": 0, "policy": 1, "query": 117,
    "report": 14, "sensitivity": 0, "server": 21, "storage": 5, "synth": 0, "utility": 0,
}  # fmt: skip
"""How many locals and parameters of a package may have a name that could be anything's. These figures may only fall."""


def _bound(node: ast.AST) -> str:
    """Return the name that a node binds, if it is a variable's or a parameter's."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else ""


def test_locals_name_what_they_hold() -> None:
    names: dict[str, Counter[str]] = {package: Counter() for package in _CEILINGS}
    for parts, tree in _modules().items():
        names.get(parts[0], Counter()).update(name for node in ast.walk(tree) if (name := _bound(node)) in _VAGUE)
    assert {package: found for package, found in names.items() if found.total() > _CEILINGS[package]} == {}


_RIDDLE = re.compile(
    r"\b(what|whatever|whoever|whose|of which|so many|so much|such|of these|of those|of it|of them)\b", re.IGNORECASE
)


def test_summaries_say_with_nouns_what_is_returned_or_done() -> None:
    """At most one summary in a hundred has a word that sends its reader to look for a noun."""
    summaries = [
        statement.value.value.strip().split("\n\n")[0]
        for tree in _modules().values()
        for node in ast.walk(tree)
        if isinstance(getattr(node, "body", None), list)
        for statement in node.body  # type: ignore[attr-defined]
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ]
    riddles = [summary for summary in summaries if _RIDDLE.search(summary)]
    assert len(summaries) > 5000
    assert 100 * len(riddles) <= len(summaries), riddles
