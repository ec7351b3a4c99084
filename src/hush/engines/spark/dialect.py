r"""How Spark spells SQL, so that no row can make a statement fail.

Sessions are in ANSI mode, where a sum, a cast or a division that has no result raises. It is never reached:

* casts are guarded for each pair of types. TRY_CAST alone is not enough: a float 2⁶³ becomes 2⁶³ - 1, floats are
  truncated instead of rounded, a float becomes the decimal of its shortest digits instead of its own, and a date too
  late for a timestamp is NULL in a column that Spark takes to have none;
* divisors that may be 0 are guarded by a CASE;
* whole numbers are BIGINT where public bounds prove that they fit, and DECIMAL(38,0) otherwise, which holds 2¹²⁶;
* ``div`` silently wraps beyond 64 bits, so the quotient of decimals is (a - a % b) / b, which leaves nothing to round:
  Spark keeps 32 digits before the point, 2¹⁰⁶, and six behind it;
* FLOOR and CEIL return BIGINT and raise beyond it, so floats from 2⁵² on, which are whole, are left alone;
* guards are branches of CASE, never conditions joined by AND or WHERE, whose order an optimiser may change.

>>> SPARK.try_cast("`x`", "BIGINT", "DOUBLE")
'CASE WHEN `x` >= -9223372036854775808e0D AND `x` < 9223372036854775808e0D THEN CAST(RINT(`x`) AS BIGINT) END'

**Texts become numbers, dates and times** by the grammar that engines share (`hush.engines.postgresql.dialect`), and
never by Spark's own reading alone: ``1.5f``, ``2021`` and ``now`` mean something to Spark. The grammar also
bounds how many digits a number and its exponent have: to round 1e-999999999 would take hours.

**Rounding** goes half away from zero: trunc(x + sign(x)·h), with h the float below 1/2 (the proof is in
`hush.engines.postgresql.dialect`), where bounds prove that 64 bits hold the result; else ROUND, which takes the
shortest digits of x. These are on the same side of n + 1/2 as x, because n + 1/2 is a float and has its own digits.

**LIKE** would become a regular expression of Java's, which goes back and takes a time that grows with a power of the
text's length. Here each part between two ``%`` is an atomic group, ``(?>.*?part)``: what it has found first it keeps,
which is right because a part has a fixed length, and the time is that of a search.

**Texts** are constants with escaped quotes and dollar signs: Spark puts variables of its configuration into statements
where it finds ``${…}``, also inside of quotes, unless the session forbids it, and ours does.

**Lists** of keys and the tables that are files are views, which a transaction makes (`hush.engines.spark.connection`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from hush.engines.sql.dialect import FIXED, FLOATS, TIMES, UNICODE_SPACES, Pattern, ServerDialect
from hush.engines.sql.nodes import Span

_NAMES = {
    "HUGEINT": "DECIMAL(38,0)", "VARCHAR": "STRING", "INTEGER": "INT", "TIMESTAMP": "TIMESTAMP_NTZ",
    "UTINYINT": "SMALLINT", "USMALLINT": "INT", "UINTEGER": "BIGINT", "UBIGINT": "DECIMAL(20,0)",
}  # fmt: skip
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
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


def text(value: str) -> str:
    r"""Return a text constant, in which quotes and the sign before a variable or a parameter are escaped.

    >>> text("it's ${env:HOME} \\")
    "'it\\u0027s \\u0024{env:HOME} \\\\'"
    """
    return "'" + value.translate(_ESCAPES) + "'"


def number(digits: float | str) -> str:
    """Return a float constant."""
    literal = str(digits)
    if "inf" in literal:
        return "CAST('-Infinity' AS DOUBLE)" if literal.startswith("-") else "CAST('Infinity' AS DOUBLE)"
    return f"{literal}D" if "e" in literal else f"{literal}e0D"


def _digits_of_float(value: str, width: int, scale: int) -> str:
    """Return a float as a decimal by round(x·10ˢ), as other engines do; Spark's own cast rounds its shortest digits.

    Whole numbers of 19 digits times 10⁻ˢ have 20 + s digits, of which Spark keeps all while s ≤ 17.
    """
    limit = min(10 ** (width - scale) - 1, 9 * 10**18 // 10**scale)
    index = f"CAST({value} * {number(float(10**scale))} + SIGN({value}) * {_HALF} AS BIGINT)"
    unit = f"CAST('{10**-scale:.{scale}f}' AS DECIMAL({scale + 1},{scale}))"
    decimal = f"CAST(CAST({index} AS DECIMAL(19,0)) * {unit} AS DECIMAL({width},{scale}))"
    return f"CASE WHEN ABS({value}) < {number(limit)} THEN {decimal} END"


_WHOLE_FROM = number(2.0**52)
_ALIKE = frozenset(
    {
        *("coalesce", "count", "min", "max", "abs", "sqrt", "exp", "ln", "log10", "length", "contains", "replace"),
        *("left", "right", "lower", "upper", "least", "greatest", "dense_rank", "row_number", "rank", "lag", "lead"),
        *("isnan", "log", "year", "quarter", "month", "day", "dayofyear", "hour", "minute", "second"),
    }
)
_SPECIAL = frozenset(r"\.+*?()|[]{}^$-&~#")
_REPLACED = "\ufffd"
_GROUP = "\\"
"""The sign before the number of a group in other engines' replacements."""


