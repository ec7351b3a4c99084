"""The documentation can be read: short paragraphs everywhere, plain sentences on the pages of owners and analysts."""

from __future__ import annotations

from pathlib import Path

import pytest
from readability import grade, paragraphs, words

_ROOT = Path(__file__).parents[2]
_PAGES = [
    *sorted((_ROOT / "docs").rglob("*.md")),
    _ROOT / "README.md",
    _ROOT / "SECURITY.md",
    _ROOT / "CONTRIBUTING.md",
]
_FOR_OWNERS_AND_ANALYSTS = [
    "tutorials/owner",
    "tutorials/analyst",
    "answers",
    "budget",
    "deploy",
    "engines",
    "page",
    "choosing",
    "ledger",
    "policy",
    "releases",
    "service",
    "sql",
    "sql-door",
    "trust",
]
_LONGEST_PARAGRAPH = 120
_HIGHEST_GRADE = 8


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_no_paragraph_is_long(page: Path) -> None:
    lengths = {text: len(words(text)) for text in paragraphs(page.read_text("utf-8"))}
    long = {f"{text[:60]}…": length for text, length in lengths.items() if length > _LONGEST_PARAGRAPH}
    assert not long


@pytest.mark.parametrize("name", _FOR_OWNERS_AND_ANALYSTS)
def test_owners_and_analysts_read_it_easily(name: str) -> None:
    assert grade((_ROOT / "docs" / f"{name}.md").read_text("utf-8")) <= _HIGHEST_GRADE


def test_the_measure_on_a_text_counted_by_hand() -> None:
    # 6 words, 1 sentence, 6 syllables; then 2 words, 1 sentence, 7 syllables
    text = "# Left out\n\nThe cat sat on the mat.\n\n| a | table |\n\n- Differential privacy\n"
    assert paragraphs(text) == ["The cat sat on the mat.", "Differential privacy"]
    assert grade(text) == pytest.approx(0.39 * 8 / 2 + 11.8 * 13 / 8 - 15.59)


def test_the_measure_finds_heavy_prose() -> None:
    plain = "We add noise to the count. You see how far off it may be. The price is known first. " * 3
    heavy = (
        "Notwithstanding considerable computational sophistication, differentially private statistical dissemination "
        "necessitates methodologically unambiguous specification of contributions, sensitivities and aggregate "
        "expenditure, particularly whenever heterogeneous organisations independently administer confidential "
        "information about overlapping populations. "
    ) * 3
    assert grade(plain) < 4
    assert grade(heavy) > 20
    assert len(words(paragraphs(heavy)[0])) > 80


def test_code_spans_and_links_count_as_words() -> None:
    text = 'Say `hush ask "SELECT COUNT(*) FROM visits"` as [the page](https://example.org/a/b.c) tells.'
    assert words(paragraphs(text)[0]) == ["Say", "token", "as", "the", "page", "tells"]


def test_code_blocks_are_left_out() -> None:
    assert paragraphs("Before.\n\n```python\n>>> one = 1\n\n>>> two = 2\n```\n\nAfter.\n") == ["Before.", "After."]
