"""SQL is made of pieces that are escaped where they are made, and nothing of a question stays behind."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from hush import protect
from hush.engines.sql.build import (
    MOST,
    PEERS,
    alias,
    between,
    binary,
    case,
    clamped,
    column,
    count,
    double,
    integer,
    matches,
    negated,
    negative,
    not_null,
    null,
    one_of,
    text,
    total,
    window,
)
from hush.engines.sql.queries import (
    Query,
    first_rows,
    grouped,
    joined,
    read,
    select,
    subquery,
    union,
    where,
    with_before,
)
from hush.engines.statements import Statement
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
        (negative(binary("+", integer(1), integer(2))), -3),
        (negated(binary("OR", binary("=", integer(1), integer(2)), binary("=", integer(1), integer(1)))), False),
        (negated(one_of(integer(1), [integer(2)])), True),
        (one_of(integer(1), []), False),
        (matches(null("BIGINT"), null("BIGINT"), "BIGINT"), True),
        (binary("AND", between(integer(5), integer(1), integer(3)), binary("=", integer(1), integer(1))), False),
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
    assert connection.execute(select([alias(value, "v")]).text).fetchall() == [(expected,)]


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
                subquery(select([alias(integer(2), "x")]), "o"),
                "inner",
                binary("=", A, column("x", "o")),
            ),
            [(None,)],
        ),
        (select([alias(count(), "n")], union([select([A], PLACE), select([B], PLACE)])), [(8,)]),
        (with_before(select([alias(count(), "n")], read("few", "t")), "few", select([A], PLACE)), [(4,)]),
        (
            first_rows(select([alias(window("count", [A], [B], B, frame=PEERS), "n")], PLACE), 9, column("n")),
            [(0,), (1,)],
        ),
    ],
)
def test_queries(connection, query: Query, expected) -> None:
    assert connection.execute(query.text).fetchall() == expected


def test_labels_are_the_names_of_columns() -> None:
    assert select([A, alias(B, 'odd"name')], PLACE).labels == ["a", 'odd"name']


def test_what_multiplies_without_end_is_refused() -> None:
    value = column("x", "t")
    while len(value) <= MOST // 2 - 9:
        value = binary("+", value, value)
    with pytest.raises(UnplannableError, match="too large"):
        binary("+", value, value)
    long = select([alias(value, "x"), alias(value, "y")], PLACE)
    with pytest.raises(UnplannableError, match="too large"):
        Statement.of(select([column("x", "t")], long))


def test_questions_leave_nothing_behind() -> None:
    frame = pa.table({"id": [1, 2, 3], "x": [0.5, 1.5, 2.5]})

    def objects_after(first: int, last: int) -> int:
        for number in range(first, last):
            _, how = curator.plan(f"SELECT AVG(x), MEDIAN(x) FROM data WHERE x > 0.{number:06}1", epsilon=1)
            desk.engine.compile(how)
        gc.collect()
        return len(gc.get_objects())

    with protect(frame, unit="id", bounds={"x": (0, 3)}, budget=1000) as curator:
        (desk,) = curator.data_sets.values()
        begin = objects_after(0, 20)
        assert objects_after(20, 120) - begin < 100 * 20
