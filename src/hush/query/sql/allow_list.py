"""The allow-list: nodes of sqlglot's tree that are not named are refused, with the nearest supported form.

`only` is its heart. A node class that a function handles may still carry arguments nobody thought of (a sample, a
window, a time zone); every argument that is set and not listed refuses the question.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from hush.query.errors import QuestionError, did_you_mean
from hush.query.functions import FUNCTIONS, REWRITES
from hush.query.question import AGGREGATES

_SHOWN = 60
AROUND = (exp.Window, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""Nodes that may stand around a function."""

# Keys of a node's `meta`
WRITTEN = "written"
"""The name by which the question calls a function."""
DROPPED = "dropped"
"""Whether the parser dropped an argument of a function."""
SHOWN = "shown"
"""The text of the aggregate that was rewritten into this one."""
ARGUMENT = "argument"
"""The text of that aggregate's first argument."""

REASONS: dict[str, tuple[str, str]] = {
    "Window": (
        "A window function cannot stand here.",
        "Over rows it stands in a subquery, parted by the unit; over answers in SELECT, QUALIFY and ORDER BY.",
    ),
    "Exists": ("EXISTS stands where rows are chosen: in WHERE, or in an expression over rows.", "Put it into WHERE."),
    **dict.fromkeys(
        ("Subquery", "Select"),
        (
            "A subquery cannot stand here.",
            "Put it into WHERE, or FROM: JOIN (SELECT …) AS s ON … the unit, or a public table. To divide is free.",
        ),
    ),
    "Lateral": (
        "LATERAL is not supported.",
        "Compute columns in a derived table: FROM (SELECT *, x * 2 AS y FROM …) AS t.",
    ),
    "Unnest": ("UNNEST is not supported.", "Keep lists in a table of their own."),
    # a stored row would become one row per separator of its text, so each row would set its own work and memory
    "Split": (
        "A text is not split into a list: one row would become many.",
        (
            "Rows that have each of some words are counted so: JOIN (VALUES ('first'), ('second')) AS words(word) ON "
            "CONTAINS(',' || x || ',', ',' || word || ','), and GROUP BY word. Words that are not listed are left out, "
            "and one that a text has twice counts once. For all words let the owner keep a table with a row for each."
        ),
    ),
    "Star": ("* would show single rows.", "Rows are never shown. Ask for aggregates: COUNT(*), AVG(x), …"),
    "Interval": (
        "An interval stands beside a date alone.",
        "Write for instance day + INTERVAL 1 MONTH, or DATE_DIFF('day', a, b) < 30.",
    ),
    "Pivot": (
        "PIVOT is read of a subquery that lists its columns, for listed values, alone.",
        "Write SELECT k, COUNT(*) FILTER (WHERE x = 'a') AS a, … GROUP BY k, in which k is every other column.",
    ),
    "Escape": ("ESCAPE stands after LIKE alone.", "Use CONTAINS(x, 'text') or STARTS_WITH(x, 'text')."),
    "Any": (
        "ANY is not supported.",
        "x = ANY (…) is x IN (…); x > ANY (…) is x > the least of them: (SELECT MIN(y) …).",
    ),
    "All": (
        "ALL is not supported.",
        (
            "x > ALL (SELECT y …) is NOT EXISTS (SELECT 1 … WHERE x <= y OR x IS NULL OR y IS NULL). Where there is a "
            "y, and none is NULL, it is x > the greatest of them: (SELECT MAX(y) …)."
        ),
    ),
    "Collate": (
        "COLLATE is not supported.",
        "Texts are compared as they are stored; for any case write LOWER(x) = 'text'.",
    ),
    "AtTimeZone": (
        "Time zones are not supported.",
        "Timestamps are taken as they are stored; move them: t + INTERVAL 2 HOUR.",
    ),
    "Distinct": ("DISTINCT stands in COUNT, SUM, AVG, MIN and MAX alone.", "Leave DISTINCT out, or COUNT(DISTINCT x)."),
    "TableSample": ("TABLESAMPLE is not supported.", "A sample cannot be asked about; the whole table can."),
    "Tuple": (
        "Lists of expressions are not supported here.",
        "Where nothing is NULL, (a, b) < (c, d) is a < c OR (a = c AND b < d).",
    ),
    "BitwiseAnd": (
        "Bit operations are not supported.",
        "Of whole numbers from 0 on, the last bit is x % 2, the next x // 2 % 2.",
    ),
    "BitwiseXor": ("Bit operations are not supported.", "Powers are written POWER(x, n)."),
}
"""Why some node classes are refused, and the nearest supported form."""

