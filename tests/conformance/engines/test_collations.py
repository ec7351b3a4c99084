"""Databases whose texts are compared by the rules of a language: hush compares bytes, whatever the columns say.

Linguistic collations need a PostgreSQL that was built with ICU: the system's, such as Debian's. It may be older than
hush asks for; then UPPER and LOWER are refused, and nothing else differs.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import psycopg
import pytest
from benches import DuckDBBench, PostgreSQLBench
from gaps import FUNCTIONS as GAPS
from test_functions import CASES, planned, rows
from test_same_integers import compiled, milder, reference  # noqa: F401 - a fixture
from test_sensitivity import ASK, integers
from worlds import world

from hush.core import HushError
from hush.engines.postgresql import PostgreSQLTables
from hush.engines.sql_engine import SqlEngine
from hush.query.plan import plan
from hush.query.schema import Schema, Table, UnitPath
from hush.query.sql import parse
from hush.query.types import Kind, Type

WORDS = [
    "a",
    "A",
    "\u00e4",
    "a\u0308",
    "b",
    "B",
    "z",
    "Z",
    "\u00df",
    "ss",
    "stra\u00dfe",
    "strasse",
    "",
    " ",
    "co-op",
    "coop",
]


@pytest.fixture(scope="module")
def linguistic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a PostgreSQL of the system whose databases compare texts as German dictionaries do."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        pytest.skip("linguistic collations need the system's PostgreSQL, built with ICU")
    binaries, folder = programs[-1].parent, tmp_path_factory.mktemp("icu")
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    place = Path("/tmp") / f"hush-icu-{os.getpid()}"  # noqa: S108 - pytest's own folders are closed to other users
    place.mkdir(mode=0o700)
    shutil.chown(place, user)

    def run(program: str, *arguments: str) -> None:
        given = {"user": user} if os.geteuid() == 0 else {}
        with (folder / "log").open("ab") as log:
            subprocess.run([binaries / program, *arguments], check=True, stdout=log, stderr=log, cwd=place, **given)

    try:
        run("initdb", "-D", f"{place}/data", "-E", "UTF8", "--locale-provider=icu", "--icu-locale=de",
            "--locale=C.utf8", "-A", "trust", "-U", "postgres", "--no-sync")  # fmt: skip
    except subprocess.CalledProcessError:
        shutil.rmtree(place)
        pytest.skip("the system's PostgreSQL has no ICU")
    options = f"-c listen_addresses='' -c unix_socket_directories={place} -c fsync=off"
    run("pg_ctl", "-D", f"{place}/data", "-w", "-l", f"{place}/server.log", "-o", options, "start")
    yield f"postgresql://postgres:@/postgres?host={place}"
    run("pg_ctl", "-D", f"{place}/data", "-m", "immediate", "stop")
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def words(linguistic: str) -> Iterator[SqlEngine]:
    """Give an engine over columns of three collations, read by an ordinary role."""
    with psycopg.connect(linguistic, autocommit=True) as owner:
        owner.execute(
            "CREATE SCHEMA w;"
            "CREATE COLLATION w.alike (provider = icu, locale = 'und-u-ks-level1', deterministic = false);"
            'CREATE TABLE w.words (id bigint, plain text, alike text COLLATE w.alike, bytes text COLLATE "C");'
            "CREATE TABLE w.towns (town text COLLATE w.alike, size bigint);"
            "CREATE ROLE dictionary LOGIN; GRANT USAGE ON SCHEMA w TO dictionary;"
            "GRANT SELECT ON ALL TABLES IN SCHEMA w TO dictionary"
        )
        rows = [(number, word, word, word) for number, word in enumerate(WORDS * 3)]
        owner.cursor().executemany("INSERT INTO w.words VALUES (%s, %s, %s, %s)", rows)
        owner.execute("INSERT INTO w.towns VALUES ('a', 1), ('B', 2), ('\u00e4', 4)")
        assert owner.execute("SELECT count(DISTINCT alike) FROM w.words").fetchone() != (len(WORDS),)
    texts = dict.fromkeys(["plain", "alike", "bytes"], Type(Kind.TEXT, True))
    held = {
        "words": Table(name="words", columns=texts, unit=UnitPath(column="id"), max_rows=1, max_groups=1),
        "towns": Table(name="towns", columns={"town": Type(Kind.TEXT, True), "size": Type(Kind.INTEGER)}, public=True),
    }
    about = replace(Schema(data="d", tables=held), unit="id")
    address = linguistic.replace("postgres:@", "dictionary@")
    engine = SqlEngine(about, PostgreSQLTables(address, {name: f"w.{name}" for name in held}, timeout=60))
    yield engine
    engine.close()


def counted(engine: SqlEngine, sql: str) -> dict[object, int]:
    """Return the exact counts of a question by its keys."""
    about = engine.described()
    how = plan(parse(sql, about), about, epsilon=1, delta="1e-6", matches=engine.matches)
    exact = engine.run(how)
    (statistic,) = how.exact_query.statistics
    return {
        key[0] if key else None: count
        for key, count in zip(exact.keys, exact.statistics[statistic].tolist(), strict=True)
    }


@pytest.mark.parametrize("column", ["plain", "alike", "bytes"])
def test_groups_comparisons_and_joins_are_those_of_bytes(words: SqlEngine, column: str) -> None:
    assert counted(words, f"SELECT {column} AS k, COUNT(*) AS n FROM words GROUP BY {column}") == Counter(WORDS * 3)
    for test, holds in {
        f"{column} = 'a'": lambda word: word == "a",
        f"{column} < 'b'": lambda word: word.encode() < b"b",
        f"{column} BETWEEN 'A' AND 'Z'": lambda word: b"A" <= word.encode() <= b"Z",
        f"{column} IN ('ss', 'coop')": lambda word: word in {"ss", "coop"},
        f"{column} LIKE 'stra%'": lambda word: word.startswith("stra"),
        f"{column} LIKE '%\u00df%'": lambda word: "\u00df" in word,
        f"STRPOS({column}, 'ss') > 0": lambda word: "ss" in word,
        f"REPLACE({column}, '\u00e4', 'x') = 'x'": lambda word: word == "\u00e4",
        f"STARTS_WITH({column}, 'S')": lambda word: word.startswith("S"),
        f"{column} = plain": lambda _: True,
    }.items():
        found = counted(words, f"SELECT COUNT(*) AS n FROM words WHERE {test}")
        assert found == {None: 3 * sum(map(holds, WORDS))}, test
    joined = counted(words, f"SELECT COUNT(*) AS n FROM words JOIN towns ON {column} = town")
    assert joined == {None: 3 * sum(word in {"a", "B", "\u00e4"} for word in WORDS)}


@pytest.mark.parametrize("kind", ["text", "modes", "lists"])
def test_generated_questions_have_the_integers_of_duckdb(linguistic: str, kind: str, reference: DuckDBBench) -> None:  # noqa: F811
    bench, same = PostgreSQLBench(linguistic), 0
    for seed in range(8):
        rng = Random(f"{kind} {seed}")
        try:
            how, about = ASK[kind](rng)
            rows = milder(world(rng)[0])
            reference.fill(rows)
            here = reference.prepare(how, about)
        except HushError:
            continue
        bench.fill(rows)
        there = compiled(bench, how, about)
        if there is not None:
            assert integers(bench.execute(there), how) == integers(reference.execute(here), how), seed
            same += 1
    bench.close()
    assert same


def test_every_function_means_the_same_on_an_older_server(linguistic: str, reference: DuckDBBench) -> None:  # noqa: F811
    """Only UPPER and LOWER, which ILIKE needs, too, are refused: before 17 there is no collation for them."""
    bench = PostgreSQLBench(linguistic)
    for each in (reference, bench):
        each.fill(rows())
    for expression in [one for each in CASES.values() for one in each]:
        how, about = planned(expression)
        there = compiled(bench, how, about)
        cased = bench.version < 17 and re.search("UPPER|LOWER|ILIKE", expression)
        assert (there is None) == bool(cased or expression in GAPS["postgresql"]), expression
        if there is not None:
            expected = integers(reference.execute(reference.prepare(how, about)), how)
            assert integers(bench.execute(there), how) == expected, expression
    bench.close()
