r"""Functions of texts, and regular expressions with bounded time.

Lists of values pass through them where every value is ASCII.

Beyond ASCII, engines disagree about case and blanks, so a list derived here might miss what an engine computes.

**Regular expressions.** An engine with a matcher that goes back (PostgreSQL, Java) can take minutes for one chosen
text. RE2 (Cox 2010, "Regular Expression Matching in the Wild") runs an automaton instead, so time grows with the text's
length alone. What a character costs depends on the pattern, and is bounded here before anything is charged:

* A pattern is read by a grammar that is a part of RE2's, so that the engine cannot refuse it after the charge. It has
  at most `MAX_LENGTH` characters and, with counted repetitions written out, `MAX_POSITIONS` places for a character.
* RE2 makes the states of a deterministic automaton as it meets them. Few of them are a table: `_TABLE` nanoseconds for
  a character. If they become many, RE2 gives up and follows all places at once: `_PLACES` nanoseconds for a character,
  and `_PLACE` more for each place. Both were measured with the worst texts.

How many states there are is bounded, not counted. A state is a set of places, beside the start: at most 2ᵖ⁺¹ for p
places. A text that stands for itself has p + 2 (Knuth, Morris, Pratt 1977). The borders of words make four of each.

>>> cost_of("^[0-9]+$"), cost_of("https://example"), cost_of("^https?://[^/]+/"), cost_of("(a|b)*a(a|b){20}c")
(50, 50, 600, 1280)
>>> cost_of("(a{9}){9}")
Traceback (most recent call last):
...
hush.query.errors.QuestionError: The pattern '(a{9}){9}' counts a repetition inside another. Write the inner one out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Literal, Op
from hush.query.functions.logic import boolean
from hush.query.functions.record import (
    ANY_NUMBER,
    ONE,
    Arguments,
    Function,
    Reading,
    constant,
    literal_integer,
    literal_text,
    need,
    number,
)
from hush.query.types import INFINITY, Interval, Kind, Type

_MADE = 3  # nanoseconds per character of a text that is copied
_LONGEST = 2**31 - 1
_LISTED = 10_000
"""The longest text that a list of values has, in characters; engines cut longer ones that they make."""
_LENGTH = ("length", 0, _LONGEST)
_PARTS: dict[Op, tuple[tuple[tuple[str, int, int], ...], Callable[..., str]]] = {
    Op.LOWER: ((), str.lower),
    Op.UPPER: ((), str.upper),
    Op.TRIM: ((), lambda text: text.strip(" ")),
    Op.LTRIM: ((), lambda text: text.lstrip(" ")),
    Op.RTRIM: ((), lambda text: text.rstrip(" ")),
    Op.LEFT: ((_LENGTH,), lambda text, size: text[:size]),
    Op.RIGHT: ((_LENGTH,), lambda text, size: text[max(len(text) - size, 0) :]),
    Op.SUBSTRING: ((("start", 1, _LONGEST), _LENGTH), lambda text, start, size: text[start - 1 : start - 1 + size]),
}
"""From a text and constant numbers to a text: the name and limits of each number, and the function."""


def _mapped(type_: Type, function: Callable[[str], str]) -> Type:
    values = None
    texts = [value for value in type_.values or () if isinstance(value, str) and value.isascii()]
    if type_.values is not None and len(texts) == len(type_.values):
        values = tuple(dict.fromkeys(function(text) for text in texts))
    return Type(Kind.TEXT, type_.nullable, values=values)


def _part(op: Op, arguments: Arguments) -> Type:
    """LOWER, UPPER, TRIM, LTRIM and RTRIM (of blanks), LEFT, RIGHT, and SUBSTRING, which counts from 1."""
    need(op, arguments[:1], Kind.TEXT)
    limits, function = _PARTS[op]
    numbers = [literal_integer(op, number, *limit) for number, limit in zip(arguments[1:], limits, strict=True)]
    return _mapped(arguments[0].type, lambda text: function(text, *numbers))


def _length(op: Op, arguments: Arguments) -> Type:
    """LENGTH in characters, STRLEN in bytes of UTF-8."""
    (type_,) = need(op, arguments, Kind.TEXT)
    texts = [value for value in type_.values or () if isinstance(value, str)]
    span = Interval(Fraction(0), INFINITY)
    if texts:
        sizes = [Fraction(len(text if op is Op.LENGTH else text.encode())) for text in texts]
        # combining marks: an engine may count graphemes, which are never more than code points
        least = min(sizes) if op is Op.STRLEN or all(text.isascii() for text in texts) else Fraction(0)
        span = Interval(least, max(sizes))
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


def _concat(op: Op, arguments: Arguments) -> Type:
    """CONCAT: NULL if any part is."""
    types = need(op, arguments, Kind.TEXT)
    lists = [type_.values for type_ in types if type_.values is not None]
    values = None
    # the texts of one list, where of all other parts there is one value
    if len(lists) == len(types) and sum(len(listed) != 1 for listed in lists) <= 1:
        texts = ["".join(map(str, parts)) for parts in product(*lists)]
        if all(len(text) <= _LISTED for text in texts):  # from step to step they would grow without end
            values = tuple(texts)
    return Type(Kind.TEXT, any(type_.nullable for type_ in types), values=values)


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


def _to_text(_op: Op, arguments: Arguments) -> Type:
    type_ = arguments[0].type
    return Type(Kind.TEXT, type_.nullable, values=type_.values if type_.kind is Kind.TEXT else None)


MAX_LENGTH = 500
MAX_POSITIONS = 200
FLAGS = "cis"
"""The allowed flags: case-sensitive, case-insensitive, and '.' matches the end of a line."""
_DEEPEST = 20
_TABLE, _PLACES, _PLACE = 50, 400, 20
_FEW_STATES = 150
"""RE2 keeps 5 MB of states, each of 3 kB at most: some 1,700, in which bytes between the parts of a character count."""
_OPERATORS = frozenset("\\.*+?{}()|[]")
_POSIX = {"alnum", "alpha", "digit", "lower", "punct", "space", "upper", "word", "xdigit"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_ESCAPED = r"\\[dwsDWSntrfv -/:-@\[-`{-~]"
"""A class of characters, a control character, or a sign that stands for itself."""
_TOKEN = re.compile(
    r"(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<bar>\|)"
    # "?" behind a repetition asks for as few as possible: whether there is a match does not depend on it
    r"|(?P<repeat>[*+?]|\{(?P<least>[0-9]{1,4})(?P<more>,(?P<most>[0-9]{0,4}))?\})\??"
    r"|(?P<end>[\^$]|\\[AzbB])"
    # a ']' at the beginning is a character of the class
    rf"|(?P<place>\[\^?+\]?+(?:\[:[a-z]+:\]|{_ESCAPED}|[^\\\]])*\]|{_ESCAPED}|[^\[\\{{])",
    re.DOTALL,
)
_MEMBER = re.compile(r"(?P<posix>\[:)(?:(?P<name>[a-z]+):\])?|(?P<low>\\?.)(?:-(?P<high>\\?.))?", re.DOTALL)
"""A part of a character class: a class by name, a character, or a range."""
_REPEATED = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _Part(NamedTuple):
    """A part of a pattern."""

    places: int = 0  # how many places for a character it has, with counted repetitions written out
    starts: bool = False  # whether it holds at the beginning of a text alone
    stops: bool = False
    counted: bool = False  # whether a counted repetition stands in it
    fixed: bool = False  # whether it cannot be repeated: the end of a text or a word, or a repetition


def _joined(parts: list[_Part], *, starts: bool, stops: bool) -> _Part:
    return _Part(sum(part.places for part in parts), starts, stops, any(part.counted for part in parts))


def _refusal(pattern: str, what: str, hint: str) -> QuestionError:
    return QuestionError(f"The pattern {pattern[:60]!r} {what}.", hint)


def _read(pattern: str, at: int = 0, depth: int = 0) -> tuple[_Part, int]:
    """Return the whole pattern, or the part from a place up to the end of its parentheses, and where that ends."""
    if depth > _DEEPEST:
        raise _refusal(pattern, f"is nested more than {_DEEPEST} deep", "Split the condition with AND or OR.")
    alternatives: list[list[_Part]] = [[]]
    closed = False
    while at < len(pattern) and not closed:
        token, parts = _TOKEN.match(pattern, at), alternatives[-1]
        if token is None:
            raise _refusal(
                pattern,
                f"cannot be read from {pattern[at : at + 20]!r} on",
                "Close its brackets, count as in a{3}, a{3,} or a{3,5}, and write \\ before a sign that stands for "
                "itself; of classes there are \\d, \\w, \\s, \\D, \\W and \\S.",
            )
        sign, at = token[0], token.end()
        match token.lastgroup:
            case "open":
                part, at = _read(pattern, at, depth + 1)
                parts.append(part)
            case "close":
                closed = True
            case "bar":
                alternatives.append([])
            case "repeat":
                if not parts or parts[-1].fixed:
                    hint = f"Write \\{sign[0]} for the character, or put what is repeated into (?:…)."
                    raise _refusal(pattern, f"has a {sign[0]!r} that repeats nothing", hint)
                parts.append(_repeated(pattern, parts.pop(), token))
            case "end":
                parts.append(_Part(starts=sign in {"^", "\\A"}, stops=sign in {"$", "\\z"}, fixed=True))
            case _:
                if len(sign) > 1 and sign[0] == "[":
                    _check_class(pattern, sign[1:-1].removeprefix("^"))
                parts.append(_Part(places=1))
    if closed is not (depth > 0):
        raise _refusal(pattern, "has parentheses that do not match", "Write \\( and \\) for the characters.")
    sequences = [
        _joined(parts, starts=bool(parts) and parts[0].starts, stops=bool(parts) and parts[-1].stops)
        for parts in alternatives
    ]
    starts, stops = all(part.starts for part in sequences), all(part.stops for part in sequences)
    return _joined(sequences, starts=starts, stops=stops), at


def _repeated(pattern: str, part: _Part, token: re.Match[str]) -> _Part:
    """Return a part that is repeated: n to m times by ``{n,m}``."""
    if token["least"] is None:
        least, most = _REPEATED[token["repeat"]]
    else:
        least = int(token["least"])
        most = int(token["most"]) if token["most"] else None if token["more"] else least
        if max(least, most or 0) > MAX_POSITIONS or (most is not None and most < least):
            raise _refusal(
                pattern, f"repeats {token['repeat']}", f"Count from the lower number up to {MAX_POSITIONS} at most."
            )
        if part.counted:
            raise _refusal(pattern, "counts a repetition inside another", "Write the inner one out.")
    copies = max(least, 1 if most is None else most)
    return _Part(copies * part.places, counted=part.counted or least > 1 or (most or 0) > 1, fixed=True)


def _check_class(pattern: str, members: str) -> None:
    """Refuse a character class with a range that is none, or with a class of no known name."""
    for member in _MEMBER.finditer(members):
        if member["posix"] and member["name"] not in _POSIX:
            raise _refusal(pattern, "has a '[:' of no known class", f"There are {', '.join(sorted(_POSIX))}.")
        if member["high"]:
            low, high = _character(member["low"]), _character(member["high"])
            if not low or not high or high < low or high == "[":
                raise _refusal(pattern, "has a range that is none", "Write [a-z], from the lower to the upper one.")


def _character(member: str) -> str:
    """Return the character that is written in a class; nothing for a class of characters."""
    if member[0] != "\\":
        return member
    return "" if member[1].lower() in "dws" else _CONTROLS.get(member[1], member[1])


def whole(pattern: str) -> bool:
    """Return whether a pattern itself says that it is about a whole text: ``^a+$``."""
    part, _ = _read(flags_of(pattern)[0])
    return part.starts and part.stops


def flags_of(pattern: str, flags: str = "") -> tuple[str, str]:
    """Return a pattern without ``(?i)`` at its beginning, and flags with it."""
    if pattern.startswith("(?") and (end := pattern.find(")")) > 2 and set(pattern[2:end]) <= set("is"):
        return pattern[end + 1 :], flags + pattern[2:end]
    return pattern, flags


@lru_cache(maxsize=1000)
def cost_of(pattern: str, flags: str = "") -> int:
    """Return how many nanoseconds a character costs at most; refuse a pattern that is none, or too large."""
    if len(pattern) > MAX_LENGTH or "\0" in pattern:
        raise QuestionError(f"A pattern has at most {MAX_LENGTH} characters; got {len(pattern)}.")
    if not set(flags) <= set(FLAGS):
        raise QuestionError(f"The flags of a pattern are 'i', 's' and 'c'; got {flags[:40]!r}.", "Leave others out.")
    places = _read(pattern)[0].places
    if places > MAX_POSITIONS:
        raise QuestionError(
            f"The pattern {pattern[:60]!r} has more than {MAX_POSITIONS} places for a character.",
            "Count fewer repetitions, or split the condition with AND or OR.",
        )
    states = places + 2 if _OPERATORS.isdisjoint(pattern) else 2 ** (places + 1)
    if "\\b" in pattern or "\\B" in pattern:
        states *= 4
    return _TABLE if states <= _FEW_STATES else _PLACES + _PLACE * places


def _rule(op: Op, arguments: Arguments) -> Type:
    """Whether a text holds a match of a constant pattern."""
    need(op, arguments, Kind.TEXT)
    cost_of(*(literal_text(op, argument, "pattern") for argument in arguments[1:]))
    return boolean(arguments)


def _prepared(op: Op, arguments: Arguments) -> Arguments:
    """Return the text, the pattern without the flags at its beginning, and all flags."""
    pattern, flags, *_ = [*(literal_text(op, argument, "pattern") for argument in arguments[1:]), ""]
    if "c" in flags and "i" in flags:
        raise QuestionError("The flags 'c' and 'i' of a pattern contradict each other.", "Write one of them.")
    pattern, flags = flags_of(pattern, flags.replace("c", ""))
    return (arguments[0], constant(pattern), constant("".join(sorted(set(flags)))))


def _cost(expression: Call) -> int:
    pattern, flags = (str(argument.value) for argument in expression.arguments[1:] if isinstance(argument, Literal))
    return cost_of(pattern, flags)


_SIGNED = ("negative_length_returns_empty",)
TEXTS = (
    Function(Op.LOWER, _part, (1, 1), ("LOWER",), (Reading("Lower", ONE),), per_character=20),
    Function(Op.UPPER, _part, (1, 1), ("UPPER",), (Reading("Upper", ONE),), per_character=20),
    *(Function(op, _part, (1, 1), (op.value,), per_character=8) for op in (Op.TRIM, Op.LTRIM, Op.RTRIM)),
    Function(Op.LENGTH, _length, (1, 1), ("LENGTH",), (Reading("Length", ONE),), per_character=2),
    Function(Op.STRLEN, _length, (1, 1), ("STRLEN",), per_character=1),
    Function(Op.SUBSTRING, _part, (3, 3), ("SUBSTRING",), per_character=_MADE),
    Function(Op.CONCAT, _concat, (1, ANY_NUMBER), ("CONCAT",)),
    Function(Op.LEFT, _part, (2, 2), ("LEFT",), (Reading("Left", ignored=_SIGNED),), per_character=_MADE),
    Function(Op.RIGHT, _part, (2, 2), ("RIGHT",), (Reading("Right", ignored=_SIGNED),), per_character=_MADE),
    Function(Op.REPLACE, _replaced, (3, 3), ("REPLACE",), per_character=16, searches=True),
    Function(Op.STARTS_WITH, _holds, (2, 2), ("STARTS_WITH", "PREFIX"), (Reading("StartsWith"),), per_character=1),
    Function(Op.ENDS_WITH, _holds, (2, 2), ("ENDS_WITH", "SUFFIX"), (Reading("EndsWith"),), per_character=1),
    Function(Op.CONTAINS, _holds, (2, 2), ("CONTAINS",), (Reading("Contains"),), per_character=8, searches=True),
    Function(
        Op.POSITION,
        _position,
        (2, 2),
        ("STRPOS", "INSTR", "POSITION"),
        (Reading("StrPosition", ("this", "substr")),),
        per_character=8,
        searches=True,
    ),
    Function(
        Op.SPLIT_PART,
        _split,
        (3, 3),
        ("SPLIT_PART",),
        (Reading("SplitPart", ("this", "delimiter", "part_index")),),
        per_character=24,
        searches=True,
    ),
    Function(
        Op.REGEXP_MATCHES,
        _rule,
        (2, 3),
        ("REGEXP_MATCHES", "REGEXP_LIKE", "REGEXP_CONTAINS"),
        prepare=_prepared,
        cost=_cost,
    ),
    Function(Op.TO_TEXT, _to_text, (1, 1), types=("VARCHAR", "TEXT"), per_character=0),
)
