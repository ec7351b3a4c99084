"""FROM over answers: finished questions, joined on their keys.

A join may not make many rows of few: after the charge nothing may fail, and how many private keys there are is not
known before. So what is joined on must be all keys of one side, of which each combination occurs once there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sqlglot import exp

from hush.core.values import dataclass
from hush.query.composed import (
    AnswerTable,
    Asked,
    Computed,
    Matched,
    Qualified,
    Regrouped,
    Sorted,
    Stacked,
    Windowed,
    columns_of,
    noisy_names,
)
from hush.query.errors import QuestionError
from hush.query.expressions import Column, Expression, Op
from hush.query.functions import call
from hush.query.relations import Scan
from hush.query.sql.calls import is_aggregate
from hush.query.sql.expressions import Rows
from hush.query.sql.grouping import grouping_sets, projections
from hush.query.sql.nodes import children, identifier, is_set, only, refuse, shown
from hush.query.sql.scope import Binding, Context, Scope, Source
from hush.query.sql.sources import Derived, Part, Parts, from_clause, with_parts

_NO_ROWS = Scan(table="answers", public=True, columns=())


@dataclass(slots=True)
class Answers:
    """A table of answers, and what its results are called."""

    table: AnswerTable
    names: list[tuple[str, str]]
    """Each result's name, and its column."""


Read = Callable[[exp.Expr, Context, Parts], Answers]
"""Resolves a query that is made of finished questions."""


def is_finished(node: object, context: Context, parts: Parts) -> bool:
    """Return whether an item of FROM is made of finished questions."""
    if isinstance(node, exp.Table):
        part = part_of(node, parts)
        return part is not None and is_finished(part.query, context, part.parts)
    if not isinstance(node, exp.Query):
        return False
    if id(node) not in context.answered:
        with trial(context):
            found = _is_finished(node, context, parts)
        context.answered[id(node)] = found, node  # the node too, so that its id stays its own
    return bool(context.answered[id(node)][0])


def _is_finished(node: exp.Query, context: Context, parts: Parts) -> bool:
    try:
        parts = with_parts(node, context, parts)
        if isinstance(node, exp.Subquery):
            return is_finished(node.this, context, parts)
        if isinstance(node, exp.SetOperation):
            return is_finished(node.this, context, parts) or is_finished(node.expression, context, parts)
        if not isinstance(node, exp.Select):
            return False
        if any(is_finished(item, context, parts) for item in from_items(node)):
            return True
        grouped = is_set(node.args.get("group")) or is_set(node.args.get("having"))
        if not grouped and not any(map(aggregates_outside_windows, node.expressions)):
            return False
        scope = from_clause(node, context, parts)
        rows = Rows(context, scope)
        lists = grouping_sets(node, projections(node), rows)
        return scope.private and not any(_of_one_unit(rows, key) for keys in lists for key in keys)
    except QuestionError:
        return False  # said where it is resolved


def _of_one_unit(rows: Rows, node: exp.Expr) -> bool:
    """Return whether a key of GROUP BY is the unit, or belongs to one."""
    if rows.unit(node):
        return True
    expression = rows.convert(node)
    return isinstance(expression, Column) and expression.name in rows.context.links


@contextmanager
def trial(context: Context) -> Iterator[None]:
    """Resolve something without keeping anything of it."""
    parts, questions = len(context.parts), len(context.questions)
    used = [part.used for part in context.parts]
    with context.trial():
        try:
            yield
        finally:
            del context.parts[parts:]
            del context.questions[questions:]
            for part, before in zip(context.parts, used, strict=True):
                part.used = before


def from_items(select: exp.Select) -> list[exp.Expr]:
    """Return what FROM and its joins name."""
    clause = select.args.get("from_")
    first = [] if clause is None else [clause.this]
    return [*first, *(join.this for join in select.args.get("joins") or ())]


def part_of(node: exp.Table, parts: Parts) -> Part | None:
    """Return the part of WITH that an item of FROM names."""
    if not isinstance(node.this, exp.Identifier) or is_set(node.args.get("db")):
        return None
    return parts.get(identifier(node.this).casefold())


