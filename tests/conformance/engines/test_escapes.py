"""What a hostile question, name or role can reach in a PostgreSQL server: nothing but what the policy names."""

from __future__ import annotations

from pathlib import Path

import pytest
from attacks.test_error_channels import BLANK, CHANNELS
from test_postgresql import Clinic, clinic, role  # noqa: F401 - a fixture

from hush.core import HushError
from hush.curator.opening import open_policy

HOSTILE = [
    "SELECT COUNT(*) AS n FROM pg_catalog.pg_authid",
    "SELECT COUNT(*) AS n FROM information_schema.tables",
    "SELECT COUNT(*) AS n FROM {schema}.others",
    'SELECT COUNT(*) AS n FROM "{schema}"."others"',
    "SELECT COUNT(*) AS n FROM others",
    "SELECT COUNT(*) AS n FROM visits; DROP TABLE {schema}.others",
    "SELECT COUNT(*) AS n FROM visits WHERE secret = 'hidden'",
    "SELECT COUNT(*) AS n FROM visits WHERE city = (SELECT word FROM {schema}.others)",
    "SELECT COUNT(*) AS n FROM visits UNION ALL SELECT 1 FROM {schema}.others",
    "SELECT COUNT(*) AS n FROM visits WHERE pg_sleep(10) IS NULL",
    "SELECT COUNT(*) AS n FROM visits WHERE pg_read_file('/etc/passwd') LIKE '%root%'",
    "SELECT COUNT(*) AS n FROM visits WHERE CURRENT_USER = 'postgres'",
    "SELECT COUNT(*) AS n FROM visits WHERE CAST(city AS regclass) IS NOT NULL",
    "SELECT COUNT(*) AS n FROM visits WHERE nextval('{schema}.counter') > 0",
    "SELECT COUNT(*) AS n FROM visits WHERE lo_import('/etc/passwd') > 0",
    "SELECT COUNT(*) AS n FROM visits WHERE query_to_xml('DROP TABLE others', true, true, '') IS NULL",
    "SELECT COUNT(*) AS n FROM visits, LATERAL (SELECT pg_terminate_backend(1)) AS x",
    "SELECT COUNT(*) AS n FROM visits WHERE ctid = '(0,1)'",
    "SELECT COUNT(*) AS n FROM visits WHERE xmin IS NOT NULL",
    "SELECT COUNT(*) AS n FROM visits TABLESAMPLE BERNOULLI (10)",
    "SELECT COUNT(*) AS n FROM visits FOR UPDATE",
    "WITH x AS (DELETE FROM visits RETURNING *) SELECT COUNT(*) AS n FROM x",
    "COPY visits TO PROGRAM 'id'",
    "SET search_path = {schema}",
    "SELECT COUNT(*) AS n FROM visits WHERE city = $1",
    "SELECT COUNT(*) AS n FROM dblink('', 'SELECT 1') AS x(y int)",
]
QUOTED = [
    "'; DROP TABLE visits; --",
    "a\\'; DROP TABLE visits; --",
    "$$; DROP TABLE visits; $$",
    "\\x27; DROP TABLE visits",
    "$1",
    "%s",
    '"; SELECT 1; --',
    "U&'\\0027'",
    "/* */ -- \n end",
    "\u02bc\uff07\u2019",
]


@pytest.fixture
def guarded(clinic: Clinic) -> Clinic:  # noqa: F811
    """Give a clinic with a table of somebody else beside it, and a counter that a question could move."""
    clinic.owner.execute(f"CREATE TABLE {clinic.schema}.others (word text); CREATE SEQUENCE {clinic.schema}.counter")
    clinic.owner.execute(f"INSERT INTO {clinic.schema}.others VALUES ('theirs')")
    return clinic


def unharmed(clinic: Clinic) -> bool:  # noqa: F811
    counts = [
        clinic.owner.execute(f"SELECT count(*) FROM {clinic.schema}.{table}").fetchone()
        for table in ("visits", "others")
    ]
    moved = clinic.owner.execute(f"SELECT is_called FROM {clinic.schema}.counter").fetchone()
    return [*counts, moved] == [(1000,), (1,), (False,)]


def test_hostile_questions_are_refused_before_the_charge(guarded: Clinic) -> None:
    with guarded.open() as curator:  # as a superuser: nothing but hush stands in the way
        for question in HOSTILE:
            before = curator.session.accounts("clinic").remaining
            with pytest.raises(HushError) as caught:
                curator.ask(question.format(schema=guarded.schema), epsilon="1")
            assert curator.session.accounts("clinic").remaining == before, question
            assert "theirs" not in str(caught.value)
    assert unharmed(guarded)


@pytest.mark.parametrize("text", QUOTED)
def test_texts_with_quotes_are_texts_wherever_they_stand(guarded: Clinic, text: str) -> None:
    """In a constant, a parameter, a pattern, a list, a declared value and an alias; and as a value that is stored."""
    rows = "SELECT 900 + i, 'a', %s, 1 FROM generate_series(1, 40) AS i"
    guarded.owner.execute(f"INSERT INTO {guarded.schema}.visits {rows}", [text])
    written = text.replace("'", "''")
    with guarded.open() as curator:
        for question in (
            f"SELECT COUNT(*) AS n FROM visits WHERE name = '{written}'",
            "SELECT COUNT(*) AS n FROM visits WHERE name = $text",
            f"SELECT COUNT(*) AS n FROM visits WHERE name IN ('x', '{written}')",
            f"SELECT COUNT(*) AS n FROM visits WHERE CONTAINS(name, '{written}')",
            f"SELECT COUNT(*) AS n FROM visits WHERE COALESCE(name, '{written}') = $text",
        ):
            given = {"text": text} if "$text" in question else {}
            answer = curator.ask(question, epsilon="5", parameters=given)
            assert abs(answer.rows()[0]["n"] - 40) < 20, question  # noise of 1: this fails once in 10⁶ at most
    guarded.owner.execute(f"DELETE FROM {guarded.schema}.visits WHERE id > 900")
    assert unharmed(guarded)


