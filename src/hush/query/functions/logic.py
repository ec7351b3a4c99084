"""Comparisons, three-valued logic and choice: conversion of arguments to one kind, and types of results.

Over arrays truth is 1, falsehood 0 and NULL is NaN.
"""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Expression, Literal, Op
from hush.query.functions.dates import read_time, to_timestamp
from hush.query.functions.record import (
    ANY_NUMBER,
    BOOLEAN,
    MAX_VALUES,
    ONE,
    Arguments,
    Array,
    Function,
    Reading,
    common_step,
    constant,
    describe,
    floats,
    interval,
    is_null,
    literal_text,
    need,
    nulls,
    number,
    objects,
    of_floats,
    of_kinds,
    refuse,
    spelled,
    step_of,
)
from hush.query.types import Kind, Type, Value, written_in

MAX_WILDCARDS = 5
"""More '%' in one pattern could make matching slow on chosen rows."""
_NUMBER = re.compile(r"-?\d{1,18}(\.\d{1,18})?", re.ASCII)


def boolean(arguments: Sequence[Expression]) -> Type:
    """Return the type of a condition: nullable if an argument is."""
    return replace(BOOLEAN, nullable=any(argument.type.nullable for argument in arguments))


def alike(op: Op, arguments: Sequence[Expression]) -> Arguments:
    """Return the arguments brought to one kind: whole numbers with decimals, dates with text that reads as a date."""
    kinds = {argument.type.kind for argument in arguments if not is_null(argument)}
    if not kinds:
        raise QuestionError(f"{spelled(op)} needs something besides NULL.", "Test for NULL with IS NULL.")
    if kinds <= {Kind.INTEGER, Kind.DECIMAL}:
        kind = Kind.DECIMAL if Kind.DECIMAL in kinds else Kind.INTEGER
    elif len(kinds) == 1:
        (kind,) = kinds
    elif Kind.TIMESTAMP in kinds:
        kind = Kind.TIMESTAMP
    elif Kind.DATE in kinds:
        kind = Kind.DATE
    else:
        first = next(a for a in arguments if not is_null(a))
        other = next(a for a in arguments if a.type.kind is not first.type.kind and not is_null(a))
        hint = "Cast one of them, for instance CAST(x AS DOUBLE) or CAST(x AS VARCHAR)."
        texts = [one.value for one in (first, other) if isinstance(one, Literal) and isinstance(one.value, str)]
        if texts and _NUMBER.fullmatch(texts[0]) and (first.type.kind.numeric or other.type.kind.numeric):
            hint = f"Write {texts[0]} without quotes."
        raise QuestionError(
            f"{spelled(op)} needs arguments of one kind; {describe(first)} is {first.type.kind.value} and "
            f"{describe(other)} is {other.type.kind.value}.",
            hint,
        )
    return tuple(_of_kind(op, argument, kind) for argument in arguments)


def _of_kind(op: Op, argument: Expression, kind: Kind) -> Expression:
    """Return an argument as a value of a kind: NULL is of any, text constants are read, dates stand for midnight."""
    if is_null(argument):
        return Literal(None, Type(kind, nullable=True, values=()))
    if argument.type.kind is kind or kind.numeric:
        return argument
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return constant(read_time(argument.value, kind))
    if kind is Kind.TIMESTAMP and argument.type.kind is Kind.DATE:
        if isinstance(argument, Literal) and isinstance(argument.value, dt.date):
            return constant(dt.datetime.combine(argument.value, dt.time()))
        return to_timestamp(argument)
    raise refuse(op, argument, f"a {kind.value}", f"Cast it: CAST(… AS {kind.value.upper()}).")


def _compare(op: Op, arguments: Arguments) -> Type:
    """Equality of any kind, order of all but booleans."""
    for argument in arguments:
        if is_null(argument):
            raise QuestionError(f"{spelled(op)} with NULL is never true.", "Write IS NULL or IS NOT NULL.")
    if op not in {Op.EQUAL, Op.NOT_EQUAL} and arguments[0].type.kind is Kind.BOOLEAN:
        raise refuse(op, arguments[0], "values that have an order")
    return boolean(arguments)


def _logic(op: Op, arguments: Arguments) -> Type:
    """AND, OR and NOT."""
    need(op, arguments, Kind.BOOLEAN)
    return boolean(arguments)


def _membership(op: Op, arguments: Arguments) -> Type:
    """IN a list of constants."""
    for item in arguments[1:]:
        if not isinstance(item, Literal) or item.value is None:
            raise QuestionError(f"IN needs a list of constants without NULL; got {describe(item)}.")
    return _compare(op, arguments) if arguments[0].type.kind is not Kind.BOOLEAN else boolean(arguments)


