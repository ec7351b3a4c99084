"""SQL's functions and operators: which `Op` each is, and why others are refused."""

from __future__ import annotations

import re

from sqlglot import exp

from hush.query.errors import QuestionError, did_you_mean
from hush.query.expressions import Op
from hush.query.sql.nodes import called

UNARY: dict[type[exp.Expr], Op] = {
    exp.Not: Op.NOT,
    exp.Abs: Op.ABS,
    exp.Floor: Op.FLOOR,
    exp.Ceil: Op.CEIL,
    exp.Sqrt: Op.SQRT,
    exp.Exp: Op.EXP,
    exp.Ln: Op.LN,
    exp.Sign: Op.SIGN,
    exp.Lower: Op.LOWER,
    exp.Upper: Op.UPPER,
    exp.Length: Op.LENGTH,
    exp.Year: Op.YEAR,
    exp.Quarter: Op.QUARTER,
    exp.Month: Op.MONTH,
    exp.Day: Op.DAY,
    exp.DayOfMonth: Op.DAY,
    exp.DayOfWeek: Op.DAY_OF_WEEK,
    exp.Hour: Op.HOUR,
}

BINARY: dict[type[exp.Expr], tuple[Op, tuple[str, ...]]] = {
    exp.Mul: (Op.MULTIPLY, ()),
    exp.Div: (Op.DIVIDE, ("typed", "safe")),
    exp.IntDiv: (Op.DIVIDE_WHOLE, ()),
    exp.Mod: (Op.MODULO, ()),
    exp.Pow: (Op.POWER, ()),
    exp.EQ: (Op.EQUAL, ()),
    exp.NEQ: (Op.NOT_EQUAL, ()),
    exp.LT: (Op.LESS, ()),
    exp.LTE: (Op.LESS_EQUAL, ()),
    exp.GT: (Op.GREATER, ()),
    exp.GTE: (Op.GREATER_EQUAL, ()),
    exp.Or: (Op.OR, ()),
    exp.Nullif: (Op.NULL_IF, ()),
    exp.Left: (Op.LEFT, ("negative_length_returns_empty",)),
    exp.Right: (Op.RIGHT, ("negative_length_returns_empty",)),
    exp.StartsWith: (Op.STARTS_WITH, ()),
    exp.Contains: (Op.CONTAINS, ()),
}
"""The op, and arguments that only say how other databases differ."""

ANONYMOUS = {"BIN": Op.BIN, "CLIP": Op.CLIP, "PREFIX": Op.STARTS_WITH}

DATE_PARTS = {
    "year": Op.YEAR,
    "quarter": Op.QUARTER,
    "month": Op.MONTH,
    "day": Op.DAY,
    "dow": Op.DAY_OF_WEEK,
    "dayofweek": Op.DAY_OF_WEEK,
    "hour": Op.HOUR,
}

_T = exp.DataType.Type
CASTS: dict[object, Op] = {
    **dict.fromkeys(
        (_T.TINYINT, _T.SMALLINT, _T.INT, _T.BIGINT, _T.INT128, _T.UTINYINT, _T.USMALLINT, _T.UINT, _T.UBIGINT),
        Op.TO_INTEGER,
    ),
    **dict.fromkeys((_T.FLOAT, _T.DOUBLE, _T.DECIMAL), Op.TO_DECIMAL),
    **dict.fromkeys((_T.VARCHAR, _T.TEXT), Op.TO_TEXT),
    _T.BOOLEAN: Op.TO_BOOLEAN,
    _T.DATE: Op.TO_DATE,
    **dict.fromkeys((_T.TIMESTAMP, _T.TIMESTAMPNTZ), Op.TO_TIMESTAMP),
}

INTEGERS: dict[object, tuple[int, int]] = {
    _T.TINYINT: (-(2**7), 2**7 - 1),
    _T.SMALLINT: (-(2**15), 2**15 - 1),
    _T.INT: (-(2**31), 2**31 - 1),
    _T.UTINYINT: (0, 2**8 - 1),
    _T.USMALLINT: (0, 2**16 - 1),
    _T.UINT: (0, 2**32 - 1),
    _T.UBIGINT: (0, 2**63 - 1),
}
"""Types of integers that hold less than 64 bits with a sign, and what they hold."""

