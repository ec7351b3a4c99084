r"""Statements about the catalogue: which may run, and how they are written for the database that holds it.

A statement of a tool is PostgreSQL's. Its tables become those of `hush.server.pgwire.catalogue`, its functions ours;
what is not on a list is refused, and so is what could make long texts of short ones.

>>> rewritten(labelled(parsed("SELECT version()"))).sql(dialect="duckdb")
'SELECT HUSH_VERSION() AS "version"'
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import re
from contextlib import suppress
from importlib.resources import files
from typing import Any

import sqlglot
from sqlglot import exp

from hush.query.errors import QuestionError
from hush.server.pgwire import messages
from hush.server.pgwire.catalogue_rows import SHAPES

MACROS = [
    line
    for line in (files("hush.server.pgwire") / "functions.sql").read_text("utf-8").splitlines()
    if not line.startswith("--")
]
_CASTS = {"oid": "BIGINT", "xid": "BIGINT", "name": "VARCHAR", "regtype": "VARCHAR", "regproc": "VARCHAR"}
_RENAMED = {
    "version": "hush_version", "current_version": "hush_version",
    "current_database": "hush_database", "current_catalog": "hush_database",
    "current_user": "hush_user", "session_user": "hush_user", "user": "hush_user", "current_schema": "hush_schema",
    "current_setting": "hush_setting",
}  # fmt: skip
_NAMED = {line.partition("(")[0] for line in MACROS}
_OPERATOR = re.compile(r"OPERATOR\s*\(\s*pg_catalog\.\s*([~!*<>=]+)\s*\)", re.IGNORECASE)
_KEYWORD = re.compile(r"(\bas\s+|\b\w+\.)(table|select|insert|update|delete|role)\b", re.IGNORECASE)
"""Words that PostgreSQL takes for names after AS and after a point, and the parser does not."""
_COLLATE = re.compile(r"COLLATE\s+pg_catalog\.(?:\"?default\"?|\"C\")", re.IGNORECASE)
_NOTHING = {"json_build_object", "jsonb_build_object"}
"""Functions that become NULL: tools call them for sequences, collations and others that do not exist here."""
_HARMLESS = {
    "unnest", "generate_subscripts", "string_agg", "array_agg",
    "array_length", "array_to_string", "array_position", "current_schemas", "len",
    "concat", "split_part", "strpos", "left", "right", "length", "lower", "upper", "nullif",
}  # fmt: skip
_PARSED = (
    exp.Abs, exp.And, exp.Array, exp.ArrayAgg, exp.ArrayPosition, exp.ArraySize, exp.ArrayToString, exp.Avg, exp.Case,
    exp.Cast, exp.Ceil, exp.Coalesce, exp.Concat, exp.Count, exp.CurrentCatalog, exp.CurrentDatabase, exp.CurrentDate,
    exp.CurrentSchema, exp.CurrentSchemas, exp.CurrentTimestamp, exp.CurrentUser, exp.CurrentVersion, exp.DenseRank,
    exp.Exists, exp.Explode, exp.ExplodingGenerateSeries, exp.Extract, exp.Floor, exp.GenerateSeries, exp.GroupConcat,
    exp.Format, exp.If, exp.Left, exp.Length, exp.LogicalAnd, exp.LogicalOr, exp.Lower, exp.Max, exp.Min, exp.Nullif,
    exp.Or, exp.Rank, exp.RegexpILike, exp.RegexpLike, exp.Replace, exp.Right, exp.Round, exp.RowNumber,
    exp.SessionUser, exp.SplitPart, exp.StrPosition, exp.Substring, exp.Sum, exp.Trim, exp.TryCast, exp.Unnest,
    exp.Upper,
)  # fmt: skip
"""The functions that the parser itself knows, and that take and give no more than a text of the catalogue."""
_HIDDEN = {"tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"}
_JOINED = {"concat", "quote_ident", "replace"}
_GATHERED = {"string_agg", "array_to_string", "array_agg"}
_LONGEST = 1000
"""The longest text in a statement, and the longest text or array that is gathered from rows."""
_LONGEST_STATEMENT, _MOST_BRACKETS = 2**14, 200
"""The longest statement that is looked at; the parser takes quadratic time for brackets after one another."""
_MOST_LISTED = 8000
"""The longest text that is a list to compare with, as of the words that a driver knows."""
_MOST_JOINED = 200
"""How many times longer a text may become."""
SCHEMAS = {"pg_catalog", "information_schema"}


def rewritten(tree: exp.Expression) -> exp.Expression:
    """Return a statement with its tables and functions replaced by ours; refuse unknown ones."""
    functions = _NAMED | _HARMLESS | set(_RENAMED)
    names = {id(common): f"hush_common_{number}" for number, common in enumerate(tree.find_all(exp.CTE))}
    tables = [(table, common_table(table)) for table in tree.find_all(exp.Table)]
    for table, common in tables:
        if isinstance(table.this, exp.Func):
            _check_function(table.this, functions)
            table.set("db", None)
            continue
        if common is not None:  # under a name that nothing else has, whatever the engine's rules of scope are
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
            table.set("this", exp.to_identifier(names[id(common)]))
            continue
        table_path = place_of(table)
        if table_path is None:
            raise QuestionError(f"The catalogue has no table {table.name!r}.")
        table.set("db", None)
        table.set("catalog", None)
        table.set("this", exp.to_identifier(stored_name(table_path), quoted=True))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table_path.partition(".")[2])))
    for definition in tree.find_all(exp.CTE):
        definition.args["alias"].set("this", exp.to_identifier(names[id(definition)]))
    for call_by_name in list(tree.find_all(exp.Anonymous)):
        if call_by_name.name.lower() == "format" and call_by_name.expressions:  # as it is read with its schema
            call_by_name.replace(exp.Format(this=call_by_name.expressions[0], expressions=call_by_name.expressions[1:]))
    for call in list(tree.find_all(exp.Format)):
        call.replace(_formatted(call))
    moment = dt.datetime.now(dt.UTC).replace(tzinfo=None)  # the engine's own has a zone, which needs another package
    for clock in list(tree.find_all(exp.CurrentTimestamp, exp.CurrentDate)):
        kind = "TIMESTAMP" if isinstance(clock, exp.CurrentTimestamp) else "DATE"
        clock.replace(exp.cast(exp.Literal.string(str(moment)), kind))
    for column in list(tree.find_all(exp.Column)):
        if column.name.lower() in _HIDDEN:
            column.replace(_hidden(column))
    for comparison in list(tree.find_all(exp.NEQ)):
        if all_of(comparison.expression):  # x <> ALL (list)
            membership = exp.Any(this=exp.paren(comparison.expression.expressions[0]))
            comparison.replace(exp.Not(this=exp.EQ(this=comparison.this, expression=membership)))
    for constant_call in list(tree.find_all(exp.Anonymous)):
        if constant_call.name.lower() in _NOTHING:
            constant_call.replace(exp.cast(exp.Null(), "VARCHAR"))
    # After FORMAT has become a concatenation, so that its parts are counted, too.
    _check_lengths(tree)
    for dot in list(tree.find_all(exp.Dot)):
        if isinstance(dot.expression, exp.Func) and dot.this.name in SCHEMAS:
            dot.replace(dot.expression)
    for function in list(tree.find_all(exp.Func)):
        _check_function(function, functions)
        name = _function_name(function)
        if name in _RENAMED:
            arguments = function.expressions if isinstance(function, exp.Anonymous) else []
            function.replace(exp.Anonymous(this=_RENAMED[name], expressions=arguments))
    for column in list(tree.find_all(exp.Column)):
        column.set("db", None)  # the tables have no schemas here
        column.set("catalog", None)
        if column.name.lower() in {"current_user", "session_user", "current_catalog"} and not column.table:
            column.replace(exp.Anonymous(this=_RENAMED[column.name.lower()], expressions=[]))
    for gathered in [function for function in tree.find_all(exp.Func) if _gathers(function)]:
        _cut(gathered)
    for cast in list(tree.find_all(exp.Cast)):
        _rewrite_cast(cast)
    return tree


def labelled(tree: exp.Expression) -> exp.Expression:
    """Give every column of the result a name, before names are changed."""
    for select in tree.find_all(exp.Select):
        select.set("expressions", [_named_part(expression) for expression in select.expressions])
    return tree


def _function_name(function: exp.Func) -> str:
    return function.name.lower() if isinstance(function, exp.Anonymous) else function.sql_name().lower()


def _check_function(function: exp.Func, known: set[str]) -> None:
    """Refuse functions that are not on one of the lists."""
    by_name = isinstance(function, exp.Anonymous | exp.AnonymousAggFunc)
    refused = function.name.lower() not in known if by_name else not isinstance(function, _PARSED)
    # FROM generate_series(…) gives rows; elsewhere it is an array, and may be long.
    series = isinstance(function, exp.GenerateSeries) and not isinstance(function.parent, exp.Table)
    if refused or (series and not _places_of_list(function)):
        raise QuestionError(f"The catalogue has no function {_function_name(function)}.")


def _places_of_list(series: exp.Func) -> bool:
    """Return whether a series counts the places of a list, and so is no longer than a list of the catalogue."""
    ends = [series.args.get("start"), series.args.get("end")]
    names = [
        end.name.lower()
        for end in ends
        if isinstance(end, exp.Anonymous) and isinstance(end.expressions[0], exp.Column)
    ]
    return names == ["array_lower", "array_upper"]


def _check_lengths(tree: exp.Expression) -> None:
    """Refuse statements that could make long texts: each SELECT multiplies lengths by the parts that it joins."""
    literals = [literal for literal in tree.find_all(exp.Literal) if literal.is_string]
    if any(len(literal.this) > (_MOST_LISTED if _compared(literal) else _LONGEST) for literal in literals):
        raise QuestionError(f"A text in a statement about the catalogue has at most {_LONGEST} characters.")
    for call in tree.find_all(exp.Replace):
        _check_replaced(call)
    parts: dict[int, int] = {}
    for node in tree.find_all(exp.DPipe, exp.Func):
        if not isinstance(node, exp.Func) or _function_name(node) in _JOINED:
            select = id(node.find_ancestor(exp.Select))
            parts[select] = parts.get(select, 1) + max(1, len(node.expressions))
    again = any(clause.args.get("recursive") for clause in tree.find_all(exp.With))
    if math.prod(parts.values()) > _MOST_JOINED or (again and parts):
        raise QuestionError("This statement about the catalogue joins too many texts.")


def _hidden(column: exp.Column) -> Any:
    """Return NULL in place of a system column, which PostgreSQL has in every table without listing it."""
    nothing = exp.cast(exp.Null(), "BIGINT")
    return exp.alias_(nothing, column.name, quoted=True) if isinstance(column.parent, exp.Select) else nothing


def all_of(node: Any) -> bool:
    """Return whether a part of a statement is ALL of a list, which the parser takes for a function."""
    return isinstance(node, exp.Anonymous) and node.name.lower() == "all" and len(node.expressions) == 1


def _compared(literal: exp.Literal) -> bool:
    """Return whether a text is a list that something is compared with, and so part of no other text."""
    cast: Any = literal.parent
    if not isinstance(cast, exp.Cast) or not cast.is_type(exp.DType.ARRAY):
        return False
    within = cast.parent.parent if isinstance(cast.parent, exp.Paren) else cast.parent
    return isinstance(within, exp.Any) or all_of(within)


def constant(value: Any) -> exp.Expression:
    """Return a parameter as a constant of the statement."""
    if isinstance(value, list):
        return exp.Array(expressions=[constant(element) for element in value])
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        number = exp.Literal.number(abs(value))
        return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number
    return exp.Literal.string(messages.written(value))


def _formatted(call: exp.Format) -> exp.Expression:
    """Return a call of PostgreSQL's FORMAT with ``%s`` and ``%I`` as a concatenation of texts."""
    pattern = call.this
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise QuestionError("The catalogue's format needs a text in quotes.")
    texts, values = re.split(r"%[sI]", pattern.this), list(call.expressions)
    kinds = re.findall(r"%[sI]", pattern.this)
    if len(kinds) != len(values) or any("%" in text for text in texts):
        raise QuestionError("The catalogue's format knows %s and %I, one for each value.")
    parts: list[exp.Expression] = [exp.Literal.string(texts[0])]
    for kind, value, text in zip(kinds, values, texts[1:], strict=True):
        text_value = exp.cast(value.copy(), "VARCHAR")
        parts.append(exp.Anonymous(this="quote_ident", expressions=[text_value]) if kind == "%I" else text_value)
        parts.append(exp.Literal.string(text))
    return exp.Anonymous(this="concat", expressions=parts)


