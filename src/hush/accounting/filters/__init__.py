"""Live budgets for analysts who choose every next step after seeing the last answer.

Each filter states its theorem and its hypotheses. There is deliberately no filter over privacy-loss distributions or
trade-off functions: composing exact curves along every path and stopping before the budget is crossed is *not*
private when the analyst chooses the mechanisms as the answers come in (arXiv 2602.06756, 2602.15815). With randomized
response of ε = 0.1, and then, by its answer, either Laplace noise or a step that reveals all with probability δ,
every path stays within (1, 1e-6) and the true δ is 1.475e-6. Steps that are declared in advance are another matter:
see :class:`hush.accounting.Plan`.
"""

from __future__ import annotations

from collections.abc import Mapping

from hush.accounting.filters.base import Amount, Charge, Filter
from hush.accounting.filters.kinds import GDPFilter, PureFilter, RenyiFilter, ZCDPFilter
from hush.core import InvalidValueError

__all__ = ["Amount", "Charge", "Filter", "GDPFilter", "PureFilter", "RenyiFilter", "ZCDPFilter", "filter_from_json"]

_KINDS: Mapping[str, type[Filter]] = {kind.kind: kind for kind in (PureFilter, RenyiFilter, ZCDPFilter, GDPFilter)}


def filter_from_json(data: object) -> Filter:
    """Return the filter of any kind from its JSON state; refuse anything else.

    >>> account = PureFilter.open(epsilon=1)
    >>> filter_from_json(account.to_json()) == account
    True
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidValueError("state", got=data, allowed=f"the state of a filter: {', '.join(_KINDS)}")
    return _KINDS[kind].from_json(data)
