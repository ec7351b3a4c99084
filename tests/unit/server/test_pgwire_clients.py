"""Programs that people have come to the SQL door: psql, the JDBC and ODBC drivers, SQLAlchemy, and what BI tools write.

DBeaver and Metabase themselves are not run here. Their driver is (pgjdbc), and statements as they send them about the
catalogue are below, in words of our own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from debian import find_or_install
from pg_servers import RunningPgServer, connect, psql, spent
from served import certificate

_DRIVER = Path("/usr/share/java/postgresql.jar")
_PROGRAM = Path(__file__).parents[2] / "serving" / "Jdbc.java"


def jdbc(running: RunningPgServer, token: str) -> dict[str, str]:
    """Run the program of the JDBC driver, and return what each of its steps gave."""
    java = find_or_install(lambda: shutil.which("java"), "openjdk-17-jre-headless")
    driver = find_or_install(lambda: str(_DRIVER) if _DRIVER.exists() else None, "libpostgresql-jdbc-java")
    if java is None or driver is None:
        pytest.skip("the JDBC driver needs Java 17 and Debian's libpostgresql-jdbc-java")
    where = f"jdbc:postgresql://127.0.0.1:{running.port}/hush?sslmode=require&options=-c%20hush.confidence=0.9"
    small = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    done = subprocess.run(
        [java, *small, "-cp", driver, str(_PROGRAM), where, token],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(line.split("\t", 1) for line in done.stdout.splitlines())


CATALOGUE = {
    "product": "PostgreSQL 14.0",
    "user": "alice",
    "catalogs": "hush",
    "schemas": "clinic|information_schema|pg_catalog",
    "some schemas": "clinic",
    "table types": "true",
    "tables": "clinic,visits,TABLE",
    "all tables": "visits",
    "columns": "age,-5,int8,1,1|city,12,text,1,2|street,12,text,1,3|day,91,date,1,4",
    "table privileges": "PUBLIC,SELECT",
    "client info": "ApplicationName",
    "keywords": "true",
    "longest name": "63",
    "transactions": "true",
    "default isolation": "2",
}
NOTHING = [
    "primary keys", "imported keys", "exported keys", "cross reference", "indexes", "best row", "own types",
    "functions", "function columns", "procedures", "procedure columns",
]  # fmt: skip
QUESTIONS = {
    "digits": "false",
    "application": "false",
    "schema": "clinic",
    "set schema": "clinic",
    "catalog": "hush",
    "valid": "true",
    "network timeout": "60000",
    "isolation": "2",
    "set isolation": "2",
    "read only": "true",
    "price": "false",
    "described": "3 n int8 1",
    "prepared": "9 1 true",
    "prepared catalogue": ",".join("4" * 9),
    "dates": "2025",
    "other types": "2",
    "comment": "2",
    "several": "false 0 true 2",
    "explain": "true",
    "most rows": "2",
    "no rows": "[]",
    "cursor": "3",
    "cursor of the catalogue": "true",
    "savepoint": "taken",
    "failed transaction": "42 1",
    "array": "visits",
    "cancel nothing": "taken",
    "query timeout": "1",
    "lives": "1",
}
REFUSED = ["update", "batch", "copy out", "copy in", "large object", "fast path", "notifications"]


def test_the_jdbc_driver_walks_asks_and_is_refused(settings, token, tmp_path):
    """Over TLS: metadata, statements prepared on the server, cursors, transactions, and what a driver can try."""
    running = RunningPgServer(settings, certificate(tmp_path))
    try:
        running.door._clear = False
        steps = jdbc(running, token)
    finally:
        running.close()
    assert {name: steps[name] for name in CATALOGUE} == CATALOGUE
    assert {name: steps[name] for name in NOTHING} == dict.fromkeys(NOTHING, "")
    assert {"bool,-7", "int8,-5", "float8,8", "date,91", "timestamp,93"} <= set(steps["types"].split("|"))
    assert {name: steps[name] for name in QUESTIONS} == QUESTIONS
    assert "price ε=0.5" in steps["warnings"]
    assert "90% confidence" in steps["warnings"]  # as it was set with the connection
    assert steps["escape call"] == ",".join(["42601"] * 4)
    assert all(steps[name].startswith("ERROR ") for name in REFUSED)


def isql(running: RunningPgServer, token: str, text: str, **options: str) -> str:
    """Run statements through the ODBC driver."""
    program = find_or_install(_isql, "odbc-postgresql", "unixodbc")
    if program is None:
        pytest.skip("the ODBC driver needs Debian's odbc-postgresql and unixodbc")
    where = {
        "Driver": "PostgreSQL Unicode", "Servername": "127.0.0.1", "Port": str(running.port), "Database": "hush",
        "Uid": "alice", "Pwd": token, "SSLmode": "prefer", "ConnSettings": "SET hush.epsilon='2'", **options,
    }  # fmt: skip
    said = ";".join(f"{name}={value}" for name, value in where.items())
    done = subprocess.run(
        [program, "-k", said, "-b", "-d,"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def _isql() -> str | None:
    """Return the program of ODBC, if it has PostgreSQL's driver."""
    if shutil.which("odbcinst") is None:
        return None
    drivers = subprocess.run(["odbcinst", "-q", "-d"], capture_output=True, text=True, check=False).stdout
    return shutil.which("isql") if "PostgreSQL Unicode" in drivers else None


