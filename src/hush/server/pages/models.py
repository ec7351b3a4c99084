"""A fitted model on its page: coefficients with intervals, curves of effects, and a form that predicts.

Everything here follows from the released numbers, so that looking at it and predicting cost nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from hush.core import HushError, InvalidValueError
from hush.core.format import figure, visible
from hush.learn.additive import AdditiveModel
from hush.learn.linear import LinearModel
from hush.learn.model import Classifier, Model
from hush.learn.schema import ModelColumn, ModelSchema
from hush.server.pages.layout import problem_of

_PREFIX = "in "
"""How the form's fields begin: a column may be called as one of the page's own fields."""


def drawn(model: Model, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what the page shows of a model beside its explanation, with the prediction that the query asks for."""
    fields = _fields(model, query)
    prediction, problem = "", None
    if any(name.startswith(_PREFIX) for name in query):
        try:
            prediction = predicted(model, {name: query.get(_PREFIX + name, "") for name, *_ in fields})
        except HushError as error:
            problem = problem_of(error)
    curves, classes, chosen = _curves(model, query.get("class", ""))
    return {
        "coefficients": _coefficients(model),
        "curves": curves,
        "classes": classes,
        "chosen": chosen,
        "fields": fields,
        "prediction": prediction,
        "problem": problem,
    }


def predicted(model: Any, values: Mapping[str, str]) -> str:
    """Return the prediction for one made-up row, whose values are written as in a form; an empty one is missing."""
    row: dict[str, list[Any]] = {}
    for column in _schema(model).columns:
        row[column.name] = [_value(column, values.get(column.name, "").strip())]
    if isinstance(model, Classifier):
        chances = getattr(model, "predict_proba")(row)[0]  # noqa: B009 - every classifier has it
        names = [visible(str(name)) for name in model.classes_]
        return ", ".join(f"{name}: {100 * chance:.3g} %" for name, chance in zip(names, chances, strict=True))
    return figure(float(model.predict(row)[0]), digits=5)


def _value(column: ModelColumn, text: str) -> Any:
    """Return a field's text as a value of a column; None, which is a missing value, for an empty one."""
    if not text:
        return None
    if column.values is not None:
        match = next((value for value in column.values if str(value) == text), None)
        if match is None:
            allowed = f"one of {', '.join(map(str, column.values[:20]))}"
            raise InvalidValueError(column.name, got=text, allowed=allowed)
        return match
    try:
        if column.unit:
            return dt.date.fromisoformat(text) if column.unit == "D" else dt.datetime.fromisoformat(text)
        return float(text)
    except ValueError:
        allowed = "a date such as 2025-01-31" if column.unit else "a number"
        raise InvalidValueError(column.name, got=text, allowed=allowed) from None


def _schema(model: Model) -> ModelSchema:
    return model._schema()  # noqa: SLF001 - of one family


def _fields(model: Any, query: Mapping[str, str]) -> list[tuple[str, str, list[str], str, str]]:
    """Return the fields of the form: name, label, values to choose from, a note, and the text given."""
    if not hasattr(model, "predict"):
        return []
    fields = []
    for column in _schema(model).columns:
        choices = [] if column.values is None else [str(value) for value in column.values]
        note = f"{figure(column.lower)} – {figure(column.upper)}" if column.values is None and not column.unit else ""
        fields.append((column.name, visible(column.name), choices, note, query.get(_PREFIX + column.name, "")[:100]))
    return fields


def _coefficients(model: Model) -> list[dict[str, str]]:
    if not isinstance(model, LinearModel):
        return []
    return [
        {
            "name": visible(line.name),
            "estimate": figure(line.estimate, digits=4),
            "interval": f"{figure(line.low, digits=3)} – {figure(line.high, digits=3)}",
            "p": figure(line.p_value, digits=2),
        }
        for line in model.summary().coefficients
    ]


def _curves(model: Model, wanted: str) -> tuple[list[str], list[str], str]:
    """Return the curves of a model's effects as pictures, its classes where each has curves, and the one drawn."""
    if not isinstance(model, AdditiveModel):
        return [], [], ""
    fits = len(model.intercept_)
    classes = [str(name) for name in model.classes_] if isinstance(model, Classifier) and fits > 1 else []
    fit = classes.index(wanted) if wanted in classes else 0
    pictures = [model.shape(column.name, fit=fit).chart().bare for column in _schema(model).columns]
    return pictures, classes, classes[fit] if classes else ""
