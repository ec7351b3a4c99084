r"""Regular expressions that no text can make slow: what a pattern may hold, and what a character costs to match.

An engine with a matcher that goes back (PostgreSQL, Java) can take minutes for one chosen text. RE2 (Cox 2010, "Regular
Expression Matching in the Wild") runs an automaton instead, so time grows with the text's length alone. What a
character costs depends on the pattern, and is bounded here before anything is charged:

* A pattern is read by a grammar that is a part of RE2's, so that the engine cannot refuse it after the charge. It has
  at most `MAX_LENGTH` characters and, with counted repetitions written out, `MAX_POSITIONS` places for a character.
* RE2 makes the states of a deterministic automaton as it meets them, and keeps them. If these are few, a character
  costs a look into a table. If they are many, it gives up and follows all places at once.

So the states are counted here, by the subset construction over the pattern's position automaton (Glushkov 1961), of
the pattern and, as RE2 matches a pattern with ``$`` from the end, of its reverse. Up to `_FEW` states a character costs
`_TABLE` nanoseconds, else `_PLACES` and `_PLACE` more for each place: measured with the worst texts.

>>> cost_of("^https?://[^/]+/"), cost_of("(a|b)*a(a|b){20}c")
(50, 1280)
>>> cost_of("(a{9}){9}")
Traceback (most recent call last):
...
hush.query.errors.QuestionError: The pattern '(a{9}){9}' counts a repetition inside another. Write the inner one out.
"""

from __future__ import annotations

from functools import lru_cache

from hush.core.values import dataclass
from hush.query.errors import QuestionError
from hush.query.expressions import Call, Literal, Op
from hush.query.functions.logic import boolean
from hush.query.functions.record import Arguments, Function
from hush.query.functions.rules import constant, literal_text, need
from hush.query.types import Kind, Type

MAX_LENGTH = 500
MAX_POSITIONS = 200
FLAGS = "cis"
"""Of these letters flags are made: case counts, case does not count, a point is also the end of a line."""
_DEEPEST = 20
_FEW = 150
"""RE2 keeps 5 MB of states, each of 3 kB at most: some 1,700, in which bytes between the parts of a character count."""
_TABLE, _PLACES, _PLACE = 50, 400, 20

Ranges = tuple[tuple[int, int], ...]
_LAST = 0x10FFFF
_ANY: Ranges = ((0, _LAST),)
_DIGIT: Ranges = ((48, 57),)
_UPPER: Ranges = ((65, 90),)
_LOWER: Ranges = ((97, 122),)
_WORD: Ranges = (*_DIGIT, *_UPPER, (95, 95), *_LOWER)
_SPACE: Ranges = ((9, 10), (12, 13), (32, 32))
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_POSIX = {
    "alnum": (*_DIGIT, *_UPPER, *_LOWER),
    "alpha": (*_UPPER, *_LOWER),
    "digit": _DIGIT,
    "lower": _LOWER,
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": (*_DIGIT, (65, 70), (97, 102)),
}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_ENDS = {"A": "^", "z": "$", "b": "b", "B": "b"}


def _others(ranges: Ranges) -> Ranges:
    """Return all characters that are not in some ranges."""
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    return (*gaps, (start, _LAST)) if start <= _LAST else tuple(gaps)