_EXTRAS = {
    **dict.fromkeys(
        ("LimitOptions.percent", "LimitOptions.with_ties"),
        "Noisy answers have no ties, and how many there are may be private. Write a number of rows alone: LIMIT 10.",
    ),
    "Lag.default": "Write CASE WHEN ROW_NUMBER() OVER (…) <= 1 THEN 0 ELSE LAG(x, 1) OVER (…) END, with one order.",
    "Lead.default": "There is no other way to ask it; COALESCE(LEAD(x) OVER (…), 0) takes 0 for a stored NULL, too.",
    "Trunc.decimals": "Write TRUNC(x * 10) / 10 for one digit, TRUNC(x * 100) / 100 for two.",
    "DataType.expressions": "Where the type cuts texts, as VARCHAR(7) does in PostgreSQL, write LEFT(x, 7).",
}
"""The way out for some arguments of nodes that are not supported, by the node's class and the argument."""

_TABLES = "Tables and columns are told by curator.tables(), and by the policy."
INSTEAD = {
    "EXPLAIN": "What a question would cost is told by hush explain, or curator.explain(…).",
    **dict.fromkeys(("DESCRIBE", "SHOW", "SUMMARIZE", "PRAGMA"), _TABLES),
}
"""Hints for other statements than SELECT."""
STATEMENTS = "Only one SELECT can be asked; hush changes no data and runs no other statement."
NO_WAY = "There is no other way to ask it."


