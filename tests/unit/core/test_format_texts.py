"""Texts that others chose neither steer a terminal nor leave their place in a page."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core.chart import Chart
from hush.core.format import ascii_controls, script_json, visible

SCRIPT = "</script><img src=x onerror=alert(1)>\u2028&amp;"


class Elements(HTMLParser):
    """The elements that a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        self.found.append(tag)


BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C]


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_no_control_character_is_left(text: str) -> None:
    shown = visible(text)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 or ord(c) in BIDI or 0xD800 <= ord(c) < 0xE000 for c in shown)
    assert visible(shown) == shown
    assert "\n" in visible("a\nb", lines=True)


@given(st.dictionaries(st.text(), st.text()))
def test_json_keeps_its_meaning(value: dict[str, str]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json.loads(ascii_controls(text)) == value
    assert json.loads(script_json(value)) == value
    assert not re.search("[<>&\u2028\u2029]", script_json(value))


def test_plain_texts_stay() -> None:
    assert visible("Tromsø – 東京 👩‍⚕️ שלום") == "Tromsø – 東京 👩‍⚕️ שלום"


@pytest.mark.parametrize("installed", [True, False])
def test_a_page_cannot_be_escaped_from(tmp_path, monkeypatch, installed: bool) -> None:
    if installed:
        pytest.importorskip("vl_convert")
    else:
        monkeypatch.setitem(sys.modules, "vl_convert", None)
    spec = {
        "title": SCRIPT,
        "data": {"values": [{"key": SCRIPT, "value": 1}]},
        "mark": "bar",
        "encoding": {"x": {"field": "key", "title": SCRIPT}},
    }
    chart = Chart(spec)
    page = chart.save(tmp_path / "a.html").read_text(encoding="utf-8")
    seen = Elements()
    seen.feed(page)
    assert set(seen.found) == {"meta", "title", "script", "div"}
    held = re.search('<script type="application/json" id="spec">(.*?)</script>', page, re.DOTALL)
    assert held is not None
    assert json.loads(held[1]) == chart.spec


def test_neither_source_nor_editor_is_offered() -> None:
    actions = Chart({"mark": "bar"}).spec["usermeta"]["embedOptions"]["actions"]
    assert actions == {"export": True, "source": False, "compiled": False, "editor": False}
