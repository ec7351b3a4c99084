"""SQL is made of pieces that are escaped where they are made, and nothing of a question stays behind."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from hush import protect
from hush.engines.spark.dialect import SPARK
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.nodes import (
    PEERS,
    Double,
    ParameterRows,
    Select,
    Subquery,
    case,
    column,
    count,
    integer,
    null,
    read,
    select,
    text,
    total,
    window,
)
from hush.engines.sql.render import MOST, render, text_of
from hush.query.errors import UnplannableError


@pytest.fixture(scope="module")
def connection():
    import duckdb

    with duckdb.connect() as made:
        made.execute('CREATE TABLE "place" AS SELECT * FROM (VALUES (1, 2), (1, 3), (2, NULL), (NULL, 5)) AS t(a, b)')
        yield made


A, B = column("a", "s"), column("b", "s")
PLACE = read("place", "s")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (integer(1) - integer(-2), 3),
        (integer(2) - (integer(1) - 1), 2),
        (-(integer(1) + 2), -3),
        (~(integer(1).equals(2) | integer(1).equals(1)), False),
        (~integer(1).one_of([integer(2)]), True),
        (integer(1).one_of([]), False),
        (null("BIGINT").matches(null("BIGINT"), "BIGINT"), True),
        (integer(5).between(integer(1), integer(3)) & integer(1).equals(integer(1)), False),
        (integer(9).clamped(integer(-3), integer(4)), 4),
        (integer(-9).clamped(integer(-3), None), -3),
        (null("BIGINT").clamped(integer(-3), integer(4)), None),
        (case((null("BIGINT").not_null(), integer(1)), otherwise=integer(2)), 2),
        (integer(-(2**63)), -(2**63)),
        (integer(2**100), 2**100),
        (Double(-3), -3.0),
        (text("it's").operation("||", text("\0--")), "it's--"),
    ],
)
def test_a_piece_means_what_it_says_wherever_it_stands(connection, value, expected) -> None:
    assert connection.execute(text_of(select([value.alias("v")]))).fetchall() == [(expected,)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (select([count().alias("n"), total(B).alias("s")], PLACE), [(4, 10)]),
        (
            select([count(column("a", "t").not_null()).alias("n")], select([A], PLACE).where(B.not_null())),
            [(2,)],
        ),
        (select([A, count().alias("n")], PLACE).grouped([A]).first_rows(2, A), [(1, 2), (2, 1)]),
        (select([A], PLACE).grouped([A], having=count() > 1), [(1,)]),
        (select([B], PLACE).where(A.equals(integer(1))).where(B > 2), [(3,)]),
        (
            select([B], PLACE).joined(
                Subquery((select([integer(2).alias("x")]),), "o"), "inner", A.equals(column("x", "o"))
            ),
            [(None,)],
        ),
        (select([count().alias("n")], Subquery((select([A], PLACE), select([B], PLACE)), "t")), [(8,)]),
        (select([count().alias("n")], read("few", "t")).with_before("few", select([A], PLACE)), [(4,)]),
        (
            select([window("count", [A], [B], B, frame=PEERS).alias("n")], PLACE).first_rows(9, column("n")),
            [(0,), (1,)],
        ),
    ],
)
def test_queries(connection, query: Select, expected) -> None:
    assert connection.execute(text_of(query)).fetchall() == expected


def test_labels_are_the_names_of_columns() -> None:
    assert select([A, B.alias('odd"name')], PLACE).labels == ["a", 'odd"name']


def test_what_multiplies_without_end_is_refused() -> None:
    value = column("x", "t")
    for _ in range(60):  # 2⁶⁰ mentions of a column, of sixty nodes
        value = value + value
    with pytest.raises(UnplannableError, match="too large"):
        render(select([value.alias("x")], PLACE), DUCKDB)
    long = text("x" * (MOST // 2)).alias("x")
    assert len(render(select([long], PLACE), DUCKDB).text) < MOST
    with pytest.raises(UnplannableError, match="too large"):
        render(select([column("x", "t")], select([long, long, long], PLACE)), DUCKDB)


def test_deep_trees_need_no_recursion() -> None:
    value = column("x", "t")
    for _ in range(5000):
        value = -value
    query = select([value.alias("x")], PLACE)
    assert render(query, DUCKDB).text.count("(-(") == 5000
    assert query.cost > 15_000


def test_questions_leave_nothing_behind() -> None:
    frame = pa.table({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5]})

    def objects_after(first: int, last: int) -> int:
        for number in range(first, last):
            _, how = curator.plan(f"SELECT AVG(x), MEDIAN(x) FROM data WHERE x > 0.{number:06}1", epsilon=1)
            desk.engine.prepare(how)
        gc.collect()
        return len(gc.get_objects())

    with protect(frame, unit="id", bounds={"x": (0, 3)}, budget=1000) as curator:
        (desk,) = curator.data_sets.values()
        begin = objects_after(0, 20)
        assert objects_after(20, 60) - begin < 40 * 20


def test_the_lists_of_a_question_have_one_view_each() -> None:
    """Statements of one question run in one session: a view of one must not be taken for that of another."""
    lists = [ParameterRows(((number, "BIGINT"), (number + 1, "INTEGER")), "l", ("k", "c")) for number in (1, 3)]
    first, second = (render(select([column("k", "l")], rows), SPARK, views="hush_7") for rows in lists)
    assert not dict(first.views).keys() & dict(second.views).keys()
    both = render(select([column("k", "l")], lists[0]).joined(lists[1], "cross"), SPARK, views="hush_7")
    assert dict(both.views) == {**dict(first.views), **dict(second.views)}
