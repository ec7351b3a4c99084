"""The SQL door, with real psql, psycopg and pandas: what tools do works, what must not be done fails."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pandas as pd
import psycopg
import pytest
from pg_servers import RunningPgServer, connect, psql, result_of, spent
from served import certificate

from hush.curator.pipeline import Program
from hush.ledger import Role
from hush.server.pgwire import connection as connection_module
from hush.server.pgwire import server as server_module
from hush.server.pgwire.statements import (
    declared,
    fetched,
    first_word,
    from_comments,
    read_setting,
    rest,
    split,
    without_database,
)
from hush.server.rate_limits import ConnectionLimit


def test_psql_asks_and_sees_the_tables(running, token):
    done = psql(running, token, "\\d", "\\d visits", "\\dn", "SELECT version()")
    assert "clinic | visits" in done.stdout
    assert "city   | text" in done.stdout
    assert "PostgreSQL" in done.stdout
    assert not done.stderr
    done = psql(running, token, "SET hush.epsilon = '5'", "SELECT city, COUNT(*) AS n FROM visits GROUP BY city")
    assert "n_error" in done.stdout
    assert "Tromsø" in done.stdout
    assert "price ε=5, which took 12.5% of alice's budget; 87.5% of it is left; receipt" in done.stderr


def test_a_question_needs_its_price(running, token):
    done = psql(running, token, "SELECT COUNT(*) FROM visits")
    assert "SET hush.epsilon" in done.stderr
    done = psql(running, token, "/* hush.epsilon = 2 */ SELECT COUNT(*) AS n FROM visits")
    assert "price ε=2" in done.stderr
    done = psql(running, token, "SET hush.epsilom = 1")
    assert "epsilon" in done.stderr


@pytest.mark.parametrize("statement", ["DELETE FROM visits", "UPDATE visits SET age = 1", "COPY visits TO '/tmp/x'"])
def test_what_changes_data_is_refused_for_that_and_not_for_its_price(running, token, statement):
    done = psql(running, token, statement)
    assert "Only one SELECT can be asked" in done.stderr
    assert "price" not in done.stderr


def test_the_clock_is_shown(running, token):
    with connect(running, token) as connection:
        for binary in (False, True):
            row = connection.execute("SELECT now(), current_date, now()::date AS day, 1", binary=binary).fetchone()
            assert abs(row[0] - dt.datetime.now(dt.UTC).replace(tzinfo=None)) < dt.timedelta(minutes=5)
            assert {row[1], row[2]} == {row[0].date()}
            assert row[3] == 1


def test_a_free_repeat_says_so(running, token):
    question = "/* hush.epsilon = 2 */ SELECT COUNT(*) AS n FROM visits"
    first, again = psql(running, token, question), psql(running, token, question)
    assert "free" not in first.stderr
    assert "and free now; SET hush.fresh = true asks anew" in again.stderr
    assert first.stdout == again.stdout


def test_a_price_of_one_question_goes_before_that_of_the_connection(running, token):
    with connect(running, token, options="-c hush.accuracy=20") as connection:
        notices = []
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        connection.execute("/* hush.epsilon = 2 */ SELECT COUNT(*) AS n FROM visits")
        assert notices[0].startswith("price ε=2, which took ")
        connection.execute("SELECT COUNT(*) AS n FROM visits WHERE age < 9")  # for that question alone
        assert not notices[1].startswith("price ε=2, which took ")
    with pytest.raises(psycopg.OperationalError, match=r"hush\.epsilon and hush\.accuracy"):
        connect(running, token, options="-c hush.accuracy=20 -c hush.epsilon=1")


def test_a_door_that_closes_answers_what_is_at_work_first(settings, token, monkeypatch):
    begun, original = threading.Event(), Program.compute

    def slow(*arguments):
        begun.set()
        time.sleep(0.3)
        return original(*arguments)

    monkeypatch.setattr(Program, "compute", slow)
    door = RunningPgServer(settings)
    with connect(door, token, options="-c hush.epsilon=2") as asking, connect(door, token) as idle:
        with ThreadPoolExecutor(1) as threads:
            asked = threads.submit(lambda: asking.execute("SELECT COUNT(*) AS n FROM visits").fetchall())
            assert begun.wait(20)
            door.close()
            assert len(asked.result(20)) == 1
        for connection in (asking, idle):
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")


def test_refusals_have_the_texts_of_the_service(running, token):
    done = psql(running, token, "SET hush.epsilon = '1'", "SELECT age FROM visits", "SELECT COUNT(*) FROM nowhere")
    assert done.stderr.count("ERROR") == 2
    done = psql(running, token, "SET hush.epsilon = '1000'", "SELECT COUNT(*) FROM visits")
    assert "is left" in done.stderr


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


@pytest.mark.parametrize(
    ("statement", "name", "value"),
    [
        ("SHOW hush.EPSILON", b"hush.epsilon", b"0.5"),
        ("SHOW datestyle;", b"DateStyle", b"ISO, MDY"),
        ("SHOW TIME ZONE", b"TimeZone", b"UTC"),
        ("SHOW TRANSACTION  ISOLATION LEVEL", b"transaction_isolation", b"read committed"),
    ],
)
def test_a_shown_setting_has_its_own_name_described_and_run(running, token, statement, name, value):
    """As PostgreSQL has it, however the statement writes the name."""
    with connect(running, token, options="-c hush.epsilon=0.5") as connection:
        raw = connection.pgconn
        raw.send_prepare(b"p", statement.encode())
        result_of(raw)
        raw.send_describe_prepared(b"p")
        described = result_of(raw)
        raw.send_query_prepared(b"p", [])
        shown = result_of(raw)
        assert (described.fname(0), shown.fname(0), shown.get_value(0, 0)) == (name, name, value)


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
    running = RunningPgServer(settings, certificate(tmp_path))
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
    for read in (split, read_setting, from_comments, first_word, rest, declared, fetched):
        read(text)
    without_database(text, ["clinic"])


def test_who_looks_at_the_catalogue_too_often_waits(running, token, monkeypatch):
    with connect(running, token) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        rates, moment = running.service.rates, time.time()
        monkeypatch.setattr(rates, "_clock", lambda: moment)
        while not rates.visit("visit alice", every=1 / 100, burst=1000):
            pass
        with pytest.raises(psycopg.Error, match="requests"):
            connection.execute("SELECT 1")


def test_silent_connections_do_not_shut_the_door(running, token, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take no place of those who have signed in, and one address has so many of them."""
    monkeypatch.setattr(running.door, "_strangers", ConnectionLimit(most=12, each=8))
    with ExitStack() as silent:
        strangers = [socket.create_connection(("127.0.0.1", running.port), timeout=20) for _ in range(9)]
        for stranger in strangers:
            silent.enter_context(stranger)
        assert b"about to sign in" in strangers[-1].recv(4000)
        other = socket.create_connection(("127.0.0.1", running.port), timeout=20, source_address=("127.0.0.2", 0))
        silent.enter_context(other)
        other.sendall(struct.pack("!II", 8, 80_877_103))
        assert other.recv(1) == b"N"  # another address is heard
    for _ in range(100):  # and places are given back
        try:
            connect(running, token).close()
            break
        except psycopg.OperationalError:
            time.sleep(0.05)
    else:
        pytest.fail("the door stays shut")
    monkeypatch.setattr(server_module, "_MOST", 1)
    with connect(running, token), pytest.raises(psycopg.OperationalError, match="Too many connections"):
        connect(running, token)


