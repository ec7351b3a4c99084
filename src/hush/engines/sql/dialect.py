r"""The words of an engine's SQL: about forty primitives, in DuckDB's spelling unless an engine says otherwise.

The writers of this package decide *what* a statement computes; a `Dialect` decides how that is spelt. It gets pieces of
SQL as text and returns text, and knows nothing of questions. `hush.engines.sql.build` is its only user: every
constructor there asks the dialect that is in force (`dialect`), and whoever writes a statement for another engine than
DuckDB does so from start to end inside of `writing`.

>>> dialect().name, dialect().quoted('a"b'), dialect().row_hash(["u", "k"], "77")
('duckdb', '"a""b"', 'HASH(u, k, 77)')
>>> class Backticks(Dialect):
...     def quoted(self, name: str) -> str:
...         return f"`{name}`"
>>> with writing(Backticks()):
...     dialect().quoted("a")
'`a`'

**What an engine owes.** A primitive must mean what DuckDB's means, for every value that its arguments can have, and no
row may make it fail; the conformance suite is the judge. What an engine cannot do is refused with `UnsupportedError`,
before any charge, with what to write instead. The traps are: casts that raise, floats that raise, sums that overflow or
wrap, ``/`` and ``//``, rounding of ties, NULLs first, ``LIKE`` with an escape, texts that only some engines read as
numbers or dates (``1_000``, ``now``), and a hash or a comparison that depends on the session.

**Types** have neutral names, which are DuckDB's: SMALLINT, INTEGER, BIGINT, HUGEINT (whole numbers of at least 128
bits), FLOAT, DOUBLE, VARCHAR, BOOLEAN, DATE, TIMESTAMP, DECIMAL(p,s). The columns of another engine are described by
these, too (`hush.engines.sql.relations.Catalogue`); a type that has no such name has its own, and is cast to text.

**Whole numbers.** What is proved to fit 64 bits is BIGINT, else HUGEINT. ``sum`` must be exact for 2⁴⁰ rows below 2⁶².
"""

# ruff: noqa: ARG002 - DuckDB needs fewer arguments than other engines

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import ClassVar

from hush.query.errors import UnplannableError


class UnsupportedError(UnplannableError):
    """An engine cannot compute something that a question asks for; it says what to write instead."""

    def __init__(self, engine: str, what: str, instead: str) -> None:
        super().__init__(f"{engine} cannot compute {what} without a risk of failing; {instead} (nothing was charged)")


