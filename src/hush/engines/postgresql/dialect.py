r"""How PostgreSQL spells SQL, so that no row can make a statement fail.

PostgreSQL raises where DuckDB returns NULL, an infinity or NaN: in casts, in float arithmetic that overflows,
underflows or divides by zero, in logarithms and roots. So

* a cast is guarded by a test of its operand, one for each pair of types;
* a float operation is written bare where its operands' spans prove it safe, and inside a CASE otherwise. Beyond 10¹⁵⁰ a
  product or quotient then is NULL, and an operand below 10⁻¹⁵⁰ counts as 0: the one difference in numbers;
* a function that is not listed here is refused.

>>> POSTGRESQL.try_cast('"x"', "BIGINT", "DOUBLE")
'CASE WHEN "x" >= FLOAT8 \'-9223372036854775808\' AND "x" < FLOAT8 \'9223372036854775808\' THEN CAST("x" AS bigint) END'

**Texts become numbers, dates and times** by one grammar, which DuckDB and PostgreSQL read alike, and never by the
server's own reading alone: ``now``, ``Jan 5 2021`` and ``on`` mean something to some engines only.

    number       [+-]digits[.digits][e[+-]digits], spaces around it; and inf, infinity, nan
    digits       perhaps with _ between them, one at a time; whole numbers also 0x and 0b, and digits to those bases
    boolean      true, false, t, f, yes, no, y, n, 1, 0, in any case
    date, timestamp    year-month-day, also with / or a space, then perhaps hh:mm[:ss[.ffffff]] after a space or a T

**Rounding** goes half away from zero, as DuckDB's does and PostgreSQL's `round` does not: trunc(x + sign(x)·h) with
h = 0.49999999999999994, the float below 1/2. For n ≤ |x| < n + 1 both |x| and n + 1 are multiples of the last place p
of |x|. If |x| ≥ n + 1/2 the exact |x| + h is at least n + 1 - 2⁻⁵⁴, which is rounded to n + 1 or more (at n = 0 by the
tie to even); else |x| ≤ n + 1/2 - p, so |x| + h is rounded to n + 1 - p at most.

**Sums** are of bigint, which PostgreSQL adds up in 128 bits and returns as numeric.

**Texts** are compared by their bytes: they are read with the collation "C".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from hush.engines.sql.dialect import FIXED, FLOATS, TIMES, UNICODE_SPACES, Pattern, ServerDialect, has_literal_wildcards
from hush.engines.sql.nodes import Span

_NAMES = {
    "HUGEINT": "numeric", "DOUBLE": "double precision", "FLOAT": "real", "VARCHAR": "text", "TINYINT": "smallint",
    "UTINYINT": "smallint", "USMALLINT": "integer", "UINTEGER": "bigint", "UBIGINT": "numeric",
}  # fmt: skip
_BITS = {"SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
_BLANK = r"[ \t\n\r\f\v]*"
_DIGITS = "[0-9]+(_[0-9]+)*"
_NUMBER = rf"^{_BLANK}[+-]?({_DIGITS}\.?({_DIGITS})?|\.{_DIGITS})([eE][+-]?[0-9](_?[0-9]){{0,3}})?{_BLANK}$"
_HEX = "[0-9a-fA-F](_?[0-9a-fA-F]){0,14}|[0-7](_?[0-9a-fA-F]){15}"
_OTHER_BASES = rf"^{_BLANK}0([xX]({_HEX})|[bB][01](_?[01]){{0,61}}){_BLANK}$"
_DAY = rf"^{_BLANK}([0-9]{{1,6}})([-/ ])([0-9]{{1,2}})\2([0-9]{{1,2}})"
_TIME = r"([01]?[0-9]|2[0-3]):[0-5]?[0-9](:[0-5]?[0-9](\.[0-9]{1,6})?)?"
_MOMENT = rf"{_DAY}([ T]{_TIME})?{_BLANK}$"
_SPLIT = 2**62
_FLOAT_ENDS = {
    "DOUBLE": ("17e307", "1e-307", "2.4703282292062328e-324", "1.7976931348623157e308"),
    "FLOAT": ("34e37", "1e-37", "7.0064923216240854e-46", "3.4028234e38"),
}


def number(digits: float | str) -> str:
    """Return a float constant."""
    return f"FLOAT8 '{digits}'"


def collated(value: str) -> str:
    """Return a text that is compared by its bytes."""
    return f'({value} COLLATE "C")'


_HALF = "FLOAT8 '0.49999999999999994'"
_SAFE = (Fraction(1, 10**300), Fraction(10) ** 300)
_ALIKE = frozenset(
    {
        *("coalesce", "count", "sum", "min", "max", "least", "greatest", "abs", "floor", "ceil", "trunc", "unnest"),
        *("left", "right", "replace", "strpos", "starts_with", "dense_rank", "row_number", "rank", "lag", "lead"),
        *("ln", "sqrt"),
    }
)
_PARTS = {"dayofweek": "DOW", "dayofyear": "DOY"} | {
    part: part.upper() for part in ("year", "quarter", "month", "day", "week", "hour", "minute", "second")
}
_NULLS = {"VARCHAR": "''", "BOOLEAN": "FALSE", "DATE": "DATE '1970-01-01'", "TIMESTAMP": "TIMESTAMP '1970-01-01'"}


def _limits(to: str) -> tuple[int, int]:
    return -(2 ** (_BITS[to] - 1)), 2 ** (_BITS[to] - 1) - 1


def _time_in_text(value: str, to: str) -> str:
    """Return the date or timestamp that a text spells, NULL if that day is not in the calendar."""
    date = [rf"^{_BLANK}([0-9]+)", rf"^{_BLANK}[0-9]+[-/ ]([0-9]+)", rf"^{_BLANK}[0-9]+[-/ ][0-9]+[-/ ]([0-9]+)"]
    year, month, day = (f"CAST(SUBSTRING({value} FROM '{pattern}') AS integer)" for pattern in date)
    leap = f"CASE WHEN {year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0) THEN 29 ELSE 28 END"
    last = f"CASE WHEN {month} = 2 THEN {leap} WHEN {month} IN (4, 6, 9, 11) THEN 30 ELSE 31 END"
    real = f"{year} BETWEEN 1 AND 9999 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {last}"
    moment = f"MAKE_DATE({year}, {month}, {day})"
    if to == "TIMESTAMP":
        moment = f"({moment} + CAST(COALESCE(SUBSTRING({value} FROM '[0-9]+:[0-9:.]+'), '00:00') AS time))"
    # two branches, one in the other: the parts are cast only of a text that has the form of a date
    return f"CASE WHEN {value} ~ '{_MOMENT}' THEN CASE WHEN {real} THEN {moment} END END"


_MARKS = {
    "Y": "YYYY", "y": "YY", "m": "MM", "d": "DD", "j": "DDD", "H": "HH24", "I": "HH12", "p": "AM", "M": "MI", "S": "SS",
    "f": "US", "A": "FMDay", "a": "Dy", "B": "FMMonth", "b": "Mon", "u": "ID", "G": "IYYY", "V": "IW", "%": '"%"',
}  # fmt: skip
"""The templates of TO_CHAR for the marks of a format."""


_VERBATIM = str.maketrans({"\\": "\\\\", '"': '\\"', "'": "''"})
"""Characters of words that stand for themselves in a template."""
_OTHERWISE = {
    "length": "CHAR_LENGTH({0})",
    "strlen": "OCTET_LENGTH({0})",
    "split_part": "SPLIT_PART({0}, {1}, CAST({2} AS integer))",
    "contains": "(STRPOS({0}, {1}) > 0)",
    "trim": f"BTRIM({{0}}, '{UNICODE_SPACES}')",
    "ltrim": f"LTRIM({{0}}, '{UNICODE_SPACES}')",
    "rtrim": f"RTRIM({{0}}, '{UNICODE_SPACES}')",
    # the one character that DuckDB maps otherwise
    "lower": collated('LOWER({0} COLLATE "pg_c_utf8")'),
    "upper": collated("UPPER(TRANSLATE({0}, '\u00df', '\u1e9e') COLLATE \"pg_c_utf8\")"),
    "ends_with": "(RIGHT({0}, CHAR_LENGTH({1})) = {1})",
    "log10": "LOG({0})",
    "exp": f"CASE WHEN {{0}} < -708 THEN {number(0)} WHEN {{0}} <= 709 THEN EXP({{0}}) END",
    # by those to the base 10, as DuckDB does: to the last bit
    "log": "CASE WHEN {0} > 0 THEN LOG({1}) / NULLIF(LOG({0}), 0) END",
    "isfinite": f"({{0}} > {number('-Infinity')} AND {{0}} < {number('Infinity')})",
    "isnan": f"({{0}} = {number('NaN')})",  # which equals itself
    "apart": "UNNEST(ARRAY[{0}])",  # a function that returns rows
    "count_if": ServerDialect.otherwise["count_if"],
    "row_id": ServerDialect.otherwise["row_id"],
    "epoch_days": "({0} - DATE '1970-01-01')",
    "epoch_us": "CAST(EXTRACT(EPOCH FROM {0}) * 1000000 AS bigint)",
    **{function: f"CAST(FLOOR(EXTRACT({part} FROM {{0}})) AS bigint)" for function, part in _PARTS.items()},
    # columns as tables store them: a text is compared by its bytes, an instant is what a clock in UTC shows, NaN is
    # NULL, of a numeric that identifies a unit all digits count, and any other is a float, perhaps an infinity or 0
    "stored_text": collated("CAST({0} AS text)"),
    "stored_instant": "({0} AT TIME ZONE 'UTC')",
    "stored_decimal": "NULLIF({0}, 'NaN')",
    "stored_digits": collated("CAST(TRIM_SCALE({0}) AS text)"),
    "stored_numeric": (
        "CASE WHEN {0} = 'NaN' THEN NULL WHEN ABS({0}) < 1e-300 THEN FLOAT8 '0' "
        "WHEN ABS({0}) < 1e300 THEN CAST({0} AS double precision) "
        "WHEN {0} > 0 THEN FLOAT8 'Infinity' WHEN {0} < 0 THEN FLOAT8 '-Infinity' END"
    ),
}


class PostgreSQLDialect(ServerDialect):
    """How PostgreSQL spells the primitives."""

    name: ClassVar[str] = "postgresql"
    engine: ClassVar[str] = "PostgreSQL"
    alike: ClassVar[frozenset[str]] = _ALIKE
    otherwise: ClassVar[Mapping[str, str]] = _OTHERWISE
    anti_joins: ClassVar[bool] = False
    bits: ClassVar[Mapping[str, int]] = _BITS
    days_of_times: ClassVar[tuple[str, str]] = ("DATE '4000-01-01 BC'", "DATE '200000-01-01'")
    fence: ClassVar[str] = " OFFSET 0"
    longest: ClassVar[int] = 50_000

    def type_name(self, neutral: str) -> str:
        fixed = FIXED.fullmatch(neutral)
        return f"numeric({fixed[1]},{fixed[2]})" if fixed else _NAMES.get(neutral, neutral.lower())

    def float_constant(self, digits: str) -> str:
        """Return a typed constant: a plain one would be numeric."""
        return f"FLOAT8 '{digits.replace('inf', 'Infinity')}'"

    def array(self, *values: str) -> str:
        return f"ARRAY[{', '.join(values)}]"

    def cast(self, value: str, to: str, of: str | None = None) -> str:
        plain = super().cast(value, to, of)
        return collated(plain) if to == "VARCHAR" else plain

    def whole_from_float(self, value: str) -> str:
        """Return a whole float as numeric: with h = trunc(x·2⁻⁶²) the rest x - h·2⁶² is a float and below 2⁶²."""
        high = f"TRUNC({value} * {number(2.0**-62)})"
        low = f"({value} - {high} * {number(float(_SPLIT))})"
        return f"(CAST(CAST({high} AS bigint) AS numeric) * {_SPLIT} + CAST({low} AS bigint))"

    def narrowed(self, value: str, to: str) -> str:
        if to == "HUGEINT":
            return value  # numeric holds it
        low, high = _limits(to)
        return f"CASE WHEN {value} BETWEEN {low} AND {high} THEN {self.cast(value, to)} END"

    def fixed(self, value: str, to: str) -> str:
        fixed = FIXED.fullmatch(to)
        assert fixed is not None  # noqa: S101 - the caller looked
        # tested after rounding: 9.99 as DECIMAL(2,1) is 10.0, one digit too many
        limit = 10 ** (int(fixed[1]) - int(fixed[2]))
        return f"CASE WHEN ABS(ROUND({value}, {fixed[2]})) < {limit} THEN {self.cast(value, to)} END"

    def from_float(self, value: str, to: str) -> str | None:
        if to in _BITS:
            low, high = _limits(to)  # the upper end is excluded: 2⁶³ - 1 is no float
            inside = f"{value} >= {number(low)} AND {value} < {number(high + 1)}"
            return f"CASE WHEN {inside} THEN {self.cast(value, to)} END"
        if to == "FLOAT":  # below half of the least float32 PostgreSQL raises instead of rounding to 0
            tiny = f"WHEN ABS({value}) <= {number('7.006492321624085e-46')} THEN REAL '0'"
            return f"CASE {tiny} WHEN ABS({value}) < {number('3.4028235677973366e38')} THEN {self.cast(value, to)} END"
        fixed = FIXED.fullmatch(to)
        if fixed is None:
            return super().from_float(value, to)
        # by its digits as a whole number: PostgreSQL's own cast keeps fifteen
        scale = int(fixed[2])
        # the scaled number goes through a bigint, so it must stay below 2⁶³
        limit = min(10 ** (int(fixed[1]) - scale) - 1, 9 * 10**18 // 10**scale)
        scaled = f"({value} * {number(float(10**scale))})"
        digits = f"CAST(TRUNC({scaled} + SIGN({value}) * {_HALF}) AS bigint)"
        cast = f"CAST(CAST({digits} AS numeric) / {10**scale} AS {self.type_name(to)})"
        return f"CASE WHEN ABS({value}) < {number(limit)} THEN {cast} END"

    def from_text(self, value: str, to: str) -> str | None:
        is_number = f"{value} ~ '{_NUMBER}'"
        exact = f"CAST(REPLACE({value}, '_', '') AS numeric)"
        # 0x and 0b, which servers before 16 do not read themselves: as a string of 64 bits
        digits = f"REPLACE(SUBSTRING({value} FROM '0[xXbB]([0-9a-fA-F_]+)'), '_', '')"
        bits = f"CASE WHEN {value} ~ '0[xX]' THEN 'x' || LPAD({digits}, 16, '0') ELSE LPAD({digits}, 64, '0') END"
        coded_number = f"CAST(CAST({bits} AS bit(64)) AS bigint)"
        coded = f"WHEN {value} ~ '{_OTHER_BASES}' THEN"
        if to in _BITS:
            narrow = coded_number if to == "BIGINT" else self.narrowed(coded_number, to)
            return f"CASE WHEN {is_number} THEN {self.narrowed(f'ROUND({exact})', to)} {coded} {narrow} END"
        if to == "HUGEINT":
            return f"CASE WHEN {is_number} THEN ROUND({exact}) {coded} CAST({coded_number} AS numeric) END"
        if to in FLOATS:
            return self._float_in_text(value, to, is_number, exact)
        if to in TIMES:
            return _time_in_text(value, to)
        if FIXED.fullmatch(to):
            return f"CASE WHEN {is_number} THEN {self.fixed(exact, to)} END"
        return super().from_text(value, to) if to == "BOOLEAN" else None

    def _float_in_text(self, value: str, to: str, is_number: str, exact: str) -> str:
        """Return the float nearest to a number; one that is too large is infinite, and one that is too small 0.

        Near both ends of the floats PostgreSQL's own cast raises; from ``small`` to ``large`` it does not. Up to half
        of the least float (``tiny``, rounded up) a number is 0.
        """
        name, cast = self.type_name(to), f"CAST({exact} AS {self.type_name(to)})"
        large, small, tiny, top = _FLOAT_ENDS[to]
        near = f"CASE WHEN ABS({exact}) <= {tiny} THEN {name} '0' ELSE {cast} END"
        far = f"CASE WHEN ABS({exact}) <= {top} THEN CAST(ABS({exact}) AS {name}) ELSE {name} 'Infinity' END"
        sized = f"WHEN ABS({exact}) < {small} THEN {near} WHEN ABS({exact}) < {large} THEN {cast}"
        word = f"LOWER(BTRIM({value}, E' \\t\\n\\r\\f\\v'))"
        infinite = f"WHEN {word} IN ('inf', '+inf', 'infinity', '+infinity') THEN {name} 'Infinity'"
        negative = f"WHEN {word} IN ('-inf', '-infinity') THEN {name} '-Infinity'"
        missing = f"WHEN {word} IN ('nan', '-nan', '+nan') THEN {name} 'NaN'"
        nearest = f"CASE {sized} ELSE SIGN({exact}) * {far} END"
        return f"CASE WHEN {is_number} THEN {nearest} {infinite} {negative} {missing} END"

    # numbers

    def rounded(self, value: str, digits: int | None = None) -> str:
        if digits:
            unit = number(10 ** abs(digits))
            up, down = ("*", "/") if digits > 0 else ("/", "*")
            size = _of(10 ** abs(digits))
            index = self.rounded(self.float_operation(value, unit, operator=up, spans=(None, size)))
            return self.float_operation(index, unit, operator=down, spans=(_of(1), size))
        return f"TRUNC({value} + SIGN({value}) * {_HALF})"

    def scaled(
        self, value: str, *, times: Fraction | int | None, over: Fraction | int | None, most: Fraction | None
    ) -> str:
        """Return a float on a grid; numbers that are so large that the product might overflow keep their sign."""
        if times is not None:
            index = self.rounded(f"({value} * {self.double(times)})")
        elif over is not None:
            index = self.rounded(f"({value} / {self.double(over)})")
        else:
            return self.rounded(value)
        if over is not None:  # a tiny number over a step above 1 underflows
            index = f"CASE WHEN ABS({value}) < {number('1e-280')} THEN {number(0)} ELSE {index} END"
        if most is not None and most < Fraction(10) ** 280:
            return index
        # 10²⁰⁰ lies beyond every grid, so a clamp that follows takes the end on the right side
        large = f"CASE WHEN ABS({value}) <= {number('1e280')} THEN {index} ELSE SIGN({value}) * {number('1e200')} END"
        return f"CASE WHEN {value} IS NOT NULL THEN {large} END"

    def quotient(self, left: str, right: str, *, wide: bool = False) -> str:
        return f"DIV({left}, {right})" if wide else f"({left} / {right})"

    def total(self, value: str, *, wide: bool = False, narrow: bool = False) -> str:  # noqa: ARG002
        """Return the sum of bigint, in 128 bits."""
        return f"SUM({value})" if wide else f"SUM(CAST({value} AS bigint))"

    def weighted_down(self, total: str, count: str, *, rows: int, floor: bool, narrow: bool = False) -> str:  # noqa: ARG002
        product = f"(CAST({total} AS numeric) * {rows})"
        # DIV truncates towards zero, which of a sum that is never positive would be up
        return f"DIV({product} - ({count} - 1), {count})" if floor else f"DIV({product}, {count})"

    def float_operation(self, left: str, right: str, *, operator: str, spans: Sequence[Span | None]) -> str:
        """Return arithmetic of floats, bare where their spans prove it safe."""
        if operator == "%":
            raise self.unsupported(
                "the remainder of numbers with a point", "use whole numbers, such as CAST(x AS BIGINT)"
            )
        left_span, right_span = (*spans, None, None)[:2]
        plain = f"({left} {operator} {right})"
        if operator in "+-":
            tests = [
                f"ABS({side}) <= {number('8e307')}"
                for side, span in ((left, left_span), (right, right_span))
                if span is None or span[1] > _SAFE[1]
            ]
            return f"CASE WHEN {' AND '.join(tests)} THEN {plain} END" if tests else plain
        return _product(operator, (left, left_span), (right, right_span), plain)

    def power(self, base: str, exponent: str, *, number: Fraction | None) -> str:
        """Return a power, NULL for a base that is too large; one that is too small counts as 0."""
        if number is None:
            raise self.unsupported("POWER with an exponent that is no constant", "write the exponent out")
        zero, one = map(self.double, (0, 1))
        if not number:
            return f"CASE WHEN {base} IS NOT NULL THEN {one} END"
        # a base within 10⁻ᵈ and 10ᵈ then has a power within 10⁻³⁰⁰ and 10³⁰⁰
        digits = int(300 / max(abs(number), Fraction(1)))
        small, large = self.float_constant(f"1e-{digits}"), self.float_constant(f"1e{digits}")
        inside = f"ABS({base}) BETWEEN {small} AND {large}"
        # PostgreSQL raises for a root of a negative number
        if number.denominator > 1:
            inside += f" AND {base} > 0"
        tiny = f"WHEN ABS({base}) < {small} THEN {zero} " if number > 0 else ""
        return f"CASE {tiny}WHEN {inside} THEN POWER({base}, {exponent}) END"

    # order, comparisons and statements

    def row_hash(self, *values: str, salt: int) -> str:
        """Return a hash of a record, which takes values of all types, and NULL."""
        return f"HASH_RECORD_EXTENDED(ROW({', '.join(values)}), {salt})"

    def unit_number(self, unit: str, *, key: str) -> str:
        return f"CAST(CAST('x' || RIGHT(MD5({self.text(key)} || CAST({unit} AS text)), 16) AS bit(64)) AS bigint)"

    def unchanged(self, columns: Sequence[tuple[str, str, int, int]]) -> str:
        """Return the query that counts those columns that still have the type, by table, name, type and modifier."""
        if not columns:
            return "SELECT 0"
        rows = ", ".join(f"({self.text(table)}, {self.text(name)}, {of}, {by})" for table, name, of, by in columns)
        return (
            f"SELECT COUNT(*) FROM (VALUES {rows}) AS w (place, name, type, modifier) "  # noqa: S608 - escaped
            "JOIN pg_catalog.pg_attribute AS a ON a.attrelid = pg_catalog.to_regclass(w.place) AND a.attname = w.name "
            "WHERE a.atttypid = w.type AND a.atttypmod = w.modifier AND NOT a.attisdropped "
            "AND pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')"
        )

    def rows_of(self, lists: Sequence[tuple[int, str, str]], label: str) -> str:
        """Return UNNEST of several arrays, side by side; texts are compared by their bytes."""
        names = ", ".join(self.quoted(name) for *_, name in lists)
        arrays = ", ".join(f"CAST(${place} AS {self.type_name(of)}[])" for place, of, _ in lists)
        cells = [
            f'{self.quoted(name)} COLLATE "C" AS {self.quoted(name)}' if of == "VARCHAR" else self.quoted(name)
            for _, of, name in lists
        ]
        return f"(SELECT {', '.join(cells)} FROM UNNEST({arrays}) AS l({names})) AS {self.quoted(label)}"  # noqa: S608

    def matches(self, left: str, right: str, *, form: str) -> str:
        """Return equality that a hash join can use: IS NOT DISTINCT FROM would make it a nested loop."""
        none = _NULLS.get(form, "0")
        equal = f"COALESCE({left}, {none}) = COALESCE({right}, {none})"
        # the second test tells NULL from a value that is equal to what stands for it
        return f"({equal} AND ({left} IS NULL) = ({right} IS NULL))"

    # texts

    def like(self, value: str, *, characters: Pattern) -> str:
        """Return LIKE: PostgreSQL's matcher does not go back behind a part that it has found, so its time is linear."""
        escape = "\\" if has_literal_wildcards(characters) else ""  # which is no character of the pattern's own
        special = {(escape, False), (escape, True), ("%", True), ("_", True)}
        pattern = "".join((escape if pair in special else "") + pair[0] for pair in characters)
        return f"({value} LIKE {self.text(pattern)} ESCAPE '{escape}')"

    # dates and times

    def fits(self, value: str, *, expression: str) -> str:
        return f"({value} ~ '^{expression}$')"

    def rearranged(self, value: str, *, to: str, parts: str, order: str) -> str:
        return f"CAST(REGEXP_REPLACE({value}, '^{parts}$', '{order}') AS {self.type_name(to)})"

    def formatted(self, value: str, *, pattern: str) -> str:
        moment = f"CAST({value} AS timestamp)"
        parts: list[str] = []
        for piece in re.split(r"(%w)", pattern):
            if piece == "%w":  # no pattern counts from Sunday as 0
                parts.append(f"CAST(EXTRACT(DOW FROM {moment}) AS text)")
                continue
            cells = re.findall(r"%(.)|([^%]+)", piece, re.DOTALL)
            # empty quotes keep two marks that meet from being read as one
            template = '""'.join(_MARKS[mark] if mark else f'"{words.translate(_VERBATIM)}"' for mark, words in cells)
            if template:
                parts.append(f"TO_CHAR({moment}, '{template}')")
        return collated(f"({' || '.join(parts)})") if parts else f"CASE WHEN {value} IS NOT NULL THEN '' END"

    def date_trunc(self, value: str, *, unit: str, form: str) -> str:  # noqa: ARG002
        """Return the start of a unit; of a plain date it would depend on the session's time zone."""
        return f"DATE_TRUNC('{unit}', CAST({value} AS timestamp))"

    def shifted(self, value: str, months: int, days: int, microseconds: int) -> str:
        return f"{value} + INTERVAL '{months} months {days} days {microseconds} microseconds'"


