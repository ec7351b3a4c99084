"""From the steps of the builder to sqlglot's tree, which then goes the way of all SQL."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from hush.query.sql.reading import read_expression
from hush.query.steps import Fragment, Item, JoinStep, Steps

_ORDER = re.compile(r"(?is)^(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*$")


def tree(steps: Steps) -> tuple[exp.Expr, list[Any]]:
    """Return the tree of a question and the values of its parameters, in order."""
    values: list[Any] = []
    return _select(steps, values), values


def _read(fragment: Fragment, values: list[Any]) -> exp.Expr:
    node = read_expression(fragment.text, len(values) + 1)
    values.extend(fragment.values)
    return node


def _source(source: str | Steps, alias: str | None, values: list[Any]) -> exp.Expr:
    named = None if alias is None else exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    if isinstance(source, Steps):
        return exp.Subquery(this=_select(source, values), alias=named)
    return exp.Table(this=exp.to_identifier(source, quoted=True), alias=named)


def _select(steps: Steps, values: list[Any]) -> exp.Expr:
    """Return the tree of a SELECT, in the order in which SQL is written, and collect its values."""
    selected = [_item(item, values) for item in steps.select] or [exp.Star()]
    select = exp.Select(expressions=selected)
    select.set("from_", exp.From(this=_source(steps.source, steps.alias, values)))
    joins = [_join(step, values) for step in steps.joins]
    if joins:
        select.set("joins", joins)
    if steps.where:
        select.set("where", exp.Where(this=_all([_read(fragment, values) for fragment in steps.where])))
    if steps.grouped and steps.keys:
        select.set("group", exp.Group(expressions=[_read(fragment, values) for _, fragment in steps.keys]))
    if steps.having:
        select.set("having", exp.Having(this=_all([_read(fragment, values) for fragment in steps.having])))
    if steps.order:
        select.set("order", exp.Order(expressions=[_ordered(fragment, values) for fragment in steps.order]))
    if steps.limit is not None:
        select.set("limit", exp.Limit(expression=exp.Literal.number(steps.limit)))
    if steps.offset:
        select.set("offset", exp.Offset(expression=exp.Literal.number(steps.offset)))
    whole: exp.Expr = select
    for other in steps.also:
        whole = exp.Union(this=whole, expression=_select(other, values), distinct=False)
    return whole


def _item(item: Item, values: list[Any]) -> exp.Expr:
    name, fragment = item
    node = _read(fragment, values)
    return node if name is None else exp.Alias(this=node, alias=exp.to_identifier(name, quoted=True))


def _all(nodes: list[exp.Expr]) -> exp.Expr:
    found = nodes[0]
    for node in nodes[1:]:
        found = exp.And(this=_closed(found), expression=_closed(node))
    return found


def _closed(node: exp.Expr) -> exp.Expr:
    return exp.Paren(this=node) if isinstance(node, exp.Or) else node


def _join(step: JoinStep, values: list[Any]) -> exp.Expr:
    join = exp.Join(this=_source(step.source, step.alias, values))
    if step.how != "inner":
        join.set("side" if step.how == "left" else "kind", step.how.upper())
    if step.on is not None:
        join.set("on", _read(step.on, values))
    if step.using:
        join.set("using", [exp.to_identifier(name, quoted=True) for name in step.using])
    return join


def _ordered(fragment: Fragment, values: list[Any]) -> exp.Expr:
    match = _ORDER.match(fragment.text)
    text, direction, nulls = match.groups() if match else (fragment.text, None, None)
    node = _read(Fragment(text), values)
    descending = (direction or "").lower() == "desc"
    return exp.Ordered(this=node, desc=descending or None, nulls_first=(nulls or "").lower() == "first")
