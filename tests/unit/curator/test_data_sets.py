"""One file under two names is refused, whatever its names look like."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.curator import data_sets
from hush.curator.opening import protect
from hush.engines.duckdb.sources import Source, overlap
from hush.engines.errors import SourceError
from hush.policy.document import PolicyError
from hush.policy.file import Policy

TABLE = pa.table({"id": [1, 2, 3], "x": [1, 2, 3]})


def policy(folder: Path, *tables: tuple[str, str, bool], unit: str = "") -> Path:
    """Write a policy of tables (data set, source, public), called t0, t1 and so on."""
    parts: dict[str, str] = {}
    for at, (data, source, public) in enumerate(tables):
        head = f'[data.{data}]\n{unit}budget = {{ epsilon = "1" }}\n'
        inside = "public = true\n" if public else 'columns.x = "integer"\n'
        parts[data] = parts.get(data, head) + f'[data.{data}.tables.t{at}]\nsource = "{source}"\n{inside}'
    names = ", ".join(f'"{name}"' for name in parts)
    analyst = f'[analysts.a]\ndata = [{names}]\nbudget = {{ epsilon = "1" }}\n'
    path = folder / "hush.toml"
    path.write_text("".join(parts.values()) + analyst, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(TABLE, tmp_path / "t.parquet")
    pq.write_table(TABLE, tmp_path / "other.parquet")
    (tmp_path / "sub").mkdir()
    return tmp_path


def spelling(_: Path) -> str:
    return "sub/../t.parquet"


def absolute(folder: Path) -> str:
    return str(folder / "t.parquet")


def symbolic(folder: Path) -> str:
    (folder / "link.parquet").symlink_to(folder / "t.parquet")
    return "link.parquet"


def directory(folder: Path) -> str:
    (folder / "again").symlink_to(folder, target_is_directory=True)
    return "again/t.parquet"


def hard(folder: Path) -> str:
    os.link(folder / "t.parquet", folder / "sub" / "hard.parquet")
    return "sub/hard.parquet"


@pytest.mark.parametrize("way", [spelling, absolute, symbolic, directory, hard])
def test_one_file_under_two_names(way: Callable[[Path], str], folder: Path) -> None:
    other = way(folder)
    for tables, words in (
        ([("a", "t.parquet", False), ("a", other, False)], "count twice"),
        ([("a", "t.parquet", False), ("b", other, False)], "two budgets"),
        ([("a", "t.parquet", False), ("a", other, True)], "is public"),
        ([("a", "t.parquet", True), ("a", "other.parquet", False), ("b", other, False)], "is public"),
    ):
        place = policy(folder, *tables)
        with pytest.raises(PolicyError, match=rf"hush\.toml:\d+: table 't\d' of . reads the same rows .*{words}"):
            hush.open(place)
        assert not (folder / "hush.ledger").exists()


def test_other_files_and_public_ones_are_not_refused(folder: Path) -> None:
    place = policy(
        folder,
        ("a", "t.parquet", False),
        ("a", "other.parquet", True),
        ("a", "sub/../other.parquet", True),
        ("a", "nowhere.parquet", True),
    )
    with pytest.raises(SourceError, match="no file"):
        hush.open(place)
    pq.write_table(TABLE, folder / "nowhere.parquet")
    hush.open(place).close()


def test_a_union_of_one_file_with_itself_is_not_asked(folder: Path) -> None:
    """Each row is a unit, and would count twice in this."""
    place = policy(folder, ("a", "t.parquet", False), ("a", "./t.parquet", False))
    with pytest.raises(PolicyError, match="count twice"), hush.open(place) as curator:
        curator.ask("SELECT COUNT(*) AS n FROM (SELECT x FROM t0 UNION ALL SELECT x FROM t1) AS u", epsilon=1)


@pytest.mark.parametrize("form", ["duckdb", "sqlite"])
def test_tables_of_a_database(form: str, folder: Path) -> None:
    path = folder / f"base.{form}"
    base = duckdb.connect(str(path)) if form == "duckdb" else sqlite3.connect(path)
    for statement in (
        "CREATE TABLE first (id INTEGER, x INTEGER)",
        "CREATE TABLE second (id INTEGER, x INTEGER)",
        "CREATE VIEW seen AS WITH part AS (SELECT * FROM first) SELECT * FROM part",
        "CREATE VIEW again AS SELECT * FROM SEEN",
        "CREATE VIEW apart AS SELECT * FROM second",
    ):
        base.execute(statement)
    base.commit()
    base.close()
    for one, other, same in (
        ("first", "second", False),
        ("first", "First", True),
        ("first", "seen", True),
        ("again", "first", True),
        ("again", "seen", True),
        ("apart", "seen", False),
        ("apart", "second", True),
    ):
        place = policy(folder, ("a", f"base.{form}#{one}", False), ("b", f"base.{form}#{other}", False))
        if same:
            with pytest.raises(PolicyError, match="two budgets"):
                hush.open(place)
        else:
            hush.open(place).close()


def test_tables_of_duckdb_whose_names_hold_a_dot_are_told_apart(folder: Path) -> None:
    names = ["a.b", "c.b", 'd".b', "b"]
    with duckdb.connect(str(folder / "base.duckdb")) as base:
        for name in names:
            quoted = name.replace('"', '""')
            base.execute(f'CREATE TABLE "{quoted}" (id INTEGER, x INTEGER)')
        base.execute('CREATE VIEW seen AS SELECT * FROM "a.b"')
    of = {name: Source.of(f"{folder / 'base.duckdb'}#{name}") for name in (*names, "seen")}
    same = [pair for pair in itertools.combinations(of, 2) if overlap(of[pair[0]], "t", of[pair[1]], "t")]
    assert same == [("a.b", "seen")]


def test_a_view_that_may_read_anything_shares_its_file(folder: Path) -> None:
    with duckdb.connect(str(folder / "base.duckdb")) as base:
        base.execute("CREATE TABLE first (id INTEGER, x INTEGER)")
        base.execute("CREATE VIEW odd AS SELECT 1 AS id, range AS x FROM range(3)")
    place = policy(folder, ("a", "base.duckdb#first", False), ("b", "base.duckdb#odd", False))
    with pytest.raises(PolicyError, match="two budgets"):
        hush.open(place)


def test_a_public_frame_that_is_the_private_one(folder: Path) -> None:
    for private, public in ((TABLE, TABLE), (folder / "t.parquet", str(folder / "sub" / ".." / "t.parquet"))):
        with pytest.raises(
            SourceError, match="the tables 'data' and 'same' have the same rows, and the latter is public"
        ):
            protect(private, budget=1, public={"same": public})
    protect(TABLE, budget=1, public={"other": pa.table({"x": [1]})}).close()


def test_the_owners_word_for_a_databases_state_is_part_of_what_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = SimpleNamespace(types={"t": {"id": "BIGINT", "x": "BIGINT"}}, close=lambda: None)
    monkeypatch.setattr(data_sets, "open_server_tables", lambda *_, **__: opened)
    monkeypatch.setattr(data_sets, "open_engine", lambda *_, **__: None)
    found = []
    for version, share in (("1", "false"), ("2", "true"), ("2", "true")):
        (tmp_path / "hush.toml").write_text(
            f'[data.d]\nengine = "postgresql://u@host/base"\nversion = "{version}"\nshare = {share}\n'
            'unit = "id"\nbudget = { epsilon = "1" }\n[data.d.tables.t]\nsource = "main.t"\ncolumns.x = "integer"\n'
            '[analysts.a]\ndata = ["d"]\nbudget = { epsilon = "1" }\n',
            encoding="utf-8",
        )
        policy = Policy.read(tmp_path / "hush.toml")
        found.append(data_sets.open_data_set(policy, policy.data_set("d")))
    assert [data_set.share for data_set in found] == [False, True, True]
    assert found[0].identity != found[1].identity == found[2].identity
