"""One connection of the PostgreSQL protocol: simple queries, and extended queries with parameters.

Transactions mean nothing here, since nothing is ever changed: BEGIN and COMMIT are taken and forgotten, but the client
is told what it expects to hear. After an error in the extended way everything up to the next Sync is skipped, as the
protocol says.

**What a statement is.** In this order: nothing; SET, SHOW, RESET, BEGIN and their like; a statement about the
catalogue; EXPLAIN of a question, which is free; a question. All else is refused with the texts of the service.

**Describing before asking.** Tools want to know the columns of a result before they take it. They are known from
question and policy, so describing is free, and only Execute charges.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from hush.core import BudgetExceededError, HushError
from hush.curator.explanation import Explanation
from hush.query.errors import QuestionError
from hush.query.sql.allow_list import STATEMENTS
from hush.query.types import Kind
from hush.report import files
from hush.server.errors import ForbiddenError, ServiceError
from hush.server.pgwire import messages, statements
from hush.server.pgwire.catalogue import PARAMETERS, SystemCatalogue
from hush.server.pgwire.messages import MessageError, Reader, ResultColumn, data_row, message, row_description, texts
from hush.server.pgwire.types import ARRAYS
from hush.server.rate_limits import Rate
from hush.server.service import PersonalService

_TAGS = {
    "BEGIN": "BEGIN", "START": "START TRANSACTION", "COMMIT": "COMMIT", "END": "COMMIT", "ROLLBACK": "ROLLBACK",
    "ABORT": "ROLLBACK", "SAVEPOINT": "SAVEPOINT", "RELEASE": "RELEASE", "DISCARD": "DISCARD ALL",
    "CLOSE": "CLOSE CURSOR",
    "DEALLOCATE": "DEALLOCATE", "RESET": "RESET", "UNLISTEN": "UNLISTEN",
}  # fmt: skip
_CODES = {"question": "42601", "unknown-table": "42P01", "unknown-column": "42703", "budget-exceeded": "53400"}
_UNKNOWN = 705
"""The type that a client sends for a parameter of unknown type."""
_MOST_STATEMENTS = 256
"""How many statements, and how many portals, one connection may keep."""
_QUESTIONS = {"", "SELECT", "WITH", "FROM"}
"""The first words of statements that can be a question, or about the catalogue; none for one in parentheses."""
_MOST_KEPT, _MOST_KEPT_BY_ALL = 2**24, 2**27
"""How many bytes one connection may keep between statements, and all of a worker's together."""
_LONGEST_REPLY = 2**24
"""The size of a reply, in bytes, after which no further statement of the same text is run."""
_STAND_INS = {messages.BOOLEAN: b"t", messages.DATE: b"2000-01-01", **dict.fromkeys(ARRAYS, b"{}")}
_STAND_INS |= dict.fromkeys([messages.TIMESTAMP, messages.INSTANT], b"2000-01-01 00:00:00")
"""Values of parameters' types, to find out the columns of a question before its values are known; else 0."""
Kept = TypeVar("Kept")


class Result(NamedTuple):
    """The result of a statement: columns and rows, or only the command tag."""

    tag: str
    fields: tuple[ResultColumn, ...] = ()
    rows: Sequence[Sequence[Any]] = ()
    notices: tuple[str, ...] = ()


