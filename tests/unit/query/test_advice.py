"""The advice of refusals can be followed: whatever it says to write is a part of a question that is understood.

Every call that a hint names, ``NAME(arguments)``, is put where a row's expression, an aggregate, a condition or a key
may stand, over a table whose columns have the names that hints use. One of these must be a question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from hush.core import HushError
from hush.query.errors import QuestionError
from hush.query.schema import Schema, Table, UnitPath
from hush.query.sql import allow_list, parse
from hush.query.types import Kind, Type

NUMBER = Type(Kind.DECIMAL, True, Fraction(0), Fraction(100), Fraction(1))
WHOLE = Type(Kind.INTEGER, True, Fraction(0), Fraction(100), Fraction(1))
DAY = Type(Kind.DATE, True, Fraction(19_000), Fraction(20_000), Fraction(1))
COLUMNS = {
    **dict.fromkeys(("x", "y", "p", "cost", "price"), NUMBER),
    **dict.fromkeys(("n", "age", "lower", "upper"), WHOLE),
    **dict.fromkeys(("d", "day", "date"), DAY),
    **dict.fromkeys(("s", "city", "name", "key", "text", "word"), Type(Kind.TEXT, values=("a", "b"))),
}
SCHEMA = Schema(
    data="advice", tables={"t": Table(name="t", columns=COLUMNS, unit=UnitPath(column="unit"))}, unit="unit"
)

PLACES = (
    "SELECT {} AS v FROM t",
    "SELECT COUNT({}) AS v FROM t",
    "SELECT SUM(CLIP({}, 0, 9)) AS v FROM t",
    "SELECT COUNT(*) AS v FROM t WHERE {}",
    "SELECT COUNT(*) AS v FROM t GROUP BY {}",
    "SELECT s, COUNT(*), {} AS v FROM t GROUP BY s",
)


def called(text: str) -> Iterator[str]:
    """Yield the calls that a text names, with balanced parentheses and without an ellipsis."""
    for match in re.finditer(r"\b[A-Z][A-Z_0-9]+\(", text):
        depth, end = 0, match.start()
        for end in range(match.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
        call = text[match.start() : end + 1]
        if depth == 0 and "…" not in call and not match.group().startswith(("CREATE", "IN(")):
            yield call


def hints() -> Iterator[tuple[str, str]]:
    for name, hint in allow_list.NEAREST.items():
        yield name, hint
    for name, (_, hint) in allow_list.REASONS.items():
        yield name, hint
    page = Path(__file__).parents[3] / "docs" / "sql.md"
    table = page.read_text(encoding="utf-8").split("## What is refused")[1]
    for line in table.splitlines():
        cells = line.split("|")
        if len(cells) == 5 and "---" not in line:
            yield cells[1].strip(), cells[3]


ADVICE = sorted({(name, call) for name, hint in hints() for call in called(hint)})


@pytest.mark.parametrize(("name", "call"), ADVICE)
def test_what_a_hint_says_to_write_is_understood(name: str, call: str) -> None:
    refusals = []
    bins = re.sub(r"\blower, upper, n\b", "0, 100, 10", call)
    options = {bins, re.sub(r"\ba\b", "d", re.sub(r"\bb\b", "day", bins)), bins.replace("(a, b)", "(x, y)")}
    options |= {re.sub(r"\bx\b", "s", bins)}  # x stands for a text as well
    for option in sorted(options):
        for place in PLACES:
            try:
                parse(place.format(option), SCHEMA)
            except HushError as refusal:
                refusals.append(str(refusal))
            else:
                return
    raise AssertionError((name, call, refusals))


def test_there_is_advice_to_follow() -> None:
    assert len(ADVICE) > 20


@pytest.mark.parametrize(("sql", "words"), [("SIN(x)", "SIGN"), ("RAND(x)", "ROUND"), ("COT(x)", "COUNT")])
def test_a_function_that_exists_elsewhere_is_no_slip_of_the_pen(sql: str, words: str) -> None:
    with pytest.raises(QuestionError) as refusal:
        parse(f"SELECT SUM({sql}) FROM t", SCHEMA)
    assert words not in str(refusal.value)


def test_a_slip_of_the_pen_is_named() -> None:
    with pytest.raises(QuestionError, match="Did you mean 'FLOOR'"):
        parse("SELECT SUM(FLOOOR(x)) FROM t", SCHEMA)
