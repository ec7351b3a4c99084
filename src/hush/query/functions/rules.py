"""Helpers for the typing rules of all functions: refusals in the analyst's words, ranges, steps, constants."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.ranges import Interval
from hush.query.types import Kind, Type, Value, position

MAX_VALUES = 1000
"""The longest list of values that a type keeps."""

BOOLEAN = Type(Kind.BOOLEAN, nullable=False, values=(False, True))
_RESOLUTION = 2**53
_STEP_BITS = 1100


def spelled(op: Op) -> str:
    """Return a function's name as analysts write it."""
    return "-" if op is Op.NEGATE else op.value.strip()


def shown_number(value: Fraction) -> str:
    """Return a number as a person would write it."""
    return str(value.numerator) if value.denominator == 1 else repr(float(value))


def describe(expression: Expression, depth: int = 4) -> str:
    """Return a short form of an expression for messages."""
    match expression:
        case Column():
            return expression.name
        case Literal():
            value = expression.value
            if value is None:
                return "NULL"
            if isinstance(value, Fraction):
                return shown_number(value)
            return str(value).upper() if isinstance(value, bool) else repr(str(value)[:40])
        case Released():
            return f"{expression.source} {expression.index + 1}"
        case Call():
            inside = [describe(a, depth - 1) for a in expression.arguments[:4]] if depth > 0 else ["…"]
            sign = spelled(expression.op)
            if len(inside) == 2 and not sign[0].isalpha():
                return f"{inside[0]} {sign} {inside[1]}"
            inner = ", ".join(inside)
            more = ", …" if len(expression.arguments) > 4 else ""
            return f"{sign}({inner}{more})"


def interval(type_: Type) -> Interval:
    """Return the floats a type's range stands for."""
    return Interval.of(type_.lower, type_.upper)


def number(kind: Kind, span: Interval, *, nullable: bool, step: Fraction | None = None) -> Type:
    """Return a numeric type; a step too fine for float64 to tell apart within the range is forgotten."""
    lower, upper = span.ends
    if step is not None and max(step.numerator.bit_length(), step.denominator.bit_length()) > _STEP_BITS:
        step = None  # a step that is squared again and again would fill the memory
    if kind is Kind.INTEGER:
        lower = None if lower is None else Fraction(math.ceil(lower))
        upper = None if upper is None else Fraction(math.floor(upper))
        step = step or Fraction(1)
        if lower is not None and upper is not None and lower > upper:
            lower = upper  # no value at all: any range is true
    elif step is not None and lower is not None and upper is not None and (upper - lower) / step > _RESOLUTION:
        step = None
    return Type(kind, nullable=nullable, lower=lower, upper=upper, step=step)


def constant(value: Value) -> Literal:
    """Return a literal with its type.

    >>> constant(Fraction(3)).type.kind
    <Kind.INTEGER: 'integer'>
    """
    if value is None:
        return Literal(None, Type(Kind.INTEGER, nullable=True, values=()))
    if isinstance(value, bool):
        return Literal(value, replace(BOOLEAN, values=(value,)))
    if isinstance(value, str):
        return Literal(value, Type(Kind.TEXT, nullable=False, values=(value,)))
    if isinstance(value, Fraction):
        whole = value.denominator == 1 and -(2**63) <= value.numerator < 2**63  # the whole numbers that an engine has
        kind = Kind.INTEGER if whole else Kind.DECIMAL
        place, step = value, abs(value) or Fraction(1)
    else:
        kind = Kind.TIMESTAMP if isinstance(value, dt.datetime) else Kind.DATE
        place, step = position(value), Fraction(1)
    return Literal(value, Type(kind, nullable=False, lower=place, upper=place, step=step, values=(value,)))


def is_null(expression: Expression) -> bool:
    """Return whether this is the constant NULL, which takes any kind."""
    return isinstance(expression, Literal) and expression.value is None


