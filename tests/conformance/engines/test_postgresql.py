"""PostgreSQL as a curator's engine: the whole way of a question, faults, roles, secrets, values that trap."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import duckdb
import psycopg
import pytest
from benches import POLICY

from hush.cli import run
from hush.core import HushError
from hush.curator.curator import Curator
from hush.curator.opening import open_policy
from hush.engines.errors import EngineError, SourceError
from hush.engines.postgresql.connection import PostgreSQLServer, PostgreSQLTransaction
from hush.engines.postgresql.dialect import POSTGRESQL
from hush.engines.sql.nodes import column, read, select
from hush.engines.sql.render import plain, render


class Clinic:
    """A schema of its own in the server, a policy over it, and its owner's connection."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder
        self.schema = f"s{uuid.uuid4().hex[:8]}"
        self.owner = psycopg.connect(address, autocommit=True)
        self.owner.execute(f"CREATE SCHEMA {self.schema}")
        self.owner.execute(
            f"CREATE TABLE {self.schema}.visits (id bigint, city text, name text, cost numeric(9,2), secret text)"
        )
        self.owner.execute(
            f"INSERT INTO {self.schema}.visits SELECT i % 200, (ARRAY['a', 'b', 'c'])[1 + i % 3], 'n' || i % 4, "
            "(i % 100) / 3.0, 'hidden' FROM generate_series(1, 1000) AS i"
        )

    def open(self, address: str | None = None) -> Curator:
        path = self.folder / "hush.toml"
        path.write_text(POLICY.format(address=address or self.address, source=f"{self.schema}.visits", groups=3))
        return open_policy(path, create=True)


@pytest.fixture
def clinic(postgresql: str, tmp_path: Path) -> Iterator[Clinic]:
    made = Clinic(postgresql, tmp_path)
    yield made
    made.owner.execute(f"DROP SCHEMA IF EXISTS {made.schema} CASCADE")
    made.owner.close()


def test_public_and_private_keys_quantiles_and_functions_of_answers(clinic: Clinic) -> None:
    with clinic.open() as curator:
        answer = curator.ask(
            "SELECT city, COUNT(*) AS n, MEDIAN(cost) AS m, 2 * COUNT(*) AS twice FROM visits GROUP BY city ORDER BY 1",
            epsilon="20",
        )
        assert [row["city"] for row in answer.rows()] == ["a", "b", "c"]
        found = curator.ask("SELECT name, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY name", epsilon="20")
        assert len(found.rows()) == 4


def backend_ends(clinic: Clinic) -> None:
    clinic.owner.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hush'")


def table_goes(clinic: Clinic) -> None:
    clinic.owner.execute(f"ALTER TABLE {clinic.schema}.visits RENAME TO gone")


def column_changes(clinic: Clinic) -> None:
    clinic.owner.execute(f"ALTER TABLE {clinic.schema}.visits RENAME COLUMN cost TO price")


def rights_go(clinic: Clinic) -> None:
    clinic.owner.execute(f"REVOKE SELECT ON {clinic.schema}.visits FROM PUBLIC")


def table_is_locked(clinic: Clinic) -> None:
    clinic.owner.execute(f"BEGIN; LOCK TABLE {clinic.schema}.visits IN ACCESS EXCLUSIVE MODE")


