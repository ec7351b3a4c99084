"""Types of parameters that a client leaves open: ``age > $1`` compares with a whole number, as the column is one.

Most drivers send a parameter as text and let the server find out its type, or ask for it first. As in PostgreSQL the
type follows from what stands beside the parameter: a column or an expression it is compared or added to, a cast, LIMIT.
It depends on the statement and the schema alone. A parameter beside nothing of a known type is a text.

>>> data_sets = [{"name": "clinic", "tables": [{"name": "visits", "columns": [
...     {"name": "age", "type": "integer"}, {"name": "day", "type": "date"}]}]}]
>>> parameter_types("SELECT COUNT(*) FROM visits WHERE age BETWEEN $1 AND $2 AND day IN ($3) LIMIT $4", data_sets)
{1: 20, 2: 20, 3: 1082, 4: 20}
>>> parameter_types("SELECT relname FROM pg_class WHERE oid = $1 AND relname = ANY ($2)", data_sets)
{1: 20, 2: 1009}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp

from hush.server.pgwire import messages
from hush.server.pgwire.catalogue import all_of, parsed
from hush.server.pgwire.catalogue_rows import SHAPES, TYPES

_CATALOGUE_TYPES = {
    "bool": messages.BOOLEAN, "int2": messages.WHOLE, "int4": messages.WHOLE, "int8": messages.WHOLE,
    "oid": messages.WHOLE, "xid": messages.WHOLE, "regproc": messages.WHOLE, "float4": messages.FLOAT,
}  # fmt: skip
_CASTS = {
    "bool": messages.BOOLEAN, "boolean": messages.BOOLEAN, "date": messages.DATE, "timestamp": messages.TIMESTAMP,
    "timestamp without time zone": messages.TIMESTAMP, "timestamp with time zone": messages.INSTANT,
    "timestamptz": messages.INSTANT, "smallint": messages.WHOLE, "int": messages.WHOLE, "integer": messages.WHOLE,
    "int2": messages.WHOLE, "int4": messages.WHOLE, "int8": messages.WHOLE, "bigint": messages.WHOLE,
    "oid": messages.WHOLE, "real": messages.FLOAT, "float": messages.FLOAT, "float4": messages.FLOAT,
    "float8": messages.FLOAT, "double precision": messages.FLOAT, "numeric": messages.NUMERIC,
    "decimal": messages.NUMERIC, "text": messages.TEXT, "varchar": messages.TEXT, "char": messages.TEXT,
}  # fmt: skip
_NUMBERS = {messages.WHOLE, messages.FLOAT, messages.NUMERIC}
_BESIDE = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In, exp.Add,
    exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.If, exp.Case,
)  # fmt: skip
"""Expressions with operands of one common type."""
_WHOLE = (exp.Count, exp.Length, exp.Extract, exp.StrPosition, exp.DateDiff, exp.Year, exp.Month, exp.Day)
_TEXT = (exp.Lower, exp.Upper, exp.Concat, exp.DPipe, exp.Substring, exp.Trim, exp.Replace, exp.Left, exp.Right)
_FLOAT = (exp.Avg, exp.Sqrt, exp.Ln, exp.Exp, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance)
_SAME = (exp.Sum, exp.Max, exp.Min, exp.Median, exp.Abs, exp.Round, exp.Floor, exp.Ceil, exp.Neg, exp.Paren, exp.Mod)


def parameter_types(text: str, data_sets: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Return the types of the parameters of a statement by their numbers, as far as they are known."""
    tree = parsed(text)
    if tree is None:
        return {}
    columns = _columns(tree, data_sets)
    types: dict[int, int] = {}
    for parameter in tree.find_all(exp.Parameter):
        number = parameter.this.name
        if number.isdigit() and (oid := _type_at(parameter, columns)):
            types.setdefault(int(number), oid)
    return dict(sorted(types.items()))


def _columns(tree: exp.Expression, data_sets: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the types of all columns of the tables in a statement; 0 for a name with two different types."""
    table_names = {table.name.lower() for table in tree.find_all(exp.Table)}
    pairs = [
        (str(column["name"]).lower(), TYPES.get(str(column["type"]), TYPES["text"])[1])
        for data in data_sets
        for table in data["tables"]
        if str(table["name"]).lower() in table_names
        for column in table["columns"]
    ]
    pairs += [
        (name, _CATALOGUE_TYPES.get(kind, messages.TEXT))
        for table_path, shape in SHAPES.items()
        if table_path.partition(".")[2] in table_names
        for name, kind in shape
    ]
    columns: dict[str, int] = {}
    for name, oid in pairs:
        columns[name] = oid if columns.get(name, oid) == oid else 0
    return columns


def _type_at(parameter: exp.Expression, columns: Mapping[str, int]) -> int:
    """Return the type that the place of a parameter asks for; 0 for any."""
    node: Any = parameter
    while isinstance(node.parent, exp.Paren | exp.Neg | exp.Tuple):
        node = node.parent
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return cast_type(parent.to)
    if isinstance(parent, exp.Limit | exp.Offset | exp.Fetch):
        return messages.WHOLE
    if isinstance(parent, exp.Like | exp.ILike | exp.RegexpLike | exp.RegexpILike | exp.DPipe):
        return messages.TEXT
    if isinstance(parent, exp.Any) or all_of(parent):
        element_type = _beside(parent, columns)
        return next((array for array, kind in messages.ARRAYS.items() if kind == element_type), 0)
    return _beside(node, columns)


def _beside(node: Any, columns: Mapping[str, int]) -> int:
    """Return the type of the other operands beside a part of an expression; 0 where it is not known."""
    if not isinstance(node.parent, _BESIDE):
        return 0
    siblings = [operand for operand in node.parent.iter_expressions() if operand is not node]
    types = [oid for sibling in siblings if (oid := _type_of(sibling, columns))]
    numbers = types and all(oid in _NUMBERS for oid in types)
    return max(types) if numbers else types[0] if types else 0  # a wider number has the higher type


def _type_of(node: Any, columns: Mapping[str, int]) -> int:
    """Return the type of an expression; 0 where it is not known."""
    if isinstance(node, exp.Column):
        return columns.get(node.name.lower(), 0)
    if isinstance(node, exp.Literal):
        return 0 if node.is_string else messages.WHOLE if node.is_int else messages.NUMERIC
    if isinstance(node, exp.Boolean):
        return messages.BOOLEAN
    if isinstance(node, exp.Cast):
        return cast_type(node.to)
    if isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
        return messages.TIMESTAMP
    for kinds, oid in ((_WHOLE, messages.WHOLE), (_TEXT, messages.TEXT), (_FLOAT, messages.FLOAT)):
        if isinstance(node, kinds):
            return oid
    if isinstance(node, _SAME):
        return _type_of(node.this, columns)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return max(_type_of(node.this, columns), _type_of(node.expression, columns))
    return 0


def cast_type(kind: exp.DataType) -> int:
    """Return the number of a type that is written in a cast; 0 for one that is not known here."""
    name = kind.sql(dialect="postgres").lower().removeprefix("pg_catalog.").strip('"')
    if name.endswith("[]"):
        element_type = _CASTS.get(name[:-2].partition("(")[0].strip(), 0)
        return next((array for array, oid in messages.ARRAYS.items() if oid == element_type), 0)
    return _CASTS.get(name.partition("(")[0].strip(), 0)
