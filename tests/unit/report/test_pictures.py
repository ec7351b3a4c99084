"""Our own SVG charts: what they draw, where bars end, and what they never hold."""

from __future__ import annotations

import datetime as dt
import re
import xml.etree.ElementTree as ET

import pytest
from chart_kinds import CHARTS, answer, counts, key

from hush.core import HushError
from hush.core.chart import number_ticks, seconds, text_width, time_ticks
from hush.query.types import Kind
from hush.report.columns import AnswerColumn
from hush.report.pictures import PlotKind, kinds, picture, plot


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - written by the code under test


SVG = "{http://www.w3.org/2000/svg}"


def marks(svg: str, name: str, css: str) -> list[ET.Element]:
    return [mark for mark in parsed(svg).iter(f"{SVG}{name}") if css in (mark.get("class") or "").split()]


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_well_formed_and_carry_no_style(name: str) -> None:
    drawn = picture(CHARTS[name].columns, subtitle="price ε=0.5")
    assert not re.search(r"style|<script|onerror|\u202e", drawn.page().replace("&lt;script", ""))
    root = parsed(drawn.page())
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert drawn.svg.count("<style>") == 1


@pytest.mark.parametrize("name", CHARTS)
def test_titles_say_what_is_shown_and_subtitles_price_and_confidence(name: str) -> None:
    svg = CHARTS[name].chart().svg
    column = next(column for column in CHARTS[name].columns if column.noisy).name
    assert marks(svg, "text", "title")[0].text.startswith(column)
    assert "price ε=0.5; ± at 95% confidence" in marks(svg, "text", "subtitle")[0].text


def test_kinds_follow_from_the_keys() -> None:
    kinds = {name: plot(made.columns).kind for name, made in CHARTS.items()}
    assert kinds["bars"] is kinds["bars-two-keys"] is PlotKind.BARS
    assert kinds["histogram"] is PlotKind.HISTOGRAM
    assert kinds["line"] is kinds["lines"] is PlotKind.LINE
    assert kinds["map"] is PlotKind.MAP
    assert kinds["number"] is PlotKind.NUMBER


def test_bars_end_where_values_can_lie() -> None:
    """A count below 0 has no bar, and no whisker leaves what is possible."""
    made = answer(
        key("g", Kind.TEXT, ["a", "b"]),
        AnswerColumn(name="m", kind=Kind.DECIMAL, values=(9.0, 1.0), errors=(4.0, 3.0), lower=0.0, upper=10.0),
    )
    assert [point.bar for point in plot(made.columns).points] == [(5.0, 10.0), (0.0, 4.0)]
    below = plot([key("g", Kind.TEXT, ["a"]), counts("n", [-20], [5.0])])
    assert (below.points[0].bar, below.points[0].end) == ((0.0, 0.0), 0.0)
    assert plot(CHARTS["bars"].columns).points[3].tells  # small beside the others, and that is known
    bars = marks(picture(CHARTS["bars"].columns).page(), "rect", "c0")
    assert min(float(bar.get("height")) for bar in bars) == 0


def test_cells_that_say_nothing_are_faint_and_do_not_set_the_axis() -> None:
    made = [key("g", Kind.TEXT, ["a", "b"]), counts("n", [20, 30], [4.0, 5000.0])]
    assert plot(made).extent() == (16.0, 24.0)
    svg = picture(made).page()
    assert len(marks(svg, "rect", "faint")) == 1
    assert "5,000" not in [text.text for text in marks(svg, "text", "number")]


def test_long_labels_are_wrapped_or_lie_and_are_whole_where_they_are_cut() -> None:
    wrapped = picture(CHARTS["bars-wrapped"].columns).page()
    assert {"acute heart", "failure"} <= {text.text for text in parsed(wrapped).iter(f"{SVG}text")}
    label = "x" * 200
    svg = picture([key("g", Kind.TEXT, [label, "b"]), counts("n", [20, 30], [4.0, 5.0])]).page()
    cut = next(text for text in parsed(svg).iter(f"{SVG}text") if "".join(text.itertext()).endswith("…"))
    assert cut.find(f"{SVG}title").text == label