def _whole_float(template: str) -> str:
    """Return FLOOR, CEIL or a truncation of floats, which are whole from 2⁵² on."""
    return f"CASE WHEN ABS({{0}}) < {_WHOLE_FROM} THEN CAST({template} AS DOUBLE) ELSE {{0}} END"


_OTHERWISE = {
    "sum": "SUM(CAST({0} AS DECIMAL(38,0)))",
    "unnest": "EXPLODE({0})",
    "floor": _whole_float("FLOOR({0})"),
    "ceil": _whole_float("CEIL({0})"),
    "trunc": _whole_float("CAST({0} AS BIGINT)"),
    "strpos": "INSTR({0}, {1})",
    "ends_with": "ENDSWITH({0}, {1})",
    "strlen": "OCTET_LENGTH({0})",
    "starts_with": "STARTSWITH({0}, {1})",
    "trim": f"TRIM(BOTH '{UNICODE_SPACES}' FROM {{0}})",
    "ltrim": f"TRIM(LEADING '{UNICODE_SPACES}' FROM {{0}})",
    "rtrim": f"TRIM(TRAILING '{UNICODE_SPACES}' FROM {{0}})",
    "isfinite": f"({{0}} > {number('-inf')} AND {{0}} < {number('inf')})",
    "apart": "{0}",  # Spark does not put an expression in place of a column that is named twice
    "count_if": ServerDialect.otherwise["count_if"],
    "row_id": "MONOTONICALLY_INCREASING_ID()",  # ROW_NUMBER would bring all rows to one machine
    "week": "WEEKOFYEAR({0})",
    "dayofweek": "(DAYOFWEEK({0}) - 1)",  # Sunday is 1
    "epoch_days": "UNIX_DATE({0})",
    "epoch_us": "UNIX_MICROS(CAST({0} AS TIMESTAMP))",  # the session's time zone is UTC
    "stored_instant": "CAST({0} AS TIMESTAMP_NTZ)",  # as a clock in UTC shows it
}