def aggregates_outside_windows(node: exp.Expr) -> bool:
    """Return whether a node has aggregates that are not window functions themselves."""
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        inside = [child for child in children(node) if child is not node.this]
        return any(map(aggregates_outside_windows, (*inside, *children(node.this))))
    return is_aggregate(node) or any(map(aggregates_outside_windows, children(node)))


# FROM


def from_answers(
    select: exp.Select, context: Context, parts: Parts, read: Read
) -> tuple[AnswerTable, list[Source], dict[str, Binding]]:
    """Return the answers that a SELECT reads: the table, its names, and the names that USING joined."""
    clause = select.args["from_"]
    only(clause, "this")
    table, source = _item(clause.this, context, parts, read)
    sources: list[Source] = [source]
    merged: dict[str, Binding] = {}
    for join in select.args.get("joins") or ():
        if not isinstance(join, exp.Join):
            raise refuse(join)
        other, source = _item(join.this, context, parts, read)
        table, source, merged = _joined(join, (table, sources, merged), (other, source), context)
        sources.append(source)
    return table, sources, merged


def _item(node: exp.Expr, context: Context, parts: Parts, read: Read) -> tuple[AnswerTable, Source]:
    if not is_finished(node, context, parts):
        raise QuestionError(
            f"{shown(node)} is no finished question, and answers can be joined with answers alone.",
            "Join tables in the question itself, before it aggregates.",
        )
    renamed: list[str] = []
    if isinstance(node, exp.Table):
        only(node, "this", "alias")
        part = part_of(node, parts)
        assert part is not None  # noqa: S101 - only parts of WITH are finished
        part.used = True
        known = context.answered.get(id(part))
        made = read(part.query, context, part.parts) if known is None else known[0]
        renamed = list(part.columns)
        names = list(Derived(_NO_ROWS, list(made.names)).source("WITH", renamed).names.values())
        table = made.table
        if known is not None:  # read twice: each has names of its own
            columns = columns_of(table)
            fresh = {one.name: context.fresh(one.name) for one in columns}
            table = Computed(source=table, columns=tuple((fresh[one.name], one.column) for one in columns))
            names = [(name, fresh[str(unique)]) for name, unique in names]
        context.answered[id(part)] = made, part
        default: str | None = identifier(node.this)
    elif isinstance(node, exp.Subquery):
        only(node, "this", "alias", "with_")
        bare = node.copy()
        bare.set("alias", None)
        made = read(bare, context, parts)
        names, table, default = list(made.names), made.table, None
    else:
        raise refuse(node)
    alias, columns_renamed = _alias(node)
    return table, Derived(_NO_ROWS, list(names)).source(alias or default, columns_renamed)


def _alias(node: exp.Expr) -> tuple[str | None, list[str]]:
    alias = node.args.get("alias")
    if alias is None:
        return None, []
    if not isinstance(alias, exp.TableAlias):
        raise refuse(node)
    only(alias, "this", "columns")
    name = None if alias.args.get("this") is None else identifier(alias.this)
    return name, [identifier(column) for column in alias.args.get("columns") or ()]