@pytest.mark.parametrize("options", [{}, {"UseDeclareFetch": "1", "Fetch": "2"}], ids=["plain", "cursors"])
def test_the_odbc_driver_asks(running, token, options):
    said = isql(running, token, "SELECT city, COUNT(*) AS n FROM visits GROUP BY city\nhelp\n", **options)
    assert re.search(r"Oslo,\d+,", said)
    assert re.search(r"Tromsø,-?\d+,", said)
    assert "hush,clinic,visits,TABLE" in said


LISTED = [
    *(
        "\\d",
        "\\dt",
        "\\dt *.*",
        "\\d visits",
        "\\d clinic.visits",
        "\\dn",
        "\\dn+",
        "\\l",
        "\\du",
        "\\dg+",
        "\\dp",
        "\\z",
    ),
    *(
        "\\dT",
        "\\dT+",
        "\\dd",
        "\\dL",
        "\\dL+",
        "\\dO",
        "\\dO+",
        "\\df",
        "\\df+",
        "\\da",
        "\\dA+",
        "\\dAc",
        "\\dAf",
        "\\db+",
    ),
    *(
        "\\dc",
        "\\dC",
        "\\dD",
        "\\ddp",
        "\\des",
        "\\det",
        "\\deu",
        "\\dew",
        "\\dF",
        "\\dFd",
        "\\dFp",
        "\\dFt",
        "\\do",
        "\\dP",
    ),
    *("\\dRp", "\\dRs", "\\dx", "\\dX", "\\dy", "\\conninfo", "\\encoding"),
]
EMPTY = ["\\di", "\\dv", "\\dm", "\\ds", "\\dE", "\\drds"]


def test_every_list_of_psql_is_there_or_empty(running, token):
    done = psql(running, token, *LISTED)
    assert not done.stderr
    done = psql(running, token, *EMPTY)
    assert done.stderr.count("Did not find any") == len(EMPTY)
    assert "ERROR" not in done.stderr


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
    "schemas with comments": (
        "SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d "
        "ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname"
    ),
    "types": (
        "SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base FROM "
        "pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type e ON e.oid = t.typelem LEFT OUTER JOIN "
        "pg_catalog.pg_class c ON c.oid = t.typrelid WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = "
        "'c') AND (e.typcategory IS NULL OR e.typcategory <> 'C') AND t.typnamespace = 11"
    ),
    "tables with their parts": (
        "SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS bound, "
        "pg_catalog.pg_get_partkeydef(c.oid) AS keys FROM pg_catalog.pg_class c LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass "
        "WHERE c.relnamespace = 16384 AND c.relkind NOT IN ('i', 'I', 'c')"
    ),
    "columns with what depends on them": (
        "SELECT c.relname, a.*, pg_catalog.pg_get_expr(v.adbin, v.adrelid, true) AS start, d.description, p.objid FROM "
        "pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid) LEFT OUTER JOIN "
        "pg_catalog.pg_attrdef v ON (a.attrelid = v.adrelid AND a.attnum = v.adnum) LEFT OUTER JOIN "
        "pg_catalog.pg_description d ON (c.oid = d.objoid AND a.attnum = d.objsubid) LEFT OUTER JOIN pg_depend p ON "
        "p.refobjid = a.attrelid AND p.deptype = 'i' AND p.refobjsubid = a.attnum AND p.classid = p.refclassid WHERE "
        "NOT a.attisdropped AND c.relname = 'visits' ORDER BY a.attnum"
    ),
    "sizes": (
        "SELECT pg_catalog.pg_total_relation_size(c.oid), pg_catalog.pg_relation_size(c.oid) FROM pg_class c WHERE "
        "c.relnamespace = 16384"
    ),
    "words": (
        "SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{"
        + ",".join(f"word{number}" for number in range(400))
        + "}'::text[])"
    ),
    "keys to other tables": (
        "SELECT f.relname, k.attname FROM pg_constraint c INNER JOIN pg_class f ON c.conrelid = f.oid INNER JOIN "
        "pg_namespace n ON c.connamespace = n.oid INNER JOIN pg_attribute k ON c.conrelid = k.attrelid WHERE n.nspname "
        "!~ '^information_schema|pg_' AND c.contype = 'f'::char AND k.attnum = ANY(c.conkey)"
    ),
    "places of keys": (
        "SELECT r.conname, r.i FROM (SELECT conname, conkey, generate_series(array_lower(conkey, 1), "
        "array_upper(conkey, 1)) AS i FROM pg_catalog.pg_constraint) r"
    ),
    "indexes": (
        "SELECT x.name, TRIM(BOTH '\"' FROM pg_catalog.pg_get_indexdef(x.index, x.place, FALSE)) FROM (SELECT "
        "t.relname AS name, i.indexrelid AS index, (information_schema._pg_expandarray(i.indkey)).n AS place FROM "
        "pg_catalog.pg_class t JOIN pg_catalog.pg_index i ON t.oid = i.indrelid WHERE "
        "pg_catalog.pg_get_expr(i.indpred, i.indrelid) IS NULL) x WHERE x.place = 1"
    ),
    "fields and whether they are needed": (
        "SELECT c.column_name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN FORMAT('%s', c.udt_name) ELSE "
        'FORMAT(\'"%s"."%s"\', c.udt_schema, c.udt_name) END AS kind, c.ordinal_position - 1 AS place, p.column_name '
        "IS NOT NULL AS key, (column_default IS NULL OR LOWER(column_default) = 'null') AND is_nullable = 'NO' AND NOT "
        "(column_default IS NOT NULL AND column_default LIKE '%nextval(%' OR is_identity <> 'NO') AS needed FROM "
        "information_schema.columns c LEFT JOIN (SELECT t.table_name, k.column_name FROM "
        "information_schema.table_constraints t INNER JOIN information_schema.key_column_usage k ON t.constraint_name "
        "= k.constraint_name WHERE t.constraint_type = 'PRIMARY KEY') p ON c.table_name = p.table_name AND "
        "c.column_name = p.column_name WHERE c.table_schema !~ '^information_schema|pg_' ORDER BY place"
    ),
    "roles": (
        "SELECT r.oid, r.*, d.description FROM pg_catalog.pg_roles r LEFT JOIN pg_catalog.pg_shdescription d ON r.oid "
        "= d.objoid ORDER BY r.rolname"
    ),
    "objects and where they are listed": (
        "SELECT l.lanname, d.description FROM pg_catalog.pg_language l LEFT JOIN pg_catalog.pg_description d ON "
        "d.classoid = l.tableoid AND d.objoid = l.oid"
    ),
    "settings": "SELECT set_config('bytea_output', 'hex', false), current_setting('max_index_keys')",
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
    assert found["types"][0][2] == "bool"
    assert [row[2] for row in found["columns with what depends on them"]] == ["age", "city", "street", "day"]
    assert found["tables with their parts"][0][2] == "visits"
    assert found["sizes"] == [(0, 0)]
    assert found["fields and whether they are needed"][0] == ("age", "int8", 0, False, False)
    assert [row[1] for row in found["roles"]] == ["alice", "hush"]
    assert found["settings"] == [("hex", "32")]
    for nothing in ("keys to other tables", "places of keys", "indexes", "objects and where they are listed"):
        assert found[nothing] == []


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


