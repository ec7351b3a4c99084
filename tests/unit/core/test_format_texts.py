"""Texts that others chose do not steer a terminal."""

from __future__ import annotations

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from hush.core.format import ascii_controls, visible

UNSEEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_no_control_character_is_left(text: str) -> None:
    shown = visible(text)
    assert all(character in "\u200c\u200d" for character in shown if unicodedata.category(character) in UNSEEN)
    assert not any(unicodedata.category(character) in UNSEEN for character in visible(text, joiners=False))
    assert visible(shown) == shown
    assert "\n" in visible("a\nb", lines=True)


@given(st.dictionaries(st.text(), st.text()))
def test_json_keeps_its_meaning(value: dict[str, str]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert json.loads(ascii_controls(text)) == value
    assert not any(unicodedata.category(character) in UNSEEN for character in ascii_controls(text))


def test_tags_and_spaces_of_no_width_are_seen() -> None:
    text = "\u200bsend\U000e0041\u00ad\ue000"
    assert visible(text) == r"\u200bsend\U000e0041\xad\ue000"
    assert ascii_controls(text) == r"\u200bsend\udb40\udc41\u00ad\ue000"


def test_plain_texts_stay() -> None:
    assert visible("Tromsø – 東京 👩‍⚕️ שלום") == "Tromsø – 東京 👩‍⚕️ שלום"
