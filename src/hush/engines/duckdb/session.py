r"""One conversation with an embedded engine: what it makes for itself alone goes when it ends.

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
numbers alone: which types and functions meet decides, and the numbers of our statements (`hush.engines.sql.build`) are
of a type that their spelling tells. Texts and dates are part of a shape as they are, and so are the files' identities:
a table that is no longer what it was is looked at again.

>>> shape_of('''SELECT "x2" + 12 AS "c1", '7' FROM "t" WHERE "y" > 1.5e-06 AND CAST("y" AS INT128) < 2''')
'SELECT "x2" + # AS "c1", \'7\' FROM "t" WHERE "y" > #.# AND CAST("y" AS INT128) < #'
"""

from __future__ import annotations

import os
import re
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

from hush.engines.errors import EngineError, log
from hush.engines.statements import ReleasedStatement

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


_MOST = 512
_PARTS = re.compile(r"""((?:"[^"]*"|'[^']*'|[A-Za-z_]\w*|[^\w"']+)+)|\d[\d.]*(?:e[+-]?\d+)?""")
"""All that lies between two numbers, or a number; a doubled quote is the end of one part and the begin of another."""


def shape_of(text: str) -> str:
    """Return a statement with its numbers left out: # for an integer, #.# for a number with a fraction or exponent."""
    return _PARTS.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    between: str | None = match[1]
    if between is not None:
        return between
    return "#" if match[0].isdigit() else "#.#"


class Shapes:
    """The shapes met last. Use it from any thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def unmet(self, stamps: Hashable, texts: Iterable[str]) -> list[str]:
        """Return one statement of each shape that was not met while the files were what they are."""
        keys = {(stamps, shape_of(text)): text for text in dict.fromkeys(texts)}
        with self._lock:
            for key in keys.keys() & self._known.keys():
                self._known.move_to_end(key)
            return [text for key, text in keys.items() if key not in self._known]

    def meet(self, stamps: Hashable, texts: Iterable[str]) -> None:
        """Note that the engine understands these statements."""
        with self._lock:
            for text in texts:
                self._known[stamps, shape_of(text)] = None
            while len(self._known) > _MOST:
                self._known.popitem(last=False)


class Watchdog:
    """Calls whatever is watched for longer than ``timeout`` seconds; without one, nothing."""

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
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="hush-watchdog", daemon=True)
                self._thread.start()
            elif self._idle:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(token, None)

    def _watch(self) -> None:
        with self._changed:
            while not self._closed:
                if not self._watched:
                    self._idle = True
                    self._changed.wait()
                    self._idle = False
                    continue
                left = next(iter(self._watched.values()))[0] - time.monotonic()
                if left > 0:
                    self._changed.wait(left)  # whoever comes meanwhile has a later deadline
                else:
                    self._interrupt()

    def _interrupt(self) -> None:
        """Call the first; the thread itself keeps nothing of what it watches, which would outlive the interpreter."""
        _, interrupt = self._watched.pop(next(iter(self._watched)))
        with suppress(Exception):  # a connection that was closed meanwhile
            interrupt()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
