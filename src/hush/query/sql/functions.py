"""SQL's functions and operators: which function each node calls, and why others are refused.

All of it is read from the tables of functions and aggregates (`hush.query.functions`, `hush.query.aggregates`).

Some only stand for others: their text is read once, and their arguments are put in. A function's arguments are resolved
first, and stand as they are in the text, however often it names them. An aggregate's are put in as the question has
them, because they belong to the rows, and the text around them to the answers; a FILTER goes to every aggregate of the
text.
"""

from __future__ import annotations

import re
from functools import cache

from sqlglot import exp
from sqlglot.parsers.duckdb import DuckDBParser

from hush.query.aggregates import AGGREGATES, AggregateFunction
from hush.query.errors import QuestionError, did_you_mean
from hush.query.expressions import Op
from hush.query.functions import FUNCTIONS, REWRITES
from hush.query.functions.record import Reading, Rewrite
from hush.query.functions.rules import wanted_arguments
from hush.query.sql.allow_list import ARGUMENT, SHOWN, called, is_set, only, shown, split_refusal
from hush.query.sql.text import read_expression

CALLS: dict[type[exp.Expr], tuple[Op, Reading]] = {
    getattr(exp, reading.node): (record.op, reading) for record in FUNCTIONS.values() for reading in record.reads
}
"""Classes of nodes that are nothing but a call, and where their arguments stand."""

_KNOWN_TO_PARSER = {*DuckDBParser.FUNCTIONS, *DuckDBParser.FUNCTION_PARSERS}
UNKNOWN_TO_PARSER: dict[str, Op] = {
    name: record.op for record in FUNCTIONS.values() for name in record.names if name not in _KNOWN_TO_PARSER
}
"""Functions by name, for which the parser has no class; those that it has are read as it says, or refused."""

REWRITTEN: dict[type[exp.Expr] | str, Rewrite] = {
    key: rewrite
    for rewrite in REWRITES
    for key in (*rewrite.names, *([getattr(exp, rewrite.node)] if rewrite.node else []))
}
"""Functions that abbreviate others, by class or by name."""

DATE_FIELDS: dict[str, Op] = {field: record.op for record in FUNCTIONS.values() for field in record.fields}

_T = exp.DataType.Type
CASTS: dict[object, Op] = {_T[name]: record.op for record in FUNCTIONS.values() for name in record.types}

INTEGERS: dict[object, tuple[int, int]] = {
    _T.TINYINT: (-(2**7), 2**7 - 1),
    _T.SMALLINT: (-(2**15), 2**15 - 1),
    _T.INT: (-(2**31), 2**31 - 1),
    _T.UTINYINT: (0, 2**8 - 1),
    _T.USMALLINT: (0, 2**16 - 1),
    _T.UINT: (0, 2**32 - 1),
    _T.UBIGINT: (0, 2**63 - 1),
}
"""The ranges of types of integers that hold less than 64 bits with a sign."""

_SYNTAX = ("CASE", "CAST", "DATE_PART", "DAYS_BETWEEN", "DECODE", "EXTRACT", "IF")
"""Syntax that looks like a function and has a reader of its own."""
OFFERED = tuple(
    sorted(
        {
            *_SYNTAX,
            *(name for record in FUNCTIONS.values() for name in record.names),
            *(name for rewrite in REWRITES for name in rewrite.names),
            *(name for aggregate in AGGREGATES for name in aggregate.names),
        }
    )
)
"""All names that can be called, for "did you mean" and for the documentation."""

