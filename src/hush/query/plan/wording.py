"""A plan in words: what is paid for, and what an analyst should know about the answers."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hush.mechanisms.grouped import GroupedQuantile
from hush.query.expressions import Column, Expression
from hush.query.functions import describe as written
from hush.query.plan.choices import Choice, LineHistogram
from hush.query.plan.domains import MAX_KEYS, Domain, most_keys, public_size
from hush.query.plan.estimators import Estimator, Linear, Mean, Picked
from hush.query.plan.limits import Limits, Units
from hush.query.plan.statistics import (
    Distinct,
    DistinctCount,
    DistinctTotal,
    Halves,
    Noised,
    Population,
    Total,
    UnitCount,
)
from hush.query.question import Question
from hush.query.relations import scans
from hush.query.types import Type

if TYPE_CHECKING:
    from hush.query.plan.choices import Pick
    from hush.query.plan.winners import Winners
    from hush.query.schema import Schema


_LONGEST = 80


def describe(statistic: Noised) -> str:
    """Return a few words for the price list, with the columns and the rows that are meant."""
    match statistic:
        case Halves():
            return _item("sum and count of", (statistic.factor.expression,), statistic.above.population)
        case Total():
            of = tuple(factor.expression for factor in statistic.factors)
            return _item("sum of", of, statistic.population)
        case DistinctTotal():
            return _item("sum of distinct values of", (statistic.expression,), statistic.population)
        case DistinctCount():
            return _item("distinct values of", (statistic.expression,), statistic.population)
        case UnitCount():
            return _item("count of units", (), statistic.population)
        case _:
            return _item("count", (), statistic.population)


def describe_choices(choices: tuple[Choice, ...]) -> str:
    """Return a few words for what is picked from one histogram."""
    choice, histogram = choices[0], choices[0].histogram
    of = histogram.factor.expression if isinstance(histogram, LineHistogram) else histogram.expression
    which = ", ".join(f"{float(item.fraction):g}" for item in choices if item.fraction is not None)
    kind = choice.kind.value + ("s" if len(choices) > 1 else "")
    return _item(f"{kind} {which} of" if which else f"{kind} of", (of,), histogram.population)


def _item(what: str, of: tuple[Expression, ...], population: Population) -> str:
    """Return what is paid for: of which columns, and over which rows if not over all that have these."""
    words = f"{what} {' * '.join(map(written, of))}".rstrip()
    if population.where is not None:
        words += f" where {written(population.where)}"
    others = [written(column) for column in population.not_null if column not in of]
    if others:
        words += f"{' and' if population.where is not None else ' where'} {' and '.join(others)} not NULL"
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"


def caveats(
    question: Question,
    bounds: Limits,
    estimators: tuple[Estimator, ...],
    picks: tuple[Pick, ...],
    public: tuple[Domain, ...] | None,
) -> tuple[str, ...]:
    """Return what can bias the answers, or leave something out; it depends on no data."""
    lines = []
    if bounds.units is not Units.ALONE:
        line = f"a unit with more than {_many(bounds.rows, 'row')} in a group is weighted down to {bounds.rows}"
        most = None if public is None else most_keys(public)
        if question.keys and (most is None or bounds.groups < most):
            line += f", and counts in at most {_many(bounds.groups, 'group')}"
        lines.append(line)
    read = [type_ for scan in scans(question.relation) if not scan.public for _, _, type_ in scan.columns]
    computed = any(not isinstance(item, Picked) and not _plain_count(item) for item in estimators)
    if computed or any(map(_clamped, read)):
        lines.append("values outside the declared bounds are moved to the nearest bound")
    if any(map(_distinct, estimators)):
        values = _many(bounds.rows, "different value")
        lines.append(f"of each unit at most {values} a group {'is' if bounds.rows == 1 else 'are'} counted as distinct")
    quantiles = [pick.mechanism for pick in picks if isinstance(pick.mechanism, GroupedQuantile)]
    ranks = [-(-quantile.aims.rank // quantile.row_weight) for quantile in quantiles if quantile.aims.rank]
    if ranks:
        lines.append(
            f"MIN and MAX are extreme private quantiles: the value about {max(ranks)} rows inside the true one, or the "
            "middle one of fewer than twice as many rows; ± is about that value"
        )
    if question.keys and not question.aggregates and public is not None:
        lines.append(
            "the keys are public, so they cost nothing and say nothing of the data: all that can occur are listed"
        )
    elif any(quantile.aims.ties is not None for quantile in quantiles):
        lines.append(
            "where many rows share few values, the ± of a quantile also covers the gaps between these, and so may be "
            "wider at a higher price: there a step in the policy, or ROUND in the question, makes it narrower"
        )
    if question.keys:
        lines.append(_chosen_keys(question) if public is None else _keys(question))
    return (*lines, *question.notes)


def gaussian_price(meant_at: Fraction, *, drawn: bool = False) -> str:
    """Return what an ε means where zCDP is counted, of Gaussian noise or of many draws; no question spends this δ."""
    what = "draws from many groups of one unit have so small an ε" if drawn else "Gaussian noise has an ε"
    return (
        f"{what} only at some δ: this one is meant at δ={float(meant_at):.6g}; "
        "the budget's δ covers that for all questions together"
    )


def beyond_bounds(question: Question, bounds: Limits, schema: Schema) -> list[str]:
    """Return what the owner released of how much lies beyond the bounds that hold for a question."""
    if bounds.units is Units.ALONE:
        return []
    lines = []
    keys = {expression.name for _, expression in question.keys if isinstance(expression, Column)}
    for scan in scans(question.relation):
        grouped = {column for name, column, _ in scan.columns if name in keys}
        for found in schema.tables[scan.table].beyond:
            estimate = f"in an estimate of {found.when} (receipt {found.receipt}) {found.percent}"
            if found.by is None and found.limit == bounds.rows:
                lines.append(
                    f"{estimate} of the rows of {scan.table} were beyond max_rows = {found.limit}: so much is missing "
                    f"in a count of all rows{', and less within groups' if keys else ''}"
                )
            if found.by in grouped and found.limit == bounds.groups:
                lines.append(
                    f"{estimate} of the groups by {found.by} that units of {scan.table} have were beyond max_groups = "
                    f"{found.limit}, and are left out"
                )
    return list(dict.fromkeys(lines))


def chosen_by_noise(winners: Winners) -> list[str]:
    """Return what becomes of error bars where noise decides what is shown."""
    lines = []
    if winners.ordered:
        lines.append(
            "noise has a part in which rows come first and are shown: such rows lie on the lucky side, and their ± is "
            "wider than of rows named beforehand, so that it holds for those shown"
        )
    if winners.having:
        lines.append(
            "noise may lift a row over what HAVING asks: where that is possible its ± is much wider, down to no rows "
            "at all if need be; elsewhere a little"
        )
    return lines


def _chosen_keys(question: Question) -> str:
    size = public_size(question.keys, question.relation)
    if size is None or size > MAX_KEYS:
        return "keys that few units have are left out"
    return f"of {size:,} public keys those that few units have are left out; keys='public' lists them all"


def _keys(question: Question) -> str:
    types = [expression.type for _, expression in question.keys]
    nulls = [type_.null_is_key for type_ in types if type_.nullable]
    rows = "rows without a key" if all(map(_clamped, types)) else "rows with other keys, or none,"
    if not any(nulls):
        return f"every public key is listed; {rows} are left out"
    rest = "" if all(nulls) else ", or left out where NULL is not listed"
    return f"every public key is listed; {rows} are under NULL{rest}"


def _clamped(type_: Type) -> bool:
    """Return whether values are moved to the nearest bound."""
    return type_.values is None and (type_.lower is not None or type_.upper is not None)


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _plain_count(estimator: Estimator) -> bool:
    if not isinstance(estimator, Linear):
        return False
    return estimator.counts or isinstance(estimator.parts[0][0], DistinctCount)


def _distinct(estimator: Estimator) -> bool:
    if isinstance(estimator, Mean):
        return isinstance(estimator.count[0][0], DistinctCount)
    return isinstance(estimator, Linear) and isinstance(estimator.parts[0][0], Distinct)
