"""What may be named after GROUP BY: keys, aggregates, constants and functions of these.

This serves twice: over the noisy answers of the whole question, and over the exact aggregates within one unit. A
subclass says what a key and an aggregate become.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from sqlglot import exp

from hush.core.values import dataclass
from hush.query.errors import QuestionError
from hush.query.expressions import Call, Expression, Literal, pieces
from hush.query.sql.calls import QUANTILES
from hush.query.sql.expressions import Converter, Rows, has_aggregate
from hush.query.sql.nodes import identifier, is_set, only, shown
from hush.query.sql.scope import UnitName


@dataclass(frozen=True, slots=True)
class Projection:
    """One item of SELECT."""

    name: str
    node: exp.Expr
    named: bool
    """Whether the analyst gave the name."""


def projections(select: exp.Select) -> list[Projection]:
    """Return the items of SELECT with their names; an item without one is named after what it is."""
    found: list[Projection] = []
    taken: set[str] = set()
    for place, node in enumerate(_one_by_one(select.expressions), start=1):
        inner, named = node, False
        if isinstance(node, exp.Alias):
            only(node, "this", "alias")
            inner, name, named = node.this, identifier(node.args["alias"]), True
        else:
            name = default_name(node, place)
        if name.casefold() in taken:
            if named or isinstance(inner, exp.Column):
                raise QuestionError(f"Two results are called '{name}'.", "Give one another name with AS.")
            name = next(f"{name}_{n}" for n in range(2, 10**6) if f"{name}_{n}".casefold() not in taken)
        taken.add(name.casefold())
        found.append(Projection(name, inner, named))
    return found


def _one_by_one(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return items of SELECT, in which a list of quantiles is an item for each, named by its percents."""
    items: list[exp.Expr] = []
    for place, node in enumerate(nodes, start=1):
        inner = node.this if isinstance(node, exp.Alias) else node
        quantile = inner.this if isinstance(inner, exp.Filter) else inner
        slots = ("quantile", "expression") if isinstance(quantile, QUANTILES) else ()
        slot = next((slot for slot in slots if isinstance(quantile.args.get(slot), exp.Array)), None)
        if slot is None or not quantile.args[slot].expressions:
            items.append(node)
            continue
        base = identifier(node.args["alias"]) if isinstance(node, exp.Alias) else default_name(node, place)
        for number, fraction in enumerate(quantile.args[slot].expressions, start=1):
            single = inner.copy()
            (single.this if isinstance(single, exp.Filter) else single).set(slot, fraction.copy())
            written = isinstance(fraction, exp.Literal) and not fraction.is_string
            percents = f"{float(fraction.this) * 100:g}".replace(".", "_") if written else str(number)
            items.append(exp.Alias(this=single, alias=exp.to_identifier(f"{base}_{percents}", quoted=True)))
    return items


def default_name(node: exp.Expr, place: int) -> str:
    """Return the name of a result that has none: of a column its own, of a function the function's."""
    while isinstance(node, (exp.Paren, exp.Filter, exp.WithinGroup)):
        node = node.this
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return identifier(node.this)
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower()[:60] if str(node.this).isidentifier() else f"column_{place}"
    if isinstance(node, exp.Func) and not isinstance(node, (exp.And, exp.Or, exp.Case, exp.Cast)):
        inner = node.args.get("this")
        of = (
            f"_{inner.name.lower()}" if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Identifier) else ""
        )
        return (node.sql_name().lower() + of)[:100]
    return f"column_{place}"


def group_items(select: exp.Select, items: Sequence[Projection], rows: Rows) -> list[exp.Expr]:
    """Return the expressions of GROUP BY, with ordinals and names of results put in; there may be one list of them."""
    sets = grouping_sets(select, items, rows)
    if len(sets) > 1:
        raise QuestionError("ROLLUP, CUBE and GROUPING SETS stand in a question over rows alone.", "List the keys.")
    return sets[0]


MAX_SETS = 64


def grouping_sets(select: exp.Select, items: Sequence[Projection], rows: Rows) -> list[list[exp.Expr]]:
    """Return the lists of keys that GROUP BY names: one, or those of ROLLUP, CUBE and GROUPING SETS.

    Several of them stand for all combinations: ``a, ROLLUP (b)`` for (a, b) and (a).
    """
    group = select.args.get("group")
    if group is None:
        return [[]]
    only(group, "expressions", "all", "rollup", "cube", "grouping_sets")
    if is_set(group.args.get("all")):  # every result that is not an aggregate; a constant has no groups
        return [
            [
                item.node
                for item in items
                if not has_aggregate(item.node) and any(isinstance(part, exp.Column) for part in item.node.walk())
            ]
        ]
    elements = [*group.expressions, *(one for name in _SETS for one in group.args.get(name) or ())]
    alone = [one for one in elements if isinstance(one, exp.Rollup | exp.Cube) and not one.expressions]
    if alone:  # GROUP BY a, b WITH ROLLUP
        if len(elements) != len(group.expressions) + 1:
            raise QuestionError("WITH ROLLUP stands at the end of GROUP BY, alone.", "Write GROUP BY ROLLUP (a, b).")
        alone[0].set("expressions", group.expressions)
        elements = alone
    known: dict[int, exp.Expr] = {}

    def key(node: exp.Expr) -> exp.Expr:
        return known.setdefault(id(node), _group_item(node, items, rows))

    found: list[list[exp.Expr]] = [[]]
    for element in elements:
        found = [[*before, *map(key, more)] for before in found for more in _sets_of(element)]
        if len(found) > MAX_SETS:
            raise QuestionError(f"GROUP BY names more than {MAX_SETS} lists of keys.", "Ask for fewer of them.")
    return found