_SEE = "See docs/sql.md for everything that can be asked."
_TIME = "depends on the time at which it runs"
_FORBIDDEN: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"READ_?|.*_?SCAN(_|$)|GLOB|.*_COPY|SNIFF_?|PARQUET|FROM_SUBSTRAIT|LOAD|HTTP|URL|ST_READ|QUERY"),
        "reads files or other sources",
    ),
    (
        re.compile(
            r"NOW|TODAY|CURRENT_?(DATE|TIME)|LOCALTIME|GET_?CURRENT_?TIM|TRANSACTION_TIMESTAMP|AGE$|CLOCK|UTC_?|SYS"
        ),
        _TIME,
    ),
    (re.compile(r"RAND|UUID|GEN_RANDOM|SETSEED|SAMPLE|NEXT_?VAL|CURR_?VAL"), "is random or counts calls"),
    (re.compile(r"MD5|SHA|HASH"), "hides which values it gives; use the value itself"),
    (
        re.compile(
            r"SETTING|GET_?ENV|PRAGMA|SHOW|CURRENT_?|SESSION_?|USER|VERSION|DUCKDB|PG_|CATALOG|HAS_|COL_DESC|OBJ_DESC|TXID|IN_SEARCH|WHICH"
        ),
        "reads settings or the catalogue",
    ),
    (
        re.compile(r"REGEXP"),
        "takes texts apart; match them with REGEXP_MATCHES, take parts with SPLIT_PART",
    ),
    (
        re.compile(r"REPEAT|(L|R)?PAD$|FORMAT|PRINTF|LIST|ARRAY|GENERATE|UNNEST|RANGE|SPLIT|EXPLODE"),
        "can fill the memory",
    ),
    (re.compile(r"ERROR|RAISE|ASSERT|TRY_|STR_TO|CHR|CHAR$|UNICODE|ASCII|ORD$"), "can fail on a row"),
)

_NEAREST = {
    **dict.fromkeys(("DATE_FORMAT", "TO_CHAR"), "Use STRFTIME(d, '%Y-%m')."),
    "YEARWEEK": "Use CAST(STRFTIME(d, '%G%V') AS INTEGER), or DATE_TRUNC('week', d).",
    **dict.fromkeys(
        ("DATE_SUB", "DATESUB"),
        "Days are DATE_DIFF('day', a, b). Complete months from a to a later b are "
        "DATE_DIFF('month', a, b) - CASE WHEN DAY(b) < DAY(a) AND DAY(b + INTERVAL 1 DAY) > 1 THEN 1 ELSE 0 END.",
    ),
    **dict.fromkeys(("LPAD", "RPAD"), "Two digits are RIGHT('0' || x, 2)."),
    **dict.fromkeys(("FORMAT", "PRINTF"), "Write ROUND(x, 2), or CAST(x AS VARCHAR)."),
    **dict.fromkeys(
        ("FIRST", "LAST", "ANY_VALUE", "ARBITRARY"), "Add the column to GROUP BY if it follows from the keys."
    ),
    **dict.fromkeys(("ARG_MIN", "ARG_MAX", "MIN_BY", "MAX_BY"), "They work within a unit; over all there is none."),
    **dict.fromkeys(
        ("KURTOSIS", "SKEWNESS", "MAD", "ENTROPY"), "Ask for COUNT(*) by bins, GROUP BY BIN(x, 0, 100, 50)."
    ),
    **dict.fromkeys(("LIST", "ARRAY_AGG", "STRING_AGG", "LISTAGG", "GROUP_CONCAT"), "Ask for GROUP BY x, COUNT(*)."),
    **dict.fromkeys(("BITWISE_AND", "BIT_AND"), "Of whole numbers from 0 on, the last bit is x % 2."),
    "XOR": "Write (a) <> (b).",
    "EPOCH": "Use DATE_DIFF('second', DATE '1970-01-01', d).",
    "EPOCH_MS": "Use DATE_DIFF('second', DATE '1970-01-01', d) * 1000.",
    "HISTOGRAM": "Use GROUP BY BIN(x, lower, upper, n) and COUNT(*).",
    "WEEKDAY": "Use DAYOFWEEK(d), of which 0 is Sunday, or ISODOW(d), of which 1 is Monday.",
    "AVERAGE": "Use AVG(x).",
    "COVAR": "Use COVAR_SAMP(x, y) or COVAR_POP(x, y).",
}
"""The nearest supported form of some unsupported functions."""


def refuse_function(node: exp.Expr) -> QuestionError:
    """Return the refusal of a function, with the reason or the nearest supported one."""
    if (split := split_refusal(node)) is not None:
        return split
    name = called(node)
    names = {name.upper(), node.sql_name()} if isinstance(node, exp.Func) else {name.upper()}
    for pattern, reason in _FORBIDDEN:
        if any(map(pattern.match, names)):
            hint = "Write the date itself, such as DATE '2024-12-31'." if reason == _TIME else nearest(name) or _SEE
            return QuestionError(f"{name} is not allowed: it {reason}.", hint)
    spelled_right = any(spelling in exp.FUNCTION_BY_NAME for spelling in names)
    hint = nearest(name) or (_SEE if spelled_right else did_you_mean(name, OFFERED, otherwise=_SEE))
    return QuestionError(f"There is no function {name} here.", hint)


