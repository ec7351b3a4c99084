"""``curator.fit``: a private model of the rows that a question names, charged first, replayed free; and stated events.

The rows come from the question engine as codes on the policy's grid: clamped, joined, filtered, and of each unit as
many as count, chosen by a keyed hash. Objective perturbation's proof asks for one row that comes or goes; where a unit
changes more, regression and classification take noisy Newton steps, and models made of sums have the event of a group.
Bounds and classes come from the policy. The model is one of `hush.learn`, and what the ledger keeps is its JSON.

**What ε means.** A question of ε costs the account what ρ-zCDP with the same (ε, δ) costs it, and so does a model: it
is fitted at the largest ε' ≤ ε, in 64ths, whose event no account prices higher than that. A budget without δ takes
the models that have a pure variant, at ε itself; the others are refused before the charge.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hush.accounting import Event, ZCDPEvent
from hush.core import InvalidValueError
from hush.core.errors import DescriptionError
from hush.curator.answer import Money
from hush.curator.kept_release import Fact, PlannedRows, ReleaseExplanation, ReleaseHead, amount_of, plan_rows, release
from hush.curator.session import AnalystSession
from hush.curator.terms import FitOrder, FitTerms
from hush.engines.protocol import CodedRows
from hush.learn import (
    PCA,
    KMeans,
    LinearModel,
    LogisticRegression,
    Moments,
    NaiveBayes,
    Regression,
    model_from_json,
)
from hush.learn.model import Classifier, Regressor
from hush.learn.regression import AdditiveModel
from hush.learn.schema import ModelColumn, plain
from hush.ledger.budgets import Spending
from hush.mechanisms.grouped import zcdp_budget
from hush.query.errors import QuestionError, did_you_mean
from hush.query.plan.rows import CodedColumn
from hush.query.types import Kind

MODELS: dict[str, type[Any]] = {
    "regression": Regression,
    "classification": LogisticRegression,
    "linear": LinearModel,
    "naive_bayes": NaiveBayes,
    "moments": Moments,
    "pca": PCA,
    "kmeans": KMeans,
}
_UNITS = {Kind.DATE: "D", Kind.TIMESTAMP: "us"}
_STEPS = 64
_MOST_CLASSES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The receipt of an event that the caller states."""

    event: Event
    note: str
    receipt: str
    remaining: Money


def plan_model(session: AnalystSession, terms: FitTerms, options: dict[str, Any]) -> ReleaseExplanation[Any]:
    """Plan a model without reading anything."""
    model, target = terms.model, terms.target
    if not isinstance(model, str) or model not in MODELS:
        hint = did_you_mean(str(model), list(MODELS)) or f"There are {', '.join(MODELS)}."
        raise QuestionError(f"There is no model {model!r}.", hint)
    epsilon = amount_of(terms.epsilon)
    planned = plan_rows(session, terms.question, max_rows=terms.max_rows, data=terms.data)
    limits = planned.plan.limits
    counted = "one row counts" if limits.rows == 1 else f"at most {limits.rows} rows count"
    priced = _priced(planned, epsilon, _named(planned.plan.columns, model, target), model, options)
    question = planned.plan.question.text
    head = ReleaseHead(
        kind="model",
        price=Money.single(f"model: {model}", epsilon),
        caveats=tuple(planned.caveats(f"{counted}, chosen by a keyed hash")),
        question=question,
    )
    event, name = _event(planned, priced), type(priced).__name__
    return ReleaseExplanation(
        head=head,
        rows=planned,
        plan=priced,
        events=(event,),
        text=f"FIT {priced.kind}{f' of {target}' if target else ''}: {question}",
        details={"model": priced.kind, "event": event.to_json(), "expected": priced.explain()},
        # the noise in words
        facts=(Fact(words=f"{name} at {head.price}"), Fact(label=name, words=priced._told())),  # noqa: SLF001 - of one family
    )


def release_model(session: AnalystSession, order: FitOrder, options: dict[str, Any]) -> Any:
    """Fit a model, and charge it."""
    explained = plan_model(session, order, options)
    model, target, plan = explained.plan, order.target, explained.rows.plan

    def measure(rows: CodedRows) -> bytes:
        columns = {column.name: _values(column, rows.codes[column.name]) for column in plan.columns}
        if target is None:
            model.fit(columns)
        else:
            features = {name: values for name, values in columns.items() if name != target}
            model.fit(features, columns[target])
        return json.dumps(model.to_json(), ensure_ascii=False).encode()

    chosen = tuple(sorted((name, repr(value)) for name, value in options.items()))
    return release(session, explained, measure, fitted_model, order, options=chosen)


def fitted_model(
    head: ReleaseHead, measurements: bytes, *, receipt: str, remaining: Money | None, spending: Spending | None = None
) -> Any:
    """Return the model that was released, with its receipt, and in words what it cost and left."""
    fitted = model_from_json(json.loads(measurements))
    fitted.receipt, fitted.price = receipt, str(head.price)
    fitted.remaining = "" if remaining is None else str(remaining)
    fitted.spending = "" if spending is None else str(spending)
    return fitted


