"""Random questions as an analyst writes them: SQL text with parameters, over the tables of `worlds`.

`worlds.question` builds trees by hand, so it reaches shapes that no text has; this one goes the whole way of a
question, so it reaches what only the front end makes: names and scopes, WITH, USING, ordinals, narrowed types, pruned
columns, per-unit subqueries inside per-unit subqueries. Every function and aggregate of the SQL guide is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from random import Random
from typing import Any

from expressions import Expressions
from vocabulary import DAYS, TABLES, WORDS, Source, starred

SourceTemplates = Mapping[str, tuple[int, Callable[[], Source]]]
"""What a source shows, how often it is written, and the function that writes it."""


class Writer(Expressions):
    """Writes one question."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.parts: list[str] = []
        """Parts of WITH."""
        self.made = 0

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    # sources

    def table(self, which: str) -> Source:
        alias = self.name(which[0])
        columns = [(f"{alias}.{name}", kind) for name, kind in TABLES[which].items()]
        units = [f"{alias}.id"] if which in {"visits", "orders", "items"} else []
        return Source(f"{self.one('', '', 'main.', 'd.')}{which} {self.one('AS ', '')}{alias}", columns, units)

    def source(self, *, rows: bool, depth: int = 2) -> Source:
        """Return what to read; ``rows`` says that every row is a unit."""
        if depth <= 0:
            return self.table(
                self.one("answers", "ballots") if rows else self.one("visits", "visits", "orders", "items")
            )
        inner = depth - 1

        def simpler() -> Source:
            return self.source(rows=rows, depth=inner)

        of_both: SourceTemplates = {
            "table": (1, lambda: self.source(rows=rows, depth=0)),
            "subquery": (2, lambda: self.wrapped(self.selected(simpler(), rows=rows))),
            "join with public rows": (1, lambda: self.public(simpler())),
            "join of which nothing is read": (1, lambda: self.unread(simpler())),
        }
        of_units: SourceTemplates = {
            "per unit": (2, lambda: self.wrapped(self.within_unit(simpler()))),
            "join on the unit": (1, lambda: self.joined(simpler(), simpler())),
            "join on a foreign key": (1, self.linked),
            "UNION ALL": (1, lambda: self.wrapped(self.union(rows=False, depth=inner))),
            "windows": (1, lambda: self.wrapped(self.windowed(simpler()))),
            "simpler": (1, simpler),
        }
        of_rows: SourceTemplates = {
            "UNION ALL": (1, (lambda: self.wrapped(self.union(rows=True, depth=0))) if depth == 2 else simpler),
            "simpler": (6, simpler),
        }
        return self.drawn({**of_both, **(of_rows if rows else of_units)})

    def drawn(self, templates: SourceTemplates) -> Source:
        """Return one of the templates, by their weights."""
        weights, made = zip(*templates.values(), strict=True)
        return self.rng.choices(made, weights)[0]()

    def wrapped(self, query: tuple[str, list[tuple[str, str]], str | None]) -> Source:
        """Return a query as a derived table, or as a part of WITH."""
        text, columns, unit = query
        alias = self.name("t")
        if self.chance(0.3):
            part = self.name("w")
            self.parts.append(f"{part} AS ({text})")
            text = part
        else:
            text = f"({text})"
        found = [(f"{alias}.{name}", kind) for name, kind in columns]
        return Source(f"{text} AS {alias}", found, [f"{alias}.{unit}"] if unit else [])

    def where(self, source: Source, part: float = 0.5) -> str:
        conditions = [self.truth(source)] if self.chance(part) else []
        conditions += [self.subquery(source)] if self.chance(part / 2) else []
        conditions += [f"{lost} IS {self.one('', 'NOT ')}NULL" for lost in source.lost if self.chance(part)]
        conditions += [f"{source.units[0]} IS NOT NULL"] if source.units and self.chance(part / 10) else []
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""

    def subquery(self, source: Source) -> str:
        """Return a condition with a subquery over the same unit's rows, or over public ones."""
        no = self.one("", "NOT ")
        if not source.units or self.chance(0.4):
            inner = self.table("regions")
            town, factor = inner.of("text")[0], inner.of("number")[0]
            word, number = self.column("text", source, WORDS[0]), self.column("number", source, "1")
            return self.one(
                f"{word} {no}IN (SELECT {town} FROM {inner.text}{self.one('', f' WHERE {self.truth(inner, 1)}')})",
                f"{no}EXISTS (SELECT * FROM {inner.text} WHERE {town} = {word} AND {factor} < {number})",
                f"({word} {no}IN (SELECT {town} FROM {inner.text}) OR {self.truth(source, 1)})",
                f"{number} {self.one('<', '>=')} (SELECT {self.one('AVG', 'MAX')}({factor}) FROM {inner.text})",
                f"{number} > (SELECT COUNT(*) FROM {inner.text} WHERE {town} = {word})",
                f"({word}, {number}) IN (SELECT {town}, {factor} FROM {inner.text})",
            )
        inner, unit = self.table(self.one("visits", "orders", "items")), source.units[0]
        mine, number = inner.units[0], inner.of("number")[0]
        test = self.truth(inner, 1)
        between = f"{number} {self.one('<', '<>', '=')} {self.column('number', source, '1')}"
        return self.one(
            f"{unit} {no}IN (SELECT {mine} FROM {inner.text} WHERE {test})",
            f"{no}EXISTS (SELECT 1 FROM {inner.text} WHERE {mine} = {unit} AND {test})",
            f"{no}EXISTS (SELECT 1 FROM {inner.text} WHERE {mine} = {unit} AND {between})",
            f"(EXISTS (SELECT 1 FROM {inner.text} WHERE {mine} = {unit} AND {test}) OR {self.truth(source, 1)})",
            f"(SELECT COUNT(*) FROM {inner.text} WHERE {mine} = {unit} AND {test}) {self.one('> 1', '= 0', '< 3')}",
            f"COALESCE((SELECT {self.one('MAX', 'SUM')}({number}) FROM {inner.text} WHERE {unit} = {mine}), 2) > 1",
            f"{unit} {no}IN (SELECT {mine} FROM {inner.text} GROUP BY {mine} HAVING COUNT(*) > 1)",
            f"{self.column('number', source, '1')} > (SELECT AVG(CLIP({number}, -3, 3)) FROM {inner.text})",
            f"{self.column('number', source, '1')} < (SELECT COUNT(*) FROM {inner.text} WHERE {test}) / 2",
        )

    def linked(self) -> Source:
        """Return tables joined on the foreign key that leads to their unit, or one kept by another's."""
        one, other, pair = self.rng.choice(
            [
                ("visits", "orders", ("{0}.key", "{1}.ref")),
                ("orders", "items", ("{0}.number", '{1}."order"')),
                ("orders", "orders", ("{0}.ref", "{1}.ref")),
                ("items", "items", ('{0}."order"', '{1}."order"')),
            ]
        )
        left, right = self.table(one), self.table(other)
        aliases = [side.units[0].partition(".")[0] for side in (left, right)]
        mine, theirs = (half.format(*aliases) for half in pair)
        columns = [*left.columns, *right.columns]
        on = f"{mine} = {theirs}"
        halved = f"{left.text} {self.one('SEMI', 'ANTI')} JOIN {right.text} ON {on}"
        counts = f"SELECT {theirs} AS k, COUNT(*) AS c FROM {right.text} GROUP BY {theirs}"
        counted = f"{left.text} JOIN ({counts}) AS q ON {mine} = q.k"
        templates: SourceTemplates = {
            "LEFT JOIN": (
                1,
                lambda: Source(f"{left.text} LEFT JOIN {right.text} ON {on}", columns, left.units, right.units),
            ),
            "RIGHT JOIN": (
                1,
                lambda: Source(f"{left.text} RIGHT JOIN {right.text} ON {on}", columns, right.units, left.units),
            ),
            "SEMI or ANTI JOIN": (1, lambda: Source(halved, left.columns, left.units)),
            "no partner": (1, lambda: self._without_partner(left, right)),
            "IN or WHERE": (1, lambda: self._kept_by(left, right, mine, theirs)),
            "join with counts": (1, lambda: Source(counted, [*left.columns, ("q.c", "number")], left.units)),
            "JOIN": (2, lambda: Source(f"{left.text} JOIN {right.text} ON {theirs} = {mine}", columns, left.units)),
        }
        return self.drawn(templates)

    def _without_partner(self, left: Source, right: Source) -> Source:
        """Return rows of one table without a partner in another, or with one, by the unit of the optional side."""
        kept = [(self.name("x"), name, kind) for name, kind in left.columns[:3]]
        shown = ", ".join(f"{name} AS {new}" for new, name, _ in kept)
        joined = f"{left.text} LEFT JOIN {right.text} ON {left.units[0]} = {right.units[0]}"
        test = f"{right.units[0]} IS {self.one('', 'NOT ')}NULL"
        text = f"SELECT {left.units[0]} AS id, {shown} FROM {joined} WHERE {test}"
        return self.wrapped((text, [(new, kind) for new, _, kind in kept], "id"))

    def _kept_by(self, left: Source, right: Source, mine: str, theirs: str) -> Source:
        """Return rows of one table that another's keep."""
        kept = [(self.name("x"), name, kind) for name, kind in left.columns[:3]]
        shown = ", ".join(f"{name} AS {new}" for new, name, _ in kept)
        test = self.one(f"{mine} IN (SELECT {theirs} FROM {right.text})", f"{mine} = {theirs}")
        tables = left.text if " IN " in test else f"{left.text}, {right.text}"
        text = f"SELECT {left.units[0]} AS id, {shown} FROM {tables} WHERE {test}"
        return self.wrapped((text, [(new, kind) for new, _, kind in kept], "id"))

    def selected(self, source: Source, *, rows: bool) -> tuple[str, list[tuple[str, str]], str | None]:
        columns, items = [], []
        for kind in self.rng.sample(
            ["number", "number", "text", "text", "truth", "date", "moment"], self.rng.choice([2, 3, 5])
        ):
            name = self.name("x")
            columns.append((name, kind))
            items.append(f"{self.expression(kind, source)} AS {name}")
        unit = None if rows or not source.units else "id"
        if self.chance(0.15):
            columns = [*starred(source), *columns]
            return f"SELECT *, {', '.join(items)} FROM {source.text}{self.where(source)}", columns, unit
        head = [] if unit is None else [f"{source.units[0]} AS id"]
        once = "DISTINCT " if unit and self.chance(0.2) else ""
        return f"SELECT {once}{', '.join([*head, *items])} FROM {source.text}{self.where(source)}", columns, unit

    def windowed(self, source: Source) -> tuple[str, list[tuple[str, str]], str | None]:
        """Return rows with windows over those of their unit, as far as QUALIFY keeps them."""
        unit = source.units[0]
        kept = [(self.name("x"), name, kind) for name, kind in source.columns[:4]]
        items, columns = [f"{name} AS {new}" for new, name, _ in kept], [(new, kind) for new, _, kind in kept]
        for _ in range(self.rng.choice([1, 2])):
            number = self.number(source, 1)
            part = f", {self.rng.choice(source.columns)[0]}" if self.chance(0.3) else ""
            order = f"{self.rng.choice(source.columns)[0]}{self.one('', ' DESC', ' NULLS FIRST')}"
            function = self.one(
                "ROW_NUMBER()", "RANK()", "DENSE_RANK()", f"LAG({number})", f"LEAD({number}, 2)", f"SUM({number})",
                "COUNT(*)", f"AVG({number})", f"MAX({number})", f"FIRST_VALUE({number})",
            )  # fmt: skip
            name = self.name("v")
            by = f" ORDER BY {order}" if "(" in function and not function.startswith("AVG") else ""
            if by and function[:3] in {"SUM", "COU", "MAX"}:
                by += self.one(
                    "", " ROWS UNBOUNDED PRECEDING", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                    " ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
                )  # fmt: skip
            items.append(f"{function} OVER (PARTITION BY {unit}{part}{by}) AS {name}")
            columns.append((name, "number"))
        last, test = columns[-1][0], self.one("= 1", "< 3", "IS NOT NULL")
        window = f"(PARTITION BY {unit} ORDER BY {self.rng.choice(source.columns)[0]})"
        end = self.one(
            "", "", f" QUALIFY {last} {test}", f" QUALIFY ROW_NUMBER() OVER {window} {self.one('= 1', '<= 2')}",
            f" WINDOW w AS {window} QUALIFY ROW_NUMBER() OVER w = 1 AND {last} {test}",
        )  # fmt: skip
        text = f"SELECT {unit} AS id, {', '.join(items)} FROM {source.text}{self.where(source, 0.3)}{end}"
        if self.chance(0.1):
            shown = ", ".join(items[: len(kept)])
            by = f" ORDER BY {unit}, {self.rng.choice(source.columns)[0]}"
            text = f"SELECT DISTINCT ON ({unit}) {unit} AS id, {shown} FROM {source.text}{by}"
            return text, columns[: len(kept)], "id"
        return text, columns, "id"

    def within_unit(self, source: Source) -> tuple[str, list[tuple[str, str]], str | None]:
        unit = source.units[0]
        columns, items, keys = [], [], []
        for kind in self.rng.choice([[], [], ["text"], ["number"], ["date", "truth"]]):
            if not source.of(kind):
                continue
            key, name = self.expression(kind, source, 1), self.name("k")
            keys.append(key)
            items.append(f"{key} AS {name}")
            columns.append((name, kind))
        for _ in range(self.rng.choice([1, 2, 3])):
            name = self.name("g")
            aggregate = self.one(
                "COUNT(*)", "COUNT", "COUNT(DISTINCT", "SUM", "AVG", "MIN", "MAX", "DATE", "AT", "LOST"
            )
            number = self.number(source, 1)
            kind = "number"
            if aggregate == "COUNT(*)":
                text = aggregate
            elif aggregate == "COUNT(DISTINCT":
                text = f"COUNT(DISTINCT {self.expression(self.one('number', 'text'), source, 1)})"
            elif aggregate == "LOST":
                text = f"COUNT({source.lost[0] if source.lost else unit})"
            elif aggregate == "AT":
                kind = self.one("number", "text", "date")
                by = self.expression(self.one("number", "date"), source, 1)
                text = f"{self.one('ARG_MIN', 'ARG_MAX')}({self.expression(kind, source, 1)}, {by})"
            elif aggregate == "DATE":
                text, kind = f"{self.one('MIN', 'MAX')}({self.date(source, 1)})", "date"
            else:
                text = f"{aggregate}({number})"
            if self.chance(0.2) and aggregate != "AT":
                text += f" FILTER (WHERE {self.truth(source, 1)})"
            columns.append((name, kind))
            items.append(f"{text} AS {name}")
        having = f" HAVING COUNT(*) {self.one('> 1', '<= 2', 'BETWEEN 1 AND 3')}" if self.chance(0.3) else ""
        grouped = ", ".join([unit, *keys])
        text = f"SELECT {unit} AS id, {', '.join(items)} FROM {source.text}{self.where(source, 0.3)} GROUP BY {grouped}"
        return text + having, columns, "id"

    def union(self, *, rows: bool, depth: int) -> tuple[str, list[tuple[str, str]], str | None]:
        columns = [(self.name("u"), kind) for kind in self.rng.sample(["number", "number", "text", "date"], 2)]
        tables = [self.table("answers"), self.table("ballots")] if rows else None
        parts = []
        for at in range(2 if rows else self.rng.choice([2, 2, 3])):
            source = tables[at] if tables else self.source(rows=False, depth=depth)
            items = [f"{self.expression(kind, source, 1)} AS {name}" for name, kind in columns]
            head = [] if rows else [f"{source.units[0]} AS id"]
            parts.append(f"SELECT {', '.join([*head, *items])} FROM {source.text}{self.where(source, 0.3)}")
        if rows or self.chance(0.4):
            return " UNION ALL ".join(parts), columns, None if rows else "id"
        text = parts[0]
        for part in parts[1:]:
            text += f" {self.one('UNION', 'INTERSECT', 'EXCEPT', 'UNION ALL')} {part}"
        return text, columns, "id"

    def joined(self, left: Source, right: Source) -> Source:
        """Return two private sources joined on the unit."""
        if " JOIN " in right.text.split("(")[0]:
            return left
        kind = self.one("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN")
        on = f"{left.units[0]} = {right.units[0]}"
        columns = [*left.columns, *right.columns]
        if kind == "FULL JOIN":
            if not all(side.units[0].endswith(".id") for side in (left, right)) or " JOIN " in left.text.split("(")[0]:
                return left
            return Source(f"{left.text} FULL JOIN {right.text} USING (id)", columns, ["id"])
        if self.chance(0.4):
            on += f" AND {self.truth(Source('', columns, []), 1)}"
        if self.chance(0.3) and left.of("text") and right.of("text"):
            on += f" AND {self.rng.choice(left.of('text'))} = {self.rng.choice(right.of('text'))}"
        units = right.units if kind == "RIGHT JOIN" else left.units
        columns = left.columns if kind in {"SEMI JOIN", "ANTI JOIN"} else columns
        lost = {"LEFT JOIN": right.units, "RIGHT JOIN": left.units}.get(kind, [])
        return Source(f"{left.text} {kind} {right.text} ON {on}", columns, units, lost)

    def public(self, private: Source) -> Source:
        towns = self.table("regions")
        if self.chance(0.3):
            alias = self.name("p")
            text = self.one(
                "(SELECT town, COUNT(*) AS n, MAX(factor) AS m FROM regions GROUP BY town)",
                "(VALUES ('a', 1, 0.5), ('zz', 2, NULL), ('a', 3, 2))",
                "(SELECT DISTINCT region, factor, 1 FROM regions)",
            )
            kinds = [(f"{alias}.{name}", kind) for name, kind in (("w", "text"), ("n", "number"), ("m", "number"))]
            towns = Source(f"{text} AS {alias}(w, n, m)", kinds, [])
        columns = [*private.columns, *towns.columns]
        if self.chance(0.1):
            return Source(f"{private.text}{self.one(' CROSS JOIN ', ', ')}{towns.text}", columns, private.units)
        on = f"{self.column('text', private, WORDS[0])} = {towns.of('text')[0]}"
        if self.chance(0.3):
            on += f" AND {self.truth(Source('', columns, []), 1)}"
        kind = self.one("JOIN", "LEFT JOIN", "JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN")
        columns = private.columns if kind in {"SEMI JOIN", "ANTI JOIN"} else columns
        return Source(f"{private.text} {kind} {towns.text} ON {on}", columns, private.units)

    def beside_unread(self) -> Source:
        """Return a source joined once or twice with something unread; often it has one row for each unit.

        Then nothing bounds the rows of a unit after the join, and the plan relies on how many rows the join makes.
        """
        rows = self.chance(0.3)
        source = self.source(rows=rows, depth=0 if rows else 1)
        if not rows and self.chance(0.6):
            unit = source.units[0]
            text = f"SELECT {unit} AS id, {self.one('COUNT(*)', f'MAX({self.number(source, 0)})')} AS g "
            source = self.wrapped((f"{text} FROM {source.text} GROUP BY {unit}", [("g", "number")], "id"))
        for _ in range(self.rng.choice([1, 1, 2])):
            source = self.unread(source)
        return source

    def unread(self, private: Source) -> Source:
        """Return a source joined with something of which nothing is read, but perhaps in the condition of the join."""
        if private.units and self.chance(0.3):
            return self._unread_of_unit(private)
        alias, mine = self.name("u"), self.column("number", private, "1")
        one_row = "SELECT MAX(factor) AS m FROM regions"
        best = "SELECT town, MAX(factor) AS m, COUNT(*) AS c FROM regions GROUP BY town"
        other = self.one(
            f"({one_row})",
            "(SELECT MAX(factor) AS m, COUNT(*) AS c FROM regions)",
            "(SELECT COUNT(*) AS m FROM regions WHERE factor > 0)",
            "(SELECT MAX(factor) AS m FROM regions HAVING COUNT(*) > 1)",
            f"(SELECT MAX(m) AS m, SUM(c) AS c FROM ({best}) AS i)",
            "(SELECT m FROM (SELECT MAX(factor) AS m, MIN(factor) AS n FROM regions) AS i)",
            f"({best})",
            "(SELECT DISTINCT factor AS m FROM regions)",
            "(SELECT factor AS m, region FROM regions WHERE town <> 'b')",
            "(SELECT factor AS m FROM regions UNION ALL SELECT factor AS m FROM regions)",
            f"(SELECT a.m FROM ({best}) AS a LEFT JOIN regions AS b ON a.town = b.town)",
            f"(SELECT a.m FROM ({one_row}) AS a JOIN (SELECT MIN(factor) AS n FROM regions) AS b ON TRUE)",
            "(VALUES (1), (2), (2))",
            "(VALUES (1))",
            "GENERATE_SERIES(1, 3)",
        )
        named = f"{other} AS {alias}{'' if 'SELECT' in other else '(m)'}"
        join = self.one(
            f" JOIN {named} ON TRUE", f" JOIN {named} ON TRUE", f" JOIN {named} ON TRUE", f" CROSS JOIN {named}",
            f", {named}", f" LEFT JOIN {named} ON TRUE",
            f" JOIN {named} ON {mine} = {alias}.m", f" LEFT JOIN {named} ON {mine} = {alias}.m",
            f" LEFT JOIN {named} ON {mine} < {alias}.m", f" SEMI JOIN {named} ON {mine} = {alias}.m",
            f" ANTI JOIN {named} ON {mine} = {alias}.m", f" SEMI JOIN {named} ON {mine} <= {alias}.m",
        )  # fmt: skip
        return Source(f"{private.text}{join}", private.columns, private.units)

    def _unread_of_unit(self, private: Source) -> Source:
        """Return a source joined, on the unit, with rows or groups of the unit of which nothing else is read."""
        alias, table = self.name("u"), self.one("visits", "orders")
        number, word = ("age", "city") if table == "visits" else ("price", "item")
        groups = f"SELECT id, {word}, MAX({number}) AS m, COUNT(*) AS c FROM {table} GROUP BY id, {word}"
        other = self.one(
            f"(SELECT id, MAX({number}) AS m FROM {table} GROUP BY id)",
            f"({groups})",
            f"(SELECT id, SUM(m) AS m FROM ({groups}) AS i GROUP BY id)",
            f"(SELECT DISTINCT id, {word} FROM {table})",
            f"(SELECT id, {number}, ROW_NUMBER() OVER (PARTITION BY id ORDER BY {number}) AS m FROM {table})",
            table,
        )
        join = self.one("JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN")
        text = f"{private.text} {join} {other} AS {alias} ON {private.units[0]} = {alias}.id"
        return Source(text, private.columns, private.units)

    # questions

    def bounded(self, source: Source) -> str:
        inner = self.number(source)
        if self.chance(0.3):
            return inner
        return f"CLIP({inner}, {self.one('-3', '0', '-0.7')}, {self.one('1', '4', '2.5')})"

    def aggregate(self, source: Source) -> str:
        x, y = self.bounded(source), self.bounded(source)
        kind = self.one(
            "COUNT(*)", "COUNT", "UNITS", "DISTINCT", "SUM", "SUM", "AVG", "VARIANCE", "VAR_POP", "STDDEV",
            "STDDEV_POP", "MEDIAN", "QUANTILE", "WITHIN", "MIN", "MAX", "MODE", "CORR", "COVAR_SAMP", "COVAR_POP",
            "RATIO", "DATE", "COUNT_IF", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2", "REGR_AVGX", "ROW", "CASE UNIT",
            "BOOL_OR", "BOOL_AND", "SHARE", "QUANTILES", "DISTINCT SUM",
        )  # fmt: skip
        match kind:
            case "COUNT(*)":
                text = kind
            case "COUNT":
                text = f"COUNT({self.expression(self.one('number', 'text', 'date'), source, 1)})"
            case "UNITS":
                unit = self.one(*source.units[:1], *source.lost, *source.lost) if source.units else "1"
                text = f"COUNT({self.one('DISTINCT ', '')}{unit})" if source.units else "COUNT(*)"
            case "DISTINCT":
                text = f"COUNT(DISTINCT {self.expression(self.one('number', 'text', 'date', 'truth'), source, 1)})"
            case "DISTINCT SUM":
                text = f"{self.one('SUM', 'AVG', 'MIN')}(DISTINCT {x})"
            case "QUANTILE":
                text = f"QUANTILE({x}, {self.one('0.1', '0.5', '0.999')})"
            case "WITHIN":
                text = f"PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {x}{self.one('', ' DESC')})"
            case "MODE":
                text = f"MODE({self.one(self.word(source, 1), f'BIN({x}, 0, 8, 4)', self.truth(source, 1))})"
            case "ROW":
                pair = (self.expression(self.one("number", "text", "date"), source, 1) for _ in range(2))
                text = f"COUNT(DISTINCT ({', '.join(pair)}))"
            case "CASE UNIT":
                unit = source.units[0] if source.units else "'a'"
                text = f"COUNT(DISTINCT CASE WHEN {self.truth(source, 1)} THEN {unit} END)"
            case "BOOL_OR" | "BOOL_AND":
                text = f"{kind}({self.truth(source, 1)})"
            case "SHARE":
                text = f"{self.one('AVG', 'SUM')}({self.truth(source, 1)})"
            case "QUANTILES":
                text = f"QUANTILE({x}, [0.1, 0.5])"
            case "CORR" | "COVAR_SAMP" | "COVAR_POP" | "REGR_SLOPE" | "REGR_INTERCEPT" | "REGR_R2" | "REGR_AVGX":
                text = f"{kind}({x}, {y})"
            case "RATIO":
                return f"SUM({x}) / SUM({y})"
            case "DATE":
                text = f"{self.one('MIN', 'MAX', 'MEDIAN')}({self.column('date', source, DAYS[0])})"
            case "COUNT_IF":
                return f"COUNT_IF({self.truth(source)})"
            case _:
                text = f"{kind}({x})"
        return text + (f" FILTER (WHERE {self.truth(source)})" if self.chance(0.25) else "")

    def question(self, *, unread: bool = False) -> str:
        source = self.beside_unread() if unread else self.source(rows=self.chance(0.2))
        keys = []
        kinds: list[list[str]] = [[], [], ["text"], ["text"], ["number"], ["truth"], ["date"], ["text", "number"]]
        for kind in self.rng.choice([*kinds, *[[]] * (6 if unread else 0)]):
            if not source.of(kind):
                continue
            text = self.expression(kind, source, self.rng.choice([0, 1, 2]))
            if "." in text:  # a constant has one group
                keys.append((self.name("key"), text))
        items = [f"{text} AS {name}" for name, text in keys]
        wanted = [self.name("n") for _ in range(self.rng.choice([1, 1, 2, 3]))]
        items += [f"{self.aggregate(source)} AS {name}" for name in wanted]
        items += [f"COUNT(*) AS {self.name('n')}"] if unread else []
        text = f"SELECT {', '.join(items)} FROM {source.text}{self.where(source, 0.2 if unread else 0.5)}"
        if keys:
            by = [self.one(str(place), name) for place, (name, _) in enumerate(keys, start=1)]
            how = self.one("{}", "{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})")
            text += " GROUP BY " + how.format(", ".join(by))
        if self.chance(0.2):
            text += " HAVING COUNT(*) > 0"
        if self.chance(0.2):
            text += f" ORDER BY {wanted[0]} DESC LIMIT 5"
        if self.chance(0.15):
            text = self.over(text, wanted[0])
        return ("WITH " + ", ".join(self.parts) + " " if self.parts else "") + text

    def over(self, text: str, number: str) -> str:
        """Return a question about answers: a window, an aggregate, a filter, two answers one below the other."""
        return self.one(
            f"SELECT {number}, RANK() OVER (ORDER BY {number}) AS r FROM ({text}) AS o",
            f"SELECT COUNT(*) AS n, MAX({number}) AS m FROM ({text}) AS o WHERE {number} IS NOT NULL",
            f"SELECT {number} FROM ({text}) AS o QUALIFY ROW_NUMBER() OVER (ORDER BY {number} DESC) <= 3",
            f"SELECT DISTINCT {number} FROM ({text}) AS o",
        )


def sentence(rng: Random, *, unread: bool = False) -> tuple[str, dict[str, Any]]:
    """Return a random question and its parameters; ``unread`` for one with joins of which nothing is read."""
    text, values = Writer(rng).question(unread=unread), {}
    while "?" in text:
        name = f"p{len(values)}"
        if "??" in text:
            text = text.replace("??", f"${name}", 1)
            values[name] = rng.choice([[1], [0, 2.5, 9], (7, 2**70, Fraction(1, 3))])
            continue
        text = text.replace("?", f"${name}", 1)
        values[name] = rng.choice([0, 1, -2.5, 7, 2**70, None, 1e-299, Fraction(1, 3)])
    return text, values
