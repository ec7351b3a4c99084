"""Other dialects: SQL as BigQuery, Snowflake, PostgreSQL, Spark or SQL Server read it, turned into the same tree.

sqlglot reads each dialect by its own grammar. A function of one name may still mean something else there, so questions
in another dialect go by a list: functions that mean the same everywhere pass (`_SAME`), those of `DIFFERENCES` are
rewritten into their meaning or refused for a reason, and all others are refused by name. The default dialect, DuckDB's,
takes none of these ways.

PostgreSQL and SQL Server divide integers as whole numbers, and other numbers not. This goes by the type that an
expression has there, not by its values: ``100.0 * 1 / 3`` is 33.3. `number_type` finds that type while an expression is
read, and the expression carries it (`Type.written`).

BigQuery and Snowflake have clauses of their own for differential privacy, which are read here too
(docs/migrating.md). Bounds on what one unit contributes to a group are asked here by aggregating within the unit first.

Snowflake's ``DP_INTERVAL_LOW(alias)`` and ``DP_INTERVAL_HIGH(alias)`` are the ends of a result's error bar.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial, reduce
from typing import Any, NamedTuple

from sqlglot import exp

from hush.core import exact
from hush.query.errors import QuestionError
from hush.query.expressions import Call, Expression, Literal, Op
from hush.query.functions import call, constant
from hush.query.functions.dates import UNITS
from hush.query.question import Question
from hush.query.relations import scans
from hush.query.sql.allow_list import WRITTEN, called, has, identifier, shown
from hush.query.sql.text import DEFAULT, DIALECTS, PER_UNIT, PRIVACY, PrivacyClause, read_query
from hush.query.types import UNKNOWN, Kind

_SAME = frozenset(
    {
        "Abs", "And", "AnonymousAggFunc", "ApproxDistinct", "Avg", "Case", "Cast", "Ceil", "Coalesce", "Concat",
        "Contains", "Corr", "Count", "CountIf", "CovarPop", "CovarSamp", "CumeDist", "Date", "DateAdd", "DateDiff",
        "DateFromParts", "DateTrunc", "Day", "DayOfMonth", "DayOfWeek", "DayOfWeekIso", "DayOfYear", "DecodeCase",
        "DenseRank", "EndsWith", "Exists", "Exp", "Extract", "FirstValue", "Floor", "Greatest", "Grouping",
        "GroupingId", "Hour", "If", "Lag", "LastValue", "Lead", "Least", "Left", "Length", "Ln", "Log", "LogicalAnd",
        "LogicalOr", "Lower", "Max", "Median", "Min", "Minute", "Mode", "Month", "Not", "Ntile", "Nullif", "Or",
        "PercentRank", "PercentileCont", "PercentileDisc", "Pow", "Quantile", "Quarter", "Rank", "Replace", "Right",
        "Round", "RowNumber", "Second", "Sign", "SplitPart", "Sqrt", "StartsWith", "Stddev", "StddevPop",
        "StddevSamp", "StrPosition", "Substring", "Sum", "TimestampTrunc", "Trim", "Trunc", "TryCast", "TsOrDsAdd",
        "Upper", "Variance", "VariancePop", "WeekOfYear", "WeekStart", "WidthBucket", "Year",
        "DP_INTERVAL_LOW()", "DP_INTERVAL_HIGH()", "CLIP()", "BIN()", "HUSH_PER_UNIT()",
    }
)  # fmt: skip
"""Functions that mean the same in all dialects, once sqlglot has put their arguments in one order.

A name with brackets is one that the parser has no class for.
"""
_SAYS_NOTHING = {
    "Coalesce": ("is_null",), "DateDiff": ("big_int",), "DateFromParts": ("allow_overflow",), "Length": ("binary",),
    "Round": ("casts_non_integer_decimals",), "SplitPart": ("part_index_zero_as_one", "empty_delimiter_returns_whole"),
    "StrPosition": ("clamp_position",), "Substring": ("zero_start",), "TimestampTrunc": ("input_type_preserved",),
    "DateTrunc": ("input_type_preserved",), "Trunc": ("fractions_supported",), "CountIf": ("zero_on_all_null",),
    "TryCast": ("requires_string",),
}  # fmt: skip
"""Arguments by which the parser says how a dialect's function differs where it is not understood here anyway."""


