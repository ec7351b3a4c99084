"""Texts, dates and times as SQL: lengths are bounded, and a text that spells no date is NULL.

**How long texts can be, and what functions of them cost.** Every text is cut where it is read
(`hush.engines.sql.forcing.force`) and where parts are joined, so that each has a length that no row exceeds
(`Value.most`, in characters). A function of texts then costs so many nanoseconds for a character at most, measured with
the worst characters on the slowest engine that is allowed; where it looks for another text, more for the length of
that. None makes a text longer than its arguments together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

from hush.engines.sql.nodes import MADE, TRUE, Scalar, call, case, integer, null, primitive, text
from hush.engines.sql.values import MAX_TEXT, SQL_TYPES, TIMES, SqlType, Value, as_text, number_at, within_calendar
from hush.query.errors import UnplannableError
from hush.query.expressions import Call, Literal, Op
from hush.query.functions import FUNCTIONS
from hush.query.functions.dates import UNITS
from hush.query.functions.logic import without_escapes

_SECONDS = 2**39
"""More seconds than there are between the years 1 and 9999."""
_SPELLED = 400
"""Nanoseconds to write a date out and read it again."""
_OF_DAY = (Op.HOUR, Op.MINUTE, Op.SECOND)


Computation = Callable[[Call, list[Value]], Value]
COMPUTED: dict[Op, Computation] = {}
"""Functions with more SQL than a call by name: from a call and the values of its arguments to its value."""


def computes(*operations: Op) -> Callable[[Computation], Computation]:
    """Return a decorator for the function that computes some operations."""

    def noted(computation: Computation) -> Computation:
        COMPUTED.update(dict.fromkeys(operations, computation))
        return computation

    return noted


def engine_name(expression: Call) -> str:
    """Return the engine's name of a function, which is the first of those by which questions call it."""
    return FUNCTIONS[expression.op].names[0].lower()


@computes(Op.LENGTH)
def _length(_: Call, arguments: list[Value]) -> Value:
    return Value(call("length", as_text(arguments[0])), SqlType.INTEGER, within=(0, 2**32))


@computes(Op.SUBSTRING)
def _substring(expression: Call, arguments: list[Value]) -> Value:
    start, size = (_small(number_at(expression, position)) for position in (1, 2))
    return Value(primitive("substring", as_text(arguments[0]), start=start, size=max(0, size)), SqlType.TEXT)


def _small(value: Fraction) -> int:
    # no text is so long that a place beyond 32 bits would find more in it
    return max(-(2**31) + 1, min(2**31 - 1, int(value)))


@computes(Op.LEFT, Op.RIGHT)
def _side(expression: Call, arguments: list[Value]) -> Value:
    size = max(0, _small(number_at(expression, 1)))
    return Value(call(engine_name(expression), as_text(arguments[0]), integer(size)), SqlType.TEXT)


@computes(Op.CONCAT)
def _concat(_: Call, arguments: list[Value]) -> Value:
    """Text joined by ||, NULL if a part is NULL; cut wherever it may be too long, before the next part comes."""

    def cut(value: Scalar, length: int) -> tuple[Scalar, int]:
        if length <= MAX_TEXT:
            return value, length
        # the text is written once: in a chain it would double with every part
        return call("left", value, integer(MAX_TEXT)).costing(MADE * MAX_TEXT), MAX_TEXT

    # a constant may have any length
    (result, length), *further = (cut(as_text(argument), argument.chars) for argument in arguments)
    for next_text, more in further:
        result, length = cut(result.operation("||", next_text), length + more)
    return Value(result, SqlType.TEXT)


@computes(Op.STARTS_WITH, Op.CONTAINS)
def _holds(expression: Call, arguments: list[Value]) -> Value:
    start = expression.arguments[1]
    if isinstance(start, Literal) and start.value == "":
        # DuckDB 2.0 takes starts_with(CASE … END, '') in WHERE to be true of more than what is not NULL
        return Value(case((as_text(arguments[0]).not_null(), TRUE)), SqlType.BOOLEAN)
    return Value(call(engine_name(expression), *map(as_text, arguments)), SqlType.BOOLEAN)


