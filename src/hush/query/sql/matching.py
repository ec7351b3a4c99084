"""FROM over answers: finished questions, joined on their keys.

A join may not make many rows of few: after the charge nothing may fail, and how many private keys there are is not
known before. So what is joined on must be all keys of one side, of which each combination occurs once there.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

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
from hush.query.sql.expressions import Rows
from hush.query.sql.nodes import identifier, is_set, only, refuse, shown
from hush.query.sql.over_answers import answers_of, is_finished, part_of
from hush.query.sql.scope import Binding, Context, Scope, Source
from hush.query.sql.sources import Derived, Parts

_NO_ROWS = Scan(table="answers", public=True, columns=())


def from_answers(
    select: exp.Select, context: Context, parts: Parts
) -> tuple[AnswerTable, list[Source], dict[str, Binding]]:
    """Return the answers that a SELECT reads: the table, its names, and the names that USING joined."""
    clause = select.args["from_"]
    only(clause, "this")
    table, source = _item(clause.this, context, parts)
    sources: list[Source] = [source]
    merged: dict[str, Binding] = {}
    for join in select.args.get("joins") or ():
        if not isinstance(join, exp.Join):
            raise refuse(join)
        other, source = _item(join.this, context, parts)
        table, source, merged = _joined(join, (table, sources, merged), (other, source), context)
        sources.append(source)
    return table, sources, merged


def _item(node: exp.Expr, context: Context, parts: Parts) -> tuple[AnswerTable, Source]:
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
        made = answers_of(part.query, context, part.parts) if known is None else known[0]
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
        made = answers_of(bare, context, parts)
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
