r"""Regular expressions with bounded time: the allowed grammar of patterns, and the cost per character.

An engine with a matcher that goes back (PostgreSQL, Java) can take minutes for one chosen text. RE2 (Cox 2010, "Regular
Expression Matching in the Wild") runs an automaton instead, so time grows with the text's length alone. What a
character costs depends on the pattern, and is bounded here before anything is charged:

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

from dataclasses import dataclass
from functools import lru_cache

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Literal, Op
from hush.query.functions.logic import boolean
from hush.query.functions.record import Arguments, Function
from hush.query.functions.rules import constant, literal_text, need
from hush.query.types import Kind, Type

MAX_LENGTH = 500
MAX_POSITIONS = 200
FLAGS = "cis"
"""The allowed flags: case-sensitive, case-insensitive, and '.' matches the end of a line."""
_DEEPEST = 20
_TABLE, _PLACES, _PLACE = 50, 400, 20
_FEW_STATES = 150
"""RE2 keeps 5 MB of states, each of 3 kB at most: some 1,700, in which bytes between the parts of a character count."""
_OPERATORS = frozenset("\\.*+?{}()|[]")
_CLASSES = "dws"
_POSIX = ("alnum", "alpha", "digit", "lower", "punct", "space", "upper", "word", "xdigit")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_ENDS = {"A": "^", "z": "$", "b": "b", "B": "b"}


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A part of a pattern: a "set", an "end", "all" or "one" of several parts, or one ``least`` to ``most`` "times"."""

    kind: str
    parts: tuple[_Pattern, ...] = ()
    least: int = 0
    most: int | None = None

    @property
    def places(self) -> int:
        """How many places for a character it has, with counted repetitions written out."""
        if self.kind == "set":
            return 1
        copies = max(self.least, 1 if self.most is None else self.most) if self.kind == "times" else 1
        return copies * sum(part.places for part in self.parts)


_SET = _Pattern("set")