FAULTS = {
    "backend ended": (backend_ends, None),
    "table dropped": (table_goes, "ALTER TABLE {0}.gone RENAME TO visits"),
    "table altered": (column_changes, "ALTER TABLE {0}.visits RENAME COLUMN price TO cost"),
    "rights taken": (rights_go, "GRANT SELECT ON {0}.visits TO PUBLIC"),
    "too slow": (table_is_locked, "ROLLBACK"),
}
QUESTIONS = {
    "public keys": "SELECT city, SUM(cost) AS s FROM visits GROUP BY city",
    "private keys": "SELECT name, SUM(cost) AS s FROM visits GROUP BY name",
}


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize(("happens", "mend"), FAULTS.values(), ids=FAULTS)
def test_what_fails_after_the_charge_is_charged_and_the_next_question_works(
    clinic: Clinic, question: str, happens, mend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault comes in the middle: after the charge, when the transaction has begun and no statement has run."""
    begin = PostgreSQLServer.transaction

    @contextmanager
    def broken(server: PostgreSQLServer) -> Iterator[PostgreSQLTransaction]:
        with begin(server) as transaction:
            happens(clinic)
            yield transaction

    clinic.owner.execute(f"GRANT USAGE ON SCHEMA {clinic.schema} TO PUBLIC")
    clinic.owner.execute(f"GRANT SELECT ON {clinic.schema}.visits TO PUBLIC")
    with clinic.open(role(clinic)) as curator:
        engine = curator.data_sets["clinic"].engine
        engine.connection.server._milliseconds = 500
        curator.ask(question, epsilon="1")
        execute = type(engine).execute

        def failing(self, compiled, choose=None):
            with monkeypatch.context() as patch:
                patch.setattr(PostgreSQLServer, "transaction", broken)
                return execute(self, compiled, choose)

        before = curator.session.accounts("clinic").remaining
        with monkeypatch.context() as patch:
            patch.setattr(type(engine), "execute", failing)
            with pytest.raises(EngineError) as caught:
                curator.ask(question, epsilon="2")
        assert str(caught.value) == str(EngineError())
        assert curator.session.accounts("clinic").remaining != before
        if mend:
            clinic.owner.execute(mend.format(clinic.schema))
        assert len(curator.ask(question, epsilon="20").rows()) in {3, 4}
    left = clinic.owner.execute("SELECT count(*) FROM pg_class WHERE relpersistence = 't'").fetchone()
    assert left == (0,)
    busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hush' AND state <> 'idle'"
    assert clinic.owner.execute(busy).fetchone() == (0,)


def test_a_backend_that_ends_while_groups_come_is_one_public_error(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = PostgreSQLTransaction.stream

    def ending(self, *given):
        for part in stream(self, *given):
            yield part
            backend_ends(clinic)

    with clinic.open() as curator:
        with monkeypatch.context() as patch:
            patch.setattr(PostgreSQLTransaction, "stream", ending)
            with pytest.raises(EngineError):
                curator.ask(QUESTIONS["private keys"], epsilon="1")
        assert len(curator.ask(QUESTIONS["private keys"], epsilon="20").rows()) == 4


def test_a_statement_that_takes_too_long_is_ended(postgresql: str) -> None:
    server = PostgreSQLServer(postgresql, timeout=0.2)
    slow = plain("SELECT pg_sleep(20)")
    with pytest.raises(EngineError), server.transaction() as transaction:
        transaction.fetch(slow, {})
    with server.transaction() as transaction:
        assert transaction.fetch(plain("SELECT 1"), {}) == [(1,)]
    server.close()


def test_a_transaction_changes_nothing_and_makes_nothing(postgresql: str) -> None:
    server = PostgreSQLServer(postgresql)
    for statement in ("CREATE TABLE x (y int)", "CREATE TEMP TABLE x (y int)", "SELECT lo_create(0)"):
        with pytest.raises(EngineError), server.transaction() as transaction:
            transaction.fetch(plain(statement), {})
    server.close()


def role(clinic: Clinic, *grants: str) -> str:
    """Return the address of a new role with some rights."""
    name = f"r{uuid.uuid4().hex[:8]}"
    clinic.owner.execute(f"CREATE ROLE {name} LOGIN")
    for grant in grants:
        clinic.owner.execute(grant.format(schema=clinic.schema, role=name))
    return clinic.address.replace("postgresql://postgres:@", f"postgresql://{name}@")


def test_a_role_with_just_the_columns_is_enough_and_other_columns_are_out_of_reach(clinic: Clinic, capsys) -> None:
    usage = "GRANT USAGE ON SCHEMA {schema} TO {role}"
    columns = "GRANT SELECT (id, city, name, cost) ON {schema}.visits TO {role}"
    with clinic.open(role(clinic, usage, columns)) as curator:
        curator.ask("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon="1")
        with pytest.raises(HushError):
            curator.ask("SELECT COUNT(*) AS n FROM visits WHERE secret = 'hidden'", epsilon="1")
    assert run(["engine", "check", "--policy", str(clinic.folder / "hush.toml")]) == 0
    assert "can read what it must, and nothing else" in capsys.readouterr().out
    with pytest.raises(SourceError, match="may not read it"):
        clinic.open(role(clinic))


def test_the_check_tells_of_what_is_too_much(clinic: Clinic, capsys) -> None:
    clinic.open().close()
    assert run(["engine", "check", "--policy", str(clinic.folder / "hush.toml")]) == 2
    shown = capsys.readouterr().out
    assert "superuser" in shown
    assert f'GRANT SELECT ("city", "name", "cost", "id") ON "{clinic.schema}"."visits" TO hush_curator;' in shown


@pytest.mark.parametrize("address", ["postgresql://ann:s3cret@/x?host=/nowhere", "postgresql:///x?password=s3cret"])
def test_an_address_with_a_password_is_refused_without_repeating_it(clinic: Clinic, address: str, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(SourceError, match="holds no password") as caught:
        clinic.open(address)
    assert "s3cret" not in str(caught.value) + caplog.text


def test_a_server_that_is_not_there_is_told_without_its_address(clinic: Clinic, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(SourceError, match="cannot be reached") as caught:
        clinic.open("postgresql://ann@/x?host=/nowhere")
    assert "/nowhere" not in str(caught.value) + caplog.text
    assert "nowhere" not in repr(PostgreSQLServer("postgresql://ann@/x?host=/nowhere"))


@pytest.mark.parametrize(
    "name", ['"; DROP TABLE x; --', "a.b.c", 'x" UNION SELECT', "pg_catalog.pg_authid2", "$1", "visits; SELECT 1"]
)
def test_names_with_quotes_reach_no_other_table(clinic: Clinic, name: str) -> None:
    path = clinic.folder / "hush.toml"
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    path.write_text(POLICY.format(address=clinic.address, source=quoted, groups=3))
    with pytest.raises(HushError):
        open_policy(path, create=True)
    assert clinic.owner.execute(f"SELECT count(*) FROM {clinic.schema}.visits").fetchone() == (1000,)


def test_questions_at_once(clinic: Clinic) -> None:
    with clinic.open() as curator:
        failures: list[HushError] = []

        def ask() -> None:
            try:
                curator.ask("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", epsilon="1")
            except HushError as error:
                failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


TRAPS = [
    ("'2.5'", "BIGINT", 3), ("'-2.5'", "BIGINT", -3), ("'1e3'", "BIGINT", 1000), ("'1_000'", "BIGINT", 1000),
    ("'0x1F'", "BIGINT", 31), ("'9223372036854775808'", "BIGINT", None), ("''", "BIGINT", None),
    ("'1.5f'", "DOUBLE", None), ("'1,5'", "DOUBLE", None), ("'1e400'", "DOUBLE", float("inf")),
    ("'1e-400'", "DOUBLE", 0.0), ("'-inf'", "DOUBLE", float("-inf")), ("' 2.5 '", "DOUBLE", 2.5),
    ("'5e-324'", "DOUBLE", 5e-324), ("'1.7976931348623157e308'", "DOUBLE", 1.7976931348623157e308),
    ("'now'", "DATE", None), ("'Jan 5 2021'", "DATE", None), ("'01/02/2021'", "DATE", None), ("'2021'", "DATE", None),
    ("'2021-02-30'", "DATE", None), ("'on'", "BOOLEAN", None), ("'TRUE'", "BOOLEAN", True),
]  # fmt: skip


def asked(address: str, piece: str) -> object:
    server = PostgreSQLServer(address)
    try:
        with server.transaction() as transaction:
            return transaction.fetch(plain(f"SELECT {piece}"), {})[0][0]
    finally:
        server.close()


@pytest.mark.parametrize(("value", "to", "result"), TRAPS, ids=str)
def test_texts_are_read_by_one_grammar(postgresql: str, value: str, to: str, result: object) -> None:
    piece = POSTGRESQL.try_cast(f"CAST({value} AS text)", to, "VARCHAR")
    assert asked(postgresql, piece) == result


@pytest.mark.parametrize(
    ("piece", "result"),
    [
        (POSTGRESQL.rounded("FLOAT8 '2.5'"), 3.0),
        (POSTGRESQL.rounded("FLOAT8 '-2.5'"), -3.0),
        (POSTGRESQL.rounded("FLOAT8 '0.49999999999999994'"), 0.0),
        (POSTGRESQL.rounded("FLOAT8 '4503599627370497.5'"), 4503599627370498.0),
        (POSTGRESQL.try_cast("FLOAT8 'NaN'", "BIGINT", "DOUBLE"), None),
        (POSTGRESQL.try_cast("FLOAT8 '1e19'", "BIGINT", "DOUBLE"), None),
        (POSTGRESQL.float_operation("FLOAT8 '1e308'", "FLOAT8 '10'", operator="*", spans=()), None),
        (POSTGRESQL.float_operation("FLOAT8 '5e-324'", "FLOAT8 '0.5'", operator="*", spans=()), 0.0),
        (POSTGRESQL.float_operation("FLOAT8 '1'", "FLOAT8 '0'", operator="/", spans=()), None),
        (POSTGRESQL.call("exp", ["FLOAT8 '1000'"]), None),
        (POSTGRESQL.call("trim", ["'\u00a0a'"]), "a"),
        (POSTGRESQL.like("'a\\b'", characters=[(sign, False) for sign in "a\\b"]), True),
        (POSTGRESQL.like("'a%'", characters=[(sign, False) for sign in "a\\%"]), False),
        (POSTGRESQL.quotient("-7", "2"), -3),
        (POSTGRESQL.cast("FLOAT8 '9007199254740994'", "HUGEINT", "DOUBLE"), 9007199254740994),
        (POSTGRESQL.date_diff("DATE '2020-01-31'", "DATE '2020-02-01'", unit="month"), 1),
        (POSTGRESQL.call("dayofweek", ["DATE '2021-01-03'"]), 0),
        (POSTGRESQL.moved("TIMESTAMP '0001-01-01'", months=-12 * 9000, days=0, microseconds=0), None),
    ],
)
def test_values_that_trap(postgresql: str, piece: str, result: object) -> None:
    assert asked(postgresql, piece) == result


UNDEFINED_POLICY = """
[data.d]
{engine}
unit = "id"
budget = {{ epsilon = "1e9", delta = "1e-6" }}
[data.d.tables.t]
source = "{source}"
max_rows = 2
max_groups = 1
[data.d.tables.t.columns]
x = {{ type = "decimal" }}
w = {{ type = "text" }}
[analysts.ann]
data = ["d"]
budget = {{ epsilon = "1e9", delta = "1e-6" }}
"""
UNDEFINED = [
    ("SELECT COUNT(LN(x)) AS n FROM t", 2), ("SELECT COUNT(SQRT(x)) AS n FROM t", 4),
    ("SELECT COUNT(*) AS n FROM t WHERE LN(x) IS NULL", 6), ("SELECT COUNT(*) AS n FROM t WHERE SQRT(x) IS NULL", 4),
    ("SELECT SUM(CLIP(LN(x), 0, 1)) AS n FROM t", 2), ("SELECT SUM(CLIP(SQRT(x), 0, 2)) AS n FROM t", 4),
    ("SELECT SUM(CLIP(x, 0, 4)) FILTER (WHERE LN(x) > 0 OR SQRT(x) >= 2) AS n FROM t", 8),
    ("SELECT COUNT(*) FILTER (WHERE LN(x - 1) > 0) AS n FROM t", 2),
    ("SELECT COUNT(CASE WHEN x > 0 THEN LN(x) ELSE SQRT(x) END) AS n FROM t", 4),
    ("SELECT COUNT(CASE WHEN LN(x) > 0 THEN 1 WHEN SQRT(x) >= 0 THEN 2 END) AS n FROM t", 4),
    ("SELECT COUNT(CASE WHEN x > 0 THEN LN(-1) ELSE SQRT(-1) END) AS n FROM t", 0),
    ("SELECT COUNT(CASE WHEN x > 0 THEN LN(0) ELSE 1 END) AS n FROM t", 6),
    ("SELECT COUNT(*) AS n FROM t WHERE x > LN(0) OR x > SQRT(-1) OR x >= 0", 4),
    ("SELECT COUNT(COALESCE(LN(0 * x), SQRT(0 * x - 1), 7)) AS n FROM t", 8),
    ("SELECT COUNT(LN(k)) + COUNT(SQRT(k)) AS n FROM (SELECT id, -1 AS k FROM t)", 0),
    ("SELECT COUNT(LN(k)) AS n FROM (SELECT id, CASE WHEN x > 0 THEN 0 ELSE -1 END AS k FROM t)", 0),
    ("SELECT COUNT(LN(CAST(w AS DOUBLE))) + COUNT(SQRT(CAST(w AS DOUBLE))) AS n FROM t", 6),
    ("SELECT COUNT(LN(s)) + COUNT(SQRT(s)) AS n FROM (SELECT id, SUM(CLIP(x, -9, 9)) AS s FROM t GROUP BY id)", 3),
    ("SELECT COUNT(s) AS n FROM (SELECT id, SUM(CLIP(LN(x), -9, 9)) AS s FROM t GROUP BY id)", 1),
]  # fmt: skip


@pytest.fixture(scope="module", params=["postgresql", "duckdb"])
def undefined(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Curator]:
    """Give two rows of each of four units: 4 twice, 0 and 0, -1 and NaN, NULL and infinity."""
    numbers = ["4", "4", "0", "0", "-1", "nan", None, "inf"]
    rows = [(1 + at // 2, number and float(number), number) for at, number in enumerate(numbers)]
    folder = tmp_path_factory.mktemp("undefined")
    if request.param == "duckdb":
        engine, source = "", str(folder / "t.duckdb")
        with duckdb.connect(source) as base:
            base.execute("CREATE TABLE t (id BIGINT, x DOUBLE, w VARCHAR)")
            base.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    else:
        engine, source = f'engine = "{request.getfixturevalue("postgresql")}"', "public.undefined"
        with psycopg.connect(request.getfixturevalue("postgresql"), autocommit=True) as owner:
            owner.execute("DROP TABLE IF EXISTS public.undefined")
            owner.execute("CREATE TABLE public.undefined (id bigint, x float8, w text)")
            owner.cursor().executemany("INSERT INTO public.undefined VALUES (%s, %s, %s)", rows)
    place = folder / "hush.toml"
    place.write_text(UNDEFINED_POLICY.format(engine=engine, source=source))
    with open_policy(place, create=True) as curator:
        yield curator


@pytest.mark.parametrize(("sql", "expected"), UNDEFINED)
def test_logarithms_and_roots_that_are_undefined_are_null(undefined: Curator, sql: str, expected: int) -> None:
    """Engines raise there, and fold constants before they look at CASE; no row may decide whether a question fails."""
    assert undefined.ask(sql, epsilon=10**6, fresh=True).rows()[0]["n"] == pytest.approx(expected, abs=0.01)


def test_columns_of_all_types_are_read(clinic: Clinic) -> None:
    from hush.engines.postgresql import PostgreSQLTables
    from hush.query.schema import Schema, Table
    from hush.query.types import Kind, Type

    clinic.owner.execute(
        f"CREATE TABLE {clinic.schema}.odd (a int2, b real, c numeric, d char(3), e uuid, f timestamptz, "
        "g jsonb, h bool, i numeric(5, 2))"
    )
    clinic.owner.execute(
        f"INSERT INTO {clinic.schema}.odd VALUES (1, 'NaN', '1e400', 'a', gen_random_uuid(), 'infinity', '{{}}', true, "
        "'NaN'), (2, 1.5, 'NaN', 'b', NULL, '2021-01-01 12:00+02', NULL, NULL, 1.25)"
    )
    with PostgreSQLTables(clinic.address, {"odd": f"{clinic.schema}.odd"}) as opened:
        assert opened.types["odd"] == {
            "a": "SMALLINT", "b": "FLOAT", "c": "DOUBLE", "d": "VARCHAR", "e": "VARCHAR", "f": "TIMESTAMP",
            "g": "jsonb", "h": "BOOLEAN", "i": "DECIMAL(5,2)",
        }  # fmt: skip
        declared = {"c": Type(kind=Kind.DECIMAL), "f": Type(kind=Kind.TIMESTAMP)}
        place = opened.register(Schema(data="odd", tables={"odd": Table(name="odd", columns=declared)})).tables["odd"]
        with opened.server.transaction() as transaction:
            query = render(select([column("c"), column("f")], read(place, "s")), POSTGRESQL)
            cells = transaction.fetch(plain(f"SELECT c::text, f::text FROM ({query.text}) AS t"), {})
        assert set(cells) == {(None, "2021-01-01 10:00:00"), ("Infinity", "infinity")}


SPELLED = [
    "2021-01-03", "2021-1-3 4:5:6.789", "9999-12-31T23:59:59.999999", "1/2/3", "2020 02 29", "1_000", "0x1F", "0b11",
    "1e3", "-2.5", "9223372036854775807.5", "1e400", "4e-324", "2.4e-324", "1.7976931348623159e308", "3.5e38", "7e-46",
    "nan", "-inf", "yes", "0", "9999999.995", "12:30", "infinity", "",
]  # fmt: skip
CASTS = ["BIGINT", "INTEGER", "HUGEINT", "DOUBLE", "FLOAT", "BOOLEAN", "DATE", "TIMESTAMP", "DECIMAL(9,2)"]


def mutated(rng: Random) -> str:
    """Return a text that is nearly a number, a date or a time."""
    letters = list(rng.choice(SPELLED))
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = rng.randrange(len(letters) + 1)
        letters[place : place + rng.choice([0, 0, 1])] = rng.choice("0123456789-+:. eETZ_/xbf\t")
    return "".join(letters)


@pytest.mark.parametrize("to", CASTS)
def test_no_text_makes_a_cast_fail(postgresql: str, to: str) -> None:
    rng = Random(to)
    texts = [mutated(rng) for _ in range(2000)]
    piece = POSTGRESQL.try_cast("t.x", to, "VARCHAR")
    server = PostgreSQLServer(postgresql)
    query = f'SELECT count({piece}) FROM (SELECT UNNEST(CAST($1 AS text[])) COLLATE "C" AS x) AS t'
    with server.transaction() as transaction:
        ((read,),) = transaction.fetch(plain(query, 1), {1: texts})
    server.close()
    assert 0 < read < len(texts)
