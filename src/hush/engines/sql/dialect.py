r"""How an engine spells SQL: some thirty primitives, in DuckDB's spelling unless an engine says otherwise.

The tree of a statement (`hush.engines.sql.nodes`) says *what* is computed; a `Dialect` says how that is written. Its
methods take the texts of a node's arguments, with the node's options by name, and return text. `render` calls them, and
nobody else.

>>> DUCKDB.name, DUCKDB.quoted('a"b'), DUCKDB.row_hash("u", "k", salt=77)
('duckdb', '"a""b"', 'HASH(u, k, 77)')

**What an engine owes.** A primitive must mean what DuckDB's means, for every value that its arguments can have, and no
row may make it fail; the conformance suite is the judge. What an engine cannot do is refused (`unsupported`) before any
charge, with what to write instead. The traps are: casts that raise, floats that raise, sums that overflow or
wrap, ``/`` and ``//``, rounding of ties, NULLs first, ``LIKE`` with an escape, texts that only some engines read as
numbers or dates (``1_000``, ``now``), and a hash or a comparison that depends on the session.

**Types** have neutral names, which are DuckDB's: SMALLINT, INTEGER, BIGINT, HUGEINT (whole numbers of at least 128
bits), FLOAT, DOUBLE, VARCHAR, BOOLEAN, DATE, TIMESTAMP, DECIMAL(p,s). The columns of another engine are described by
these, too (`hush.engines.sql.relations.Catalogue`); a type that has no such name has its own, and is cast to text.

**Whole numbers.** What is proved to fit 64 bits is BIGINT, else HUGEINT. ``sum`` must be exact for 2⁴⁰ rows below 2⁶².
"""

# ruff: noqa: ARG002 - DuckDB needs fewer arguments than other engines

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import ClassVar

from hush.engines.sql.nodes import Span
from hush.query.errors import UnplannableError

Pattern = Sequence[tuple[str, bool]]
"""The characters of a pattern of LIKE, and whether each stands for itself."""


def has_literal_wildcards(characters: Pattern) -> bool:
    """Return whether a ``%`` or a ``_`` of a pattern stands for itself."""
    return any(literal and character in "%_" for character, literal in characters)


def expression_of(characters: Pattern) -> str:
    """Return the regular expression of a pattern.

    >>> expression_of([("5", False), ("%", True), ("_", False), ("%", False)])
    '5%..*'
    """
    parts = []
    for character, literal in characters:
        if literal or character not in "%_":
            parts.append("\\" + character if character in _SPECIAL else character)
        elif character == "_":
            parts.append(".")
        elif parts[-1:] != [".*"]:
            # another % right after one matches nothing more
            parts.append(".*")
    return "".join(parts)