class SparkDialect(ServerDialect):
    """How Spark spells the primitives."""

    name: ClassVar[str] = "spark"
    engine: ClassVar[str] = "Spark"
    alike: ClassVar[frozenset[str]] = _ALIKE
    otherwise: ClassVar[Mapping[str, str]] = _OTHERWISE
    bits: ClassVar[Mapping[str, int]] = _BITS
    days_of_times: ClassVar[tuple[str, str]] = ("DATE'0001-01-01'", "DATE'9999-12-31'")
    looks_up: ClassVar[bool] = False
    narrows: ClassVar[bool] = True
    numbers_closely: ClassVar[bool] = False
    lists_are_views: ClassVar[bool] = True
    sail: ClassVar[bool] = False
    """Whether the server is Sail, which has another RINT and other regular expressions."""
    longest: ClassVar[int] = 100_000
    """Half of a length at which planning alone took all memory of a driver: each of Spark's rules copies the tree."""

    def call(self, function: str, arguments: Sequence[str]) -> str:
        # LEAST and GREATEST take two at least
        single = function in {"least", "greatest"} and len(arguments) == 1
        return arguments[0] if single else super().call(function, arguments)

    def quoted(self, name: str) -> str:
        """Return an identifier in backticks."""
        return "`" + name.replace("`", "``") + "`"

    def type_name(self, neutral: str) -> str:
        return _NAMES.get(neutral, neutral)

    def text(self, value: str) -> str:
        return text(value)

    def float_constant(self, digits: str) -> str:
        """Return a typed constant: a plain one would be a decimal."""
        constant = number(digits)
        return f"({constant})" if constant.startswith("-") else constant

    def array(self, *values: str) -> str:
        return f"ARRAY({', '.join(values)})"

    def whole_from_float(self, value: str) -> str:
        """Return a whole float as a decimal: with h = trunc(x·2⁻⁶²) the rest x - h·2⁶² is a float and below 2⁶²."""
        high = f"CAST({value} * {number(2.0**-62)} AS BIGINT)"
        low = f"CAST({value} - CAST({high} AS DOUBLE) * {number(float(_SPLIT))} AS BIGINT)"
        return f"(CAST({high} AS DECIMAL(38,0)) * {_SPLIT} + {low})"

    def narrowed(self, value: str, to: str) -> str:
        return f"TRY_CAST({value} AS {self.type_name(to)})"

    fixed = narrowed

    def from_float(self, value: str, to: str) -> str | None:
        if to in _BITS:  # by its ends: TRY_CAST makes 2⁶³ - 1 of the float 2⁶³
            low, high = -(2 ** (_BITS[to] - 1)), 2 ** (_BITS[to] - 1)
            even = _EVEN.format(value) if self.sail else f"RINT({value})"
            # near the ends of 64 bits floats are whole; near those of fewer bits one may be rounded beyond them
            rounded = value if to == "BIGINT" else even
            inside = f"{rounded} >= {number(low)} AND {rounded} < {number(high)}"
            return f"CASE WHEN {inside} THEN CAST({even} AS {self.type_name(to)}) END"
        if to == "FLOAT":
            return f"CASE WHEN ABS({value}) < {number('3.4028235677973366e38')} THEN {self.cast(value, to)} END"
        fixed = FIXED.fullmatch(to)
        if fixed is None:
            return super().from_float(value, to)
        return _digits_of_float(value, int(fixed[1]), int(fixed[2]))

    def from_text(self, value: str, to: str) -> str | None:
        is_number = f"{value} RLIKE {text(_NUMBER)}"
        if to in _BITS or to == "HUGEINT":
            decimal = f"TRY_CAST({value} AS DECIMAL(38,0))"
            if self.sail:  # which reads no exponents in decimals
                far = f"ROUND(CAST({value} AS DOUBLE))"
                near = f"CASE WHEN ABS({far}) < {number(2.0**120)} THEN {self.whole_from_float(far)} END"
                decimal = f"CASE WHEN {value} RLIKE '[eE]' THEN {near} ELSE {decimal} END"
            return f"CASE WHEN {is_number} THEN {decimal if to == 'HUGEINT' else self.narrowed(decimal, to)} END"
        if to in FLOATS:  # the nearest; one that is too large is infinite, and one that is too small 0
            word = f"LOWER(TRIM(BOTH {text(_BLANK[1:-2])} FROM {value}))"
            kinds = [
                (f"{word} IN ('inf', '+inf', 'infinity', '+infinity')", "Infinity"),
                (f"{word} IN ('-inf', '-infinity')", "-Infinity"),
                (f"{word} IN ('nan', '-nan', '+nan')", "NaN"),
            ]
            whens = [f"WHEN {test} THEN CAST('{name}' AS {to})" for test, name in kinds]
            return f"CASE WHEN {is_number} THEN {self.narrowed(value, to)} {' '.join(whens)} END"
        if to in TIMES:  # written anew as Spark reads it: with four digits of a year
            plain = f"REGEXP_REPLACE({value}, {text(_DAY)}, {text('000$1-$2$3$4-$5')})"
            plain = f"REGEXP_REPLACE({plain}, '^0+([0-9]{{4}}-)', {text('$1')})"
            return f"CASE WHEN {value} RLIKE {text(f'{_DAY}{_TIME}{_BLANK}$')} THEN {self.narrowed(plain, to)} END"
        fixed = FIXED.fullmatch(to)
        if fixed is None:
            return super().from_text(value, to) if to == "BOOLEAN" else None
        cast = self.narrowed(value, to)
        if self.sail:
            far = _digits_of_float(f"TRY_CAST({value} AS DOUBLE)", int(fixed[1]), int(fixed[2]))
            cast = f"CASE WHEN {value} RLIKE '[eE]' THEN {far} ELSE {cast} END"
        return f"CASE WHEN {is_number} THEN {cast} END"

    # numbers

    def rounded(self, value: str, digits: int | None = None) -> str:
        if digits:
            unit = number(10 ** abs(digits))
            up, down = ("*", "/") if digits > 0 else ("/", "*")
            scaled_back = f"(ROUND({value} {up} {unit}) {down} {unit})"
            # a number whose product is infinite is so large that it has no digits to round
            near = f"ABS({value} * {unit}) < {number('inf')}"
            return f"CASE WHEN {near} THEN {scaled_back} ELSE {value} END" if digits > 0 else scaled_back
        return f"ROUND({value})"

    def scaled(
        self, value: str, *, times: Fraction | int | None, over: Fraction | int | None, most: Fraction | None
    ) -> str:
        """Return a float on a grid, by arithmetic of 64 bits where bounds prove that they hold it."""
        by, size = value, most
        if times is not None:
            by, size = f"({value} * {self.double(times)})", None if most is None else most * times
        elif over is not None:
            by, size = f"({value} / {self.double(over)})", None if most is None else most / over
        if size is None or size >= 2**52:
            return self.rounded(by)
        return f"CAST(TRY_CAST({by} + SIGN({value}) * {_HALF} AS BIGINT) AS DOUBLE)"

    def quotient(self, left: str, right: str, *, wide: bool = False) -> str:
        """Return a truncated quotient: of BIGINT by div, of decimals by a division that leaves no rest."""
        return f"CAST(({left} - {left} % {right}) / {right} AS DECIMAL(38,0))" if wide else f"({left} div {right})"

    def total(self, value: str, *, wide: bool = False, narrow: bool = False) -> str:  # noqa: ARG002
        """Return the sum of BIGINT where it is proved to fit, else of decimals, which is exact, too."""
        return f"SUM(CAST({value} AS {'BIGINT' if narrow else 'DECIMAL(38,0)'}))"

    def weighted_down(self, total: str, count: str, *, rows: int, floor: bool, narrow: bool = False) -> str:
        """Return q·rows + trunc(t·rows/count) for total = q·count + t: t·rows is below 2⁶⁰."""
        weighted_remainder = f"CAST({total} % {count} AS BIGINT) * {rows}"
        less = f"({weighted_remainder} - ({count} - 1)) div {count}" if floor else f"({weighted_remainder}) div {count}"
        return f"({self.quotient(total, count, wide=not narrow)} * {rows} + {less})"

    def float_operation(self, left: str, right: str, *, operator: str, spans: Sequence[Span | None]) -> str:  # noqa: ARG002
        """Return arithmetic of floats; only a divisor of 0 would raise an error, so it gives NULL."""
        plain = f"({left} {operator} {right})"
        return f"CASE WHEN {right} <> 0 THEN {plain} END" if operator in "/%" else plain

    # order, comparisons and statements

    def row_hash(self, *values: str, salt: int) -> str:
        return f"XXHASH64({', '.join([*values, str(salt)])})"

    def unit_number(self, unit: str, *, key: str) -> str:
        """Return half of an MD5 hash, from two numbers of 32 bits."""
        hashed = f"MD5({self.text(key)} || CAST({unit} AS STRING))"
        high, low = (f"CAST(CONV(SUBSTRING({hashed}, {start}, 8), 16, 10) AS BIGINT)" for start in (17, 25))
        # less 2³¹, because 64 bits with a sign do not hold the product otherwise, and an overflow raises
        return f"(({high} - 2147483648) * 4294967296 + {low})"

    def ascending(self, value: str) -> str:
        """Return an order with NULLs last, where Spark has them first."""
        return f"{value} ASC NULLS LAST"

    def empty(self, columns: Sequence[tuple[str, str]]) -> str:
        """Return a statement without rows, from Spark's types and names of its columns."""
        cells = ", ".join(f"CAST(NULL AS {of}) AS {self.quoted(name)}" for of, name in columns)
        return f"SELECT {cells} WHERE FALSE"

    # columns as tables store them

    def stored_text(self, value: str, *, plain: bool) -> str:
        """Return a stored text as valid UTF-8, compared by its bytes."""
        return f"MAKE_VALID_UTF8({self._bytes(value, plain=plain)})"

    def stored_key(self, value: str, *, plain: bool, decoded: bool) -> str:
        """Return a stored text that identifies a unit: texts that differ stay different, valid or not."""
        text_ = self._bytes(value, plain=plain)
        if decoded:  # bytes that are no UTF-8 have become one character, so it may stand for several units
            return f"CASE WHEN NOT CONTAINS({text_}, {self.text(_REPLACED)}) THEN {text_} END"
        mended = f"CONCAT(MAKE_VALID_UTF8({text_}), ' ', HEX({text_}))"
        return f"CASE WHEN IS_VALID_UTF8({text_}) THEN {text_} ELSE {mended} END"

    def _bytes(self, value: str, *, plain: bool) -> str:
        return value if plain else f"COLLATE({value}, 'UTF8_BINARY')"

    def matches(self, left: str, right: str, *, form: str) -> str:  # noqa: ARG002
        return f"({left} <=> {right})"

    def once(self, label: str, query: str) -> str:
        """Return a part of WITH: a query under a name, computed anew wherever it is named."""
        return f"{label} AS ({query})"

    # texts

    def substring(self, value: str, *, start: int, size: int) -> str:
        # places before the first character count towards the length, as they do in the other engines
        length = size if start < 0 else max(0, size - max(0, 1 - start))
        return super().substring(value, start=start if start < 0 else max(start, 1), size=length)

    def like(self, value: str, *, characters: Pattern) -> str:
        """Return whether a text matches a pattern, part by part."""
        return f"({value} RLIKE {text(atomic_expression(characters, atomic='' if self.sail else '>'))})"

    # dates and times

    def fits(self, value: str, *, expression: str) -> str:
        r"""Return whether an expression matches all of a text; ``$`` would let a line's end follow."""
        anchored = rf"\A{expression}\z"
        return f"({value} RLIKE {text(anchored)})"

    def rearranged(self, value: str, *, to: str, parts: str, order: str) -> str:
        iso = f"REGEXP_REPLACE({value}, {text(parts)}, {text(order.replace(_GROUP, '$'))})"
        return self.narrowed(iso, to)

    def formatted(self, value: str, *, pattern: str) -> str:  # noqa: ARG002
        """Refuse formats: their marks have other meanings in Spark."""
        raise self.unsupported("STRFTIME", "use another function")

    def date_trunc(self, value: str, *, unit: str, form: str) -> str:  # noqa: ARG002
        return f"CAST(DATE_TRUNC('{unit}', CAST(CAST({value} AS TIMESTAMP_NTZ) AS TIMESTAMP)) AS TIMESTAMP_NTZ)"

    def shifted(self, value: str, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp plus months, then plus microseconds."""
        moved = f"({value} + INTERVAL '{months}' MONTH)" if months else value
        more = days * 86_400 * 10**6 + microseconds
        return f"CAST(TIMESTAMP_MICROS({self.call('epoch_us', [moved])} + {more}) AS TIMESTAMP_NTZ)" if more else moved


def atomic_expression(characters: Pattern, atomic: str = ">") -> str:
    r"""Return a pattern as a regular expression of Java's that never goes back further than one part.

    Where expressions are automata, as Rust's are, groups need not be ``atomic``.

    >>> atomic_expression([(one, False) for one in "a%b_%c"])
    '(?s)\\Aa(?>.*?b.).*c\\z'
    """
    parts: list[str] = [""]
    for character, literal in characters:
        if character == "%" and not literal:
            parts.append("")
        elif character == "_" and not literal:
            parts[-1] += "."
        else:
            parts[-1] += "\\" + character if character in _SPECIAL else character
    if len(parts) == 1:
        return rf"(?s)\A{parts[0]}\z"
    middle = "".join(f"(?{atomic or ':'}.*?{segment})" for segment in parts[1:-1] if segment)
    return rf"(?s)\A{parts[0]}{middle}.*{parts[-1]}\z"


class SailDialect(SparkDialect):
    """How Sail spells the primitives: a Spark Connect server without a JVM, with automata for regular expressions."""

    sail: ClassVar[bool] = True

    def power(self, base: str, exponent: str, *, number: Fraction | None) -> str:
        """Return a power; Sail raises for one of zero that is negative."""
        plain = super().power(base, exponent, number=number)
        if number is not None and number >= 0:
            return plain
        return f"CASE WHEN {base} = 0 AND {exponent} < 0 THEN CAST('inf' AS DOUBLE) ELSE {plain} END"

    def date_trunc(self, value: str, *, unit: str, form: str) -> str:
        """Return the start of a unit; Sail's own function raises where 64 bits of nanoseconds end, in 1677 and 2262."""
        day = f"CAST({value} AS DATE)"
        starts = {
            "year": f"MAKE_DATE(YEAR({day}), 1, 1)",
            "quarter": f"MAKE_DATE(YEAR({day}), 3 * QUARTER({day}) - 2, 1)",
            "month": f"MAKE_DATE(YEAR({day}), MONTH({day}), 1)",
            # weeks begin on Monday, and DAYOFWEEK counts from Sunday as 1
            "week": f"DATE_SUB({day}, (DAYOFWEEK({day}) + 5) % 7)",
            "day": day,
        }
        if unit in starts:
            return f"CAST({starts[unit]} AS TIMESTAMP_NTZ)"
        moment = self.call("epoch_us", [f"CAST({value} AS TIMESTAMP_NTZ)" if form == "DATE" else value])
        length = {"hour": 3_600, "minute": 60, "second": 1}[unit] * 10**6
        return f"CAST(TIMESTAMP_MICROS({moment} - PMOD({moment}, {length})) AS TIMESTAMP_NTZ)"


SPARK, SAIL = SparkDialect(), SailDialect()
