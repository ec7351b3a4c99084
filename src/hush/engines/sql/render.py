"""SQL text, made once from a tree of nodes in an engine's dialect. Nothing else in hush writes SQL.

Nodes that all engines spell alike are written here; `Primitive`, names, constants and casts are the dialect's. While a
statement is written, its parameters are numbered in the order in which they come, and the views that it needs are
noted.

A branch that is named several times is written once and copied. Expressions can double with every step, so none may be
longer than `MOST` characters, and no statement longer than the dialect takes: that depends on the question alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hush.engines.sql import nodes
from hush.engines.sql.dialect import DUCKDB, Dialect
from hush.engines.sql.nodes import DIRECTIONS, Node, Scalar, Select, column, columns_of, select
from hush.query.errors import UnplannableError

ViewContent = int | tuple[tuple[int, str, str], ...]
"""The content of a view: the number of a source, or lists: a parameter's number, the engine's type and a name each."""
MOST = 500_000
"""A question with a longer expression, or with a longer statement, is refused."""
_SHORT = 60
"""A column of fewer characters is cheap enough to be computed at every mention."""
_JOINS = {"inner": "INNER JOIN", "left": "LEFT JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN", "cross": "CROSS JOIN"}
_FORMS: Mapping[str, str] = {
    "NEGATIVE": "(-({0}))",
    "NOT": "(NOT ({0}))",
    "IS NULL": "({0} IS NULL)",
    "IS NOT NULL": "({0} IS NOT NULL)",
    "BETWEEN": "{0} BETWEEN {1} AND {2}",
    "DISTINCT": "DISTINCT {0}",
    **{direction: "{0} " + direction for direction in DIRECTIONS.values()},
}
"""Operations that are no operator between operands."""
_LOOKUPS = {"semi": "EXISTS", "anti": "NOT EXISTS"}


class Statement(NamedTuple):
    """A statement as an engine runs it."""

    text: str
    parameters: tuple[int, ...]
    """The numbers of its parameters (`ParameterRows`), in the order of their places in the text."""
    views: tuple[tuple[str, ViewContent], ...]
    """The views that must be made before it runs, by name: the number of a source, or lists that are parameters."""
    query: Select
    """The tree of its text; an empty one of a constant text."""

    def values(self, parameters: Mapping[int, Any]) -> list[Any]:
        """Return its parameters, in the order of their places, from those of the question by their numbers."""
        return [parameters[number] for number in self.parameters]


def plain(text: str, *parameters: int) -> Statement:
    """Return a statement from a constant text: a query over a server's own catalogue."""
    return Statement(text=text, parameters=parameters, views=(), query=Select())


def render(query: Select, dialect: Dialect, *, views: str = "view", limited: bool = True) -> Statement:
    """Return a query as a statement; ``views`` is how the names of its views begin.

    One that reads files is as long as they are wide, and not ``limited``: no table is refused for its columns.
    """
    renderer = Renderer(dialect, views, limited=limited)
    text = renderer.text(query)
    return Statement(text, parameters=tuple(renderer.parameters), views=tuple(renderer.views.items()), query=query)


def text_of(query: Select) -> str:
    """Return a query in DuckDB's dialect, however long: one that reads a file is as long as the file is wide."""
    return render(query, DUCKDB, limited=False).text