class _Reader:
    """A recursive-descent parser for the allowed patterns."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0

    def read(self) -> _Pattern:
        """Return the whole pattern."""
        pattern = self._alternatives()
        if self._at < len(self._pattern):
            raise self._refusal("has a ')' too many", "Write \\) for the character.")
        return pattern

    def _refusal(self, what: str, hint: str) -> QuestionError:
        return QuestionError(f"The pattern {self._pattern[:60]!r} {what}.", hint)

    @property
    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        sign = self._next
        if not sign:
            raise self._refusal("ends in the middle", "Close its brackets, and write \\\\ for a backslash.")
        self._at += 1
        return sign

    def _alternatives(self) -> _Pattern:
        parts = [self._sequence()]
        while self._next == "|":
            self._at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else _Pattern("one", parts=tuple(parts))

    def _sequence(self) -> _Pattern:
        parts: list[_Pattern] = []
        while self._next and self._next not in "|)":
            parts.append(self._repeated(self._atom()))
        return _Pattern("all", parts=tuple(parts))

    def _repeated(self, part: _Pattern) -> _Pattern:
        sign = self._next
        if not sign or sign not in "*+?{":
            return part
        if part.kind == "end":
            raise self._refusal("repeats the end of a text or word", f"Leave {sign} out.")
        self._at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._counts()
        if self._next == "?":  # as few as possible: whether there is a match does not depend on it
            self._at += 1
        if self._next and self._next in "*+?{":
            raise self._refusal("repeats a repetition", "Put the inner one into parentheses.")
        if sign == "{" and _counted(part):
            raise self._refusal("counts a repetition inside another", "Write the inner one out.")
        return _Pattern("times", parts=(part,), least=least, most=most)

    def _counts(self) -> tuple[int, int | None]:
        """Return n and m of ``{n}``, ``{n,}`` and ``{n,m}``."""
        text, _, rest = self._pattern[self._at :].partition("}")
        numbers = text.split(",")
        if not rest and not self._pattern.endswith("}"):
            numbers = []
        plain = all(number.isascii() and number.isdecimal() and len(number) <= 4 for number in numbers[:1])
        plain = plain and all(not one or (one.isascii() and one.isdecimal() and len(one) <= 4) for one in numbers[1:])
        if not plain or not 1 <= len(numbers) <= 2:
            raise self._refusal(
                "has a '{' that counts nothing", "Write a{3}, a{3,} or a{3,5}, or \\{ for the character."
            )
        least = int(numbers[0])
        most = least if len(numbers) == 1 else int(numbers[1]) if numbers[1] else None
        if max(least, most or 0) > MAX_POSITIONS or (most is not None and most < least):
            raise self._refusal(f"repeats {{{text}}}", f"Count from the lower number up to {MAX_POSITIONS} at most.")
        self._at += len(text) + 1
        return least, most

    def _atom(self) -> _Pattern:
        sign = self._take()
        match sign:
            case "(":
                return self._group()
            case "[":
                self._class()
                return _SET
            case "^" | "$":
                return _Pattern("end", parts=(), least="^$".index(sign))
            case "\\":
                return self._escaped()
            case "*" | "+" | "?" | "{":
                raise self._refusal(f"has a {sign!r} that repeats nothing", f"Write \\{sign} for the character.")
            case _:
                return _SET

    def _group(self) -> _Pattern:
        if self._next == "?":
            if self._pattern[self._at : self._at + 2] != "?:":
                raise self._refusal(
                    "has a group that starts with (?", "Of these there is (?:…), and (?i) at the very beginning."
                )
            self._at += 2
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._refusal(f"is nested more than {_DEEPEST} deep", "Split the condition with AND or OR.")
        pattern = self._alternatives()
        if self._take() != ")":
            raise self._refusal("has a '(' without its ')'", "Write \\( for the character.")
        self._depth -= 1
        return pattern

    def _escaped(self) -> _Pattern:
        sign = self._take()
        if sign in _ENDS:
            return _Pattern("end", least="^$b".index(_ENDS[sign]))
        self._meant(sign)
        return _SET

    def _meant(self, sign: str) -> str:
        """Return the character of an escape sequence; empty for a class of characters."""
        if sign.lower() in _CLASSES:
            return ""
        if sign in _CONTROLS or (sign.isascii() and not sign.isalnum() and sign.isprintable()):
            return _CONTROLS.get(sign, sign)
        raise self._refusal(
            f"has \\{sign}", "There are \\d, \\w, \\s, \\D, \\W, \\S, \\b, \\n, \\t, and \\ before a sign."
        )

    def _class(self) -> None:
        """Read a character class in brackets."""
        self._at += self._next == "^"
        # a ']' at the beginning is a character of the class
        first = True
        while first or self._next != "]":
            first = False
            if self._pattern.startswith("[:", self._at):
                name, closing, _ = self._pattern[self._at + 2 :].partition(":]")
                if not closing or name not in _POSIX:
                    raise self._refusal("has a '[:' of no known class", f"There are {', '.join(_POSIX)}.")
                self._at += len(name) + 4
                continue
            low = self._member()
            if self._next == "-" and self._pattern[self._at + 1 : self._at + 2] not in {"]", ""}:
                self._at += 1
                high = self._member()
                if not low or not high or high < low or self._pattern[self._at - 1] == "[":
                    raise self._refusal("has a range that is none", "Write [a-z], from the lower to the upper one.")
        self._at += 1

    def _member(self) -> str:
        sign = self._take()
        return self._meant(self._take()) if sign == "\\" else sign


def _counted(node: _Pattern) -> bool:
    """Return whether a counted repetition stands in a part."""
    counts = node.kind == "times" and (node.least > 1 or (node.most or 0) > 1)
    return counts or any(map(_counted, node.parts))


def _starts(node: _Pattern) -> bool:
    """Return whether a pattern holds at the beginning of a text alone."""
    if node.kind == "one":
        return all(map(_starts, node.parts))
    if node.kind == "all":
        return bool(node.parts) and _starts(node.parts[0])
    return node.kind == "end" and node.least == 0


def whole(pattern: str) -> bool:
    """Return whether a pattern itself says that it is about a whole text: ``^a+$``."""
    node = _Reader(flags_of(pattern)[0]).read()
    return _starts(node) and _stops(node)


def _stops(node: _Pattern) -> bool:
    if node.kind == "one":
        return all(map(_stops, node.parts))
    if node.kind == "all":
        return bool(node.parts) and _stops(node.parts[-1])
    return node.kind == "end" and node.least == 1


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
    places = _Reader(pattern).read().places
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


REGULAR = (
    Function(
        op=Op.REGEXP_MATCHES,
        rule=_rule,
        arity=(2, 3),
        names=("REGEXP_MATCHES", "REGEXP_LIKE", "REGEXP_CONTAINS"),
        prepare=_prepared,
        cost=_cost,
    ),
)
