"""SQL text, made once from a tree of nodes in an engine's dialect. Nothing else in hush writes SQL.

Nodes that all engines spell alike are written here; `Primitive`, names, constants and casts are the dialect's. While a
statement is written, its parameters are numbered in the order in which they come, and the views that it needs are
noted.

A branch that is named several times is written once and copied. Expressions can double with every step, so none may be
longer than `MOST` characters, and no statement longer than the dialect takes: that depends on the question alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hush.engines.sql.dialect import Dialect, ViewContent
from hush.engines.sql.nodes import (
    TRUE,
    Alias,
    ArrayOf,
    Between,
    Case,
    Cast,
    ColumnName,
    Constant,
    ConstantRows,
    Costed,
    Directed,
    DistinctArgument,
    Double,
    FunctionCall,
    InList,
    IsNull,
    JoinClause,
    Node,
    Operation,
    Parameter,
    ParameterRows,
    Prefixed,
    Primitive,
    Scalar,
    Select,
    SourceView,
    Star,
    Subquery,
    TableFunction,
    TableName,
    Union,
    WindowCall,
    WithClause,
    alias,
    bottom_up,
    column,
    columns_of,
    select,
    where,
)
from hush.query.errors import UnplannableError

MOST = 500_000
"""A question with a longer expression, or with a longer statement, is refused."""
_SHORT = 60
"""A column of fewer characters is cheap enough to be computed at every mention."""
_JOINS = {"inner": "INNER JOIN", "left": "LEFT JOIN", "semi": "SEMI JOIN", "anti": "ANTI JOIN", "cross": "CROSS JOIN"}
_LOOKUPS = {"semi": "EXISTS", "anti": "NOT EXISTS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement as an engine runs it."""

    text: str
    parameters: tuple[int, ...]
    """The numbers of its parameters (`Parameter`), in the order of their places in the text."""
    views: tuple[tuple[str, ViewContent], ...]
    """The views that must be made before it runs, by name: the number of a source, or lists that are parameters."""
    query: Select
    """The tree of its text; an empty one of a constant text."""

    @property
    def labels(self) -> list[str]:
        """The names of the columns."""
        return self.query.labels


def plain(text: str, *parameters: int) -> Statement:
    """Return a statement from a constant text: a query over a server's own catalogue."""
    return Statement(text=text, parameters=parameters, views=(), query=Select())