def translated(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Return a tree of a dialect translated to the default dialect; refuse parts without an equal meaning there."""
    for clause in list(tree.find_all(PrivacyClause)):  # its options are the question's terms
        clause.pop()
    # from the leaves up, so that what a rewriting makes is not rewritten again
    for node in reversed(list(tree.walk())):
        if (plain := _translated(node, dialect)) is not node:
            tree = plain if node is tree else tree
            node.replace(plain)
    return tree


def _translated(node: exp.Expr, dialect: str) -> exp.Expr:
    name = type(node).__name__
    for extra in _SAYS_NOTHING.get(name, ()):
        node.set(extra, None)
    if isinstance(node, exp.Placeholder | exp.Parameter):
        raise QuestionError("Parameters are read in the default dialect alone.", "Write the value itself.")
    if isinstance(node, exp.Anonymous):
        name = f"{str(node.this).upper()}()"
    rule: Any
    for rule in _BY_NODE.get((name, dialect), ()):
        outcome: _Outcome = None
        if isinstance(rule, str):
            outcome = rule
        elif (slots := getattr(rule, "arg_types", None)) is None:
            outcome = rule(node)
        elif not isinstance(node, exp.Anonymous):
            outcome = rule(**{slot: value for slot, value in node.args.items() if slot in slots})
        elif len(node.expressions) == 1:
            outcome = rule(this=node.expressions[0])
        if isinstance(outcome, str):
            raise _refuse(node, dialect, outcome)
        if outcome is not None:
            outcome.meta.update({key: value for key, value in node.meta.items() if key not in outcome.meta})
            return outcome
    known = isinstance(node, exp.Connector) or name in _SAME
    if isinstance(node, exp.Func) and not known:
        raise _refuse(node, dialect, "it may mean something else there")
    return node


def _refuse(node: exp.Expr, dialect: str, why: str) -> QuestionError:
    what = called(node) if isinstance(node, exp.Func) else shown(node)
    return QuestionError(
        f"{what} is not read in the dialect {dialect}: {why}.",
        "Write what it means in DuckDB's SQL, and leave the dialect out.",
    )


# Rules: functions that get a node, and return an outcome

_Outcome = exp.Expr | str | None
"""What becomes of a node: it is read as the returned one, which is the node itself where that was changed in place or
needs no change; refused, for the returned reason; or None: the rule does not apply, and the next one is asked.
"""


def _if_unit(units: str, reason: str) -> Callable[[exp.Expr], str | None]:
    """Return what refuses certain units of time, of functions and in EXTRACT."""
    return lambda node: reason if _unit(node) in units.split() else None


def _unit(node: exp.Expr) -> str:
    unit = node.this if isinstance(node, exp.Extract) else node.args.get("unit")
    if isinstance(unit, exp.WeekStart):
        return f"WEEK({unit.name.upper()})"
    return "" if unit is None else str(unit.this).upper()


def _any_null(parts: Iterable[exp.Expr]) -> exp.Expr:
    return exp.or_(*(part.is_(exp.null()) for part in parts))


def _is_null(node: exp.Expr) -> exp.Expr | None:
    return _any_null(node.expressions) if len(node.expressions) == 1 else None


def _make_date(node: exp.Expr) -> exp.Expr | None:
    return exp.DateFromParts.from_arg_list(node.expressions) if len(node.expressions) == 3 else None


def _piped(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=reduce(lambda left, right: exp.DPipe(this=left, expression=right), node.expressions))


def _skipping_null(node: exp.Expr) -> exp.Expr:
    node.set("ignore_nulls", True)
    return node


def _null_if_any(node: exp.Expr) -> exp.Expr:
    missing = _any_null([node.this, *node.expressions])
    return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=_skipping_null(node.copy()))


def _choice(node: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=_any_null([node.this]), true=node.args["false"])], default=node.args["true"])


def _without_null(node: exp.Expr) -> exp.Expr | None:
    values = node.this.expressions if isinstance(node.this, exp.Distinct) else ()
    if len(values) < 2:
        return None
    present = exp.and_(*(exp.Is(this=value.copy(), expression=exp.Null(), negate=True) for value in values))
    return exp.Filter(this=node.copy(), expression=exp.Where(this=present))


def _from_one(node: exp.Expr, *, counts: bool) -> _Outcome:
    """Let a substring start at the first character, if it would start before it.

    In the standard, places before the first character count: SUBSTRING('abc', 0, 2) is 'a'. Elsewhere 0 is the first
    character, and a negative start counts from the end.
    """
    start, length = _whole(node.args.get("start"), 1), node.args.get("length")
    if start > 0:
        return None
    if not counts and start < 0:
        return "a start before the first character counts from the end"
    if counts and length is not None:
        size = _whole(length, -1)
        if size < 0:
            return "a length that is not constant counts from before the first character"
        node.set("length", exp.Literal.number(max(0, start + size - 1)))
    node.set("start", exp.Literal.number(1))
    return node


def _whole(node: object, otherwise: int) -> int:
    """Return a constant whole number, or else ``otherwise``."""
    sign = 1
    while isinstance(node, exp.Neg | exp.Paren):
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    return sign * int(node.name) if isinstance(node, exp.Literal) and node.is_int else otherwise


def _moved(node: exp.Expr) -> exp.Expr:
    """Read DATE_ADD(d, INTERVAL 1 MONTH), DATEADD(month, 1, d) and their like as a date that is moved."""
    amount, unit = node.expression, _unit(node) or ("MONTH" if isinstance(node, exp.AddMonths) else "DAY")
    if isinstance(amount, exp.Interval):
        amount, unit = amount.this, str(amount.args["unit"].this).upper()
    if isinstance(amount, exp.Literal) and amount.is_string:
        amount = exp.Literal.number(amount.name)
    if isinstance(node, exp.DateSub | exp.DatetimeSub | exp.TimestampSub):
        amount = exp.Neg(this=amount)
    return exp.TsOrDsAdd(this=node.this, expression=exp.Interval(this=amount, unit=exp.var(unit)))


def _complete(node: exp.Expr) -> exp.Expr:
    """Count complete units of time; without a unit, days from date to date."""
    unit = node.args.get("unit")
    difference = exp.DateDiff(this=node.this, expression=node.expression, unit=unit or exp.var("DAY"))
    difference.meta.update({} if unit is None else {COMPLETE: True})
    return difference


def _weeks(node: exp.Expr, first: str, *units: str) -> exp.Expr | None:
    """Return the number of week starts between two dates, from the first days of their weeks."""
    if _unit(node) not in units:
        return None
    sides: list[exp.Expr] = [node.this, node.expression]
    if first == "Sunday":
        day = exp.Interval(this=exp.Literal.number(1), unit=exp.var("DAY"))
        sides = [exp.TsOrDsAdd(this=side, expression=day.copy()) for side in sides]
    mondays = [exp.TimestampTrunc(this=side, unit=exp.var("WEEK")) for side in sides]
    days = exp.DateDiff(this=mondays[0], expression=mondays[1], unit=exp.var("DAY"))
    return exp.IntDiv(this=days, expression=exp.Literal.number(7))


def _iso_week(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Extract):
        return exp.WeekOfYear(this=node.expression) if _unit(node) in {"ISOWEEK", "WEEKISO", "WEEK_ISO"} else None
    is_monday = _unit(node) in {"ISOWEEK", "WEEK(MONDAY)"}
    return exp.TimestampTrunc(this=node.this, unit=exp.var("WEEK")) if is_monday else None


def _sunday_is_one(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Extract) and _unit(node) not in {"DOW", "DAYOFWEEK"}:
        return None
    day = exp.DayOfWeek(this=node.expression if isinstance(node, exp.Extract) else node.this)
    return exp.Paren(this=exp.Add(this=day, expression=exp.Literal.number(1)))


def _iso_day(node: exp.Expr) -> exp.Expr | None:
    if _unit(node) != "ISODOW":
        return None
    day = exp.DayOfWeekIso(this=node.expression)
    day.meta[SQL_TYPE] = "decimal"
    return day


def _to_date(node: exp.Expr) -> exp.Expr | str:
    """Read TO_DATE(x) as a cast; one that the parser itself added around a date is removed."""
    inner: exp.Expr = node.this
    if has(node, "format"):
        return "its format has a meaning of its own"
    if WRITTEN not in node.meta and not (isinstance(inner, exp.Literal) and inner.is_string):
        return inner
    return exp.Cast(this=inner, to=exp.DataType.build("TIMESTAMP" if isinstance(node, exp.TimeStrToTime) else "DATE"))


def _decimals(node: exp.Expr, width: int | None = None, digits: int = 0) -> exp.Expr | None:
    """Set the default width and digits of a DECIMAL; without a width it has any number of digits."""
    if not node.args["to"].is_type(exp.DataType.Type.DECIMAL) or node.args["to"].expressions:
        return None
    if width is None:
        node.meta[SQL_TYPE] = "decimal"
    node.set("to", exp.DataType.build("DOUBLE" if width is None else f"DECIMAL({width}, {digits})"))
    return node


def _wide(node: exp.Expr) -> exp.Expr | None:
    if not node.args["to"].is_type(*exp.DataType.INTEGER_TYPES):
        return None
    node.set("to", exp.DataType.build("BIGINT"))
    return node


def _convert(node: exp.Expr) -> exp.Expr | str:
    if has(node, "style"):
        return "its style has a meaning of its own"
    return (exp.TryCast if node.args.get("safe") else exp.Cast)(this=node.expression, to=node.this)


def _blanks(node: exp.Expr) -> exp.Expr | None:
    if not isinstance(node.args.get("expression"), exp.Literal) or node.expression.name != " ":
        return None
    node.set("expression", None)
    return node


def _cut(node: exp.Expr) -> _Outcome:
    """Read ROUND(x, 0, 1), which cuts digits off, as TRUNC; with other digits it is refused."""
    if not has(node, "truncate"):
        return None
    return exp.Trunc(this=node.this) if _whole(node.args.get("decimals"), 1) == 0 else "it cuts digits off"


def _pattern(node: exp.Expr, signs: str) -> str | None:
    pattern = str(getattr(node.expression, "this", ""))
    return "its pattern has signs with a meaning of their own" if set(signs) & set(pattern) else None


_OTHERS = " ".join(DIALECTS[1:])
_WHITE_SPACE = "it takes tabs and line ends off, too: write TRIM(x, ' ')"
_MOVES = "DateAdd DateSub DatetimeAdd DatetimeSub TimestampAdd TimestampSub TimeAdd TsOrDsAdd"
_CASTS = "Cast TryCast"
_Rule = type[exp.Expr] | Callable[[exp.Expr], _Outcome] | str
"""What a node of a dialect means: the reason to refuse it; the class of the default dialect that has the same
arguments; or a function, which returns an outcome.
"""

DIFFERENCES: tuple[tuple[str, str, _Rule], ...] = (
    ("Concat", "bigquery snowflake spark", _piped),
    ("Greatest Least", "bigquery snowflake", _null_if_any),
    ("Greatest Least", "postgres spark tsql", _skipping_null),
    ("SafeDivide", "bigquery spark", exp.Div),
    ("Nvl2", "snowflake spark", _choice),
    ("EqualNull", "snowflake", exp.NullSafeEQ),
    ("Count", "snowflake spark", _without_null),
    # texts
    ("Contains", "tsql", "it searches a full-text index"),
    ("Contains", "bigquery", "it goes without regard to case, and normalizes"),
    ("Length", "tsql", "LEN leaves blanks at the end out"),
    ("Substring", "bigquery snowflake spark", partial(_from_one, counts=False)),
    ("Substring", "postgres tsql", partial(_from_one, counts=True)),
    ("StrPosition", _OTHERS, lambda node: "it searches from a place on" if has(node, "position") else None),
    ("Trim", "bigquery", lambda node: None if has(node, "expression") else _WHITE_SPACE),
    ("Trim", _OTHERS, _blanks),
    ("Like ILike", "bigquery snowflake postgres spark", lambda node: _pattern(node, "\\")),
    ("Like ILike", "tsql", lambda node: _pattern(node, "\\[")),
    ("RegexpLike", "bigquery", lambda node: node),
    ("SimilarTo", "postgres", "patterns differ"),
    ("RawString", "bigquery spark", lambda node: exp.Literal.string(str(node.this))),
    # numbers; what depends on their types is in `meaning_by_type` and `cast_argument`
    ("Round", "tsql", _cut),
    (_CASTS, "postgres", _decimals),
    (_CASTS, "tsql", lambda node: _decimals(node, 18, 0)),
    (_CASTS, "spark", lambda node: _decimals(node, 10, 0)),
    (_CASTS, "bigquery", lambda node: _decimals(node, 38, 9)),
    (_CASTS, "snowflake", _wide),
    ("Convert", "tsql", _convert),
    ("ApproxQuantile", "snowflake spark", exp.Quantile),
    ("VAR()", "tsql", exp.Variance),
    ("VARP()", "tsql", exp.VariancePop),
    ("STDEVP()", "tsql", exp.StddevPop),
    ("MEAN()", "spark", exp.Avg),
    ("STD()", "spark", exp.Stddev),
    ("EVERY()", "postgres spark", exp.LogicalAnd),
    ("ISNULL()", "spark", _is_null),
    # dates
    ("MAKE_DATE()", "postgres spark", _make_date),
    ("TsOrDsToDate TimeStrToTime", _OTHERS, _to_date),
    ("AddMonths", "snowflake", "the last day of a month stays the last"),
    (_MOVES + " AddMonths", _OTHERS, _moved),
    ("DateDiff", "snowflake", lambda node: _weeks(node, "Monday", "WEEK")),
    ("DateDiff DatetimeDiff", "bigquery", lambda node: _weeks(node, "Sunday", "WEEK", "WEEK(SUNDAY)")),
    ("DateDiff DatetimeDiff", "bigquery", lambda node: _weeks(node, "Monday", "ISOWEEK", "WEEK(MONDAY)")),
    ("DateDiff", "tsql", lambda node: _weeks(node, "Sunday", "WEEK")),
    ("DateDiff TimestampDiff", "spark", _complete),
    ("DatetimeDiff", "bigquery", exp.DateDiff),
    ("TimestampDiff", "bigquery", "it counts complete units of time"),
    ("DateTrunc DatetimeTrunc TimestampTrunc Extract", "bigquery tsql", _iso_week),
    ("DateTrunc DatetimeTrunc TimestampTrunc Extract", "bigquery",
     _if_unit("WEEK WEEK(SUNDAY)", "weeks start on Sunday")),
    ("DatetimeTrunc", "bigquery", exp.TimestampTrunc),
    ("TimestampTrunc Extract", "tsql",
     _if_unit("WEEK DAYOFWEEK WEEKDAY DW", "weeks and their days depend on a setting")),
    ("DayOfWeek Extract", "bigquery spark", _sunday_is_one),
    ("Extract", "postgres", _iso_day),
    ("Second", "postgres", "it has fractions there"),
    ("Extract", "postgres spark", _if_unit("SECOND SECONDS", "it has fractions there")),
)  # fmt: skip
"""Nodes by the names of their classes (with brackets, by names that the parser has no class for), and the dialects in
which they mean something else. All of these are rewritten or refused before types are known; docs/dialects.csv has
expressions, values and the pages of each database's documentation.
"""
_BY_NODE: dict[tuple[str, str], list[_Rule]] = {}
for _nodes, _dialects, _rule in DIFFERENCES:
    for _key in itertools.product(_nodes.split(), _dialects.split()):
        _BY_NODE.setdefault(_key, []).append(_rule)


# What depends on types

COMPLETE = "complete"
"""Under this name a difference of dates remembers that it counts complete units of time."""
SQL_TYPE = "sql_type"
"""Under this name a node remembers which type of number it has in its dialect."""
_INTEGERS = ("int", "integer", "bigint")
_TYPES = (*_INTEGERS, "decimal", "number", "fraction", "float")
"""Types of numbers from the narrowest to the widest; a stored column is an ``integer`` or a ``number``.

A ``number`` is a decimal or a float, as it is stored, and a ``fraction`` what was made of one and is a float here.
"""
_PROMOTED = frozenset({
    "Paren", "Neg", "Abs", "Add", "Sub", "Mul", "Mod", "Div", "IntDiv", "Greatest", "Least", "Coalesce", "Anonymous",
    "Min", "Max", "Lag", "Lead", "FirstValue", "LastValue", "Case", "If", "Quantile",
})  # fmt: skip
"""Nodes that have the widest type of their arguments."""
_COUNTED = frozenset({
    "Count", "CountIf", "ApproxDistinct", "RowNumber", "Rank", "DenseRank", "Ntile", "Length", "StrPosition",
    "DateDiff", "WidthBucket", "Year", "Quarter", "Month", "Day", "Hour", "Minute", "Second", "DayOfWeek", "WeekOfYear",
    "Grouping",
})  # fmt: skip
_ROUNDING = frozenset({"Floor", "Ceil", "Round", "Trunc", "Sign", "Pow"})


def number_type(node: exp.Expr, value: Expression, dialect: str) -> str:
    """Return the type of a number in PostgreSQL or SQL Server; ``UNKNOWN`` where it is not known.

    Types decide what ``/`` means there, and how AVG, ROUND and casts round (PostgreSQL's "Mathematical Functions",
    "Aggregate Functions" and "Numeric Types"; SQL Server's "Data type precedence", "Precision, scale, and length").
    """
    name, postgres = type(node).__name__, dialect == "postgres"
    if SQL_TYPE in node.meta:
        return str(node.meta[SQL_TYPE])
    if isinstance(node, exp.Column | exp.Subquery):
        of_kind = (
            "number" if value.type.kind is Kind.DECIMAL else "integer" if isinstance(node, exp.Column) else UNKNOWN
        )
        return value.type.written or of_kind
    if isinstance(value, Call) and value.op is Op.DATE_DIFF:
        return "int"
    if isinstance(node, exp.Literal):
        text = str(node.this)
        if not text.isdecimal():
            return "float" if "e" in text.lower() and not postgres else "decimal"
        return "int" if int(text) < 2**31 else "bigint" if int(text) < 2**63 and postgres else "decimal"
    if isinstance(node, exp.Null):
        return "null"
    if isinstance(node, exp.Window | exp.Filter):
        return number_type(node.this, value, dialect)
    if isinstance(node, exp.Cast):  # TRY_CAST is one
        if node.to.is_type(*exp.DataType.INTEGER_TYPES):
            return "bigint" if node.to.is_type(exp.DataType.Type.BIGINT) else "int"
        return "decimal" if node.to.is_type(exp.DataType.Type.DECIMAL) else "float"
    inner = _promoted(_arguments(node))
    if name in _COUNTED or (name == "Extract" and not postgres):
        return "bigint" if name.startswith(("Count", "Approx", "Row", "Rank", "Dense")) else "int"
    if name == "Extract":
        return "decimal"
    if name == "Sum" and postgres:
        return {"int": "bigint", "integer": UNKNOWN, "bigint": "decimal"}.get(inner, inner)
    if inner == "number" and name in {"Div", "Pow", "Sum", "Avg"}:
        return "fraction"
    if name in _PROMOTED or (not postgres and name in {"Sum", "Avg", *_ROUNDING}):
        return "float" if node.meta.get(WRITTEN, "").upper() == "SQUARE" else inner
    if name in _ROUNDING or name == "Avg":
        exact = name == "Avg" or has(node, "decimals")
        return ("decimal" if exact else "float") if inner in _INTEGERS else inner
    if isinstance(node, exp.Nullif):  # compared, in PostgreSQL, as numbers of one type
        first = str(node.this.meta.get(SQL_TYPE, UNKNOWN))
        return inner if postgres and inner not in _INTEGERS else first
    if isinstance(node, exp.WithinGroup):
        return inner if isinstance(node.this, exp.PercentileDisc | exp.Mode) else "float"
    return "fraction" if value.type.kind is Kind.DECIMAL else UNKNOWN


def _arguments(node: exp.Expr) -> list[str]:
    """Return the number types of the arguments that decide a node's type."""
    if isinstance(node, exp.Case):
        parts = [*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")]
    elif isinstance(node, exp.If):
        parts = [node.args["true"], node.args.get("false")]
    elif isinstance(node, exp.WithinGroup):
        parts = [ordered.this for ordered in node.expression.expressions]
    elif isinstance(node, exp.Round | exp.Pow | exp.Lag | exp.Lead | exp.Quantile):
        parts = [node.this]
    else:
        parts = [node.this, node.args.get("expression"), *node.expressions]
    single = (part.expressions[0] if isinstance(part, exp.Distinct) else part for part in parts)
    return [str(part.meta.get(SQL_TYPE, UNKNOWN)) for part in single if isinstance(part, exp.Expr)]


def _promoted(types: Sequence[str]) -> str:
    known = [type_ for type_ in types if type_ in _TYPES]
    widest = max(known, key=_TYPES.index, default=UNKNOWN)
    return UNKNOWN if UNKNOWN in types and widest in _INTEGERS else widest


def division_operator(node: exp.Expr) -> Op:
    """Return the operator of ``/`` (whole or fractional division) in a dialect where types decide."""
    sides = [str(side.meta.get(SQL_TYPE, UNKNOWN)) for side in (node.this, node.expression)]
    promoted = _promoted(sides)
    if promoted != UNKNOWN:
        return Op.DIVIDE_WHOLE if promoted in _INTEGERS else Op.DIVIDE
    unknown = node.expression if sides[0] in _INTEGERS else node.this
    raise QuestionError(
        f"Whether {shown(node)} is a whole number depends on the type of {shown(unknown)}, which is not known. (A sum "
        "of INTEGER is a BIGINT, and one of BIGINT is NUMERIC.)",
        f"Write CAST({shown(unknown)} AS BIGINT) for whole numbers, or CAST({shown(unknown)} AS NUMERIC).",
    )


def meaning_by_type(node: exp.Expr, value: Expression, dialect: str, *, noisy: bool = False) -> Expression:
    """Return the expression for a node where its meaning depends on types; ``value`` is that of the default dialect.

    Of ``noisy`` answers halves are improbable, so it does not matter how they are rounded.
    """
    inner = node.this if isinstance(node, exp.Window | exp.Filter) else node
    argument = _promoted(_arguments(inner)) if dialect in _TYPED else UNKNOWN
    if isinstance(inner, exp.Avg) and dialect == "tsql" and argument in _INTEGERS:
        value = call(Op.TRUNC, value)
    elif isinstance(node, exp.Round) and dialect == "postgres" and not has(node, "decimals"):
        if isinstance(value, Call) and argument != "decimal":  # a float goes to the even number, as a cast does here
            if not noisy:
                _check_halves(node, argument)
            value = call(Op.TO_INTEGER, value.arguments[0])
    elif isinstance(node, exp.Pow) and dialect == "tsql" and node.meta.get(WRITTEN, "").upper() != "SQUARE":
        if argument != "float" and not (argument in _INTEGERS and value.type.kind is Kind.INTEGER):
            raise _refuse(node, dialect, "its result has the type of its first argument; write CAST(x AS FLOAT) there")
    elif isinstance(node, exp.Coalesce) and dialect == "tsql" and node.meta.get(WRITTEN, "").upper() == "ISNULL":
        if len({type_ in _INTEGERS for type_ in _arguments(node) if type_ != UNKNOWN}) > 1:
            raise _refuse(node, dialect, "its result has the type of its first argument; write COALESCE")
    elif isinstance(node, exp.Sub) and isinstance(value, Call) and value.op is Op.DATE_DIFF:
        if dialect in {"bigquery", "spark", "tsql"}:
            raise _refuse(node, dialect, "dates are not subtracted as numbers of days there; write DATE_DIFF")
    elif COMPLETE in node.meta and isinstance(value, Call):  # of months, quarters and years the complete ones count
        unit, *sides = value.arguments
        if any(side.type.kind is not Kind.DATE for side in sides):
            raise _refuse(node, dialect, "it counts complete units of time; of dates, CAST(x AS DATE), it is read")
        component, size = UNITS[str(unit.value)] if isinstance(unit, Literal) else (1, 1)
        if component == 0:
            # months·32 + days, over 32: as |days| < 32, an incomplete month is cut off towards zero
            months = call(Op.MULTIPLY, call(Op.DATE_DIFF, constant("month"), *sides), constant(Fraction(32)))
            days = call(Op.SUBTRACT, call(Op.DAY, sides[1]), call(Op.DAY, sides[0]))
            value = call(Op.DIVIDE_WHOLE, call(Op.ADD, months, days), constant(Fraction(32 * size)))
    if dialect not in _TYPED or not value.type.kind.numeric:
        return value
    node.meta[SQL_TYPE] = number_type(node, value, dialect)
    return replace(value, type=replace(value.type, written=str(node.meta[SQL_TYPE])))


_TYPED = frozenset({"postgres", "tsql"})


def _check_halves(node: exp.Expr, type_: str) -> None:
    """Refuse to round a value that may be a float or a decimal."""
    if type_ == "fraction":
        why = "halves of a float go to the even number, of a NUMERIC away from zero; cast what it rounds to one of them"
        raise _refuse(node, "postgres", why)


def cast_argument(node: exp.Expr, value: Expression, op: Op, dialect: str, *, noisy: bool = False) -> Expression:
    """Return the argument of a cast, changed so that the cast gives the dialect's result."""
    kind = value.type.kind
    if op is Op.TO_TEXT and kind in {Kind.DECIMAL, Kind.TIMESTAMP, Kind.BOOLEAN} and dialect != DEFAULT:
        raise _refuse(node, dialect, f"a {kind.value} may be written otherwise there")
    if op is Op.TO_BOOLEAN and kind is Kind.TEXT and dialect != DEFAULT:
        raise _refuse(node, dialect, "which texts are true differs")
    if op is not Op.TO_INTEGER or dialect == DEFAULT:
        return value
    if kind is Kind.DECIMAL and dialect in {"spark", "tsql"}:
        return call(Op.TRUNC, value)
    if kind is Kind.DECIMAL and (dialect != "postgres" or node.this.meta.get(SQL_TYPE) == "decimal"):
        return call(Op.ROUND, value)
    if kind is Kind.DECIMAL and not noisy:
        _check_halves(node, str(node.this.meta.get(SQL_TYPE)))
    if kind is Kind.TEXT:  # '2.7', '1e3', '1_000' and '0x10' are whole numbers in DuckDB
        marks = {"snowflake": "_x", "postgres": ".e", "bigquery": ".e_"}.get(dialect, ".e_x")
        tests = [call(Op.CONTAINS, call(Op.LOWER, value), constant(mark)) for mark in marks]
        return call(Op.CASE, reduce(lambda left, right: call(Op.OR, left, right), tests), constant(None), value)
    return value


def collation_notes(question: Question) -> tuple[str, ...]:
    """Return a note on how SQL Server compares texts, which is too common to refuse."""
    read = [type_ for scan in scans(question.relation) for *_, type_ in scan.columns]
    if not any(type_.kind is Kind.TEXT for type_ in read):
        return ()
    collation = "unless its collation says otherwise; here case counts, and so do blanks"
    return (f"SQL Server compares texts without regard to case and to blanks at the end, {collation}",)


# Privacy clauses of BigQuery and Snowflake

INTERVALS = {"DP_INTERVAL_LOW": "low", "DP_INTERVAL_HIGH": "high"}


class PrivacyOptions(NamedTuple):
    """The price and limits that a question sets in its privacy clause."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups: int | None = None
    unit: str | None = None


def privacy_options(text: str) -> PrivacyOptions:
    """Return the options of a question's privacy clause, as BigQuery has it.

    >>> privacy_options("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*) FROM t").epsilon
    Fraction(1, 1)
    """
    clauses = list(read_query(text, "bigquery").find_all(PrivacyClause)) if PRIVACY.search(text) else []
    if not clauses:
        return PrivacyOptions()
    if len(clauses) > 1:
        raise QuestionError("The question has two privacy clauses.", "Write one, at its first SELECT.")
    said: dict[str, exp.Expr] = {}
    for option in clauses[0].expressions:
        name = option.this.name.lower() if isinstance(option, exp.EQ) else shown(option)
        name = "max_groups_contributed" if name == "kappa" else name  # two names of one option
        if name not in {"epsilon", "delta", "max_groups_contributed", "privacy_unit_column"}:
            raise QuestionError(f"The privacy option {name} is not known.", "Leave it out.")
        if name in said:
            raise QuestionError(f"The privacy option {name} is given twice.", "Say it once.")
        said[name] = option.expression
    unit = said.pop("privacy_unit_column", None)
    numbers = {name: exact(shown(value), name) for name, value in said.items() if not isinstance(value, exp.Null)}
    groups = numbers.get("max_groups_contributed")
    if groups is not None and groups.denominator != 1:
        raise QuestionError(f"max_groups_contributed is a whole number; got {shown(said['max_groups_contributed'])}.")
    return PrivacyOptions(
        epsilon=numbers.get("epsilon"),
        delta=numbers.get("delta"),
        max_groups=None if groups is None else int(groups),
        unit=None if unit is None else unit.name,
    )


def within_units(tree: exp.Expr, unit: str | None) -> None:
    """Rewrite a question with contribution bounds per group to aggregate each unit first and CLIP that."""
    marked = [node for node in tree.find_all(exp.Anonymous) if str(node.this).upper() == PER_UNIT]
    if not marked:
        return
    if not isinstance(tree, exp.Select):
        raise QuestionError("contribution_bounds_per_group stands in the outermost SELECT alone.", "Use CLIP.")
    if unit is None:
        raise QuestionError("Every row is a unit here, which has one row in a group.", "Use CLIP(x, low, high).")
    aliases = _aliases(tree)
    keys: list[exp.Expr] = []
    for node in tree.args["group"].expressions if has(tree, "group") else ():
        key = node
        if isinstance(node, exp.Literal) and node.is_int:
            key = tree.expressions[int(node.name) - 1].unalias()
        elif isinstance(node, exp.Column) and not has(node, "table"):
            key = aliases.get(node.name.casefold(), node)
        keys.append(key.copy())
    inner = exp.select(exp.column(unit).as_("unit_"), *(key.as_(f"key_{number}") for number, key in enumerate(keys)))
    inner = inner.group_by(exp.column(unit), *keys)
    for name in ("from_", "joins", "where"):
        inner.set(name, tree.args.pop(name, None))

    def bounded(node: exp.Expr) -> exp.Expr:
        if node in keys:
            return exp.column(f"key_{keys.index(node)}")
        if not isinstance(node, exp.AggFunc):
            return node
        if node.this not in marked:
            bounds = "Give all aggregates contribution_bounds_per_group, or none."
            raise QuestionError(f"{shown(node)} has no bounds per group, which others have.", bounds)
        if not isinstance(node, exp.Sum | exp.Count | exp.Avg):
            raise QuestionError("contribution_bounds_per_group is for COUNT, SUM and AVG.", "Use CLIP.")
        argument, low, high = node.this.expressions
        name = f"bounded_{len(inner.expressions)}"
        plain = type(node)(this=exp.Star() if isinstance(node, exp.Count) and argument.is_int else argument.copy())
        inner.append("expressions", plain.as_(name))
        clipped = exp.Anonymous(this="CLIP", expressions=[exp.column(name), low.copy(), high.copy()])
        return exp.Avg(this=clipped) if isinstance(node, exp.Avg) else exp.Sum(this=clipped)

    for number, item in enumerate(list(tree.expressions), start=1):
        label = item.alias_or_name or f"column_{number}"
        item.replace(exp.alias_(item.unalias().transform(bounded), label))
    for name in ("having", "order"):
        if has(tree, name):
            tree.set(name, tree.args[name].transform(bounded))
    tree.set("group", None)
    tree.set("from_", exp.From(this=inner.subquery("units_")))
    tree.group_by(*(exp.column(f"key_{number}") for number in range(len(keys))), copy=False)


def _aliases(select: exp.Select) -> dict[str, exp.Expr]:
    """Return the results of a SELECT that have a name of their own."""
    return {item.alias.casefold(): item.this for item in select.expressions if isinstance(item, exp.Alias)}


def intervals(tree: exp.Expr) -> tuple[tuple[str, str], ...]:
    """Return the results that are ends of error bars: DP_INTERVAL_LOW(x), which becomes x."""
    if not isinstance(tree, exp.Select):
        return ()
    aliases, ends = _aliases(tree), []
    for item in list(tree.expressions):
        node = item.unalias()
        if isinstance(node, exp.Anonymous) and str(node.this).upper() in INTERVALS:
            end = INTERVALS[str(node.this).upper()]
            if len(node.expressions) != 1 or not isinstance(node.expressions[0], exp.Column):
                raise QuestionError(f"{shown(node)} takes the name of a result.", "Write DP_INTERVAL_LOW(n).")
            name = identifier(node.expressions[0].this)
            if name.casefold() not in aliases:
                raise QuestionError(f"There is no result '{name}' for {shown(node)}.", f"Name it: … AS {name}.")
            label = item.alias if isinstance(item, exp.Alias) else f"{name}_{end}"
            ends.append((label, end))
            item.replace(exp.alias_(aliases[name.casefold()].copy(), label))
    return tuple(ends)
