"""Charts: plain data, saved by the ending of the path."""

from __future__ import annotations

import json
import sys

import pytest

from hush.core import InvalidValueError
from hush.core.chart import Chart, MissingChartsError

SPEC = {
    "title": "one line",
    "data": {"values": [{"x": 0, "y": 1}, {"x": 1, "y": 2}]},
    "mark": "line",
    "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
}


def test_saves_itself(tmp_path):
    chart = Chart(SPEC)
    assert json.loads(chart.save(tmp_path / "a.json").read_text(encoding="utf-8"))["mark"] == "line"
    assert repr(chart) == "<Chart: one line>"
    assert "application/vnd.vegalite.v5+json" in chart._repr_mimebundle_()
    with pytest.raises(InvalidValueError):
        chart.save(tmp_path / "a.doc")


def test_draws_pictures(tmp_path):
    pytest.importorskip("vl_convert")
    assert Chart(SPEC).save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Chart(SPEC).save(tmp_path / "a.svg").read_text(encoding="utf-8")


def test_becomes_altairs():
    altair = pytest.importorskip("altair")
    assert isinstance(Chart(SPEC).to_altair(), altair.Chart)


def test_says_that_altair_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingChartsError, match="pip install altair"):
        Chart(SPEC).to_altair()


def test_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingChartsError, match=r"hush\[charts\]"):
        Chart(SPEC).save(tmp_path / "a.png")
    assert "vegaEmbed" in Chart(SPEC).save(tmp_path / "a.html").read_text(encoding="utf-8")
