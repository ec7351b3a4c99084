"""Lists: those of IN as parameters, and the columns that * stands for."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hush.curator.opening import protect
from hush.query.builder import table
from hush.query.errors import QuestionError
from hush.query.plan import plan
from hush.query.sql import parse


def test_lists_are_parameters(schema):
    text = "SELECT COUNT(*) FROM visits WHERE age {} AND disease NOT {}"
    asked = parse(text.format("IN ?", "IN ?"), schema, [[30, 31], ("Flu", "it's")])
    written = parse(text.format("IN (30, 31)", "IN ('Flu', 'it''s')"), schema)
    assert (asked.relation, asked.aggregates) == (written.relation, written.aggregates)
    assert asked.text.endswith('-- $1 = [30, 31]\n-- $2 = ["Flu", "it\'s"]')
    named = parse(text.format("IN $a", "IN $b"), schema, {"a": [30, 31], "b": ["Flu", "it's"]})
    assert named.relation == written.relation
    built = table("visits").where("age IN ?", [30, 31]).where("disease NOT IN ?", ["Flu", "it's"]).agg(n="COUNT(*)")
    assert built.question(schema).relation == written.relation


def test_nothing_is_in_an_empty_list(schema):
    """Not even NULL, as engines with empty lists have it."""
    text = "SELECT COUNT(*) AS n FROM visits WHERE {}"
    asked = parse(text.format("age IN ? AND city NOT IN ?"), schema, [[], ()])
    assert asked.relation == parse(text.format("FALSE AND NOT FALSE"), schema).relation
    assert not asked.relation.condition.type.nullable
    assert parse(text.format("age IN ()"), schema).relation == parse(text.format("FALSE"), schema).relation
    built = table("visits").where("age IN ?", []).agg(n="COUNT(*)").question(schema)
    assert built.relation == parse(text.format("FALSE"), schema).relation
    assert asked.text.endswith("-- $1 = []\n-- $2 = []")


def test_an_empty_list_counts_nobody_and_its_opposite_everybody():
    rows = pa.table({"age": [30, None, 40, None] * 25})
    with protect(rows, bounds={"age": (0, 120)}, budget="1e9") as curator:
        text = "SELECT COUNT(*) FILTER (WHERE age IN ?) AS a, COUNT(*) FILTER (WHERE age NOT IN ?) AS b FROM data"
        answer = curator.ask(text, [[], []], epsilon="1e6")  # noise other than zero: probability below e⁻¹⁰⁰⁰
        assert (answer.rows()[0]["a"], answer.rows()[0]["b"]) == (0, 100)


@pytest.mark.parametrize(
    ("text", "parameters", "words"),
    [
        ("age = ?", [[1, 2]], "is a list"),
        ("age IN ?", [3], "needs a list; got 3"),
        ("age IN ?", [[1] * 1001], "may have 1,000 values; got 1,001"),
        ("patient_id IN ?", [[]], "patient_id"),
        ("age IN ?", [[1, None]], "without NULL"),
        ("age IN ?", [[1, [2]]], "got list"),
        ("age IN ?", [["a"]], "age is integer and 'a' is text"),
        ("age IN ?", [], "missing"),
        ("age IN cost", [], "IN needs a list"),
    ],
)
def test_lists_that_are_refused(text, parameters, words, schema):
    with pytest.raises(QuestionError, match=words):
        parse(f"SELECT COUNT(*) FROM visits WHERE {text}", schema, parameters)


def test_a_mode_without_a_public_list_says_how_else_to_ask(schema):
    with pytest.raises(
        QuestionError, match=r"MODE\(name\).*no public list.*GROUP BY x ORDER BY COUNT\(\*\) DESC LIMIT 1"
    ):
        parse("SELECT MODE(name) FROM visits JOIN regions USING (region_id)", schema)
    instead = (
        "SELECT name, COUNT(*) FROM visits JOIN regions USING (region_id) GROUP BY 1 ORDER BY COUNT(*) DESC LIMIT 1"
    )
    how = plan(parse(instead, schema), schema, epsilon=1, matches=lambda *_: 1)
    assert how.exact_query.domains is not None  # the keys are public


def test_a_series_has_constant_ends(schema):
    with pytest.raises(QuestionError, match=r"series has constant ends; got GENERATE_SERIES\(1, v.age\).* s.k <= x"):
        parse("SELECT COUNT(*) FROM visits AS v, GENERATE_SERIES(1, v.age) AS s(k)", schema)


def test_star_has_the_columns_that_using_joined_once(schema):
    listed = "SELECT age, name, COUNT(*) FROM (SELECT {} FROM visits JOIN regions USING (region_id)) t GROUP BY 1, 2"
    one, other = (parse(listed.format(what), schema) for what in ("*", "visits.*, name, population"))
    assert (one.keys, one.relation) == (other.keys, other.relation)
    both = "SELECT SUM(region_id_1) FROM (SELECT * FROM visits v JOIN regions r ON {}) t"
    by_name = parse(both.format("v.region_id = r.region_id"), schema)
    assert by_name.aggregates[0].arguments[0].type.nullable is False  # the region's own number
    third = "visits JOIN regions r USING (region_id) JOIN regions s ON r.name = s.name"
    third = f"SELECT SUM(region_id_1) FROM (SELECT * FROM {third}) t"
    assert parse(third, schema).aggregates
    optional = "SELECT region_id, COUNT(*) FROM (SELECT * FROM visits LEFT JOIN regions USING (region_id)) t GROUP BY 1"
    assert parse(optional, schema).keys[0][1].type.lists_null is False  # the visit's number, not the one found