def _joined(
    join: exp.Join,
    left: tuple[AnswerTable, list[Source], dict[str, Binding]],
    right: tuple[AnswerTable, Source],
    context: Context,
) -> tuple[AnswerTable, Source, dict[str, Binding]]:
    only(join, "this", "side", "kind", "on", "using")
    (table, sources, merged), (other, source) = left, right
    how = str(join.args.get("side") or "inner").lower()
    kind = str(join.args.get("kind") or "").upper()
    if how not in {"inner", "left", "right", "full"} or kind not in {"", "INNER", "OUTER", "CROSS"}:
        raise QuestionError(f"{shown(join)} is not supported over answers.", "Use JOIN, LEFT JOIN or FULL JOIN.")
    pairs: list[tuple[str, str]] = []
    rest: list[Expression] = []
    names: dict[str, Binding] = {}
    if is_set(join.args.get("using")):
        used = [identifier(node) for node in join.args["using"]]
        scope = Scope(_scan(table), sources, merged)
        inner = Scope(_scan(other), [source])
        pairs += [(str(scope.require(name)), str(inner.require(name))) for name in used]
        side = 1 if how == "right" else 0
        names = {name.casefold(): pair[side] for name, pair in zip(used, pairs, strict=True)}
        if how == "full":
            raise QuestionError(
                "FULL JOIN over answers needs ON.", "Write ON a.key = b.key, and COALESCE(a.key, b.key)."
            )
        source = Source(source.alias, source.names, merged=frozenset(names))
    elif is_set(join.args.get("on")):
        both = {
            **{one.name: one.type for one in columns_of(table)},
            **{one.name: one.type for one in columns_of(other)},
        }
        scan = Scan(table="answers", public=True, columns=tuple((name, name, type_) for name, type_ in both.items()))
        condition = Rows(context, Scope(scan, [*sources, source], merged, settled=True)).condition(join.args["on"])
        pairs, rest = _equalities(condition, {one.name for one in columns_of(table)})
    elif how != "inner":
        raise QuestionError(f"{shown(join)} needs ON or USING.", "Write ON a.key = b.key.")
    if rest and how != "inner":
        raise QuestionError("An outer join over answers is on equal keys alone.", "Move other conditions to WHERE.")
    noise = {name for pair in pairs for name in pair} & (noisy_names(table) | noisy_names(other))
    if noise:
        raise QuestionError("Answers are joined on keys; noisy numbers are equal by chance.", "Join on the keys.")
    _check_few(table, other, pairs, shown(join))
    if how == "right":
        table, other, pairs, how = other, table, [(b, a) for a, b in pairs], "left"
    found: AnswerTable = Matched(left=table, right=other, on=tuple(pairs), how=how)
    for condition in rest:
        found = Qualified(source=found, condition=condition)
    return found, source, merged | names


def _scan(table: AnswerTable) -> Scan:
    return Scan(
        table="answers", public=True, columns=tuple((one.name, one.name, one.type) for one in columns_of(table))
    )


def _equalities(condition: Expression, left: set[str]) -> tuple[list[tuple[str, str]], list[Expression]]:
    """Return the equal columns of ON, the left one first, and whatever else it asks."""
    pairs: list[tuple[str, str]] = []
    rest: list[Expression] = []
    stack = [condition]
    while stack:
        one = stack.pop()
        arguments: Sequence[Expression] = getattr(one, "arguments", ())
        op = getattr(one, "op", None)
        if op is Op.AND:
            stack.extend(reversed(arguments))
        elif op is Op.EQUAL and all(isinstance(argument, Column) for argument in arguments):
            a, b = (argument.name for argument in arguments if isinstance(argument, Column))
            if (a in left) is not (b in left):
                pairs.append((a, b) if a in left else (b, a))
            else:
                rest.append(call(Op.EQUAL, *arguments))
        else:
            rest.append(one)
    return pairs, rest


def _check_few(left: AnswerTable, right: AnswerTable, pairs: list[tuple[str, str]], written: str) -> None:
    """Refuse a join that may make more rows than one of its sides has."""
    for side, at in ((right, 1), (left, 0)):
        keys = row_keys(side)
        if keys is not None and keys <= {pair[at] for pair in pairs}:
            return
    raise QuestionError(
        f"{written} could make many rows of one: it is not on all keys of either side.",
        "Join on all keys of one of the two answers, or with an answer that has one row.",
    )


def row_keys(table: AnswerTable) -> frozenset[str] | None:
    """Return columns of which each combination occurs in one row at most; None if none are known."""
    match table:
        case Asked():
            return frozenset(one.name for one in table.columns if not one.noisy)
        case Qualified() | Sorted() | Windowed():
            return row_keys(table.source)
        case Regrouped():
            return frozenset(name for name, _ in table.keys)
        case Computed():
            before = row_keys(table.source)
            renamed = {one.name: name for name, one in table.columns if isinstance(one, Column)}
            return (
                None if before is None or not before <= renamed.keys() else frozenset(renamed[name] for name in before)
            )
        case Matched():
            one, other = row_keys(table.left), row_keys(table.right)
            return None if one is None or other is None else one | other
        case Stacked():
            return None