NAMES = ["semi;colon", 'dou"ble', "sin'gle", "$1", "sp ace", "Upper", "select", "\u00e4\u00f6", "x" * 63, "back\\slash"]


def test_tables_and_columns_with_quotes_in_their_names_are_read(clinic: Clinic, tmp_path: Path) -> None:  # noqa: F811
    for name in NAMES:
        quoted = '"' + name.replace('"', '""') + '"'
        clinic.owner.execute(
            f"CREATE TABLE {clinic.schema}.{quoted} AS SELECT i % 50 AS {quoted}, i % 7 AS cost "
            "FROM generate_series(1, 300) i"
        )
        key = name.replace("\\", "\\\\").replace('"', '\\"')
        source = f"{clinic.schema}.{quoted}".replace("\\", "\\\\").replace('"', '\\"')
        folder = tmp_path / str(NAMES.index(name))
        folder.mkdir()
        path = folder / "hush.toml"
        path.write_text(
            f'[data.d]\nengine = "{clinic.address}"\nunit = "{key}"\nbudget = {{ epsilon = "9" }}\n'
            f'[data.d.tables.t]\nsource = "{source}"\n[data.d.tables.t.columns]\n'
            'cost = { type = "integer", lower = 0, upper = 6 }\n[analysts.ann]\ndata = ["d"]\n',
            "utf-8",
        )
        with open_policy(path, create=True) as curator:
            assert len(curator.ask("SELECT SUM(cost) AS s FROM t", epsilon="1").rows()) == 1


def test_functions_of_somebody_else_never_stand_in_for_the_server_s_own(clinic: Clinic) -> None:  # noqa: F811
    """A schema that comes first on the role's search path has functions and an operator of the same names."""
    evil = f"{clinic.schema}_evil"
    clinic.owner.execute(
        f"CREATE SCHEMA {evil}; GRANT USAGE ON SCHEMA {evil} TO PUBLIC;"
        f"CREATE FUNCTION {evil}.abs(double precision) RETURNS double precision LANGUAGE sql AS 'SELECT 1/0::float8';"
        f"CREATE FUNCTION {evil}.trunc(double precision) RETURNS double precision LANGUAGE sql AS 'SELECT 1/0::float8';"
        f"CREATE FUNCTION {evil}.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT 1/0 = 0';"
        f"CREATE OPERATOR {evil}.= (LEFTARG = text, RIGHTARG = text, FUNCTION = {evil}.same)"
    )
    usage, columns = "GRANT USAGE ON SCHEMA {schema} TO {role}", "GRANT SELECT ON {schema}.visits TO {role}"
    address = role(clinic, usage, columns, f"ALTER ROLE {{role}} SET search_path = {evil}, pg_catalog")
    with clinic.open(address) as curator:
        rows = curator.ask(
            "SELECT city, COUNT(*) AS n, SUM(ABS(cost)) AS s FROM visits WHERE name = 'n1' GROUP BY city", epsilon="20"
        ).rows()
        assert all(row["n"] > 50 for row in rows)
    clinic.owner.execute(f"DROP SCHEMA {evil} CASCADE")


POISONED = """
[data.d]
engine = "{address}"
unit = "id"
budget = {{ epsilon = "1000" }}
[data.d.tables.data]
source = "{schema}.poisoned"
max_rows = 2
[data.d.tables.data.columns]
i = {{ type = "integer" }}
x = {{ type = "decimal" }}
y = {{ type = "decimal", lower = 0, upper = 10 }}
t = {{ type = "text" }}
wide = {{ type = "integer", lower = {low}, upper = {high} }}
d = {{ type = "date" }}
[analysts.ann]
data = ["d"]
"""


def test_a_row_cannot_make_a_question_fail(clinic: Clinic, tmp_path: Path) -> None:  # noqa: F811
    """The channels through which a row could be seen on DuckDB are as closed here."""
    table = f"{clinic.schema}.poisoned"
    clinic.owner.execute(f"CREATE TABLE {table} (id bigint, i bigint, x float8, y float8, t text, wide bigint, d date)")
    insert = f"INSERT INTO {table} VALUES (%(id)s, %(i)s, %(x)s, %(y)s, %(t)s, %(wide)s, %(d)s)"
    for number in range(20):
        clinic.owner.execute(insert, {"id": number, **BLANK})
    path = tmp_path / "hush.toml"
    path.write_text(POISONED.format(address=clinic.address, schema=clinic.schema, low=-(2**62), high=2**62))
    with open_policy(path, create=True) as curator:
        for channel, (expression, poison) in CHANNELS.items():
            sql = f"SELECT {expression} AS v FROM data"
            data, how = curator.plan(sql, epsilon=1)
            without = data.engine.run(how)
            clinic.owner.execute(insert, {"id": 20, **BLANK, **poison})
            exact = data.engine.run(how)
            assert len(curator.ask(sql, epsilon=1, fresh=True)) == 1, channel
            clinic.owner.execute(f"DELETE FROM {table} WHERE id = 20")
            for noise in how.noises:
                pairs = [
                    (exact.statistics[item].tolist(), without.statistics[item].tolist()) for item in noise.statistics
                ]
                moved = sum(abs(one[0] - other[0]) for one, other in pairs)
                assert moved <= noise.law.sensitivity * noise.law.contribution.cells, channel
