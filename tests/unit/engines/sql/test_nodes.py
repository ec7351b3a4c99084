"""SQL is made of pieces that are escaped where they are made, and nothing of a question stays behind."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from hush import protect
from hush.engines.duckdb.session import text_of
from hush.engines.spark.dialect import SPARK
from hush.engines.sql.cost import cost
from hush.engines.sql.dialect import DUCKDB
from hush.engines.sql.nodes import (
    PEERS,
    Between,
    ParameterRows,
    Select,
    Subquery,
    Union,
    alias,
    binary,
    case,
    clamped,
    column,
    count,
    double,
    first_rows,
    grouped,
    integer,
    joined,
    matches,
    not_null,
    null,
    one_of,
    read,
    select,
    text,
    total,
    where,
    window,
    with_before,
)
from hush.engines.sql.render import MOST, render
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
        (binary("-", integer(1), integer(-2)), 3),
        (binary("-", integer(2), binary("-", integer(1), integer(1))), 2),
        (-(integer(1) + 2), -3),
        (~(binary("=", integer(1), 2) | binary("=", integer(1), 1)), False),
        (~one_of(integer(1), [integer(2)]), True),
        (one_of(integer(1), []), False),
        (matches(null("BIGINT"), null("BIGINT"), "BIGINT"), True),
        (binary("AND", Between(integer(5), integer(1), integer(3)), binary("=", integer(1), integer(1))), False),
        (clamped(integer(9), integer(-3), integer(4)), 4),
        (clamped(integer(-9), integer(-3), None), -3),
        (clamped(null("BIGINT"), integer(-3), integer(4)), None),
        (case((not_null(null("BIGINT")), integer(1)), otherwise=integer(2)), 2),
        (integer(-(2**63)), -(2**63)),
        (integer(2**100), 2**100),
        (double(-3), -3.0),
        (binary("||", text("it's"), text("\0--")), "it's--"),
    ],
)
def test_a_piece_means_what_it_says_wherever_it_stands(connection, value, expected) -> None:
    assert connection.execute(text_of(select([alias(value, "v")]))).fetchall() == [(expected,)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (select([alias(count(), "n"), alias(total(B), "s")], PLACE), [(4, 10)]),
        (
            select([alias(count(not_null(column("a", "t"))), "n")], where(select([A], PLACE), not_null(B))),
            [(2,)],
        ),
        (first_rows(grouped(select([A, alias(count(), "n")], PLACE), [A]), 2, A), [(1, 2), (2, 1)]),
        (grouped(select([A], PLACE), [A], having=binary(">", count(), integer(1))), [(1,)]),
        (where(where(select([B], PLACE), binary("=", A, integer(1))), binary(">", B, integer(2))), [(3,)]),
        (
            joined(
                select([B], PLACE),
                Subquery(select([alias(integer(2), "x")]), "o"),
                "inner",
                binary("=", A, column("x", "o")),
            ),
            [(None,)],
        ),
        (select([alias(count(), "n")], Union((select([A], PLACE), select([B], PLACE)), "t")), [(8,)]),
        (with_before(select([alias(count(), "n")], read("few", "t")), "few", select([A], PLACE)), [(4,)]),
        (
            first_rows(select([alias(window("count", [A], [B], B, frame=PEERS), "n")], PLACE), 9, column("n")),
            [(0,), (1,)],
        ),
    ],
)
def test_queries(connection, query: Select, expected) -> None:
    assert connection.execute(text_of(query)).fetchall() == expected


def test_labels_are_the_names_of_columns() -> None:
    assert select([A, alias(B, 'odd"name')], PLACE).labels == ["a", 'odd"name']


def test_what_multiplies_without_end_is_refused() -> None:
    value = column("x", "t")
    for _ in range(60):  # 2⁶⁰ mentions of a column, of sixty nodes
        value = binary("+", value, value)
    with pytest.raises(UnplannableError, match="too large"):
        render(select([alias(value, "x")], PLACE), DUCKDB)
    long = alias(text("x" * (MOST // 2)), "x")
    assert len(render(select([long], PLACE), DUCKDB).text) < MOST
    with pytest.raises(UnplannableError, match="too large"):
        render(select([column("x", "t")], select([long, long, long], PLACE)), DUCKDB)


def test_deep_trees_need_no_recursion() -> None:
    value = column("x", "t")
    for _ in range(5000):
        value = -value
    query = select([alias(value, "x")], PLACE)
    assert render(query, DUCKDB).text.count("(-(") == 5000
    assert cost(query) > 15_000


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
        assert objects_after(20, 120) - begin < 100 * 20


def test_the_lists_of_a_question_have_one_view_each() -> None:
    """Statements of one question run in one session: a view of one must not be taken for that of another."""
    lists = [ParameterRows(((number, "BIGINT"), (number + 1, "INTEGER")), "l", ("k", "c")) for number in (1, 3)]
    first, second = (render(select([column("k", "l")], rows), SPARK, views="hush_7") for rows in lists)
    assert not dict(first.views).keys() & dict(second.views).keys()
    both = render(joined(select([column("k", "l")], lists[0]), lists[1], "cross"), SPARK, views="hush_7")
    assert dict(both.views) == {**dict(first.views), **dict(second.views)}
