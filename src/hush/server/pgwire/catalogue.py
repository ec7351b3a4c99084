r"""The system catalogue that tools read before they ask: PostgreSQL's own tables, filled from the schema alone.

Tools find out which tables there are by statements of any shape over ``pg_catalog`` and ``information_schema``. These
run in a database of their own, in memory, which holds nothing but names and types of columns, and reaches nothing: no
file, no network, no extension. A statement may name these tables only, and functions from a list; there is one, and it
reads. The engine looks at its clock between blocks of rows only, and does not count the texts of a block as memory. So
functions that make long texts of short ones are not on the list, and how much longer ``||`` may make a text is bounded:
the worst that a statement can do is take its second of time.

Every table of every data set that somebody may ask about is listed, in a schema with the data set's name.

>>> visits = {"name": "visits", "columns": [{"name": "age", "type": "integer"}]}
>>> catalogue = SystemCatalogue([{"name": "clinic", "tables": [visits]}])
>>> catalogue.run("SELECT column_name FROM information_schema.columns WHERE table_schema = 'clinic'")[1]
[('age',)]
>>> catalogue.run("SELECT COUNT(*) FROM visits") is None
True

A statement of a tool is PostgreSQL's: its tables become ours and its functions, too, before it runs.

>>> rewritten(labelled(parsed("SELECT version()"))).sql(dialect="duckdb")
'SELECT HUSH_VERSION() AS "version"'
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from hush.query.errors import QuestionError
from hush.query.types import Kind
from hush.server.pgwire import messages
from hush.server.pgwire.messages import BY_KIND, ResultColumn
from hush.server.pgwire.types import BY_OID, STORED, lines

VERSION = "14.0"
"""The version of PostgreSQL that tools are told; they choose their statements by it."""
_FIRST = 16_384
"""The first number of a table, as for the tables of users in PostgreSQL."""
SHAPES = {
    name: [(column, kind) for column, _, kind in (definition.partition(":") for definition in columns.split())]
    for name, _, columns in (line.partition("\t") for line in lines("catalogue.tsv"))
}
"""The columns of every table of the catalogue, with PostgreSQL's names of their types."""
PARAMETERS = {
    "server_version": VERSION,
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "TimeZone": "UTC",
    "IntervalStyle": "postgres",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
    "default_transaction_read_only": "on",
    "transaction_isolation": "read committed",
    "search_path": "public",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "application_name": "",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_min_messages": "notice",
    "statement_timeout": "0",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_messages": "C",
    "server_version_num": "140000",
    "default_transaction_isolation": "read committed",
    "transaction_read_only": "on",
    "row_security": "on",
}
"""The values of SHOW, which are also sent to a client as it connects."""
MACROS = lines("functions.sql")
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
_OIDS = {
    **dict.fromkeys(("BOOLEAN", "bool"), messages.BOOLEAN), **dict.fromkeys(("DOUBLE", "FLOAT"), messages.FLOAT),
    **dict.fromkeys(("BIGINT", "INTEGER", "NUMBER", "SMALLINT", "HUGEINT", "UBIGINT", "UINTEGER"), messages.WHOLE),
    "DATE": messages.DATE, **dict.fromkeys(("TIMESTAMP", "DATETIME"), messages.TIMESTAMP),
}  # fmt: skip
"""The types of results by the engine's names; all others are texts."""
_REFUSED = "This statement about the catalogue cannot be answered here."
_SECONDS = 1.0
_MOST_ROWS, _AT_ONCE = 10_000, 50
_LARGEST = 2**23
"""How many characters a result has at most."""