def test_a_cursor_of_a_cursor_is_refused(running, token) -> None:
    with connect(running, token) as connection:
        with pytest.raises(psycopg.Error, match="A cursor is for a SELECT"):
            connection.execute("DECLARE c CURSOR FOR " * 2000 + "SELECT 1")
        assert connection.execute("SELECT 1").fetchone() == (1,)  # the connection goes on


def test_what_cursors_and_portals_keep_is_bounded(running, token, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "_MOST_KEPT", 40_000)
    monkeypatch.setattr(connection_module, "_MOST_KEPT_BY_ALL", 60_000)
    rows = "SELECT a.typname FROM pg_type a, pg_type b LIMIT 150"  # 16 kB
    declare = "DECLARE c{} CURSOR WITH HOLD FOR " + rows
    with connect(running, token) as one, connect(running, token) as other:
        for number in range(2):
            one.execute(declare.format(number))
        with pytest.raises(psycopg.Error, match="a connection keeps"):
            one.execute(declare.format(2))
        other.execute(declare.format(0))
        with pytest.raises(psycopg.Error, match="all connections"):
            other.execute(declare.format(1))
        one.execute("CLOSE c0")  # what is closed is given back
        other.execute(declare.format(1))
        assert len(other.execute("FETCH ALL FROM c1").fetchall()) == 150
    with connect(running, token) as again:  # and so is what a connection had that ended
        for number in range(2):
            again.execute(declare.format(number))
