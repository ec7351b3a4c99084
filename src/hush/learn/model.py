"""The base of all models: parameters by scikit-learn's conventions, and files of plain JSON.

A model's parameters are public and stay as they were given. What ``fit`` adds ends in an underscore and is a function
of released numbers alone: no row, no count of rows, no minimum or category of the data. ``save`` writes parameters
and released numbers as JSON, without code; ``load`` reads them back, and the model predicts without any table.

Two fits of one model are two releases: each has its own noise and its own price. There is no ``random_state``, and a
model that is fitted again inside a grid search or a cross-validation spends the budget every time
(:func:`hush.learn.select` is the way to choose among models at one known price).

>>> import tempfile
>>> from hush.learn import Moments
>>> model: Model = Moments({"age": (0, 120)}, epsilon="1").fit({"age": [40] * 1000})
>>> saved = load(model.save(Path(tempfile.mkdtemp()) / "ages.json"))
>>> saved.to_json() == model_from_json(model.to_json()).to_json() == model.to_json()
True
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from hush.accounting import Event, compose
from hush.core import HushError, InvalidValueError, Number
from hush.core.storage import path_of, writing
from hush.learn.budget import read_budget
from hush.learn.schema import Codes, Floats, ModelColumn, ModelSchema, column_from_json, names_of, target_column

VERSION = 1
_KINDS: dict[str, type[Model]] = {}


class NotFittedError(HushError, ValueError, AttributeError):
    """A model was used before its fit."""


def _not_fitted(message: str) -> NotFittedError:
    """Return the error, which is scikit-learn's too where that is loaded."""
    if "sklearn" not in sys.modules:
        return NotFittedError(message)
    from sklearn.exceptions import NotFittedError as Known

    error: NotFittedError = type("NotFittedError", (NotFittedError, Known), {})(message)
    return error


class UnpricedSearchError(HushError, TypeError):
    """A search would fit a private model many times at a price that nobody states."""


