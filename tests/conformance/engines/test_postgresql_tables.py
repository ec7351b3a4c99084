"""Tables as owners have them in PostgreSQL: domains, enums, views, partitions, odd names, and tables that change.

Answers are compared with those on DuckDB over the same rows. They are asked for at ε = 10⁵, where the chance that the
noise of one of them is as large as the difference allowed is below 1e-20.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hush.cli import run
from hush.core.work import limited
from hush.curator.curator import Curator
from hush.curator.opening import open_policy
from hush.engines.errors import EngineError, SourceError
from hush.engines.postgresql.connection import _reason
from hush.engines.sql.nodes import integer, select
from hush.engines.sql.render import plain
from hush.policy.file import Policy
from hush.query.errors import UnplannableError

POLICY = """
[data.clinic]
{engine}
unit = "id"
budget = {{ epsilon = "100000000" }}
[data.clinic.tables.visits]
source = '{source}'
max_rows = 3
max_groups = 3
[data.clinic.tables.visits.columns]
{columns}
[analysts.ann]
data = ["clinic"]
budget = {{ epsilon = "100000000" }}
"""
COLUMNS = """
city = { type = "text", values = ["Oslo", "Bergen", "oslo", ""] }
mood = { type = "text", values = ["sad", "happy"] }
cost = { type = "decimal", lower = 0, upper = 100 }
deep = { type = "decimal", lower = 0, upper = 100 }
word = { type = "text", values = ["w0", "w1"] }
free = { type = "decimal", lower = -5, upper = 5 }
fixed = { type = "decimal", lower = 0, upper = 20 }
at = { type = "timestamp", lower = 2024-01-01T00:00:00, upper = 2026-01-01T00:00:00 }
char = { type = "text", values = ["c0", "c1"] }
double = { type = "decimal", lower = 0, upper = 20 }
made = { type = "integer", lower = 0, upper = 1000 }
written = { type = "integer", lower = 0, upper = 9 }
"""
TABLE = """
CREATE TYPE {0}.mood AS ENUM ('sad', 'happy');
CREATE DOMAIN {0}.money AS numeric(10, 2) CHECK (VALUE >= 0);
CREATE DOMAIN {0}.dear AS {0}.money;
CREATE TABLE {0}.visits (
  id int, city text, mood {0}.mood, cost {0}.money, deep {0}.dear, word varchar(9), free numeric, fixed numeric(12, 3),
  at timestamptz, char char(5), double float8, made int GENERATED ALWAYS AS (id * 2) STORED, written text, tags text[],
  json jsonb
);
INSERT INTO {0}.visits (id, city, mood, cost, deep, word, free, fixed, at, char, double, written)
SELECT i / 3, (ARRAY['Oslo', 'Bergen', 'oslo', NULL, ''])[1 + i % 5], (ARRAY['sad', 'happy'])[1 + i % 2]::{0}.mood,
  i % 100 + 0.25, i % 50 + 0.5, 'w' || i % 2,
  CASE i % 7 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' WHEN 3 THEN '1e400' WHEN 4 THEN NULL
    ELSE i % 10 / 3.0 END,
  CASE i % 5 WHEN 0 THEN 'NaN' ELSE i % 10 * 1.005 END,
  CASE i % 9 WHEN 1 THEN NULL ELSE TIMESTAMPTZ '2024-12-31 22:30:00+00' + make_interval(mins => i) END, 'c' || i % 2,
  CASE i % 8 WHEN 0 THEN 'NaN' WHEN 1 THEN 'Infinity' ELSE i % 20 + 0.5 END, (ARRAY['7', ' 8 ', 'x', '1e0'])[1 + i % 4]
