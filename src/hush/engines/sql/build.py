"""Small constructors for SQL, in the words of the dialect in force (`hush.engines.sql.dialect`).

Every piece of SQL that hush runs is made by these: names are always quoted, constants are escaped, and there is no
function here that takes SQL as plain text. A piece is text already, of a type of its own (`Sql`), so that what was not
made here is not taken for one. Whole queries are in `hush.engines.sql.queries`. Where engines spell things differently
(arithmetic, hashes, texts, dates and times), a piece is one primitive of the dialect, which says what it must mean.

**Work.** A piece knows what it costs to evaluate for one row, in nanoseconds and rather too many: its own cost and that
of all pieces in it, each as often as it is written there. So does a query, whatever is nested in it, for each stored
row. That is what bounds the time that one unit's rows can take (`hush.engines.work`), before the charge and without a
look at any row.

Expressions can double with every step, so no piece may be longer than `MOST`.

>>> quotient = wide_quotient(column("s"), column("n"))
>>> quotient, quotient.work
('("s" // "n")', 3)
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Literal, Self

from hush.engines.sql.dialect import Dialect, Span, dialect
from hush.query.errors import UnplannableError

MOST = 500_000
"""A question with longer SQL than this many characters is refused; the length depends on the question alone."""


OPERATION = 3
"""Nanoseconds for an operator, a comparison, a branch or a plain function."""
CALLS = {
    "ln": 25, "exp": 25, "pow": 60, "sqrt": 10, "round": 20, "hash": 20,
    "date_diff": 80, "date_trunc": 80, "year": 30, "quarter": 30, "month": 30, "day": 30, "dayofweek": 30, "hour": 30,
    "week": 60, "dayofyear": 30, "minute": 30, "second": 30, "try_strptime": 800, "strftime": 800,
    "to_months": 60, "to_days": 30, "to_microseconds": 30, "epoch_us": 10,
}  # fmt: skip
_CAST, _LISTED, _LIST, _DISTINCT, _WINDOW = 15, 4, 60, 100, 250
"""Nanoseconds for a cast, a value of a list, a row from a list, a value that is told apart, and a row of a window."""
MADE = 3
"""Nanoseconds, at least, for each character of a text that is made: it is also held in memory, with other rows'."""


class Sql(str):
    """A piece of SQL."""

    __slots__ = ("rows", "work")
    work: int
    """Nanoseconds that it takes to evaluate for one row; of something to select from, for one stored row."""
    rows: int
    """How many rows something to select from makes of a stored row."""

    def __new__(cls, text: str, work: int = 0) -> Self:
        """Take a text that one of this module's functions wrote."""
        if len(text) > MOST:
            raise UnplannableError("the question is too large; split it or simplify its expressions")
        made = str.__new__(cls, text)
        made.work, made.rows = work, 1
        return made


def whole(text: str, work: int = 0, rows: int = 1) -> Sql:
    """Return a query or a part of one, of any length."""
    made = str.__new__(Sql, text)
    made.work, made.rows = work, rows
    return made


def work_of(parts: Iterable[Sql | None]) -> int:
    """Return what several pieces cost."""
    return sum(part.work for part in parts if part is not None)


def costing(value: Sql, work: int) -> Sql:
    """Return a piece that costs so much more: what it does with texts depends on their length."""
    return value if not work or isinstance(value, Named) else whole(value, value.work + work)


class Named(Sql):
    """A piece of SQL that is known by a name: value AS name."""

    label: str

    @staticmethod
    def of(text: str, label: str, work: int = 0) -> Named:
        """Return a text and its name."""
        made = Named(text, work)
        made.label = label
        return made


class ColumnName(Named):
    """A column, known by its own name."""


NULL, TRUE, FALSE = Sql("NULL"), Sql("TRUE"), Sql("FALSE")
EVERYTHING = Named.of("*", "*")


def name(text: str) -> Sql:
    """Return a quoted identifier."""
    return _name(dialect(), text)


