"""Other spellings: SQL as BigQuery, Snowflake, PostgreSQL, Spark or SQL Server read it, turned into the same tree.

sqlglot reads each dialect by its own grammar. A function of one name may still mean something else there, so whatever
is read in another dialect goes by a list: functions that mean the same everywhere pass, some are rewritten into what
they mean, and all others are refused by name. The default dialect, DuckDB's, takes none of these ways.

What is rewritten, and why:

- ``/`` of whole numbers divides them as whole numbers in PostgreSQL and SQL Server (`hush.query.sql.expressions`);
- ``CONCAT`` is NULL if an argument is, in BigQuery, Snowflake and Spark;
- ``GREATEST`` and ``LEAST`` are NULL if an argument is, in BigQuery and Snowflake;
- ``SUBSTR(x, 0, n)`` starts at the first character in BigQuery, Snowflake and Spark;
- days of the week are counted from 1 in BigQuery and Spark;
- ``SAFE_DIVIDE`` is a division, which gives NULL for a divisor of 0 here anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Expression, pieces
from hush.query.question import AggregateKind, Question
from hush.query.relations import Filter, Join, Project, relations_in
from hush.query.sql.nodes import called, shown
from hush.query.types import Kind

DEFAULT = "duckdb"
DIALECTS = (DEFAULT, "bigquery", "snowflake", "postgres", "spark", "tsql")

_SAME = frozenset(
    {
        "Abs", "And", "AnonymousAggFunc", "ApproxDistinct", "Avg", "Case", "Cast", "Ceil", "Coalesce", "Concat",
        "Contains", "Corr", "Count", "CountIf", "CovarPop", "CovarSamp", "CumeDist", "Date", "DateAdd", "DateDiff",
        "DateSub", "DateTrunc", "Day", "DayOfMonth", "DayOfWeek", "DenseRank", "EndsWith", "Exp", "Extract",
        "FirstValue", "Floor", "Greatest", "Grouping", "GroupingId", "Hour", "If", "Lag", "LastValue", "Lead",
        "Least", "Left", "Length", "Ln", "Log", "Lower", "Max", "Median", "Min", "Minute", "Month", "Not", "Ntile",
        "Nullif", "Or", "PercentRank", "PercentileCont", "PercentileDisc", "Pow", "Quarter", "Rank", "Replace",
        "Right", "Round", "RowNumber", "SafeDivide", "Second", "Sign", "Sqrt", "StartsWith", "Stddev", "StddevPop",
        "StddevSamp", "StrPosition", "Substring", "Sum", "TimeStrToTime", "TimestampTrunc", "Trim", "TryCast",
        "TsOrDsToDate", "Upper", "Variance", "VariancePop", "Year",
    }
)  # fmt: skip
"""Functions that mean the same in all dialects, once sqlglot has put their arguments in one order."""
_BY_NAME = frozenset({"DP_INTERVAL_LOW", "DP_INTERVAL_HIGH", "CLIP", "HUSH_PER_UNIT"})
_REFUSED: dict[str, dict[str, str]] = {
    "tsql": {
        "Length": "LEN leaves blanks at the end out",
        "DayOfWeek": "days of the week depend on a setting",
    },
    "postgres": {"Second": "it has fractions there"},
}
"""What a function of a known name means in a dialect, where that is something else."""
_WEEKS = {"bigquery": "weeks start on Sunday", "tsql": "weeks depend on a setting"}
_FROM_ONE = frozenset({"bigquery", "spark"})
_NULL_IF_ANY = frozenset({"bigquery", "snowflake"})
_TRUNCATES = frozenset({"spark", "tsql"})
_FIRST_IS_ZERO = frozenset({"bigquery", "snowflake", "spark"})


def check_dialect(dialect: object) -> str:
    """Return the name of a dialect, or refuse one that is not known."""
    name = str(dialect).lower()
    if name not in DIALECTS:
        raise QuestionError(f"There is no dialect {str(dialect)[:40]!r}.", f"There are {', '.join(DIALECTS)}.")
    return name


def translated(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Return a tree that was read in a dialect as one that means the same in the default one; refuse what does not."""
    if dialect == DEFAULT:
        return tree

    def one(node: exp.Expr) -> exp.Expr:
        _check(node, dialect)
        return _rewritten(node, dialect)

    return tree.transform(one, copy=False)


_CASE = "SQL Server compares texts without regard to case, unless its collation says otherwise; here case counts"


def notes_of(question: Question, dialect: str) -> tuple[str, ...]:
    """Return what a question that was read in a dialect means here otherwise, in ways that nobody can refuse."""
    texts = any(piece.type.kind is Kind.TEXT for one in _compared(question) for piece in pieces(one))
    return (_CASE,) if dialect == "tsql" and texts else ()