FROM generate_series(0, 299) AS i
"""
QUESTIONS = [
    "SELECT COUNT(*) AS n FROM visits",
    "SELECT city, COUNT(*) AS n FROM visits GROUP BY city",
    "SELECT mood, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY mood",
    "SELECT SUM(deep) AS s, SUM(fixed) AS f, COUNT(fixed) AS n FROM visits",
    "SELECT SUM(free) AS s, COUNT(free) AS n FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE free IS NULL",
    "SELECT COUNT(*) AS n FROM visits WHERE free < -1",
    "SELECT EXTRACT(hour FROM at) AS h, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT COUNT(*) AS n FROM visits WHERE at < TIMESTAMP '2025-01-01 00:00:00'",
    "SELECT char, COUNT(*) AS n FROM visits WHERE LENGTH(char) = 2 GROUP BY char",
    "SELECT SUM(double) AS s, COUNT(double) AS n FROM visits",
    "SELECT SUM(made) AS s, SUM(written) AS w, COUNT(written) AS n FROM visits",
    "SELECT word, COUNT(*) AS n FROM visits WHERE city > 'P' OR mood < 'p' GROUP BY word",
]


class Hospital:
    """A schema of its own in the server, and policies over its tables."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder
        self.schema = f"t{uuid.uuid4().hex[:8]}"
        self.owner = psycopg.connect(address, autocommit=True)
        self.owner.execute(f"CREATE SCHEMA {self.schema}")
        self.do(TABLE)

    def do(self, statements: str) -> None:
        self.owner.execute(statements.replace("{0}", self.schema))

    def open(self, source: str, columns: str = COLUMNS, *, engine: str | None = None) -> Curator:
        path = self.folder / f"p{uuid.uuid4().hex[:8]}" / "hush.toml"
        path.parent.mkdir()
        told = f'engine = "{self.address}"' if engine is None else engine
        path.write_text(POLICY.format(engine=told, source=source.replace("{0}", self.schema), columns=columns))
        self.policy = path
        return open_policy(path, create=True)

    def file(self) -> Path:
        """Write the rows as DuckDB reads them: what it has no type for as the nearest it has."""
        self.owner.execute("SET TimeZone = 'UTC'")
        cursor = self.owner.execute(
            f"SELECT id, city, mood::text, cost::float8, deep::float8, word, free::text, fixed::text, at, "
            f"trim(char) AS char, double, made, written FROM {self.schema}.visits"
        )
        labels = [column.name for column in cursor.description or ()]
        columns = dict(zip(labels, map(list, zip(*cursor.fetchall(), strict=True)), strict=True))
        for label in ("free", "fixed"):
            columns[label] = [None if cell in {None, "NaN"} else float(cell) for cell in columns[label]]
        columns["at"] = [cell and cell.replace(tzinfo=None) for cell in columns["at"]]
        pq.write_table(pa.table(columns), self.folder / "visits.parquet")
        return self.folder / "visits.parquet"


@pytest.fixture(scope="module")
def hospital(postgresql: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospital]:
    made = Hospital(postgresql, tmp_path_factory.mktemp("hospital"))
    yield made
    made.do("DROP SCHEMA {0} CASCADE")
    made.owner.close()


def answers(curator: Curator, question: str) -> list[list[Any]]:
    rows = curator.ask(question, epsilon="100000").rows()
    return [[cell for label, cell in row.items() if not label.endswith("_error")] for row in rows]


def same(one: Any, other: Any) -> bool:
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return math.isclose(one, other, rel_tol=1e-3, abs_tol=0.4) if numbers else one == other


def test_rows_of_all_kinds_count_as_they_do_on_duckdb(hospital: Hospital) -> None:
    file = hospital.file()
    with hospital.open("{0}.visits") as there, hospital.open(str(file), engine="") as here:
        for question in QUESTIONS:
            found, wanted = answers(there, question), answers(here, question)
            assert len(found) == len(wanted), question
            pairs = [pair for rows in zip(found, wanted, strict=True) for pair in zip(*rows, strict=True)]
            assert all(same(*pair) for pair in pairs), (question, found, wanted)