class Dialect:
    """How an engine spells nodes of SQL. Arguments and results are pieces of SQL as text."""

    name: ClassVar[str] = "duckdb"
    qualifies: ClassVar[bool] = True
    """Whether QUALIFY exists; else a subquery does its work."""
    anti_joins: ClassVar[bool] = True
    """Whether SEMI JOIN and ANTI JOIN exist; else EXISTS and NOT EXISTS do their work."""
    looks_up: ClassVar[bool] = True
    """Whether SEMI and ANTI joins with more than equalities go by numbers of rows, because the engine errs in them."""
    fence: ClassVar[str] = ""
    """A clause that keeps a subquery apart, where the engine would copy a column's expression to every mention.

    Through several levels that grows without bounds, in time and in memory.
    """
    narrows: ClassVar[bool] = False
    """Whether sums that are proved to fit 64 bits are BIGINT, because wider ones are slow."""
    numbers_closely: ClassVar[bool] = True
    """Whether `row_number` counts from 1; else numbers have gaps, and 2²⁰ times one may be more than 64 bits hold."""
    longest: ClassVar[int] = 500_000
    """A longer statement is refused: to plan it may take more memory than there is."""
    wide_keys: ClassVar[bool] = True
    """Whether whole numbers beyond 64 bits may be keys."""
    lists_are_views: ClassVar[bool] = False
    """Whether lists of values are handed over as views, because statements have no parameters."""
    otherwise: ClassVar[Mapping[str, str]] = {
        "apart": "UNNEST([{0}])",
        "collated": '{0} COLLATE "binary"',
        "count_if": "COUNT(*) FILTER(WHERE {0})",
        "epoch_days": "DATE_DIFF('day', CAST('1970-01-01' AS DATE), {0})",
        "row_id": "ROW_NUMBER() OVER ()",
    }
    """Functions that are not written NAME(arguments), with the places of their arguments.

    Some are no functions of any engine: ``apart`` is a value as a column that no condition is put through
    (`hush.engines.sql.relations`), ``collated`` a text that is compared by its bytes, ``row_id`` a number that tells
    the rows of a SELECT apart, in any order, and ``epoch_days`` a date as days since 1970.
    """

    # names, types and constants

    def quoted(self, name: str) -> str:
        """Return a quoted identifier."""
        return '"' + name.replace('"', '""') + '"'

    def type_name(self, neutral: str) -> str:
        """Return the engine's word for a type."""
        return neutral

    def text(self, value: str) -> str:
        """Return a text constant without NUL characters."""
        return "'" + value.replace("'", "''") + "'"

    def double(self, value: Fraction | int) -> str:
        """Return the float64 nearest to a number as a constant."""
        digits = float_digits(value)
        if "inf" in digits:
            return f"CAST('{digits}' AS DOUBLE)"
        return f"({digits})" if digits.startswith("-") else digits

    def integer(self, value: int) -> str:
        """Return a whole number of 64 bits."""
        return str(value)

    def array(self, *values: str) -> str:
        """Return an array of values of one type."""
        return f"[{', '.join(values)}]"

    # casts

    def cast(self, value: str, to: str, of: str | None = None) -> str:
        """Return a cast that the caller has shown to succeed."""
        return f"CAST({value} AS {to})"

    def try_cast(self, value: str, to: str, of: str | None = None) -> str:
        """Return a cast from a type ``of`` that gives NULL where it fails. Floats become whole half to even."""
        return f"TRY_CAST({value} AS {to})"

    # numbers

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of a function that this package names, or that has DuckDB's name in `hush.query.functions`.

        An engine writes those that it knows to mean the same and that no argument makes fail, and refuses all others.
        """
        form = self.otherwise.get(function)
        return f"{function.upper()}({', '.join(arguments)})" if form is None else form.format(*arguments)

    def rounded(self, value: str, digits: int | None = None) -> str:
        """Return a float rounded to whole numbers, or to digits after the point; ties go away from zero."""
        return f"ROUND({value})" if digits is None else f"ROUND({value}, {digits})"

    def scaled(
        self, value: str, *, times: Fraction | int | None, over: Fraction | int | None, most: Fraction | None
    ) -> str:
        """Return round(value · times), round(value / over) or round(value): a whole float.

        No float is larger than ``most`` in magnitude, if it is known. Beyond the whole floats the result may be any
        number of the same sign as large as 10²⁰⁰.
        """
        if times is not None:
            value = f"({value} * {self.double(times)})"
        elif over is not None:
            value = f"({value} / {self.double(over)})"
        return self.rounded(value)

    def quotient(self, left: str, right: str, *, wide: bool = False) -> str:
        """Return a quotient of whole numbers, truncated; the divisor is not 0. ``wide`` ones may be HUGEINT."""
        return f"({left} // {right})"

    def total(self, value: str, *, wide: bool = False, narrow: bool = False) -> str:
        """Return the exact sum of whole numbers of 64 bits, or of ``wide`` ones; 64 bits hold a ``narrow`` sum."""
        return f"SUM({value})"

    def weighted_down(self, total: str, count: str, *, rows: int, floor: bool, narrow: bool = False) -> str:
        """Return total · rows / count, truncated: the weighted sum over a pair of more than ``rows`` rows.

        With ``floor`` the sum is never positive, and rounded down. A ``narrow`` sum is BIGINT where `narrows` is.
        """
        product = f"(CAST({total} AS HUGEINT) * {rows})"
        return f"(({product} - ({count} - 1)) // {count})" if floor else f"({product} // {count})"

    # floats of a known range (least magnitude that is not 0, greatest magnitude); None if nothing is known

    def float_operation(self, left: str, right: str, *, operator: str, spans: Sequence[Span | None]) -> str:
        """Return a sum, difference, product or quotient of floats; not finite, or NULL, where it is undefined."""
        return f"({left} {operator} {right})"

    def power(self, base: str, exponent: str, *, number: Fraction | None) -> str:
        """Return a power of finite floats; ``number`` is the exponent, if the question writes it out."""
        return f"POW({base}, {exponent})"

    # order, comparisons and statements

    def row_hash(self, *values: str, salt: int) -> str:
        """Return a keyed hash of a row's values, which may be NULL: the same for equal rows, in every run."""
        return f"HASH({', '.join([*values, str(salt)])})"

    def unit_number(self, unit: str, *, key: str) -> str:
        """Return a number of 64 bits that a unit has wherever it is read with the same key."""
        return f"MD5_NUMBER_LOWER(CONCAT({self.text(key)}, CAST({unit} AS VARCHAR)))"

    def ascending(self, value: str) -> str:
        """Return a term of ORDER BY: ascending, NULLs last."""
        return value

    def rows_of(self, lists: Sequence[tuple[int, str, str]], label: str) -> str:
        """Return lists that are parameters, side by side as columns, as something to select from under a name.

        Each has its place among the parameters, the type of its values and the name of its column.
        """
        cells = [f"UNNEST(CAST(${place} AS {of}[])) AS {self.quoted(name)}" for place, of, name in lists]
        return f"(SELECT {', '.join(cells)}) AS {self.quoted(label)}"

    def matches(self, left: str, right: str, *, form: str) -> str:
        """Return whether two values of a type are equal or both NULL, as a join can look it up."""
        return f"{left} IS NOT DISTINCT FROM {right}"

    def once(self, label: str, query: str) -> str:
        """Return a part of WITH: a query under a name, which is computed once."""
        return f"{label} AS MATERIALIZED ({query})"

    # texts

    def substring(self, value: str, *, start: int, size: int) -> str:
        """Return characters of a text from a place on, counted from 1, or from the end if it is negative."""
        return f"SUBSTRING({value}, {start}, {size})"

    def like(self, value: str, *, characters: Pattern) -> str:
        """Return whether a text matches a pattern, in a time that grows with the text's length alone.

        The engine's own matcher is linear where no ``_`` comes after a ``%``. In other patterns it tries every place of
        one part for every place of the one before: 180 characters take older versions 18 seconds, in which nothing can
        interrupt them. These become regular expressions, which the engine hands to RE2, an automaton.
        """
        pattern = "".join(character for character, _ in characters)
        if "_" not in pattern.partition("%")[2] and not has_literal_wildcards(characters):
            return f"({value} LIKE {self.text(pattern)})"
        return f"REGEXP_FULL_MATCH({value}, {self.text(expression_of(characters))}, 's')"

    def fits(self, value: str, *, expression: str) -> str:
        """Return whether all of a text matches an expression of `hush.query.date_formats`."""
        return f"REGEXP_FULL_MATCH({value}, {self.text(expression)})"

    def rearranged(self, value: str, *, to: str, parts: str, order: str) -> str:
        """Return the date or timestamp of a text that `fits`: its parts in ISO's order."""
        return f"TRY_CAST(REGEXP_REPLACE({value}, {self.text(parts)}, {self.text(order)}) AS {to})"

    # statements of an embedded engine's own session

    def created(self, kind: str, name: str, statement: str) -> str:
        """Return the statement that stores the rows of another as a table, or names it as a view."""
        return f"CREATE {kind} {self.quoted(name)} AS {statement}"

    def inserted(self, table: str, statement: str) -> str:
        """Return the statement that adds the rows of another to a table."""
        return f"INSERT INTO {self.quoted(table)} {statement}"

    def explained(self, statement: str) -> str:
        """Return the statement that returns the plan of another as JSON."""
        return f"EXPLAIN (FORMAT JSON) {statement}"

    def attached(self, path: str, base: str) -> str:
        """Return the statement that opens a file of the engine's own, for reading only."""
        return f"ATTACH {self.text(path)} AS {base} (READ_ONLY)"

    def detached(self, base: str) -> str:
        """Return the statement that closes a file of the engine's own."""
        return f"DETACH {base}"

    def dropped(self, table: str) -> str:
        """Return the statement that removes a table."""
        return f"DROP TABLE IF EXISTS {self.quoted(table)}"

    # files and other databases, which DuckDB alone reads

    def struct(self, *values: str, labels: Sequence[str]) -> str:
        """Return a record."""
        cells = (f"{self.quoted(label)}: {value}" for label, value in zip(labels, values, strict=True))
        return f"{{{', '.join(cells)}}}"

    # dates and times

    def date_trunc(self, value: str, *, unit: str, form: str) -> str:
        """Return the start of a unit, from years to seconds; weeks begin on Mondays."""
        return f"DATE_TRUNC({self.text(unit)}, {value})"

    def date_diff(self, first: str, second: str, *, unit: str) -> str:
        """Return how many borders of a unit lie between two dates, or timestamps from hours on."""
        return f"DATE_DIFF({self.text(unit)}, {first}, {second})"

    def formatted(self, value: str, *, pattern: str) -> str:
        """Return a date or timestamp as a text, by a format of marks that `hush.query.functions.dates` lists."""
        return f"STRFTIME({value}, {self.text(pattern)})"

    def moved(self, value: str, *, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp of the years 1 to 9999 moved by an interval; NULL is allowed far outside."""
        for function, size in (("TO_MONTHS", months), ("TO_DAYS", days), ("TO_MICROSECONDS", microseconds)):
            if size:
                value = f"({value} + {function}({size}))"
        return value


_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
"""Characters that need a backslash in a regular expression."""
FLOATS, TIMES = {"FLOAT", "DOUBLE"}, {"DATE", "TIMESTAMP"}
_LONG_AGO = 36 * 10**16
"""Microseconds, a whole number of hours, from long before the year 1 to 1970."""
FIXED = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


# a server's matcher may go back, or refuse a pattern of RE2
_INSTEAD = {"regexp_matches": ("regular expressions", "use LIKE, CONTAINS or STARTS_WITH")}
"""What is said of a function that is refused, and what to use instead of it."""


class ServerDialect(Dialect):
    """Dialects of servers: a function that is not known to mean the same, and never to fail, is refused."""

    engine: ClassVar[str]
    """The name of the engine in messages."""
    alike: ClassVar[frozenset[str]]
    """Functions that are spelt alike, mean the same, and fail for no value that they are given."""
    qualifies: ClassVar[bool] = False
    wide_keys: ClassVar[bool] = False

    def double(self, value: Fraction | int) -> str:
        return self.float_constant(float_digits(value))

    def float_constant(self, digits: str) -> str:
        """Return a float64 constant, from digits with an exponent, ``inf`` or ``-inf``."""
        raise NotImplementedError

    def unsupported(self, operation: str, instead: str) -> UnplannableError:
        """Return the refusal of something that the engine cannot compute, with an alternative."""
        risky = f"{self.engine} cannot compute {operation} without a risk of failing"
        return UnplannableError(f"{risky}; {instead} (nothing was charged)")

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of a function that is known to mean the same."""
        if function not in self.alike and function not in self.otherwise:
            raise self.unsupported(*_INSTEAD.get(function, (function.upper(), "use another function")))
        return super().call(function, arguments)

    # Casts that give NULL where the engine's own would fail: one for each family of types that is cast, to each type.
    # None stands for a cast for which no guard is known.

    bits: ClassVar[Mapping[str, int]]
    """The sizes of whole numbers that the engine has."""
    days_of_times: ClassVar[tuple[str, str]]
    """The first and the last date that is taken as a timestamp."""

    def try_cast(self, value: str, to: str, of: str | None = None) -> str:
        """Return a guarded cast."""
        is_whole = to in self.bits or to == "HUGEINT"
        guarded: str | None = None
        if of == to:
            guarded = value
        elif of is not None and (of in self.bits or of == "HUGEINT"):
            if is_whole:
                narrower = to != "HUGEINT" and (of == "HUGEINT" or self.bits[of] > self.bits[to])
                guarded = self.narrowed(value, to) if narrower else self.cast(value, to)
            else:
                guarded = self.from_exact(value, to)
        elif of is not None and FIXED.fullmatch(of):
            guarded = self.narrowed(f"ROUND({value})", to) if is_whole else self.from_exact(value, to)
        elif of in FLOATS:
            guarded = self.from_float(value, to)
        elif of == "BOOLEAN":  # 1 or 0, or its name
            if to == "VARCHAR":
                guarded = self.cast(value, to)
            elif is_whole or to in FLOATS:
                guarded = f"CAST(CAST({value} AS {self.type_name('INTEGER')}) AS {self.type_name(to)})"
        elif of in TIMES:
            if to == "TIMESTAMP":
                first, last = self.days_of_times
                guarded = f"CASE WHEN {value} BETWEEN {first} AND {last} THEN {self.cast(value, to)} END"
            elif to in {"DATE", "VARCHAR"}:
                guarded = self.cast(value, to)
        elif of == "VARCHAR":
            guarded = self.from_text(value, to)
        if guarded is None:
            raise self.unsupported(f"a cast from {of or 'this'} to {to}", "leave it out or declare its type")
        return guarded

    def cast(self, value: str, to: str, of: str | None = None) -> str:
        if of == "BOOLEAN" and to != "VARCHAR":  # which becomes an integer, and no other number
            value = f"CAST({value} AS {self.type_name('INTEGER')})"
        if of == "DOUBLE" and to == "HUGEINT":
            return self.whole_from_float(value)
        return f"CAST({value} AS {self.type_name(to)})"

    def whole_from_float(self, value: str) -> str:
        """Return a whole float below 2¹²⁴ as HUGEINT, exactly: an engine's own cast takes its shortest digits."""
        raise NotImplementedError

    def narrowed(self, value: str, to: str) -> str:
        """Return a whole number as one of fewer bits; NULL where these do not hold it."""
        raise NotImplementedError

    def fixed(self, value: str, to: str) -> str:
        """Return a whole or fixed number as a DECIMAL; NULL where that has fewer digits before the point."""
        raise NotImplementedError

    def from_exact(self, value: str, to: str) -> str | None:
        """Return a whole or fixed number as one that is not whole, as a boolean or as a text."""
        if to in FLOATS or to == "VARCHAR":
            return self.cast(value, to)
        if to == "BOOLEAN":
            return f"({value} <> 0)"
        return self.fixed(value, to) if FIXED.fullmatch(to) else None

    def from_float(self, value: str, to: str) -> str | None:
        """Return a cast of a float, which may be NaN or infinite."""
        match to:
            case "HUGEINT":
                return f"CASE WHEN ABS({value}) < {self.double(2**120)} THEN {self.whole_from_float(value)} END"
            case "DOUBLE":
                return self.cast(value, to)
            case "BOOLEAN":
                return f"({value} <> 0)"
        return None  # as text: 1 and not 1.0

    def from_text(self, value: str, to: str) -> str | None:
        """Return the number, boolean, date or time that a text spells."""
        if to != "BOOLEAN":
            raise NotImplementedError
        yes, no = "('true', 't', 'yes', 'y', '1')", "('false', 'f', 'no', 'n', '0')"
        return f"CASE WHEN LOWER({value}) IN {yes} THEN TRUE WHEN LOWER({value}) IN {no} THEN FALSE END"

    def substring(self, value: str, *, start: int, size: int) -> str:
        """Refuse places that are counted from the end."""
        if start < 0:
            raise self.unsupported("SUBSTRING from the end", "use RIGHT(text, n), and LEFT of that")
        return super().substring(value, start=start, size=size)

    def moved(self, value: str, *, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp moved by an interval, if that ends near the calendar."""
        years = Fraction(months, 12) + Fraction(days, 365) + Fraction(microseconds, 365 * 86_400 * 10**6)
        # from any year of the calendar that leads out of it
        if abs(years) > 10_000:
            return f"CAST(NULL AS {self.type_name('TIMESTAMP')})"
        if not (months or days or microseconds):
            return value
        first, last = -(years // 1) - 2, 10_001 - years // 1
        shifted = self.shifted(value, months, days, microseconds)
        return f"CASE WHEN {self.call('year', [value])} BETWEEN {first} AND {last} THEN {shifted} END"

    def shifted(self, value: str, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp moved by an interval that is not 0 and ends near the calendar."""
        raise NotImplementedError

    def date_diff(self, first: str, second: str, *, unit: str) -> str:
        """Return the difference of the numbers of two units; of dates in weeks, the whole weeks between them."""
        if unit == "week":
            days = [self.call("epoch_days", [moment]) for moment in (second, first)]
            return self.quotient(f"({' - '.join(days)})", "7")
        return f"({self._unit_number(unit, second)} - {self._unit_number(unit, first)})"

    def _unit_number(self, unit: str, value: str) -> str:
        """Return which year, month, … a date or timestamp lies in, counted from anywhere."""
        long = self.type_name("BIGINT")
        match unit:
            case "year":
                return f"CAST({self.call('year', [value])} AS {long})"
            case "quarter" | "month":
                per_year = 4 if unit == "quarter" else 12
                return f"({self._unit_number('year', value)} * {per_year} + {self.call(unit, [value])})"
            case "day":
                return f"CAST({self.call('epoch_days', [f'CAST({value} AS DATE)'])} AS {long})"
        seconds = {"hour": 3600, "minute": 60, "second": 1}[unit]
        # made positive first: a quotient truncates towards zero, which before 1970 would be up
        return self.quotient(f"({self.call('epoch_us', [value])} + {_LONG_AGO})", str(seconds * 10**6))


UNICODE_SPACES = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""The characters that DuckDB's TRIM removes."""


class ShapeDialect(Dialect):
    """DuckDB's SQL without its numbers: statements of one shape resolve alike.

    Which types and functions meet decides that, and a number's type is told by its spelling.
    """

    def integer(self, value: int) -> str:
        """Return a sign for any whole number."""
        return "#"

    def double(self, value: Fraction | int) -> str:
        """Return a sign for any float."""
        return "#.#"


DUCKDB, SHAPE = Dialect(), ShapeDialect()


def float_digits(value: Fraction | int) -> str:
    """Return the digits of the float64 nearest to a number: with an exponent, so that engines read a float.

    >>> float_digits(Fraction(1, 10)), float_digits(10**400)
    ('0.1e0', 'inf')
    """
    try:
        number = value.numerator / value.denominator
    except OverflowError:
        return "inf" if value > 0 else "-inf"
    return repr(number) if "e" in repr(number) else f"{number!r}e0"