_SETS = ("rollup", "cube", "grouping_sets")


def _sets_of(element: exp.Expr) -> list[list[exp.Expr]]:
    """Return the lists of keys that one element of GROUP BY stands for."""
    if isinstance(element, exp.GroupingSets):
        only(element, "expressions")
        return [found for part in element.expressions for found in _sets_of(part)]
    if isinstance(element, exp.Rollup | exp.Cube):
        only(element, "expressions")
        keys = [_listed(part) for part in element.expressions]
        if isinstance(element, exp.Rollup):
            chosen = [range(size) for size in range(len(keys), -1, -1)]
            return [[node for place in places for node in keys[place]] for places in chosen]
        if 2 ** len(keys) > MAX_SETS:
            raise QuestionError(f"GROUP BY names more than {MAX_SETS} lists of keys.", "Ask for fewer of them.")
        masks = range(2 ** len(keys) - 1, -1, -1)
        of_mask = [[place for place in range(len(keys)) if mask >> (len(keys) - 1 - place) & 1] for mask in masks]
        return [[node for place in places for node in keys[place]] for places in of_mask]
    return [_listed(element)]


def _listed(node: exp.Expr) -> list[exp.Expr]:
    """Return the keys of ``(a, b)``, or the one key."""
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this] if isinstance(node, exp.Paren) else [node]


def _group_item(node: exp.Expr, items: Sequence[Projection], rows: Rows) -> exp.Expr:
    if isinstance(node, exp.Literal) and not node.is_string:
        return _checked_key(ordinal(node, items).node)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and not is_set(node.args.get("table")):
        name = identifier(node.this)
        if rows.scope.find(name) is None:
            for item in items:
                if item.named and item.name.casefold() == name.casefold():
                    return _checked_key(item.node)
    return _checked_key(node)


def _checked_key(node: exp.Expr) -> exp.Expr:
    if has_aggregate(node):
        raise QuestionError(
            f"GROUP BY cannot use the aggregate {shown(node)}.", "Aggregate within the unit in a subquery first."
        )
    return node


def ordinal(node: exp.Literal, items: Sequence[Projection]) -> Projection:
    """Return the item of SELECT that a number stands for."""
    text = str(node.this)
    if not text.isdecimal() or len(text) > 6 or not 1 <= int(text) <= len(items):
        raise QuestionError(f"Result number {text[:20]} does not exist; there are {len(items)}.")
    return items[int(text) - 1]


class Grouped(Converter):
    """Expressions over keys and aggregates."""

    def __init__(self, rows: Rows, keys: Sequence[Expression]) -> None:
        super().__init__(rows.context)
        self.rows = rows
        self.keys = list(keys)
        self.aliases: dict[str, exp.Expr] = {}
        self.aliases_first = False
        self.results: frozenset[str] = frozenset()
        """The names that the analyst gave to results."""

    @abstractmethod
    def key(self, index: int) -> Expression:
        """Return what stands for a key."""

    def convert(self, node: object) -> Expression:
        """Return an expression over keys and aggregates: the whole node if it is a key, else part by part."""
        if isinstance(node, exp.Expr) and not isinstance(node, (exp.Literal, exp.Placeholder)):
            alias = self._alias(node)
            if alias is not None and self.aliases_first:
                return self._without_aliases(alias)
            if not has_aggregate(node) and self.keys:
                whole = self._whole(node)
                if whole is not None:
                    return whole
            if alias is not None:
                return self._without_aliases(alias)
        return super().convert(node)

    def _alias(self, node: exp.Expr) -> exp.Expr | None:
        if (
            isinstance(node, exp.Column)
            and isinstance(node.this, exp.Identifier)
            and not is_set(node.args.get("table"))
        ):
            return self.aliases.get(identifier(node.this).casefold())
        return None

    def _without_aliases(self, node: exp.Expr) -> Expression:
        aliases, self.aliases = self.aliases, {}
        try:
            return self.convert(node)
        finally:
            self.aliases = aliases

    def _whole(self, node: exp.Expr) -> Expression | None:
        try:
            found = self.rows.convert(node)
        except QuestionError:
            return None  # a part of it will say why
        if found in self.keys:
            return self.key(self.keys.index(found))
        return found if is_constant(found) else None

    def column(self, node: exp.Column) -> Expression:
        """Refuse a column that is neither a key nor inside an aggregate."""
        qualifier = node.args.get("table")
        name = identifier(node.this)
        alias = None if qualifier is None else identifier(qualifier)
        if alias is None and name.casefold() in self.results and self.rows.scope.find(name) is None:
            raise QuestionError(
                f"'{name}' is another result of this question, which results cannot use.",
                "Write what it stands for once more; an aggregate that is written twice is paid for once.",
            )
        found = self.rows.scope.require(name, alias, quoted=bool(node.this.args.get("quoted")))
        if isinstance(found, UnitName):
            self.rows.column(node)  # refuses, with the ways the unit can be used
        numeric = isinstance(found, str) and self.rows.types[found].kind.numeric
        aggregated = f"AVG({name})" if numeric else f"COUNT(DISTINCT {name})"
        if self.keys:
            raise QuestionError(
                f"'{name}' is neither in GROUP BY nor inside an aggregate.",
                f"Add it to GROUP BY, or aggregate it, as in {aggregated}.",
            )
        raise QuestionError(
            f"'{name}' outside an aggregate would return the rows of individuals.",
            f"Add GROUP BY {name} and COUNT(*), or aggregate it, as in {aggregated}.",
        )


def is_constant(expression: Expression) -> bool:
    """Return whether an expression depends on nothing."""
    return all(isinstance(piece, Call | Literal) for piece in pieces(expression))
