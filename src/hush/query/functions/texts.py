"""Functions of texts. Lists of values pass through them where every value is ASCII.

Beyond ASCII, engines disagree about case and blanks, so a list derived here might miss what an engine computes.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from hush.query.errors import QuestionError
from hush.query.expressions import Op
from hush.query.functions.logic import boolean
from hush.query.functions.record import ANY_NUMBER, ONE, Arguments, Function, Reading
from hush.query.functions.rules import literal_integer, literal_text, need, number
from hush.query.ranges import INFINITY, Interval
from hush.query.types import Kind, Type

_MADE = 3
"""Nanoseconds per character of a text that is copied."""
_LONGEST = 2**31 - 1
_SIMPLE: dict[Op, Callable[[str], str]] = {
    Op.LOWER: str.lower,
    Op.UPPER: str.upper,
    Op.TRIM: lambda text: text.strip(" "),
    Op.LTRIM: lambda text: text.lstrip(" "),
    Op.RTRIM: lambda text: text.rstrip(" "),
}
"""From one text to another, without more to say."""


def _mapped(type_: Type, function: Callable[[str], str], *, nullable: bool | None = None) -> Type:
    values = None
    texts = [value for value in type_.values or () if isinstance(value, str) and value.isascii()]
    if type_.values is not None and len(texts) == len(type_.values):
        values = tuple(dict.fromkeys(function(text) for text in texts))
    return Type(Kind.TEXT, type_.nullable if nullable is None else nullable, values=values)


def _simple(op: Op, arguments: Arguments) -> Type:
    """LOWER, UPPER, TRIM, LTRIM and RTRIM (of blanks)."""
    need(op, arguments, Kind.TEXT)
    return _mapped(arguments[0].type, _SIMPLE[op])


def _length(op: Op, arguments: Arguments) -> Type:
    """LENGTH in characters."""
    need(op, arguments, Kind.TEXT)
    type_ = arguments[0].type
    span = Interval(Fraction(0), INFINITY)
    if type_.values:
        sizes = [Fraction(len(value)) for value in type_.values if isinstance(value, str)]
        # combining marks: an engine may count graphemes, which are never more than code points
        span = Interval(min(sizes) if all(str(v).isascii() for v in type_.values) else Fraction(0), max(sizes))
    return number(Kind.INTEGER, span, nullable=type_.nullable)


def _bytes(op: Op, arguments: Arguments) -> Type:
    """STRLEN in bytes of UTF-8."""
    need(op, arguments, Kind.TEXT)
    type_ = arguments[0].type
    sizes = [Fraction(len(value.encode())) for value in type_.values or () if isinstance(value, str)]
    span = Interval(min(sizes), max(sizes)) if sizes else Interval(Fraction(0), INFINITY)
    return number(Kind.INTEGER, span, nullable=type_.nullable)


def _position(op: Op, arguments: Arguments) -> Type:
    """STRPOS(x, text): from 0 to the length of x; an empty text begins at 1, also in an empty one."""
    need(op, arguments, Kind.TEXT)
    sizes = [Fraction(len(value)) for value in arguments[0].type.values or () if isinstance(value, str)]
    span = Interval(Fraction(0), max(*sizes, Fraction(1)) if sizes else INFINITY)
    return number(Kind.INTEGER, span, nullable=any(argument.type.nullable for argument in arguments))


def _split(op: Op, arguments: Arguments) -> Type:
    """SPLIT_PART(x, separator, number)."""
    need(op, arguments[:2], Kind.TEXT)
    separator = literal_text(op, arguments[1], "separator")
    place = literal_integer(op, arguments[2], "number of the part", 1, 1000)
    if not separator:
        raise QuestionError("SPLIT_PART needs a separator that is not empty.", "Write SPLIT_PART(x, ',', 1).")

    def split(text: str) -> str:
        parts = text.split(separator)
        return parts[place - 1] if place <= len(parts) else ""

    return _mapped(arguments[0].type, split)


def _substring(op: Op, arguments: Arguments) -> Type:
    """SUBSTRING(x, start, length), counted from 1."""
    need(op, arguments[:1], Kind.TEXT)
    start = literal_integer(op, arguments[1], "start", 1, _LONGEST)
    size = literal_integer(op, arguments[2], "length", 0, _LONGEST)
    return _mapped(arguments[0].type, lambda text: text[start - 1 : start - 1 + size])


def _end(op: Op, arguments: Arguments) -> Type:
    """LEFT and RIGHT."""
    need(op, arguments[:1], Kind.TEXT)
    size = literal_integer(op, arguments[1], "length", 0, _LONGEST)
    cut: Callable[[str], str] = (lambda t: t[:size]) if op is Op.LEFT else (lambda t: t[len(t) - min(size, len(t)) :])
    return _mapped(arguments[0].type, cut)


def _concat(op: Op, arguments: Arguments) -> Type:
    """CONCAT: NULL if any part is."""
    need(op, arguments, Kind.TEXT)
    nullable = any(argument.type.nullable for argument in arguments)
    varying = [
        argument.type for argument in arguments if argument.type.values is None or len(argument.type.values) != 1
    ]
    if not varying:
        return Type(Kind.TEXT, nullable, values=("".join(str((a.type.values or ("",))[0]) for a in arguments),))
    if len(varying) > 1 or varying[0].values is None:
        return Type(Kind.TEXT, nullable)
    at = next(i for i, argument in enumerate(arguments) if argument.type is varying[0])
    before = "".join(str((a.type.values or ("",))[0]) for a in arguments[:at])
    after = "".join(str((a.type.values or ("",))[0]) for a in arguments[at + 1 :])
    if not all(isinstance(value, str) for value in varying[0].values):
        return Type(Kind.TEXT, nullable)
    return Type(Kind.TEXT, nullable, values=tuple(f"{before}{value}{after}" for value in varying[0].values))


def _replaced(op: Op, arguments: Arguments) -> Type:
    """REPLACE(x, from, to): ``to`` is not longer than ``from``, so that no row can make the text explode."""
    need(op, arguments, Kind.TEXT)
    old, new = literal_text(op, arguments[1], "text to replace"), literal_text(op, arguments[2], "replacement")
    if not old or len(new.encode()) > len(old.encode()):
        raise QuestionError(
            "REPLACE needs a text to replace that is not empty, and a replacement that is not longer.",
            "Name the cases: CASE WHEN x = 'a' THEN 'longer' ELSE x END.",
        )
    return _mapped(arguments[0].type, lambda text: text.replace(old, new))


def _holds(op: Op, arguments: Arguments) -> Type:
    """STARTS_WITH, ENDS_WITH and CONTAINS."""
    need(op, arguments, Kind.TEXT)
    return boolean(arguments)


_SIGNED = ("negative_length_returns_empty",)
TEXTS = (
    Function(
        op=Op.LOWER, rule=_simple, arity=(1, 1), names=("LOWER",), reads=(Reading("Lower", ONE),), per_character=20
    ),
    Function(
        op=Op.UPPER, rule=_simple, arity=(1, 1), names=("UPPER",), reads=(Reading("Upper", ONE),), per_character=20
    ),
    *(
        Function(op=op, rule=_simple, arity=(1, 1), names=(op.value,), per_character=8)
        for op in (Op.TRIM, Op.LTRIM, Op.RTRIM)
    ),
    Function(
        op=Op.LENGTH, rule=_length, arity=(1, 1), names=("LENGTH",), reads=(Reading("Length", ONE),), per_character=2
    ),
    Function(op=Op.SUBSTRING, rule=_substring, arity=(3, 3), names=("SUBSTRING",), per_character=_MADE),
    Function(op=Op.CONCAT, rule=_concat, arity=(1, ANY_NUMBER), names=("CONCAT",)),
    *(
        Function(
            op=op,
            rule=_end,
            arity=(2, 2),
            names=(op.value,),
            reads=(Reading(op.value.capitalize(), ignored=_SIGNED),),
            per_character=_MADE,
        )
        for op in (Op.LEFT, Op.RIGHT)
    ),
    Function(op=Op.REPLACE, rule=_replaced, arity=(3, 3), names=("REPLACE",), per_character=16, searches=True),
    Function(
        op=Op.STARTS_WITH,
        rule=_holds,
        arity=(2, 2),
        names=("STARTS_WITH", "PREFIX"),
        reads=(Reading("StartsWith"),),
        per_character=1,
    ),
    Function(
        op=Op.ENDS_WITH,
        rule=_holds,
        arity=(2, 2),
        names=("ENDS_WITH", "SUFFIX"),
        reads=(Reading("EndsWith"),),
        per_character=1,
    ),
    Function(
        op=Op.POSITION,
        rule=_position,
        arity=(2, 2),
        names=("STRPOS", "INSTR", "POSITION"),
        reads=(Reading("StrPosition", slots=("this", "substr")),),
        per_character=8,
        searches=True,
    ),
    Function(op=Op.STRLEN, rule=_bytes, arity=(1, 1), names=("STRLEN",), per_character=1),
    Function(
        op=Op.SPLIT_PART,
        rule=_split,
        arity=(3, 3),
        names=("SPLIT_PART",),
        reads=(Reading("SplitPart", slots=("this", "delimiter", "part_index")),),
        per_character=24,
        searches=True,
    ),
    Function(
        op=Op.CONTAINS,
        rule=_holds,
        arity=(2, 2),
        names=("CONTAINS",),
        reads=(Reading("Contains"),),
        per_character=8,
        searches=True,
    ),
)
