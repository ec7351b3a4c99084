"""Which public values keys have, and what is said where there are none or too many."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hush.query.errors import UnplannableError
from hush.query.plan import plan
from hush.query.plan.keys import DerivedKey, Listed, Looked, domains
from hush.query.sql import parse


def keyed(text, schema):
    rows = "visits LEFT JOIN regions r USING (region_id)"
    return parse(f"SELECT {text} AS k, COUNT(*) AS n FROM {rows} GROUP BY ALL", schema)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("age", Listed),
        ("FLOOR(age / 10) * 10", Listed),
        ("YEAR(day)", Listed),
        ("YEAR(day) * 100 + MONTH(day)", DerivedKey),
        ("quantity * 7 + region_id", DerivedKey),
        ("FLOOR(cost) * 2 + quantity", Listed),
        ("BIN(age + quantity, 0, 100, 5)", Listed),
        ("r.region_id", Looked),
        ("r.region_id + 1", Looked),
        ("r.name", Looked),
    ],
)
def test_where_the_values_of_a_key_come_from(key, kind, schema):
    question = keyed(key, schema)
    assert isinstance(domains(question.keys, question.relation)[0], kind)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("city", "the keys k have no public list; declare their values"),
        ("income", "the keys k have no public list"),
        ("age, cost", "the keys age, k have 60,500,121 public values"),
        ("CLIP(CAST(income AS INTEGER), 0, 2000000)", "the keys k have 2,000,002 public values, more than 1,000,000"),
        ("CLIP(CAST(income AS INTEGER), -9e18, 9e18)", "the keys k have 18,000,000,000,000,000,002 public values"),
    ],
)
def test_why_keys_must_be_chosen_privately(key, words, schema):
    with pytest.raises(UnplannableError, match=words):
        plan(keyed(key, schema), schema, epsilon=1, delta=Fraction(0), key_delta=Fraction(0), matches=lambda *_: 1)