def _event(planned: PlannedRows, model: Any) -> Event:
    """Return the event of the model for a whole unit: for as many rows as a neighbour changes."""
    limits = planned.plan.limits
    size = limits.rows * limits.touched
    event: Event = model.event
    # additive models know the number of rows, so their event covers a whole unit already
    return event if size == 1 or isinstance(model, AdditiveModel) else event.group(size)


def _named(columns: Sequence[CodedColumn], model: str, target: str | None) -> dict[str, Any]:
    """Return the model's schema and target, from the policy's types alone: bounds, or values.

    Dates and times are numbers of days or microseconds.
    """
    names = [column.name for column in columns]
    if issubclass(MODELS[model], Classifier | Regressor) != (target is not None):
        need = "needs a target" if target is None else "has no target"
        raise QuestionError(f"The model {model!r} {need}.", "Say target=…, a column of the question, or leave it out.")
    if target is not None and target not in names:
        raise QuestionError(f"The question has no column {target!r}.", did_you_mean(target, names) or "Select it, too.")
    specs = {}
    for column in columns:
        if column.factor is None:
            specs[column.name] = ModelColumn.parse(column.name, list(column.values))
            continue
        low, high = (float(end * column.factor.step) for end in (column.factor.first, column.factor.last))
        # a column of one value: models need an interval of positive length
        high, unit = high if low < high else low + 1.0, _UNITS.get(column.type.kind)
        specs[column.name] = ModelColumn(name=column.name, lower=low, upper=high, unit=unit)
    if target is None:
        return {"schema": specs}
    goal = next(column for column in columns if column.name == target)
    spec = specs.pop(target)
    if not specs:
        raise QuestionError("A model needs a column besides its target.", "Select one.")
    if issubclass(MODELS[model], Classifier):
        if spec.values is None and goal.levels > _MOST_CLASSES:
            raise QuestionError(f"The column {target!r} has {goal.levels:,} values.", "Take model='regression'.")
        return {"schema": specs, "target": [plain(goal.value(code)) for code in range(goal.levels)]}
    if spec.values is not None:
        raise QuestionError(f"The column {target!r} is no number with bounds.", "Take model='classification'.")
    return {"schema": specs, "target": spec}


def _values(column: CodedColumn, codes: Any) -> Any:
    """Return the values of codes as the model's schema names them; NULL is missing."""
    if column.factor is not None:
        # i·p/q as one division of integers below 2⁵³ is the nearest float, which is what 0.3 is in a schema
        above, below = column.factor.step.numerator, column.factor.step.denominator
        places = column.factor.first + codes.astype(np.int64)
        return np.where(codes < column.levels, places * float(above) / below, np.nan)
    table = np.empty(column.levels + 1, dtype=object)
    # the last place stays None, which is NULL
    table[: column.levels] = [plain(value) for value in column.values]
    return table[np.minimum(codes.astype(np.intp), column.levels)]


def _priced(planned: PlannedRows, epsilon: Fraction, named: dict[str, Any], model: str, options: dict[str, Any]) -> Any:
    """Return the model with the largest ε' that every account prices no higher than a question of ε."""
    changed = planned.plan.limits.rows * planned.plan.limits.touched
    names = set(MODELS[model]._names()) - {"schema", "target", "epsilon", "delta", "rows"}  # noqa: SLF001 - of one family
    for name, value in options.items():
        if name not in names:
            allowed = f"left out: options of {model!r} are {', '.join(sorted(names)) or 'none'}"
            raise InvalidValueError(name, got=value, allowed=allowed)

    # objective perturbation for one row of a unit, noisy Newton steps for more
    unit = {"rows": changed} if issubclass(MODELS[model], AdditiveModel) else {}

    def made(share: Fraction, delta: Fraction) -> Any:
        return MODELS[model](**named, **options, **unit, epsilon=epsilon * share, delta=delta)

    if not (planned.accounts.delta and planned.accounts.take_gaussian) or model == "kmeans":
        # pure ε adds up over the rows of a unit, so one row gets its share
        pure = made(Fraction(1, changed), Fraction(0))
        _ = pure.event  # a model without a pure variant is refused here
        return pure
    limit = ZCDPEvent(rho=zcdp_budget(epsilon, planned.accounts.delta))

    def fits(steps: int) -> bool:
        event = _event(planned, made(Fraction(steps, _STEPS), planned.accounts.delta))
        try:
            return all(account.price(event).loss <= account.price(limit).loss for _, account in planned.accounts.owned)
        except DescriptionError:  # an account has no price for this event
            return False

    # bisection, for the price grows with the share: the number that it ends with was tried, and fits
    steps = bisect_left(range(1, _STEPS + 1), True, key=lambda steps: not fits(steps))
    if not steps:
        raise QuestionError(f"No {model} fits ε={float(epsilon):.6g} in this account.", "Raise epsilon.")
    return made(Fraction(steps, _STEPS), planned.accounts.delta)