def test_a_policy_is_drafted_from_the_tables_of_a_database(
    hospital: Hospital, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # a database of its own: other tests leave tables in theirs
    name = f"d{uuid.uuid4().hex[:8]}"
    hospital.owner.execute(f"CREATE DATABASE {name}")
    hospital = Hospital(urlsplit(hospital.address)._replace(path=f"/{name}").geturl(), tmp_path)
    hospital.do('CREATE TABLE {0}."odd name" (id int, made date, words text[]); INSERT INTO {0}."odd name" VALUES (1)')
    monkeypatch.chdir(tmp_path)
    assert run(["init", hospital.address, "--unit", "id", "--epsilon", "1"]) == 0
    text = Path("hush.toml").read_text(encoding="utf-8")
    drafted = Policy.parse(text).data["mydata"]
    assert drafted.engine == hospital.address
    assert drafted.tables["odd name"].source == f'{hospital.schema}."odd name"'
    assert drafted.tables["visits"].table.columns["cost"].step == Fraction(1, 100)
    assert "# columns.words: " in text
    assert run(["check", "--rows"]) == 0
    assert run(["init", hospital.address, "visits.csv", "--force"]) == 2
    hospital.owner.close()


def test_dates_as_people_write_them(hospital: Hospital, capsys: pytest.CaptureFixture[str]) -> None:
    hospital.do(
        "CREATE TABLE {0}.dated AS SELECT i AS id, (ARRAY['31/12/2024', '1/2/2024', '30/2/2024', 'now'])[1 + i % 4] "
        "AS day FROM generate_series(0, 99) AS i"
    )
    with hospital.open("{0}.dated", 'day = { type = "date", format = "%d/%m/%Y" }') as curator:
        assert answers(curator, "SELECT COUNT(day) AS n FROM visits") == [[50]]
        assert answers(curator, "SELECT COUNT(*) AS n FROM visits WHERE day = DATE '2024-02-01'") == [[25]]
    assert run(["check", "--rows", "--policy", str(hospital.policy)]) == 0
    shown = capsys.readouterr().out
    assert "clinic.visits: 100 rows\n  50 cells of day that are not what the policy says" in shown
    hospital.policy.write_text(hospital.policy.read_text().replace("%d/%m", "%m/%d"))
    assert run(["check", "--rows", "--policy", str(hospital.policy)]) == 2
    assert "columns.day: 75 of 100 cells cannot be read as date. Look at" in capsys.readouterr().out


PARTS = """
CREATE TABLE {0}.parts (id int, city text) PARTITION BY RANGE (id);
CREATE TABLE {0}.low PARTITION OF {0}.parts FOR VALUES FROM (0) TO (50);
CREATE TABLE {0}.high PARTITION OF {0}.parts FOR VALUES FROM (50) TO (500);
INSERT INTO {0}.parts SELECT id, city FROM {0}.visits
"""
QUOTED = """
CREATE TABLE {0}."Vis.its""; --" (id int, city text);
INSERT INTO {0}."Vis.its""; --" SELECT id, city FROM {0}.visits
"""
WIDE = f"""
CREATE TABLE {{0}}.wide (id int, city text, {", ".join(f"a_column_of_a_long_name_{at} int" for at in range(1500))});
INSERT INTO {{0}}.wide SELECT id, city FROM {{0}}.visits
"""
KINDS = {
    "a view": ("CREATE VIEW {0}.seen AS SELECT * FROM {0}.visits WHERE id < 50", "{0}.seen", 150),
    "a materialised view": ("CREATE MATERIALIZED VIEW {0}.kept AS SELECT id, city FROM {0}.visits", "{0}.kept", 300),
    "a table of parts": (PARTS, "{0}.parts", 300),
    "a name with quotes": (QUOTED, '{0}."Vis.its""; --"', 300),
    "a wide table": (WIDE, "{0}.wide", 300),
}


@pytest.mark.parametrize(("made", "source", "rows"), KINDS.values(), ids=KINDS)
def test_kinds_of_tables(hospital: Hospital, made: str, source: str, rows: int) -> None:
    hospital.do(made)
    with hospital.open(source, 'city = { type = "text" }') as curator:
        assert answers(curator, "SELECT COUNT(*) AS n FROM visits") == [[rows]]


SECURED = """
CREATE ROLE {role} LOGIN;
CREATE TABLE {0}.secured AS SELECT id, city FROM {0}.visits;
ALTER TABLE {0}.secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON {0}.secured FOR SELECT USING (id < 10);
GRANT USAGE ON SCHEMA {0} TO {role};
GRANT SELECT (id, city) ON {0}.secured TO {role}
"""


def test_row_security_is_kept_to_and_told_of(hospital: Hospital, capsys: pytest.CaptureFixture[str]) -> None:
    role = f"r{uuid.uuid4().hex[:8]}"
    hospital.do(SECURED.replace("{role}", role))
    address = hospital.address.replace("postgresql://postgres:@", f"postgresql://{role}@")
    with hospital.open("{0}.secured", 'city = { type = "text" }', engine=f'engine = "{address}"') as curator:
        assert answers(curator, "SELECT COUNT(*) AS n FROM visits") == [[30]]
    assert run(["engine", "check", "--policy", str(hospital.policy)]) == 0
    assert "row security decides which rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("source", "columns", "told"),
    [
        ("{0}.visits", 'tags = { type = "text" }', r"'tags' of table 'visits' has the type text\[\]"),
        ("{0}.visits", 'json = { type = "text" }', "has the type jsonb, which hush does not read"),
        ("{0}.Visits", 'city = { type = "text" }', "capitals as written"),
        ("{0}.nothing", 'city = { type = "text" }', "not in the database under the name"),
        ("{0}.visits", 'town = { type = "text" }', "has no column 'town'"),
        ("a.b.c", 'city = { type = "text" }', "is written schema.table"),
    ],
)
def test_what_cannot_be_read_is_told_when_it_is_opened(
    hospital: Hospital, source: str, columns: str, told: str
) -> None:
    with pytest.raises(SourceError, match=told):
        hospital.open(source, columns)