def _check_replaced(call: exp.Replace) -> None:
    """Refuse a REPLACE with a new text of more than twice the length of the old one."""
    old, new = call.expression, call.args.get("replacement")
    texts = [operand.this for operand in (old, new) if isinstance(operand, exp.Literal) and operand.is_string]
    if len(texts) != 2 or not texts[0] or len(texts[1]) > 2 * len(texts[0]):
        raise QuestionError("The catalogue replaces texts in quotes, by at most twice as much.")


def _gathers(function: exp.Func) -> bool:
    gathering = isinstance(function, exp.GroupConcat | exp.ArrayToString | exp.ArrayAgg | exp.Array)
    return gathering or _function_name(function) in _GATHERED


def _cut(gathered: Any) -> None:
    """Cut a text or an array that is gathered from rows to the greatest allowed length."""
    while isinstance(gathered.parent, exp.Filter | exp.Window | exp.WithinGroup | exp.Dot):
        gathered = gathered.parent
    ends = [exp.Literal.number(1), exp.Literal.number(_LONGEST)]  # of texts and of arrays
    gathered.replace(exp.Anonymous(this="array_slice", expressions=[gathered.copy(), *ends]))


def _rewrite_cast(cast: exp.Cast) -> None:
    """Give a cast a type that exists here: PostgreSQL's numbers of objects are whole numbers, its names texts."""
    kind = cast.to.sql(dialect="postgres").lower().removeprefix("pg_catalog.").strip('"')
    if kind == "regclass":
        value = cast.this
        by_name = (isinstance(value, exp.Literal) and value.is_string) or isinstance(value, exp.Func | exp.DPipe)
        cast.replace(exp.Anonymous(this="to_regclass", expressions=[value]) if by_name else value)
    elif kind == "regproc" and isinstance(cast.this, exp.Literal):
        cast.replace(exp.Anonymous(this="hush_regproc", expressions=[cast.this]))
    elif kind.endswith("[]"):
        _rewrite_list(cast, kind.removesuffix("[]"))
    elif kind in _CASTS or kind.startswith(("reg", "char")):
        cast.set("to", exp.DataType.build(_CASTS.get(kind, "VARCHAR")))
    elif "." in cast.to.sql(dialect="postgres"):
        cast.set("to", exp.DataType.build(kind, dialect="postgres", udt=False))


