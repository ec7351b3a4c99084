r"""Declared streams in a policy: ``[streams.NAME]``.

Names, dates, prices and readers are checked when the policy is read. Nothing is set aside by reading.
That is an act of the owner, ``hush stream declare``, or of a service that runs under this policy.
Policies of before say ``[standing.NAME]``, which means the same.

>>> from hush.policy.file import Policy
>>> policy = Policy.parse('''
... [data.clinic]
... budget = { epsilon = "4", delta = "1e-7" }
... tables.visits = { source = "visits.parquet", columns.age = { type = "integer", lower = 0, upper = 120 } }
... [streams.visits-by-week]
... sql = "SELECT COUNT(*) AS n FROM visits"
... epsilon = "0.1"
... every = "week"
... first = 2026-11-16
... releases = 12
... ''')
>>> policy.streams["visits-by-week"].schedule.period(1)
'2026-11-23'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hush.core import HushError, InvalidValueError
from hush.ledger.streams import PRICES, Schedule, StreamDeclaration
from hush.policy.document import STREAM_SECTIONS, Document, Section
from hush.query.errors import did_you_mean

KEYS = ("data", "sql", *PRICES, "confidence", "delta", "every", "first", "releases", "late", "readers")
_NEEDED = ("sql", "every", "first", "releases")
_EXAMPLE = 'Write for instance sql = "SELECT …", epsilon = "0.1", every = "week", first = 2026-11-16 and releases = 12.'


def read_streams(root: Section, data: Sequence[str], analysts: Mapping[str, Any]) -> dict[str, StreamDeclaration]:
    """Return the declared streams of a policy; ``analysts`` are its analysts by name."""
    sections = [section for key in STREAM_SECTIONS for section in root.sections(key)]
    names = [name.casefold() for name, _ in sections]

    def read(name: str, section: Section) -> StreamDeclaration:
        if names.count(name.casefold()) > 1:
            raise section.error(None, f"two streams are called '{name}'.", "Rename one of them.")
        section.only(KEYS)
        for key in _NEEDED:
            if key not in section.values:
                raise section.error(None, f"{section.name} needs {key}.", _EXAMPLE)
        try:
            return declared(name, section.values, data, analysts)
        except InvalidValueError as error:
            if error.parameter == "name":
                raise section.error(None, f"{section.name} must be {error.allowed}.") from None
            key = "sql" if error.parameter == "question" else error.parameter
            raise section.wrong(key, error.allowed, error.hint if key in section.values else _EXAMPLE) from None

    return root.document.each(sections, read)


def mistake_in_sql(document: Document, name: str, error: HushError) -> HushError:
    """Return a mistake in a stream's SQL with its line."""
    key = next((key for key in STREAM_SECTIONS if (key, name) in document.lines), STREAM_SECTIONS[0])
    return document.error((key, name, "sql"), f"{key}.{name}.sql: {error}")


def declared(
    name: str, words: Mapping[str, Any], data: Sequence[str], analysts: Mapping[str, Any]
) -> StreamDeclaration:
    """Return the stream that words declare: keys of a policy, options or fields of a form."""
    sql, readers, only = words["sql"], words.get("readers", "analysts"), data[0] if len(data) == 1 else ""
    data_name, late = words.get("data") or only, words.get("late", "make")
    if data_name not in data:
        allowed, hint = f"one of {', '.join(data)}", did_you_mean(str(data_name), data)
        raise InvalidValueError("data", got=data_name, allowed=allowed, hint=hint)
    if late not in ("make", "skip"):
        raise InvalidValueError("late", got=late, allowed='"make" or "skip"')
    listed = isinstance(readers, list) and readers and all(isinstance(reader, str) for reader in readers)
    if not isinstance(readers, str) and not listed:
        raise InvalidValueError("readers", got=readers, allowed="a list of names, analysts or public")
    if (stranger := unknown_reader(readers, data_name, analysts)) is not None:
        hint = f"'{stranger}' is no analyst of {data_name}. {did_you_mean(stranger, analysts)}".rstrip()
        raise InvalidValueError("readers", got=readers, allowed=f"analysts of {data_name}, or public", hint=hint)
    return StreamDeclaration(
        name=name,
        data=data_name,
        question=sql.strip() if isinstance(sql, str) else sql,
        schedule=Schedule(first=words["first"], every=words["every"], slots=words["releases"]),
        late=late == "make",
        readers=readers if isinstance(readers, str) else tuple(readers),
        **{key: words[key] for key in (*PRICES, "confidence", "delta") if words.get(key) is not None},
    )


def unknown_reader(readers: str | Sequence[str], data: str, analysts: Mapping[str, Any]) -> str | None:
    """Return the first reader who is no analyst of the data set; None if all are."""
    names = () if isinstance(readers, str) else readers
    return next((name for name in names if name not in analysts or data not in analysts[name].data), None)