def rewritten(tree: exp.Expression) -> exp.Expression:
    """Return a statement with its tables and functions replaced by ours; refuse unknown ones."""
    functions = _NAMED | _HARMLESS | set(_RENAMED)
    names = {id(common): f"hush_common_{number}" for number, common in enumerate(tree.find_all(exp.CTE))}
    definitions = common_tables(tree)
    for table in tree.find_all(exp.Table):
        common = definitions.get(id(table))
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
    moment = dt.datetime.now(dt.UTC).replace(tzinfo=None)  # the engine's own has a zone, which needs another package
    for call in list(tree.find_all(exp.Func)):
        if _function_name(call) in _NOTHING:
            call.replace(exp.cast(exp.Null(), "VARCHAR"))
        elif isinstance(call, exp.CurrentTimestamp | exp.CurrentDate):
            kind = "TIMESTAMP" if isinstance(call, exp.CurrentTimestamp) else "DATE"
            call.replace(exp.cast(exp.Literal.string(str(moment)), kind))
    for call in reversed(list(tree.find_all(exp.Func))):  # inner ones first: FORMAT becomes a copy of its arguments
        if _function_name(call) == "format":
            call.replace(_formatted(call))
    for column in list(tree.find_all(exp.Column)):
        column.set("db", None)  # the tables have no schemas here
        column.set("catalog", None)
        if column.name.lower() in _HIDDEN:  # system columns, which PostgreSQL has in every table without listing them
            nothing = exp.cast(exp.Null(), "BIGINT")
            listed = isinstance(column.parent, exp.Select)
            column.replace(exp.alias_(nothing, column.name, quoted=True) if listed else nothing)
        elif column.name.lower() in {"current_user", "session_user", "current_catalog"} and not column.table:
            column.replace(exp.Anonymous(this=_RENAMED[column.name.lower()], expressions=[]))
    for comparison in list(tree.find_all(exp.NEQ)):
        if all_of(comparison.expression):  # x <> ALL (list)
            membership = exp.Any(this=exp.paren(comparison.expression.expressions[0]))
            comparison.replace(exp.Not(this=exp.EQ(this=comparison.this, expression=membership)))
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
    for function in list(tree.find_all(exp.Func)):
        gathering = isinstance(function, exp.GroupConcat | exp.ArrayToString | exp.ArrayAgg | exp.Array)
        if gathering or _function_name(function) in _GATHERED:  # from rows: cut to the greatest allowed length
            gathered: Any = function
            while isinstance(gathered.parent, exp.Filter | exp.Window | exp.WithinGroup | exp.Dot):
                gathered = gathered.parent
            ends = [exp.Literal.number(1), exp.Literal.number(_LONGEST)]
            gathered.replace(exp.Anonymous(this="array_slice", expressions=[gathered.copy(), *ends]))
    for cast in list(tree.find_all(exp.Cast)):
        _rewrite_cast(cast)
    return tree


def labelled(tree: exp.Expression) -> exp.Expression:
    """Give every column of the result a name, before names are changed."""
    for select in tree.find_all(exp.Select):
        for part in list(select.expressions):
            if not part.is_star and not isinstance(part, exp.Alias | exp.Column):
                part.replace(exp.alias_(part.copy(), _label(part), quoted=True))
    return tree


def _function_name(function: exp.Func) -> str:
    return function.name.lower() if isinstance(function, exp.Anonymous) else function.sql_name().lower()


def _check_function(function: exp.Func, known: set[str]) -> None:
    """Refuse functions that are not on one of the lists."""
    by_name = isinstance(function, exp.Anonymous | exp.AnonymousAggFunc)
    refused = function.name.lower() not in known if by_name else not isinstance(function, _PARSED)
    series = isinstance(function, exp.GenerateSeries) and not isinstance(function.parent, exp.Table)
    if series and not refused:
        # FROM generate_series(…) gives rows. Elsewhere it is an array, and may be long, unless it counts the places of
        # a list of the catalogue.
        ends = [function.args.get("start"), function.args.get("end")]
        names = [
            end.name.lower()
            for end in ends
            if isinstance(end, exp.Anonymous) and isinstance(end.expressions[0], exp.Column)
        ]
        refused = names != ["array_lower", "array_upper"]
    if refused:
        raise QuestionError(f"The catalogue has no function {_function_name(function)}.")


