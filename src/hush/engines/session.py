"""One conversation with an embedded engine: what it makes for itself alone goes when it ends.

Every statement has the engine's time limit, and every failure becomes the one public text of `EngineError`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hush.engines.errors import EngineError, log

if TYPE_CHECKING:
    import duckdb

Integers = npt.NDArray[np.int64]


class Session:
    """Runs statements one after the other; temporary tables and registered arrays are its own."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, timeout: float | None) -> None:
        self._cursor = cursor
        self._timeout = timeout

    def execute(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        rows: list[tuple[Any, ...]] = self._run(text, lambda: self._cursor.execute(text).fetchall())
        return rows

    def integers(self, text: str) -> dict[str, Integers]:
        """Run a statement whose columns are BIGINT without NULL, and return them."""
        columns: dict[str, Integers] = self._run(text, lambda: self._cursor.execute(text).fetchnumpy())
        return columns

    def register(self, name: str, columns: Mapping[str, Integers]) -> None:
        """Make arrays of one length a table of the session."""
        self._run(f"register {name}", lambda: self._cursor.register(name, dict(columns)))

    def _run(self, text: str, work: Callable[[], Any]) -> Any:
        timer = None
        if self._timeout:
            timer = threading.Timer(self._timeout, self._cursor.interrupt)
            timer.daemon = True
            timer.start()
        try:
            return work()
        except Exception as error:  # whatever it says may tell of a row  # noqa: BLE001
            log.warning("engine failure: %s\n%s", error, text)
            raise EngineError from None
        finally:
            if timer is not None:
                timer.cancel()


@contextmanager
def session(connection: duckdb.DuckDBPyConnection, timeout: float | None) -> Iterator[Session]:
    """Begin a conversation on a connection that others use too."""
    cursor = connection.cursor()
    try:
        yield Session(cursor, timeout)
    finally:
        cursor.close()