class PreparedStatement(NamedTuple):
    """A statement with places for parameters."""

    text: str
    oids: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A portal: a statement with its parameters, and the rows that are not taken yet. A cursor is one with rows."""

    text: str
    parameters: Mapping[str, Any]
    formats: tuple[int, ...] = ()
    held: bool = False
    """Whether it outlives its transaction, as a cursor WITH HOLD does."""
    result: Result | None = None
    taken: int = 0
    size: int = 0
    """About how many bytes the rows take that it keeps."""

    def take(self, result: Result, count: int | None) -> Sequence[Sequence[Any]]:
        """Return the next rows of its result, all that are left for None; it keeps none after the last."""
        end = len(result.rows) if count is None else self.taken + count
        rows = result.rows[self.taken : end]
        self.result, self.taken = result, end
        if end >= len(result.rows):
            self.result, self.taken, self.size = result._replace(rows=()), 0, 0
        return rows


@dataclass(slots=True)
class PgConnection:
    """The state of one connection: settings, prepared statements and portals."""

    analyst: PersonalService
    turn: asyncio.Lock
    kept_by_all: Callable[[], int] = lambda: 0
    """How many bytes all connections keep between statements."""
    settings: dict[str, str] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)
    """The settings given at the start of the connection, to which RESET returns."""
    statements: dict[str, PreparedStatement] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    in_transaction: bool = False
    skipping: bool = False
    request: str = ""
    """The request of the question at work, by which it can be cancelled."""
    questions: int = 0
    session: str = ""
    _catalogue: SystemCatalogue | None = None
    _known: list[dict[str, Any]] | None = None
    """The data sets as the connection first saw them."""

    def close(self) -> None:
        """Close the system catalogue of the connection."""
        if self._catalogue is not None:
            self._catalogue.close()

    def kept(self) -> int:
        """Return about how many bytes the connection keeps between statements."""
        rows = sum(portal.size for portal in self.portals.values())
        return rows + sum(len(statement.text) for statement in self.statements.values())

    def _check_room(self, size: int) -> None:
        """Refuse to keep ``size`` more bytes beyond the limits of the connection and the worker."""
        if size and (self.kept() + size > _MOST_KEPT or self.kept_by_all() + size > _MOST_KEPT_BY_ALL):
            raise QuestionError(
                f"This takes {size / 2**20:.1f} MiB; a connection keeps {_MOST_KEPT / 2**20:g} MiB of cursors, portals "
                f"and statements, and all connections {_MOST_KEPT_BY_ALL / 2**20:g} MiB.",
                "Close some, or ask without a cursor: an answer that was paid for comes again free of charge.",
            )

    def _check_place(self, name: str) -> None:
        """Refuse one portal more than a connection may keep."""
        if len(self.portals) >= _MOST_STATEMENTS and name not in self.portals:
            raise QuestionError(f"A connection may keep {_MOST_STATEMENTS} portals and cursors.", "Close some first.")

    def ready(self) -> bytes:
        """Return the message ReadyForQuery, with the state of the transaction."""
        return message(b"Z", b"T" if self.in_transaction else b"I")

    async def hear(self, kind: bytes, content: bytes) -> bytes:
        """Return the reply to one message."""
        if kind in {b"Q", b"S"}:
            self.skipping = False
            reply = await self._simple(Reader(content).text()) if kind == b"Q" else b""
            if not self.in_transaction:  # a portal lives until its transaction ends
                self.portals = {name: portal for name, portal in self.portals.items() if portal.held}
            return reply + self.ready()
        if kind == b"F":  # a function by its number
            return _refused(QuestionError("Functions are not called by their numbers here.")) + self.ready()
        extended = {b"P": self._parse, b"B": self._bind, b"D": self._describe, b"E": self._execute, b"C": self._close}
        if kind not in extended and kind not in b"Hdcf":
            raise MessageError
        if self.skipping or kind in b"Hdcf":  # what belongs to COPY is left out, as the protocol says
            return b""
        try:
            return await extended[kind](Reader(content))
        except (HushError, MessageError) as error:
            self.skipping = True
            return _refused(error)

    async def _simple(self, text: str) -> bytes:
        """Run the statements of a text, one after the other, up to the first that fails."""
        parts = statements.split(text)
        if not parts:
            return message(b"I")
        reply = b""
        for statement in parts:
            try:
                if len(reply) > _LONGEST_REPLY:
                    raise QuestionError("So many statements give too much at once.", "Send them one by one.")
                result = await self._run(statement, {})
            except HushError as error:
                return reply + _refused(error)
            reply += _noticed(result.notices)
            if result.fields:
                reply += row_description(result.fields)
            reply += b"".join(data_row(row, result.fields) for row in result.rows)
            reply += message(b"C", texts(result.tag))
        return reply

    async def _parse(self, reader: Reader) -> bytes:
        name, text = reader.text(), reader.text()
        oids = tuple(reader.long() for _ in range(reader.short()))
        if len(statements.split(text)) > 1:
            raise QuestionError("A prepared statement is one statement.", "Prepare them one by one.")
        if len(self.statements) >= _MOST_STATEMENTS and name not in self.statements:
            raise QuestionError(f"A connection may keep {_MOST_STATEMENTS} statements.", "Close some first.")
        places = max((int(number) for number in re.findall(r"\$(\d{1,4})", text)), default=0)
        oids += (0,) * (places - len(oids))
        if 0 in oids or _UNKNOWN in oids:
            self.analyst.check_rate(Rate.VISITS)
            # Types follow from statement and schema alone, so this is free.
            types = await asyncio.to_thread(statements.parameter_types, text, await self._data_sets())
            oids = tuple(types.get(number, 0) if oid in {0, _UNKNOWN} else oid for number, oid in enumerate(oids, 1))
        self._check_room(len(text))
        self.statements[name] = PreparedStatement(text, oids)
        return message(b"1")

    async def _bind(self, reader: Reader) -> bytes:
        portal, prepared = reader.text(), _named(self.statements, reader.text(), "prepared statement")
        forms = [reader.short() for _ in range(reader.short())]
        values: dict[str, Any] = {}
        for number in range(reader.short()):
            length = reader.long()
            content = None if length < 0 else reader.bytes(length)
            oid = prepared.oids[number] if number < len(prepared.oids) else 0
            values[str(number + 1)] = messages.parameter(content, oid, messages.chosen(forms, number))
        formats = tuple(reader.short() for _ in range(reader.short()))
        self._check_place(portal)
        self.portals[portal] = Portal(prepared.text, values, formats)
        return message(b"2")

    async def _describe(self, reader: Reader) -> bytes:
        what, name = reader.bytes(1), reader.text()
        if what == b"S":
            prepared = _named(self.statements, name, "prepared statement")
            oids = [oid or messages.TEXT for oid in prepared.oids]
            described = message(b"t", struct.pack("!H", len(oids)) + b"".join(struct.pack("!i", oid) for oid in oids))
            # The values of parameters come with Bind, after this; columns do not depend on them.
            stand_ins = {
                str(number): messages.parameter(_STAND_INS.get(oid, b"0"), oid, 0) for number, oid in enumerate(oids, 1)
            }
            return described + _described((await self._run(prepared.text, stand_ins, describe=True)).fields)
        portal = _named(self.portals, name, "portal")
        result = portal.result or await self._run(portal.text, portal.parameters, describe=True)
        return _described(result.fields, portal.formats)

    async def _execute(self, reader: Reader) -> bytes:
        portal, most = _named(self.portals, reader.text(), "portal"), reader.long()
        reply, result = b"", portal.result
        if result is None:
            result = await self._run(portal.text, portal.parameters)
            reply += _noticed(result.notices)
            if 0 < most < len(result.rows):
                # If it is refused, another Execute asks again; unless ``fresh`` is set, the paid answer comes free.
                size = _size(result.rows)
                self._check_room(size)
                portal.size = size
        rows = portal.take(result, most if most > 0 else None)
        reply += b"".join(data_row(row, result.fields, portal.formats) for row in rows)
        if not result.tag:
            return reply + message(b"I")
        # PortalSuspended: the client gets the next rows by another Execute.
        return reply + (message(b"s") if portal.taken else message(b"C", texts(result.tag)))

    async def _close(self, reader: Reader) -> bytes:
        kept: dict[str, Any] = self.statements if reader.bytes(1) == b"S" else self.portals
        kept.pop(reader.text(), None)
        return message(b"3")

    # statements

    async def _run(self, text: str, parameters: Mapping[str, Any], *, describe: bool = False) -> Result:
        """Run one statement, or only find out which columns it has."""
        word = statements.first_word(text)
        if not text.strip():
            return Result("")
        if (setting := statements.read_setting(text)) is not None:
            return Result("") if describe else self._set(*setting)
        if word in _TAGS:
            return Result("") if describe else self._forget(word, text)
        if word == "SHOW":
            return self._show(text)
        if word == "DECLARE":
            return Result("") if describe else await self._declare(text, parameters)
        if word in {"FETCH", "MOVE"}:
            return self._fetch(word, text, describe=describe)
        if word == "EXPLAIN":
            plan = "" if describe else str(await self._explain(statements.explained(text), parameters))
            lines = [(line,) for line in plan.splitlines()]
            return Result("EXPLAIN", (ResultColumn("QUERY PLAN", messages.TEXT),), lines)
        # A statement about the catalogue counts as a request.
        self.analyst.check_rate(Rate.VISITS)
        if self._catalogue is None:
            self._catalogue = await asyncio.to_thread(SystemCatalogue, await self._data_sets(), self.analyst.name)
        async with self.turn:  # one at a time for each person: many connections must not take many cores
            of_catalogue = await asyncio.to_thread(self._catalogue.run, text, parameters)
        if of_catalogue is not None:
            fields, rows = of_catalogue
            return Result(f"SELECT {len(rows)}", tuple(fields), rows)
        if describe:
            return Result("", answer_fields(await self._explain(text, parameters)))
        return await self._ask(text, parameters)

    async def _declare(self, text: str, parameters: Mapping[str, Any]) -> Result:
        """Run the statement of a cursor now, and keep the rows for FETCH."""
        declaration = statements.declared(text)
        if declaration is None:
            raise QuestionError("A cursor is declared so: DECLARE name CURSOR FOR SELECT …")
        name, held, question = declaration
        if statements.first_word(question) not in _QUESTIONS:
            raise QuestionError("A cursor is for a SELECT.")
        self._check_place(name)
        result = await self._run(question, parameters)
        size = _size(result.rows)
        self._check_room(size)
        self.portals[name] = Portal(question, parameters, held=held, result=result, size=size)
        return Result("DECLARE CURSOR", notices=result.notices)

    def _fetch(self, word: str, text: str, *, describe: bool) -> Result:
        """Return the next rows of a cursor, or only which columns they have."""
        fetch = statements.fetched(text)
        if fetch is None:
            raise QuestionError("Rows of a cursor go forward alone: FETCH FORWARD 100 FROM name.")
        name, count = fetch
        cursor = _named(self.portals, name, "cursor")
        result = cursor.result or Result("")
        fields = result.fields if word == "FETCH" else ()
        if describe:
            return Result("", fields)
        rows = cursor.take(result, count)
        return Result(f"{word} {len(rows)}", fields, rows if fields else ())

    async def _ask(self, text: str, parameters: Mapping[str, Any]) -> Result:
        terms = await self._question(text, parameters)
        self.questions += 1
        self.request = f"{self.session}-{self.questions}"
        try:
            answer = await self.analyst.ask(**terms, request=self.request)
        finally:
            self.request = ""
        cells = files.flat(answer.columns)
        kinds = {column.name: column.kind for column in answer.columns}
        fields = tuple(ResultColumn.of(label, kinds.get(label, Kind.DECIMAL)) for label in cells)
        rows = list(zip(*cells.values(), strict=True))
        took = "" if answer.spending is None else f", which took {answer.spending}"
        notes = [f"price {answer.price}{took}; receipt {answer.receipt}; ± at {answer.confidence:.0%} confidence"]
        if answer.repeated and not answer.shared:
            day = answer.repeated[:10]
            notes.append(f"paid for on {day}, and free now; SET hush.fresh = true asks anew, with a new charge")
        return Result(f"SELECT {len(rows)}", fields, rows, (*notes, *answer.caveats))

    async def _explain(self, text: str, parameters: Mapping[str, Any]) -> Explanation:
        terms = await self._question(text, parameters)
        terms.pop("fresh", None)
        (explanation,) = await self.analyst.explain(**terms)
        return explanation

    async def _question(self, text: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the terms of a question: some are in its comments, some in the settings of the connection.

        Some tools write the database's name before the names of data sets, which is left out.
        """
        if "ask" not in self.analyst.who.scopes:
            raise ForbiddenError("This token may not ask questions.")
        stated = statements.from_comments(text)
        term_texts = {**self.settings, **stated}
        for name, rival in (("accuracy", "epsilon"), ("epsilon", "accuracy")):
            if name in stated and rival not in stated:  # what a question says itself goes before what was set for all
                term_texts.pop(rival, None)
        if statements.first_word(text) not in _QUESTIONS:  # no price would help
            raise QuestionError(STATEMENTS)
        if "epsilon" not in term_texts and "accuracy" not in term_texts:
            raise QuestionError(
                "A question needs its price.",
                "SET hush.epsilon = '0.1', or begin the question with /* hush.epsilon = 0.1 */.",
            )
        if "hush" in text:
            text = statements.without_database(text, [str(data["name"]) for data in await self._data_sets()])
        return {"question": text, "parameters": dict(parameters) or (), **statements.terms(term_texts)}

    def _set(self, name: str, value: str | None) -> Result:
        if name.startswith("hush."):
            short = statements.check_name(name)
            value = self.first.get(short) if value is None else value
            given = {} if value is None else {short: value}
            statements.terms(given)  # refuses a wrong value now, not only at the next question
            # A question has one of the two: the later setting replaces the other.
            replaced = {"epsilon", "accuracy"} if given and short in {"epsilon", "accuracy"} else {short}
            self.settings = {key: text for key, text in self.settings.items() if key not in replaced} | given
        return Result("SET")

    def _show(self, text: str) -> Result:
        """Return the value of a setting, under the setting's own name, however the statement writes it."""
        shown = statements.rest(text)
        name = {"transaction isolation level": "transaction_isolation", "time zone": "timezone"}.get(
            " ".join(shown.lower().split()), shown.lower()
        )
        if name.startswith("hush."):
            value = self.settings.get(statements.check_name(name), "")
        else:
            parameters = {key.lower(): (key, value) for key, value in PARAMETERS.items()}
            if name not in parameters:
                raise QuestionError(f"There is no setting {shown!r}.")
            name, value = parameters[name]
        return Result("SHOW", (ResultColumn(name, messages.TEXT),), [(value,)])

    def _forget(self, word: str, text: str) -> Result:
        if word in {"BEGIN", "START"}:
            self.in_transaction = True
        elif word in {"COMMIT", "END", "ROLLBACK", "ABORT"} and " TO " not in f" {text.upper()} ":
            self.in_transaction = False
        elif word == "DISCARD":
            self.settings = dict(self.first)
            self.statements.clear()
            self.portals.clear()
        elif word == "RESET":
            name = statements.rest(text).lower()
            if name == "all":
                self.settings = dict(self.first)
            elif name.startswith("hush."):
                self._set(name, None)
        elif word == "CLOSE":
            self.portals.pop(statements.cursor_name(statements.rest(text)), None)
        return Result(_TAGS[word])

    async def _data_sets(self) -> list[dict[str, Any]]:
        if self._known is None:
            self._known = await self.analyst.data_sets()
        return self._known


