r"""Standing questions in a policy: ``[standing.NAME]``.

What is written here is checked when the policy is read: names, dates, prices, readers. Nothing is set aside by reading.
That is an act of the owner, ``hush standing declare``, or of a service that runs under this policy.

>>> from hush.policy.file import Policy
>>> policy = Policy.parse('''
... [data.clinic]
... budget = { epsilon = "4", delta = "1e-7" }
... tables.visits = { source = "visits.parquet", columns.age = { type = "integer", lower = 0, upper = 120 } }
... [standing.visits-by-week]
... sql = "SELECT COUNT(*) AS n FROM visits"
... epsilon = "0.1"
... every = "week"
... first = 2026-11-16
... releases = 12
... ''')
>>> policy.standing["visits-by-week"].schedule.period(1)
'2026-11-23'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hush.core import InvalidValueError
from hush.core.errors import shown
from hush.ledger.schedules import Schedule
from hush.ledger.standing import PRICES, StandingQuestion
from hush.policy.document import Section
from hush.query.errors import did_you_mean

KEYS = ("data", "sql", *PRICES, "confidence", "delta", "every", "first", "releases", "late", "readers")
_NEEDED = ("sql", "every", "first", "releases")
_EXAMPLE = 'Write for instance sql = "SELECT …", epsilon = "0.1", every = "week", first = 2026-11-16 and releases = 12.'
_LATE = {"make": True, "skip": False}
_WRITTEN = {"name": None, "question": "sql", "slots": "releases"}
"""What a mistake is called in the policy, where that is another word."""


def read_standing(
    name: str, section: Section, data: Mapping[str, Any], analysts: Mapping[str, Any]
) -> StandingQuestion:
    """Return a standing question; ``analysts`` are those that the policy names, each with their data sets."""
    section.only(KEYS)
    for key in _NEEDED:
        if key not in section.values:
            raise section.error(None, f"{section.name} needs {key}.", _EXAMPLE)
    if not any(key in section.values for key in PRICES):
        raise section.error(None, f"{section.name} needs a price: epsilon, total_epsilon or rho.", _EXAMPLE)
    chosen = _data(section, data)
    late = section.values.get("late", "make")
    if late not in _LATE:
        raise section.error("late", f'{section.name}.late must be "make" or "skip"; got {shown(late)}.')
    values = section.values
    given = {key: values[key] for key in (*PRICES, "confidence", "delta") if key in values}
    try:
        return StandingQuestion(
            name=name,
            data=chosen,
            question=section.text("sql") or "",
            schedule=Schedule(first=values["first"], every=values["every"], slots=values["releases"]),
            late=_LATE[late],
            readers=_readers(section, chosen, analysts),
            **given,
        )
    except InvalidValueError as error:
        written: str | None = _WRITTEN.get(error.parameter, error.parameter)
        told = section.name if written is None else f"{section.name}.{written}"
        raise section.error(
            written, f"{told} must be {error.allowed}; got {shown(error.got)}.", "" if written in values else _EXAMPLE
        ) from None


def _data(section: Section, data: Mapping[str, Any]) -> str:
    """Return which data set is asked about: the one that is named, or the only one."""
    chosen = section.text("data")
    listed = f"There are {', '.join(data)}."
    if chosen is None:
        if len(data) != 1:
            raise section.error(None, f"{section.name} must say which data set it is about.", f"Add data = …. {listed}")
        return next(iter(data))
    if chosen not in data:
        raise section.error(
            "data",
            f"{section.name}.data names '{chosen}', which is no data set.",
            did_you_mean(chosen, data, otherwise=listed),
        )
    return chosen


def _readers(section: Section, data: str, analysts: Mapping[str, Any]) -> str | tuple[str, ...]:
    """Return who may read: analysts of the data set, by name, or all of them, or everybody."""
    readers = section.values.get("readers", "analysts")
    if isinstance(readers, str):
        return readers
    if not isinstance(readers, list) or not readers or not all(isinstance(name, str) for name in readers):
        raise section.error(
            "readers",
            f"{section.name}.readers must be a list of analysts; got {shown(readers)}.",
            'Or write readers = "analysts" for all who may ask about the data set, or readers = "public".',
        )
    if (stranger := unknown_reader(readers, data, analysts)) is not None:
        raise section.error(
            "readers",
            f"{section.name}.readers names '{stranger}', who is no analyst of {data}.",
            did_you_mean(stranger, analysts),
        )
    return tuple(readers)


def unknown_reader(readers: str | Sequence[str], data: str, analysts: Mapping[str, Any]) -> str | None:
    """Return the first of some readers who is no analyst of a data set; None if there is none."""
    named = () if isinstance(readers, str) else readers
    return next((name for name in named if name not in analysts or data not in analysts[name].data), None)
