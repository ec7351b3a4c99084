"""Walking sqlglot's tree by an allow-list: whatever is not named is refused, and by name.

`only` is the heart of it. A node class that a function handles may still carry arguments nobody thought of (a sample,
a window, a time zone); every argument that is set and not listed refuses the question.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from hush.query.errors import QuestionError

_SHOWN = 60
AROUND = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""What may stand around a function."""
WRITTEN = "written"
"""Under this name a function's node remembers how it was called in the question."""
SHOWN = "shown"
"""Under this name an aggregate that another was rewritten into remembers that one's text."""
ARGUMENT = "argument"
"""Under this name it remembers the text of that one's first argument."""

REASONS: dict[str, tuple[str, str]] = {
    "Window": (
        "Window functions compare rows of different units and cannot be bounded.",
        "Group instead: SELECT key, SUM(x) … GROUP BY key. Shares and ranks can be computed from answers, for free.",
    ),
    "Exists": (
        "EXISTS stands where rows are chosen: in WHERE, or in an expression over rows.",
        "Put it into WHERE.",
    ),
    "Subquery": (
        "A subquery cannot stand here.",
        "Put it into WHERE, or FROM: JOIN (SELECT …) AS s ON … the unit, or a public table. To divide answers is free.",
    ),
    "Select": (
        "A subquery cannot stand here.",
        "Put it into WHERE, or FROM: JOIN (SELECT …) AS s ON … the unit, or a public table. To divide answers is free.",
    ),
    "Lateral": ("LATERAL is not supported.", "Use a derived table that is joined on the unit."),
    "Unnest": ("UNNEST is not supported.", "Keep lists in a table of their own."),
    "Star": ("* would return the rows of individuals.", "Ask for aggregates: COUNT(*), AVG(x), …"),
    "Interval": (
        "An interval stands beside a date alone.",
        "Write for instance day + INTERVAL 1 MONTH, or DATE_DIFF('day', a, b) < 30.",
    ),
    "Pivot": ("PIVOT is not supported.", "Use COUNT(*) FILTER (WHERE …) for each column."),
    "Escape": ("ESCAPE stands after LIKE alone.", "Use CONTAINS(x, 'text') or STARTS_WITH(x, 'text')."),
    "Any": ("ANY is not supported.", "Use IN (list)."),
    "All": ("ALL is not supported.", "Use AND."),
    "Collate": ("COLLATE is not supported.", "Use LOWER(x)."),
    "AtTimeZone": ("Time zones are not supported.", "Timestamps are taken as they are stored."),
    "Dot": ("Only table.column can be named.", "Leave the schema and catalogue out."),
    "HexString": ("Hexadecimal constants are not supported.", "Write the number in decimals."),
    "Distinct": ("DISTINCT stands in COUNT, SUM, AVG, MIN and MAX alone.", "Write COUNT(DISTINCT x)."),
    "Values": ("VALUES stands in FROM.", "Write FROM … JOIN (VALUES (1), (2)) AS t(x) ON …."),
    "Rollup": ("ROLLUP stands in GROUP BY alone.", "Write GROUP BY ROLLUP (a, b)."),
    "Cube": ("CUBE stands in GROUP BY alone.", "Write GROUP BY CUBE (a, b)."),
    "GroupingSets": ("GROUPING SETS stands in GROUP BY alone.", "Write GROUP BY GROUPING SETS ((a, b), (a), ())."),
    "TableSample": ("TABLESAMPLE is not supported.", "Ask about the whole table; the noise already protects it."),
    "Parameter": ("Parameters are written ? or $name.", ""),
    "Tuple": ("Lists of expressions are not supported here.", "Compare the columns one by one."),
    "Xor": ("XOR is not supported.", "Write a <> b."),
    "BitwiseAnd": ("Bit operations are not supported.", ""),
    "BitwiseOr": ("Bit operations are not supported.", ""),
    "BitwiseXor": ("Bit operations are not supported.", "Powers are written POWER(x, n)."),
}
"""Why some node classes are refused, and the nearest supported form."""