def _rewrite_list(cast: exp.Cast, kind: str) -> None:
    """Give a cast to a list its type here; a list that is written as a text becomes one."""
    text = cast.this
    if isinstance(text, exp.Literal) and text.is_string:
        try:
            list_elements = messages.elements(text.this)
        except ValueError:
            raise QuestionError("A list in a statement about the catalogue is written '{a,b}'.") from None
        cast.set("this", exp.Array(expressions=[constant(element) for element in list_elements]))
    integers = kind in {"oid", "int", "integer", "int2", "int4", "int8", "smallint", "bigint"}
    cast.set("to", exp.DataType.build("BIGINT[]" if integers else "VARCHAR[]"))


def _named_part(part: Any) -> Any:
    if part.is_star or isinstance(part, exp.Alias | exp.Column):
        return part
    return exp.alias_(part, _label(part), quoted=True)


def _label(projection: exp.Expression) -> str:
    """Return the name of a column of a result, as PostgreSQL gives it."""
    if isinstance(projection, exp.Cast):
        return _label(projection.this)
    if isinstance(projection, exp.Dot):
        return _label(projection.expression)
    if isinstance(projection, exp.CurrentTimestamp):
        return "now"
    if isinstance(projection, exp.Func):
        return _function_name(projection).replace("current_version", "version")
    return projection.alias_or_name or ("case" if isinstance(projection, exp.Case) else "?column?")