def _of(value: int) -> Span:
    return Fraction(value), Fraction(value)


def _product(operator: str, first: tuple[str, Span | None], second: tuple[str, Span | None], plain: str) -> str:
    """Return a product or quotient: bare, or of operands between 10⁻¹⁵⁰ and 10¹⁵⁰; a smaller one counts as 0."""
    (left, mine), (right, theirs) = first, second
    if mine is not None and theirs is not None:
        if operator == "*":
            ends = mine[0] * theirs[0], mine[1] * theirs[1]
        else:
            ends = mine[0] / theirs[1], mine[1] / theirs[0]
        if ends[0] >= _SAFE[0] and ends[1] <= _SAFE[1]:
            # a span leaves out 0, by which PostgreSQL does not divide
            return plain if operator == "*" else f"CASE WHEN {right} <> 0 THEN {plain} END"
    small, large = number("1e-150"), number("1e150")
    tests = [
        f"ABS({side}) <= {large}" for side, span in (first, second) if span is None or span[1] > Fraction(10) ** 150
    ]
    tiny = [
        f"ABS({side}) < {small}" for side, span in (first, second) if span is None or span[0] < Fraction(1, 10**150)
    ]
    if operator == "/":
        tests = [f"ABS({right}) >= {small}", *tests]
        # a quotient is 0 if its dividend is tiny; by a tiny divisor it is NULL
        tiny = [test for test in tiny if test.startswith(f"ABS({left})")]
    if tiny:  # only of two numbers: the product of 0 and NULL is NULL
        tests = [f"{left} IS NOT NULL", f"{right} IS NOT NULL", *tests]
        plain = f"CASE WHEN {' OR '.join(tiny)} THEN {number(0)} ELSE {plain} END"
    return f"CASE WHEN {' AND '.join(tests)} THEN {plain} END" if tests else plain


POSTGRESQL = PostgreSQLDialect()
