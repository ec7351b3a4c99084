"""One connection: statements come, rows go. The simple way of asking, and the extended one with parameters.

Transactions mean nothing here, since nothing is ever changed: BEGIN and COMMIT are taken and forgotten, but the client
is told what it expects to hear. After an error in the extended way everything up to the next Sync is skipped, as the
protocol says.

**What a statement is.** In this order: nothing; SET, SHOW, RESET, BEGIN and their like; a statement about the
catalogue; EXPLAIN of a question, which is free; a question. Whatever else is refused with the texts of the service.

**Describing before asking.** Tools want to know the columns of a result before they take it. They are known from
question and policy, so describing is free, and only Execute charges.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from hush.core import BudgetExceededError, HushError
from hush.core.values import dataclass
from hush.curator.answer import Answer
from hush.curator.explanation import Explanation
from hush.query.errors import QuestionError
from hush.query.plan.expected import errs
from hush.query.types import Kind
from hush.report import files
from hush.server.door import messages
from hush.server.door.catalogue import SystemCatalogue
from hush.server.door.catalogue_rows import PARAMETERS
from hush.server.door.messages import MessageError, Reader, ResultColumn, data_row, message, row_description, texts
from hush.server.door.settings import TOKEN, check_name, from_comments, read_setting, terms
from hush.server.errors import ForbiddenError, ServiceError
from hush.server.people import Person
from hush.server.questions import check_rate
from hush.server.service import Service
from hush.server.traffic import Rate

_FAILED = "no answer could be computed"
_WORD = re.compile(r"(?>\s+|/\*.*?\*/|--[^\n]*\n)*+([A-Za-z]+)", re.DOTALL)
_EXPLAIN = re.compile(r"\A.*?\bEXPLAIN\b(\s*\([^)]*\)|\s+ANALYZE|\s+VERBOSE)*", re.IGNORECASE | re.DOTALL)
_TAGS = {
    "BEGIN": "BEGIN", "START": "START TRANSACTION", "COMMIT": "COMMIT", "END": "COMMIT", "ROLLBACK": "ROLLBACK",
    "ABORT": "ROLLBACK", "SAVEPOINT": "SAVEPOINT", "RELEASE": "RELEASE", "DISCARD": "DISCARD ALL",
    "CLOSE": "CLOSE CURSOR",
    "DEALLOCATE": "DEALLOCATE", "RESET": "RESET", "UNLISTEN": "UNLISTEN",
}  # fmt: skip
_CODES = {"question": "42601", "unknown-table": "42P01", "unknown-column": "42703", "budget-exceeded": "53400"}
_MOST_STATEMENTS = 256
"""How many statements and portals one connection may keep."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gave: columns and rows, or only the word that says it is done."""

    tag: str
    fields: tuple[ResultColumn, ...] = ()
    rows: Sequence[Sequence[Any]] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement with places for parameters."""

    text: str
    oids: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A statement with its parameters, and what is left of its rows."""

    text: str
    parameters: dict[str, Any]
    formats: tuple[int, ...]
    result: Result | None = None
    sent: int = 0