def _compared(question: Question) -> Iterator[Expression]:
    """Yield what keys and conditions are made of."""
    yield from (key for _, key in question.keys)
    for aggregate in question.aggregates:
        yield from (aggregate.where,) if aggregate.where is not None else ()
        yield from aggregate.arguments if aggregate.kind is AggregateKind.COUNT_DISTINCT else ()
        yield from (one for argument in aggregate.arguments for one in pieces(argument) if isinstance(one, Call))
    for relation in relations_in(question.relation):
        match relation:
            case Filter():
                yield relation.condition
            case Join():
                yield from (side for pair in relation.on for side in pair)
            case Project():
                yield from (value for _, value in relation.columns if isinstance(value, Call))
            case _:
                pass


def _refuse(node: exp.Expr, dialect: str, why: str) -> QuestionError:
    return QuestionError(
        f"{called(node)} is not read in the dialect {dialect}: {why}.",
        f"Write {shown(node)} as DuckDB does, and leave the dialect out.",
    )


def _check(node: exp.Expr, dialect: str) -> None:
    name = type(node).__name__
    if isinstance(node, exp.Placeholder | exp.Parameter):
        raise QuestionError("Parameters are read in the default dialect alone.", "Write the value itself.")
    if isinstance(node, exp.Anonymous):
        if str(node.this).upper() not in _BY_NAME:
            raise _refuse(node, dialect, "it may mean something else there")
    elif isinstance(node, exp.RegexpLike) and dialect == "bigquery":
        pass  # REGEXP_CONTAINS: RE2's patterns, for a part of the text
    elif isinstance(node, exp.Func) and name not in _SAME and not isinstance(node, exp.Connector):
        raise _refuse(node, dialect, "it may mean something else there")
    why = _REFUSED.get(dialect, {}).get(name)
    if why:
        raise _refuse(node, dialect, why)
    unit = str(node.args.get("unit") or "").upper() if isinstance(node, exp.Func) else ""
    part = str(node.this).upper() if isinstance(node, exp.Extract) else ""
    if dialect in _WEEKS and ("WEEK" in {unit, part} or unit.startswith("WEEK(")):
        raise _refuse(node, dialect, _WEEKS[dialect])
    if part in {"DOW", "DAYOFWEEK", "WEEKDAY", "DW"} and dialect in {"tsql", "spark", "bigquery"}:
        raise _refuse(node, dialect, "days of the week are counted in another way there")
    if part == "SECOND" and dialect == "postgres":
        raise _refuse(node, dialect, "it has fractions there")
    if isinstance(node, exp.Cast) and dialect in _TRUNCATES and node.to.is_type(*exp.DataType.INTEGER_TYPES):
        raise _refuse(node, dialect, "it cuts digits off where DuckDB rounds")
    if isinstance(node, exp.Like | exp.ILike):
        pattern = str(getattr(node.expression, "this", ""))
        if "\\" in pattern or (dialect == "tsql" and "[" in pattern):
            raise _refuse(node, dialect, "its pattern has signs with a meaning of their own")
    if (
        isinstance(node, exp.Substring)
        and dialect in {"postgres", "tsql"}
        and isinstance(node.args.get("start"), exp.Neg)
    ):
        raise _refuse(node, dialect, "a start before the first character counts from the end in DuckDB")
    if isinstance(node, exp.SimilarTo):
        raise _refuse(node, dialect, "patterns differ")


def _rewritten(node: exp.Expr, dialect: str) -> exp.Expr:
    if isinstance(node, exp.TsOrDsToDate | exp.TimeStrToTime):  # the parser's own, around what is a date already
        inner: exp.Expr = node.this
        return inner
    if isinstance(node, exp.RawString):
        return exp.Literal.string(str(node.this))
    if isinstance(node, exp.DateDiff) and node.args.get("unit") is None:
        node.set("unit", exp.var("DAY"))
    for extra in ("is_null", "big_int", "input_type_preserved"):
        if not isinstance(node, exp.Count) and extra in node.args:
            node.set(extra, None)
    if isinstance(node, exp.Greatest | exp.Least):
        node.set("ignore_nulls", True)
    if isinstance(node, exp.SafeDivide):
        return exp.Div(this=node.this, expression=node.expression)
    if isinstance(node, exp.Concat) and not node.args.get("coalesce"):
        parts = list(node.expressions)
        found = parts[0]
        for part in parts[1:]:
            found = exp.DPipe(this=found, expression=part)
        return exp.Paren(this=found)
    if isinstance(node, exp.Greatest | exp.Least) and dialect in _NULL_IF_ANY:
        parts = [node.this, *node.expressions]
        missing = [exp.Is(this=part.copy(), expression=exp.Null()) for part in parts]
        condition = missing[0]
        for other in missing[1:]:
            condition = exp.Or(this=condition, expression=other)  # type: ignore[assignment]
        return exp.Case(ifs=[exp.If(this=condition, true=exp.Null())], default=node.copy())
    if isinstance(node, exp.DayOfWeek) and dialect in _FROM_ONE:
        return exp.Paren(this=exp.Add(this=node.copy(), expression=exp.Literal.number(1)))
    start = node.args.get("start") if isinstance(node, exp.Substring) else None
    if isinstance(start, exp.Literal) and str(start.this) == "0" and dialect in _FIRST_IS_ZERO:
        node.set("start", exp.Literal.number(1))
    return node
