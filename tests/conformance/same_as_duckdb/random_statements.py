"""Random statements of SQL over one table of awkward values: what the language has for columns of each type.

The generator knows SQL, not hush: arithmetic, comparison, logic, choice, texts, dates, casts, grouping, HAVING, UNION
ALL, joins and subqueries per unit, over NULL, integers beyond 2⁵³, decimals, float32, blanks and letters beyond ASCII,
and the ends of months. Every way to write an expression is one line of a list.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa

ROWS = 60
LARGE = 2**60
BASE = dt.date(2019, 12, 30)

WORDS = ["straße", " a", "b ", "Ünï", "", "zz", "a%b", "2020-1-5", "yes", "7", "2.5", "2020-02-03 ", "A"]
FLOATS = [0.1, 0.2, 0.3, 53.1, 2.5, -2.5, 0.07, 99.99, 1e-9, 0.0]
LITERALS = [
    "0", "1", "2", "3", "0.1", "0.2", "0.3", "2.5", "-2.5", "0.07", "1.5", "53.1", "0.1 + 0.2", "0.06 + 0.01",
    "3 * 0.1", "0.5", "7",
]  # fmt: skip
PER_UNIT = [
    "SUM(x)", "SUM(d)", "MAX(d)", "MIN(x)", "COUNT(*)", "MAX(big)", "AVG(i)", "MAX(f)", "MIN(day)", "MAX(s)", "SUM(i)",
    "ARG_MIN(x, i)", "ARG_MAX(s, d)", "SUM(b)",
]  # fmt: skip
DECIMALS = ["0.07", "0.06", "1.50", "2.50", "-2.50", "0.10", "99.99", "0.00"]


def awkward_table() -> pa.Table:
    dice = random.Random(7)

    def column(values: list, type_: pa.DataType) -> pa.Array:
        return pa.array([None if dice.random() < 0.12 else dice.choice(values) for _ in range(ROWS)], type_)

    days = [BASE + dt.timedelta(days=31 * at) for at in range(12)]
    moments = [dt.datetime(2020, 1, 31, 23, 59, 59, 500000) + dt.timedelta(hours=37 * at) for at in range(12)]
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "i": column(list(range(-3, 8)), pa.int64()),
            "g": column([0, 1, 2, 3], pa.int32()),
            "big": column([LARGE + at for at in range(8)], pa.int64()),
            "x": column(FLOATS, pa.float64()),
            "f": column([0.1, 0.2, 0.3, 2.5, -0.5], pa.float32()),
            "d": column([Decimal(word) for word in DECIMALS], pa.decimal128(9, 2)),
            "s": column(WORDS, pa.string()),
            "t": column(["red", "Blue", "straße", " a"], pa.string()),
            "b": column([True, False], pa.bool_()),
            "day": column(days, pa.date32()),
            "moment": column(moments, pa.timestamp("us")),
        }
    )


PUBLIC = pa.table({"pg": [0, 1, 3], "pt": ["red", None, " a"], "pw": [0.5, 2.0, None]})
"""A public table, whose first column is unique."""


class StatementWriter:
    """Makes one statement from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)

    def one(self, *options: str) -> str:
        return self.dice.choice(options)

    def large(self) -> str:
        """An integer beyond 2⁵³, which meets whole numbers alone: decimals are exact up to 15 digits."""
        whole = self.one("i", "g", "1", "3")
        return self.one(
            "big",
            f"(big + {whole})",
            f"({whole} - big)",
            "(- big)",
            "ABS(big)",
            f"(big % {self.one('2', '3', '0.3')})",
            f"(big // {self.one('2', '-3')})",
            f"LEAST(big, {whole})",
            f"COALESCE(big, {whole})",
            f"NULLIF(big, {LARGE + 3})",
            f"CASE WHEN {self.condition(0)} THEN big ELSE {whole} END",
            f"TRY_CAST(big AS {self.one('BIGINT', 'INTEGER', 'VARCHAR')})",
        )

    def number(self, depth: int = 2) -> str:
        """An expression that is a number."""
        column = self.one("i", "i", "x", "d", "f", "g")
        if depth == 0 or self.dice.random() < 0.25:
            return column if self.dice.random() < 0.75 else self.literal()
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.one(
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"(- {a})",
            f"ABS({a})",
            f"ROUND({a}, {self.one('0', '1', '2')})",
            f"FLOOR({a})",
            f"CEIL({a})",
            f"TRUNC({a})",
            f"STRPOS({self.text(depth - 1)}, '{self.one('a', '', 'e', '-')}')",
            f"INSTR({self.text(0)}, {self.text(0)})",
            f"STRLEN({self.text(depth - 1)})",
            f"{self.one('WEEK', 'DAYOFYEAR', 'ISODOW')}({self.date(depth - 1)})",
            f"{self.one('MINUTE', 'SECOND')}({self.one('moment', self.date(0))})",
            "ROUND(PI() * i, 9)",
            f"({a} % {self.one('2', '3', '0.3', '0.5')})",
            f"({a} / {self.one('2', '4', '10')})",
            f"LEAST({a}, {b})",
            f"GREATEST({a}, {b})",
            f"COALESCE({a}, {b})",
            f"NULLIF({a}, {self.literal()})",
            f"CASE WHEN {self.condition(depth - 1)} THEN {a} ELSE {b} END",
            f"SIGN({a})",
            f"TRY_CAST({a} AS {self.one('BIGINT', 'DOUBLE', 'DECIMAL(12, 1)', 'DECIMAL(4, 2)', 'INTEGER')})",
            f"TRY_CAST({self.text(depth - 1)} AS {self.one('BIGINT', 'DOUBLE', 'DECIMAL(9, 1)')})",
            f"LENGTH({self.text(depth - 1)})",
            f"YEAR({self.date(depth - 1)})",
            f"MONTH({self.date(depth - 1)})",
            f"DAY({self.date(depth - 1)})",
            f"QUARTER({self.date(depth - 1)})",
            f"DAYOFWEEK({self.date(depth - 1)})",
            "HOUR(moment)",
            f"DATE_DIFF('{self.one('day', 'month', 'year', 'week')}', {self.date(0)}, {self.date(depth - 1)})",
            f"CAST({self.condition(depth - 1)} AS INTEGER)",
            f"SQRT(ABS({a}))",
            f"(i // {self.one('2', '3', '-2')})",
            "LOG10(GREATEST(ABS(i), 1) * 250)",
            "LOG(2, ABS(i) + 1)",
        )

    def literal(self) -> str:
        return self.one(*LITERALS)

    def text(self, depth: int = 2) -> str:
        if depth == 0 or self.dice.random() < 0.3:
            return self.one("s", "t")
        a = self.text(depth - 1)
        return self.one(
            f"UPPER({a})",
            f"LOWER({a})",
            f"TRIM({a})",
            f"LTRIM({a})",
            f"RTRIM({a})",
            f"LEFT({a}, 2)",
            f"RIGHT({a}, 2)",
            f"SUBSTRING({a}, 2, 2)",
            f"({a} || '!')",
            f"({a} || {self.one('i', 'g', 'b')})",
            f"CONCAT({a}, {self.one('i', 'day', 'b')})",
            f"REPLACE({a}, 'a', 'b')",
            f"CAST({self.one('i', 'g', 'd', 'f', 'x', '(i + g)', '(i * d)')} AS VARCHAR)",
            f"CAST({self.date(depth - 1)} AS VARCHAR)",
            "CAST(moment AS VARCHAR)",
            f"CAST({self.condition(depth - 1)} AS VARCHAR)",
            f"COALESCE({a}, 'none')",
            f"CASE WHEN {self.condition(depth - 1)} THEN {a} ELSE 'other' END",
            f"CONCAT({a}, '-', {self.text(0)})",
            f"SPLIT_PART({a}, '{self.one('a', '-', '2')}', {self.one('1', '2', '7')})",
            f"{self.one('DAYNAME', 'MONTHNAME')}({self.date(depth - 1)})",
            f"STRFTIME({self.date(0)}, '{self.one('%Y-%m', '%d.%m.%y', '%j %b', '%A %u %w %%', '%G-W%V')}')",
            f"STRFTIME(moment, '{self.one('%H:%M:%S.%f', '%I %p', '%Y-%m-%d %H')}')",
        )

    def date(self, depth: int = 2) -> str:
        if depth == 0 or self.dice.random() < 0.4:
            return self.one("day", "day", "DATE '2020-02-29'")
        a = self.date(depth - 1)
        return self.one(
            f"CAST({a} + INTERVAL 1 MONTH AS DATE)",
            f"CAST({a} - INTERVAL '10' DAY AS DATE)",
            "CAST(moment AS DATE)",
            f"CAST(DATE_TRUNC('{self.one('month', 'week', 'year', 'quarter')}', {a}) AS DATE)",
            f"LEAST({a}, {self.date(0)})",
            f"GREATEST({a}, {self.date(0)})",
            f"TRY_CAST({self.text(0)} AS DATE)",
            "MAKE_DATE(2020 + g, 1 + g, 1 + g)",
            "DATE(moment)",
            f"CAST(DATE_TRUNC('{self.one('hour', 'minute')}', moment) AS DATE)",
            f"COALESCE({a}, DATE '2020-01-05')",
        )

    def condition(self, depth: int = 2) -> str:
        sign = self.one("=", "<>", "<", "<=", ">", ">=")
        if depth <= 0 or self.dice.random() < 0.5:
            column = self.one("i", "x", "d", "f", "g", "big")
            return self.one(
                f"{column} {sign} {self.literal()}",
                f"{column} {sign} {self.one('i', 'd', 'f', 'x')}",
                f"{column} IN ({self.literal()}, {self.literal()})",
                f"{column} BETWEEN {self.literal()} AND {self.literal()}",
                f"big {sign} {LARGE + self.dice.randint(0, 8)}",
                f"big {sign} {LARGE + 3}.5",
                "b",
                "NOT b",
                "b IS NULL",
                f"{self.one('s', 't', 'i', 'day')} IS NOT NULL",
                f"t {sign} '{self.one(*WORDS)}'",
                f"s LIKE '{self.one('%a%', '_', '%', 'a%', '')}'",
                "STARTS_WITH(t, '')",
                f"REGEXP_MATCHES({self.one('s', 't')}, '{self.one('^[a-y]', '[0-9]+', '(?i)E.?$', 'n|r|^$')}')",
                f"s {self.one('', 'NOT ')}SIMILAR TO '{self.one('[a-z]+', '.*2', 'a|yes', '.{0,3}')}'",
                f"CONTAINS(s, '{self.one('a', '', '2')}')",
                f"day {sign} DATE '2020-02-03'",
                f"moment {sign} TIMESTAMP '2020-02-03 04:59:59.5'",
                "s IN ('yes', ' a', 'Ünï')",
                f"(i, g) {self.one('IN', 'NOT IN')} ((1, 2), (3, 0), (0, 1))",
                "(t, g) = ('red', 1)",
                f"STARTS_WITH(s, '{self.one('2', 'a', '')}')",
                f"ENDS_WITH({self.one('s', 't')}, '{self.one('2', 'a', '', 'e')}')",
                f"DATE_TRUNC('{self.one('hour', 'minute', 'second')}', moment) {sign} TIMESTAMP '2020-02-03 04:59:00'",
                f"TRY_STRPTIME(s, '%Y-%m-%d') {sign} TIMESTAMP '2020-02-03'",
            )
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        if self.dice.random() < 0.08:
            return f"({self.large()} {sign} {self.large()})"
        return self.one(
            f"({a} AND {b})",
            f"({a} OR {b})",
            f"(NOT {a})",
            f"({self.number(depth)} {sign} {self.number(depth - 1)})",
            f"({self.text(depth)} {sign} {self.text(depth - 1)})",
            f"({self.date(depth)} {sign} {self.date(depth - 1)})",
            f"TRY_CAST({self.text(0)} AS BOOLEAN)",
            f"({self.number(depth)} IS NULL)",
            f"({self.text(depth)} LIKE '%a%')",
            f"({self.number(depth)} {sign} {self.literal()})",
            f"({self.number(depth - 1)} IS DISTINCT FROM {self.number(0)})",
        )

    def aggregate(self) -> str:
        number = self.number(self.one("0", "1") == "1")
        return self.one(
            "COUNT(*)",
            f"COUNT({self.number(1)})",
            f"COUNT(*) FILTER (WHERE {self.condition(1)})",
            f"SUM({self.one('i', 'x', 'd', 'f', 'g')})",
            f"SUM(CLIP({number}, -50, 50))",
            f"AVG({self.one('i', 'x', 'd', 'f')})",
            f"COUNT(DISTINCT {self.one('i', 'big', 'g', 'd', 's', 'f')})",
            f"{self.one('SUM', 'AVG')}(DISTINCT {self.one('i', 'x', 'd', 'g')})",
            f"SUM(CASE WHEN {self.condition(1)} THEN 1 ELSE 0 END)",
            f"COUNT_IF({self.condition(1)})",
            f"SUM({self.condition(1)})",
            f"COUNT(DISTINCT ({self.one('i', 's', 'b')}, {self.one('g', 't', 'day')}))",
            f"COUNT(DISTINCT CASE WHEN {self.condition(1)} THEN id END)",
            "SUM(CASE WHEN x < 0 THEN 0 WHEN x > 20 THEN 20 ELSE x END)",
            f"REGR_COUNT({self.one('i', 'x')}, d)",
            "REGR_AVGX(i, x)",
        )

    def of_key(self, key: str, kind: str) -> str:
        """A function of a key."""
        return {
            "number": lambda: self.one(
                f"{key} + 1",
                f"{key} * 0.1",
                f"CAST({key} AS VARCHAR)",
                f"{key} = 2",
                f"ROUND({key}, 1)",
                f"CAST({key} AS INTEGER)",
                f"TRUNC({key})",
                f"CASE WHEN {key} > 1 THEN 'many' END",
                f"LEAST({key}, 1)",
                f"-{key}",
            ),
            "text": lambda: self.one(
                f"UPPER({key})",
                f"LENGTH({key})",
                f"{key} || '?'",
                f"TRY_CAST({key} AS BOOLEAN)",
                f"TRY_CAST({key} AS DATE)",
                f"TRIM({key})",
                f"{key} LIKE '%a%'",
                f"TRY_CAST({key} AS INTEGER)",
                f"SUBSTRING({key}, 2, 3)",
                f"STRPOS({key}, 'a')",
                f"SPLIT_PART({key}, 'a', 1)",
                f"ENDS_WITH({key}, 'a')",
            ),
            "date": lambda: self.one(
                f"LEAST({key}, DATE '2020-02-02')",
                f"YEAR({key})",
                f"CAST({key} AS VARCHAR)",
                f"{key} + INTERVAL 1 MONTH",
                f"DATE_DIFF('day', {key}, DATE '2020-03-01')",
                f"DATE_TRUNC('month', {key})",
                f"GREATEST({key}, NULL)",
                f"DAYNAME({key})",
                f"STRFTIME({key}, '%d.%m.%Y')",
                f"ISODOW({key}) + WEEK({key})",
            ),
            "boolean": lambda: self.one(f"CAST({key} AS VARCHAR)", f"NOT {key}", f"CAST({key} AS INTEGER)"),
        }[kind]()

    def joined(self) -> str:
        """Rows of r that a join keeps, each once."""
        test = self.condition(1)
        return self.one(
            "(SELECT r.* FROM r, p WHERE g = pg) AS r",
            "(SELECT r.* FROM r, p WHERE (g = pg AND pw > 1) OR (g = pg AND i > 2)) AS r",
            "(SELECT r.* FROM p RIGHT JOIN r ON g = pg) AS r",
            f"(SELECT * FROM r SEMI JOIN p ON t = pt AND {test}) AS r",
            "(SELECT * FROM r ANTI JOIN p ON t = pt) AS r",
            "(SELECT r.* FROM r JOIN (VALUES (0, 'a'), (1, 'b')) AS v(vg, vt) ON g = vg) AS r",
            "(SELECT r.* FROM r JOIN (SELECT pt, MAX(pg) AS m FROM p group by pt) AS q ON g = m AND t = pt) AS r",
            "(SELECT r.* FROM r JOIN GENERATE_SERIES(-2, 3) AS k(n) ON i = n) AS r",
            f"(SELECT * FROM r SEMI JOIN (SELECT id AS other FROM r WHERE {test}) AS q ON id = other) AS r",
            f"(SELECT * FROM r WHERE id NOT IN (SELECT id FROM r WHERE {test})) AS r",
            "(SELECT * FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY id ORDER BY i) = 1) AS r",
            "(SELECT * FROM r QUALIFY COALESCE(LAG(x) OVER (PARTITION BY id ORDER BY i), i) > 1) AS r",
            f"(SELECT * FROM r {self.one('UNION', 'INTERSECT', 'EXCEPT')} SELECT * FROM r WHERE {test}) AS r",
            f"(SELECT r.* FROM r LEFT JOIN (SELECT id AS other FROM r WHERE {test}) AS q ON r.id = other "
            f"WHERE {self.one('other IS NULL', 'other IS NOT NULL', 'other IS NULL OR i > 1', 'r.id = other')}) AS r",
            "(SELECT * FROM r QUALIFY FIRST_VALUE(x) OVER (PARTITION BY id ORDER BY i) > 1) AS r",
            "(SELECT * FROM r QUALIFY SUM(d) OVER (PARTITION BY id ORDER BY day DESC) > 1) AS r",
            f"(SELECT r.* FROM r FULL JOIN (SELECT id, i AS j FROM r WHERE {test}) AS q USING (id)) AS r",
        )

    def subquery(self) -> str:
        """A condition with a subquery over the same unit's rows, or over a public table."""
        no, test = self.one("", "NOT "), self.condition(0)
        return self.one(
            f"g {no}IN (SELECT pg FROM p)",
            f"g {no}IN (SELECT pg FROM p WHERE pw > {self.one('1', '2', '9')})",
            f"t {no}IN (SELECT pt FROM p)",
            f"(t {no}IN (SELECT pt FROM p) OR {test})",
            f"NOT (t {no}IN (SELECT pt FROM p WHERE pt IS NOT NULL) AND {test})",
            f"{self.one('x', 'i', 'd')} > (SELECT {self.one('AVG', 'MIN')}(pw) FROM p)",
            f"{no}EXISTS (SELECT 1 FROM p WHERE pt = t AND pw > i)",
            f"{no}EXISTS (SELECT 1 FROM r AS q WHERE q.id = r.id AND q.i > {self.one('1', 'r.g')})",
            f"id {no}IN (SELECT id FROM r WHERE {test})",
            f"{self.one('i', 'x', 'd')} {self.one('<', '>')} (SELECT AVG({self.one('i', 'x')}) + 0.0137 FROM r)",
            "(SELECT COUNT(*) FROM p WHERE pt = t) > 0",
            "COALESCE((SELECT MAX(pw) FROM p WHERE pt = t), -1) < 2",
            f"CASE WHEN EXISTS (SELECT 1 FROM p WHERE pg = g) THEN {test} ELSE i > 1 END",
        )

    def statement(self) -> str:
        source = self.dice.choice(
            [
                "r",
                "r",
                "r",
                "(SELECT * FROM r WHERE " + self.condition(1) + ") AS r",
                "(SELECT * FROM r UNION ALL SELECT * FROM r) AS r",
                self.joined(),
            ]
        )
        where = "" if self.dice.random() < 0.4 else f" WHERE {self.condition()}"
        if self.dice.random() < 0.25:
            where = f"{where} AND {self.subquery()}" if where else f" WHERE {self.subquery()}"
        if self.dice.random() < 0.12:
            inner = self.one(*PER_UNIT)
            test = (
                self.one("CAST(v AS VARCHAR) <> 'x'", "v IS NOT NULL")
                if "day" in inner or "s)" in inner
                else self.one(
                    f"v = {self.literal()}",
                    f"v > {self.literal()}",
                    "TRY_CAST(v AS INTEGER) = 3",
                    "CAST(v AS VARCHAR) = '1.50'",
                )
            )
            units = f"SELECT id, {inner} AS v FROM {source}{where} GROUP BY id"
            return f"SELECT COUNT(*) AS a0 FROM ({units}) AS u WHERE {test}"
        if self.dice.random() < 0.4:
            outputs = ", ".join(f"{self.aggregate()} AS a{at}" for at in range(self.dice.randint(1, 3)))
            return f"SELECT {outputs} FROM {source}{where}"
        key, kind = self.dice.choice(
            [
                ("g", "number"),
                ("big", "number"),
                (self.large(), "number"),
                ("t", "text"),
                ("b", "boolean"),
                ("day", "date"),
                ("s", "text"),
                ("d", "number"),
                ("f", "number"),
                (self.number(1), "number"),
                (self.text(1), "text"),
                (self.date(1), "date"),
                (self.condition(1), "boolean"),
            ]
        )
        nulls = f" AND ({key}) IS NOT NULL" if where else f" WHERE ({key}) IS NOT NULL"
        having = self.one(
            "",
            "",
            f" AND {self.of_key('k', kind)} IS NOT NULL",
            " AND COUNT(*) > 3",
            f" AND k = {key}" if key == "big" else "",
        )
        shown = self.of_key(key, kind)
        order = self.one("", " ORDER BY 1 DESC")
        return (
            f"SELECT {key} AS k, {shown} AS v, COUNT(*) AS n, {self.aggregate()} AS a0 "
            f"FROM {source}{where}{nulls} GROUP BY {key} HAVING COUNT(*) > 0{having}{order}"
        )