def step_of(type_: Type) -> Fraction | None:
    """Return the step; the constant zero is a multiple of everything and returns 0."""
    if type_.lower is not None and type_.lower == type_.upper:
        return abs(type_.lower)
    if type_.step is None and type_.kind is Kind.INTEGER:
        return Fraction(1)
    return type_.step


def common_step(steps: Iterable[Fraction | None]) -> Fraction | None:
    """Return the greatest common divisor of steps; None if a step is unknown.

    >>> common_step([Fraction(1, 4), Fraction(1, 6)])
    Fraction(1, 12)
    """
    common = Fraction(0)
    for step in steps:
        if step is None:
            return None
        common = Fraction(
            math.gcd(common.numerator * step.denominator, step.numerator * common.denominator),
            common.denominator * step.denominator,
        )
    return common or None


def refuse(op: Op, argument: Expression, wanted: str, hint: str = "") -> QuestionError:
    """Return the error for an argument of the wrong kind."""
    got = "NULL" if is_null(argument) else f"{describe(argument)}, which is {argument.type.kind.value}"
    return QuestionError(f"{spelled(op)} needs {wanted}; got {got}.", hint)


def need_numeric(op: Op, arguments: Sequence[Expression]) -> None:
    """Refuse arguments that are not numbers."""
    for argument in arguments:
        if is_null(argument) or not argument.type.kind.numeric:
            hint = ""
            if argument.type.kind is Kind.BOOLEAN:
                hint = "Write CASE WHEN … THEN 1 ELSE 0 END."
            elif argument.type.kind is Kind.TEXT:
                hint = "CAST(… AS DOUBLE) reads text as numbers, and gives NULL where it cannot."
            raise refuse(op, argument, "numbers", hint)


_CASTS = {Kind.TEXT: "VARCHAR", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP"}


def need(op: Op, arguments: Iterable[Expression], *kinds: Kind) -> None:
    """Refuse arguments of other kinds than the given ones."""
    for argument in arguments:
        if is_null(argument) or argument.type.kind not in kinds:
            hint = f"Write CAST(… AS {_CASTS[kinds[0]]})." if kinds[0] in _CASTS and not is_null(argument) else ""
            raise refuse(op, argument, " or ".join(kind.value for kind in kinds), hint)


def literal_number(op: Op, argument: Expression, name: str) -> Fraction:
    """Return an argument that must be a constant number."""
    if isinstance(argument, Literal) and isinstance(argument.value, Fraction):
        return argument.value
    raise QuestionError(
        f"{spelled(op)} needs a constant number as its {name}; got {describe(argument)}.",
        "Write the number itself, or pass it as a parameter.",
    )


def literal_integer(op: Op, argument: Expression, name: str, lowest: int, highest: int) -> int:
    """Return an argument that must be a constant whole number within limits."""
    value = literal_number(op, argument, name)
    if value.denominator != 1 or not lowest <= value <= highest:
        raise QuestionError(
            f"{spelled(op)} needs a whole number from {lowest} to {highest} as its {name}; got {shown_number(value)}."
        )
    return value.numerator


def literal_text(op: Op, argument: Expression, name: str) -> str:
    """Return an argument that must be constant text."""
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return argument.value
    raise QuestionError(f"{spelled(op)} needs constant text as its {name}; got {describe(argument)}.")


def check_arity(op: Op, arguments: Sequence[Expression], least: int, most: int) -> None:
    """Refuse too few or too many arguments."""
    if not least <= len(arguments) <= most:
        raise QuestionError(f"{spelled(op)} takes {wanted_arguments(least, most)}; got {len(arguments)}.")


def wanted_arguments(least: int, most: int) -> str:
    """Return a number of arguments in words."""
    return "1 argument" if most == 1 else f"{least if least == most else f'{least} to {most}'} arguments"


def strict(op: Op, arguments: tuple[Expression, ...], type_: Type) -> Call:
    """Return a call that is NULL where an argument is; NULL is a key if it is one for an argument."""
    if any(argument.type.null_is_key for argument in arguments):
        type_ = replace(type_, lists_null=True)
    return Call(op, arguments, type_)
