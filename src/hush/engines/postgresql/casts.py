r"""Casts of PostgreSQL that cannot fail: each is guarded by a test of what it is cast from.

Texts become numbers, dates and times by one grammar, which is what DuckDB and PostgreSQL read alike, and never by the
server's own reading alone: ``now``, ``Jan 5 2021`` and ``on`` mean something to some engines only.

    number       [+-]digits[.digits][e[+-]digits], spaces around it; and inf, infinity, nan
    digits       perhaps with _ between them, one at a time; whole numbers also 0x and 0b, and digits to those bases
    boolean      true, false, t, f, yes, no, y, n, 1, 0, in any case
    date, timestamp    year-month-day, also with / or a space, then perhaps hh:mm[:ss[.ffffff]] after a space or a T

>>> try_cast('"x"', "BIGINT", "DOUBLE")
'CASE WHEN "x" >= FLOAT8 \'-9223372036854775808\' AND "x" < FLOAT8 \'9223372036854775808\' THEN CAST("x" AS bigint) END'
"""

from __future__ import annotations

import re

_NAMES = {
    "HUGEINT": "numeric", "DOUBLE": "double precision", "FLOAT": "real", "VARCHAR": "text", "TINYINT": "smallint",
    "UTINYINT": "smallint", "USMALLINT": "integer", "UINTEGER": "bigint", "UBIGINT": "numeric",
}  # fmt: skip
_BITS = {"SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_WHOLE = {*_BITS, "HUGEINT"}
_FLOATS = {"FLOAT", "DOUBLE"}
_TIMES = {"DATE", "TIMESTAMP"}
_FIXED = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_BLANK = r"[ \t\n\r\f\v]*"
_DIGITS = "[0-9]+(_[0-9]+)*"
_NUMBER = rf"^{_BLANK}[+-]?({_DIGITS}\.?({_DIGITS})?|\.{_DIGITS})([eE][+-]?[0-9](_?[0-9]){{0,3}})?{_BLANK}$"
_HEX = "[0-9a-fA-F](_?[0-9a-fA-F]){0,14}|[0-7](_?[0-9a-fA-F]){15}"
_OTHER_BASES = rf"^{_BLANK}0([xX]({_HEX})|[bB][01](_?[01]){{0,61}}){_BLANK}$"
_DAY = rf"^{_BLANK}([0-9]{{1,6}})([-/ ])([0-9]{{1,2}})\2([0-9]{{1,2}})"
_TIME = r"([01]?[0-9]|2[0-3]):[0-5]?[0-9](:[0-5]?[0-9](\.[0-9]{1,6})?)?"
_MOMENT = rf"{_DAY}([ T]{_TIME})?{_BLANK}$"
_SPLIT = 2**62


def type_name(neutral: str) -> str:
    """Return PostgreSQL's word for a type."""
    fixed = _FIXED.fullmatch(neutral)
    return f"numeric({fixed[1]},{fixed[2]})" if fixed else _NAMES.get(neutral, neutral.lower())


def number(digits: float | str) -> str:
    """Return a float constant."""
    return f"FLOAT8 '{digits}'"


def collated(value: str) -> str:
    """Return a text that is compared by its bytes."""
    return f'({value} COLLATE "C")'


def whole_from_float(value: str) -> str:
    """Return a whole float below 2¹²⁴ as numeric, exactly: PostgreSQL's own cast keeps fifteen digits.

    With h = trunc(x·2⁻⁶²) the rest x - h·2⁶² is a float and below 2⁶².
    """
    high = f"TRUNC({value} * {number(2.0**-62)})"
    low = f"({value} - {high} * {number(float(_SPLIT))})"
    return f"(CAST(CAST({high} AS bigint) AS numeric) * {_SPLIT} + CAST({low} AS bigint))"


def try_cast(value: str, to: str, of: str | None) -> str | None:
    """Return a cast that gives NULL where it would fail; None if there is no such."""
    if of == to:
        return value
    if of in _WHOLE:
        return _from_whole(value, to, str(of))
    if of in _FLOATS:
        return _from_float(value, to)
    if of == "BOOLEAN":
        return _from_boolean(value, to)
    if of in _TIMES:
        return (
            collated(f"CAST({value} AS text)")
            if to == "VARCHAR"
            else _between_times(value, to)
            if to in _TIMES
            else None
        )
    if of == "VARCHAR":
        return _from_text(value, to)
    if of is not None and _FIXED.fullmatch(of):
        return _from_fixed(value, to)
    return None


def _plain(value: str, to: str) -> str:
    return f"CAST({value} AS {type_name(to)})"


def _between_times(value: str, to: str) -> str:
    """Return a date as a timestamp, which has fewer years, or a timestamp as a date."""
    if to == "DATE":
        return _plain(value, to)
    near = f"{value} BETWEEN DATE '4000-01-01 BC' AND DATE '200000-01-01'"
    return f"CASE WHEN {near} THEN {_plain(value, to)} END"


def _limits(to: str) -> tuple[int, int]:
    return -(2 ** (_BITS[to] - 1)), 2 ** (_BITS[to] - 1) - 1


def _between(value: str, to: str, made: str) -> str:
    low, high = _limits(to)
    return f"CASE WHEN {value} BETWEEN {low} AND {high} THEN {made} END"


def _within_fixed(value: str, to: str, made: str) -> str:
    fixed = _FIXED.fullmatch(to)
    assert fixed is not None  # noqa: S101 - the caller looked
    return f"CASE WHEN ABS(ROUND({value}, {fixed[2]})) < {10 ** (int(fixed[1]) - int(fixed[2]))} THEN {made} END"


def _from_whole(value: str, to: str, of: str) -> str | None:
    if to in _BITS:
        narrower = of == "HUGEINT" or _BITS[of] > _BITS[to]
        return _between(value, to, _plain(value, to)) if narrower else _plain(value, to)
    return _plain(value, to) if to == "HUGEINT" else _from_exact(value, to)


def _from_exact(value: str, to: str) -> str | None:
    """Return a whole or fixed number as one that is not whole, as a boolean or as a text."""
    if to in _FLOATS:
        return _plain(value, to)
    if to == "BOOLEAN":
        return f"({value} <> 0)"
    if to == "VARCHAR":
        return collated(_plain(value, to))
    return _within_fixed(value, to, _plain(value, to)) if _FIXED.fullmatch(to) else None


def _from_float(value: str, to: str) -> str | None:
    if to in _BITS:
        low, high = _limits(to)
        inside = f"{value} >= {number(low)} AND {value} < {number(high + 1)}"
        return f"CASE WHEN {inside} THEN {_plain(value, to)} END"
    if to == "HUGEINT":
        return f"CASE WHEN ABS({value}) < {number(2.0**120)} THEN {whole_from_float(value)} END"
    if to == "DOUBLE":
        return _plain(value, to)
    if to == "FLOAT":
        tiny = f"WHEN ABS({value}) <= {number('7.006492321624085e-46')} THEN REAL '0'"
        return f"CASE {tiny} WHEN ABS({value}) < {number('3.4028235677973366e38')} THEN {_plain(value, to)} END"
    if to == "BOOLEAN":
        return f"({value} <> 0)"
    fixed = _FIXED.fullmatch(to)
    if fixed is None:
        return None  # as text: 1 and not 1.0
    # by its digits as a whole number: PostgreSQL's own cast keeps fifteen
    scale = int(fixed[2])
    most = min(10 ** (int(fixed[1]) - scale) - 1, 9 * 10**18 // 10**scale)
    scaled = f"({value} * {number(float(10**scale))})"
    digits = f"CAST(TRUNC({scaled} + SIGN({value}) * {number('0.49999999999999994')}) AS bigint)"
    made = f"CAST(CAST({digits} AS numeric) / {10**scale} AS {type_name(to)})"
    return f"CASE WHEN ABS({value}) < {number(most)} THEN {made} END"


def _from_boolean(value: str, to: str) -> str | None:
    if to == "VARCHAR":
        return collated(_plain(value, to))
    return f"CAST(CAST({value} AS integer) AS {type_name(to)})" if to in _WHOLE or to in _FLOATS else None


def _from_fixed(value: str, to: str) -> str | None:
    if to in _BITS:
        return _between(f"ROUND({value})", to, _plain(value, to))
    return f"ROUND({value})" if to == "HUGEINT" else _from_exact(value, to)


def _from_text(value: str, to: str) -> str | None:
    written = f"{value} ~ '{_NUMBER}'"
    exact = f"CAST(REPLACE({value}, '_', '') AS numeric)"
    coded = f"WHEN {value} ~ '{_OTHER_BASES}' THEN"
    if to in _BITS:
        low, high = _limits(to)
        inside = f"ROUND({exact}) BETWEEN {low} AND {high}"
        plain = f"WHEN {written} THEN CASE WHEN {inside} THEN CAST(ROUND({exact}) AS {type_name(to)}) END"
        whole = _in_other_base(value)
        return f"CASE {plain} {coded} {whole if to == 'BIGINT' else _between(whole, to, _plain(whole, to))} END"
    if to == "HUGEINT":
        return f"CASE WHEN {written} THEN ROUND({exact}) {coded} CAST({_in_other_base(value)} AS numeric) END"
    if to in _FLOATS:
        return _float_in_text(value, to, written, exact)
    if to == "BOOLEAN":
        yes, no = "('true', 't', 'yes', 'y', '1')", "('false', 'f', 'no', 'n', '0')"
        return f"CASE WHEN LOWER({value}) IN {yes} THEN TRUE WHEN LOWER({value}) IN {no} THEN FALSE END"
    if to in _TIMES:
        return _time_in_text(value, to)
    if _FIXED.fullmatch(to):
        return f"CASE WHEN {written} THEN {_within_fixed(exact, to, _plain(exact, to))} END"
    return None


def _in_other_base(value: str) -> str:
    """Return the whole number that a text spells with 0x or 0b; servers before 16 read no such themselves."""
    digits = f"REPLACE(SUBSTRING({value} FROM '0[xXbB]([0-9a-fA-F_]+)'), '_', '')"
    bits = f"CASE WHEN {value} ~ '0[xX]' THEN 'x' || LPAD({digits}, 16, '0') ELSE LPAD({digits}, 64, '0') END"
    return f"CAST(CAST({bits} AS bit(64)) AS bigint)"


def _float_in_text(value: str, to: str, written: str, exact: str) -> str:
    """Return the float nearest to a number; one that is too large is infinite, and one that is too small 0."""
    most, least = ("17e307", "1e-307") if to == "DOUBLE" else ("34e37", "1e-37")
    near = f"WHEN ABS({exact}) < {least} THEN {_small_float(exact, to)} "
    inside = f"WHEN ABS({exact}) < {most} THEN {_plain(exact, to)} ELSE SIGN({exact}) * {_largest(exact, to)}"
    word = f"LOWER(BTRIM({value}, E' \\t\\n\\r\\f\\v'))"
    infinite = f"WHEN {word} IN ('inf', '+inf', 'infinity', '+infinity') THEN {type_name(to)} 'Infinity'"
    negative = f"WHEN {word} IN ('-inf', '-infinity') THEN {type_name(to)} '-Infinity'"
    missing = f"WHEN {word} IN ('nan', '-nan', '+nan') THEN {type_name(to)} 'NaN'"
    return f"CASE WHEN {written} THEN CASE {near}{inside} END {infinite} {negative} {missing} END"


def _small_float(exact: str, to: str) -> str:
    """Return a number below the normal floats; up to half of the least one (rounded up) it is 0."""
    least = "2.4703282292062328e-324" if to == "DOUBLE" else "7.0064923216240854e-46"
    return f"CASE WHEN ABS({exact}) <= {least} THEN {type_name(to)} '0' ELSE {_plain(exact, to)} END"


def _largest(exact: str, to: str) -> str:
    """Return the magnitude of a number near or beyond the largest floats."""
    top = "1.7976931348623157e308" if to == "DOUBLE" else "3.4028234e38"
    name = type_name(to)
    return f"CASE WHEN ABS({exact}) <= {top} THEN CAST(ABS({exact}) AS {name}) ELSE {name} 'Infinity' END"


def _time_in_text(value: str, to: str) -> str:
    """Return the date or timestamp that a text spells, if there is such a day."""
    date = [rf"^{_BLANK}([0-9]+)", rf"^{_BLANK}[0-9]+[-/ ]([0-9]+)", rf"^{_BLANK}[0-9]+[-/ ][0-9]+[-/ ]([0-9]+)"]
    year, month, day = (f"CAST(SUBSTRING({value} FROM '{part}') AS integer)" for part in date)
    leap = f"CASE WHEN {year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0) THEN 29 ELSE 28 END"
    last = f"CASE WHEN {month} = 2 THEN {leap} WHEN {month} IN (4, 6, 9, 11) THEN 30 ELSE 31 END"
    real = f"{year} BETWEEN 1 AND 9999 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {last}"
    made = f"MAKE_DATE({year}, {month}, {day})"
    if to == "TIMESTAMP":
        made = f"({made} + CAST(COALESCE(SUBSTRING({value} FROM '[0-9]+:[0-9:.]+'), '00:00') AS time))"
    return f"CASE WHEN {value} ~ '{_MOMENT}' THEN CASE WHEN {real} THEN {made} END END"