def _check_lengths(tree: exp.Expression) -> None:
    """Refuse statements that could make long texts: each SELECT multiplies lengths by the parts that it joins."""
    literals = [literal for literal in tree.find_all(exp.Literal) if literal.is_string]
    long = any(len(literal.this) > (_MOST_LISTED if _compared(literal) else _LONGEST) for literal in literals)
    for call in tree.find_all(exp.Replace):  # of texts in quotes, by at most twice as much
        operands = (call.expression, call.args.get("replacement"))
        texts = [text.this for text in operands if isinstance(text, exp.Literal) and text.is_string]
        long = long or len(texts) != 2 or not texts[0] or len(texts[1]) > 2 * len(texts[0])
    parts: dict[int, int] = {}
    for node in tree.find_all(exp.DPipe, exp.Func):
        if not isinstance(node, exp.Func) or _function_name(node) in _JOINED:
            select = id(node.find_ancestor(exp.Select))
            parts[select] = parts.get(select, 1) + max(1, len(node.expressions))
    again = any(clause.args.get("recursive") for clause in tree.find_all(exp.With))
    if long or math.prod(parts.values()) > _MOST_JOINED or (again and parts):
        raise QuestionError(_REFUSED)


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


def _formatted(call: exp.Func) -> exp.Expression:
    """Return a call of PostgreSQL's FORMAT with ``%s`` and ``%I`` as a concatenation of texts."""
    first, *values = [call.this, *call.expressions] if isinstance(call, exp.Format) else call.expressions or [None]
    # Another pattern than a text in quotes is refused, as "%" is.
    pattern = first.this if isinstance(first, exp.Literal) and first.is_string else "%"
    texts, kinds = re.split(r"%[sI]", pattern), re.findall(r"%[sI]", pattern)
    if len(kinds) != len(values) or any("%" in text for text in texts):
        raise QuestionError(_REFUSED)
    parts: list[exp.Expression] = [exp.Literal.string(texts[0])]
    for kind, value, text in zip(kinds, values, texts[1:], strict=True):
        text_value = exp.cast(value.copy(), "VARCHAR")
        parts.append(exp.Anonymous(this="quote_ident", expressions=[text_value]) if kind == "%I" else text_value)
        parts.append(exp.Literal.string(text))
    return exp.Anonymous(this="concat", expressions=parts)


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
        text, element = cast.this, kind.removesuffix("[]")
        if isinstance(text, exp.Literal) and text.is_string:  # a list that is written as a text becomes one
            try:
                cast.set("this", exp.Array(expressions=[constant(value) for value in messages.elements(text.this)]))
            except ValueError:
                raise QuestionError(_REFUSED) from None
        integers = element in {"oid", "int", "integer", "int2", "int4", "int8", "smallint", "bigint"}
        cast.set("to", exp.DataType.build("BIGINT[]" if integers else "VARCHAR[]"))
    elif kind in _CASTS or kind.startswith(("reg", "char")):
        cast.set("to", exp.DataType.build(_CASTS.get(kind, "VARCHAR")))
    elif "." in cast.to.sql(dialect="postgres"):
        cast.set("to", exp.DataType.build(kind, dialect="postgres", udt=False))


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


def common_tables(tree: exp.Expression) -> dict[int, exp.CTE]:
    """Return the common table expressions that tables of a statement stand for, by the identities of their nodes."""
    common: dict[int, exp.CTE] = {}
    with suppress(sqlglot.errors.SqlglotError, RecursionError):  # then tables stand for nothing, and are refused
        for scope in traverse_scope(tree):
            # Names are known to the query under their WITH and to the expressions after them.
            sources = {name.lower(): source for name, source in scope.cte_sources.items()}
            for table in scope.tables:
                source = None if table.db or table.catalog else sources.get(table.name.lower())
                definition = None if source is None else source.expression.find_ancestor(exp.CTE)
                if definition is not None:
                    common[id(table)] = definition
    return common


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


