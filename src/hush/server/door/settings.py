"""What a connection has set: the price of the next questions, how often their error bars hold, which data set.

>>> said = read_setting("SET hush.epsilon = '0.1'")
>>> said.name, said.value
('hush.epsilon', '0.1')
>>> read_setting("SET SESSION datestyle TO 'ISO'").name
'datestyle'
>>> from_comments("/* hush.epsilon = 0.5, hush.confidence=0.9 */ SELECT '/* hush.epsilon = 7 */'")
{'epsilon': '0.5', 'confidence': '0.9'}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hush.core.values import dataclass
from hush.query.errors import QuestionError, did_you_mean
from hush.server.door.statements import TOKEN

OURS = ("epsilon", "accuracy", "delta", "confidence", "max_rows", "max_groups", "data", "fresh", "dialect")
"""What SET hush.… may say."""
_SET = re.compile(
    r"(?>\s+|/\*.*?\*/|--[^\n]*\n)*+SET\s+(?:(?:SESSION|LOCAL)\s+)?"
    r"(?:(?P<words>TIME\s+ZONE|NAMES|SCHEMA|TRANSACTION|CHARACTERISTICS)\b|(?P<name>[\w.]+)\s*(?:=|\bTO\b))(?P<value>.+)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = re.compile(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\s\\])*)", re.DOTALL)
_PAIR = re.compile(r"\bhush\.(\w+)\s*[:=]\s*'?([^\s,;']+)'?")
_WHOLE = {"max_rows", "max_groups"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A name and its value; no value to go back to the default."""

    name: str
    value: str | None


def read_setting(statement: str) -> Setting | None:
    """Return what a SET says; None for other statements."""
    found = _SET.fullmatch(statement)
    if found is None:
        return None
    value = found["value"].strip().removesuffix(";").rstrip()
    if not value:
        return None
    if value.startswith("'") and value.endswith("'") and len(value) > 1:
        value = value[1:-1].replace("''", "'")
    name = found["name"] or " ".join(found["words"].split())
    return Setting(name.lower(), None if value.upper() == "DEFAULT" else value)


def check_name(name: str) -> str:
    """Return the name of one of our settings without its ``hush.``; refuse others."""
    short = name.removeprefix("hush.")
    if short not in OURS:
        listed = ", ".join(f"hush.{known}" for known in OURS)
        raise QuestionError(f"There is no setting {name!r}.", did_you_mean(short, list(OURS)) or f"There are {listed}.")
    return short


def from_start(options: Mapping[str, str]) -> dict[str, str]:
    r"""Return what a client sets as it connects: by name, or by ``options`` as PostgreSQL's own server takes them.

    >>> from_start({"user": "alice", "options": r"-c hush.epsilon=0.1 --hush.data=a\ clinic -c jit=off"})
    {'epsilon': '0.1', 'data': 'a clinic'}
    """
    said = {name: value for name, value in options.items() if name.startswith("hush.")}
    for name, value in _OPTION.findall(options.get("options", "")):
        if name.startswith("hush."):
            said[name] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
    found = {check_name(name): value for name, value in said.items()}
    if "epsilon" in found and "accuracy" in found:
        raise QuestionError("The connection sets hush.epsilon and hush.accuracy.", "Leave one of them out.")
    terms(found)
    return found


def from_comments(statement: str) -> dict[str, str]:
    """Return what the comments of a statement set, for this statement alone."""
    said: dict[str, str] = {}
    for comment in TOKEN.finditer(statement):
        for name, value in _PAIR.findall(comment["block"] or comment["line"] or ""):
            said[check_name(name)] = value
    return said


def terms(settings: dict[str, str]) -> dict[str, Any]:
    """Return settings as the keywords of a question."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if name in _WHOLE:
            if not re.fullmatch(r"\d{1,9}", value):
                raise QuestionError(f"hush.{name} is a whole number; got {value!r}.", f"SET hush.{name} = 1")
            found[name] = int(value)
        elif name == "fresh":
            if value.lower() not in {"true", "false", "on", "off", "1", "0"}:
                raise QuestionError(f"hush.fresh is true or false; got {value!r}.", "SET hush.fresh = true")
            found[name] = value.lower() in {"true", "on", "1"}
        elif name == "accuracy" and "@" in value:
            width, _, confidence = value.partition("@")
            found[name] = (width, confidence)
        else:
            found[name] = value
    return found
