"""Texts that others chose do not steer a terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hush.core.format import ascii_controls, visible

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


def test_plain_texts_stay() -> None:
    assert visible("Tromsø – 東京 👩‍⚕️ שלום") == "Tromsø – 東京 👩‍⚕️ שלום"