@dataclass(slots=True)
class Conversation:
    """What one connection has said so far."""

    service: Service
    who: Person
    settings: dict[str, str] = field(default_factory=dict)
    statements: dict[str, Prepared] = field(default_factory=dict)
    portals: dict[str, Portal] = field(default_factory=dict)
    in_transaction: bool = False
    skipping: bool = False
    request: str = ""
    """The request of the question at work, by which it can be cancelled."""
    questions: int = 0
    session: str = ""
    _catalogue: SystemCatalogue | None = None

    def close(self) -> None:
        """Let go of what the connection held."""
        if self._catalogue is not None:
            self._catalogue.close()

    def ready(self) -> bytes:
        """Return that the next statement may come."""
        return message(b"Z", b"T" if self.in_transaction else b"I")

    async def hear(self, kind: bytes, content: bytes) -> bytes:
        """Return the reply to one message."""
        if kind == b"Q":
            self.skipping = False
            return await self._simple(Reader(content).text()) + self.ready()
        if kind == b"S":
            self.skipping = False
            return self.ready()
        if self.skipping or kind == b"H":
            return b""
        try:
            return await self._extended(kind, Reader(content))
        except (HushError, MessageError) as error:
            self.skipping = True
            return _refused(error)

    async def _simple(self, text: str) -> bytes:
        """Run the statements of a text, one after the other, up to the first that fails."""
        statements = split(text)
        if not statements:
            return message(b"I")
        reply = b""
        for statement in statements:
            try:
                result = await self._run(statement, {})
            except HushError as error:
                return reply + _refused(error)
            reply += _noticed(result.notices)
            if result.fields:
                reply += row_description(result.fields)
            reply += b"".join(data_row(row, result.fields) for row in result.rows)
            reply += message(b"C", texts(result.tag))
        return reply

    async def _extended(self, kind: bytes, reader: Reader) -> bytes:
        match kind:
            case b"P":
                return self._parse(reader)
            case b"B":
                return self._bind(reader)
            case b"D":
                return await self._describe(reader.bytes(1), reader.text())
            case b"E":
                return await self._execute(reader.text(), reader.long())
            case b"C":
                what, name = reader.bytes(1), reader.text()
                (self.statements if what == b"S" else self.portals).pop(name, None)
                return message(b"3")
        raise MessageError

    def _parse(self, reader: Reader) -> bytes:
        name, text = reader.text(), reader.text()
        oids = tuple(reader.long() for _ in range(reader.short()))
        if len(split(text)) > 1:
            raise QuestionError("A prepared statement is one statement.", "Prepare them one by one.")
        if len(self.statements) >= _MOST_STATEMENTS and name not in self.statements:
            raise QuestionError(f"A connection may keep {_MOST_STATEMENTS} statements.", "Close some first.")
        places = max((int(number) for number in re.findall(r"\$(\d{1,4})", text)), default=0)
        self.statements[name] = Prepared(text, oids + (0,) * (places - len(oids)))
        return message(b"1")

    def _bind(self, reader: Reader) -> bytes:
        portal, name = reader.text(), reader.text()
        if name not in self.statements:
            raise QuestionError(f"There is no prepared statement {name!r}.")
        prepared = self.statements[name]
        forms = [reader.short() for _ in range(reader.short())]
        values: dict[str, Any] = {}
        for number in range(reader.short()):
            length = reader.long()
            content = None if length < 0 else reader.bytes(length)
            oid = prepared.oids[number] if number < len(prepared.oids) else 0
            values[str(number + 1)] = messages.parameter(content, oid, messages.chosen(forms, number))
        formats = tuple(reader.short() for _ in range(reader.short()))
        if len(self.portals) >= _MOST_STATEMENTS and portal not in self.portals:
            raise QuestionError(f"A connection may keep {_MOST_STATEMENTS} portals.", "Close some first.")
        self.portals[portal] = Portal(prepared.text, values, formats)
        return message(b"2")

    async def _describe(self, what: bytes, name: str) -> bytes:
        if what == b"S":
            if name not in self.statements:
                raise QuestionError(f"There is no prepared statement {name!r}.")
            prepared = self.statements[name]
            oids = [oid or messages.TEXT for oid in prepared.oids]
            described = message(b"t", struct.pack("!H", len(oids)) + b"".join(struct.pack("!i", oid) for oid in oids))
            stand_ins = {str(place): _stand_in(oid) for place, oid in enumerate(oids, 1)}
            return described + _described(await self._fields(prepared.text, stand_ins))
        portal = self._portal(name)
        return _described(await self._fields(portal.text, portal.parameters), portal.formats)

    async def _execute(self, name: str, most: int) -> bytes:
        portal = self._portal(name)
        reply = b""
        if portal.result is None:
            portal.result = await self._run(portal.text, portal.parameters)
            reply += _noticed(portal.result.notices)
        result = portal.result
        end = len(result.rows) if most <= 0 else min(portal.sent + most, len(result.rows))
        rows = result.rows[portal.sent : end]
        reply += b"".join(data_row(row, result.fields, portal.formats) for row in rows)
        portal.sent = end
        if not result.tag:
            return reply + message(b"I")
        return reply + (message(b"s") if end < len(result.rows) else message(b"C", texts(result.tag)))

    def _portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise QuestionError(f"There is no portal {name!r}.")
        return self.portals[name]

    # statements

    async def _fields(self, text: str, parameters: Mapping[str, Any]) -> tuple[ResultColumn, ...]:
        """Return the columns that a statement would give. Free."""
        word = _word(text)
        if not text.strip() or word in _TAGS or read_setting(text) is not None:
            return ()
        if word in {"SHOW", "EXPLAIN"}:
            return (ResultColumn("setting" if word == "SHOW" else "QUERY PLAN", messages.TEXT),)
        if (catalogue := await self._about_catalogue(text)) is not None:
            return tuple((await asyncio.to_thread(catalogue.run, _filled(text, parameters)))[0])
        explained = await self._explain(text, parameters)
        return answer_fields(explained)

    async def _run(self, text: str, parameters: Mapping[str, Any]) -> Result:
        """Run one statement."""
        if not text.strip():
            return Result("")
        word = _word(text)
        if (said := read_setting(text)) is not None:
            return self._set(said.name, said.value)
        if word in _TAGS:
            return self._forget(word, text)
        if word == "SHOW":
            return self._show(text)
        if word == "EXPLAIN":
            inner = _EXPLAIN.sub("", text, count=1)
            lines = str(await self._explain(inner, parameters)).splitlines()
            return Result("EXPLAIN", (ResultColumn("QUERY PLAN", messages.TEXT),), [(line,) for line in lines])
        if (catalogue := await self._about_catalogue(text)) is not None:
            fields, rows = await asyncio.to_thread(catalogue.run, _filled(text, parameters))
            return Result(f"SELECT {len(rows)}", tuple(fields), rows)
        return await self._ask(text, parameters)

    async def _ask(self, text: str, parameters: Mapping[str, Any]) -> Result:
        said = self._terms(text, parameters)
        self.questions += 1
        self.request = f"{self.session}-{self.questions}"
        try:
            answer = await self.service.ask(self.who, text, dict(parameters) or (), request=self.request, **said)
        finally:
            self.request = ""
        fields, rows = _answered(answer)
        notes = [f"price {answer.price}; receipt {answer.receipt}; ± at {answer.confidence:.0%} confidence"]
        return Result(f"SELECT {len(rows)}", fields, rows, (*notes, *answer.caveats))

    async def _explain(self, text: str, parameters: Mapping[str, Any]) -> Explanation:
        said = self._terms(text, parameters)
        said.pop("fresh", None)
        (explained,) = await self.service.explain(self.who, text, dict(parameters) or (), **said)
        return explained

    def _terms(self, text: str, _parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the price and what else was set for a question."""
        if "ask" not in self.who.scopes:
            raise ForbiddenError("This token may not ask questions.")
        said = {**self.settings, **from_comments(text)}
        if "accuracy" in from_comments(text):
            said.pop("epsilon", None)
        if "epsilon" not in said and "accuracy" not in said:
            raise QuestionError(
                "A question needs its price.",
                "SET hush.epsilon = '0.1', or begin the question with /* hush.epsilon = 0.1 */.",
            )
        return terms(said)

    def _set(self, name: str, value: str | None) -> Result:
        if name.startswith("hush."):
            short = check_name(name)
            if value is None:
                self.settings.pop(short, None)
            else:
                terms({short: value})
                if short in {"epsilon", "accuracy"}:
                    self.settings.pop("accuracy" if short == "epsilon" else "epsilon", None)
                self.settings[short] = value
        return Result("SET")

    def _show(self, text: str) -> Result:
        name = _rest(text)
        known = {key.lower(): value for key, value in PARAMETERS.items()}
        if name.lower().startswith("hush."):
            value = self.settings.get(check_name(name.lower()), "")
        elif name.lower() == "transaction isolation level":
            value = "read committed"
        elif name.lower() in known:
            value = known[name.lower()]
        else:
            raise QuestionError(f"There is no setting {name!r}.")
        return Result("SHOW", (ResultColumn(name, messages.TEXT),), [(value,)])

    def _forget(self, word: str, text: str) -> Result:
        if word in {"BEGIN", "START"}:
            self.in_transaction = True
        elif word in {"COMMIT", "END", "ROLLBACK", "ABORT"} and " TO " not in f" {text.upper()} ":
            self.in_transaction = False
        elif word == "DISCARD":
            self.settings.clear()
            self.statements.clear()
            self.portals.clear()
        elif word == "RESET":
            name = _rest(text).lower()
            if name == "all":
                self.settings.clear()
            elif name.startswith("hush."):
                self.settings.pop(check_name(name), None)
        return Result(_TAGS[word])

    async def _about_catalogue(self, text: str) -> SystemCatalogue | None:
        """Return the catalogue if a statement is about it; who comes too often waits."""
        check_rate(self.service.traffic, Rate.VISITS, self.who.name)
        if self._catalogue is None:
            data_sets = await self.service.data_sets(self.who)
            self._catalogue = await asyncio.to_thread(SystemCatalogue, data_sets)
        return self._catalogue if await asyncio.to_thread(self._catalogue.answers, text) else None


def answer_fields(explained: Explanation) -> tuple[ResultColumn, ...]:
    """Return the columns of the answer that an explanation is about: each noisy one with its error beside it."""
    fields = []
    for name, output in explained.plan.question.outputs:
        fields.append(ResultColumn.of(name, output.type.kind))
        if errs(explained.plan, output):
            fields.append(ResultColumn.of(f"{name}_error", Kind.DECIMAL))
    return tuple(fields)


def _answered(answer: Answer) -> tuple[tuple[ResultColumn, ...], list[tuple[Any, ...]]]:
    cells = files.flat(answer.columns)
    kinds = {column.name: column.kind for column in answer.columns}
    fields = tuple(ResultColumn.of(label, kinds.get(label, Kind.DECIMAL)) for label in cells)
    return fields, list(zip(*cells.values(), strict=True))


def _described(fields: tuple[ResultColumn, ...], formats: Sequence[int] = ()) -> bytes:
    return row_description(fields, formats) if fields else message(b"n")


def _noticed(notices: Sequence[str]) -> bytes:
    return b"".join(messages.error(text, code="00000", severity="NOTICE", notice=True) for text in notices)


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


def _word(text: str) -> str:
    found = _WORD.match(text)
    return found[1].upper() if found else ""


def _rest(text: str) -> str:
    """Return what follows the first word of a statement."""
    found = _WORD.match(text)
    return text[found.end() if found else 0 :].strip().removesuffix(";").rstrip()


def split(text: str) -> list[str]:
    r"""Return the statements of a text, without those that say nothing.

    >>> split("SELECT ';' -- ; \n; ; SELECT 2;")
    ["SELECT ';' -- ; \n", ' SELECT 2']
    """
    parts, start = [], 0
    for found in TOKEN.finditer(text):
        if found["end"]:
            parts.append(text[start : found.start()])
            start = found.end()
    parts.append(text[start:])
    return [part for part in parts if TOKEN.sub(_without_comment, part).strip()]


def _without_comment(found: re.Match[str]) -> str:
    return "" if found["block"] is not None or found["line"] is not None else found[0]


def _stand_in(oid: int) -> Any:
    """Return a value of a parameter's type, to find out the columns of a question before its values are known."""
    zero = {messages.BOOLEAN: b"t", messages.DATE: b"2000-01-01", messages.TIMESTAMP: b"2000-01-01 00:00:00"}
    return messages.parameter(zero.get(oid, b"0"), oid, 0)


def _filled(text: str, parameters: Mapping[str, Any]) -> str:
    """Return a statement about the catalogue with its parameters as constants."""

    def constant(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        value = parameters.get(found[1])
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(value)
        if isinstance(value, int):
            return f"({value})"
        return "'" + messages.written(value).replace("'", "''") + "'"

    return re.sub(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(\d+)""", constant, text)
