"""A plan in words: what is paid for, and what an analyst should know about the answers."""

from __future__ import annotations

from hush.query.plan.aggregates import Direct, Estimator, Picked
from hush.query.plan.choices import ChoiceKind
from hush.query.plan.limits import Limits, Units
from hush.query.plan.statistics import DistinctCount, Statistic, Total
from hush.query.question import Question


def describe(statistic: Statistic) -> str:
    """Return a few words for the price list."""
    match statistic:
        case Total():
            return "sum" if len(statistic.factors) == 1 else "sum of products"
        case DistinctCount():
            return "distinct values"
        case _:
            return "count of units" if type(statistic).__name__ == "UnitCount" else "count"


def caveats(question: Question, bounds: Limits, estimators: tuple[Estimator, ...], *, public: bool) -> tuple[str, ...]:
    """Return what can bias the answers, or leave something out; it depends on no data."""
    lines = []
    if bounds.units is not Units.ALONE:
        line = f"a unit with more than {bounds.rows} rows in a group is weighted down to {bounds.rows}"
        if question.keys:
            line += f", and counts in at most {bounds.groups} groups"
        lines.append(line)
    if any(not isinstance(item, Picked) and not _plain_count(item) for item in estimators):
        lines.append("values outside the declared bounds are moved to the nearest bound")
    if any(isinstance(item, Direct) and isinstance(item.statistic, DistinctCount) for item in estimators):
        lines.append(f"of each unit at most {bounds.rows} different values a group are counted as distinct")
    if any(isinstance(item, Picked) and item.choice.kind in {ChoiceKind.MIN, ChoiceKind.MAX} for item in estimators):
        lines.append("MIN and MAX are extreme private quantiles, some ranks inside the true ones")
    if question.keys:
        lines.append(
            "every public key is listed; rows with other keys, or none, are left out"
            if public
            else "keys that few units have are left out"
        )
    return tuple(lines)


def _plain_count(estimator: Estimator) -> bool:
    return isinstance(estimator, Direct) and not isinstance(estimator.statistic, Total)
