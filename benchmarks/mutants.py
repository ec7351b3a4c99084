"""Plants faults that a privacy engineer fears into a copy of hush, one at a time, and says which the tests find.

Each fault is a change of one text that occurs once in the source: a sign, a bound, a factor, a clamp that is missing, a
check of a permission that is skipped, a charge that is forgotten. It is planted wherever the text is, so that a module
may move; a text that is gone, or occurs twice, is reported, and its fault is not planted. `mutants.txt` lists them,
with the tests that should find them.

    python benchmarks/mutants.py                # all areas, two copies at once: about ten minutes
    python benchmarks/mutants.py noise keys     # some areas
    python benchmarks/mutants.py --list         # which faults apply, without running a test

The exit status is 1 if a fault survives, or if fewer than `FEWEST` apply.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300
"""Seconds for the tests of one fault; a fault that makes them endless is found too."""
FEWEST = 60


@dataclass(frozen=True)
class Fault:
    """A text of the source, what it is replaced by, what would be wrong then, and the tests that should say so."""

    harm: str
    before: str
    after: str
    tests: tuple[str, ...]


def read(text: str) -> dict[str, list[Fault]]:
    """Return the faults of each area, as `mutants.txt` lists them."""
    areas: dict[str, list[Fault]] = {}
    area, tests = "", ()
    for block in text.split("\n\n")[1:]:
        first, *changes = block.strip("\n").split("\n")
        if first.startswith("= "):
            area = first[2:]
        elif first.startswith(": "):
            tests = tuple(f"tests/{test}" for test in first[2:].split())
        else:
            before, after = ("\n".join(line[1:] for line in changes if line[0] == sign) for sign in "-+")
            areas.setdefault(area, []).append(Fault(first.removeprefix("# "), before, after, tests))
    return areas


AREAS = read(Path(__file__).with_suffix(".txt").read_text("utf-8"))


def sources(root: Path) -> dict[Path, str]:
    """Return all modules of a copy of hush."""
    return {path: path.read_text("utf-8") for path in sorted((root / "src" / "hush").rglob("*.py"))}


def place(fault: Fault, modules: dict[Path, str]) -> Path | str:
    """Return the module in which a fault can be planted, or why it cannot."""
    if missing := [test for test in fault.tests if not (ROOT / test).exists()]:
        return f"there is no {missing[0]}"
    hits = [path for path, text in modules.items() for _ in range(text.count(fault.before))]
    return hits[0] if len(hits) == 1 else "is gone" if not hits else f"occurs {len(hits)} times"


def run(tests: tuple[str, ...], folder: Path) -> str:
    """Run tests in a copy; return the first that fails, or the empty text."""
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode == 0:
        return ""
    named = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if done.returncode not in {1, 2} or not named:
        raise SystemExit(f"pytest {' '.join(tests)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
    return named[0].split(" - ")[0]


def plant(fault: Fault, folder: Path) -> tuple[str, float]:
    """Plant a fault into a copy, run its tests and take it out again; return what found it, and the seconds."""
    begun = time.monotonic()
    target = place(fault, sources(folder))
    assert isinstance(target, Path), target
    source = target.read_text("utf-8")
    target.write_text(source.replace(fault.before, fault.after), "utf-8")
    try:
        return run(fault.tests, folder), time.monotonic() - begun
    finally:
        target.write_text(source, "utf-8")


def main() -> None:
    """Plant the faults, and print what found them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("areas", nargs="*", choices=[*AREAS, []], help="which areas; all by default")
    parser.add_argument("--list", action="store_true", help="list the faults that apply, and run no tests")
    parser.add_argument("--jobs", type=int, default=2, help="copies that are tested at once")
    parser.add_argument("--only", default="", help="faults whose harm has this text")
    arguments = parser.parse_args()
    chosen = [fault for area in arguments.areas or AREAS for fault in AREAS[area] if arguments.only in fault.harm]
    modules = sources(ROOT)
    planted = []
    for fault in chosen:
        module = place(fault, modules)
        if isinstance(module, Path):
            planted.append(fault)
        if arguments.list or not isinstance(module, Path):
            print(f"{module.relative_to(ROOT) if isinstance(module, Path) else f'NOT PLANTED, {module}'}: {fault.harm}")
    few = len(planted) < FEWEST and not (arguments.areas or arguments.only)
    if arguments.list:
        sys.exit(few)
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="hush-mutants-") as temporary:
        for number in range(arguments.jobs):
            folder = Path(temporary) / str(number)
            for part in ("src", "tests", "docs", "benchmarks"):
                shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "_build"))
            for file in ("pyproject.toml", "conftest.py", "README.md", "Makefile", "CHANGELOG.md", "SECURITY.md"):
                shutil.copy2(ROOT / file, folder / file)
            copies.put(folder)

        def test(fault: Fault | None) -> tuple[str, float]:
            folder = copies.get()
            try:
                if fault is None:  # without any fault the tests pass: else their failures would say nothing
                    return run(tuple(sorted({test for fault in planted for test in fault.tests})), folder), 0.0
                return plant(fault, folder)
            finally:
                copies.put(folder)

        found = 0
        with ThreadPoolExecutor(arguments.jobs) as threads:
            sound = threads.submit(test, None)
            for fault, (finder, seconds) in zip(planted, threads.map(test, planted), strict=True):
                found += bool(finder)
                print(f"{'found' if finder else 'SURVIVED'} ({seconds:.0f} s): {fault.harm}\n    {finder}", flush=True)
            if failed := sound.result()[0]:
                raise SystemExit(f"{failed} fails without any fault")
    print(f"{found} of {len(planted)} faults were found; {len(chosen) - len(planted)} could not be planted")
    sys.exit(found < len(planted) or few)


if __name__ == "__main__":
    main()