def parsed(statement: str) -> Any:
    """Return the one statement in a text; None where there is none or more."""
    if len(statement) > _LONGEST_STATEMENT or statement.count("[") > _MOST_BRACKETS:
        return None
    text = _COLLATE.sub("", _OPERATOR.sub(r"\1", statement))
    logger = logging.getLogger("sqlglot")  # it would log the statement
    before, logger.disabled = logger.disabled, True
    try:
        for attempt in (text, _KEYWORD.sub(r'\1"\2"', text)):
            with suppress(sqlglot.errors.SqlglotError, RecursionError):
                trees = [tree for tree in sqlglot.parse(attempt, read="postgres") if tree is not None]
                return trees[0] if len(trees) == 1 else None
    finally:
        logger.disabled = before
    return None


def common_table(table: exp.Table) -> exp.CTE | None:
    """Return the common table expression that a name stands for at its place in the statement; None for others.

    A name is known to the query under its WITH and to the expressions after it. A recursive one knows itself in the
    second half of its union alone.
    """
    if table.db or table.catalog or isinstance(table.this, exp.Func):
        return None
    child: Any = table
    within = {id(table)}
    while (node := child.parent) is not None:
        visible_tables: list[Any] = []
        if isinstance(node, exp.With):
            for table_expression in node.expressions:
                if table_expression is child:
                    body = table_expression.this
                    if (
                        node.args.get("recursive")
                        and isinstance(body, exp.SetOperation)
                        and id(body.expression) in within
                    ):
                        visible_tables.append(table_expression)
                    break
                visible_tables.append(table_expression)
        elif (clause := node.args.get("with_")) is not None and clause is not child:
            visible_tables = clause.expressions
        for table_expression in visible_tables:
            if isinstance(table_expression, exp.CTE) and table_expression.alias.lower() == table.name.lower():
                return table_expression
        child = node
        within.add(id(node))
    return None


def place_of(table: exp.Table) -> str | None:
    """Return which table of the catalogue is named; None for others."""
    schema, name = table.db.lower(), table.name.lower()
    if table.catalog and table.catalog.lower() != "hush":
        return None
    if schema in SCHEMAS:
        return f"{schema}.{name}" if f"{schema}.{name}" in SHAPES else None
    return f"pg_catalog.{name}" if not schema and f"pg_catalog.{name}" in SHAPES else None


def stored_name(place: str) -> str:
    """Return the name under which a table of the catalogue is stored, which has no schemas."""
    schema, _, name = place.partition(".")
    return name if schema == "pg_catalog" else f"is_{name}"