@lru_cache(maxsize=4096)
def _name(words: Dialect, text: str) -> Sql:
    return Sql(words.quoted(text))


def column(text: str, table: str | None = None) -> ColumnName:
    """Return a quoted column."""
    return _column(dialect(), text, table)


@lru_cache(maxsize=4096)
def _column(words: Dialect, text: str, table: str | None) -> ColumnName:
    made = ColumnName(_name(words, text) if table is None else f"{_name(words, table)}.{_name(words, text)}")
    made.label = text
    return made


def everything_of(table: str) -> Sql:
    """Return all columns of a table."""
    return Sql(f"{name(table)}.*")


def call(function: str, *arguments: Sql) -> Sql:
    """Return a call of one of the engine's functions; ``function`` is a name in this package's own source."""
    own = CALLS.get(function, OPERATION)
    return Sql(dialect().call(function, arguments), own + work_of(arguments))


def cast(value: Sql, to: str, of: str | None = None) -> Sql:
    """Return a cast that the caller has shown to succeed; ``of`` is what it is cast from, where that matters."""
    return Sql(dialect().cast(value, to, of), value.work + OPERATION)


def try_cast(value: Sql, to: str, of: str | None = None) -> Sql:
    """Return a cast that gives NULL where it fails. Say what is cast ``of``: some engines need to know."""
    return Sql(dialect().try_cast(value, to, of), value.work + _CAST)


def integer(value: int) -> Sql:
    """Return an integer constant; beyond 64 bits it must be cast by name, from text that is all digits."""
    return cast(text(str(value)), "HUGEINT") if abs(value) >= 2**63 else Sql(str(value))


def double(value: Fraction | int) -> Sql:
    """Return the nearest float64 as a constant; the exponent makes the engine read it as DOUBLE."""
    return _double(dialect(), value)


@lru_cache(maxsize=4096)
def _double(words: Dialect, value: Fraction | int) -> Sql:
    try:
        number = value.numerator / value.denominator
    except OverflowError:
        return Sql(words.double("inf" if value > 0 else "-inf"), OPERATION)
    return Sql(words.double(repr(number) if "e" in repr(number) else f"{number!r}e0"))


def text(value: str) -> Sql:
    """Return a text constant; NUL characters, which engines refuse, are dropped."""
    return Sql(dialect().text(value.replace("\0", "")))


def boolean(value: bool) -> Sql:
    """Return TRUE or FALSE."""
    return TRUE if value else FALSE


def date(value: dt.date) -> Sql:
    """Return a date constant."""
    return cast(text(value.isoformat()), "DATE")


def timestamp(value: dt.datetime) -> Sql:
    """Return a timestamp constant."""
    return cast(text(value.replace(tzinfo=None).isoformat(sep=" ")), "TIMESTAMP")


def null(of: str) -> Sql:
    """Return a NULL of a type."""
    return cast(NULL, of)


def parameter(number: int) -> Sql:
    """Return a value that is handed over when the statement runs."""
    return Sql(dialect().parameter(number))


def array(values: Sequence[Sql]) -> Sql:
    """Return a list of values."""
    return Sql(dialect().array(values))


def case(*pairs: tuple[Sql, Sql], otherwise: Sql | None = None) -> Sql:
    """Return CASE WHEN … THEN … ELSE … END."""
    parts = [f"WHEN {condition} THEN {value}" for condition, value in pairs]
    if otherwise is not None:
        parts.append(f"ELSE {otherwise}")
    work = sum(condition.work + value.work + OPERATION for condition, value in pairs)
    return Sql(f"CASE {' '.join(parts)} END", work + (0 if otherwise is None else otherwise.work))


def between(value: Sql, low: Sql, high: Sql) -> Sql:
    """Return value BETWEEN low AND high."""
    return Sql(f"{value} BETWEEN {low} AND {high}", 2 * OPERATION + value.work + low.work + high.work)


