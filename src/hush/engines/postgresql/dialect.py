r"""PostgreSQL's words, written so that no row can make a statement fail.

PostgreSQL raises where DuckDB returns NULL, an infinity or NaN: in casts, in float arithmetic that overflows,
underflows or divides by zero, in logarithms and roots. So

* a cast is guarded by a test of what it is cast from, one for each pair of types (`hush.engines.postgresql.casts`);
* a float operation is written bare where its operands' spans prove it safe, and inside a CASE otherwise. Beyond 10¹⁵⁰ a
  product or quotient then is NULL, and an operand below 10⁻¹⁵⁰ counts as 0: the one difference in numbers;
* a function that is not listed here is refused.

**Rounding** goes half away from zero, as DuckDB's does and PostgreSQL's `round` does not: trunc(x + sign(x)·h) with
h = 0.49999999999999994, the float below 1/2. For n ≤ |x| < n + 1 both |x| and n + 1 are multiples of the last place p
of |x|. If |x| ≥ n + 1/2 the exact |x| + h is at least n + 1 - 2⁻⁵⁴, which is rounded to n + 1 or more (at n = 0 by the
tie to even); else |x| ≤ n + 1/2 - p, so |x| + h is rounded to n + 1 - p at most.

**Sums** are of bigint, which PostgreSQL adds up in 128 bits and returns as numeric.

**Texts** are compared by their bytes: they are read with the collation "C".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from hush.engines.postgresql.casts import (
    collated,
    number,
    try_cast,
    type_name,
    whole_from_float,
)
from hush.engines.sql.dialect import UNICODE_SPACES, ServerDialect, Span

_HALF = "FLOAT8 '0.49999999999999994'"
_SAFE = (Fraction(1, 10**300), Fraction(10) ** 300)
_ALIKE = frozenset(
    {
        *("coalesce", "count", "sum", "min", "max", "least", "greatest", "abs", "floor", "ceil", "trunc", "unnest"),
        *(
            "left",
            "right",
            "replace",
            "strpos",
            "starts_with",
            "dense_rank",
            "row_number",
            "rank",
            "lag",
            "lead",
        ),
    }
)
_PARTS = {"dayofweek": "DOW", "dayofyear": "DOY"}
_NULLS = {"VARCHAR": "''", "BOOLEAN": "FALSE", "DATE": "DATE '1970-01-01'", "TIMESTAMP": "TIMESTAMP '1970-01-01'"}


def _trimmed(function: str) -> Callable[[Sequence[str]], str]:
    return lambda given: f"{function}({given[0]}, '{UNICODE_SPACES}')"


def _cased(function: str, *changed: str) -> Callable[[Sequence[str]], str]:
    """Return a function that maps characters one by one; ``changed`` are those that DuckDB maps otherwise, and to."""

    def written(given: Sequence[str]) -> str:
        value = f"TRANSLATE({given[0]}, '{changed[0]}', '{changed[1]}')" if changed else given[0]
        return collated(f'{function}({value} COLLATE "pg_c_utf8")')

    return written


_MARKS = {
    "Y": "YYYY", "y": "YY", "m": "MM", "d": "DD", "j": "DDD", "H": "HH24", "I": "HH12", "p": "AM", "M": "MI", "S": "SS",
    "f": "US", "A": "FMDay", "a": "Dy", "B": "FMMonth", "b": "Mon", "u": "ID", "G": "IYYY", "V": "IW", "%": '"%"',
}  # fmt: skip
"""What TO_CHAR has for the marks of a format."""


def _formatted(given: Sequence[str]) -> str:
    """Return a moment as a format has it; the format is a constant, of marks that `hush.query` has looked at."""
    moment, form = f"CAST({given[0]} AS timestamp)", given[1][1:-1].replace("''", "'")
    parts: list[str] = []
    for piece in re.split(r"(%w)", form):
        if piece == "%w":  # no pattern counts from Sunday as 0
            parts.append(f"CAST(EXTRACT(DOW FROM {moment}) AS text)")
            continue
        cells = re.findall(r"%(.)|([^%]+)", piece, re.DOTALL)
        template = '""'.join(_MARKS[mark] if mark else f'"{_plain(words)}"' for mark, words in cells)
        if template:
            parts.append(f"TO_CHAR({moment}, '{template}')")
    return collated(f"({' || '.join(parts)})") if parts else f"CASE WHEN {given[0]} IS NOT NULL THEN '' END"


def _plain(words: str) -> str:
    """Return words that stand for themselves in a template."""
    return words.replace("\\", "\\\\").replace('"', '\\"').replace("'", "''")


_OTHERWISE: dict[str, Callable[[Sequence[str]], str]] = {
    "length": lambda given: f"CHAR_LENGTH({given[0]})",
    "strlen": lambda given: f"OCTET_LENGTH({given[0]})",
    "split_part": lambda given: f"SPLIT_PART({given[0]}, {given[1]}, CAST({given[2]} AS integer))",
    "strftime": _formatted,
    "date_trunc": lambda given: f"DATE_TRUNC({given[0]}, {given[1]})",
    "contains": lambda given: f"(STRPOS({given[0]}, {given[1]}) > 0)",
    "trim": _trimmed("BTRIM"),
    "ltrim": _trimmed("LTRIM"),
    "rtrim": _trimmed("RTRIM"),
    "lower": _cased("LOWER"),
    "upper": _cased("UPPER", "\u00df", "\u1e9e"),
    "ends_with": lambda given: f"(RIGHT({given[0]}, CHAR_LENGTH({given[1]})) = {given[1]})",
    "ln": lambda given: f"CASE WHEN {given[0]} > 0 THEN LN({given[0]}) END",
    "log10": lambda given: f"CASE WHEN {given[0]} > 0 THEN LOG({given[0]}) END",
    "sqrt": lambda given: f"CASE WHEN {given[0]} >= 0 THEN SQRT({given[0]}) END",
    "exp": lambda given: (
        f"CASE WHEN {given[0]} < -708 THEN {number(0)} WHEN {given[0]} <= 709 THEN EXP({given[0]}) END"
    ),
}


class PostgreSQLDialect(ServerDialect):
    """How PostgreSQL spells the primitives."""

    name: ClassVar[str] = "postgresql"
    engine: ClassVar[str] = "PostgreSQL"
    alike: ClassVar[frozenset[str]] = _ALIKE
    otherwise: ClassVar[Mapping[str, Callable[[Sequence[str]], str]]] = _OTHERWISE
    anti_joins: ClassVar[bool] = False
    fence: ClassVar[str] = " OFFSET 0"
    longest: ClassVar[int] = 50_000
    floats_raise: ClassVar[bool] = True

    def type_name(self, neutral: str) -> str:
        """Return PostgreSQL's word for a type."""
        return type_name(neutral)

    def double(self, digits: str) -> str:
        """Return a typed constant: a plain one would be numeric."""
        return f"FLOAT8 '{digits.replace('inf', 'Infinity')}'"

    def array(self, values: Sequence[str]) -> str:
        """Return an array."""
        return f"ARRAY[{', '.join(values)}]"

    def cast(self, value: str, to: str, of: str | None = None) -> str:
        """Return a cast that the caller has shown to succeed."""
        if of == "BOOLEAN":
            value = f"CAST({value} AS integer)"
        if of == "DOUBLE" and to == "HUGEINT":
            return whole_from_float(value)
        made = f"CAST({value} AS {type_name(to)})"
        return collated(made) if to == "VARCHAR" else made

    def guarded_cast(self, value: str, to: str, of: str | None) -> str | None:
        """Return a cast that gives NULL where it would fail."""
        return try_cast(value, to, of)

    # numbers

    def finite(self, value: str) -> str:
        """Return whether a float is finite; NaN is larger than all."""
        return f"({value} > FLOAT8 '-Infinity' AND {value} < FLOAT8 'Infinity')"

    def nan(self, value: str) -> str:
        """Return whether a float is NaN, which equals itself."""
        return f"({value} = FLOAT8 'NaN')"

    def rounded(self, value: str, digits: int | None = None) -> str:
        """Return a float rounded half away from zero."""
        if digits:
            unit = number(10 ** abs(digits))
            up, down = ("*", "/") if digits > 0 else ("/", "*")
            index = self.rounded(self.float_operation(up, value, unit, (None, _of(10 ** abs(digits)))))
            return self.float_operation(down, index, unit, (_of(1), _of(10 ** abs(digits))))
        return f"TRUNC({value} + SIGN({value}) * {_HALF})"

    def scaled(self, value: str, inverse: str | None, step: str | None, most: Fraction | None) -> str:
        """Return a float on a grid; numbers that are so large that the product might overflow keep their sign."""
        if inverse is None and step is None:
            return self.rounded(value)
        by = f"{value} * {inverse}" if inverse is not None else f"{value} / {step}"
        index = self.rounded(f"({by})")
        if step is not None:  # a tiny number over a step above 1 underflows
            index = f"CASE WHEN ABS({value}) < {number('1e-280')} THEN {number(0)} ELSE {index} END"
        if most is not None and most < Fraction(10) ** 280:
            return index
        large = f"CASE WHEN ABS({value}) <= {number('1e280')} THEN {index} ELSE SIGN({value}) * {number('1e200')} END"
        return f"CASE WHEN {value} IS NOT NULL THEN {large} END"

    def quotient(self, left: str, right: str, *, wide: bool = False) -> str:
        """Return a truncated quotient."""
        return f"DIV({left}, {right})" if wide else f"({left} / {right})"

    def total(self, value: str, *, wide: bool = False, narrow: bool = False) -> str:  # noqa: ARG002
        """Return the sum of bigint, in 128 bits."""
        return f"SUM({value})" if wide else f"SUM(CAST({value} AS bigint))"

    def weighted_down(self, total: str, rows: str, count: str, *, floor: bool, narrow: bool = False) -> str:  # noqa: ARG002
        """Return the quotient of numeric, truncated."""
        product = f"(CAST({total} AS numeric) * {rows})"
        return f"DIV({product} - ({count} - 1), {count})" if floor else f"DIV({product}, {count})"

    def float_operation(self, operator: str, left: str, right: str, spans: Sequence[Span | None]) -> str:
        """Return arithmetic of floats, bare where their spans prove it safe."""
        if operator == "%":
            raise self.unsupported(
                "the remainder of numbers with a point", "use whole numbers, such as CAST(x AS BIGINT)"
            )
        one, other = (*spans, None, None)[:2]
        plain = f"({left} {operator} {right})"
        if operator in "+-":
            tests = [
                f"ABS({side}) <= {number('8e307')}"
                for side, span in ((left, one), (right, other))
                if span is None or span[1] > _SAFE[1]
            ]
            return f"CASE WHEN {' AND '.join(tests)} THEN {plain} END" if tests else plain
        return _product(operator, (left, one), (right, other), plain)

    def power(self, base: str, exponent: str, number: Fraction | None) -> str:
        """Return a power with an exponent that is written out, of bases whose power is surely a float."""
        if number is None:
            raise self.unsupported("POWER with an exponent that is no constant", "write the exponent out")
        return _power(base, exponent, number)

    def logarithm(self, base: str, value: str) -> str:
        """Return a logarithm of a positive float by those to the base 10, as DuckDB does: to the last bit."""
        return f"CASE WHEN {base} > 0 THEN LOG({value}) / NULLIF(LOG({base}), 0) END"

    # order, comparisons and statements

    def row_hash(self, values: Sequence[str], salt: str) -> str:
        """Return a hash of a record, which takes values of all types, and NULL."""
        return f"HASH_RECORD_EXTENDED(ROW({', '.join(values)}), {salt})"

    def unit_number(self, key: str, unit: str) -> str:
        """Return half of an MD5 hash."""
        return f"CAST(CAST('x' || RIGHT(MD5({key} || CAST({unit} AS text)), 16) AS bit(64)) AS bigint)"

    def rows_of(self, arrays: Sequence[tuple[str, str]], label: str, columns: Sequence[str]) -> str:
        """Return UNNEST of several arrays, side by side; texts are compared by their bytes."""
        named = ", ".join(map(self.quoted, columns))
        made = ", ".join(f"CAST({array} AS {self.array_type(of)})" for array, of in arrays)
        cells = [
            f'{self.quoted(name)} COLLATE "C" AS {self.quoted(name)}' if of == "VARCHAR" else self.quoted(name)
            for (_, of), name in zip(arrays, columns, strict=True)
        ]
        return f"(SELECT {', '.join(cells)} FROM UNNEST({made}) AS l({named})) AS {self.quoted(label)}"  # noqa: S608

    def matches(self, left: str, right: str, form: str) -> str:
        """Return equality that a hash join can use: IS NOT DISTINCT FROM would make it a nested loop."""
        none = _NULLS.get(form, "0")
        same = f"COALESCE({left}, {none}) = COALESCE({right}, {none})"
        return f"({same} AND ({left} IS NULL) = ({right} IS NULL))"

    def apart(self, value: str) -> str:
        """Return a value made by a function that returns rows, which no condition is put through."""
        return f"UNNEST(ARRAY[{value}])"

    # texts

    def substring(self, value: str, start: int, size: int) -> str:
        """Return characters of a text."""
        if start < 0:
            raise self.unsupported("SUBSTRING from the end", "use RIGHT(text, n), and LEFT of that")
        return f"SUBSTRING({value} FROM {start} FOR {size})"

    def like(self, value: str, pattern: str) -> str:
        """Return LIKE without its default escape character."""
        return f"({value} LIKE {pattern} ESCAPE '')"

    def like_escaped(self, value: str, characters: Sequence[tuple[str, bool]], expression: str) -> str:  # noqa: ARG002
        """Return LIKE, whose matcher gives up a place of a text for good where what follows does not match."""
        pattern = "".join("\\" + one if meant and one in "%_\\" else one for one, meant in _escaped(characters))
        return f"({value} LIKE {self.text(pattern)} ESCAPE '\\')"

    # dates and times

    def days(self, value: str) -> str:
        """Return a difference of dates, which is an integer."""
        return f"({value} - DATE '1970-01-01')"

    def microseconds(self, value: str) -> str:
        """Return the exact numeric of the epoch in microseconds."""
        return f"CAST(EXTRACT(EPOCH FROM {value}) * 1000000 AS bigint)"

    def date_part(self, part: str, value: str) -> str:
        """Return a part of a date or timestamp."""
        return f"CAST(FLOOR(EXTRACT({_PARTS.get(part, part.upper())} FROM {value})) AS bigint)"

    def date_trunc(self, unit: str, value: str, form: str) -> str:  # noqa: ARG002
        """Return the start of a unit; of a plain date it would depend on the session's time zone."""
        return f"DATE_TRUNC('{unit}', CAST({value} AS timestamp))"

    def date_diff(self, unit: str, first: str, second: str) -> str:
        """Return the difference of the numbers of two units; of dates in weeks, the whole weeks between them."""
        if unit == "week":
            return f"(({second} - {first}) / 7)"
        return f"({_unit_number(unit, second)} - {_unit_number(unit, first)})"

    def shifted(self, value: str, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp plus an interval."""
        return f"{value} + INTERVAL '{months} months {days} days {microseconds} microseconds'"

    def year(self, value: str) -> str:
        """Return the year of a timestamp."""
        return f"EXTRACT(YEAR FROM {value})"


def _of(value: int) -> Span:
    return Fraction(value), Fraction(value)


def _product(operator: str, one: tuple[str, Span | None], two: tuple[str, Span | None], plain: str) -> str:
    """Return a product or quotient: bare, or of operands between 10⁻¹⁵⁰ and 10¹⁵⁰; a smaller one counts as 0."""
    (left, mine), (right, theirs) = one, two
    if mine is not None and theirs is not None:
        if operator == "*":
            ends = mine[0] * theirs[0], mine[1] * theirs[1]
        else:
            ends = mine[0] / theirs[1], mine[1] / theirs[0]
        if ends[0] >= _SAFE[0] and ends[1] <= _SAFE[1]:
            return plain if operator == "*" else f"CASE WHEN {right} <> 0 THEN {plain} END"
    small, large = number("1e-150"), number("1e150")
    tests = [f"ABS({side}) <= {large}" for side, span in (one, two) if span is None or span[1] > Fraction(10) ** 150]
    tiny = [f"ABS({side}) < {small}" for side, span in (one, two) if span is None or span[0] < Fraction(1, 10**150)]
    if operator == "/":
        tests = [f"ABS({right}) >= {small}", *tests]
        tiny = [test for test in tiny if test.startswith(f"ABS({left})")]
    if tiny:  # only of two numbers: the product of 0 and NULL is NULL
        tests = [f"{left} IS NOT NULL", f"{right} IS NOT NULL", *tests]
        plain = f"CASE WHEN {' OR '.join(tiny)} THEN {number(0)} ELSE {plain} END"
    return f"CASE WHEN {' AND '.join(tests)} THEN {plain} END" if tests else plain


def _power(base: str, exponent: str, number_: Fraction) -> str:
    """Return a power of a base whose magnitude is neither too small nor too large, or NULL; a tiny one counts as 0."""
    made = f"POWER({base}, {exponent})"
    if not number_:
        return f"CASE WHEN {base} IS NOT NULL THEN {number(1)} END"
    most = int(300 / max(abs(number_), Fraction(1)))
    inside = f"ABS({base}) BETWEEN {number(f'1e-{most}')} AND {number(f'1e{most}')}"
    if number_.denominator > 1:
        inside += f" AND {base} > 0"
    tiny = f"WHEN ABS({base}) < {number(f'1e-{most}')} THEN {number(0)} " if number_ > 0 else ""
    return f"CASE {tiny}WHEN {inside} THEN {made} END"


def _escaped(characters: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return a pattern's characters, of which a backslash always stands for itself."""
    return [(one, meant or one == "\\") for one, meant in characters]


def _unit_number(unit: str, value: str) -> str:
    """Return which year, month, … a date or timestamp lies in, counted from anywhere."""
    year = f"CAST(EXTRACT(YEAR FROM {value}) AS bigint)"
    match unit:
        case "year":
            return year
        case "quarter" | "month":
            many = 4 if unit == "quarter" else 12
            return f"({year} * {many} + CAST(EXTRACT({unit.upper()} FROM {value}) AS bigint))"
        case "day":
            return f"(CAST({value} AS date) - DATE '1970-01-01')"
    seconds = {"hour": 3600, "minute": 60, "second": 1}[unit]
    return f"CAST(FLOOR(EXTRACT(EPOCH FROM {value}) / {seconds}) AS bigint)"


POSTGRESQL = PostgreSQLDialect()