def test_psql_describes_without_saying_how_large_anything_is(running, token):
    commands = ["\\d+ visits", "\\dt+", "\\l+", "\\dn+", "\\dp", "\\du", "\\df", "\\db", "\\conninfo"]
    done = psql(running, token, *commands)
    assert "ERROR" not in done.stderr
    assert "not told" in done.stdout
    assert not re.search(r"\d (bytes|kB|MB|GB)", done.stdout)


ASKED = """
-- Metabase:: queryType: MBQL
SELECT COUNT(*) AS "count" FROM "clinic"."visits"

SELECT "clinic"."visits"."city" AS "city", COUNT(*) AS "count" FROM "clinic"."visits" GROUP BY "clinic"."visits"."city"
ORDER BY "clinic"."visits"."city" ASC LIMIT 2000

SELECT CAST(DATE_TRUNC('month', "clinic"."visits"."day") AS date) AS "day", COUNT(*) AS "count" FROM "clinic"."visits"
GROUP BY CAST(DATE_TRUNC('month', "clinic"."visits"."day") AS date)

SELECT "source"."city" AS "city", COUNT(*) AS "count" FROM (SELECT "clinic"."visits"."city" AS "city" FROM
"clinic"."visits") AS "source" GROUP BY "source"."city"

SELECT COUNT(*) AS "count" FROM "hush"."clinic"."visits" "visits" WHERE "visits"."city" <> 'hush.clinic.visits'
"""


def test_questions_as_bi_tools_write_them(running, token):
    """The price is set with the connection, since such tools hide it."""
    with connect(running, token, options="-c hush.epsilon=0.5 -c statement_timeout=60000") as connection:
        for question in ASKED.strip().split("\n\n"):
            rows = connection.execute(question).fetchall()
            assert all(row[-1] > 0 for row in rows), question
        connection.execute("SET hush.epsilon = '0.25'")
        connection.execute("RESET ALL")
        assert connection.execute("SHOW hush.epsilon").fetchone() == ("0.5",)


def test_cursors_of_the_language(running, token):
    """As psycopg's named cursors, Tableau and the ODBC driver use them; asked once, charged once."""
    with connect(running, token, autocommit=False) as connection:
        connection.execute("SET hush.epsilon = '1'")
        with connection.cursor("groups") as cursor:
            cursor.execute("SELECT city, COUNT(*) AS n FROM visits GROUP BY city")
            assert [len(cursor.fetchmany(2)), len(cursor.fetchmany(2)), len(cursor.fetchmany(2))] == [2, 1, 0]
        assert spent(running) == 1
        connection.rollback()
