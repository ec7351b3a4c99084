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
from fractions import Fraction

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Expression, Literal, Op
from hush.query.functions import dates, numbers
from hush.query.functions.dates import DATES, read_time
from hush.query.functions.logic import LOGIC, conjuncts
from hush.query.functions.numbers import NUMBERS
from hush.query.functions.record import Function, Rewrite, constant, describe, number, spelled, strict, wanted_arguments
from hush.query.functions.texts import TEXTS
from hush.query.types import Kind

__all__ = ["FUNCTIONS", "REWRITES", "all_of", "call", "cast", "constant", "describe", "folded", "negated", "number"]

FUNCTIONS: dict[Op, Function] = {record.op: record for record in (*NUMBERS, *LOGIC, *TEXTS, *DATES)}
"""All functions that an expression over a row can call."""

REWRITES: tuple[Rewrite, ...] = (*numbers.REWRITES, *dates.REWRITES)
"""Functions that abbreviate others."""

_TIMES = {Op.TO_DATE: Kind.DATE, Op.TO_TIMESTAMP: Kind.TIMESTAMP}


def call(op: Op, *arguments: Expression) -> Call:
    """Return a well-typed call; refuse arguments of the wrong number or kind."""
    record = FUNCTIONS[op]
    least, most = record.arity
    if not least <= len(arguments) <= most:
        raise QuestionError(f"{spelled(op)} takes {wanted_arguments(least, most)}; got {len(arguments)}.")
    if record.prepare is not None:
        arguments = record.prepare(op, arguments)
    type_ = record.rule(op, arguments)
    return Call(op, arguments, type_) if record.chooses else strict(op, arguments, type_)


def cast(op: Op, argument: Expression) -> Expression:
    """Return a cast, read at once where it is of constant text to a date: ``DATE '2024-12-31'``."""
    if op in _TIMES and isinstance(argument, Literal) and isinstance(argument.value, str):
        return constant(read_time(argument.value, _TIMES[op]))
    return call(op, argument)


_FOLDED = {Op.ADD: operator.add, Op.SUBTRACT: operator.sub, Op.MULTIPLY: operator.mul}
_LONGEST = 1100  # bits of the numerator and of the denominator of a constant that is computed from others


def folded(op: Op, left: Expression, right: Expression) -> Expression:
    """Return arithmetic; of two constants, the constant, exactly: 0.1 + 0.2 is 0.3.

    Quotients are left to the engine, in which they are floats and no decimals.

    >>> folded(Op.ADD, constant(Fraction(1, 10)), constant(Fraction(2, 10))).value
    Fraction(3, 10)
    """
    if op in _FOLDED and isinstance(left, Literal) and isinstance(right, Literal):
        first, second = left.value, right.value
        if isinstance(first, Fraction) and isinstance(second, Fraction):
            value: Fraction = _FOLDED[op](first, second)
            if max(value.numerator.bit_length(), value.denominator.bit_length()) < _LONGEST:
                return constant(value)
    return call(op, left, right)


def all_of(conditions: list[Expression]) -> Expression:
    """Return the conjunction of conditions, which leans to the left however it was written."""
    parts = [part for condition in conditions for part in conjuncts(condition)]
    conjunction = parts[0]
    for part in parts[1:]:
        conjunction = call(Op.AND, conjunction, part)
    return conjunction


def negated(argument: Expression) -> Expression:
    """Return −x; of a constant, the constant."""
    if isinstance(argument, Literal) and isinstance(argument.value, Fraction):
        return constant(-argument.value)
    return call(Op.NEGATE, argument)
