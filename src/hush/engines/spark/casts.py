r"""Casts of Spark that cannot fail, and that mean what DuckDB's mean.

In ANSI mode a plain CAST raises, and TRY_CAST alone is not enough: a float 2⁶³ becomes 2⁶³ - 1, floats are truncated
instead of rounded, a float becomes the decimal of its shortest digits instead of its own, and a date too late for a
timestamp is NULL in a column that Spark takes to have none. So each pair of types is written out.

Texts become numbers, dates and times by the grammar that engines share (`hush.engines.postgresql.casts`), and never by
Spark's own reading alone: ``1.5f``, ``2021`` and ``now`` mean something to Spark. The grammar also bounds how many
digits a number and its exponent have: to round 1e-999999999 would take hours.

>>> try_cast("`x`", "BIGINT", "DOUBLE")
'CASE WHEN `x` >= -9223372036854775808e0D AND `x` < 9223372036854775808e0D THEN CAST(RINT(`x`) AS BIGINT) END'
"""

from __future__ import annotations

import re

_NAMES = {
    "HUGEINT": "DECIMAL(38,0)", "VARCHAR": "STRING", "INTEGER": "INT", "TIMESTAMP": "TIMESTAMP_NTZ",
    "UTINYINT": "SMALLINT", "USMALLINT": "INT", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20,0)",
}  # fmt: skip
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_WHOLE = {*_BITS, "HUGEINT"}
_FLOATS = {"FLOAT", "DOUBLE"}
_TIMES = {"DATE", "TIMESTAMP"}
_FIXED = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_BLANK = "[ \t\n\r\f\v]*"
_NUMBER = f"^{_BLANK}[+-]?([0-9]{{1,400}}[.]?[0-9]{{0,400}}|[.][0-9]{{1,400}})([eE][+-]?[0-9]{{1,4}})?{_BLANK}$"
_DAY = f"^{_BLANK}0*([1-9][0-9]{{0,3}})(?:-([0-9]{{1,2}})-|/([0-9]{{1,2}})/| ([0-9]{{1,2}}) )([0-9]{{1,2}})"
_TIME = "([ T]([01]?[0-9]|2[0-3]):[0-5]?[0-9](:[0-5]?[0-9]([.][0-9]{1,6})?)?)?"
_SPLIT = 2**62
_HALF = "0.49999999999999994e0D"
_EVEN = (
    "CASE WHEN ABS({0}) < 4503599627370496e0D AND ABS({0} - CAST({0} AS BIGINT)) = 0.5e0D "
    "THEN 2e0D * ROUND({0} / 2e0D) ELSE ROUND({0}) END"
)
"""A float rounded half to even, where RINT rounds half away from zero."""
_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\u0027", "$": "\\u0024"})


def type_name(neutral: str) -> str:
    """Return Spark's word for a type."""
    return _NAMES.get(neutral, neutral)


def text(value: str) -> str:
    r"""Return a text constant, in which quotes and the sign before a variable or a parameter are escaped.

    >>> text("it's ${env:HOME} \\")
    "'it\\u0027s \\u0024{env:HOME} \\\\'"
    """
    return "'" + value.translate(_ESCAPES) + "'"


def text_in(constant: str) -> str:
    r"""Return the text of a constant that `text` made.

    >>> text_in(text("it's \\u0027"))
    "it's \\u0027"
    """
    return re.sub(r"\\(\\|u0027|u0024)", lambda seen: {"\\": "\\", "u0027": "'", "u0024": "$"}[seen[1]], constant[1:-1])


def number(digits: float | str) -> str:
    """Return a float constant."""
    written = str(digits)
    if "inf" in written:
        return "CAST('-Infinity' AS DOUBLE)" if written.startswith("-") else "CAST('Infinity' AS DOUBLE)"
    return f"{written}D" if "e" in written else f"{written}e0D"


def whole_from_float(value: str) -> str:
    """Return a whole float below 2¹²⁴ exactly: Spark's own cast takes its shortest digits.

    With h = trunc(x·2⁻⁶²) the rest x - h·2⁶² is a float and below 2⁶².
    """
    high = f"CAST({value} * {number(2.0**-62)} AS BIGINT)"
    low = f"CAST({value} - CAST({high} AS DOUBLE) * {number(float(_SPLIT))} AS BIGINT)"
    return f"(CAST({high} AS DECIMAL(38,0)) * {_SPLIT} + {low})"


def try_cast(value: str, to: str, of: str | None, *, sail: bool = False) -> str | None:
    """Return a cast that gives NULL where it would fail; None if there is no such."""
    if of == to:
        return value
    if of in _WHOLE:
        return _from_whole(value, to, str(of))
    if of in _FLOATS:
        return _from_float(value, to, sail=sail)
    if of == "BOOLEAN":
        return _from_boolean(value, to)
    if of in _TIMES:
        return _from_time(value, to)
    if of == "VARCHAR":
        return _from_text(value, to, sail=sail)
    if of is not None and _FIXED.fullmatch(of):
        return _from_fixed(value, to)
    return None


def _plain(value: str, to: str) -> str:
    return f"CAST({value} AS {type_name(to)})"


def _tried(value: str, to: str) -> str:
    return f"TRY_CAST({value} AS {type_name(to)})"


def _from_time(value: str, to: str) -> str | None:
    if to == "VARCHAR":
        return _plain(value, to)
    if to == "DATE":
        return _plain(value, to)
    if to == "TIMESTAMP":  # of which there are fewer years
        near = f"{value} BETWEEN DATE'0001-01-01' AND DATE'9999-12-31'"
        return f"CASE WHEN {near} THEN {_plain(value, to)} END"
    return None


