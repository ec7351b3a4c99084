"""The type of every call: kinds are checked, ranges and steps derived, and NULL accounted for.

`call` is the only way the front end makes a `Call`, so a call that exists is well typed. What the type promises is
true of every row there could be: the value, evaluated in float64, lies within the range (its ends read as floats,
rounded outward: `ranges`), and is not NULL unless the type says so. The step is that of exact arithmetic. The engine
clamps and rounds to the promised grid once more before it adds anything up.

>>> from hush.query.expressions import Column
>>> from hush.query.types import Kind, Type
>>> age = Column("age", Type(Kind.INTEGER, False, Fraction(0), Fraction(120), Fraction(1)))
>>> decade = call(Op.MULTIPLY, call(Op.FLOOR, call(Op.DIVIDE, age, constant(Fraction(10)))), constant(Fraction(10)))
>>> decade.type.lower, decade.type.upper, decade.type.step
(Fraction(0, 1), Fraction(120, 1), Fraction(10, 1))
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

from hush.query import _dates, _logic, _numbers, _texts
from hush.query._support import arity, constant, describe, need_numeric, number
from hush.query.expressions import Call, Expression, Literal, Op
from hush.query.types import Kind, Type

__all__ = ["RULES", "all_of", "call", "constant", "describe", "folded", "number"]

Rule = Callable[[Op, tuple[Expression, ...]], Type]
MANY = 1000

RULES: dict[Op, tuple[Rule, int, int]] = {
    Op.ADD: (_numbers.add, 2, 2),
    Op.SUBTRACT: (_numbers.add, 2, 2),
    Op.MULTIPLY: (_numbers.add, 2, 2),
    Op.DIVIDE: (_numbers.divide, 2, 2),
    Op.DIVIDE_WHOLE: (_numbers.divide_whole, 2, 2),
    Op.MODULO: (_numbers.modulo, 2, 2),
    Op.NEGATE: (_numbers.unary, 1, 1),
    Op.ABS: (_numbers.unary, 1, 1),
    Op.SIGN: (_numbers.unary, 1, 1),
    Op.FLOOR: (_numbers.whole, 1, 1),
    Op.CEIL: (_numbers.whole, 1, 1),
    Op.ROUND: (_numbers.rounded, 1, 2),
    Op.SQRT: (_numbers.library, 1, 1),
    Op.EXP: (_numbers.library, 1, 1),
    Op.LN: (_numbers.library, 1, 1),
    Op.LOG: (_numbers.logarithm, 2, 2),
    Op.POWER: (_numbers.power, 2, 2),
    Op.LEAST: (_numbers.extreme, 1, MANY),
    Op.GREATEST: (_numbers.extreme, 1, MANY),
    Op.CLIP: (_numbers.clip, 3, 3),
    Op.BIN: (_numbers.binned, 4, 4),
    Op.EQUAL: (_logic.compare, 2, 2),
    Op.NOT_EQUAL: (_logic.compare, 2, 2),
    Op.LESS: (_logic.compare, 2, 2),
    Op.LESS_EQUAL: (_logic.compare, 2, 2),
    Op.GREATER: (_logic.compare, 2, 2),
    Op.GREATER_EQUAL: (_logic.compare, 2, 2),
    Op.AND: (_logic.logic, 2, 2),
    Op.OR: (_logic.logic, 2, 2),
    Op.NOT: (_logic.logic, 1, 1),
    Op.IS_NULL: (_logic.is_missing, 1, 1),
    Op.IN: (_logic.membership, 2, 1 + MANY),
    Op.LIKE: (_logic.like, 2, 3),
    Op.CASE: (_logic.case, 3, MANY),
    Op.COALESCE: (_logic.coalesce, 1, MANY),
    Op.NULL_IF: (_logic.null_if, 2, 2),
    Op.LOWER: (_texts.simple, 1, 1),
    Op.UPPER: (_texts.simple, 1, 1),
    Op.TRIM: (_texts.simple, 1, 1),
    Op.LTRIM: (_texts.simple, 1, 1),
    Op.RTRIM: (_texts.simple, 1, 1),
    Op.LENGTH: (_texts.length, 1, 1),
    Op.SUBSTRING: (_texts.substring, 3, 3),
    Op.CONCAT: (_texts.concat, 1, MANY),
    Op.LEFT: (_texts.end, 2, 2),
    Op.RIGHT: (_texts.end, 2, 2),
    Op.REPLACE: (_texts.replaced, 3, 3),
    Op.STARTS_WITH: (_texts.holds, 2, 2),
    Op.CONTAINS: (_texts.holds, 2, 2),
    Op.YEAR: (_dates.part, 1, 1),
    Op.QUARTER: (_dates.part, 1, 1),
    Op.MONTH: (_dates.part, 1, 1),
    Op.DAY: (_dates.part, 1, 1),
    Op.DAY_OF_WEEK: (_dates.part, 1, 1),
    Op.HOUR: (_dates.part, 1, 1),
    Op.TRUNCATE_DATE: (_dates.truncated, 2, 2),
    Op.DATE_DIFF: (_dates.difference, 3, 3),
    Op.ADD_INTERVAL: (_dates.moved, 4, 4),
    Op.TO_INTEGER: (_dates.cast, 1, 1),
    Op.TO_DECIMAL: (_dates.cast, 1, 1),
    Op.TO_FIXED: (_numbers.fixed, 3, 3),
    Op.TO_TEXT: (_dates.cast, 1, 1),
    Op.TO_BOOLEAN: (_dates.cast, 1, 1),
    Op.TO_DATE: (_dates.cast, 1, 1),
    Op.TO_TIMESTAMP: (_dates.cast, 1, 1),
}
"""For each function its typing rule, and how many arguments it takes at least and at most."""

_COMPARED = {
    Op.EQUAL, Op.NOT_EQUAL, Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL, Op.IN, Op.COALESCE, Op.NULL_IF,
}  # fmt: skip
_CHOICES = {Op.CASE, Op.COALESCE, Op.NULL_IF}
_CASTS = {Op.TO_DATE: Kind.DATE, Op.TO_TIMESTAMP: Kind.TIMESTAMP}


def call(op: Op, *arguments: Expression) -> Call:
    """Return a well-typed call; refuse arguments of the wrong number or kind."""
    rule, least, most = RULES[op]
    arity(op, arguments, least, most)
    if op in _COMPARED:
        arguments = _logic.alike(op, arguments)
    elif op in {Op.LEAST, Op.GREATEST}:
        arguments = _logic.alike(op, arguments)
        if not arguments[0].type.kind.ranged:
            need_numeric(op, arguments)
    elif op is Op.CASE:
        arguments = _logic.alike_case(arguments)
    type_ = rule(op, tuple(arguments))
    if op not in _CHOICES and any(argument.type.null_is_key for argument in arguments):
        type_ = replace(type_, lists_null=True)  # of what may be NULL because an argument is
    return Call(op, tuple(arguments), type_)


def cast(op: Op, argument: Expression) -> Expression:
    """Return a cast, read at once where it is of constant text to a date: ``DATE '2024-12-31'``."""
    if op in _CASTS and isinstance(argument, Literal) and isinstance(argument.value, str):
        return constant(_logic.read_time(argument.value, _CASTS[op]))
    return call(op, argument)


_FOLDED = {Op.ADD: operator.add, Op.SUBTRACT: operator.sub, Op.MULTIPLY: operator.mul}
_LONGEST = 1100
"""Bits of the numerator and of the denominator of a constant that is computed from others."""


def folded(op: Op, left: Expression, right: Expression) -> Expression:
    """Return arithmetic; of two constants, the constant, exactly: 0.1 + 0.2 is 0.3.

    Quotients are left to the engine, in which they are floats and no decimals.

    >>> folded(Op.ADD, constant(Fraction(1, 10)), constant(Fraction(2, 10))).value
    Fraction(3, 10)
    """
    if op in _FOLDED and isinstance(left, Literal) and isinstance(right, Literal):
        one, other = left.value, right.value
        if isinstance(one, Fraction) and isinstance(other, Fraction):
            value: Fraction = _FOLDED[op](one, other)
            if max(value.numerator.bit_length(), value.denominator.bit_length()) < _LONGEST:
                return constant(value)
    return call(op, left, right)


def all_of(conditions: list[Expression]) -> Expression:
    """Return the conjunction of conditions, which leans to the left however it was written."""
    parts = [part for condition in conditions for part in _logic.conjuncts(condition)]
    found = parts[0]
    for part in parts[1:]:
        found = call(Op.AND, found, part)
    return found


def negated(argument: Expression) -> Expression:
    """Return −x; of a constant, the constant."""
    if isinstance(argument, Literal) and isinstance(argument.value, Fraction):
        return constant(-argument.value)
    return call(Op.NEGATE, argument)