def one_of(value: Sql, values: Sequence[Sql]) -> Sql:
    """Return value IN (values), FALSE if there are none."""
    if not values:
        return FALSE
    return Sql(f"({value} IN ({', '.join(values)}))", value.work + _LISTED * len(values) + work_of(values))


def clamped(value: Sql, low: Sql | None, high: Sql | None) -> Sql:
    """Return the value moved into [low, high]; NULL stays NULL, and NaN, which sorts above all, becomes high.

    With both ends, values inside come first: an engine that finds a whole batch there evaluates nothing more.
    """
    pairs: list[tuple[Sql, Sql]] = []
    inside = None if low is None or high is None else between(value, low, high)
    if inside is not None:
        pairs.append((inside, value))
    if low is not None:
        pairs.append((binary("<", value, low), low))
    if high is not None:
        pairs.append((binary(">", value, high), high))
    return case(*pairs, otherwise=None if inside is not None else value) if pairs else value


Operator = Literal["+", "-", "*", "/", "//", "%", "||", "=", "<>", "<", "<=", ">", ">=", "AND", "OR"]


def binary(operator: Operator, left: Sql, right: Sql) -> Sql:
    """Return a binary operation, in parentheses; of floats `float_operation` does arithmetic."""
    work = OPERATION + left.work + right.work
    if operator == "//":
        return Sql(dialect().quotient(left, right), work)
    if operator == "%":
        return Sql(dialect().remainder(left, right), work)
    return Sql(f"({left} {operator} {right})", work)


def negative(value: Sql) -> Sql:
    """Return -value, in parentheses."""
    return Sql(f"(-({value}))", OPERATION + value.work)


def negated(value: Sql) -> Sql:
    """Return NOT value, in parentheses."""
    return Sql(f"(NOT ({value}))", OPERATION + value.work)


def matches(left: Sql, right: Sql, form: str) -> Sql:
    """Return whether two values of a type are equal, or both NULL."""
    return Sql(dialect().matches(left, right, form), OPERATION + left.work + right.work)


def both(conditions: Sequence[Sql]) -> Sql:
    """Return the conjunction, TRUE if there is nothing to join."""
    if not conditions:
        return TRUE
    result = conditions[0]
    for condition in conditions[1:]:
        result = binary("AND", result, condition)
    return result


def is_null(value: Sql) -> Sql:
    """Return value IS NULL."""
    return Sql(f"({value} IS NULL)", OPERATION + value.work)


def not_null(value: Sql) -> Sql:
    """Return value IS NOT NULL."""
    return Sql(f"({value} IS NOT NULL)", OPERATION + value.work)


def alias(value: Sql, as_: str) -> Named:
    """Return value AS name."""
    if isinstance(value, ColumnName) and value.label == as_:
        return value
    return Named.of(f"{value} AS {name(as_)}", as_, value.work)


def distinct(value: Sql) -> Sql:
    """Return what an aggregate takes that looks at every value once."""
    return Sql(f"DISTINCT {value}", _DISTINCT + value.work)


def count(condition: Sql | None = None) -> Sql:
    """Return COUNT(*), or how often a condition holds."""
    if condition is None:
        return Sql("COUNT(*)", OPERATION)
    return Sql(dialect().count_if(condition), OPERATION + condition.work)


def summed(value: Sql, *, wide: bool = False, narrow: bool = False) -> Sql:
    """Return the exact SUM of whole numbers of 64 bits, or of ``wide`` ones; NULL over nothing.

    A ``narrow`` sum is proved to fit 64 bits, and is BIGINT where that is quicker.
    """
    return Sql(dialect().total(value, wide=wide, narrow=narrow), OPERATION + value.work)


def total(value: Sql, *, wide: bool = False, narrow: bool = False) -> Sql:
    """Return the exact SUM of whole numbers, 0 over nothing."""
    return call("coalesce", summed(value, wide=wide, narrow=narrow), integer(0))