INSTEAD = {
    "EXPLAIN": "What a question would cost is told by hush explain, or curator.explain(…).",
    **dict.fromkeys(
        ("DESCRIBE", "SHOW", "SUMMARIZE", "PRAGMA"),
        "Tables and columns are told by curator.tables(), and by the policy.",
    ),
}
"""What there is in place of other statements."""
STATEMENTS = "Only one SELECT can be asked; hush changes no data and runs no other statement."


def shown(node: object) -> str:
    """Return a short picture of a node for a message; never fails. It is shown to its author and never executed."""
    try:
        if isinstance(node, exp.Expr) and SHOWN in node.meta:
            text = str(node.meta[SHOWN])
        elif isinstance(node, exp.Expr):
            text = node.sql("duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE)
        else:
            text = str(node)
    except Exception:  # noqa: BLE001 - a printer that stumbles over a strange tree must not hide the refusal
        text = type(node).__name__
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def called(node: exp.Expr) -> str:
    """Return the name of a function as it was written, as far as that is known."""
    while isinstance(node, AROUND):
        node = node.this
    if isinstance(node, exp.Anonymous):
        return str(node.this)[:60]
    own = node.sql_name() if isinstance(node, exp.Func) else type(node).__name__
    return str(node.meta.get(WRITTEN) or own)


def refuse(node: object) -> QuestionError:
    """Return the refusal of a node that is not supported where it stands."""
    name = type(node).__name__
    if isinstance(node, exp.Expr) and (split := split_refusal(node)) is not None:
        return split
    if name in REASONS:
        what, hint = REASONS[name]
        return QuestionError(f"{what} Got {shown(node)}.", hint)
    return QuestionError(
        f"{name} is not supported here: {shown(node)}.", "See docs/sql.md for everything that can be asked."
    )


def split_refusal(node: exp.Expr) -> QuestionError | None:
    """Return the refusal of a text that is split into a list, if there is one, with the question to ask instead.

    One stored row would become as many as its text has separators, so each row's work and memory would be its own.
    """
    split = node.find(exp.Split, exp.StringToArray)
    if split is None or isinstance(node, exp.SplitPart):
        return None
    mark = split.expression
    between = shown(mark) if isinstance(mark, exp.Literal) and mark.is_string else "','"
    text = f"{between} || {shown(split.this)} || {between}"
    return QuestionError(
        f"A text is not split into a list: one row would become many. Got {shown(node)}.",
        f"Name the words: JOIN (VALUES ('first'), ('second')) AS words(word) ON CONTAINS({text}, {between} || word || "
        f"{between}), and GROUP BY word. Or let the owner keep a table with a row for each word.",
    )


def is_set(value: Any) -> bool:
    """Return whether a node's argument says anything."""
    return value is not None and value is not False and value not in ([], "")


def only(node: exp.Expr, *allowed: str) -> None:
    """Refuse a node that carries any argument besides the allowed ones."""
    for name, value in node.args.items():
        if name not in allowed and is_set(value):
            said = value[0] if isinstance(value, list) else value
            if isinstance(said, exp.Expr) and type(said).__name__ in REASONS:
                raise refuse(said)
            extra = name.rstrip("_").upper().replace("_", " ")
            raise QuestionError(f"{extra} is not supported in {shown(node)}.", "Leave it out.")


def identifier(node: Any) -> str:
    """Return the name in an identifier."""
    if not isinstance(node, exp.Identifier):
        raise refuse(node)
    only(node, "this", "quoted")
    name = node.this
    if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
        raise QuestionError("A name must be 1 to 200 printable characters.")
    return name


def children(node: exp.Expr) -> list[exp.Expr]:
    """Return the direct sub-nodes."""
    found: list[exp.Expr] = []
    for value in node.args.values():
        found.extend(item for item in (value if isinstance(value, list) else [value]) if isinstance(item, exp.Expr))
    return found


def place(node: exp.Expr) -> tuple[int, int] | None:
    """Return the first and last character of a node in the question's text, as far as the parser kept them."""
    spans = [part.meta for part in node.walk() if "start" in part.meta]
    return (min(span["start"] for span in spans), max(span["end"] for span in spans)) if spans else None