class SystemCatalogue:
    """The system catalogue of the data sets that one person may ask about."""

    def __init__(self, data_sets: Sequence[Mapping[str, Any]], user: str = "hush") -> None:
        self._schema = str(data_sets[0]["name"]) if data_sets else "public"
        self._connection = duckdb.connect(
            ":memory:", config={"threads": "1", "memory_limit": "200MB", "enable_external_access": "false"}
        )
        self._lock = threading.Lock()
        words = {"{version}": VERSION, "{schema}": self._schema.replace("'", "''"), "{user}": user.replace("'", "''")}
        sources, rows = "\n".join(lines("rows.sql")).split("\n\n")
        functions = "; ".join(f"CREATE MACRO {line}" for line in MACROS)
        self._connection.execute(f"BEGIN; {sources}")
        for table, columns in SHAPES.items():
            shape = ", ".join(f'"{name}" {STORED.get(kind, "VARCHAR")}' for name, kind in columns)
            self._connection.execute(f'CREATE TABLE "{stored_name(table)}" ({shape})')
        schemas = {"pg_catalog": 11, "information_schema": 13_000}
        schemas |= {str(data["name"]): _FIRST + number for number, data in enumerate(data_sets)}
        pairs = [(str(data["name"]), table) for data in data_sets for table in data["tables"]]
        classes = list(enumerate(pairs, _FIRST + 1001))
        contents: dict[str, list[tuple[Any, ...]]] = {  # the tables from which rows.sql makes those of the catalogue
            "hush_types": [
                (kind.oid, kind.name, kind.shown, kind.size, kind.category, kind.array) for kind in BY_OID.values()
            ],
            "hush_schemas": [(oid, name) for name, oid in schemas.items()],
            "hush_classes": [(oid, schema, table["name"], len(table["columns"])) for oid, (schema, table) in classes],
            "hush_columns": [
                (oid, position, column["name"], BY_KIND[Kind(column["type"])])
                for oid, (_, table) in classes
                for position, column in enumerate(table["columns"], 1)
            ],
            "hush_settings": [(name.lower(), value) for name, value in PARAMETERS.items()],
        }
        for name, content in contents.items():
            if content:
                marks = ", ".join(f"({', '.join('?' for _ in row)})" for row in content)
                self._connection.execute(
                    f"INSERT INTO {name} VALUES {marks}",  # noqa: S608 - ours
                    [cell for row in content for cell in row],
                )
        script = re.sub("|".join(map(re.escape, words)), lambda word: words[word[0]], f"{rows}; {functions}")
        # Locked at last: no statement can allow files, network or more memory again.
        self._connection.execute(f"{script}; COMMIT; SET lock_configuration = true")

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def run(
        self, statement: str, parameters: Mapping[str, Any] | None = None
    ) -> tuple[list[ResultColumn], list[tuple[Any, ...]]] | None:
        """Run a statement about the catalogue, or about nothing at all, as SELECT version(); return None for others."""
        tree = parsed(statement)
        if not isinstance(tree, exp.Select | exp.Union | exp.Subquery):
            return None
        common = common_tables(tree)
        for table in tree.find_all(exp.Table):
            ours = place_of(table) is not None or table.db.lower() in SCHEMAS or isinstance(table.this, exp.Func)
            if not ours and id(table) not in common:
                return None
        for parameter in list(tree.find_all(exp.Parameter)):
            parameter.replace(constant((parameters or {}).get(parameter.this.name)))
        try:
            translated_sql = rewritten(labelled(tree)).sql(dialect="duckdb")
        except RecursionError:
            raise QuestionError(_REFUSED) from None
        with self._lock:
            timer = threading.Timer(_SECONDS, self._connection.interrupt)
            timer.start()
            try:
                result = self._connection.execute(translated_sql)
                rows: list[tuple[Any, ...]] = []
                size = 0
                while len(rows) < _MOST_ROWS and (block := result.fetchmany(_AT_ONCE)):
                    rows += block
                    size += sum(len(value) if isinstance(value, str | list) else 8 for row in block for value in row)
                    if size > _LARGEST:
                        hint = "Ask for fewer columns."
                        raise QuestionError("This statement about the catalogue gives too much at once.", hint)
                described = result.description or []
            except duckdb.Error:
                raise QuestionError(_REFUSED) from None
            finally:
                timer.cancel()
        fields = [ResultColumn(str(name), _OIDS.get(str(kind), messages.TEXT)) for name, kind, *_ in described]
        return fields, [tuple(map(_plain, row)) for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return "{" + ",".join("NULL" if element is None else messages.written(element) for element in value) + "}"
    return value
