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
from hush.core.errors import shown
from hush.ledger.streams import PRICES, Schedule, StreamDeclaration
from hush.policy.document import STREAM_SECTIONS, Document, Section
from hush.query.errors import did_you_mean

KEYS = ("data", "sql", *PRICES, "confidence", "delta", "every", "first", "releases", "late", "readers")
_NEEDED = ("sql", "every", "first", "releases")
_EXAMPLE = 'Write for instance sql = "SELECT …", epsilon = "0.1", every = "week", first = 2026-11-16 and releases = 12.'
_LATE = {"make": True, "skip": False}
_KEY_OF_PARAMETER = {"name": None, "question": "sql", "slots": "releases"}
"""The policy's keys for parameters with another name."""


def read_streams(root: Section, data: Sequence[str], analysts: Mapping[str, Any]) -> dict[str, StreamDeclaration]:
    """Return the declared streams of a policy; ``analysts`` are its analysts by name."""
    document = root.document
    declared: list[tuple[str, Section]] = []
    for key in STREAM_SECTIONS:
        declared += root.sections(key)
    names = [name.casefold() for name, _ in declared]

    def read(name: str, section: Section) -> StreamDeclaration:
        if names.count(name.casefold()) > 1:
            raise section.error(None, f"two streams are called '{name}'.", "Rename one of them.")
        return _declaration(name, section, data, analysts)

    return document.each(declared, read)


def mistake_in_sql(document: Document, name: str, error: HushError) -> HushError:
    """Return a mistake in a stream's SQL with its line."""
    key = next((key for key in STREAM_SECTIONS if (key, name) in document.lines), STREAM_SECTIONS[0])
    return document.error((key, name, "sql"), f"{key}.{name}.sql: {error}")


def _declaration(name: str, section: Section, data: Sequence[str], analysts: Mapping[str, Any]) -> StreamDeclaration:
    section.only(KEYS)
    values = section.values
    for key in _NEEDED:
        if key not in values:
            raise section.error(None, f"{section.name} needs {key}.", _EXAMPLE)
    if not any(key in values for key in PRICES):
        raise section.error(None, f"{section.name} needs a price: epsilon, total_epsilon or rho.", _EXAMPLE)
    data_name, alternatives = section.text("data"), f"There are {', '.join(data)}."
    if data_name is None:
        if len(data) != 1:
            problem = f"{section.name} must say which data set it is about."
            raise section.error(None, problem, f"Add data = …. {alternatives}")
        data_name = data[0]
    if data_name not in data:
        problem = f"{section.name}.data names '{data_name}', which is no data set."
        raise section.error("data", problem, did_you_mean(data_name, data, otherwise=alternatives))
    late = values.get("late", "make")
    if late not in _LATE:
        raise section.error("late", f'{section.name}.late must be "make" or "skip"; got {shown(late)}.')
    readers = values.get("readers", "analysts")
    if not isinstance(readers, str):
        if not isinstance(readers, list) or not readers or not all(isinstance(name, str) for name in readers):
            raise section.error(
                "readers",
                f"{section.name}.readers must be a list of analysts; got {shown(readers)}.",
                'Or write readers = "analysts" for all who may ask about the data set, or readers = "public".',
            )
        if (stranger := unknown_reader(readers, data_name, analysts)) is not None:
            problem = f"{section.name}.readers names '{stranger}', who is no analyst of {data_name}."
            raise section.error("readers", problem, did_you_mean(stranger, analysts))
        readers = tuple(readers)
    try:
        return StreamDeclaration(
            name=name,
            data=data_name,
            question=section.text("sql") or "",
            schedule=Schedule(first=values["first"], every=values["every"], slots=values["releases"]),
            late=_LATE[late],
            readers=readers,
            **{key: values[key] for key in (*PRICES, "confidence", "delta") if key in values},
        )
    except InvalidValueError as error:
        key_in_policy: str | None = _KEY_OF_PARAMETER.get(error.parameter, error.parameter)
        subject = section.name if key_in_policy is None else f"{section.name}.{key_in_policy}"
        raise section.error(
            key_in_policy,
            f"{subject} must be {error.allowed}; got {shown(error.got)}.",
            "" if key_in_policy in values else _EXAMPLE,
        ) from None


def unknown_reader(readers: str | Sequence[str], data: str, analysts: Mapping[str, Any]) -> str | None:
    """Return the first reader who is no analyst of the data set; None if all are."""
    names = () if isinstance(readers, str) else readers
    return next((name for name in names if name not in analysts or data not in analysts[name].data), None)