CHANGES = {
    "column dropped": ("ALTER TABLE {0}.t DROP COLUMN cost", "ALTER TABLE {0}.t ADD COLUMN cost float8"),
    "type altered to text": (
        "ALTER TABLE {0}.t ALTER COLUMN cost TYPE text", "ALTER TABLE {0}.t ALTER COLUMN cost TYPE float8 USING 1"),
    "type altered to numeric": (
        "ALTER TABLE {0}.t ALTER COLUMN cost TYPE numeric USING 'NaN'",
        "ALTER TABLE {0}.t ALTER COLUMN cost TYPE float8 USING 1"),
    "unit altered": (
        "ALTER TABLE {0}.t ALTER COLUMN id TYPE text", "ALTER TABLE {0}.t ALTER COLUMN id TYPE int USING id::int"),
    "table renamed": ("ALTER TABLE {0}.t RENAME TO u", "ALTER TABLE {0}.u RENAME TO t"),
    "table dropped": ("DROP TABLE {0}.t", "CREATE TABLE {0}.t (id int, city text, cost float8)"),
}  # fmt: skip


def test_a_table_that_changed_is_told_before_any_charge_and_works_when_it_is_back(hospital: Hospital) -> None:
    """A statement over another type than the one it was written for might fail at a row, so it does not run."""
    hospital.do("CREATE TABLE {0}.t AS SELECT id, city, double AS cost FROM {0}.visits")
    columns = 'cost = { type = "decimal", lower = 0, upper = 9 }'
    with hospital.open("{0}.t", columns) as curator:
        for name, (change, undo) in CHANGES.items():
            hospital.do(change)
            before = curator.session.accounts("clinic").remaining
            for question in ("SELECT COUNT(*) AS n FROM visits", "SELECT SUM(cost) AS s FROM visits"):
                with pytest.raises(UnplannableError, match="not in the database as it was"):
                    curator.ask(question, epsilon="1", fresh=True)
            assert curator.session.accounts("clinic").remaining == before, name
            hospital.do(undo)
            curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon="1", fresh=True)
        hospital.do("ALTER TABLE {0}.t ADD COLUMN more int")  # which no question reads
        curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon="1", fresh=True)


