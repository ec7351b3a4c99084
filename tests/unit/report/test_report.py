"""Answers as charts, tables and files."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
import re
from fractions import Fraction

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from hush.core import HushError, InvalidValueError
from hush.core.chart import text_width
from hush.curator.answer import Answer, Money
from hush.query.types import Kind
from hush.report.columns import AnswerColumn
from hush.report.pictures import places
from hush.report.tables import cell, html_table, text_table


def answer(*columns: AnswerColumn) -> Answer:
    return Answer(columns=columns, confidence=0.95, price=Money(epsilon=Fraction(1, 2), delta=Fraction(0)))


def key(name: str, kind: Kind, values: list) -> AnswerColumn:
    return AnswerColumn(name=name, kind=kind, values=tuple(values))


def number(name: str, values: list, errors: list, *, counts: bool = False, kind: Kind = Kind.INTEGER) -> AnswerColumn:
    return AnswerColumn(name=name, kind=kind, values=tuple(values), errors=tuple(errors), counts=counts)


DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 8), None]


def test_a_histogram_keeps_the_places_of_bars_that_are_not_there() -> None:
    assert places(key("k", Kind.INTEGER, [0, 10, 30])) == [0, 10, 20, 30]
    assert places(key("k", Kind.INTEGER, [0, 10, 30, None])) == [0, 10, 20, 30, None]
    known = [0.1, 0.2, 0.30000000000000004, 0.5]
    assert places(key("k", Kind.DECIMAL, known))[::2] == [0.1, 0.30000000000000004, 0.5]
    for values in ([30, 0, 10], [0, 10, 10_000], [0, 10, 25], [7]):  # another order, too many, uneven, one
        assert places(key("k", Kind.INTEGER, values)) == []


def test_a_null_date_is_told_not_drawn() -> None:
    made = answer(key("d", Kind.DATE, DAYS), number("n", [5, 6, 7], [2.0] * 3))
    assert made.chart().title == "n by d"
    assert made.chart().svg.count("<circle") == 2
    assert "price ε=0.5; ± at 95% confidence, of the noise alone; d NULL: 7 ± 2" in made.chart("a title").svg


def test_an_unknown_error_has_no_bar() -> None:
    made = answer(key("g", Kind.TEXT, ["a", None]), number("n", [3, -1], [2.0, None]))
    assert made.chart().svg.count('<path class="whisker"') == 1


def test_a_chart_of_a_named_column() -> None:
    made = answer(number("n", [1], [1.0]), number("mean", [2.5], [0.5], kind=Kind.DECIMAL), key("g", Kind.TEXT, ["a"]))
    assert "a: 2.50 ± 0.50" in made.chart(column="mean").svg
    with pytest.raises(HushError, match="Did you mean 'mean'"):
        made.chart(column="maen")
    with pytest.raises(HushError, match="nothing to draw"):
        answer(key("g", Kind.TEXT, ["a"])).chart()


def printed(made: Answer, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(made)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_a_table_that_does_not_fit_is_written_row_by_row() -> None:
    columns = [number(f"aggregate_{i}", [12345, -2], [33.0, 1.0]) for i in range(6)]
    made = answer(key("g", Kind.TEXT, ["a [bold]text[/]", "b"]), *columns)
    assert any(line.count("±") == 6 for line in printed(made, 200))
    narrow = printed(made, 40)
    assert max(map(len, narrow)) <= 40
    assert sum("12,345 ± 33" in line for line in narrow) == 6
    assert any("a [bold]text[/]" in line for line in narrow)


def test_long_tables_say_how_much_is_left_out() -> None:
    made = answer(key("k", Kind.INTEGER, list(range(1100))), number("n", [1] * 1100, [2.0] * 1100))
    assert "… 1,000 more rows" in printed(made, 80)
    assert "… 1,000 more rows" in str(made)
    assert "… 1,000 more rows" in made._repr_html_()


def test_files_keep_nulls_dates_and_errors(tmp_path) -> None:
    made = answer(key("d", Kind.DATE, DAYS), number("n", [5, None, -7], [2.0, None, None]))
    assert made.to_csv().splitlines() == ["d,n,n_error", "2024-01-01,5,2.0", "2024-01-08,,", ",-7,"]
    made.save(tmp_path / "a.json")
    read = json.loads((tmp_path / "a.json").read_text())
    assert read["rows"] == [["2024-01-01", 5], ["2024-01-08", None], [None, -7]]
    assert read["errors"] == [[None, 2.0], [None, None], [None, None]]
    made.save(tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.to_pydict() == {"d": DAYS, "n": [5, None, -7], "n_error": [2.0, None, None]}
    assert Answer.from_bytes(made.to_bytes()).columns == made.columns


def test_nonnegative_counts_keep_their_total_and_their_truths() -> None:
    values = [5000, *([-12, 12, 3, -30] * 50)]
    made = answer(
        key("g", Kind.INTEGER, list(range(201))),
        number("n", values, [12.0] * 201, counts=True),
        number("balance", [-v for v in values], [12.0] * 201),
    )
    moved = made.nonnegative(total=5000).columns
    assert moved[2] == made.columns[2]  # sums may be negative
    assert min(moved[1].values) == 0
    assert sum(moved[1].values) == 5000
    for old, new, error in zip(values, moved[1].values, moved[1].errors, strict=True):
        # every non-negative truth that the old interval contains is in the new one
        assert new + error >= old + 12
        assert new - error <= max(old - 12, 0)
    assert Answer.from_bytes(made.to_bytes()).nonnegative(total=5000).columns[1] == moved[1]


def test_nonnegative_needs_to_know_which_count() -> None:
    n, m = (number(name, [4, -1], [2.0, 2.0], counts=True) for name in "nm")
    with pytest.raises(InvalidValueError, match="counts"):
        answer(n, m).nonnegative(total=3)
    assert answer(n, m).nonnegative(total=3, column="m").columns[1].values == (3, 0)
    assert [column.values for column in answer(n, m).nonnegative().columns] == [(3, 0), (3, 0)]
    with pytest.raises(InvalidValueError, match="none"):
        answer(number("v", [1], [1.0])).nonnegative()


@pytest.mark.parametrize(("value", "error"), [(205_250, 310.0), (204_998_123_456, 31_000.0), (0.7712, 1.7712)])
def test_labels_of_a_single_number_do_not_run_into_each_other(value: float, error: float) -> None:
    svg = answer(number("v", [value], [error], kind=Kind.DECIMAL)).chart().svg
    labels = re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="number" text-anchor="middle">([^<]+)</text>', svg)
    assert len(labels) >= 2
    for (here, left), (there, right) in itertools.pairwise(labels):
        assert float(there) - float(here) > (text_width(left) + text_width(right)) / 2


def test_null_is_no_text_and_booleans_are_sqls() -> None:
    made = answer(key("g", Kind.TEXT, ["NULL", None, "x" * 99]), key("b", Kind.BOOLEAN, [True, False, None]))
    page = made._repr_html_()
    assert page.count("<em>NULL</em>") == 2
    assert ">true<" in page
    for width in (80, 20):  # a table, and row by row
        console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard")
        console.print(made)
        assert console.file.getvalue().count("\x1b[2mNULL") == 2
    lines = str(made).splitlines()
    assert lines[3].split() == ["x" * 59 + "…", "NULL"]
    wide = answer(number("n", [10**60], [2.0]))
    assert f"{10**60:,} ± 2" in str(wide)  # numbers are never cut


def test_an_html_table_lines_up_heads_and_cells() -> None:
    page = answer(key("g", Kind.TEXT, ["a"]), number("n", [1204], [46.0]))._repr_html_()
    assert re.findall(r'<t[hd] style="text-align:(\w+)', page) == ["left", "right"] * 2


def test_stored_answers_come_back_exactly() -> None:
    moments = [dt.datetime(2024, 1, 1, 10, 30, 0, 5), None, dt.datetime(1969, 12, 31)]
    made = answer(
        key("d", Kind.DATE, DAYS),
        key("t", Kind.TIMESTAMP, moments),
        key("k", Kind.TEXT, ["ü", None, "NaN"]),
        key("b", Kind.BOOLEAN, [True, None, False]),
        number("n", [5, None, -(2**70)], [2.0, None, 0.1]),
        number("x", [1 / 3, None, -0.0], [5e-324, 1.7e308, None]),
        number("none", [None] * 3, [None] * 3),
    )
    again = Answer.from_bytes(made.to_bytes())
    assert again.columns == made.columns
    assert repr(again.columns[5].values) == "(0.3333333333333333, None, -0.0)"
    assert [type(value) for value in again.columns[4].values] == [int, type(None), int]


def test_answers_stored_earlier_are_still_read() -> None:
    stored = (
        '{"version": 1, "columns": [{"name": "d", "kind": "date", "values": ["2024-01-01", null], "errors": null, '
        '"counts": false}, {"name": "x", "kind": "decimal", "values": [0.1, null], "errors": [2.5, null]}], '
        '"confidence": 0.95, "price": ["1/10", "0"], "items": [["x", "1/10", "0"]], "caveats": ["c"], "question": "q"}'
    )
    found = Answer.from_bytes(stored.encode())
    assert [column.values for column in found.columns] == [(dt.date(2024, 1, 1), None), (0.1, None)]
    assert found.columns[1].errors == (2.5, None)


SIZES = {
    (1e-9, 2.5e-10): "1.00e-09 ± 2.5e-10",
    (3.5e22, 1.25e20): "3.500e+22 ± 1.2e+20",
    (35_000_000_000_000_000_000_000, 1.25e20): "3.500e+22 ± 1.2e+20",
    (3e-10, 1.2e-9): "3e-10 ± 1.2e-09 °",
    (0.5, 1e-9): "0.5000000000 ± 1.0e-09",
    (-4.0, 2e16): "-4e+00 ± 2.0e+16 °",
    (0.0, 3e-8): "0.000000000 ± 3.0e-08 °",
    (2e-7, 0.5): "0.00 ± 0.50 °",
    (1e-9, None): "1e-09 ± ? °",
    (3.5e22, None): "3.5e+22 ± ? °",
    (2e-9, 0.0): "2e-09 ± 0",
    (123_456_789, 12.0): "123,456,789 ± 12",
}


@pytest.mark.parametrize(("value", "error"), SIZES)
def test_very_large_and_very_small_numbers_are_short_everywhere(value: float, error: float | None) -> None:
    column = AnswerColumn(name="v", kind=Kind.DECIMAL, values=(value,), errors=(error,))
    wanted = SIZES[value, error]
    assert wanted == cell(column, 0)
    assert wanted in text_table([column])
    assert wanted in re.sub(r"<[^>]+>", "", html_table([column]))