def render(query: Select, dialect: Dialect, *, views: str = "view", limited: bool = True) -> Statement:
    """Return a query as a statement; ``views`` is how the names of its views begin.

    One that reads files is as long as they are wide, and not ``limited``: no table is refused for its columns.
    """
    renderer = Renderer(dialect, views, limited=limited)
    text = renderer.text(query)
    views_needed = tuple(renderer.views.items())
    return Statement(text=text, parameters=tuple(renderer.parameters), views=views_needed, query=query)


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
        """Return the text of a node."""
        texts = self._texts
        if id(root) not in texts:
            self._made.append(root)
            for node in bottom_up(root, lambda candidate: id(candidate) in texts):
                text = self._written(node)
                # at every node: where one is named twice texts double at each level, long before the whole is written
                if self._limited and len(text) > MOST and (isinstance(node, Scalar) or node is root):
                    raise UnplannableError("the question is too large; split it or simplify its expressions")
                texts[id(node)] = text
        return texts[id(root)]

    def each(self, nodes: Sequence[Node]) -> str:
        """Return the texts of several nodes, with commas between them."""
        return ", ".join([self.text(node) for node in nodes])

    def parameter(self, number: int) -> str:
        """Return the place of a parameter."""
        return self.dialect.parameter(self.parameters.setdefault(number, len(self.parameters) + 1))

    def view(self, content: ViewContent) -> str:
        """Return the name of a view that the statement needs, quoted: the same in all of a question's statements."""
        name = f"{self._prefix}_{content}" if isinstance(content, int) else f"{self._prefix}_list_{content[0][0]}"
        self.views[name] = content
        return self.dialect.quoted(name)

    def _written(self, node: Node) -> str:
        """Return the text of a node, after those of its parts."""
        text, dialect = self.text, self.dialect
        match node:
            case ColumnName():
                name = dialect.quoted(node.name)
                return name if node.table is None else f"{dialect.quoted(node.table)}.{name}"
            case Constant(value=str() as words):
                return dialect.text(words)
            case Constant(value=bool() | None as word):
                return {True: "TRUE", False: "FALSE", None: "NULL"}[word]
            case Constant(value=int() as whole_number):
                return dialect.integer(whole_number)
            case Operation():
                return _chain(node.operator, [text(operand) for operand in node.operands])
            case FunctionCall():
                return dialect.call(node.function, [text(operand) for operand in node.arguments])
            case Primitive():
                spelled: str = getattr(dialect, node.name)(
                    *(text(operand) for operand in node.arguments), **dict(node.options)
                )
                return spelled
            case Cast():
                make = dialect.try_cast if node.safe else dialect.cast
                return make(text(node.value), node.to, node.of)
            case Case():
                branches = [f"WHEN {text(condition)} THEN {text(value)}" for condition, value in node.pairs]
                branches += [] if node.otherwise is None else [f"ELSE {text(node.otherwise)}"]
                return f"CASE {' '.join(branches)} END"
            case Between():
                return f"{text(node.value)} BETWEEN {text(node.low)} AND {text(node.high)}"
            case InList():
                return f"({text(node.value)} IN ({self.each(node.values)}))"
            case Prefixed():
                return f"({node.operator}({text(node.value)}))"
            case IsNull():
                return f"({text(node.value)} IS {'NOT ' if node.negated else ''}NULL)"
            case Double():
                return dialect.double(node.value)
            case Alias():
                return f"{text(node.value)} AS {dialect.quoted(node.name)}"
            case Costed():
                return text(node.value)
            case DistinctArgument():
                return f"DISTINCT {text(node.value)}"
            case Directed():
                direction = "DESC" if node.descending else "ASC"
                return f"{text(node.value)} {direction} NULLS {'FIRST' if node.nulls_first else 'LAST'}"
            case WindowCall():
                clauses = [f"PARTITION BY {self.each(node.partition)}"] if node.partition else []
                clauses += [f"ORDER BY {self._order(node.order)}"] if node.order else []
                clauses += [node.frame] if node.frame else []
                return f"{text(node.call)} OVER ({' '.join(clauses)})"
            case Star():
                return "*" if node.table is None else f"{dialect.quoted(node.table)}.*"
            case Parameter():
                return self.parameter(node.number)
            case ArrayOf():
                return dialect.array([text(operand) for operand in node.values])
            case Select():
                return self._select(node)
            case JoinClause():
                on = "" if node.on is None else f" ON {text(node.on)}"
                return f"{_JOINS[node.kind]} {text(node.source)}{on}"
            case WithClause():
                return dialect.once(dialect.quoted(node.label), text(node.query))
            case TableName():
                path = [node.place] if isinstance(node.place, str) else node.place
                name = ".".join(map(dialect.quoted, path))
                return name if node.label is None else f"{name} AS {dialect.quoted(node.label)}"
            case Subquery():
                # a subquery whose columns are long is kept apart, where an engine would copy them to every mention
                long = any(len(self.text(selected)) > _SHORT for selected in node.query.columns)
                return f"({self.text(node.query)}{dialect.fence if long else ''}) AS {dialect.quoted(node.label)}"
            case Union():
                queries = " UNION ALL ".join([self.text(query) for query in node.queries])
                return f"({queries}) AS {dialect.quoted(node.label)}"
            case ConstantRows():
                rows = ", ".join(f"({self.each(row)})" for row in node.rows)
                return (
                    f"(VALUES {rows}) AS {dialect.quoted(node.label)}({', '.join(map(dialect.quoted, node.columns))})"
                )
            case ParameterRows():
                return dialect.rows_of(self, node.lists, node.label, node.columns)
            case SourceView():
                return self.view(node.number)
            case TableFunction():
                options = [f"{name} = {self.text(value)}" for name, value in node.options]
                arguments = [self.text(argument) for argument in node.arguments]
                return f"{node.function.upper()}({', '.join([*arguments, *options])})"
        raise TypeError(type(node))

    def _order(self, order: Sequence[Scalar]) -> str:
        texts = (
            self.text(term) if isinstance(term, Directed) else self.dialect.ascending(self.text(term)) for term in order
        )
        return ", ".join(texts)

    def _select(self, query: Select) -> str:
        if query.qualify is not None and not self.dialect.qualifies:
            return self.text(_without_qualify(query))
        text, each = self.text, self.each
        conditions, joins = [text(condition) for condition in query.where], []
        for join in query.joins:
            if join.kind in _LOOKUPS and not self.dialect.anti_joins:
                partner = f"SELECT 1 FROM {text(join.source)} WHERE {text(join.on or TRUE)}"  # noqa: S608 - made of nodes
                conditions.append(f"{_LOOKUPS[join.kind]} ({partner})")
            else:
                joins.append(text(join))
        parts = [f"WITH {each(query.before)}"] if query.before else []
        parts += ["SELECT DISTINCT" if query.distinct else "SELECT", each(query.columns)]
        parts += [] if query.source is None else [f"FROM {text(query.source)}"]
        parts += joins
        parts += [f"WHERE {' AND '.join(conditions)}"] if conditions else []
        parts += [f"GROUP BY {each(query.group)}"] if query.group else []
        parts += [] if query.having is None else [f"HAVING {text(query.having)}"]
        if query.qualify is not None:
            rank, limit = query.qualify
            parts.append(f"QUALIFY {_chain('<=', [text(rank), str(limit)])}")
        parts += [f"ORDER BY {self._order(query.order)}"] if query.order else []
        parts += [] if query.limit is None else [f"LIMIT {query.limit}"]
        return " ".join(parts)


def _chain(operator: str, operands: Sequence[str]) -> str:
    """Return operands joined from left to right, each step in parentheses."""
    first, *further = operands
    return "(" * len(further) + first + "".join(f" {operator} {operand})" for operand in further)


def _without_qualify(query: Select) -> Select:
    """Return a query with the window as a column of a subquery."""
    assert query.qualify is not None  # noqa: S101 - the caller looked
    rank, limit = query.qualify
    ranked = replace(query, columns=(*query.columns, alias(rank, "rank")), qualify=None)
    outer = select(columns_of(query.labels), ranked)
    return where(outer, column("rank", "t") <= limit)


__all__ = ["MOST", "Renderer", "Statement", "plain", "render"]