def _from_whole(value: str, to: str, of: str) -> str | None:
    if to in _BITS:
        narrower = of == "HUGEINT" or _BITS[of] > _BITS[to]
        return _tried(value, to) if narrower else _plain(value, to)
    if to == "HUGEINT" or to in _FLOATS or to == "VARCHAR":
        return _plain(value, to)
    if to == "BOOLEAN":
        return f"({value} <> 0)"
    return _tried(value, to) if _FIXED.fullmatch(to) else None


def _from_float(value: str, to: str, *, sail: bool) -> str | None:
    if to in _BITS:
        low, high = -(2 ** (_BITS[to] - 1)), 2 ** (_BITS[to] - 1)
        even = _EVEN.format(value) if sail else f"RINT({value})"
        rounded = value if to == "BIGINT" else even
        inside = f"{rounded} >= {number(low)} AND {rounded} < {number(high)}"
        return f"CASE WHEN {inside} THEN CAST({even} AS {type_name(to)}) END"
    if to == "HUGEINT":
        return f"CASE WHEN ABS({value}) < {number(2.0**120)} THEN {whole_from_float(value)} END"
    if to == "DOUBLE":
        return _plain(value, to)
    if to == "FLOAT":
        return f"CASE WHEN ABS({value}) < {number('3.4028235677973366e38')} THEN {_plain(value, to)} END"
    if to == "BOOLEAN":
        return f"({value} <> 0)"
    fixed = _FIXED.fullmatch(to)
    return None if fixed is None else _digits_of_float(value, int(fixed[1]), int(fixed[2]))


def _digits_of_float(value: str, width: int, scale: int) -> str:
    """Return a float as a decimal by round(x·10ˢ), as other engines do; Spark's own cast rounds its shortest digits.

    Whole numbers of 19 digits times 10⁻ˢ have 20 + s digits, of which Spark keeps all while s ≤ 17.
    """
    most = min(10 ** (width - scale) - 1, 9 * 10**18 // 10**scale)
    index = f"CAST({value} * {number(float(10**scale))} + SIGN({value}) * {_HALF} AS BIGINT)"
    unit = f"CAST('{10**-scale:.{scale}f}' AS DECIMAL({scale + 1},{scale}))"
    made = f"CAST(CAST({index} AS DECIMAL(19,0)) * {unit} AS DECIMAL({width},{scale}))"
    return f"CASE WHEN ABS({value}) < {number(most)} THEN {made} END"


def _from_boolean(value: str, to: str) -> str | None:
    if to == "VARCHAR":
        return _plain(value, to)
    return f"CAST(CAST({value} AS INT) AS {type_name(to)})" if to in _WHOLE or to in _FLOATS else None


def _from_fixed(value: str, to: str) -> str | None:
    if to in _WHOLE:
        return _tried(f"ROUND({value})", to)
    if to in _FLOATS or to == "VARCHAR":
        return _plain(value, to)
    if to == "BOOLEAN":
        return f"({value} <> 0)"
    return _tried(value, to) if _FIXED.fullmatch(to) else None


def _from_text(value: str, to: str, *, sail: bool) -> str | None:
    written = f"{value} RLIKE {text(_NUMBER)}"
    if to in _WHOLE:
        whole = f"TRY_CAST({value} AS DECIMAL(38,0))"
        if sail:  # which reads no exponents in decimals
            far = f"ROUND(CAST({value} AS DOUBLE))"
            near = f"CASE WHEN ABS({far}) < {number(2.0**120)} THEN {whole_from_float(far)} END"
            whole = f"CASE WHEN {value} RLIKE '[eE]' THEN {near} ELSE {whole} END"
        return f"CASE WHEN {written} THEN {whole if to == 'HUGEINT' else _tried(whole, to)} END"
    if to in _FLOATS:
        return _float_in_text(value, to, written)
    if to == "BOOLEAN":
        yes, no = "('true', 't', 'yes', 'y', '1')", "('false', 'f', 'no', 'n', '0')"
        return f"CASE WHEN LOWER({value}) IN {yes} THEN TRUE WHEN LOWER({value}) IN {no} THEN FALSE END"
    if to in _TIMES:
        return _time_in_text(value, to)
    fixed = _FIXED.fullmatch(to)
    if fixed is None:
        return None
    made = _tried(value, to)
    if sail:
        far = _digits_of_float(f"TRY_CAST({value} AS DOUBLE)", int(fixed[1]), int(fixed[2]))
        made = f"CASE WHEN {value} RLIKE '[eE]' THEN {far} ELSE {made} END"
    return f"CASE WHEN {written} THEN {made} END"


def _float_in_text(value: str, to: str, written: str) -> str:
    """Return the float nearest to a number; one that is too large is infinite, and one that is too small 0."""
    word = f"LOWER(TRIM(BOTH {text(_BLANK[1:-2])} FROM {value}))"
    kinds = [
        (f"{word} IN ('inf', '+inf', 'infinity', '+infinity')", "Infinity"),
        (f"{word} IN ('-inf', '-infinity')", "-Infinity"),
        (f"{word} IN ('nan', '-nan', '+nan')", "NaN"),
    ]
    whens = [f"WHEN {test} THEN CAST('{name}' AS {to})" for test, name in kinds]
    return f"CASE WHEN {written} THEN {_tried(value, to)} {' '.join(whens)} END"


def _time_in_text(value: str, to: str) -> str:
    """Return the date or timestamp that a text spells, written anew as Spark reads it: with four digits of a year."""
    plain = f"REGEXP_REPLACE({value}, {text(_DAY)}, {text('000$1-$2$3$4-$5')})"
    plain = f"REGEXP_REPLACE({plain}, '^0+([0-9]{{4}}-)', {text('$1')})"
    return f"CASE WHEN {value} RLIKE {text(f'{_DAY}{_TIME}{_BLANK}$')} THEN {_tried(plain, to)} END"