class Directed(Sql):
    """What to order by, and in which direction."""


def directed(value: Sql, *, descending: bool, nulls_first: bool) -> Directed:
    """Return what to order by, in a direction."""
    way = "DESC" if descending else "ASC"
    return Directed(f"{value} {way} NULLS {'FIRST' if nulls_first else 'LAST'}", value.work)


PEERS = "RANGE BETWEEN CURRENT ROW AND CURRENT ROW"
"""The rows alone that the order does not part."""


def window(function: str, partition: Sequence[Sql], order: Sequence[Sql] = (), *arguments: Sql, frame: str = "") -> Sql:
    """Return function(…) OVER (PARTITION BY … ORDER BY …), over all rows up to the current one or over a frame."""
    parts = []
    if partition:
        parts.append(f"PARTITION BY {', '.join(partition)}")
    if order:
        ways = (item if isinstance(item, Directed) else dialect().ascending(item) for item in order)
        parts.append(f"ORDER BY {', '.join(ways)}")
    parts += [frame] if frame else []
    work = _WINDOW + work_of((*partition, *order, *arguments))
    return Sql(f"{call(function, *arguments)} OVER ({' '.join(parts)})", work)


def row_number() -> Sql:
    """Return a number that tells the rows of a SELECT apart, in any order."""
    return Sql(dialect().row_number(), _WINDOW)


def constant_rows(rows: Sequence[Sequence[Sql]], label: str, columns: Sequence[str]) -> Sql:
    """Return rows that are written out, to select from under a name."""
    return Sql(dialect().constant_rows(rows, label, columns))


def apart(value: Sql) -> Sql:
    """Return a value that is computed once and then has a column of its own.

    Engines replace a column in a condition by the expression that it names, as often as the condition names it. They
    cannot do so across the making of rows from a list, here of one value.
    """
    return Sql(dialect().apart(value), value.work + _LIST)


def byte_length(value: Sql) -> Sql:
    """Return how many bytes a text has."""
    return Sql(dialect().byte_length(value), OPERATION + value.work)


def shortened(value: Sql, most: int) -> Sql:
    """Return a text's first characters; one without that many bytes is not looked at.

    >>> shortened(column("t", "s"), 100)
    'CASE WHEN (STRLEN("s"."t") <= 100) THEN "s"."t" ELSE LEFT("s"."t", 100) END'
    """
    left = call("left", value, integer(most))
    return costing(case((binary("<=", byte_length(value), integer(most)), value), otherwise=left), MADE * most)


# numbers, where engines differ


def wide_quotient(left: Sql, right: Sql) -> Sql:
    """Return a truncated quotient of HUGEINT."""
    return Sql(dialect().quotient(left, right, wide=True), OPERATION + left.work + right.work)


FloatOperator = Literal["+", "-", "*", "/", "%"]


def float_operation(operator: FloatOperator, left: Sql, right: Sql, *spans: Span | None) -> Sql:
    """Return arithmetic of floats whose magnitudes lie in the spans, in every row, if anything is known of them."""
    return Sql(dialect().float_operation(operator, left, right, spans), OPERATION + left.work + right.work)


def power(base: Sql, exponent: Sql, number: Fraction | None = None) -> Sql:
    """Return a power of finite floats; ``number`` is the exponent, if it is written out."""
    return Sql(dialect().power(base, exponent, number), CALLS["pow"] + base.work + exponent.work)


def logarithm(base: Sql, value: Sql) -> Sql:
    """Return a logarithm of a positive float."""
    return Sql(dialect().logarithm(base, value), OPERATION + base.work + value.work)


def finite(value: Sql) -> Sql:
    """Return whether a float is neither NaN nor infinite."""
    return Sql(dialect().finite(value), OPERATION + value.work)


def nan(value: Sql) -> Sql:
    """Return whether a float is NaN."""
    return Sql(dialect().nan(value), OPERATION + value.work)