class Dialect:
    """How an engine spells what the writers ask for. Arguments and results are pieces of SQL as text."""

    name: ClassVar[str] = "duckdb"
    qualifies: ClassVar[bool] = True
    """Whether QUALIFY exists; else a subquery does its work."""
    anti_joins: ClassVar[bool] = True
    """Whether SEMI JOIN and ANTI JOIN exist; else EXISTS and NOT EXISTS do their work."""
    looks_up: ClassVar[bool] = True
    """Whether SEMI and ANTI joins with more than equalities go by numbers of rows, because the engine errs in them."""
    unnests_together: ClassVar[bool] = True
    """Whether a SELECT may make rows of several lists side by side; else they are written out (`constant_rows`)."""
    fence: ClassVar[str] = ""
    """What keeps a subquery apart, where the engine would put the expression of a column in place of every mention.

    Through several levels that grows without bounds, in time and in memory.
    """
    narrows: ClassVar[bool] = False
    """Whether sums that are proved to fit 64 bits are BIGINT, because wider ones are slow."""
    numbers_closely: ClassVar[bool] = True
    """Whether `row_number` counts from 1; else numbers have gaps, and 2²⁰ times one may be more than 64 bits hold."""
    longest: ClassVar[int] = 500_000
    """A longer statement is refused: to plan it may take more memory than there is."""
    floats_raise: ClassVar[bool] = False
    """Whether arithmetic of floats fails beyond their range; else it gives infinities and NaN."""

    # names, types and constants

    def quoted(self, name: str) -> str:
        """Return an identifier, whatever characters it has."""
        return '"' + name.replace('"', '""') + '"'

    def table(self, place: str) -> str:
        """Return a table of the catalogue."""
        return self.quoted(place)

    def type_name(self, neutral: str) -> str:
        """Return the engine's word for a type."""
        return neutral

    def text(self, value: str) -> str:
        """Return a text constant without NUL characters."""
        return "'" + value.replace("'", "''") + "'"

    def double(self, digits: str) -> str:
        """Return a float64 constant, from digits with an exponent, ``inf`` or ``-inf``."""
        if "inf" in digits:
            return f"CAST('{digits}' AS DOUBLE)"
        return f"({digits})" if digits.startswith("-") else digits

    def parameter(self, number: int) -> str:
        """Return what stands for a value that is handed over when a statement runs."""
        return f"${number}"

    def array(self, values: Sequence[str]) -> str:
        """Return an array of values of one type."""
        return f"[{', '.join(values)}]"

    def array_type(self, neutral: str) -> str:
        """Return the type of arrays."""
        return f"{self.type_name(neutral)}[]"

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
        return f"{function.upper()}({', '.join(arguments)})"

    def finite(self, value: str) -> str:
        """Return whether a float is neither NaN nor infinite."""
        return f"ISFINITE({value})"

    def nan(self, value: str) -> str:
        """Return whether a float is NaN."""
        return f"ISNAN({value})"

    def rounded(self, value: str, digits: int | None = None) -> str:
        """Return a float rounded to whole numbers, or to digits after the point; ties go away from zero."""
        return f"ROUND({value})" if digits is None else f"ROUND({value}, {digits})"

    def scaled(self, value: str, inverse: str | None, step: str | None, most: Fraction | None) -> str:
        """Return round(value · inverse), round(value / step) or round(value): a whole float.

        No float is larger than ``most`` in magnitude, if it is known. Beyond the whole floats the result may be any
        number of the same sign as large as 10²⁰⁰.
        """
        if inverse is not None:
            value = f"({value} * {inverse})"
        elif step is not None:
            value = f"({value} / {step})"
        return self.rounded(value)

    def quotient(self, left: str, right: str, *, wide: bool = False) -> str:
        """Return a quotient of whole numbers, truncated; the divisor is not 0. ``wide`` ones may be HUGEINT."""
        return f"({left} // {right})"

    def remainder(self, left: str, right: str, *, whole: bool = True) -> str:
        """Return what a truncated division leaves, with the sign of the dividend."""
        return f"({left} % {right})"

    def total(self, value: str, *, wide: bool = False, narrow: bool = False) -> str:
        """Return the exact sum of whole numbers of 64 bits, or of ``wide`` ones; 64 bits hold a ``narrow`` sum."""
        return f"SUM({value})"

    def weighted_down(self, total: str, rows: str, count: str, *, floor: bool, narrow: bool = False) -> str:
        """Return total · rows / count for the sum over a pair of more than so many rows, truncated.

        With ``floor`` the sum is never positive, and rounded down. A ``narrow`` sum is BIGINT where `narrows` is.
        """
        product = f"(CAST({total} AS HUGEINT) * {rows})"
        return f"(({product} - ({count} - 1)) // {count})" if floor else f"({product} // {count})"

    # floats of a known range (least magnitude that is not 0, greatest magnitude); None if nothing is known

    def float_operation(self, operator: str, left: str, right: str, spans: Sequence[Span | None]) -> str:
        """Return a sum, difference, product or quotient of floats; not finite, or NULL, where it is undefined."""
        return f"({left} {operator} {right})"

    def power(self, base: str, exponent: str, number: Fraction | None) -> str:
        """Return a power of finite floats; ``number`` is the exponent, if the question writes it out."""
        return f"POW({base}, {exponent})"

    def logarithm(self, base: str, value: str) -> str:
        """Return a logarithm of a positive float."""
        return f"LOG({base}, {value})"

    # order, comparisons and statements

    def row_hash(self, values: Sequence[str], salt: str) -> str:
        """Return a keyed hash of a row's values, some of which may be NULL: the same for equal rows, in every run."""
        return f"HASH({', '.join([*values, salt])})"

    def unit_number(self, key: str, unit: str) -> str:
        """Return a number of 64 bits that a unit has wherever it is read with the same key."""
        return f"MD5_NUMBER_LOWER(CONCAT({key}, CAST({unit} AS VARCHAR)))"

    def row_number(self) -> str:
        """Return a number that tells the rows of a SELECT apart, in any order."""
        return "ROW_NUMBER() OVER ()"

    def ascending(self, value: str) -> str:
        """Return what ORDER BY takes: ascending, NULLs last."""
        return value

    def rows_of(self, arrays: Sequence[tuple[str, str]], label: str, columns: Sequence[str]) -> str:
        """Return arrays, parameters with the types of their values, as something to select from under a name."""
        cells = [
            f"UNNEST(CAST({array} AS {self.array_type(of)})) AS {name}"
            for (array, of), name in zip(arrays, columns, strict=True)
        ]
        return f"(SELECT {', '.join(cells)}) AS {self.quoted(label)}"

    def constant_rows(self, rows: Sequence[Sequence[str]], label: str, columns: Sequence[str]) -> str:
        """Return rows that are written out, as something to select from under a name."""
        cells = ", ".join(f"({', '.join(row)})" for row in rows)
        return f"(VALUES {cells}) AS {self.quoted(label)}({', '.join(map(self.quoted, columns))})"

    def chosen(self, place: str, label: str, columns: Sequence[str], types: Sequence[str]) -> str:
        """Return the chosen private keys, which are a table of the session's own or parameters, to select from."""
        return f"{self.quoted(place)} AS {self.quoted(label)}"

    def matches(self, left: str, right: str, form: str) -> str:
        """Return whether two values of a type are equal or both NULL, as a join can look it up."""
        return f"{left} IS NOT DISTINCT FROM {right}"

    def count_if(self, condition: str) -> str:
        """Return how often a condition holds."""
        return f"COUNT(*) FILTER(WHERE {condition})"

    def apart(self, value: str) -> str:
        """Return a value as a column that no condition is put through (`hush.engines.sql.rendered`)."""
        return f"UNNEST([{value}])"

    def once(self, label: str, query: str) -> str:
        """Return a query that WITH names, and that is computed once."""
        return f"{label} AS MATERIALIZED ({query})"

    # texts

    def stored_text(self, value: str, physical: str) -> str:
        """Return a stored text, to be compared by its bytes."""
        return value

    def byte_length(self, value: str) -> str:
        """Return how many bytes a text has."""
        return f"STRLEN({value})"

    def substring(self, value: str, start: int, size: int) -> str:
        """Return characters of a text from a place on, counted from 1, or from the end if it is negative."""
        return f"SUBSTRING({value}, {start}, {size})"

    def like(self, value: str, pattern: str) -> str:
        """Return whether a text matches a pattern of ``%`` and ``_``, without an escape character."""
        return f"({value} LIKE {pattern})"

    def like_escaped(self, value: str, characters: Sequence[tuple[str, bool]], expression: str) -> str:
        """Return LIKE from a pattern's characters and whether each stands for itself, or from its regular expression.

        It takes a time that grows with the text's length alone.
        """
        return f"REGEXP_FULL_MATCH({value}, {self.text(expression)}, 's')"

    def regular_match(self, value: str, pattern: str, flags: str) -> str:
        """Return whether a part of a text matches a regular expression of RE2, in linear time.

        Engines whose matcher may go back, or may refuse a pattern of RE2, have none.
        """
        if self.name != "duckdb":
            raise UnsupportedError(self.name, "regular expressions", "use LIKE, CONTAINS or STARTS_WITH")
        options = f", {self.text(flags)}" if flags else ""
        return f"REGEXP_MATCHES({value}, {self.text(pattern)}{options})"

    # dates and times

    def days(self, value: str) -> str:
        """Return a date as days since 1970."""
        return f"DATE_DIFF('day', CAST('1970-01-01' AS DATE), {value})"

    def microseconds(self, value: str) -> str:
        """Return a timestamp as microseconds since 1970."""
        return f"EPOCH_US({value})"

    def date_part(self, part: str, value: str) -> str:
        """Return year, quarter, month, day, dayofweek (Sunday is 0) or hour of a date or timestamp."""
        return f"{part.upper()}({value})"

    def date_trunc(self, unit: str, value: str, form: str) -> str:
        """Return the start of a year, quarter, month, week or day; weeks begin on Mondays."""
        return f"DATE_TRUNC({self.text(unit)}, {value})"

    def date_diff(self, unit: str, first: str, second: str) -> str:
        """Return how many borders of a unit lie between two dates, or timestamps from hours on."""
        return f"DATE_DIFF({self.text(unit)}, {first}, {second})"

    def moved(self, value: str, *, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp of the years 1 to 9999 moved by an interval, or NULL if that is far outside of them."""
        for function, size in (("TO_MONTHS", months), ("TO_DAYS", days), ("TO_MICROSECONDS", microseconds)):
            if size:
                value = f"({value} + {function}({size}))"
        return value


class ServerDialect(Dialect):
    """What dialects of servers share: what is not known to mean the same and never to fail is refused."""

    engine: ClassVar[str]
    """What the engine is called."""
    alike: ClassVar[frozenset[str]]
    """Functions that are spelt alike, mean the same, and fail for no value that they are given."""
    otherwise: ClassVar[Mapping[str, Callable[[Sequence[str]], str]]]
    """Functions that are written in another way."""
    qualifies: ClassVar[bool] = False

    def unsupported(self, what: str, instead: str) -> UnsupportedError:
        """Return the refusal of what the engine cannot compute."""
        return UnsupportedError(self.engine, what, instead)

    def table(self, place: str) -> str:
        """Return a table of the catalogue, which is a query, or what WITH has named."""
        return place[1:] if place.startswith("\0") else self.quoted(place)

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of a function that is known to mean the same."""
        if function in self.alike:
            return super().call(function, arguments)
        if function not in self.otherwise:
            raise self.unsupported(function.upper(), "use another function")
        return self.otherwise[function](arguments)

    def try_cast(self, value: str, to: str, of: str | None = None) -> str:
        """Return a guarded cast."""
        made = self.guarded_cast(value, to, of)
        if made is None:
            raise self.unsupported(f"a cast from {of or 'this'} to {to}", "leave it out or declare its type")
        return made

    def guarded_cast(self, value: str, to: str, of: str | None) -> str | None:
        """Return a cast that gives NULL where it would fail; None where no guard is known."""
        raise NotImplementedError

    def chosen(self, place: str, label: str, columns: Sequence[str], types: Sequence[str]) -> str:
        """Return the chosen keys, which are parameters: a question makes no tables in a server."""
        arrays = [(self.parameter(CHOSEN_PARAMETER + at), of) for at, of in enumerate(types)]
        return self.rows_of(arrays, label, columns)

    def byte_length(self, value: str) -> str:
        """Return how many bytes a text has."""
        return f"OCTET_LENGTH({value})"

    def moved(self, value: str, *, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp moved by an interval, if that ends near the calendar."""
        years = Fraction(months, 12) + Fraction(days, 365) + Fraction(microseconds, 365 * 86_400 * 10**6)
        if abs(years) > 10_000:
            return f"CAST(NULL AS {self.type_name('TIMESTAMP')})"
        if not (months or days or microseconds):
            return value
        least, most = -(years // 1) - 2, 10_001 - years // 1
        shifted = self.shifted(value, months, days, microseconds)
        return f"CASE WHEN {self.year(value)} BETWEEN {least} AND {most} THEN {shifted} END"

    def shifted(self, value: str, months: int, days: int, microseconds: int) -> str:
        """Return a timestamp moved by an interval that is not 0 and ends near the calendar."""
        raise NotImplementedError

    def year(self, value: str) -> str:
        """Return the year of a timestamp, to compare it."""
        raise NotImplementedError


UNICODE_SPACES = "".join(map(chr, (0x20, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)))
"""What DuckDB's TRIM takes off."""
CHOSEN_PARAMETER = 10**6
"""Where chosen keys come as parameters: that of their numbers, and after it those of the key columns."""
Span = tuple[Fraction, Fraction]
"""Between which magnitudes a float lies in every row, if it is not 0."""
DUCKDB = Dialect()
_IN_FORCE: ContextVar[Dialect] = ContextVar("dialect", default=DUCKDB)


def dialect() -> Dialect:
    """Return the dialect that statements are written in."""
    return _IN_FORCE.get()


@contextmanager
def writing(words: Dialect) -> Iterator[None]:
    """Write statements in another dialect, in this thread, until the context ends."""
    before = _IN_FORCE.set(words)
    try:
        yield
    finally:
        _IN_FORCE.reset(before)
