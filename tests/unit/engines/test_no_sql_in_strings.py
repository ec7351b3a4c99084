"""SQL is a tree: text is made by `render` and the dialects alone, and no dialect is asked for its name.

Three things may still be written as text, outside of these: statements of a connection (settings, transactions, what is
prepared or attached), queries over an engine's own catalogue, which are constants with a name, and advice for people.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

_ENGINES = Path(__file__).parents[3] / "src" / "hush" / "engines"
_WRITERS = {"sql/render.py", "sql/dialect.py", "postgresql/dialect.py", "spark/dialect.py"}
"""Where text is made."""
_CONNECTIONS = {
    "duckdb/connection.py",
    "duckdb/files.py",
    "postgresql/connection.py",
    "spark/connection.py",
}
_STATEMENT = re.compile(
    r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|ATTACH|DETACH|COPY|PREPARE|DEALLOCATE|DESCRIBE|SHOW|PRAGMA"
    r"|EXPLAIN|SET|BEGIN|COMMIT|ROLLBACK|TRUNCATE|MERGE|CALL|VALUES)\b(?!,)|.*\bSELECT\b.*\bFROM\b",
    re.DOTALL,
)
_OF_CONNECTIONS = re.compile(r"(SET( LOCAL)?|BEGIN|COMMIT|ROLLBACK|PREPARE|DEALLOCATE|DESCRIBE|SHOW)\b")


def _named_constants(tree: ast.Module) -> set[ast.expr]:
    """Return the values of constants of a module that have a name in capitals."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return {
        node.value
        for node in assigned
        if isinstance(node.value, ast.Constant)
        and all(isinstance(target, ast.Name) and target.id.isupper() for target in node.targets)
    }


def _texts(tree: ast.Module) -> Iterator[tuple[ast.expr, str]]:
    """Yield all strings but docstrings, f-strings with a sign in place of each value."""
    ignored = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            ignored |= {id(part) for part in node.values}
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield node, text
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in ignored:
            yield node, node.value


def faults(module: str, source: str) -> list[str]:
    """Return the SQL that a module writes as text, and the dialects that it asks for their name."""
    tree = ast.parse(source)
    named = _named_constants(tree)
    lines = []
    for node, text in _texts(tree):
        if module in _WRITERS or node in named or not _STATEMENT.match(text):
            continue
        if not (module in _CONNECTIONS and _OF_CONNECTIONS.match(text)):
            lines.append(f"{module}:{node.lineno}: {text.strip()[:60]}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(side, ast.Attribute) and ast.unparse(side).endswith("dialect.name") for side in sides):
                lines.append(f"{module}:{node.lineno}: asks for a dialect's name")
    return lines


@pytest.mark.parametrize("path", sorted(_ENGINES.rglob("*.py")), ids=lambda path: path.relative_to(_ENGINES).as_posix())
def test_no_module_writes_sql_as_text(path: Path) -> None:
    assert not faults(path.relative_to(_ENGINES).as_posix(), path.read_text("utf-8"))


@pytest.mark.parametrize(
    "fault",
    [
        'def rows(name):\n    return run(f"SELECT * FROM {name}")',
        'def rows():\n    return run("SELECT 1")',
        'def count(name):\n    return run("(SELECT COUNT(*) FROM t WHERE x = " + name + ")")',
        'run(f"CREATE TABLE {name} AS {text}")',
        "run(f\"ATTACH '{path}' AS base\")",
        '_QUERY = f"SELECT x FROM {name}"',
        'query = "SELECT x FROM t"',
        'def column(dialect):\n    return "x" if dialect.name == "duckdb" else "y"',
    ],
)
def test_a_planted_fault_is_found(fault: str) -> None:
    assert faults("sql/relations.py", fault)
    assert faults("duckdb/connection.py", fault)


def test_what_may_be_written_is_not_found() -> None:
    assert not faults(
        "duckdb/connection.py", "run(f\"SET {key} = '{value}'\")\n_TABLES = 'SELECT name FROM catalogue()'"
    )
    assert not faults("sql/keys.py", '"""SELECT x FROM t is a query."""\nraise ValueError("select less than this")')
    assert faults("sql/keys.py", "run(\"SET TimeZone = 'UTC'\")")
