"""Run every benchmark in this folder, or those that are named, and write what they print to docs/benchmarks.md.

Each is a program of its own that prints ratios against a peer or a physical limit measured in the same run. Those that
run OpenDP and Tumult make environments for them first (`others/environment.py`); without Java, Tumult is left out, and
they say so.

The page has one section per benchmark, with the day, the machine and the versions it was measured with. A run of some
benchmarks replaces their sections and keeps the others; a run of all replaces the page.
"""

from __future__ import annotations

import ast
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
PACKAGES = ["hush", "numpy", "duckdb", "python-flint", "sqlglot", "opendp", "dp-accounting", "prv-accountant"]
OPENING = """# Benchmarks

`make bench` writes this page: it runs the programs in `benchmarks/` and copies what they print. Each program measures
hush against a peer, or against a physical limit, in one run on one machine. So read the ratios, not the seconds.
"Asked" is the figure that the project wants to reach, and a line that misses it says so.
"""


def main(names: list[str]) -> int:
    programs = {path.stem: path for path in sorted(HERE.glob("*.py")) if path.name != Path(__file__).name}
    unknown = set(names) - set(programs)
    if unknown:
        print(f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(programs)}")
        return 2
    sections = sections_of(PAGE.read_text("utf-8")) if names and PAGE.exists() else {}
    worst = 0
    for name in names or programs:
        print(f"\n=== {name} " + "=" * (70 - len(name)), flush=True)
        status, output = run(programs[name])
        worst = max(worst, status)
        sections[name] = section(programs[name], output, status)
        PAGE.write_text(page(sections), "utf-8")
    return worst


def run(program: Path) -> tuple[int, str]:
    """Run a program, show what it prints while it runs, and return its exit status and its output."""
    lines = []
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        [sys.executable, program], stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    return process.returncode, "\n".join(lines)


def section(program: Path, output: str, status: int) -> str:
    """Return the text of a benchmark's section: what it is about, where it was measured, and what it printed."""
    about = (ast.get_docstring(ast.parse(program.read_text("utf-8"))) or "").partition("\n\n")[0]
    today = datetime.now(UTC).date().isoformat()
    lines = [about, "", f"Measured on {today}: {machine()}; {versions()}.", "", "```text", output, "```"]
    if status:
        lines += ["", f"The program ended with status {status}: something was missed or could not be measured."]
    return "\n".join(lines)


def machine() -> str:
    """Describe this machine, and how busy it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return f"{platform.system()} on {processor()}, {os.cpu_count()} cores, {memory:.0f} GB, load {load:.1f} at the end"


def processor() -> str:
    """Return the name of the processor, or at least its architecture."""
    described = Path("/proc/cpuinfo")
    names = (
        re.findall(r"^model name\s*: (.*)$", described.read_text("utf-8"), re.MULTILINE) if described.exists() else []
    )
    return names[0].strip() if names else platform.machine()


def versions() -> str:
    """Return the versions of Python, hush and the libraries it is measured with, as far as they are installed."""
    found = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def page(sections: dict[str, str]) -> str:
    """Return the whole page."""
    return "\n".join([OPENING, *(f"## {name}\n\n{text.strip()}\n" for name, text in sorted(sections.items()))])


def sections_of(text: str) -> dict[str, str]:
    """Return the sections of a page by their names."""
    pieces = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], (piece.strip() for piece in pieces[2::2]), strict=True))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