FUNCTIONS = (
    "ABS", "AVG", "BIN", "CASE", "CAST", "CEIL", "CLIP", "COALESCE", "CONCAT", "CONTAINS", "CORR", "COUNT",
    "COUNT_IF", "COVAR_POP", "COVAR_SAMP", "DATE_ADD", "DATE_DIFF", "DATE_PART", "DATE_TRUNC", "DAY", "DAYOFWEEK",
    "DAYS_BETWEEN", "EXP", "EXTRACT", "FLOOR", "GREATEST", "HOUR", "IF", "IFNULL", "LEAST", "LEFT", "LENGTH", "LN",
    "LOG", "LOG10", "LOWER", "LTRIM", "MAX", "MEDIAN", "MIN", "MOD", "MODE", "MONTH", "NULLIF", "PERCENTILE_CONT",
    "PERCENTILE_DISC", "POWER", "QUANTILE", "QUANTILE_CONT", "QUARTER", "REPLACE", "RIGHT", "ROUND", "RTRIM", "SIGN",
    "SQRT", "STARTS_WITH", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "SUBSTRING", "SUM", "TRIM", "UPPER", "VARIANCE",
    "VAR_POP", "VAR_SAMP", "YEAR",
)  # fmt: skip
"""What can be called, for "did you mean" and for the documentation."""

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
    (re.compile(r"REGEXP|SIMILAR"), "can be slow on chosen rows; use LIKE or CONTAINS, which cannot,"),
    (
        re.compile(r"REPEAT|(L|R)?PAD$|FORMAT|PRINTF|LIST|ARRAY|GENERATE|UNNEST|RANGE|SPLIT|EXPLODE"),
        "can fill the memory",
    ),
    (re.compile(r"ERROR|RAISE|ASSERT|TRY_|STRPTIME|STR_TO|CHR|CHAR$|UNICODE|ASCII|ORD$"), "can fail on a row"),
)

_NEAREST = {
    **dict.fromkeys(("STRFTIME", "DATE_FORMAT", "TO_CHAR"), "Use YEAR(d), MONTH(d) or DATE_TRUNC('month', d)."),
    **dict.fromkeys(("WEEK", "WEEKOFYEAR", "YEARWEEK"), "Use DATE_TRUNC('week', d)."),
    **dict.fromkeys(("DATE_SUB", "DATESUB", "EPOCH", "EPOCH_MS"), "Use DATE_DIFF('day', a, b)."),
    **dict.fromkeys(("HISTOGRAM", "WIDTH_BUCKET"), "Use GROUP BY BIN(x, lower, upper, n) and COUNT(*)."),
    **dict.fromkeys(("INSTR", "STRPOS", "POSITION"), "Use CONTAINS(x, 'text') or LIKE."),
    **dict.fromkeys(("DAYNAME", "WEEKDAY", "ISODOW"), "Use DAYOFWEEK(d), of which 0 is Sunday."),
    **dict.fromkeys(("AVERAGE", "MEAN"), "Use AVG(x)."),
    **dict.fromkeys(("STD", "STDEV"), "Use STDDEV(x)."),
    **dict.fromkeys(("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT"), "Use COUNT(DISTINCT x)."),
    "MONTHNAME": "Use MONTH(d).",
    "VAR": "Use VARIANCE(x).",
    "COVAR": "Use COVAR_SAMP(x, y) or COVAR_POP(x, y).",
    "REGR_SLOPE": "Use COVAR_POP(y, x) / VAR_POP(x).",
    "TRUNC": "Use FLOOR(x) or CEIL(x).",
}
"""What to use instead of functions that other names are nearest to."""


def refuse_function(node: exp.Expr) -> QuestionError:
    """Return the refusal of a function, with the reason or the nearest supported one."""
    name = called(node)
    names = {name.upper(), node.sql_name()} if isinstance(node, exp.Func) else {name.upper()}
    for pattern, reason in _FORBIDDEN:
        if any(map(pattern.match, names)):
            hint = "Write the date itself, such as DATE '2024-12-31'." if reason == _TIME else _SEE
            return QuestionError(f"{name} is not allowed: it {reason}.", hint)
    return QuestionError(
        f"There is no function {name} here.", nearest(name) or did_you_mean(name, FUNCTIONS, otherwise=_SEE)
    )


def nearest(name: str) -> str:
    """Return what to use instead of a function, or nothing."""
    return _NEAREST.get(name.upper(), "")