@dataclass(eq=False, repr=False)
class Model:
    """The base of all models: a public schema, a budget, and a fit that costs it."""

    schema: Any
    epsilon: Number = "1"
    delta: Number = "1e-6"
    kind: ClassVar[str] = ""
    receipt: str = field(default="", init=False)
    """The receipt of a fit that a curator charged, with its price and the budget that remained."""
    price: str = field(default="", init=False)
    remaining: str = field(default="", init=False)
    spending: str = field(default="", init=False)
    """The share that it took of the budget that bound it, and the share that is left."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.kind:
            _KINDS[cls.kind] = cls

    # -- price ----------------------------------------------------------------------------------------------------

    @property
    def event(self) -> Event:
        """The price of a fit, known before a row is read."""
        raise NotImplementedError

    def explain(self) -> str:
        """Return the price of a fit and the numbers that it will release."""
        return f"{type(self).__name__}: {self._told()}"

    def _told(self) -> str:
        epsilon, delta = read_budget(self.epsilon, self.delta)
        price = compose([self.event]).epsilon(delta).upper if delta else self.event.pure_epsilon()
        promise = f"ε={float(epsilon):.6g}" + (f", δ={float(delta):.6g}" if delta else "")
        return f"one fit costs ε={price:.6g} of at most {promise}; neighbours differ by one row. {self._story()}"

    def _story(self) -> str:
        return ""

    def _target_column(self, expected: str) -> ModelColumn:
        """Return the public target: given as bounds or classes, or by the name of one of the schema's columns."""
        target = getattr(self, "target", None)
        if isinstance(target, str) and isinstance(self.schema, (Mapping, ModelSchema)):
            return ModelSchema.parse(self.schema)[target]
        if target is None or isinstance(target, str):
            hint = "It is public, and never read from the rows; or name one of the schema's columns."
            raise InvalidValueError("target", got=target, allowed=expected, hint=hint)
        return ModelColumn.parse("target", target)

    def _target_values(self, rows: Any, values: Any) -> Any:
        """Return the target of the rows: as given, or the column that ``target`` names."""
        name = getattr(self, "target", None)
        if values is None and isinstance(name, str) and name in (names_of(rows) or ()):
            return rows[name]
        return values

    def _schema(self, rows: Any = None) -> ModelSchema:
        """Return the public columns; bounds for all columns alike are given names when ``rows`` are fitted."""
        if isinstance(self.schema, tuple):
            if rows is not None:
                self.schema_ = ModelSchema.alike(rows, self.schema)
            schema: ModelSchema = self._fitted("schema_")
            return schema
        return ModelSchema.parse(self.schema).without(getattr(self, "target", None))

    # -- scikit-learn's conventions -------------------------------------------------------------------------------

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy; refuse to be copied by a search, because nobody would account for its fits."""
        frame = inspect.currentframe()
        while frame is not None:
            if frame.f_globals.get("__name__") == "sklearn.model_selection._search":
                raise UnpricedSearchError(
                    "A grid search fits a private model once per candidate and fold, and every fit costs the budget "
                    "again. Use hush.learn.select, which chooses among models at one known price, or fit candidates "
                    "on public rows."
                )
            frame = frame.f_back
        return type(self)(**self.get_params())

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 - scikit-learn's signature
        """Return the parameters as they were given."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                raise InvalidValueError(name, got=value, allowed=f"one of the parameters {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    @property
    def feature_names_in_(self) -> Any:
        """The schema's columns."""
        return np.array(self._schema().names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """How many columns the schema has."""
        return len(self._schema().columns)

    def __sklearn_is_fitted__(self) -> bool:
        return any(name.endswith("_") and not name.startswith("_") for name in vars(self))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        classifier, regressor = isinstance(self, Classifier), isinstance(self, Regressor)
        return Tags(
            estimator_type="classifier" if classifier else "regressor" if regressor else None,
            target_tags=TargetTags(required=classifier or regressor),
            classifier_tags=ClassifierTags() if classifier else None,
            regressor_tags=RegressorTags() if regressor else None,
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
            non_deterministic=True,
        )

    def _fitted(self, name: str) -> Any:
        try:
            return vars(self)[name]
        except KeyError:
            raise _not_fitted(f"This {type(self).__name__} has no {name} yet; call fit first.") from None

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if name != "schema")
        return f"{type(self).__name__}({fields})"

    # -- files ----------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Return parameters and released numbers as plain JSON."""
        if not self.__sklearn_is_fitted__():
            raise _not_fitted(f"This {type(self).__name__} has released nothing yet; call fit first.")
        released = {name: value for name, value in vars(self).items() if name.endswith("_")}
        return {
            "format": "hush model",
            "version": VERSION,
            "kind": self.kind,
            "parameters": {name: _written(value, name) for name, value in self.get_params().items()},
            "event": self.event.to_json(),
            "released": {name: _written(value, name) for name, value in released.items()},
        }

    def save(self, path: str | Path) -> Path:
        """Write the model as JSON."""
        target = path_of(path)
        with writing(target):
            target.write_text(json.dumps(self.to_json(), indent=1, ensure_ascii=False), encoding="utf-8")
        return target


class Classifier(Model):
    """A model of public classes: ``target`` lists them (by default 0 and 1), or names a column of the schema."""

    target: Any

    def _classes(self) -> ModelColumn:
        named, classes = isinstance(self.target, str), (0, 1) if self.target is None else self.target
        column = self._target_column("the public classes") if named else ModelColumn.parse("target", list(classes))
        if column.values is None:
            raise InvalidValueError("target", got=self.target, allowed="classes: a list, or a column with values")
        if column.levels < 2:
            raise InvalidValueError("target", got=self.target, allowed="at least two classes")
        return column

    @property
    def classes_(self) -> Any:
        """The public classes."""
        return np.array(self._classes().values)

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803 - scikit-learn's name
        """Return each class's probability."""
        raise NotImplementedError

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the most likely class of each row."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def _target(self, rows: Any, values: Any) -> Codes:
        """Return the labels of rows as codes; any other label has the code after the last."""
        return self._classes().codes(target_column(self._target_values(rows, values)))


class Regressor(Model):
    """A model of a number with public bounds: ``target`` is ``(lower, upper)``, or names a column of the schema."""

    target: Any

    def _bounds(self) -> ModelColumn:
        column = self._target_column("the target's bounds (lower, upper)")
        if column.values is not None:
            raise InvalidValueError("target", got=list(column.values), allowed="a number's bounds (lower, upper)")
        return column

    def _target(self, rows: Any, values: Any) -> Floats:
        """Return the target of rows as numbers; NaN where there is none."""
        return self._bounds().numbers(target_column(self._target_values(rows, values)))


def counted_rows(codes: Sequence[Any], target: Any, counted: Any) -> tuple[list[Any], Any]:
    """Return the rows that count; refuse a target that does not belong to them, how many there are unsaid."""
    if codes and len(codes[0]) != len(target):
        raise InvalidValueError("y", got="another number of rows", allowed="one label per row of X")
    return [column[counted] for column in codes], target[counted]


def model_from_json(data: Mapping[str, Any]) -> Model:
    """Read a model that ``to_json`` wrote."""
    if not isinstance(data, Mapping) or data.get("format") != "hush model":
        raise InvalidValueError("model", got=type(data).__name__, allowed="an object that a model's to_json wrote")
    if data.get("version") != VERSION or data.get("kind") not in _KINDS:
        got = (data.get("version"), data.get("kind"))
        raise InvalidValueError("model", got=got, allowed=f"version {VERSION} and one of {', '.join(sorted(_KINDS))}")
    parameters = {name: _read(value) for name, value in data["parameters"].items()}
    model = _KINDS[data["kind"]](**parameters)
    for name, value in data["released"].items():
        setattr(model, name, _read(value))
    return model


def load(path: str | Path) -> Model:
    """Read a model from a file that ``save`` wrote."""
    try:
        data = json.loads(path_of(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = (error.strerror or "it cannot be read") if isinstance(error, OSError) else "it holds no JSON"
        hint = f"Of this one: {why}. Fit a model and save it first: model.save(path)."
        raise InvalidValueError(
            "path", got=str(path), allowed="the path of a file that a model's save wrote", hint=hint
        ) from None
    return model_from_json(data)


def _written(value: Any, name: str = "") -> Any:
    """Return a parameter or a released value as JSON; arrays, schemas and tuples carry their type."""
    if isinstance(value, ModelSchema) or (name == "schema" and isinstance(value, Mapping)):
        return {"schema": ModelSchema.parse(value).to_json()}
    if isinstance(value, ModelColumn):
        return {"column": value.to_json(), "name": value.name}
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"tuple": [_written(part) for part in value]}
    if isinstance(value, list):
        return [_written(part) for part in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    return value


def _read(value: Any) -> Any:
    if isinstance(value, Mapping):
        if "schema" in value:
            return ModelSchema.from_json(value["schema"])
        if "column" in value:
            return column_from_json(value["name"], value["column"])
        if "array" in value:
            return np.array(value["array"], dtype=np.float64)
        if "tuple" in value:
            return tuple(_read(part) for part in value["tuple"])
    if isinstance(value, list):
        return [_read(part) for part in value]
    return value