def shown(node: object) -> str:
    """Return a node as short SQL for a message to its author; never fails, and is never executed."""
    text = str(node.meta.get(SHOWN, "")) if isinstance(node, exp.Expr) else str(node)
    try:
        if isinstance(node, exp.Expr) and not text:
            text = node.sql("duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE)
    except Exception:  # noqa: BLE001 - a printer that stumbles over a strange tree must not hide the refusal
        text = type(node).__name__
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def called(node: exp.Expr) -> str:
    """Return the name of a function as the question wrote it, as far as that is known."""
    while isinstance(node, AROUND):
        node = node.this
    if isinstance(node, exp.Anonymous):
        return str(node.this)[:60]
    return str(node.meta.get(WRITTEN) or (node.sql_name() if isinstance(node, exp.Func) else type(node).__name__))


def refuse(node: object) -> QuestionError:
    """Return the refusal of a node that is not supported where it stands."""
    name = type(node).__name__
    split = node.find(exp.Split, exp.StringToArray) if isinstance(node, exp.Expr) else None
    if split is not None and not isinstance(node, exp.SplitPart):
        name = "Split"
    if name in REASONS:
        reason, hint = REASONS[name]
        return QuestionError(f"{reason} Got {shown(node)}.", hint)
    if not isinstance(node, exp.Func):
        return QuestionError(f"{name} is not supported here: {shown(node)}.", _SEE)
    name = called(node)
    spelled_right = any(spelling in exp.FUNCTION_BY_NAME for spelling in (name.upper(), node.sql_name()))
    hint = NEAREST.get(name.upper()) or (_SEE if spelled_right else did_you_mean(name, OFFERED, otherwise=_SEE))
    return QuestionError(f"There is no function {name} here.", hint)


def is_set(value: Any) -> bool:
    """Return whether an argument of a node is set."""
    return value is not None and value is not False and value not in ([], "")


def has(node: exp.Expr, *names: str) -> bool:
    """Return whether any of these arguments of a node is set."""
    return any(map(is_set, map(node.args.get, names)))


def only(node: exp.Expr, *allowed: str) -> None:
    """Refuse a node that carries any argument besides the allowed ones."""
    for name, value in node.args.items():
        if name not in allowed and is_set(value):
            extra_node = value[0] if isinstance(value, list) else value
            if isinstance(extra_node, exp.Expr) and type(extra_node).__name__ in REASONS:
                raise refuse(extra_node)
            extra = name.rstrip("_").upper().replace("_", " ")
            hint = _EXTRAS.get(f"{type(node).__name__}.{name}", "Without it, it is another question.")
            raise QuestionError(f"{extra} is not supported in {shown(node)}.", hint)


def identifier(node: Any) -> str:
    """Return the name in an identifier."""
    if not isinstance(node, exp.Identifier):
        raise refuse(node)
    only(node, "this", "quoted")
    name = node.this
    if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
        raise QuestionError("A name must be 1 to 200 printable characters.")
    return name


def is_star(node: exp.Expr) -> bool:
    """Return whether a node is ``*`` or ``t.*``."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def column_name(node: object) -> tuple[str, str | None] | None:
    """Return the name of a column and the table before it; None for any other node."""
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        return None
    table = node.args.get("table")
    return identifier(node.this), None if table is None else identifier(table)


def place(node: exp.Expr) -> tuple[int, int] | None:
    """Return the first and last character of a node in the question's text, as far as the parser kept them."""
    spans = [child.meta for child in node.walk() if "start" in child.meta]
    return (min(span["start"] for span in spans), max(span["end"] for span in spans)) if spans else None


# Functions

# syntax that looks like a function and has a reader of its own
_SYNTAX = ("CASE", "CAST", "DATE_PART", "DAYS_BETWEEN", "DECODE", "EXTRACT", "IF")
_RECORDS: tuple[Any, ...] = (*FUNCTIONS.values(), *REWRITES, *AGGREGATES)
OFFERED = tuple(sorted({*_SYNTAX, *(name for record in _RECORDS for name in record.names)}))
"""All names that can be called, for "did you mean" and for the documentation."""

_SEE = "See docs/sql.md for everything that can be asked."
NEAREST: dict[str, str] = {}
"""The nearest supported form of some unsupported functions."""
for _names, _form in {
    "NOW TODAY CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIME LOCALTIMESTAMP GETDATE SYSDATE": "What depends on "
    "the time is not computed. Write the date itself, such as DATE '2024-12-31'.",
    "HASH MD5 SHA1 SHA256": "Such a function hides which values it gives; use the value itself.",
    "REGEXP_EXTRACT REGEXP_REPLACE": "Match texts with REGEXP_MATCHES, and take parts with SPLIT_PART.",
    "DATE_FORMAT TO_CHAR": "Use STRFTIME(d, '%Y-%m').",
    "YEARWEEK": "Use CAST(STRFTIME(d, '%G%V') AS INTEGER), or DATE_TRUNC('week', d).",
    "DATE_SUB DATESUB": "Days are DATE_DIFF('day', a, b). Complete months from a to a later b are "
    "DATE_DIFF('month', a, b) - CASE WHEN DAY(b) < DAY(a) AND DAY(b + INTERVAL 1 DAY) > 1 THEN 1 ELSE 0 END.",
    "LPAD RPAD": "Two digits are RIGHT('0' || x, 2).",
    "FORMAT PRINTF": "Write ROUND(x, 2), or CAST(x AS VARCHAR).",
    "FIRST LAST ANY_VALUE ARBITRARY": "Add the column to GROUP BY if it follows from the keys.",
    "ARG_MIN ARG_MAX MIN_BY MAX_BY": "They work within a unit; over all there is none.",
    "KURTOSIS SKEWNESS MAD ENTROPY": "Ask for COUNT(*) by bins, GROUP BY BIN(x, 0, 100, 50).",
    "LIST ARRAY_AGG STRING_AGG LISTAGG GROUP_CONCAT": "Ask for GROUP BY x, COUNT(*).",
    "BITWISE_AND BIT_AND": "Of whole numbers from 0 on, the last bit is x % 2.",
    "XOR": "Write (a) <> (b).",
    "EPOCH": "Use DATE_DIFF('second', DATE '1970-01-01', d).",
    "EPOCH_MS": "Use DATE_DIFF('second', DATE '1970-01-01', d) * 1000.",
    "HISTOGRAM": "Use GROUP BY BIN(x, lower, upper, n) and COUNT(*).",
    "WEEKDAY": "Use DAYOFWEEK(d), of which 0 is Sunday, or ISODOW(d), of which 1 is Monday.",
    "AVERAGE": "Use AVG(x).",
    "COVAR": "Use COVAR_SAMP(x, y) or COVAR_POP(x, y).",
}.items():
    NEAREST |= dict.fromkeys(_names.split(), _form)