def _folded(ranges: Ranges) -> Ranges:
    """Return ranges with the other case of their ASCII letters; other letters are told apart well enough without."""
    more = []
    for low, high in ranges:
        for first, last, shift in ((65, 90, 32), (97, 122, -32)):
            if low <= last and high >= first:
                more.append((max(low, first) + shift, min(high, last) + shift))
    return (*ranges, *more)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A part of a pattern: a "set", an "end", "all" or "one" of several parts, or one ``least`` to ``most`` "times"."""

    kind: str
    ranges: Ranges = ()
    parts: tuple[_Pattern, ...] = ()
    least: int = 0
    most: int | None = None


class _Reader:
    """Reads a pattern by the grammar of what is allowed."""

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
                return _Pattern("set", self._class())
            case ".":
                return _Pattern("set", _ANY)
            case "^" | "$":
                return _Pattern("end", parts=(), least="^$".index(sign))
            case "\\":
                return self._escaped()
            case "*" | "+" | "?" | "{":
                raise self._refusal(f"has a {sign!r} that repeats nothing", f"Write \\{sign} for the character.")
            case _:
                return _Pattern("set", ((ord(sign), ord(sign)),))

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
        return _Pattern("set", self._meant(sign))

    def _meant(self, sign: str) -> Ranges:
        """Return what a character means after a backslash."""
        if sign.lower() in _CLASSES:
            characters = _CLASSES[sign.lower()]
            return characters if sign.islower() else _others(characters)
        if sign in _CONTROLS or (sign.isascii() and not sign.isalnum() and sign.isprintable()):
            code = ord(_CONTROLS.get(sign, sign))
            return ((code, code),)
        raise self._refusal(
            f"has \\{sign}", "There are \\d, \\w, \\s, \\D, \\W, \\S, \\b, \\n, \\t, and \\ before a sign."
        )

    def _class(self) -> Ranges:
        inverted = self._next == "^"
        self._at += inverted
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self._next != "]":
            first = False
            if self._pattern.startswith("[:", self._at):
                name, closing, _ = self._pattern[self._at + 2 :].partition(":]")
                if not closing or name not in _POSIX:
                    raise self._refusal("has a '[:' of no known class", f"There are {', '.join(_POSIX)}.")
                ranges += _POSIX[name]
                self._at += len(name) + 4
                continue
            low = self._member()
            ranges += low
            if self._next == "-" and self._pattern[self._at + 1 : self._at + 2] not in {"]", ""}:
                self._at += 1
                high = self._member()
                single = len(low) == len(high) == 1 and low[0][0] == low[0][1] and high[0][0] == high[0][1]
                if not single or high[0][0] < low[0][0] or self._pattern[self._at - 1] == "[":
                    raise self._refusal("has a range that is none", "Write [a-z], from the lower to the upper one.")
                ranges.append((low[0][0], high[0][0]))
        self._at += 1
        return _others(tuple(ranges)) if inverted else tuple(ranges)

    def _member(self) -> Ranges:
        sign = self._take()
        if sign == "\\":
            return self._meant(self._take())
        return ((ord(sign), ord(sign)),)


def _counted(node: _Pattern) -> bool:
    """Return whether a counted repetition stands in a part."""
    counts = node.kind == "times" and (node.least > 1 or (node.most or 0) > 1)
    return counts or any(map(_counted, node.parts))


class _Positions:
    """The position automaton: which places may come first, last and after one another, as bits of integers."""

    def __init__(self, pattern: str, *, fold: bool) -> None:
        self._pattern = pattern
        self._fold = fold
        self.accepts: list[Ranges] = []
        self.follow: list[int] = []
        self.words = self.ends = False
        node = _Reader(pattern).read()
        self.anchored = _starts(node)
        _, self.first, self.last = self._made(node)

    def _made(self, node: _Pattern) -> tuple[bool, int, int]:
        """Return whether a part may be empty, and its first and last places."""
        match node.kind:
            case "set":
                return self._place(node.ranges)
            case "end":
                self.words |= node.least == 2
                self.ends |= node.least == 1
                return True, 0, 0
            case "one":
                made = [self._made(inner) for inner in node.parts]
                empty, first, last = False, 0, 0
                for can, begin, end in made:
                    empty, first, last = empty or can, first | begin, last | end
                return empty, first, last
            case "all":
                return self._after([self._made(inner) for inner in node.parts])
            case _:
                return self._times(node)

    def _place(self, ranges: Ranges) -> tuple[bool, int, int]:
        if len(self.accepts) >= MAX_POSITIONS:
            raise QuestionError(
                f"The pattern {self._pattern[:60]!r} has more than {MAX_POSITIONS} places for a character.",
                "Count fewer repetitions, or split the condition with AND or OR.",
            )
        bit = 1 << len(self.accepts)
        self.accepts.append(_folded(ranges) if self._fold else ranges)
        self.follow.append(0)
        return False, bit, bit

    def _after(self, made: list[tuple[bool, int, int]]) -> tuple[bool, int, int]:
        empty, first, last = True, 0, 0
        for can, begin, end in made:
            self._link(last, begin)
            first |= begin if empty else 0
            last = last | end if can else end
            empty = empty and can
        return empty, first, last

    def _times(self, node: _Pattern) -> tuple[bool, int, int]:
        (repeated,) = node.parts
        copies = [self._made(repeated) for _ in range(max(node.least, node.most or 0, 0 if node.most == 0 else 1))]
        if node.most is None:
            _, begin, end = copies[-1]
            self._link(end, begin)
        made = [(can or at >= node.least, begin, end) for at, (can, begin, end) in enumerate(copies)]
        return self._after(made)

    def _link(self, ends: int, begins: int) -> None:
        for at in _bits(ends):
            self.follow[at] |= begins

    def few_states(self) -> bool:
        """Return whether the deterministic automata of the pattern, and of its reverse, have few states."""
        most = _FEW // 4 if self.words else _FEW
        if not self._few(self.first, self.follow, most, anchored=self.anchored):
            return False
        if not self.ends:
            return True
        before = [0] * len(self.follow)
        for at, after in enumerate(self.follow):
            for other in _bits(after):
                before[other] |= 1 << at
        return self._few(self.last, before, most, anchored=True)

    def _few(self, first: int, follow: list[int], most: int, *, anchored: bool) -> bool:
        edges = sorted({edge for ranges in self.accepts for low, high in ranges for edge in (low, high + 1)})
        letters = {0: None}
        for edge in edges:
            accepting = 0
            for at, ranges in enumerate(self.accepts):
                accepting |= any(low <= edge <= high for low, high in ranges) << at
            letters[accepting] = None
        start = (first, True)
        seen, waiting = {0}, [start]
        while waiting:
            state, initial = waiting.pop()
            reached = first if initial or not anchored else 0
            for at in () if initial else _bits(state):
                reached |= follow[at]
            for accepting in letters:
                after = reached & accepting
                if after not in seen:
                    seen.add(after)
                    if len(seen) > most:
                        return False
                    waiting.append((after, False))
        return True


def _bits(mask: int) -> list[int]:
    positions = []
    while mask:
        low = mask & -mask
        positions.append(low.bit_length() - 1)
        mask ^= low
    return positions


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
    automaton = _Positions(pattern, fold="i" in flags)
    return _TABLE if automaton.few_states() else _PLACES + _PLACE * len(automaton.accepts)


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
        per_character=_TABLE,
        cost=_cost,
    ),
)