def _like(op: Op, arguments: Arguments) -> Type:
    """LIKE a constant pattern, in which a constant character may make the next one stand for itself."""
    need(op, arguments, Kind.TEXT)
    pattern = literal_text(op, arguments[1], "pattern")
    if len(arguments) > 2:
        escape = literal_text(op, arguments[2], "ESCAPE")
        if len(escape) != 1 or not escape.isascii():
            raise QuestionError(
                f"ESCAPE takes one ASCII character; got {escape[:40]!r}.", "Write LIKE '50!%' ESCAPE '!'."
            )
        plain = without_escapes(pattern, escape)
        if plain is None:
            raise QuestionError(f"The pattern {pattern[:40]!r} ends with its ESCAPE character.", "Write it twice.")
        pattern = "".join(character for character, meant in plain if not meant)
    if pattern.count("%") > MAX_WILDCARDS:
        raise QuestionError(f"LIKE takes at most {MAX_WILDCARDS} '%' in a pattern.", "Split the condition with AND.")
    return boolean(arguments)


def without_escapes(pattern: str, escape: str) -> list[tuple[str, bool]] | None:
    """Return a pattern's characters, and whether each stands for itself; None if it ends in the middle.

    >>> without_escapes("5!%%", "!")
    [('5', False), ('%', True), ('%', False)]
    """
    found: list[tuple[str, bool]] = []
    rest = iter(pattern)
    for character in rest:
        if character != escape or not escape:
            found.append((character, False))
        elif (meant := next(rest, None)) is not None:
            found.append((meant, True))
        else:
            return None
    return found


def either(expressions: Sequence[Expression], *, nullable: bool) -> Type:
    """Return the common type of expressions of one kind, for a value that is one among them."""
    types = [expression.type for expression in expressions if not is_null(expression)]
    lists_null = nullable and any(is_null(item) or item.type.null_is_key for item in expressions)
    written = written_in(expression.type for expression in expressions)
    if not types:
        null = expressions[0].type
        return replace(null, nullable=True, lists_null=lists_null or null.lists_null, written=written or null.written)
    kind = Kind.DECIMAL if any(type_.kind is Kind.DECIMAL for type_ in types) else types[0].kind
    # all values that any of them lists, if they all do and these are not too many
    values: tuple[Value, ...] | None = tuple(dict.fromkeys(value for type_ in types for value in type_.values or ()))
    if any(type_.values is None for type_ in types) or len(values or ()) > MAX_VALUES:
        values = None
    if not kind.ranged:
        values = (False, True) if kind is Kind.BOOLEAN else values
        return Type(kind, nullable, values=values, lists_null=lists_null, written=written)
    span = interval(types[0])
    for type_ in types[1:]:
        span = span.hull(interval(type_))
    common = number(kind, span, nullable=nullable, step=common_step(map(step_of, types)))
    # the ends as declared, not as floats: that is what the analyst wrote
    lowers = [type_.lower for type_ in types if type_.lower is not None]
    uppers = [type_.upper for type_ in types if type_.upper is not None]
    return replace(
        common,
        lower=min(lowers) if len(lowers) == len(types) else None,
        upper=max(uppers) if len(uppers) == len(types) else None,
        values=values,
        lists_null=lists_null,
        written=written,
    )


def _case(op: Op, arguments: Arguments) -> Type:
    """CASE: the conditions are conditions, the values of one kind."""
    need(op, arguments[:-1:2], Kind.BOOLEAN)
    outcomes = (*arguments[1::2], arguments[-1])
    return either(outcomes, nullable=any(outcome.type.nullable for outcome in outcomes))


def _null_if(_op: Op, arguments: Arguments) -> Type:
    """NULL_IF: the first, or NULL; of a list of texts, all but the one that becomes NULL."""
    found, other = arguments[0].type.or_null(named=True), arguments[1]
    if found.kind is not Kind.TEXT or found.values is None or not isinstance(other, Literal):
        return found
    left = tuple(value for value in found.values if value != other.value)
    return replace(found, values=left) if left else found


def _alike_outcomes(_op: Op, arguments: Arguments) -> Arguments:
    """Return CASE's arguments with its outcomes brought to one kind."""
    outcomes = (*arguments[1::2], arguments[-1])
    if all(is_null(outcome) for outcome in outcomes):
        raise QuestionError("CASE needs at least one outcome besides NULL.")
    outcomes = alike(Op.CASE, outcomes)
    pairs = zip(arguments[:-1:2], outcomes[:-1], strict=True)
    return (*(argument for pair in pairs for argument in pair), outcomes[-1])


def conjuncts(expression: Expression, op: Op = Op.AND) -> list[Expression]:
    """Return the parts of a chain of ANDs (or ORs), from left to right."""
    parts: list[Expression] = []
    stack = [expression]
    while stack:
        part = stack.pop()
        if isinstance(part, Call) and part.op is op:
            stack.extend(reversed(part.arguments))
        else:
            parts.append(part)
    return parts


def compared(op: Op, left: Array, right: Array) -> Array:
    """Return a comparison: 1, 0, or NaN where either side is NULL."""
    compare, _ = COMPARISONS[op]
    if left.dtype == np.float64 and right.dtype == np.float64:
        return np.where(np.isnan(left) | np.isnan(right), np.nan, compare(left, right).astype(float))
    # texts, times, and whole numbers that are too large for floats
    each = np.frompyfunc(lambda one, other: None if one is None or other is None else compare(one, other), 2, 1)
    return floats(each(objects(left), objects(right)))


