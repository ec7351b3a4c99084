r"""A session of an embedded engine, with tables of its own, which go when it ends.

Every statement has the engine's time limit, and every failure becomes the one public text of `EngineError`. What does
not fit into memory goes to a directory of the engine's own, which goes when the engine does (`spill_of`).

**Statements that are too slow** are interrupted by one thread for all (`Watchdog`): starting one each takes as long as
planning.

>>> import time
>>> dog, late = Watchdog(0.01), []
>>> with dog.watching(lambda: late.append("interrupted")):
...     time.sleep(0.2)
>>> with dog.watching(lambda: late.append("not this one")):
...     pass
>>> dog.close(); late
['interrupted']

**Statements that the engine is known to understand** (`Shapes`), whatever numbers stand in them. Before a question is
charged, the engine resolves its statements, so that what it cannot express costs nothing. That takes as long as a good
part of answering a question about few rows, and it would find the same again for every statement that differs in its
numbers alone (`hush.engines.sql.dialect.ShapeDialect`). Texts and dates are part of a shape as they are, and so are the
files' identities: a table that is no longer what it was is looked at again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from hush.core.work import interrupting
from hush.engines.errors import EngineError, log
from hush.engines.sql.dialect import DUCKDB, SHAPE
from hush.engines.sql.nodes import Select
from hush.engines.sql.render import Statement, render
from hush.engines.sql.statements import ReleasedStatement

if TYPE_CHECKING:
    import duckdb


Integers = npt.NDArray[np.int64]


def text_of(query: Select) -> str:
    """Return a query in DuckDB's dialect, however long: one that reads a file is as long as the file is wide."""
    return render(query, DUCKDB, limited=False).text


class Session:
    """Runs statements one after the other, on a connection that others use too.

    Temporary tables, registered arrays and what is prepared are its own.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, watchdog: Watchdog) -> None:
        self._cursor = connection.cursor()
        self._watchdog = watchdog

    def execute(self, text: str, parameters: list[list[Any]] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement, over lists as parameters, and return its rows."""
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
            with self._watchdog.watching(self._cursor.interrupt), interrupting(self._cursor.interrupt):
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
    """An embedded DuckDB without tables, which computes functions of released values for other engines."""

    def __init__(self) -> None:
        import duckdb

        self._watchdog = Watchdog(None)
        # a few released values: one thread is enough, and nothing outside is read
        self._connection = duckdb.connect(":memory:", config={"threads": 1, "enable_external_access": "false"})
        self._connection.execute("SET TimeZone = 'UTC'")

    def compute(
        self, statement: ReleasedStatement, keys: Sequence[Sequence[Any]], aggregates: Sequence[Sequence[Any]]
    ) -> list[tuple[Any, ...]]:
        """Return a row for each group, from the values of each key and of each aggregate."""
        with Session(self._connection, self._watchdog) as session:
            return session.execute(statement.text, statement.parameters(keys, aggregates))

    def close(self) -> None:
        """Close it."""
        self._connection.close()


def spill_of(owner: object) -> tuple[str, Callable[[], object]]:
    """Return a new directory and a function that removes it; it goes with its owner, or with the process, otherwise."""
    folder = tempfile.mkdtemp(prefix="hush-spill-")
    return folder, weakref.finalize(owner, _remove, folder, os.getpid())


def _remove(folder: str, pid: int) -> None:
    if pid == os.getpid():  # a fork ends earlier, and is not the owner
        shutil.rmtree(folder, ignore_errors=True)


_SHAPES = 512
"""How many shapes are remembered."""


class Shapes:
    """The shapes met last. Use it from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def unmet(self, stamp: Hashable, statements: Iterable[Statement | ReleasedStatement]) -> dict[Hashable, str]:
        """Return one text for each new shape, by its shape; a shape is new again when a file changes."""
        keys: dict[Hashable, str] = {
            (stamp, render(statement.query, SHAPE).text): statement.text for statement in statements
        }
        with self._lock:
            # known shapes count as used again, so that those forgotten first are the oldest
            for key in keys.keys() & self._known.keys():
                self._known.move_to_end(key)
            return {key: text for key, text in keys.items() if key not in self._known}

    def meet(self, shapes: Iterable[Hashable]) -> None:
        """Remember shapes that the engine understands."""
        with self._lock:
            self._known.update(dict.fromkeys(shapes))
            while len(self._known) > _SHAPES:
                self._known.popitem(last=False)


class Watchdog:
    """Interrupts statements that run for longer than ``timeout`` seconds; without one, none."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._changed = threading.Condition()
        self._watched: dict[object, tuple[float, Callable[[], object]]] = {}  # by deadline: all wait equally long
        self._thread: threading.Thread | None = None
        self._idle = False
        self._closed = False

    @contextmanager
    def watching(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Call ``interrupt`` if the context lasts too long."""
        if not self._timeout:
            yield
            return
        token = object()
        with self._changed:
            self._watched[token] = (time.monotonic() + self._timeout, interrupt)
            # after a fork the thread is gone, though the object is still there
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="hush-watchdog", daemon=True)
                self._thread.start()
            elif self._idle:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                # it may be gone already, if it was interrupted
                self._watched.pop(token, None)

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                if not self._watched:
                    self._idle = True
                    self._changed.wait()
                    self._idle = False
                    continue
                seconds = next(iter(self._watched.values()))[0] - time.monotonic()
                if seconds > 0:
                    self._changed.wait(seconds)  # whoever comes meanwhile has a later deadline
                    continue
                _, interrupt = self._watched.pop(next(iter(self._watched)))
                with suppress(Exception):  # a connection that was closed meanwhile
                    interrupt()
                del interrupt  # a reference from this thread would outlive the interpreter

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
