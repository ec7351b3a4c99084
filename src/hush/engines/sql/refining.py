"""Histograms that are fine where it matters: bins near a pick's target are counted cell by cell, the others as a whole.

What is near, and why the rest need not be known more exactly, is in `hush.mechanisms.grouped.quantile`. A first pass
counts the bins of every group and ranks them; the second joins the bins found near with the rows, and counts again.
Both are one statement, so they see the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from hush.engines.sql.build import (
    Query,
    Sql,
    alias,
    binary,
    both,
    call,
    case,
    cast,
    column,
    grouped,
    integer,
    joined,
    matches,
    not_null,
    read,
    select,
    subquery,
    where,
    window,
    with_before,
)
from hush.mechanisms.grouped import GroupedQuantile
from hush.query.plan.choices import Pick

_FAR = 2**120


def refined(weighed: Query, keys: Sequence[str], pick: Pick, many: int, *, keep: bool) -> Query:
    """Return the key columns, ``bin``, ``cells`` and ``w`` from key columns, ``bin`` (a cell's number) and ``w``.

    A bin has ``many`` cells; in the result ``bin`` is the first of its ``cells`` cells. ``keep`` the weighed rows
    between the passes where they cost more to compute than to store.
    """
    rows = read("weighed", "t") if keep else weighed
    whole_bin: Sql = binary("//", column("bin", "t"), integer(many))
    coarse = select([*_columns(keys), alias(whole_bin, "bin"), alias(call("sum", column("w", "t")), "w")], rows)
    coarse = grouped(coarse, [*_columns(keys), whole_bin])
    upto = window("sum", _columns(keys), [column("bin", "t")], column("w", "t"))
    whole = window("sum", _columns(keys), (), column("w", "t"))
    ranked = select(
        [*_columns(keys), column("bin", "t"), column("w", "t"), alias(upto, "upto"), alias(whole, "whole")], coarse
    )
    near = where(select([*_columns(keys), column("bin", "t")], ranked), _near(pick))
    same = [matches(column(label, "t"), column(label, "near")) for label in keys]
    same.append(binary("=", whole_bin, column("bin", "near")))
    found = not_null(column("bin", "near"))
    first = binary("*", whole_bin, integer(many))
    query = select(
        [
            *_columns(keys),
            alias(case((found, column("bin", "t")), otherwise=first), "bin"),
            alias(case((found, integer(1)), otherwise=integer(many)), "cells"),
            column("w", "t"),
        ],
        rows,
    )
    query = joined(query, subquery(near, "near"), "left", both(same))
    return with_before(query, "weighed", weighed) if keep else query


def _columns(keys: Sequence[str]) -> list[Sql]:
    return [column(label, "t") for label in keys]


def _near(pick: Pick) -> Sql:
    """Return whether a bin of weight ``w``, ``upto`` with all before it and ``whole`` in its group, may matter.

    It does if it comes within the pick's reach h of the target t: b·L < t + h and b·U > t - h. All weights together are
    below 2¹⁰², b below 2¹⁴: 128 bits hold the products, and a larger h still lets in everything.
    """
    assert isinstance(pick.mechanism, GroupedQuantile)  # noqa: S101 - only lines are refined
    aims = pick.mechanism.aims
    whole, upto, weight = (cast(column(label, "t"), "HUGEINT") for label in ("whole", "upto", "w"))
    target: Sql
    if aims.fraction.denominator > 1:
        target = _times(whole, aims.fraction.numerator)
    else:
        half = binary("//", whole, integer(2))
        target = call("least", cast(integer(min(aims.rank, _FAR)), "HUGEINT"), half)
        if aims.fraction == 1:
            target = binary("-", whole, target)
    reach = cast(integer(min(aims.reach, _FAR)), "HUGEINT")
    below = _times(binary("-", upto, weight), aims.fraction.denominator)
    return both(
        [
            binary("<", below, binary("+", target, reach)),
            binary(">", _times(upto, aims.fraction.denominator), binary("-", target, reach)),
        ]
    )


def _times(value: Sql, times: int) -> Sql:
    return value if times == 1 else binary("*", value, integer(times))
