"""Regular expressions: what is accepted never fails in the engine, means what it means there, and has a known cost."""

from __future__ import annotations

from random import Random

import duckdb
import pytest

from hush.core import HushError
from hush.query.errors import QuestionError
from hush.query.functions.texts import MAX_POSITIONS, cost_of, flags_of, whole

REFUSED = {
    "(a": "parentheses that do not match",
    "a)": "parentheses that do not match",
    "[a": "cannot be read from '[a'",
    "a\\": "cannot be read from",
    "*a": "repeats nothing",
    "a**": "repeats nothing",
    "a{2}{3}": "repeats nothing",
    "(a{2}b){3}": "counts a repetition inside another",
    "a{3,2}": "from the lower number",
    "a{1000}": "up to 200",
    "a{x}": "cannot be read from '{x}'",
    "a{,3}": "cannot be read from",
    "^*": "repeats nothing",
    r"(a)\1": "cannot be read from",
    r"\pL": "cannot be read from",
    r"\Qa\E": "cannot be read from",
    "(?=a)": "repeats nothing",
    "(?P<n>a)": "repeats nothing",
    "a(?i)b": "repeats nothing",
    "[b-a]": "a range that is none",
    r"[\d-z]": "a range that is none",
    "[[:nope:]]": "of no known class",
    "((((((((((((((((((((( a )))))))))))))))))))))": "nested more than 20 deep",
    "(abc){100}": f"more than {MAX_POSITIONS} places",
    "a" * 501: "at most 500 characters",
}


@pytest.mark.parametrize("pattern", REFUSED)
def test_other_patterns_are_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(QuestionError) as refusal:
        cost_of(pattern)
    assert REFUSED[pattern] in str(refusal.value)


def test_flags_are_read_at_the_beginning_and_by_name() -> None:
    assert flags_of("(?is)a") == ("a", "is")
    assert flags_of("(?:a)") == ("(?:a)", "")
    with pytest.raises(QuestionError, match="The flags of a pattern are"):
        cost_of("a", "g")


@pytest.mark.parametrize(
    ("pattern", "expected"), [("^a+$", True), ("^a|b$", False), ("^(a|b)$", True), (r"\Aa\z", True), ("^a", False)]
)
def test_a_pattern_of_a_whole_text_is_known(pattern: str, expected: bool) -> None:
    assert whole(pattern) is expected


def test_a_pattern_costs_what_its_places_cost() -> None:
    places = {
        "": 0,
        "(foo|bar)+": 6,
        r"\d{4}-\d{2}": 7,
        "[^/]*x?": 2,
        r"\bword\b$": 4,
        "(a|b){0}c": 1,
        "(ab){2,}": 4,
        "a{1,9}": 9,
    }
    few = {"", "(foo|bar)+", "[^/]*x?", r"\bword\b$", "(a|b){0}c", "(ab){2,}"}  # of at most 2⁷ sets of places
    expected = {pattern: 50 if pattern in few else 400 + 20 * n for pattern, n in places.items()}
    assert {pattern: cost_of(pattern) for pattern in places} == expected
    assert cost_of("a text that stands for itself") == 50


ATOMS = [
    "a",
    "b",
    "é",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\D",
    "(a|b)",
    "[a-c-]",
    "[]x]",
    "[[:alpha:]_]",
    r"\.",
    "",
    "^",
    "$",
]
SIGNS = ["", "", "", "*", "+", "?", "{2}", "{0,3}", "{1,}", "*?", "{0}"]
TEXTS = ["", "a", "ab", "abab", "b.a", "é", "aé-x]", "a\nb", "ABBA", "_1 2", "xx]", "b" * 30]


def test_what_is_accepted_never_fails_in_the_engine_and_case_is_folded_as_there() -> None:
    """Every pattern of the grammar is one of RE2's: whatever is charged for can be matched."""
    dice, accepted = Random(7), 0
    with duckdb.connect() as engine:
        for _ in range(400):
            pattern = "".join(dice.choice(ATOMS) + dice.choice(SIGNS) for _ in range(dice.randint(1, 5)))
            pattern = dice.choice([pattern, f"({pattern})", f"{pattern}|b", f"(?:{pattern})+", f"(?i){pattern}"])
            try:
                plain, flags = flags_of(pattern)
                cost_of(plain, flags)
            except HushError:
                continue
            accepted += 1
            query = "SELECT list(regexp_matches(t, ?, ?)), list(regexp_matches(t, ?)) FROM (SELECT unnest(?) AS t)"
            ours, theirs = engine.execute(query, [plain, flags, pattern, TEXTS]).fetchone() or ((), ())
            assert ours == theirs, pattern
    assert accepted > 150, accepted