def moment(value: Value) -> Value:
    """Return a date or timestamp; of a text, the one it spells, of anything else NULL."""
    if value.form in TIMES:
        return value
    inside = value.finite().sql.try_cast("TIMESTAMP", "VARCHAR") if value.form is SqlType.TEXT else null("TIMESTAMP")
    return Value(case((within_calendar(inside), inside)), SqlType.TIMESTAMP)


@computes(Op.YEAR, Op.QUARTER, Op.MONTH, Op.DAY, Op.DAY_OF_WEEK, Op.WEEK, Op.DAY_OF_YEAR, *_OF_DAY)
def _part(expression: Call, arguments: list[Value]) -> Value:
    value = moment(arguments[0])
    if expression.op in _OF_DAY:
        # a date has no time of day: as a timestamp it is midnight
        value = value.to(SqlType.TIMESTAMP)
    return Value(call(engine_name(expression), value.sql), SqlType.INTEGER, within=(0, 9999))


@computes(Op.TRUNCATE_DATE)
def _truncate(expression: Call, arguments: list[Value]) -> Value:
    unit = expression.arguments[0]
    if not (isinstance(unit, Literal) and unit.value in {"year", "quarter", "month", "week", "day"}):
        raise UnplannableError("dates are truncated to 'year', 'quarter', 'month', 'week' or 'day'")
    value, form = moment(arguments[1]), SQL_TYPES[expression.type.kind]
    start = primitive("date_trunc", value.sql, unit=str(unit.value), form=value.form.value)
    form = form if form in TIMES else value.form
    return Value(start.try_cast(form.value, "TIMESTAMP"), form)


@computes(Op.TRUNCATE_TIME)
def _truncate_time(expression: Call, arguments: list[Value]) -> Value:
    sql, unit = moment(arguments[1]).to(SqlType.TIMESTAMP).sql, _written_out(expression, 0)
    return Value(primitive("date_trunc", sql, unit=unit, form="TIMESTAMP"), SqlType.TIMESTAMP)


@computes(Op.MAKE_DATE)
def _make_date(_: Call, arguments: list[Value]) -> Value:
    """Return the date that a text of three numbers spells, if they are of a year, a month and a day at all."""
    parts = [argument.finite().to(SqlType.INTEGER).sql for argument in arguments]
    limits = zip(parts, ((1, 9999), (1, 12), (1, 31)), strict=True)
    inside = [number.between(integer(low), integer(high)) for number, (low, high) in limits]
    year, month, day = (number.try_cast("VARCHAR", "BIGINT") for number in parts)
    spelled = year
    for part in (text("-"), month, text("-"), day):
        spelled = spelled.operation("||", part)
    possible = (inside[0] & inside[1]) & inside[2]
    return Value(case((possible, spelled.try_cast("DATE", "VARCHAR"))).costing(_SPELLED), SqlType.DATE)


@computes(Op.STRFTIME)
def _format(expression: Call, arguments: list[Value]) -> Value:
    pattern = _written_out(expression, 1)
    return Value(primitive("formatted", moment(arguments[0]).sql, pattern=pattern), SqlType.TEXT)


def _written_out(expression: Call, position: int) -> str:
    """Return the text that an argument is, which the question writes out."""
    argument = expression.arguments[position]
    assert isinstance(argument, Literal)  # noqa: S101 - the function's typing rule has looked
    return str(argument.value)


@computes(Op.STRPTIME)
def _parse(_: Call, arguments: list[Value]) -> Value:
    # NULL where the text does not follow the pattern, and cut to the calendar as every timestamp is
    read = call("try_strptime", *map(as_text, arguments))
    return Value(case((within_calendar(read), read)), SqlType.TIMESTAMP)


