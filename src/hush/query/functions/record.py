"""The record of a function: syntax, types, evaluation and cost; and helpers of typing rules.

A `Function` says how an `Op` is written in a question, how its arguments are checked and its type derived, how NumPy
computes it over noisy answers, and what it costs. The front end, the typing, the evaluation and the engines all read
this table, so a new function is one name in `Op`, one record, and its SQL where that is not ``NAME(arguments)``.

A `Rewrite` is a function that is only another way to write others: its meaning, its range, its cost and its totality
are those of the text that it stands for.

NumPy sees released values as arrays: numbers and booleans as float64 with NaN for NULL, others as objects with None for
NULL. Whole numbers beyond 2⁵³ are objects too. Arrays may carry a leading axis of simulated answers.

>>> as_array([1, None], Kind.INTEGER), as_array(["a", None], Kind.TEXT)
(array([ 1., nan]), array(['a', None], dtype=object))
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Op, Released
from hush.query.types import Interval, Kind, Type, Value, position

Array = npt.NDArray[Any]
Arguments = tuple[Expression, ...]
Rule = Callable[[Op, Arguments], Type]
"""Checks the arguments and returns the type: the kind, the range and the step, and whether NULL may occur."""
Evaluation = Callable[[Call, list[Array]], Array]
"""Computes a call over arrays; NaN or None stands for NULL."""

ANY_NUMBER = 1000
"""The limit of arguments for functions with any number of arguments."""
ONE = ("this",)
"""The slot of a sqlglot node for the argument of a function with one argument."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A class of sqlglot's nodes that calls a function with the node's own arguments, in order."""

    node: str
    """The name of the class, for instance "Left"; this layer does not import the parser."""
    slots: tuple[str, ...] = ("this", "expression")
    """The node's arguments; those that are not set are left out. One that starts with * holds a list."""
    ignored: tuple[str, ...] = ()
    """Arguments that only say how other databases differ."""


@dataclass(frozen=True, slots=True)
class Function:
    """One total function of a row's values."""

    op: Op
    rule: Rule
    arity: tuple[int, int]
    """The least and the largest number of arguments."""
    names: tuple[str, ...] = ()
    """Its names in ``NAME(…)``; engines use the first one unless they define their own SQL."""
    reads: tuple[Reading, ...] = ()
    """Classes of nodes that are plain calls to this function."""
    _: KW_ONLY
    fields: tuple[str, ...] = ()
    """Names of the part of a date that it takes, in EXTRACT and DATE_PART."""
    types: tuple[str, ...] = ()
    """Names of SQL's types to which it casts."""
    prepare: Callable[[Op, Arguments], Arguments] | None = None
    """Brings the arguments to one kind before the rule sees them."""
    chooses: bool = False
    """Whether its value is one of the arguments; then its rule decides about NULL itself."""
    evaluate: Evaluation | None = None
    """How NumPy computes it over noisy numbers; None for a function of texts or dates."""
    by_engine: bool = False
    """Whether its meaning is the engine's also over noisy numbers, although NumPy has one."""
    rising: bool = False
    """Whether it never falls in the arguments that need not be constants: it maps the ends of intervals to ends."""
    per_character: int | None = None
    """Nanoseconds per character of its texts, at most, on the slowest engine; None if it reads texts as something."""
    cost: Callable[[Call], int] | None = None
    """The cost per character where it depends on constants of the call."""
    lengthens: int = 1
    """An upper bound on the length of its result, as a multiple of its longest text argument."""
    searches: bool = False
    """Whether it searches its first text for the others, so that longer ones cost more."""


class Rewrite(NamedTuple):
    """A function that is an abbreviation of an expression over others."""

    names: tuple[str, ...]
    parameters: tuple[str, ...]
    """The names of its arguments in the text."""
    text: str
    """The expression, in SQL."""
    node: str = ""
    """sqlglot's class for it, if it has one."""
    slots: tuple[str, ...] = ("this", "expression")
    """Which of the node's arguments the parameters are."""


_FLOATS = 2**53


