"""How a stored column is forced into its declared type, so that no row can break the policy's promise.

A column's declared type is enforced where it is read, so that everything derived from it holds for every row there
could be. None of it can fail: casts give NULL, comparisons clamp, NaN is NULL.

    integer      BIGINT, clamped and rounded to the step; NULL beyond 64 bits where there is no bound on that side
    decimal      whole numbers beyond 2⁵³ within bounds: HUGEINT, clamped (what is stored has no digits after the point)
    decimal      other: DOUBLE, never NaN or infinite, clamped, and rounded to the step if one is declared
    text         VARCHAR, NULL outside the declared values; without such, its first characters (`MAX_TEXT` or fewer)
    boolean      BOOLEAN
    date         DATE between the years 1 and 9999, clamped
    timestamp    TIMESTAMP, likewise
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from fractions import Fraction

from hush.engines.sql.dialect import FIXED, FLOATS
from hush.engines.sql.nodes import (
    FALSE,
    MADE,
    NULL,
    Double,
    Operator,
    Scalar,
    Span,
    call,
    case,
    date,
    huge,
    integer,
    null,
    primitive,
    text,
    timestamp,
)
from hush.engines.sql.values import (
    EXACT,
    LONG,
    MAX_SCALE,
    MAX_TEXT,
    SQL_TYPES,
    WHOLE,
    WIDEST,
    SqlType,
    Value,
    constant,
    digits,
    fits_long,
    narrow,
    nearest_single,
    rounded_whole,
    scaled,
    span_of_any,
    span_of_number,
    unscaled,
    within_calendar,
)
from hush.query.types import Kind, Type

_WHOLE = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
}  # fmt: skip
"""Not UHUGEINT: compared with a signed constant, its largest values fail to convert."""
_FIRST_DAY, _LAST_DAY = dt.date(1, 1, 1), dt.date(9999, 12, 31)


def force(source: Scalar, physical: str, type_: Type, longest: int = MAX_TEXT) -> Value:
    """Return a stored column, of the engine's type ``physical``, as its declared type; of a text the first characters.

    If that has no NULL, a missing number counts as the one nearest to zero, and a missing boolean as false.
    """
    value = _forced(source, physical, type_, longest)
    missing = None if type_.nullable else _missing(type_, whole=value.form in WHOLE)
    if value.form is SqlType.DOUBLE:
        single = physical == "FLOAT" and type_.values is None and type_.step is None
        # else a bound is rounded as values are
        clean = not single or all(end is None or nearest_single(end) == end for end in (type_.lower, type_.upper))
        span: Span | None = None
        if type_.values is not None:
            span = span_of_any(*(span_of_number(value) for value in type_.values if isinstance(value, Fraction)))
        elif type_.lower is not None and type_.upper is not None:
            # the smallest float above zero; on a grid nothing but 0 is nearer to it than a step, and half of that
            # leaves room to round
            least = Fraction(1, 2**1074) if type_.step is None else type_.step / 2
            span = span_of_any((least, least), span_of_number(type_.lower), span_of_number(type_.upper))
        value = replace(value, scale=_scale(physical, type_), single=single, clean=clean, span=span)
    return value if missing is None else replace(value, sql=call("coalesce", value.sql, missing))


def _scale(physical: str, type_: Type) -> int | None:
    """Return the digits of a column that stands for a DECIMAL: stored as one, or as text with a declared step."""
    stored = FIXED.fullmatch(physical)
    ends = [type_.lower, type_.upper, type_.step]
    if stored is not None:
        declared = digits(*ends)
        # a bound may have more digits than what is stored, and a clamped value is that bound
        return None if declared is None or int(stored[2]) > MAX_SCALE else max(int(stored[2]), declared)
    return digits(*ends) if physical == "VARCHAR" and type_.step is not None else None


def _missing(type_: Type, *, whole: bool) -> Scalar | None:
    """Return the replacement for NULL in a type without it; None if the type has no default."""
    if type_.kind is Kind.BOOLEAN:
        return FALSE
    if not type_.kind.numeric or type_.lower is None or type_.upper is None:
        return None
    if type_.values is not None:
        # of two that are equally near the negative one, whatever the order of the list
        nearest = min((value for value in type_.values if isinstance(value, Fraction)), key=lambda x: (abs(x), x))
    elif type_.step is None:
        nearest = min(max(Fraction(0), type_.lower), type_.upper)
        if whole:  # away from zero: a bound that is not whole must not be left behind
            nearest = Fraction(math.ceil(nearest) if nearest > 0 else math.floor(nearest))
    elif type_.kind is Kind.DECIMAL and not whole:
        # computed as stored values are, so that it is the same float as theirs, and no negative zero
        return unscaled(Double(_nearest(type_, type_.step)), type_.step) + Double(0)
    else:
        nearest = _nearest(type_, type_.step) * type_.step
    return integer(int(nearest)) if whole else Double(nearest)


def _nearest(type_: Type, step: Fraction) -> int:
    """Return the index of the point of the grid within the bounds that is nearest to zero."""
    assert type_.lower is not None  # noqa: S101 - the caller looked
    assert type_.upper is not None  # noqa: S101
    return int(min(max(0, -((-type_.lower) // step)), type_.upper // step))


def _forced(source: Scalar, physical: str, type_: Type, longest: int) -> Value:
    match type_.kind:
        case Kind.INTEGER | Kind.DECIMAL if type_.values is not None:
            return _force_listed(source, physical, type_)
        case Kind.INTEGER:
            return _force_integer(source, physical, type_)
        # tried first: as floats, some whole numbers beyond 2⁵³ would become one
        case Kind.DECIMAL if (wide := _force_wide(source, physical, type_)) is not None:
            return wide
        case Kind.DECIMAL:
            if type_.step is None:
                number = _force_line(source, physical, type_.lower, type_.upper)
            else:
                low, high = _grid_ends(type_, type_.step)
                number = _rounded(_force_line(source, physical, low, high), type_.step, low, high)
            return Value(number + Double(0), SqlType.DOUBLE)  # -0.0 + 0.0 is 0.0
        case Kind.TEXT:
            plain = source if physical == "VARCHAR" else source.try_cast("VARCHAR", physical)
            if type_.values is None:
                # one without that many bytes is not looked at
                short = call("strlen", plain) <= longest
                first = case((short, plain), otherwise=call("left", plain, integer(longest)))
                return Value(first.costing(MADE * longest), SqlType.TEXT, most=longest)
            values = [text(value) for value in type_.values if isinstance(value, str)]
            is_listed = plain.one_of(values)
            longest = max((len(value) for value in type_.values if isinstance(value, str)), default=0)
            return Value(case((is_listed, plain)), SqlType.TEXT, most=longest)
        case Kind.BOOLEAN:
            return Value(source if physical == "BOOLEAN" else source.try_cast("BOOLEAN", physical), SqlType.BOOLEAN)
        case Kind.DATE | Kind.TIMESTAMP:
            form = SQL_TYPES[type_.kind]
            moment = source if physical == form.value else _moment_in(source, physical, form, type_.format)
            if type_.values is None:
                # tested before it is clamped: what lies outside of the calendar is NULL, and not the nearest bound
                inside = within_calendar(moment) if form is SqlType.TIMESTAMP else _in_calendar(moment)
                ends = (_moment(type_.lower, form), _moment(type_.upper, form))
                return Value(case((inside, moment.clamped(*ends))), form)
            # one of a list; any other is NULL, not the nearest end of it
            allowed = [constant(value, type_).sql for value in type_.values or () if value is not None]
            is_listed = moment.one_of(allowed)
            return Value(case((is_listed, moment)), form)


def _grid_ends(type_: Type, step: Fraction) -> tuple[Fraction | None, Fraction | None]:
    """Return the outermost points of the grid within the bounds, between which rounding to the step stays."""
    low = None if type_.lower is None else -((-type_.lower) // step) * step
    return low, None if type_.upper is None else type_.upper // step * step


def _force_integer(source: Scalar, physical: str, type_: Type) -> Value:
    step = type_.step or Fraction(1)
    low, high = _grid_ends(type_, step)
    is_whole = physical in _WHOLE
    long = FIXED.fullmatch(physical)
    if long is not None and int(long[1]) > MAX_SCALE:  # more digits than a float has
        source, physical, is_whole = source.try_cast("HUGEINT", physical), "HUGEINT", True
    elif physical == "UHUGEINT":
        source, physical, is_whole = _signed(source), "HUGEINT", True
    ended = (low is not None and high is not None) or physical not in {"UBIGINT", "HUGEINT"}  # else NULL beyond 64 bits
    far = any(end is None or abs(end) > EXACT for end in (low, high))  # between them some numbers are no floats
    # in whole numbers, for a float would lose the last digits before it is rounded to the step
    if is_whole and ended and step.denominator == 1 and step > 1 and far:
        least, most = LONG[0] if low is None else low, LONG[1] if high is None else high  # either may be 0
        rounded = rounded_whole(_clamped_wide(source, least, most), int(step))
        if rounded is not None and rounded.form is SqlType.INTEGER:
            return rounded
    if is_whole and step == 1 and low is not None and high is not None and -(2**63) <= low <= high < 2**63:
        ends = (int(low), int(high))
        small = max(map(abs, ends)) < 2**30  # differences of two such numbers still fit 32 bits
        # clamped before it is cast, so the cast cannot fail
        moved = source.clamped(integer(ends[0]), integer(ends[1]))
        return Value(moved.cast("INTEGER" if small else "BIGINT"), SqlType.INTEGER, within=ends)
    if is_whole and step == 1 and low is not None and high is not None and max(abs(low), abs(high)) <= WIDEST:
        return _clamped_wide(source, low, high)  # computed of one unit's rows: no column is declared so
    if (is_whole or physical == "VARCHAR") and step == 1 and low is None and high is None:
        # there is no bound to move a larger number to: it is NULL
        return Value(source.try_cast("BIGINT", physical), SqlType.INTEGER)
    number = _as_integer(_force_line(source, physical, low, high), step, low, high)
    ends_fit = all(end is None or -(2**63) <= end < 2**63 for end in (low, high))
    if physical == "VARCHAR" and step == 1 and ends_fit:  # what CAST reads is read as CAST does
        first, last = (None if end is None else integer(int(end)) for end in (low, high))
        number = call("coalesce", source.try_cast("BIGINT", physical).clamped(first, last), number)
    return Value(number, SqlType.INTEGER)


def _clamped_wide(source: Scalar, low: Fraction | int, high: Fraction | int) -> Value:
    """Return a stored whole number moved between two whole numbers."""
    ends = (int(low), int(high))
    moved = source.cast("HUGEINT").clamped(*(huge(end) for end in ends))
    return Value(moved, SqlType.WIDE, within=ends)


def _signed(source: Scalar) -> Scalar:
    """Return a UHUGEINT as HUGEINT; those beyond it as the largest, which is beyond all bounds."""
    largest = huge(2**127 - 1)
    # NULL has to stay NULL: only a number that the cast refuses is beyond the largest
    return case((source.not_null(), call("coalesce", source.try_cast("HUGEINT", "UHUGEINT"), largest)))


def _force_wide(source: Scalar, physical: str, type_: Type) -> Value | None:
    """Return a number that is stored without digits after the point, if its bounds lie beyond the whole floats."""
    stored = FIXED.fullmatch(physical)
    # between which whole numbers a stored one lies; None if it may be larger than a WIDE value
    stored_low, stored_high = {"BIGINT": LONG, "UBIGINT": (0, 2**64 - 1)}.get(physical, (None, None))
    if stored is not None:
        stored_low, stored_high = 1 - 10 ** int(stored[1]), 10 ** int(stored[1]) - 1
    low = stored_low if type_.lower is None else -(-type_.lower // 1)
    high = stored_high if type_.upper is None else type_.upper // 1
    if type_.step not in {None, 1} or low is None or high is None or low > high:
        return None
    # smaller ones are exact as floats, and larger ones no form holds exactly
    if not EXACT < max(abs(low), abs(high)) <= WIDEST:
        return None
    if (
        stored_low is not None and stored_high is not None and low <= stored_high and stored_low <= high
    ):  # nothing that is stored lies outside
        low, high = max(low, stored_low), min(high, stored_high)
    if physical == "UHUGEINT":
        source = _signed(source)
    elif physical == "VARCHAR" and type_.step == 1:
        line = _force_line(source, physical, Fraction(low), Fraction(high))  # such as 1e20
        first, last = (huge(end) for end in (low, high))
        outer = [(line <= Double(low), first), (line >= Double(high), last)]  # see _as_integer
        rounded_line = case(*outer, otherwise=line.try_cast("HUGEINT", "DOUBLE"))
        # all digits count where the cast reads the text; the float is for what it does not read
        source = call("coalesce", source.try_cast("HUGEINT", physical), rounded_line)
    elif physical not in _WHOLE:
        # as a whole number it would lose its digits after the point
        if stored is None or int(stored[2]):
            return None
        source = source.try_cast("HUGEINT", physical)
    return narrow(_clamped_wide(source, low, high))


def _as_integer(line: Scalar, step: Fraction, low: Fraction | None, high: Fraction | None) -> Scalar:
    """Return a clamped DOUBLE as BIGINT. Bounds beyond 2⁵³ may be no DOUBLE: then who reaches one's DOUBLE has it."""
    outer: list[tuple[Operator, Fraction | None]] = [("<=", low), (">=", high)]
    # bounds up to 2⁵³ are floats themselves, and need no branch; those beyond 64 bits are no BIGINT
    ends = [
        (line.operation(compare, Double(end)), integer(int(end)).cast("BIGINT"))
        for compare, end in outer
        if end is not None and EXACT < abs(end) <= 2**63 and end < 2**63
    ]
    rounded = _rounded(line, step, low, high).try_cast("BIGINT", "DOUBLE")
    return case(*ends, otherwise=rounded) if ends else rounded