@computes(Op.DATE_DIFF)
def _difference(expression: Call, arguments: list[Value]) -> Value:
    unit = expression.arguments[0]
    if not (isinstance(unit, Literal) and unit.value in UNITS):
        raise UnplannableError(f"between dates are counted {', '.join(UNITS)}")
    # days and longer units are counted between dates, whatever the time of day
    form = SqlType.TIMESTAMP if unit.value in {"hour", "minute", "second"} else SqlType.DATE
    first, second = (value.to(form).sql for value in map(moment, arguments[1:]))
    return Value(
        primitive("date_diff", first, second, unit=str(unit.value)), SqlType.INTEGER, within=(-_SECONDS, _SECONDS)
    )


@computes(Op.ADD_INTERVAL)
def _moved(expression: Call, arguments: list[Value]) -> Value:
    """Return a moment moved by an interval, NULL outside the calendar; no step comes near the engine's limits."""
    start = moment(arguments[0])
    months, days, microseconds = (int(number_at(expression, position)) for position in (1, 2, 3))
    result = start.to(SqlType.TIMESTAMP).sql
    result = primitive("moved", result, months=months, days=days, microseconds=microseconds)
    return Value(case((within_calendar(result), result)), SqlType.TIMESTAMP)


@computes(Op.REGEXP_MATCHES)
def regular(expression: Call, arguments: list[Value]) -> Value:
    """Return whether a part of a text matches a regular expression; its cost was bounded by the parser."""
    pattern, flags = (argument.value for argument in expression.arguments[1:] if isinstance(argument, Literal))
    options = [pattern, flags] if flags else [pattern]
    return Value(call("regexp_matches", as_text(arguments[0]), *(text(str(word)) for word in options)), SqlType.BOOLEAN)


@computes(Op.LIKE)
def like(expression: Call, arguments: list[Value]) -> Value:
    """Return LIKE, by a matcher that is linear."""
    pattern, *escape = (argument.value for argument in expression.arguments[1:] if isinstance(argument, Literal))
    if not isinstance(pattern, str):
        raise UnplannableError("LIKE needs a pattern that is written out")
    characters = without_escapes(pattern.replace("\0", ""), str(escape[0]) if escape else "")
    if characters is None:
        raise UnplannableError("a pattern of LIKE ends with its ESCAPE character")
    return Value(primitive("like", as_text(arguments[0]), characters=tuple(characters)), SqlType.BOOLEAN)


_READING = 600
"""Nanoseconds to read a text as another type, besides the cost of its characters."""
_NEEDLE = 8
"""Each further multiple of this length of a needle costs a nanosecond for each character of the text."""


def weighed(expression: Call, arguments: list[Value], value: Value) -> Value:
    """Return the value of a call with the cost of its texts, and the length of a text."""
    texts = [argument.chars for argument in arguments if argument.form is SqlType.TEXT]
    if not texts:  # what makes a text of something else makes a short one
        return replace(value, most=None) if value.form is SqlType.TEXT else value
    record = FUNCTIONS[expression.op]
    rate = record.per_character
    if expression.op is Op.CONCAT:
        # every || writes all that came before it once more
        work = MADE * sum([min(length, MAX_TEXT) for length in accumulate(texts)])
    elif record.cost is not None:
        work = texts[0] * record.cost(expression)
    elif rate is None:
        work = len(texts) * _READING + MADE * sum(texts)
    elif record.searches:
        work = texts[0] * (rate + sum(texts[1:]) // _NEEDLE)
    else:
        work = rate * sum(texts)
    value = replace(value, sql=value.sql.costing(work))
    if value.form is not SqlType.TEXT:
        return value
    match expression.op:
        case Op.CONCAT:
            # numbers and dates are written out before they are joined
            other_parts = len(expression.arguments) - len(texts)
            longest = min(MAX_TEXT, sum(texts) + other_parts * Value.SHORT)
        case Op.SUBSTRING | Op.LEFT | Op.RIGHT | Op.REPLACE:
            size, longest = expression.arguments[-1], texts[0]
            if isinstance(size, Literal) and isinstance(size.value, Fraction | int) and size.value >= 0:
                longest = min(longest, int(size.value))
        case _:
            longest = min(MAX_TEXT, record.lengthens * max(texts))
    return replace(value, most=longest)
