"""One conversation with an embedded engine: what it makes for itself alone goes when it ends.

Every statement has the engine's time limit, and every failure becomes the one public text of `EngineError`. What does
not fit into memory goes to a directory of the engine's own, which goes when the engine does (`spill_of`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from hush.engines.duckdb.watchdog import Watchdog
from hush.engines.errors import EngineError, log
from hush.engines.sql.released import ReleasedStatement

if TYPE_CHECKING:
    import duckdb

Integers = npt.NDArray[np.int64]


class Session:
    """Runs statements one after the other, on a connection that others use too.

    Temporary tables, registered arrays and what is prepared are its own.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, watchdog: Watchdog) -> None:
        self._cursor = connection.cursor()
        self._watchdog = watchdog

    def execute(self, text: str) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        rows: list[tuple[Any, ...]] = self._run(text, lambda: self._cursor.execute(text).fetchall())
        return rows

    def compute(self, text: str, parameters: list[list[Any]]) -> list[tuple[Any, ...]]:
        """Run a statement over parameters and return its rows."""
        rows: list[tuple[Any, ...]] = self._run(text, lambda: self._cursor.execute(text, parameters).fetchall())
        return rows

    def columns(self, text: str) -> dict[str, Any]:
        """Run a statement and return its columns as arrays, masked where there are NULLs."""
        columns: dict[str, Any] = self._run(text, lambda: self._cursor.execute(text).fetchnumpy())
        return columns

    def register(self, name: str, columns: Mapping[str, Integers]) -> None:
        """Make arrays of one length a table of the session."""
        self._run(f"register {name}", lambda: self._cursor.register(name, dict(columns)))

    def _run(self, text: str, work: Callable[[], Any]) -> Any:
        try:
            with self._watchdog.watching(self._cursor.interrupt):
                return work()
        except Exception as error:  # whatever it says may tell of a row  # noqa: BLE001
            log.debug("engine failure: %s\n%s", error, text)
            raise EngineError from None

    def close(self) -> None:
        """End it."""
        self._cursor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Calculator:
    """An embedded DuckDB without tables, which computes functions of what other engines' questions released."""

    def __init__(self) -> None:
        import duckdb

        self._watchdog = Watchdog(None)
        self._connection = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": "false"})
        self._connection.execute("SET TimeZone = 'UTC'")

    def compute(
        self,
        statement: ReleasedStatement | None,
        keys: Sequence[Sequence[Any]],
        aggregates: Sequence[Sequence[Any]],
    ) -> list[tuple[Any, ...]]:
        """Return a row for each group, from the values of each key and of each aggregate."""
        if statement is None:
            return [()] * len((keys or aggregates)[0])
        with Session(self._connection, self._watchdog) as talk:
            return talk.compute(statement.text, statement.parameters(keys, aggregates))

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def spill_of(owner: object) -> tuple[str, Callable[[], object]]:
    """Return a new directory, and what removes it; without that it goes with its owner, or with the process."""
    place = tempfile.mkdtemp(prefix="hush-spill-")
    return place, weakref.finalize(owner, _remove, place, os.getpid())


def _remove(place: str, pid: int) -> None:
    if pid == os.getpid():  # a fork ends earlier, and is not the owner
        shutil.rmtree(place, ignore_errors=True)