def _force_listed(source: Scalar, physical: str, type_: Type) -> Value:
    """Return a number of a declared list, as stored; any other number is NULL, not the nearest of the list."""
    numbers = [value for value in type_.values or () if isinstance(value, Fraction)]
    wide = bool(numbers) and all(value.denominator == 1 for value in numbers)
    wide = wide and EXACT < max(map(abs, numbers)) <= WIDEST
    if type_.kind is Kind.INTEGER or wide:
        form, whole = ("BIGINT", integer) if type_.kind is Kind.INTEGER else ("HUGEINT", huge)
        converted = source if physical in _WHOLE else source.try_cast(form, physical)
        is_listed = converted.one_of([whole(int(value)) for value in numbers])
        if physical not in _WHOLE:  # a cast rounds, and a number that was rounded is not in the list
            exact = source.try_cast("DOUBLE", physical).equals(converted.try_cast("DOUBLE", form))
            is_listed = is_listed & exact
        ends = (int(min(numbers)), int(max(numbers))) if numbers else None
        if form == "HUGEINT":
            return Value(case((is_listed, converted.cast(form))), SqlType.WIDE, within=ends)
        # a number that is not in the list may be beyond 64 bits, and must not fail either
        number = converted.try_cast("BIGINT", physical if physical in _WHOLE else "BIGINT")
        within = ends if ends is not None and fits_long(*ends) else None
        return Value(case((is_listed, number)), SqlType.INTEGER, within=within)
    if physical == "FLOAT":  # the decimal that was stored: 0.1, and not 0.10000000149
        source, physical = source.try_cast("VARCHAR", physical), "VARCHAR"
    number = source if physical == "DOUBLE" else source.try_cast("DOUBLE", physical)
    inside = case((number.one_of([Double(value) for value in numbers]), number)) if numbers else null("DOUBLE")
    # a list with 0 lets in -0.0, too, for they are equal
    return Value(inside + Double(0), SqlType.DOUBLE)


