"""Random expressions of the SQL guide over the columns of a source: each way to write one is a named template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from vocabulary import DAYS, NUMBERS, PATTERNS, WORDS, Source

Templates = Mapping[str, Callable[[], str]]
"""What a template shows, and the function that writes it."""


class Expressions:
    """Writes expressions of a kind: number, text, truth, date or moment."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def one(self, *options: str) -> str:
        return self.rng.choice(options)

    def chance(self, part: float) -> bool:
        return self.rng.random() < part

    def written(self, templates: Templates) -> str:
        """Return one of the templates, filled in."""
        return list(templates.values())[self.rng.randrange(len(templates))]()

    def expression(self, kind: str, source: Source, depth: int = 2) -> str:
        return {
            "number": self.number,
            "text": self.word,
            "truth": self.truth,
            "date": self.date,
            "moment": self.moment,
        }[kind](source, depth)

    def column(self, kind: str, source: Source, otherwise: str) -> str:
        columns = source.of(kind)
        return self.rng.choice(columns) if columns else otherwise

    def day(self, source: Source, depth: int) -> str:
        return self.expression(self.one("date", "moment"), source, depth)

    def constant(self) -> str:
        return self.one(*NUMBERS, "?")

    def number(self, source: Source, depth: int = 2) -> str:
        if depth <= 0 or self.chance(0.3):
            return self.column("number", source, self.one(*NUMBERS)) if self.chance(0.85) else self.constant()
        inner = depth - 1
        a, b = (self.number(source, inner) for _ in range(2))
        return self.written(
            {
                "arithmetic": lambda: f"({a} {self.one('+', '-', '*', '/', '%')} {b})",
                "of one number": lambda: (
                    f"{self.one('ABS', 'FLOOR', 'CEIL', 'SQRT', 'EXP', 'LN', 'LOG10', 'SIGN', 'ROUND', '-')}({a})"
                ),
                "of two numbers": lambda: (
                    f"{self.one('LEAST', 'GREATEST', 'COALESCE', 'NULLIF', 'POWER', 'MOD', 'IFNULL')}({a}, {b})"
                ),
                "CASE WHEN": lambda: (
                    f"CASE WHEN {self.truth(source, inner)} THEN {a} "
                    f"WHEN {self.truth(source, inner)} THEN 0 ELSE {b} END"
                ),
                "CASE of a text": lambda: f"CASE {self.word(source, inner)} WHEN 'a' THEN {a} WHEN 'zz' THEN {b} END",
                "IF": lambda: f"IF({self.truth(source, inner)}, {a}, {b})",
                "CLIP": lambda: f"CLIP({a}, {self.one('-2', '0', '0.3')}, {self.one('3.5', '100', '1e6')})",
                "BIN": lambda: f"BIN({a}, {self.one('0, 8, 4', '-3, 3, 7', '0, 1, 10', '0, 1e6, 3')})",
                "LENGTH": lambda: f"LENGTH({self.word(source, inner)})",
                "CAST": lambda: self._cast_number(source, inner),
                "part of a date": lambda: (
                    f"{self.one('YEAR', 'QUARTER', 'MONTH', 'DAY', 'DAYOFWEEK')}({self.day(source, inner)})"
                ),
                "EXTRACT": lambda: f"EXTRACT({self.one('year', 'hour', 'dow')} FROM {self.moment(source, inner)})",
                "DATE_DIFF": lambda: self._date_diff(source, inner),
                "ROUND to digits": lambda: f"ROUND({a}, {self.one('0', '1', '-1')})",
                "integer division": lambda: f"(CAST({a} AS BIGINT) // {self.one('3', '-7', f'CAST({b} AS BIGINT)')})",
                "steps of ten": lambda: f"FLOOR({a} / 10) * 10",
                "place in a text": lambda: (
                    f"{self.one('STRPOS', 'INSTR')}({self.word(source, inner)}, {self.one(*WORDS)})"
                ),
                "finer part of a date": lambda: self._finer_part(source, inner),
                "WIDTH_BUCKET": lambda: f"WIDTH_BUCKET({a}, {self.one('0, 8, 4', '-3, 3, 7', '0, 1e6, 3')})",
                "CASE that clips": lambda: self._clipping_case(a),
                "TRUNC, STRLEN, PI": lambda: self.one(
                    f"TRUNC({a})", f"STRLEN({self.word(source, inner)})", f"({a} * PI())"
                ),
            }
        )

    def _cast_number(self, source: Source, depth: int) -> str:
        kind, target = self.one("number", "text", "truth"), self.one("INTEGER", "DOUBLE", "DECIMAL(9, 2)", "BIGINT")
        return f"CAST({self.expression(kind, source, depth)} AS {target})"

    def _date_diff(self, source: Source, depth: int) -> str:
        kinds = [self.one("date", "moment") for _ in range(2)]
        ends = ", ".join(self.expression(kind, source, depth) for kind in kinds)
        return f"DATE_DIFF('{self.one('year', 'quarter', 'month', 'week', 'day', 'hour', 'minute', 'second')}', {ends})"

    def _finer_part(self, source: Source, depth: int) -> str:
        moment = self.day(source, depth)
        return f"{self.one('WEEK', 'DAYOFYEAR', 'ISODOW', 'MINUTE', 'SECOND')}({moment})"

    def _clipping_case(self, number: str) -> str:
        low, high = self.one("0", "-2.5"), self.one("3", "1e6")
        return f"CASE WHEN {number} < {low} THEN {low} WHEN {number} > {high} THEN {high} ELSE {number} END"

    def word(self, source: Source, depth: int = 2) -> str:
        if depth <= 0 or self.chance(0.5):
            return self.column("text", source, self.one(*WORDS)) if self.chance(0.9) else self.one(*WORDS)
        inner = depth - 1
        a = self.word(source, inner)
        return self.written(
            {
                "letters and blanks": lambda: f"{self.one('LOWER', 'UPPER', 'TRIM', 'LTRIM', 'RTRIM')}({a})",
                "SUBSTRING": lambda: f"SUBSTRING({a}, {self.one('1', '2')}, {self.one('1', '3')})",
                "first or last letter": lambda: f"{self.one('LEFT', 'RIGHT')}({a}, 1)",
                "REPLACE": lambda: f"REPLACE({a}, 'a', 'q')",
                "joined": lambda: f"({a} || {self.word(source, inner)})",
                "CONCAT": lambda: f"CONCAT({a}, {self.word(source, inner)})",
                "CAST": lambda: (
                    f"CAST({self.expression(self.one('number', 'truth', 'date', 'moment'), source, inner)} AS VARCHAR)"
                ),
                "CASE WHEN": lambda: f"CASE WHEN {self.truth(source, inner)} THEN {a} ELSE {self.one(*WORDS)} END",
                "COALESCE, NULLIF": lambda: f"{self.one('COALESCE', 'NULLIF')}({a}, 'a')",
                "SPLIT_PART": lambda: f"SPLIT_PART({a}, 'a', {self.one('1', '2', '900')})",
                "STRFTIME": lambda: (
                    f"STRFTIME({self.day(source, inner)}, '{self.one('%Y-%m', '%A', '%j', '%H:%M:%S.%f %p')}')"
                ),
                "names of days": lambda: f"{self.one('DAYNAME', 'MONTHNAME')}({self.date(source, inner)})",
            }
        )

    def truth(self, source: Source, depth: int = 2) -> str:
        inner = depth - 1
        plain: Templates = {
            "comparison": lambda: (
                f"{self.number(source, inner)} {self.one('<', '<=', '>', '>=', '=', '<>')} {self.number(source, inner)}"
            ),
            "BETWEEN": lambda: (
                f"{self.number(source, inner)} BETWEEN {self.one('0', '-1.5')} AND {self.one('3', '9', '1e18')}"
            ),
            "IN numbers": lambda: (
                f"{self.number(source, inner)} {self.one('IN', 'NOT IN')} (1, 2, 9, 1.25, 9223372036854775807)"
            ),
            "IN texts": lambda: f"{self.word(source, inner)} {self.one('IN', 'NOT IN')} ('a', 'zz', 'é')",
            "LIKE": lambda: f"{self.word(source, inner)} {self.one('LIKE', 'NOT LIKE', 'ILIKE')} {self.one(*PATTERNS)}",
            "IS NULL": lambda: (
                f"{self.expression(self.one('number', 'text', 'truth', 'date'), source, inner)} "
                f"IS {self.one('NULL', 'NOT NULL')}"
            ),
            "comparison of days": lambda: f"{self.date(source, inner)} {self.one('<', '>=', '=')} {self.one(*DAYS)}",
            "column": lambda: self.column("truth", source, "1 = 1"),
        }
        deep: Templates = {
            "AND, OR": lambda: f"({self.truth(source, inner)} {self.one('AND', 'OR')} {self.truth(source, inner)})",
            "NOT": lambda: f"NOT ({self.truth(source, inner)})",
            "part of a text": lambda: f"{self.one('STARTS_WITH', 'CONTAINS')}({self.word(source, inner)}, 'a')",
            "IS TRUE": lambda: f"({self.truth(source, inner)}) IS {self.one('TRUE', 'NOT TRUE', 'FALSE')}",
            "IS DISTINCT FROM": lambda: self._distinct_from(source, inner),
            "LIKE with ESCAPE": lambda: self._escaped_like(source, inner),
            "IN a parameter": lambda: f"{self.number(source, inner)} {self.one('IN', 'NOT IN')} ??",
            "rows, ENDS_WITH, DECODE": lambda: self._rows_and_endings(source, inner),
            "regular expression": lambda: self._regular_expression(source, inner),
        }
        return self.written({**plain, **deep} if depth > 0 else plain)

    def _distinct_from(self, source: Source, depth: int) -> str:
        kind = self.one("number", "text", "truth", "date")
        left, right = (self.expression(kind, source, depth) for _ in range(2))
        return f"{left} IS {self.one('', 'NOT ')}DISTINCT FROM {self.one(right, right, 'NULL')}"

    def _escaped_like(self, source: Source, depth: int) -> str:
        pattern = self.one("'%!%%'", "'!a_'", "'%!!'", "'b!_%'")
        return f"{self.word(source, depth)} {self.one('LIKE', 'NOT LIKE', 'ILIKE')} {pattern} ESCAPE '!'"

    def _regular_expression(self, source: Source, depth: int) -> str:
        pattern = self.one("'^a'", "'[a-z]+$'", "'(?i)Z{1,2}'", "'a|é', 'i'", "'^.{0,3}$', 's'")
        return f"{self.one('', 'NOT ')}REGEXP_MATCHES({self.word(source, depth)}, {pattern})"

    def _rows_and_endings(self, source: Source, depth: int) -> str:
        pair = f"({self.word(source, depth)}, {self.number(source, depth)})"
        return self.one(
            f"{pair} {self.one('IN', 'NOT IN')} (('a', 1), ('zz', 2.5), ('', 0))",
            f"ENDS_WITH({self.word(source, depth)}, {self.one(*WORDS)})",
            f"DECODE({self.word(source, depth)}, 'a', 1, NULL, 2, 3) {self.one('=', '>')} 2",
        )

    def date(self, source: Source, depth: int = 2) -> str:
        day = self.column("date", source, self.one(*DAYS))
        if depth <= 0 or self.chance(0.4):
            return day
        inner = depth - 1
        return self.written(
            {
                "DATE_TRUNC": lambda: f"DATE_TRUNC('{self.one('year', 'quarter', 'month', 'week', 'day')}', {day})",
                "CAST": lambda: f"CAST({self.expression(self.one('text', 'moment'), source, inner)} AS DATE)",
                "CASE WHEN": lambda: f"CASE WHEN {self.truth(source, inner)} THEN {day} END",
                "COALESCE": lambda: f"COALESCE({day}, {self.one(*DAYS)})",
                "MAKE_DATE": lambda: (
                    f"MAKE_DATE({', '.join(f'CAST({self.number(source, inner)} AS INTEGER)' for _ in range(3))})"
                ),
                "DATE": lambda: f"DATE({self.moment(source, inner)})",
            }
        )

    def moment(self, source: Source, depth: int = 2) -> str:
        column = self.column("moment", source, "CAST('1970-01-02 03:04:05' AS TIMESTAMP)")
        if depth <= 0 or self.chance(0.6):
            return column
        if self.chance(0.5):
            text = self.word(source, depth - 1)
            truncated = f"DATE_TRUNC('{self.one('hour', 'minute', 'second')}', {column})"
            return self.one(
                f"CAST({text} AS TIMESTAMP)", f"STRPTIME({text}, '{self.one('%Y', '%d.%m.%y')}')", truncated
            )
        moment = self.day(source, depth - 1)
        by = self.one("1 MONTH", "'3' DAY", "'-14 months 2 days'", "9999 YEAR", "36 HOUR", "-9000 YEAR", "1 SECOND")
        return f"({moment} {self.one('+', '-')} INTERVAL {by})"