def rounded(value: Sql, digits: int | None = None) -> Sql:
    """Return a float rounded to whole numbers, or to digits after the point; ties go away from zero."""
    return Sql(dialect().rounded(value, digits), CALLS["round"] + value.work)


def scaled_to(value: Sql, inverse: Sql | None, step: Sql | None, most: Fraction | None) -> Sql:
    """Return a float divided by a step, or times its inverse, and rounded; none is larger than ``most``, if known."""
    own = CALLS["round"] + (0 if inverse is None and step is None else OPERATION)
    return Sql(dialect().scaled(value, inverse, step, most), own + value.work)


def row_hash(values: Sequence[Sql], salt: int) -> Sql:
    """Return a keyed hash of a row's values."""
    return Sql(dialect().row_hash(values, integer(salt)), CALLS["hash"] + work_of(values))


def unit_number(key: str, unit: Sql) -> Sql:
    """Return a number of 64 bits that a unit has wherever it is read with the same key."""
    return Sql(dialect().unit_number(text(key), unit), 3 * OPERATION + unit.work)


def weighted_down(total_: Sql, rows: int, many: Sql, *, floor: bool, narrow: bool = False) -> Sql:
    """Return total · rows / many, truncated; of a sum that is never positive, rounded down."""
    work = (3 + 2 * floor) * OPERATION + total_.work + (1 + floor) * many.work
    return Sql(dialect().weighted_down(total_, integer(rows), many, floor=floor, narrow=narrow), work)


# texts, dates and times, where engines differ


def substring(value: Sql, start: int, size: int) -> Sql:
    """Return characters of a text from a place on."""
    return Sql(dialect().substring(value, start, size), OPERATION + value.work)


def like(value: Sql, pattern: Sql) -> Sql:
    """Return whether a text matches a pattern, without an escape character."""
    return Sql(dialect().like(value, pattern), OPERATION + value.work + pattern.work)


def regular_match(value: Sql, pattern: str, flags: str) -> Sql:
    """Return whether a part of a text matches a regular expression."""
    return Sql(dialect().regular_match(value, pattern, flags), OPERATION + value.work)


def like_escaped(value: Sql, characters: Sequence[tuple[str, bool]], expression: str) -> Sql:
    """Return LIKE for a pattern whose characters stand for themselves or not; ``expression`` is its regular one."""
    return Sql(dialect().like_escaped(value, characters, expression), OPERATION + value.work)


def days(value: Sql) -> Sql:
    """Return a date as days since 1970."""
    return Sql(dialect().days(value), CALLS["date_diff"] + OPERATION + value.work)


def microseconds(value: Sql) -> Sql:
    """Return a timestamp as microseconds since 1970."""
    return Sql(dialect().microseconds(value), CALLS["epoch_us"] + value.work)


def date_part(part: str, value: Sql) -> Sql:
    """Return a part of a date."""
    return Sql(dialect().date_part(part, value), CALLS[part] + value.work)


def date_trunc(unit: str, value: Sql, form: str) -> Sql:
    """Return the start of the unit that a date or timestamp, as ``form`` says, lies in."""
    return Sql(dialect().date_trunc(unit, value, form), CALLS["date_trunc"] + value.work)


def date_diff(unit: str, first: Sql, second: Sql) -> Sql:
    """Return how many borders of a unit lie between two dates or timestamps."""
    return Sql(dialect().date_diff(unit, first, second), CALLS["date_diff"] + first.work + second.work)


_MOVES = {"months": "to_months", "days": "to_days", "microseconds": "to_microseconds"}


def moved(value: Sql, **sizes: int) -> Sql:
    """Return a timestamp moved by months, days and microseconds."""
    work = sum(CALLS[_MOVES[unit]] + OPERATION for unit, size in sizes.items() if size)
    whole = {unit: sizes.get(unit, 0) for unit in _MOVES}
    return Sql(dialect().moved(value, **whole), work + value.work)
