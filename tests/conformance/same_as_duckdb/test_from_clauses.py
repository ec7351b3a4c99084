# ruff: noqa: E501 - a statement is read best in one line
"""Everything that FROM and subqueries may say means what DuckDB takes it to mean, on the tables of a small TPC-H."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from duckdb_oracle import answered, assert_same_rows, plain_duckdb
from tpch import tables, written

import hush
from hush.curator.curator import Curator

SAME = [
    "SELECT COUNT(*) AS n FROM main.orders",
    'SELECT COUNT(*) AS n FROM orders AS "O o" WHERE "O o".o_orderstatus = \'F\'',
    "SELECT COUNT(*) AS n FROM main.orders WHERE main.orders.o_orderstatus = 'F'",
    "SELECT COUNT(*) AS n FROM (orders JOIN lineitem ON l_orderkey = o_orderkey)",
    "SELECT COUNT(*) AS n FROM nation JOIN (customer JOIN orders ON o_custkey = c_custkey) ON c_nationkey = n_nationkey",
    "SELECT COUNT(*) AS n FROM nation RIGHT JOIN customer ON c_nationkey = n_nationkey",
    "SELECT COUNT(*) AS n, COUNT(o_totalprice) AS m FROM customer FULL JOIN orders ON o_custkey = c_custkey",
    "SELECT n_name, COUNT(c_acctbal) AS n FROM nation LEFT JOIN customer ON c_nationkey = n_nationkey GROUP BY n_name",
    "SELECT n_name, SUM(c_acctbal) AS s FROM nation n LEFT JOIN customer c ON c.c_nationkey = n.n_nationkey GROUP BY 1 HAVING SUM(c_acctbal) > 1000",
    (
        "SELECT COUNT(*) AS n FROM customer c LEFT JOIN (SELECT o_custkey AS c_custkey FROM orders WHERE o_totalprice > 390000) o "
        "ON o.c_custkey = c.c_custkey WHERE o.c_custkey IS NULL AND c_acctbal > 0"
    ),
    (
        "WITH o AS (SELECT o_custkey AS c_custkey, COUNT(*) AS k FROM orders GROUP BY o_custkey) SELECT COUNT(*) AS n, SUM(CASE WHEN k < 10 THEN k ELSE 10 END) AS s "
        "FROM customer c LEFT JOIN o USING (c_custkey) WHERE o.c_custkey IS NOT NULL AND k < 10"
    ),
    (  # a column that has the unit's name, and is another
        "SELECT COUNT(*) AS n FROM customer c LEFT JOIN (SELECT o_custkey AS k, NULLIF(o_orderstatus, 'F') AS c_custkey FROM orders) o "
        "ON o.k = c.c_custkey WHERE o.c_custkey IS NULL"
    ),
    (
        "WITH o(k, c_custkey) AS (SELECT o_custkey, NULLIF(o_orderstatus, 'F') FROM orders) SELECT COUNT(*) AS n FROM customer c LEFT JOIN o "
        "ON o.k = c.c_custkey WHERE o.c_custkey IS NOT NULL"
    ),
    (  # the unit under another name
        "SELECT COUNT(*) AS n FROM customer c LEFT JOIN (SELECT k FROM (SELECT DISTINCT o_custkey AS k FROM orders WHERE o_totalprice > 390000) t) o "
        "ON o.k = c.c_custkey WHERE o.k IS NULL"
    ),
    # whether a customer has an order is tested, and read again: an ANTI JOIN would lose what is read
    "SELECT COUNT(o.o_custkey) AS n FROM customer c LEFT JOIN orders o ON o.o_custkey = c.c_custkey WHERE o.o_custkey IS NULL",
    "SELECT COUNT(*) FILTER (WHERE o.o_custkey IS NULL) AS n FROM customer c LEFT JOIN orders o ON o.o_custkey = c.c_custkey WHERE o.o_custkey IS NULL",
    "SELECT COUNT(*) AS n FROM customer c LEFT JOIN orders o ON o.o_custkey = c.c_custkey WHERE o.o_custkey IS NULL AND o.o_custkey IS NULL",
    "SELECT COUNT(*) AS n FROM customer c LEFT JOIN orders o ON o.o_custkey = c.c_custkey WHERE o.o_custkey IS NULL AND (o.o_custkey IS NULL OR c_acctbal > 0)",
    # one row of a public table, of which nothing is read
    "SELECT COUNT(*) AS n FROM (SELECT o_custkey, COUNT(*) AS k FROM orders GROUP BY o_custkey) o JOIN (SELECT MAX(n_nationkey) AS m FROM nation) t ON TRUE",
    "SELECT COUNT(*) AS n FROM customer LEFT JOIN (SELECT MAX(n_nationkey) AS m, COUNT(*) AS k FROM nation) t ON TRUE",
    "SELECT COUNT(*) AS n FROM customer SEMI JOIN orders ON o_custkey = c_custkey",
    "SELECT COUNT(*) AS n FROM customer ANTI JOIN orders ON o_custkey = c_custkey",
    "SELECT COUNT(*) AS n FROM customer SEMI JOIN nation ON n_nationkey = c_nationkey AND n_name < 'F'",
    "SELECT COUNT(*) AS n FROM customer WHERE c_custkey IN (SELECT o_custkey FROM orders WHERE o_totalprice > 390000)",
    "SELECT COUNT(*) AS n FROM customer WHERE c_custkey NOT IN (SELECT o_custkey FROM orders WHERE o_totalprice > 9)",
    "SELECT COUNT(*) AS n FROM orders WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem WHERE l_quantity > 40)",
    (
        "SELECT COUNT(*) AS n FROM orders WHERE o_orderkey IN "
        "(SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING SUM(l_quantity) > 100)"
    ),
    "SELECT COUNT(*) AS n FROM customer WHERE c_nationkey IN (SELECT n_nationkey FROM nation WHERE n_name < 'G')",
    "SELECT COUNT(*) AS n FROM customer WHERE c_nationkey NOT IN (SELECT n_nationkey FROM nation WHERE n_name < 'G')",
    "SELECT COUNT(*) AS n FROM customer WHERE c_nationkey NOT IN (SELECT NULLIF(n_nationkey, 3) FROM nation)",
    "SELECT COUNT(*) AS n FROM customer WHERE c_nationkey NOT IN (SELECT n_nationkey FROM nation WHERE n_name < 'A')",
    (
        "SELECT COUNT(*) AS n FROM customer WHERE c_nationkey IN (SELECT n_nationkey FROM nation WHERE n_name < 'G') "
        "OR c_acctbal > 5000"
    ),
    "SELECT COUNT(*) AS n FROM customer WHERE c_acctbal > (SELECT AVG(s_acctbal) FROM supplier)",
    "SELECT COUNT(*) AS n FROM customer c WHERE (SELECT COUNT(*) FROM orders o WHERE o.o_custkey = c.c_custkey) > 8",
    "SELECT COUNT(*) AS n FROM customer c WHERE (SELECT COUNT(*) FROM orders o WHERE o.o_custkey = c.c_custkey) = 0",
    (
        "SELECT COUNT(*) AS n FROM customer c "
        "WHERE COALESCE((SELECT MAX(o_totalprice) FROM orders o WHERE o.o_custkey = c.c_custkey), 7) = 7"
    ),
    "SELECT SUM(v) AS s FROM customer JOIN (VALUES ('BUILDING', 2), ('MACHINERY', 3)) AS t(seg, v) ON c_mktsegment = seg",
    "SELECT COUNT(*) AS n FROM customer SEMI JOIN GENERATE_SERIES(2, 12, 2) AS t(i) ON c_nationkey = i",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT o_custkey, o_orderpriority FROM orders) t",
    (
        "SELECT COUNT(*) AS n FROM (SELECT COUNT(*) FILTER (WHERE o_totalprice > 9) OVER (PARTITION BY o_custkey) AS k "
        "FROM orders) WHERE k > 3"
    ),
    "SELECT o_orderpriority, COUNT(*) AS n FROM (SELECT DISTINCT o_custkey, o_orderpriority FROM orders) t GROUP BY 1",
    (
        "SELECT COUNT(*) AS n FROM customer JOIN "
        "(SELECT n_regionkey, MAX(n_nationkey) AS m FROM nation GROUP BY n_regionkey) r ON c_nationkey = m"
    ),
    (
        "SELECT COUNT(*) AS n FROM lineitem l1, orders WHERE l1.l_orderkey = o_orderkey AND EXISTS (SELECT * FROM lineitem l2 "
        "WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey) AND NOT EXISTS (SELECT * FROM lineitem l3 "
        "WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey <> l1.l_suppkey AND l3.l_receiptdate > l3.l_commitdate)"
    ),
    (
        "SELECT COUNT(*) AS n FROM customer WHERE EXISTS (SELECT 1 FROM nation WHERE n_nationkey = c_nationkey "
        "AND n_name > 'G') AND (c_nationkey, 1) IN (SELECT s_nationkey, 1 FROM supplier)"
    ),
    (
        "SELECT COUNT(*) AS n, SUM(o_totalprice) AS s FROM (SELECT o_custkey, o_totalprice, ROW_NUMBER() OVER "
        "(PARTITION BY o_custkey ORDER BY o_orderdate, o_totalprice) AS r FROM orders) t WHERE r = 1"
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT o_custkey, o_totalprice FROM orders QUALIFY "
        "ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_orderdate DESC, o_totalprice) <= 2) t"
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT o_custkey, o_orderdate - LAG(o_orderdate) OVER "
        "(PARTITION BY o_custkey ORDER BY o_orderdate) AS gap FROM orders) t WHERE gap < 100"
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT o_custkey, RANK() OVER (PARTITION BY o_custkey ORDER BY o_orderpriority) AS r "
        "FROM orders QUALIFY r = 1) t"
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT o_custkey, SUM(o_totalprice) OVER (PARTITION BY o_custkey ORDER BY o_orderdate) "
        "AS running FROM orders) t WHERE running > 500000"
    ),
    (
        "SELECT COUNT(*) AS n FROM (SELECT o_custkey, SUM(o_totalprice) OVER (PARTITION BY o_custkey ORDER BY o_orderdate, "
        "o_orderkey ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM orders) t WHERE s > 400000"
    ),
    (
        "SELECT COUNT(*) AS n, COUNT(m) AS m FROM (SELECT o_custkey, MAX(o_totalprice) OVER (w ROWS BETWEEN 2 FOLLOWING AND "
        "3 FOLLOWING) AS m, COUNT(*) OVER w AS k FROM orders WINDOW w AS (PARTITION BY o_custkey ORDER BY o_orderdate, "
        "o_orderkey)) t WHERE k > 1"
    ),
    (
        "SELECT COUNT(*) AS n, SUM(o_totalprice) AS s FROM (SELECT o_custkey, o_totalprice FROM orders QUALIFY "
        "ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_orderdate, o_orderkey) = 1) t"
    ),
    "SELECT COUNT(*) AS n FROM (SELECT *, COUNT(*) OVER (PARTITION BY l_orderkey) AS k FROM lineitem) t WHERE k > 3",
]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Curator, duckdb.DuckDBPyConnection]]:
    made = tables()
    path = written(tmp_path_factory.mktemp("tpch"), made)
    with plain_duckdb(made) as plain, hush.open(path, create=True) as curator:
        yield curator, plain


@pytest.mark.parametrize("sql", SAME)
def test_a_statement_has_duckdbs_answer(bench: tuple[Curator, duckdb.DuckDBPyConnection], sql: str) -> None:
    curator, plain = bench
    ours = sorted(answered(curator.ask(sql, epsilon="1e9")))
    assert_same_rows(ours, sorted(plain.execute(sql).fetchall()), absolute=1, relative=0)


def test_conditions_on_public_tables_leave_the_keys_that_can_occur(
    bench: tuple[Curator, duckdb.DuckDBPyConnection],
) -> None:
    curator, _ = bench
    answer = curator.ask(
        "SELECT n_name, r_name, COUNT(*) AS n FROM customer, nation, region "
        "WHERE c_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' GROUP BY n_name, r_name",
        epsilon="1",
    )
    found = {(row["n_name"], row["r_name"]) for row in answer.rows()}
    assert found == {(name, "ASIA") for name in ("INDIA", "INDONESIA", "JAPAN", "CHINA", "VIETNAM")}
    months = "SELECT MONTH(o_orderdate) AS m, COUNT(*) AS n FROM orders WHERE MONTH(o_orderdate) < 4 GROUP BY m"
    assert [row["m"] for row in curator.ask(months, epsilon="1").rows()] == [1, 2, 3]


OVER = "WINDOW w AS (PARTITION BY o_custkey ORDER BY o_orderdate)"
FIRST = f"SELECT o_custkey, o_orderdate FROM orders {OVER}"


@pytest.mark.parametrize(
    ("sql", "rows", "groups"),
    [
        ("SELECT COUNT(*) FROM orders", 100, 1),
        ("SELECT COUNT(*) FROM customer SEMI JOIN orders ON o_custkey = c_custkey", 1, 1),
        ("SELECT COUNT(*) FROM customer WHERE c_custkey IN (SELECT c_custkey FROM lineitem)", 1, 1),
        (
            (
                "SELECT COUNT(*) FROM customer JOIN (SELECT o_custkey AS k, COUNT(*) AS n FROM orders GROUP BY o_custkey) t "
                "ON c_custkey = k"
            ),
            1,
            1,
        ),
        (f"SELECT COUNT(*) FROM ({FIRST} QUALIFY ROW_NUMBER() OVER w = 1)", 1, 1),
        (f"SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER w AS r FROM orders {OVER}) WHERE r < 3", 2, 1),
        (f"SELECT COUNT(*) FROM ({FIRST} QUALIFY RANK() OVER w = 1)", 100, 1),
        (
            "SELECT o_orderpriority, COUNT(*) FROM (SELECT DISTINCT o_custkey, o_orderpriority FROM orders) t GROUP BY 1",
            1,
            5,
        ),
    ],
)
def test_tables_that_make_no_rows_do_not_widen_the_limits(
    bench: tuple[Curator, duckdb.DuckDBPyConnection], sql: str, rows: int, groups: int
) -> None:
    limits = bench[0].plan(sql, epsilon="1").plan.exact_query.limits
    assert (limits.rows, limits.groups) == (rows, groups)
