"""The catalogue that the SQL door shows to tools: names keep to their scope, and no statement makes long texts."""

from __future__ import annotations

import contextlib

import pytest

from hush.query.errors import QuestionError
from hush.server.pgwire.catalogue import SystemCatalogue, labelled, parsed, rewritten


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM (WITH duckdb_settings AS (SELECT 1) SELECT * FROM duckdb_settings) q, duckdb_settings",
        "WITH duckdb_settings AS (SELECT * FROM duckdb_settings) SELECT * FROM duckdb_settings",
        "WITH RECURSIVE duckdb_settings AS (SELECT * FROM duckdb_settings) SELECT * FROM duckdb_settings",
        "WITH a AS (SELECT * FROM duckdb_settings), duckdb_settings AS (SELECT 1) SELECT * FROM a",
        "WITH duckdb_settings AS (SELECT 1) SELECT * FROM main.duckdb_settings",
        "WITH hush_types AS (SELECT 1) SELECT * FROM hush.main.hush_types",
        "SELECT (WITH visits AS (SELECT 1 AS x) SELECT x FROM visits), COUNT(*) FROM visits",
    ],
)
def test_a_name_made_in_one_place_names_nothing_in_another(statement):
    catalogue = SystemCatalogue([])
    assert catalogue.run(statement) is None
    with pytest.raises(QuestionError, match="The catalogue has no table"):  # and should it be taken for one after all
        rewritten(labelled(parsed(statement)))
    catalogue.close()


def test_a_recursive_table_does_not_begin_with_another_of_its_name():
    union = "SELECT name FROM duckdb_settings UNION ALL SELECT name FROM duckdb_settings WHERE false"
    with contextlib.closing(SystemCatalogue([])) as catalogue, pytest.raises(QuestionError):
        catalogue.run(f"WITH RECURSIVE duckdb_settings AS ({union}) SELECT * FROM duckdb_settings")


def test_common_tables_are_found_where_they_are_known():
    catalogue = SystemCatalogue([])
    for statement, rows in (
        ("WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT b.y, A.x FROM b, a", [(2, 1)]),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT n FROM t",
            [(1,), (2,), (3,)],
        ),
        ("SELECT * FROM (WITH c AS (SELECT 2 AS z) SELECT * FROM c) q", [(2,)]),
        ('WITH "Tab" AS (SELECT 1 AS x) SELECT "Tab".x FROM "Tab"', [(1,)]),
        ("WITH Tab AS (SELECT 1 AS x) SELECT x FROM TAB", [(1,)]),
        ("WITH pg_class AS (SELECT 7 AS x) SELECT x FROM pg_class", [(7,)]),
    ):
        assert catalogue.run(statement)[1] == rows
    catalogue.close()


def nested(text: str, levels: int) -> str:
    for _ in range(levels):
        text = f"SELECT t || t AS t FROM ({text}) s"
    return text


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT repeat('x', 10000000) FROM generate_series(1, 10000)",
        "SELECT lpad('x', 10000000, 'y')",
        "SELECT pg_catalog.replace('x', 'x', 'yy')",
        nested("SELECT 'x' AS t", 30),
        "WITH RECURSIVE r AS (SELECT 'x' AS t UNION ALL SELECT t || t FROM r) SELECT length(max(t)) FROM r",
        f"SELECT '{'x' * 2000}'",
    ],
)
def test_no_statement_about_the_catalogue_makes_long_texts(statement):
    with contextlib.closing(SystemCatalogue([])) as catalogue, pytest.raises(QuestionError):
        catalogue.run(statement)


def test_texts_gathered_from_rows_are_cut():
    with contextlib.closing(SystemCatalogue([])) as catalogue:
        for call in ("string_agg(x::text, ',' ORDER BY x)", "array_to_string(array_agg(x), ',')"):
            _, [(length,)] = catalogue.run(
                f"SELECT length(t) FROM (SELECT {call} AS t FROM generate_series(1, 9999) s(x)) u"
            )
            assert length == 1000


def test_what_format_is_given_is_rewritten_too():
    with contextlib.closing(SystemCatalogue([])) as catalogue:
        assert catalogue.run("SELECT format('<%s>', json_build_object('a', 1))")[1] == [("<>",)]
        assert catalogue.run("SELECT format('%I', format('%s', 'a b'))")[1] == [('"a b"',)]
    sql = rewritten(labelled(parsed("SELECT format('%s %s', current_date, current_timestamp)"))).sql("duckdb")
    assert "CURRENT_DATE" not in sql
    assert "CURRENT_TIMESTAMP" not in sql