def test_ticks_enclose_what_they_are_for() -> None:
    for low, high in [(0, 1), (-3, 17), (1e-9, 3e-9), (5, 5), (0, 0), (1e15, 1e15 + 40), (-1e300, 1e300)]:
        ticks = number_ticks(low, high)
        assert ticks[0] <= low
        assert ticks[-1] >= high
        assert 2 <= len(ticks) <= 12


@pytest.mark.parametrize("days", [0.001, 0.4, 1, 3, 20, 59, 61, 200, 900, 5000, 100_000])
def test_times_have_a_few_ticks_within_their_range(days: float) -> None:
    first = seconds(dt.datetime(2023, 3, 14, 9, 30))
    ticks = time_ticks(first, first + days * 86_400)
    assert 1 <= len(ticks) <= 14
    assert all(first <= place <= first + days * 86_400 for place, _ in ticks)
    assert sum(text_width(text) + 8 for _, text in ticks) < 620


def test_dates_have_no_ticks_between_days() -> None:
    first = seconds(dt.date(2026, 11, 13))
    texts = [text for _, text in time_ticks(first, first + 3 * 86_400, about=9, least=86_400)]
    assert texts == ["13 Nov 2026", "14 Nov", "15 Nov", "16 Nov"]


def test_limits_come_with_the_answer_and_are_kept() -> None:
    from hush.curator.answer import Answer

    made = CHARTS["means"]
    assert Answer.from_bytes(made.to_bytes()) == made
    assert Answer.from_bytes(made.to_bytes()).columns[1].limits == (0.0, 5000.0)


@pytest.mark.parametrize("name", ["bars", "histogram", "line", "lines", "bars-lying"])
def test_the_axis_of_values_has_a_name(name: str) -> None:
    drawn = picture(CHARTS[name].columns, heading=False)
    (column,) = (column.name for column in CHARTS[name].columns if column.noisy)
    assert column in [text.text for text in marks(drawn.page(), "text", "name")]


def test_short_error_bars_are_seen() -> None:
    """Where an axis from 0 would hide them, dots stand on an axis of their own; a logarithmic one for unequal sizes."""
    near = [key("g", Kind.TEXT, ["a", "b", "c"]), counts("n", [72_831, 72_900, 72_860], [30.0] * 3)]
    assert plot(near).kind is PlotKind.DOTS
    svg = picture(near).page()
    for whisker in marks(svg, "path", "whisker"):
        ends = [float(part) for part in re.findall(r"M([\d.]+) ", whisker.get("d"))]
        assert max(ends) - min(ends) > 20
    assert marks(picture(near, kind=PlotKind.BARS).page(), "rect", "c0")
    unequal = [key("g", Kind.TEXT, ["a", "b"]), counts("n", [90_000, 40], [10.0, 10.0])]
    assert plot(unequal).kind is PlotKind.BARS
    names = [text.text for text in marks(picture(unequal, kind=PlotKind.DOTS).page(), "text", "name")]
    assert "n, logarithmic" in names


def test_other_kinds_can_be_chosen_where_they_fit() -> None:
    possible = {name: [kind.value for kind in kinds(made.columns)] for name, made in CHARTS.items()}
    assert possible["bars"] == ["bars", "dots"]
    assert possible["histogram"] == ["histogram", "dots", "line"]
    assert possible["line"] == ["line"]
    assert possible["map"] == ["map"]
    assert possible["bars-two-keys"] == ["bars", "dots", "map"]
    assert possible["number"] == ["number"]
    for name, made in CHARTS.items():
        for kind in kinds(made.columns):
            assert parsed(picture(made.columns, kind=kind).page()).get("role") == "img", name
    with pytest.raises(HushError, match="cannot be drawn as line; take one of: bars, dots"):
        picture(CHARTS["bars"].columns, kind=PlotKind.LINE)
