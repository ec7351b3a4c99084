"""Throw-away environments for the libraries that hush is measured against, so that none has to agree with another.

They lie in ``.peers`` in this repository (or where ``HUSH_PEERS`` says), are made on first use by ``python -m venv``
and pip, and may be deleted at any time. A worker is a program that runs in one of them and prints a line of JSON last.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HOME = Path(os.environ.get("HUSH_PEERS", HERE.parent.parent / ".peers"))
AUDITED = ["numpy", "python-flint", "cryptography"]
"""What hush.audit needs in the environment of what it audits."""
PACKAGES = {
    "diffprivlib": ["diffprivlib==0.6.6", "scikit-learn<1.6", *AUDITED],
    "opendp-0.14.1": ["opendp==0.14.1", *AUDITED],
    "opendp-0.16.0": ["opendp==0.16.0", *AUDITED],
    "opendp": ["opendp[polars]==0.16.0"],
    "tumult": ["tmlt.analytics==0.21.0", "setuptools"],
}


class AbsentError(Exception):
    """A peer cannot be run here; says why."""


def python(peer: str) -> Path:
    """Return the interpreter of a peer's environment, making that first if it is not there."""
    if peer == "tumult":
        if not shutil.which("java"):
            raise AbsentError("Tumult needs Java (17), and there is no java on the path")
        if sys.version_info >= (3, 13):
            raise AbsentError("Tumult needs Python 3.11 or 3.12")
    place = HOME / peer
    done = place / "complete"
    if not done.exists():
        print(f"making an environment for {peer} in {place} …", flush=True)
        shutil.rmtree(place, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", place], check=False)
        if made.returncode == 0:
            pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES[peer]]
            made = subprocess.run(pip, check=False, stderr=subprocess.PIPE, text=True)
        if made.returncode:
            raise AbsentError(f"{peer} could not be installed: {(made.stderr or '').strip()[-300:]}")
        done.touch()
    return place / "bin" / "python"


def run(peer: str, worker: str, **arguments: Any) -> dict[str, Any]:
    """Run a worker and return what it prints, with the peak memory of all its processes together, in MB."""
    return watched([python(peer), HERE / worker, json.dumps(arguments)], peer)


def watched(command: list[Any], name: str) -> dict[str, Any]:
    """Run a command that prints JSON last; sample the memory of its whole process group ten times a second."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        peak = [0.0]
        watcher = threading.Thread(target=_sample, args=(process, peak), daemon=True)
        watcher.start()
        out, err = process.communicate()
    if process.returncode:
        raise AbsentError(f"{name} failed: {err.strip()[-600:]}")
    return {**json.loads(out.strip().splitlines()[-1]), "memory": peak[0]}


def _sample(process: subprocess.Popen[str], peak: list[float]) -> None:
    page = os.sysconf("SC_PAGE_SIZE") / 2**20
    while process.poll() is None:
        total = 0.0
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if os.getpgid(int(path.name)) == process.pid:
                    resident, shared = map(int, (path / "statm").read_text().split()[1:3])
                    total += (resident - shared) * page
            except (OSError, ValueError):
                continue
        peak[0] = max(peak[0], total)
        time.sleep(0.1)
