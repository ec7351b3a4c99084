"""Plants faults into hush, one at a time, and counts how many the tests find.

A fault is a small change of one node of the syntax tree: a comparison off by its border, a sum for a difference, the
smaller for the larger, a number off by one, a check that is left out. They are planted where privacy depends on a line:
noise, bounds of a unit's rows, keys, prices, rules of the ledger, permissions of the service. A seed chooses them, so
that two versions of the tests can be compared on the same faults. Faults that change no behaviour cannot be found, so a
few survivors are expected; each is printed with its line, to be judged by a person.

    python benchmarks/mutants.py                # all areas
    python benchmarks/mutants.py noise keys     # some of them
    python benchmarks/mutants.py --each 3       # faults per module
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 600
"""Seconds for the tests of one fault; a fault that makes them endless is found too."""

AREAS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "noise": (
        ("noise/laplace.py", "noise/gaussian.py", "noise/bernoulli.py", "noise/uniform.py", "noise/select.py"),
        ("tests/unit/noise", "tests/statistical/test_noise_laws.py"),
    ),
    "mechanisms": (
        ("mechanisms/laplace.py", "mechanisms/gaussian.py", "mechanisms/above_threshold.py", "mechanisms/selection.py"),
        ("tests/unit/mechanisms", "tests/theory/test_mechanisms.py"),
    ),
    "keys": (
        ("mechanisms/grouped/keys.py", "mechanisms/grouped/noise.py", "mechanisms/grouped/quantile.py"),
        ("tests/unit/mechanisms", "tests/conformance/test_private_keys.py"),
    ),
    "bounds": (
        ("query/plan/stability.py", "engines/sql/bounding.py"),
        ("tests/unit/query", "tests/conformance/test_sensitivity.py", "tests/conformance/test_bounded_tables.py"),
    ),
    "prices": (
        ("accounting/prices.py", "accounting/filters/kinds.py", "query/plan/plan.py"),
        ("tests/unit/accounting/test_filters.py", "tests/unit/accounting", "tests/unit/query"),
    ),
    "ledger": (
        ("ledger/rules.py", "ledger/charging.py", "ledger/budgets.py"),
        ("tests/unit/ledger", "tests/conformance/ledger", "tests/attacks/ledger"),
    ),
    "permissions": (
        ("server/routes.py", "server/auth/people.py", "ledger/actors.py"),
        ("tests/unit/server", "tests/unit/ledger", "tests/attacks/test_service.py"),
    ),
}
"""For each area the modules that faults are planted in, and the tests that should find them, quick ones first."""

_COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}


@dataclass(frozen=True)
class Fault:
    """One change of a module: its line, the old and the new text of the node, and the module's new source."""

    module: str
    line: int
    before: str
    after: str
    source: str


def faults(module: str) -> Iterator[Fault]:
    """Yield every fault that can be planted into a module."""
    source = (ROOT / "src" / "hush" / module).read_text("utf-8")
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = [node for function in functions for node in ast.walk(function)]
    for node in dict.fromkeys(inside):
        changed = _changed(node)
        if changed is None:
            continue
        field, value = changed
        before = ast.unparse(node)
        original = getattr(node, field)
        setattr(node, field, value)
        after = ast.unparse(node)
        yield Fault(module, getattr(node, "lineno", 0), before, after, ast.unparse(tree))
        setattr(node, field, original)


def _changed(node: ast.AST) -> tuple[str, object] | None:
    """Return the field of a node to change, and its new value; None where a change would say little."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARISONS:
            return "ops", [_COMPARISONS[type(op)]()]
        case ast.BinOp(op=op) if type(op) in _ARITHMETIC:
            return "op", _ARITHMETIC[type(op)]()
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            return "func", ast.Name(id="max" if name == "min" else "min", ctx=ast.Load())
        case ast.BoolOp(op=op):
            return "op", ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.Constant(value=bool(value)):
            return "value", not value
        case ast.Constant(value=int(value)) if 0 <= value <= 10**6:
            return "value", value + 1
        case ast.If(body=[ast.Raise()]):  # a check that is left out
            return "test", ast.Constant(value=False)
    return None


def planted(fault: Fault, tests: tuple[str, ...], folder: Path) -> str:
    """Return the test that finds a fault, or the empty text if none does."""
    target = folder / "src" / "hush" / fault.module
    original = target.read_text("utf-8")
    target.write_text(fault.source, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-n", "2", *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return "no end"
    finally:
        target.write_text(original, "utf-8")
    if done.returncode == 0:
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return named[0].split(" - ")[0] if named else f"exit status {done.returncode}"


def main() -> None:
    """Plant the faults and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], help="which areas; all by default")
    parser.add_argument("--each", type=int, default=3, help="faults per module")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    found = total = 0
    with tempfile.TemporaryDirectory(prefix="hush-mutants-") as temporary:
        folder = Path(temporary) / "hush"
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".venv*", ".git", "__pycache__", "_build"))
        for area in arguments.areas or AREAS:
            modules, tests = AREAS[area]
            for module in modules:
                chosen = random.Random(f"{arguments.seed} {module}")
                listed = list(faults(module))
                for fault in chosen.sample(listed, min(arguments.each, len(listed))):
                    begun = time.monotonic()
                    finder = planted(fault, tests, folder)
                    total += 1
                    found += bool(finder)
                    verdict = f"found by {finder}" if finder else "SURVIVED"
                    print(f"{area} {module}:{fault.line}  {fault.before}  ->  {fault.after}")
                    print(f"    {verdict} ({time.monotonic() - begun:.0f} s)", flush=True)
    print(f"{found} of {total} faults were found")


if __name__ == "__main__":
    main()
