"""Private keys are whatever rows hold: nothing in them reaches a terminal, a page or a spreadsheet as a command."""

from __future__ import annotations

import csv
import io
import json
import re
from fractions import Fraction

import pytest
from rich.console import Console

from hush.cli import output
from hush.curator.answer import Answer, Money
from hush.query.types import Kind
from hush.report import files
from hush.report.columns import AnswerColumn
from hush.report.tables import Terminal

KEYS = ("\x1b[31mRED\x1b]0;pwned\x07", "a\u202eb\u2066c", "</script><img src=x onerror=alert(1)>", "=1+1", "\x9b2J\n")
ANSWER = Answer(
    columns=(
        AnswerColumn(name="key\x1b[0m", kind=Kind.TEXT, values=KEYS),
        AnswerColumn(name="n\x07", kind=Kind.INTEGER, values=(1, 2, 3, 4, 5), errors=(1.0,) * 5),
    ),
    confidence=0.95,
    price=Money(epsilon=Fraction(1, 2), delta=Fraction(0)),
    caveats=("a note about \x1b[2J",),
)
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("width", [200, 20])
def test_terminals_obey_nothing(width: int) -> None:
    for console in (Console(file=io.StringIO(), width=width), output._Careful(file=io.StringIO(), width=width)):
        console.print(ANSWER)
        text = console.file.getvalue()
        assert not HARMFUL.search(text)
        assert "x1b" in text
    for text in (str(ANSWER), repr(ANSWER), ANSWER._repr_html_()):
        assert not HARMFUL.search(text)
    assert r"\x1b[31mRED\x1b]0;pwned\x07" in str(ANSWER)


def test_a_console_shows_what_others_wrote() -> None:
    console = output._Careful(file=io.StringIO(), width=80, highlight=False)
    console.print("\x1b]0;pwned\x9b plain", markup=False)
    assert console.file.getvalue() == "\\x1b]0;pwned\\x9b plain\n"


def test_styles_of_our_own_stay() -> None:
    console = output._Careful(file=io.StringIO(), width=80, force_terminal=True, color_system="standard")
    console.print("[bold red]error:[/] x")
    assert "\x1b[1;31m" in console.file.getvalue()


def test_json_on_a_terminal_is_ascii_where_it_matters(capsys) -> None:
    output.print_json(ANSWER.to_json())
    printed = capsys.readouterr().out
    assert not HARMFUL.search(printed)
    assert [row[0] for row in json.loads(printed)["rows"]] == list(KEYS)


def test_csv_is_data_in_a_pipe_and_visible_on_a_terminal(capsys, monkeypatch) -> None:
    output.print_data(ANSWER.to_csv())
    assert capsys.readouterr().out == ANSWER.to_csv()
    assert "'=1+1" in ANSWER.to_csv()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.print_data(ANSWER.to_csv())
    assert not HARMFUL.search(capsys.readouterr().out)


def test_charts_and_pages(tmp_path) -> None:
    chart = ANSWER.chart(title="</script><b>\x1b")
    assert not HARMFUL.search(chart.svg.replace("\n", " "))  # its style sheet has lines
    chart.save(tmp_path / "e.html")
    page = (tmp_path / "e.html").read_text(encoding="utf-8")
    assert "onerror=alert" in page
    assert "<img src=x" not in page
    assert "<b>" not in page
    assert "<script" not in page
    assert "<img" not in ANSWER._repr_html_()


FORMULAS = ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "＝1+1", "＋1", "－1", "＠SUM(A1)")
BEFORE = (
    "",
    "\r",
    "\n",
    "\0",
    "\t",
    " ",
    "\ufeff",
    "\u200b",
    "\xa0",
    "\u3000",
    "\r\n",
    "x\r",
    "x\n",
    "x\0",
    "x;",
    "x,",
    "x\t",
)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("formula", FORMULAS)
def test_no_spreadsheet_finds_a_formula(before: str, formula: str, separator: str) -> None:
    """Read as lenient programs do: any line break ends a line outside quotes, any separator may be the one."""
    key = before + formula
    columns = (
        AnswerColumn(name=key, kind=Kind.TEXT, values=(key, f"a{key}", None)),
        AnswerColumn(name="n", kind=Kind.INTEGER, values=(1, -2, 3), errors=(1.0, 2.0, 3.0)),
    )
    text = files.to_csv(columns)
    for cell in lenient(text, separator):
        shown = cell.lstrip("\r\n\t\0 \ufeff\u200b\xa0\u3000")
        assert not shown.startswith(tuple("=+@＝＋－＠")), cell
        assert not shown.startswith("-") or shown.split(",")[0].lstrip("-").isdigit(), cell
        assert "\0" not in cell
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert [row[1:] for row in rows] == [["n", "n_error"], ["1", "1.0"], ["-2", "2.0"], ["3", "3.0"]]
    kept = key.replace("\0", "\ufffd")
    assert [row[0] for row in rows[:3]] == [rows[0][0], rows[0][0], f"a{kept}"]
    assert rows[0][0] in {kept, f"'{kept}"}
    assert rows[3][0] == ""


def lenient(text: str, separator: str) -> list[str]:
    """Return the cells that a forgiving reader finds; a quote counts at a cell's beginning only."""
    cells, cell, quoted = [], "", False
    for sign in text.replace('""', "\x01"):  # a pair of quotes is one, or an empty text
        if sign == '"' and (quoted or not cell):
            quoted = not quoted
        elif not quoted and sign in {separator, "\r", "\n"}:
            cells.append(cell)
            cell = ""
        else:
            cell += sign
    return [*cells, cell]


def test_plain_texts_stay_plain() -> None:
    values = ("Oslo", "New York", "a.b:c/d-e", "Zürich", "", " x", "a,b", 'say "hi"', None)
    column = AnswerColumn(name="city", kind=Kind.TEXT, values=values)
    expected = ["city", "Oslo", "New York", "a.b:c/d-e", "Zürich", '""', '" x"', '"a,b"', '"say ""hi"""', ""]
    assert files.to_csv((column,)).splitlines() == expected


def test_a_terminal_shows_a_key_as_it_is() -> None:
    keys = (":heart:", "[red]a[/red]", "[link=x]b", "c:smile:")
    column = AnswerColumn(name=":cat:", kind=Kind.TEXT, values=keys)
    others = [AnswerColumn(name=f"{number}{'x' * 9}", kind=Kind.INTEGER, values=(1, 2, 3, 4)) for number in range(3)]
    for width in (80, 30):  # as a table, and row by row
        console = Console(file=io.StringIO(), width=width, emoji=True)
        console.print(Terminal(columns=(column, *others), notes=(":dog: [bold]",)))
        drawn = console.file.getvalue()  # type: ignore[attr-defined]
        assert [text for text in (*keys, ":cat:", ":dog:", "[bold]") if text not in drawn] == []
