"""Settings of a connection: price and other terms of the questions that follow (`hush.curator.terms`).

>>> setting = read_setting("SET hush.epsilon = '0.1'")
>>> setting.name, setting.value
('hush.epsilon', '0.1')
>>> read_setting("SET SESSION datestyle TO 'ISO'").name
'datestyle'
>>> from_comments("/* hush.epsilon = 0.5, hush.confidence=0.9 */ SELECT '/* hush.epsilon = 7 */'")
{'epsilon': '0.5', 'confidence': '0.9'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hush.curator.terms import QuestionOrder, terms_of
from hush.query.errors import QuestionError, did_you_mean
from hush.server.pgwire.statements import TOKEN

_TERMS = {
    name: term
    for name, term in terms_of(QuestionOrder).items()
    if name not in {"question", "parameters", "request"}  # of one question, not of those that follow
}
OURS = tuple(_TERMS)
"""The names that SET hush.… knows."""
_SET = re.compile(
    r"(?>\s+|/\*.*?\*/|--[^\n]*\n)*+SET\s+(?:(?:SESSION|LOCAL)\s+)?"
    r"(?:(?P<words>TIME\s+ZONE|NAMES|SCHEMA|TRANSACTION|CHARACTERISTICS)\b|(?P<name>[\w.]+)\s*(?:=|\bTO\b))(?P<value>.+)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = re.compile(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\s\\])*)", re.DOTALL)
_PAIR = re.compile(r"\bhush\.(\w+)\s*[:=]\s*'?([^\s,;']+)'?")


@dataclass(frozen=True, slots=True)
class Setting:
    """A name and its value; no value to go back to the default."""

    name: str
    value: str | None


def read_setting(statement: str) -> Setting | None:
    """Return the setting of a SET; None for other statements."""
    match = _SET.fullmatch(statement)
    if match is None:
        return None
    value = match["value"].strip().removesuffix(";").rstrip()
    if not value:
        return None
    if value.startswith("'") and value.endswith("'") and len(value) > 1:
        value = value[1:-1].replace("''", "'")
    name = match["name"] or " ".join(match["words"].split())
    return Setting(name.lower(), None if value.upper() == "DEFAULT" else value)


def check_name(name: str) -> str:
    """Return the name of one of our settings without its ``hush.``; refuse others."""
    short = name.removeprefix("hush.")
    if short not in OURS:
        setting_names = ", ".join(f"hush.{setting}" for setting in OURS)
        raise QuestionError(
            f"There is no setting {name!r}.", did_you_mean(short, list(OURS)) or f"There are {setting_names}."
        )
    return short


def from_start(options: Mapping[str, str]) -> dict[str, str]:
    r"""Return the settings with which a client connects: by name, or by ``options`` as PostgreSQL's own server takes.

    >>> from_start({"user": "alice", "options": r"-c hush.epsilon=0.1 --hush.data=a\ clinic -c jit=off"})
    {'epsilon': '0.1', 'data': 'a clinic'}
    """
    own_options = {name: value for name, value in options.items() if name.startswith("hush.")}
    for name, value in _OPTION.findall(options.get("options", "")):
        if name.startswith("hush."):
            own_options[name] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
    settings = {check_name(name): value for name, value in own_options.items()}
    if "epsilon" in settings and "accuracy" in settings:
        raise QuestionError("The connection sets hush.epsilon and hush.accuracy.", "Leave one of them out.")
    terms(settings)  # refuses a value of another kind as the client connects
    return settings


def from_comments(statement: str) -> dict[str, str]:
    """Return the settings in the comments of a statement, which hold for it alone."""
    return {
        check_name(name): value
        for comment in TOKEN.finditer(statement)
        for name, value in _PAIR.findall(comment["block"] or comment["line"] or "")
    }


def terms(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return settings as the keywords of a question."""
    return {name: _TERMS[name].read(value, f"hush.{name}") for name, value in settings.items()}