def nearest(name: str) -> str:
    """Return the nearest supported form of a function, or nothing."""
    return _NEAREST.get(name.upper(), "")


QUANTILES = (exp.Quantile, exp.ApproxQuantile, exp.PercentileCont, exp.PercentileDisc)
_CLASSES: dict[type[exp.Expr], AggregateFunction] = {
    getattr(exp, node): record for record in AGGREGATES for node in record.nodes
}
_NAMES: dict[str, AggregateFunction] = {name: record for record in AGGREGATES for name in record.names}


def is_aggregate(node: object) -> bool:
    """Return whether a node aggregates rows, supported or not."""
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)):
        return True
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in _NAMES


def record_of(node: exp.Expr) -> AggregateFunction | None:
    """Return the record of the aggregate that a node calls."""
    return _NAMES.get(str(node.this).upper()) if isinstance(node, exp.Anonymous) else _CLASSES.get(type(node))


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether a node aggregates rows anywhere inside, subqueries left aside."""
    return any(is_aggregate(child) for child in node.walk(prune=lambda child: isinstance(child, exp.Query)))


def arguments_of(node: exp.Expr, slots: tuple[str, ...], count: int) -> list[exp.Expr]:
    """Return the arguments of a call, which stand in these slots of its node, and must be of this number."""
    if isinstance(node, exp.Anonymous):
        only(node, "this", "expressions")
        arguments = list(node.expressions)
    else:
        only(node, *slots[:count])
        arguments = [node.args[slot] for slot in slots[:count] if is_set(node.args.get(slot))]
    if not arguments and count and is_aggregate(node):
        raise QuestionError(f"{shown(node)} needs an argument.", "Name a column.")
    if len(arguments) != count:
        raise QuestionError(f"{called(node)} takes {wanted_arguments(count, count)}; got {len(arguments)}.")
    return arguments


def aggregate_arguments(node: exp.Expr, count: int) -> list[exp.Expr]:
    """Return the arguments of an aggregate, without DISTINCT."""
    arguments = arguments_of(node, ("this", "expression"), count)
    if arguments and isinstance(arguments[0], exp.Distinct):
        raise QuestionError(
            f"DISTINCT is supported in COUNT, SUM, AVG, MIN and MAX, of one argument; got {shown(node)}.",
            "Leave DISTINCT out, or count how many values there are: COUNT(DISTINCT x).",
        )
    return arguments


@cache
def template(text: str) -> exp.Expr:
    """Return the syntax tree of the definition of a function or aggregate; cached."""
    return read_expression(text)


def rewritten_aggregate(node: exp.Expr) -> exp.Expr | None:
    """Return the expression that an aggregate is rewritten into; None if it is not rewritten."""
    inner, filters = node, []
    while isinstance(inner, exp.Filter):
        filters.append(inner)
        inner = inner.this
    record = record_of(inner)
    if record is None or not record.rewrite:
        return None
    arguments = dict(zip(record.parameters, aggregate_arguments(inner, len(record.parameters)), strict=True))
    text = shown(node)

    def put_in(child: exp.Expr) -> exp.Expr:
        if isinstance(child, exp.Column) and child.name in arguments:
            return arguments[child.name].copy()
        if is_aggregate(child):
            child.meta[SHOWN] = text
            if arguments:
                child.meta[ARGUMENT] = shown(next(iter(arguments.values())))
        return child

    def filtered(child: exp.Expr) -> exp.Expr:
        for condition in reversed(filters if is_aggregate(child) else []):
            outer = condition.copy()
            outer.set("this", child)
            outer.meta[SHOWN] = text
            child = outer
        return child

    # expressions that were put in are not looked into: neither an argument for parameters, nor a filtered aggregate
    return template(record.rewrite).transform(put_in).transform(filtered, copy=False)