def as_array(values: Sequence[Any], kind: Kind) -> Array:
    """Return released values as an array."""
    if kind.numeric or kind is Kind.BOOLEAN:
        try:
            return np.array(values, dtype=np.float64)
        except OverflowError:
            return np.array([as_float(value) for value in values], dtype=np.float64)
    array = np.empty(len(values), dtype=object)
    array[:] = list(values)
    return array


def key_array(values: Sequence[Any], kind: Kind) -> Array:
    """Return the values of a key as an array; integers too large for float64 stay Python integers."""
    array = as_array(values, kind)
    if kind is Kind.INTEGER and bool((np.abs(array) >= _FLOATS).any()):
        return np.array([None if value is None else int(value) for value in values], dtype=object)
    return array


def as_float(value: Any) -> float:
    """Return a value as float64, NaN for NULL."""
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def floats(array: Array) -> Array:
    """Return numbers as float64."""
    return array if array.dtype == np.float64 else as_array(list(array.ravel()), Kind.DECIMAL).reshape(array.shape)


def nulls(array: Array) -> Array:
    """Return where an array is NULL."""
    if array.dtype == np.float64:
        return np.asarray(np.isnan(array))
    return np.array([value is None for value in array.ravel()], dtype=bool).reshape(array.shape)


def objects(array: Array) -> Array:
    """Return an array as objects, None for NULL."""
    if array.dtype != np.float64:
        return array
    result = array.astype(object)
    result[np.isnan(array)] = None
    return result


def of_floats(function: Callable[..., Any]) -> Evaluation:
    """Return the evaluation of a function of float64 arrays, in which NaN gives NaN."""
    return lambda _, arguments: np.asarray(function(*map(floats, arguments)), dtype=np.float64)


def unknown(expression: Call, arguments: list[Array]) -> Array:
    """Return NULLs for a function that only an engine computes, where truths are simulated."""
    shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
    return np.full(shape, np.nan) if expression.type.kind.numeric else np.full(shape, None, dtype=object)


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


NUMERIC = (Kind.INTEGER, Kind.DECIMAL)
_CASTS = {Kind.TEXT: "VARCHAR", Kind.DATE: "DATE", Kind.TIMESTAMP: "TIMESTAMP"}
_AS_NUMBERS = {
    Kind.BOOLEAN: "Write CASE WHEN … THEN 1 ELSE 0 END.",
    Kind.TEXT: "CAST(… AS DOUBLE) reads text as numbers, and gives NULL where it cannot.",
}


def need(op: Op, arguments: Iterable[Expression], *kinds: Kind) -> list[Type]:
    """Return the types of arguments; refuse those of other kinds than the given ones."""
    types = []
    for argument in arguments:
        kind = argument.type.kind
        types.append(argument.type)
        if kind in kinds and not is_null(argument):
            continue
        if kinds == NUMERIC:
            raise refuse(op, argument, "numbers", _AS_NUMBERS.get(kind, ""))
        hint = f"Write CAST(… AS {_CASTS[kinds[0]]})." if kinds[0] in _CASTS and not is_null(argument) else ""
        raise refuse(op, argument, " or ".join(kind.value for kind in kinds), hint)
    return types


def of_kinds(op: Op, argument: Expression, kinds: set[Kind]) -> Type:
    """Return the type of an argument; refuse one of another kind."""
    if argument.type.kind not in kinds:
        raise refuse(op, argument, " or ".join(sorted(kind.value for kind in kinds)))
    return argument.type


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


def wanted_arguments(least: int, most: int) -> str:
    """Return a number of arguments in words."""
    return "1 argument" if most == 1 else f"{least if least == most else f'{least} to {most}'} arguments"


def strict(op: Op, arguments: tuple[Expression, ...], type_: Type) -> Call:
    """Return a call that is NULL where an argument is; NULL is a key if it is one for an argument."""
    if any(argument.type.null_is_key for argument in arguments):
        type_ = replace(type_, lists_null=True)
    return Call(op, arguments, type_)
