"""Parts of a system that tests need: Debian's packages, installed where this is root with apt."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path


def find_or_install(find: Callable[[], str | None], *packages: str) -> str | None:
    """Return where a program or file is, after installing it where that is possible; None where it is not to be had."""
    with (Path(tempfile.gettempdir()) / "hush-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes, and apt in one
        place = find()
        if place is None and os.geteuid() == 0 and shutil.which("apt-get"):
            install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
            if subprocess.run(install, capture_output=True, check=False).returncode:  # lists of packages may be missing
                subprocess.run(["apt-get", "update"], capture_output=True, check=False)
                subprocess.run(install, capture_output=True, check=False)
            place = find()
    return place