ONE = select([integer(1)])


def test_what_the_server_does_not_understand_is_no_change(hospital: Hospital) -> None:
    with hospital.open("{0}.visits") as curator:
        engine = curator.data_sets["clinic"].engine
        with pytest.raises(UnplannableError, match="cannot express this question"):
            engine.connection.resolve([plain("SELECT 1 + DATE '2020-01-01' + TRUE")])
        engine.connection.resolve([plain("SELECT 1")])


def test_a_busy_database_is_told_before_any_charge(hospital: Hospital) -> None:
    with hospital.open("{0}.visits") as curator:
        curator.data_sets["clinic"].engine.connection.server._milliseconds = 200
        before = curator.session.accounts("clinic").remaining
        hospital.do("BEGIN; LOCK TABLE {0}.visits IN ACCESS EXCLUSIVE MODE")
        try:
            with pytest.raises(UnplannableError, match="cannot be reached, or is busy"):
                curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon="1")
        finally:
            hospital.do("ROLLBACK")
        assert curator.session.accounts("clinic").remaining == before
        curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon="1")


def test_what_is_abandoned_ends_in_the_server(hospital: Hospital) -> None:
    with hospital.open("{0}.visits") as curator:
        engine = next(iter(curator.data_sets.values())).engine

        def wanted() -> None:
            raise EngineError

        with limited(1, wanted) as work, engine.connection.server.transaction() as transaction:
            threading.Timer(0.3, work.interrupt).start()
            begun = time.monotonic()
            with pytest.raises(EngineError):
                transaction.fetch(plain("SELECT pg_sleep(60)"), {})
            assert time.monotonic() - begun < 30
            with pytest.raises(EngineError):  # nor does it begin the next statement
                transaction.fetch(plain("SELECT 1"), {})


def test_a_question_is_four_messages(hospital: Hospital, monkeypatch: pytest.MonkeyPatch) -> None:
    """One to compile it, and to begin, to ask and to end the transaction one each."""
    sent: list[object] = []
    execute = psycopg.Connection.execute

    def counted(self: Any, query: Any, *given: Any, **named: Any) -> Any:
        sent.append(query)
        return execute(self, query, *given, **named)

    with hospital.open("{0}.visits") as curator:
        monkeypatch.setattr(psycopg.Connection, "execute", counted)
        curator.ask("SELECT city, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY city", epsilon="1")
    assert len(sent) == 4


@pytest.mark.parametrize(
    ("words", "session", "reason"),
    [
        ("fe_sendauth: no password supplied", {"needs_password": True}, "the driver found none"),
        ('FATAL: password authentication failed for user "ann"', {"used_password": True}, "refused the password"),
        ('FATAL: database "secret" does not exist', {}, "no such database or role"),
        ("FATAL: no pg_hba.conf entry for host", {}, "pg_hba.conf"),
        ("connection to server at 10.0.0.1 failed: Connection refused", {}, "no server listens"),
        ("connection timeout expired", {}, "no server answers"),
        ("something with ann@secret.example", {}, "see its log"),
    ],
)
def test_reasons_name_nobody(words: str, session: dict[str, bool], reason: str) -> None:
    error = Exception(words)
    error.pgconn = SimpleNamespace(**session)  # type: ignore[attr-defined]
    told = _reason(error)
    assert reason in told
    assert "ann" not in told
    assert "secret" not in told
