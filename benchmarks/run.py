"""Run every benchmark in this folder, or those named on the command line, one after another.

Each is a program of its own that prints ratios against a peer or a physical limit measured in the same run. Those that
run OpenDP and Tumult make environments for them first (`others/environment.py`); without Java, Tumult is left out, and
they say so.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(names: list[str]) -> int:
    programs = sorted(path for path in HERE.glob("*.py") if path.name != Path(__file__).name)
    chosen = [path for path in programs if not names or path.stem in names]
    unknown = set(names) - {path.stem for path in programs}
    if unknown:
        print(f"no benchmark named {', '.join(sorted(unknown))}; there are {', '.join(p.stem for p in programs)}")
        return 2
    worst = 0
    for path in chosen:
        print(f"\n=== {path.stem} " + "=" * (70 - len(path.stem)), flush=True)
        worst = max(worst, subprocess.run([sys.executable, path], check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
