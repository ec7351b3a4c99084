"""Charts: an SVG picture that shows itself in notebooks, saved by the ending of the path."""

from __future__ import annotations

import functools
import math
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

from hush.core import InvalidValueError
from hush.core.chart import Chart, ChartAxis, ChartBar, ChartLine, MissingChartsError, Scale, bar_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"
SCRIPT = "</script></title><img src=x onerror=alert(1)>\u2028&amp;"


def chart(title: str = "one line", name: str = "a") -> Chart:
    curves = [ChartLine(name=name, points=[(0, 1), (1, 2)]), ChartLine(name="b", points=[(0, 0), (1, 2)], dashed=True)]
    return line_chart(curves, ChartAxis.between("x", 0, 1), ChartAxis.around("y", 0, 2), title=title)


class Elements(HTMLParser):
    """The elements that a browser would make of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        self.found.add(tag)


def test_saves_itself_and_shows_itself(tmp_path):
    made = chart()
    assert repr(made) == "<Chart: one line>"
    assert made.save(tmp_path / "a.svg").read_text(encoding="utf-8") == made.svg
    assert made.svg in made.save(tmp_path / "a.html").read_text(encoding="utf-8")
    assert {"text/plain", "image/svg+xml"} <= set(made._repr_mimebundle_())
    for name in ("a.json", "a.doc", "a"):
        with pytest.raises(InvalidValueError, match=r"\.svg, \.png or \.html"):
            made.save(tmp_path / name)


def test_png_is_made_of_the_svg_with_its_words(tmp_path, monkeypatch):
    """Without a font the converter would leave all words out in silence."""
    converter = pytest.importorskip("resvg_py")
    png = chart().save(tmp_path / "a.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert chart("another line").save(tmp_path / "a.png").read_bytes() != png
    blind = functools.partial(converter.svg_to_bytes, skip_system_fonts=True)
    monkeypatch.setattr(converter, "svg_to_bytes", blind)
    with pytest.raises(MissingChartsError, match="needs a font"):
        chart().save(tmp_path / "a.png")
    assert "image/png" not in chart()._repr_mimebundle_()


def test_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(MissingChartsError, match=r"hush\[charts\]"):
        chart().save(tmp_path / "a.png")
    assert set(chart()._repr_mimebundle_()) == {"text/plain", "image/svg+xml"}


def test_a_page_cannot_be_escaped_from(tmp_path):
    page = chart(SCRIPT, SCRIPT).save(tmp_path / "a.html").read_text(encoding="utf-8")
    drawn = {"svg", "style", "rect", "text", "line", "path"}
    assert Elements(page).found == {"html", "meta", "title", *drawn}


def test_curves_lie_where_their_numbers_are_and_have_a_legend_if_there_are_several():
    root = ET.fromstring(chart().svg)  # noqa: S314 - written by the code under test
    lines = [mark for mark in root.iter(f"{SVG}path") if "line" in mark.get("class", "").split()]
    assert [mark.get("class") for mark in lines] == ["line s0", "line s5 dashed"]
    ends = [[place.split()[1] for place in mark.get("d", "")[1:].split("L")] for mark in lines]
    assert ends[0][1] == ends[1][1]  # both end at (1, 2)
    assert float(ends[0][0]) == pytest.approx((float(ends[1][0]) + float(ends[0][1])) / 2)  # 1 is between 0 and 2
    assert {"a", "b", "x", "y"} <= {text.text for text in root.iter(f"{SVG}text")}


@pytest.mark.parametrize("bars", [[], [ChartBar(row=0, end=2.0)], [ChartBar(row=0, end=math.inf, text="∞ →")]])
def test_bars_of_an_axis_with_one_tick_or_without_bars(bars):
    axis = ChartAxis(name="x", low=1, high=1.5, ticks=[(1, "1")], logarithmic=True)
    ET.fromstring(bar_chart(["one"], bars, axis, title="bars").svg)  # noqa: S314 - written by the code under test


def test_numbers_beyond_an_axis_are_drawn_at_its_end():
    scale = Scale(axis=ChartAxis(name="δ", low=1e-12, high=1, ticks=[], logarithmic=True), start=0, end=12)
    assert [scale(delta) for delta in (0, 1e-12, 1e-6, 1, 5)] == pytest.approx([0, 0, 6, 12, 12])