def _named(kept: Mapping[str, Kept], name: str, what: str) -> Kept:
    if name not in kept:
        raise QuestionError(f"There is no {what} {name!r}.")
    return kept[name]


def answer_fields(explanation: Explanation) -> tuple[ResultColumn, ...]:
    """Return the columns of the answer that an explanation is about: each noisy one with its error beside it."""
    fields = []
    for name, kind, noisy in explanation.columns():
        fields.append(ResultColumn.of(name, kind))
        if noisy:
            fields.append(ResultColumn.of(f"{name}_error", Kind.DECIMAL))
    return tuple(fields)


def _size(rows: Sequence[Sequence[Any]]) -> int:
    """Return about how many bytes rows take."""
    texts_ = sum(len(value) for row in rows for value in row if isinstance(value, str))
    return texts_ + sum(64 + 40 * len(row) for row in rows)


def _described(fields: tuple[ResultColumn, ...], formats: Sequence[int] = ()) -> bytes:
    return row_description(fields, formats) if fields else message(b"n")


def _noticed(notices: Sequence[str]) -> bytes:
    return b"".join(messages.error(text, code="00000", severity="NOTICE") for text in notices)


def _refused(error: HushError | MessageError) -> bytes:
    """Return an error with the text of the service, which depends on question and policy alone, or is public."""
    if isinstance(error, MessageError):
        return messages.error("This value or message is not understood here.", code="22P02")
    if isinstance(error, BudgetExceededError):
        return messages.error(str(error), code="53400")
    code = (
        "28000" if isinstance(error, ServiceError) and error.status in {401, 403} else _CODES.get(error.code, "42000")
    )
    return messages.error(str(error), code=code)