class Renderer:
    """Writes one statement."""

    def __init__(self, dialect: Dialect, views: str = "view", *, limited: bool = True) -> None:
        self.dialect = dialect
        self._limited = limited
        self.parameters: dict[int, int] = {}
        """The place of each parameter, from 1 on."""
        self.views: dict[str, ViewContent] = {}
        """The views that the statement needs."""
        self._prefix = views
        self._texts: dict[int, str] = {}
        self._made: list[Node] = []
        """Nodes that were made on the way, which must live as long as their texts."""

    def text(self, root: Node) -> str:
        """Return the text of a node.

        Trees are as deep as questions are nested, times the steps that each function takes: no recursion could follow
        them.
        """
        texts, waiting = self._texts, [root]
        self._made.append(root)
        while waiting:
            node = waiting[-1]
            further = [child for child in node.children if id(child) not in texts]
            if further:
                waiting += reversed(further)
                continue
            waiting.pop()
            if id(node) in texts:
                continue
            text = self._written(node, [texts[id(child)] for child in node.children])
            # at every node: where one is named twice texts double at each level, long before the whole is written
            if self._limited and len(text) > MOST and (isinstance(node, Scalar) or node is root):
                raise UnplannableError("the question is too large; split it or simplify its expressions")
            texts[id(node)] = text
        return texts[id(root)]

    def each(self, nodes: Sequence[Node]) -> str:
        """Return the texts of several nodes, with commas between them."""
        return ", ".join([self._texts[id(node)] for node in nodes])

    def view(self, content: ViewContent) -> str:
        """Return the name of a view that the statement needs, quoted: the same in all of a question's statements."""
        name = f"{self._prefix}_{content}" if isinstance(content, int) else f"{self._prefix}_list_{content[0][0]}"
        self.views[name] = content
        return self.dialect.quoted(name)

    def _written(self, node: Node, parts: list[str]) -> str:
        """Return the text of a node from those of its parts."""
        dialect, quoted = self.dialect, self.dialect.quoted
        match node:
            case nodes.ColumnName():
                return quoted(node.name) if node.table is None else f"{quoted(node.table)}.{quoted(node.name)}"
            case nodes.Operation():
                if node.operator == "IN":
                    return f"({parts[0]} IN ({', '.join(parts[1:])}))"
                form = _FORMS.get(node.operator)
                return _chain(node.operator, parts) if form is None else form.format(*parts)
            case nodes.Primitive():
                spelled: str = getattr(dialect, node.name)(*parts, **dict(node.options))
                return spelled
            case nodes.FunctionCall():
                return dialect.call(node.function, parts)
            case nodes.Cast():
                return (dialect.try_cast if node.safe else dialect.cast)(parts[0], node.to, node.of)
            case nodes.Constant(value=str() as words):
                return dialect.text(words)
            case nodes.Constant(value=bool() | None as word):
                return {True: "TRUE", False: "FALSE", None: "NULL"}[word]
            case nodes.Constant(value=int() as whole_number):
                return dialect.integer(whole_number)
            case nodes.Alias():
                return f"{parts[0]} AS {quoted(node.name)}"
            case nodes.Costed():
                return parts[0]
            case nodes.Case():
                pairs = zip(parts[::2], parts[1::2], strict=False)
                branches = [f"WHEN {condition} THEN {value}" for condition, value in pairs]
                branches += [] if node.otherwise is None else [f"ELSE {parts[-1]}"]
                return f"CASE {' '.join(branches)} END"
            case nodes.Double():
                return dialect.double(node.value)
            case Select():
                return self._select(node)
            case nodes.TableName():
                if isinstance(node.place, int):
                    return self.view(node.place)
                name = ".".join(map(quoted, [node.place] if isinstance(node.place, str) else node.place))
                return name if node.label is None else f"{name} AS {quoted(node.label)}"
            case nodes.Subquery():
                # a subquery whose columns are long is kept apart, where an engine would copy them to every mention
                fence = ""
                if dialect.fence and len(parts) == 1:
                    long = any(len(self._texts[id(selected)]) > _SHORT for selected in node.queries[0].columns)
                    fence = dialect.fence if long else ""
                return f"({' UNION ALL '.join(parts)}{fence}) AS {quoted(node.label)}"
            case nodes.JoinClause():
                on = "" if node.on is None else f" ON {parts[1]}"
                return f"{_JOINS[node.kind]} {parts[0]}{on}"
            case nodes.WindowCall():
                clauses = [f"PARTITION BY {self.each(node.partition)}"] if node.partition else []
                clauses += [f"ORDER BY {self._order(node.order)}"] if node.order else []
                clauses += [node.frame] if node.frame else []
                return f"{parts[0]} OVER ({' '.join(clauses)})"
            case nodes.Star():
                return "*" if node.table is None else f"{quoted(node.table)}.*"
            case nodes.ConstantRows():
                rows = ", ".join(f"({self.each(row)})" for row in node.rows)
                return f"(VALUES {rows}) AS {quoted(node.label)}({', '.join(map(quoted, node.columns))})"
            case nodes.ParameterRows():
                lists, places = zip(node.lists, node.columns, strict=True), self.parameters
                if dialect.lists_are_views:
                    view = self.view(tuple((number, dialect.type_name(of), name) for (number, of), name in lists))
                    return f"{view} AS {quoted(node.label)}"
                return dialect.rows_of(
                    [(places.setdefault(number, len(places) + 1), of, name) for (number, of), name in lists], node.label
                )
            case nodes.TableFunction():
                values = parts[len(node.arguments) :]
                options = [f"{name} = {value}" for (name, _), value in zip(node.options, values, strict=True)]
                return f"{node.function.upper()}({', '.join([*parts[: len(node.arguments)], *options])})"
        raise TypeError(type(node))

    def _order(self, order: Sequence[Scalar]) -> str:
        texts = []
        for term in order:
            is_directed = isinstance(term, nodes.Operation) and term.operator in DIRECTIONS.values()
            text = self._texts[id(term)]
            texts.append(text if is_directed else self.dialect.ascending(text))
        return ", ".join(texts)

    def _select(self, query: Select) -> str:
        dialect, texts, each = self.dialect, self._texts, self.each
        if query.qualify is not None and not dialect.qualifies:  # the window is a column of a subquery
            rank, limit = query.qualify
            ranked = replace(query, columns=(*query.columns, rank.alias("rank")), qualify=None)
            return self.text(select(columns_of(query.labels), ranked).where(column("rank", "t") <= limit))
        conditions, joins = [texts[id(condition)] for condition in query.conditions], []
        for join in query.joins:
            if join.kind in _LOOKUPS and not dialect.anti_joins:
                on = "TRUE" if join.on is None else texts[id(join.on)]
                partner = f"SELECT 1 FROM {texts[id(join.source)]} WHERE {on}"  # noqa: S608 - made of nodes
                conditions.append(f"{_LOOKUPS[join.kind]} ({partner})")
            else:
                joins.append(texts[id(join)])
        before = [dialect.once(dialect.quoted(label), texts[id(subquery)]) for label, subquery in query.before]
        parts = [f"WITH {', '.join(before)}"] if before else []
        parts += ["SELECT DISTINCT" if query.distinct else "SELECT", each(query.columns)]
        parts += [] if query.source is None else [f"FROM {texts[id(query.source)]}"]
        parts += joins
        parts += [f"WHERE {' AND '.join(conditions)}"] if conditions else []
        parts += [f"GROUP BY {each(query.group)}"] if query.group else []
        parts += [] if query.having is None else [f"HAVING {texts[id(query.having)]}"]
        if query.qualify is not None:
            rank, limit = query.qualify
            parts.append(f"QUALIFY {_chain('<=', [texts[id(rank)], str(limit)])}")
        parts += [f"ORDER BY {self._order(query.order)}"] if query.order else []
        parts += [] if query.limit is None else [f"LIMIT {query.limit}"]
        return " ".join(parts)


def _chain(operator: str, operands: Sequence[str]) -> str:
    """Return operands joined from left to right, each step in parentheses."""
    return "(" * (len(operands) - 1) + f" {operator} ".join([operands[0], *map("{})".format, operands[1:])])


__all__ = ["MOST", "Renderer", "Statement", "plain", "render", "text_of"]