def force_index(source: Scalar, physical: str, type_: Type) -> Value | None:
    """Return a decimal column directly as the integer of its declared grid, if it has bounds and a step.

    The clamped float lies between the floats nearest to first·step and last·step; multiplying or dividing by the step
    errs by less than 2⁻⁵¹ relatively, so below 2⁵⁰ ROUND gives an integer between first and last, and the cast cannot
    fail.
    """
    if (
        type_.values is not None
        or type_.kind is not Kind.DECIMAL
        or type_.step is None
        or type_.lower is None
        or type_.upper is None
    ):
        return None
    first, last = -((-type_.lower) // type_.step), type_.upper // type_.step
    greatest = max(abs(first), abs(last))
    if first > last or greatest >= 2**50:
        return None
    line = _force_line(source, physical, first * type_.step, last * type_.step)
    index = scaled(line, type_.step, greatest * type_.step).cast("INTEGER" if greatest < 2**30 else "BIGINT")
    if not type_.nullable:
        # the index of what `_missing` gives, so that the column and its index agree
        index = call("coalesce", index, integer(_nearest(type_, type_.step)))
    return Value(index, SqlType.INTEGER, within=(first, last), step=type_.step)


def _force_line(source: Scalar, physical: str, low: Fraction | None, high: Fraction | None) -> Scalar:
    """Return a finite DOUBLE in [low, high]; an infinity is clamped where there is a bound, else NULL.

    Values inside both bounds are tested first, and are all there is in most batches.
    """
    number = source if physical == "DOUBLE" else source.try_cast("DOUBLE", physical)
    pairs: list[tuple[Scalar, Scalar]] = []
    is_bounded = low is not None and high is not None
    if low is not None and high is not None:
        # right for NaN because files are read with can_have_nan: their statistics leave NaN out
        pairs.append((number.between(Double(low), Double(high)), number))
    # whole numbers and DECIMALs are never NaN, but a text may spell it
    if physical in FLOATS or (physical not in _WHOLE and not physical.startswith("DECIMAL")):
        pairs.append((call("isnan", number), NULL))
    if low is not None:
        pairs.append((number < Double(low), Double(low)))
    if high is not None:
        pairs.append((number > Double(high), Double(high)))
    if pairs and not is_bounded:
        # after the bounds, so that an infinity is clamped on the side that has one
        pairs.append((~call("isfinite", number), NULL))
    # with both bounds nothing but NULL passes all tests
    return case(*pairs, otherwise=None if is_bounded else number) if pairs else number


def _rounded(number: Scalar, step: Fraction, low: Fraction | None, high: Fraction | None) -> Scalar:
    """Return a number between two ends, one perhaps open, rounded to a step."""
    greatest = None if low is None or high is None else max(abs(low), abs(high))
    return unscaled(scaled(number, step, greatest), step)


def _moment_in(source: Scalar, physical: str, form: SqlType, date_format: str) -> Scalar:
    """Return a stored value as a date or timestamp; of a text, as its format or ISO has it."""
    if physical != "VARCHAR" or not date_format:
        return source.try_cast(form.value, physical)
    from hush.query.date_formats import DateFormat

    branches = []
    for reading in DateFormat(date_format).readings(time=form is SqlType.TIMESTAMP):
        moment = primitive("rearranged", source, to=form.value, parts=reading.parts, order=reading.order)
        branches.append((primitive("fits", source, expression=reading.valid), moment))
    return case(*branches)


def date_in_text(source: Scalar) -> Scalar:
    """Return the date that a text spells, NULL outside the years 1 to 9999."""
    value = source.try_cast("DATE", "VARCHAR")
    return case((_in_calendar(value), value))


def _in_calendar(value: Scalar) -> Scalar:
    return value.between(date(_FIRST_DAY), date(_LAST_DAY))


def _moment(value: Fraction | int | None, form: SqlType) -> Scalar | None:
    """Return the date or timestamp that many days or microseconds after 1970, if it is in the calendar."""
    if value is None:
        return None
    try:
        if form is SqlType.DATE:
            return date(dt.date(1970, 1, 1) + dt.timedelta(days=int(value)))
        return timestamp(dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(value)))  # noqa: DTZ001 - naive
    except OverflowError:
        return None
