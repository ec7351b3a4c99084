"""Writing a file where the caller said: what goes wrong there is the caller's to mend, and is said so.

>>> with writing("no/such/folder/answer.csv"):
...     raise FileNotFoundError(2, "No such file or directory")
Traceback (most recent call last):
...
hush.core.errors.InvalidValueError: The 'path' parameter must be a file that can be written. Got ... instead. ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hush.core.errors import InvalidValueError


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn what the system says while a file is written into a message about its path."""
    try:
        yield
    except OSError as error:
        folder = Path(path).parent
        hint = f"{error.strerror or 'It cannot be'}."
        if not folder.is_dir():
            hint = f"There is no folder {str(folder)!r}; make it first."
        raise InvalidValueError("path", got=str(path), allowed="a file that can be written", hint=hint) from None
