r"""Spark's words, written so that no row can make a statement fail.

Sessions are in ANSI mode, where a sum, a cast or a division that has no result raises. It is never reached:

* casts are guarded for each pair of types (`hush.engines.spark.casts`), and divisors that may be 0 by a CASE;
* whole numbers are BIGINT where public bounds prove that they fit, and DECIMAL(38,0) otherwise, which holds 2¹²⁶;
* ``div`` silently wraps beyond 64 bits, so the quotient of decimals is (a - a % b) / b, which leaves nothing to round:
  Spark keeps 32 digits before the point, 2¹⁰⁶, and six behind it;
* FLOOR and CEIL return BIGINT and raise beyond it, so floats from 2⁵² on, which are whole, are left alone;
* guards are branches of CASE, never conditions joined by AND or WHERE, whose order an optimiser may change.

**Rounding** goes half away from zero: trunc(x + sign(x)·h), with h the float below 1/2 (the proof is in
`hush.engines.postgresql.dialect`), where bounds prove that 64 bits hold the result; else ROUND, which takes the
shortest digits of x. These are on the same side of n + 1/2 as x, because n + 1/2 is a float and has its own digits.

**LIKE** would become a regular expression of Java's, which goes back and takes a time that grows with a power of the
text's length. Here each part between two ``%`` is an atomic group, ``(?>.*?part)``: what it has found first it keeps,
which is right because a part has a fixed length, and the time is that of a search.

**Texts** are constants with escaped quotes and dollar signs: Spark puts variables of its configuration into statements
where it finds ``${…}``, also inside of quotes, unless the session forbids it, and ours does.

**Lists** of keys and the tables that are files stand in a statement as ``HUSH_ROWS(…)`` and ``HUSH_SOURCE(…)``, in
whose places a transaction puts the names of views (`hush.engines.spark.session`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from hush.engines.spark.casts import number, text, text_in, try_cast, type_name, whole_from_float
from hush.engines.sql.dialect import UNICODE_SPACES, ServerDialect, Span

_HALF = "0.49999999999999994e0D"
_WHOLE_FROM = number(2.0**52)
_ALIKE = frozenset(
    {
        *("coalesce", "count", "min", "max", "abs", "sqrt", "exp", "ln", "log10", "length", "contains", "replace"),
        *("left", "right", "lower", "upper", "dense_rank", "row_number", "rank", "lag", "lead"),
    }
)
_PARTS = {"week": "WEEKOFYEAR"}
_SPECIAL = frozenset(r"\.+*?()|[]{}^$-&~#")
_LONG_AGO = 36 * 10**16
"""Microseconds, a whole number of hours, from long before the year 1 to 1970."""


def _whole_float(function: str) -> Callable[[Sequence[str]], str]:
    """Return FLOOR, CEIL or a truncation of floats, which are whole from 2⁵² on."""
    made = "CAST({0} AS BIGINT)" if function == "TRUNC" else function + "({0})"
    return lambda given: (
        f"CASE WHEN ABS({given[0]}) < {_WHOLE_FROM} THEN CAST({made.format(given[0])} AS DOUBLE) ELSE {given[0]} END"
    )


def _trimmed(side: str) -> Callable[[Sequence[str]], str]:
    return lambda given: f"TRIM({side} '{UNICODE_SPACES}' FROM {given[0]})"


def _extreme(function: str) -> Callable[[Sequence[str]], str]:
    return lambda given: f"{function}({', '.join(given)})" if len(given) > 1 else given[0]


_OTHERWISE: dict[str, Callable[[Sequence[str]], str]] = {
    "sum": lambda given: f"SUM(CAST({given[0]} AS DECIMAL(38,0)))",
    "least": _extreme("LEAST"),
    "greatest": _extreme("GREATEST"),
    "unnest": lambda given: f"EXPLODE({given[0]})",
    "floor": _whole_float("FLOOR"),
    "ceil": _whole_float("CEIL"),
    "trunc": _whole_float("TRUNC"),
    "strpos": lambda given: f"INSTR({given[0]}, {given[1]})",
    "ends_with": lambda given: f"ENDSWITH({given[0]}, {given[1]})",
    "strlen": lambda given: f"OCTET_LENGTH({given[0]})",
    "starts_with": lambda given: f"STARTSWITH({given[0]}, {given[1]})",
    "trim": _trimmed("BOTH"),
    "ltrim": _trimmed("LEADING"),
    "rtrim": _trimmed("TRAILING"),
    "date_trunc": lambda given: f"CAST(DATE_TRUNC({given[0]}, CAST({given[1]} AS TIMESTAMP)) AS TIMESTAMP_NTZ)",
}


class SparkDialect(ServerDialect):
    """How Spark spells the primitives."""

    name: ClassVar[str] = "spark"
    engine: ClassVar[str] = "Spark"
    alike: ClassVar[frozenset[str]] = _ALIKE
    otherwise: ClassVar[Mapping[str, Callable[[Sequence[str]], str]]] = _OTHERWISE
    looks_up: ClassVar[bool] = False
    unnests_together: ClassVar[bool] = False
    narrows: ClassVar[bool] = True
    numbers_closely: ClassVar[bool] = False
    sail: ClassVar[bool] = False
    """Whether the server is Sail, whose RINT and regular expressions are others."""
    longest: ClassVar[int] = 200_000

    def quoted(self, name: str) -> str:
        """Return an identifier in backticks."""
        return "`" + name.replace("`", "``") + "`"

    def type_name(self, neutral: str) -> str:
        """Return Spark's word for a type."""
        return type_name(neutral)

    def text(self, value: str) -> str:
        """Return a text constant."""
        return text(value)

    def double(self, digits: str) -> str:
        """Return a typed constant: a plain one would be a decimal."""
        made = number(digits)
        return f"({made})" if made.startswith("-") else made

    def array(self, values: Sequence[str]) -> str:
        """Return an array."""
        return f"ARRAY({', '.join(values)})"

    def array_type(self, neutral: str) -> str:
        """Return the type of arrays."""
        return f"ARRAY<{type_name(neutral)}>"

    def cast(self, value: str, to: str, of: str | None = None) -> str:
        """Return a cast that the caller has shown to succeed."""
        if of == "BOOLEAN" and to != "VARCHAR":
            value = f"CAST({value} AS INT)"
        if of == "DOUBLE" and to == "HUGEINT":
            return whole_from_float(value)
        return f"CAST({value} AS {type_name(to)})"

    def guarded_cast(self, value: str, to: str, of: str | None) -> str | None:
        """Return a cast that gives NULL where it would fail."""
        return try_cast(value, to, of, sail=self.sail)

    # numbers

    def finite(self, value: str) -> str:
        """Return whether a float is finite; NaN is larger than all."""
        return f"({value} > {number('-inf')} AND {value} < {number('inf')})"

    def rounded(self, value: str, digits: int | None = None) -> str:
        """Return a float rounded half away from zero."""
        if digits:
            unit = number(10 ** abs(digits))
            up, down = ("*", "/") if digits > 0 else ("/", "*")
            made = f"(ROUND({value} {up} {unit}) {down} {unit})"
            near = f"ABS({value} * {unit}) < {number('inf')}"
            return f"CASE WHEN {near} THEN {made} ELSE {value} END" if digits > 0 else made
        return f"ROUND({value})"

    def scaled(self, value: str, inverse: str | None, step: str | None, most: Fraction | None) -> str:
        """Return a float on a grid, by arithmetic of 64 bits where bounds prove that they hold it."""
        size = most
        by = value
        if inverse is not None:
            by, size = f"({value} * {inverse})", None if most is None else most * Fraction(inverse.rstrip("D"))
        elif step is not None:
            by, size = f"({value} / {step})", None if most is None else most / Fraction(step.rstrip("D"))
        if size is None or size >= 2**52:
            return self.rounded(by)
        return f"CAST(TRY_CAST({by} + SIGN({value}) * {_HALF} AS BIGINT) AS DOUBLE)"

    def quotient(self, left: str, right: str, *, wide: bool = False) -> str:
        """Return a truncated quotient: of BIGINT by div, of decimals by a division that leaves no rest."""
        return f"CAST(({left} - {left} % {right}) / {right} AS DECIMAL(38,0))" if wide else f"({left} div {right})"

    def total(self, value: str, *, wide: bool = False, narrow: bool = False) -> str:  # noqa: ARG002
        """Return the sum of BIGINT where it is proved to fit, else of decimals, which is exact, too."""
        return f"SUM(CAST({value} AS {'BIGINT' if narrow else 'DECIMAL(38,0)'}))"

    def weighted_down(self, total: str, rows: str, count: str, *, floor: bool, narrow: bool = False) -> str:
        """Return q·rows + trunc(t·rows/count) for total = q·count + t: t·rows is below 2⁶⁰."""
        rest = f"CAST({total} % {count} AS BIGINT) * {rows}"
        less = f"({rest} - ({count} - 1)) div {count}" if floor else f"({rest}) div {count}"
        return f"({self.quotient(total, count, wide=not narrow)} * {rows} + {less})"

    def float_operation(self, operator: str, left: str, right: str, spans: Sequence[Span | None]) -> str:  # noqa: ARG002
        """Return arithmetic of floats, which raises for a divisor of 0 alone."""
        plain = f"({left} {operator} {right})"
        return f"CASE WHEN {right} <> 0 THEN {plain} END" if operator in "/%" else plain

    # order, comparisons and statements

    def row_hash(self, values: Sequence[str], salt: str) -> str:
        """Return a hash of 64 bits."""
        return f"XXHASH64({', '.join([*values, salt])})"

    def unit_number(self, key: str, unit: str) -> str:
        """Return half of an MD5 hash, from two numbers of 32 bits."""
        hashed = f"MD5({key} || CAST({unit} AS STRING))"
        high, low = (f"CAST(CONV(SUBSTRING({hashed}, {start}, 8), 16, 10) AS BIGINT)" for start in (17, 25))
        return f"(({high} - 2147483648) * 4294967296 + {low})"

    def row_number(self) -> str:
        """Return a number that needs no order; ROW_NUMBER would bring all rows to one machine."""
        return "MONOTONICALLY_INCREASING_ID()"

    def ascending(self, value: str) -> str:
        """Return an order with NULLs last, where Spark has them first."""
        return f"{value} ASC NULLS LAST"

    def rows_of(self, arrays: Sequence[tuple[str, str]], label: str, columns: Sequence[str]) -> str:
        """Return what stands for a view of arrays side by side."""
        cells = [f"{array} {type_name(of)} {name}" for (array, of), name in zip(arrays, columns, strict=True)]
        return f"HUSH_ROWS({', '.join(cells)}) AS {self.quoted(label)}"

    def constant_rows(self, rows: Sequence[Sequence[str]], label: str, columns: Sequence[str]) -> str:
        """Return rows that are written out."""
        cells = ", ".join(f"({', '.join(row)})" for row in rows)
        return f"(VALUES {cells}) AS {self.quoted(label)}({', '.join(map(self.quoted, columns))})"

    def matches(self, left: str, right: str, form: str) -> str:  # noqa: ARG002
        """Return equality of values that may be NULL."""
        return f"({left} <=> {right})"

    def apart(self, value: str) -> str:
        """Return the value itself: Spark does not put an expression in place of a column that is named twice."""
        return value

    def once(self, label: str, query: str) -> str:
        """Return a query that WITH names; it is computed anew where it is named again, from the same rows."""
        return f"{label} AS ({query})"

    # texts

    def substring(self, value: str, start: int, size: int) -> str:
        """Return characters of a text."""
        if start < 0:
            raise self.unsupported("SUBSTRING from the end", "use RIGHT(text, n), and LEFT of that")
        first, many = max(start, 1), max(0, size - max(0, 1 - start))
        return f"SUBSTRING({value}, {first}, {many})"

    def like(self, value: str, pattern: str) -> str:
        """Return LIKE for a pattern that is a text constant of ours."""
        return self.like_escaped(value, [(one, False) for one in text_in(pattern)], "")

    def like_escaped(self, value: str, characters: Sequence[tuple[str, bool]], expression: str) -> str:  # noqa: ARG002
        """Return whether a text matches a pattern, part by part."""
        return f"({value} RLIKE {text(atomic_expression(characters, atomic='' if self.sail else '>'))})"

    # dates and times

    def days(self, value: str) -> str:
        """Return a date as days since 1970."""
        return f"UNIX_DATE({value})"

    def microseconds(self, value: str) -> str:
        """Return a timestamp as microseconds since 1970; the session's time zone is UTC."""
        return f"UNIX_MICROS(CAST({value} AS TIMESTAMP))"

    def date_part(self, part: str, value: str) -> str:
        """Return a part of a date or timestamp; Spark's Sunday is 1."""
        if part == "dayofweek":
            return f"(DAYOFWEEK({value}) - 1)"
        return f"{_PARTS.get(part, part.upper())}({value})"

    def date_trunc(self, unit: str, value: str, form: str) -> str:  # noqa: ARG002
        """Return the start of a unit."""
        return _OTHERWISE["date_trunc"]([f"'{unit}'", f"CAST({value} AS TIMESTAMP_NTZ)"])

    def date_diff(self, unit: str, first: str, second: str) -> str:
        """Return the difference of the numbers of two units; of dates in weeks, the whole weeks between them."""
        if unit == "week":
            return f"((UNIX_DATE({second}) - UNIX_DATE({first})) div 7)"
        return f"({self._unit_number(unit, second)} - {self._unit_number(unit, first)})"

    def _unit_number(self, unit: str, value: str) -> str:
        """Return which year, month, … a date or timestamp lies in, counted from anywhere."""
        match unit:
            case "year":
                return f"CAST(YEAR({value}) AS BIGINT)"
            case "quarter" | "month":
                many = 4 if unit == "quarter" else 12
                return f"(CAST(YEAR({value}) AS BIGINT) * {many} + {unit.upper()}({value}))"
            case "day":
                return f"CAST(UNIX_DATE(CAST({value} AS DATE)) AS BIGINT)"
        seconds = {"hour": 3600, "minute": 60, "second": 1}[unit]
        return f"(({self.microseconds(value)} + {_LONG_AGO}) div {seconds * 10**6})"

    def shifted(self, value: str, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp plus months, then plus microseconds."""
        moved = f"({value} + INTERVAL '{months}' MONTH)" if months else value
        more = days * 86_400 * 10**6 + microseconds
        return f"CAST(TIMESTAMP_MICROS({self.microseconds(moved)} + {more}) AS TIMESTAMP_NTZ)" if more else moved

    def year(self, value: str) -> str:
        """Return the year of a timestamp."""
        return f"YEAR({value})"


def atomic_expression(characters: Sequence[tuple[str, bool]], atomic: str = ">") -> str:
    r"""Return a pattern as a regular expression of Java's that never goes back further than one part.

    Where expressions are automata, as Rust's are, groups need not be ``atomic``.

    >>> atomic_expression([(one, False) for one in "a%b_%c"])
    '(?s)\\Aa(?>.*?b.).*c\\z'
    """
    parts: list[str] = [""]
    for character, meant in characters:
        if character == "%" and not meant:
            parts.append("")
        elif character == "_" and not meant:
            parts[-1] += "."
        else:
            parts[-1] += "\\" + character if character in _SPECIAL else character
    if len(parts) == 1:
        return rf"(?s)\A{parts[0]}\z"
    middle = "".join(f"(?{atomic or ':'}.*?{part})" for part in parts[1:-1] if part)
    return rf"(?s)\A{parts[0]}{middle}.*{parts[-1]}\z"


class SailDialect(SparkDialect):
    """How Sail spells the primitives: a Spark Connect server without a JVM, whose regular expressions are automata."""

    sail: ClassVar[bool] = True

    def power(self, base: str, exponent: str, number: Fraction | None) -> str:
        """Return a power; Sail raises for one of zero that is negative."""
        made = super().power(base, exponent, number)
        if number is not None and number >= 0:
            return made
        return f"CASE WHEN {base} = 0 AND {exponent} < 0 THEN CAST('inf' AS DOUBLE) ELSE {made} END"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of a function that is known to mean the same."""
        if function == "date_trunc":
            return self.date_trunc(arguments[0].strip("'"), arguments[1], "TIMESTAMP")
        return super().call(function, arguments)

    def date_trunc(self, unit: str, value: str, form: str) -> str:
        """Return the start of a unit; Sail's own function raises where 64 bits of nanoseconds end, in 1677 and 2262."""
        day = f"CAST({value} AS DATE)"
        starts = {
            "year": f"MAKE_DATE(YEAR({day}), 1, 1)",
            "quarter": f"MAKE_DATE(YEAR({day}), 3 * QUARTER({day}) - 2, 1)",
            "month": f"MAKE_DATE(YEAR({day}), MONTH({day}), 1)",
            "week": f"DATE_SUB({day}, (DAYOFWEEK({day}) + 5) % 7)",
            "day": day,
        }
        if unit in starts:
            return f"CAST({starts[unit]} AS TIMESTAMP_NTZ)"
        moment = self.microseconds(f"CAST({value} AS TIMESTAMP_NTZ)" if form == "DATE" else value)
        length = {"hour": 3_600, "minute": 60, "second": 1}[unit] * 10**6
        return f"CAST(TIMESTAMP_MICROS({moment} - PMOD({moment}, {length})) AS TIMESTAMP_NTZ)"


SPARK, SAIL = SparkDialect(), SailDialect()