def chosen(conditions: list[Array], values: list[Array]) -> Array:
    """Return the value of the first condition that is 1, else the last value."""
    kind = np.float64 if all(value.dtype == np.float64 for value in values) else object
    *values, result = values if kind is np.float64 else [objects(value) for value in values]
    # from the last to the first, so that the first condition that holds wins
    for condition, value in zip(reversed(conditions), reversed(values), strict=True):
        result = np.where(condition == 1, value, result)
    return np.asarray(result, dtype=kind)


def _any(left: Array, right: Array) -> Array:
    return np.where((left == 1) | (right == 1), 1.0, left + right)


def _in_arrays(_: Call, arguments: list[Array]) -> Array:
    among = compared(Op.EQUAL, arguments[0], arguments[1])
    for other in arguments[2:]:
        among = _any(among, compared(Op.EQUAL, arguments[0], other))
    return np.asarray(among, dtype=np.float64)


def _null_if_arrays(_: Call, arguments: list[Array]) -> Array:
    same = compared(Op.EQUAL, arguments[0], arguments[1])
    empty = np.full(1, np.nan) if arguments[0].dtype == np.float64 else np.array([None], dtype=object)
    return chosen([same], [empty, arguments[0]])


def _truth(numbers: Array) -> Array:
    return np.where(np.isnan(numbers), np.nan, numbers != 0)


def _to_boolean(op: Op, arguments: Arguments) -> Type:
    type_ = of_kinds(op, arguments[0], {Kind.BOOLEAN, Kind.TEXT, Kind.INTEGER})
    return Type(Kind.BOOLEAN, type_.nullable or type_.kind is Kind.TEXT, values=(False, True))


COMPARISONS: dict[Op, tuple[Callable[[Any, Any], Any], str]] = {
    Op.EQUAL: (operator.eq, ""),  # also of rows of values
    Op.NOT_EQUAL: (operator.ne, ""),
    Op.LESS: (operator.lt, "LT"),
    Op.LESS_EQUAL: (operator.le, "LTE"),
    Op.GREATER: (operator.gt, "GT"),
    Op.GREATER_EQUAL: (operator.ge, "GTE"),
}
"""The function over values, and the class of sqlglot's nodes, if it is read as a plain call."""
LOGIC = (
    *(
        Function(
            op,
            _compare,
            (2, 2),
            reads=(Reading(node),) if node else (),
            prepare=alike,
            evaluate=lambda comparison, arguments: compared(comparison.op, *arguments),
            per_character=1,
        )
        for op, (_, node) in COMPARISONS.items()
    ),
    Function(
        Op.AND,
        _logic,
        (2, 2),
        evaluate=of_floats(lambda a, b: np.where((a == 0) | (b == 0), 0.0, a * b)),
        rising=True,
    ),
    Function(Op.OR, _logic, (2, 2), reads=(Reading("Or"),), evaluate=of_floats(_any), rising=True),
    Function(Op.NOT, _logic, (1, 1), reads=(Reading("Not", ONE),), evaluate=of_floats(lambda a: 1 - a)),
    Function(
        Op.IS_NULL,
        lambda _op, _arguments: BOOLEAN,  # never NULL itself
        (1, 1),
        evaluate=lambda _, arguments: nulls(arguments[0]).astype(np.float64),
        per_character=0,
    ),
    Function(Op.IN, _membership, (2, 1 + ANY_NUMBER), prepare=alike, evaluate=_in_arrays, per_character=2),
    Function(Op.LIKE, _like, (2, 3), per_character=12, searches=True),
    Function(
        Op.CASE,
        _case,
        (3, ANY_NUMBER),
        prepare=_alike_outcomes,
        chooses=True,
        evaluate=lambda _, parts: chosen([floats(part) for part in parts[:-1:2]], [*parts[1:-1:2], parts[-1]]),
        per_character=1,
    ),
    Function(
        Op.COALESCE,
        # NULL only if everything is
        lambda _, arguments: either(arguments, nullable=all(argument.type.nullable for argument in arguments)),
        (1, ANY_NUMBER),
        ("COALESCE", "IFNULL"),
        (Reading("Coalesce", ("this", "*expressions"), ignored=("is_nvl", "is_null")),),
        prepare=alike,
        chooses=True,
        evaluate=lambda _, arguments: chosen([~nulls(argument) for argument in arguments[:-1]], arguments),
        per_character=1,
    ),
    Function(
        Op.NULL_IF,
        _null_if,
        (2, 2),
        ("NULLIF",),
        (Reading("Nullif"),),
        prepare=alike,
        chooses=True,
        evaluate=_null_if_arrays,
        per_character=2,
    ),
    Function(Op.TO_BOOLEAN, _to_boolean, (1, 1), types=("BOOLEAN",), evaluate=of_floats(_truth), by_engine=True),
)
