r"""A survey with answers that people randomise themselves: a form, reports, an estimate.

A *form* is a small public file: the question, the kind of answer, ε. Whoever answers runs it on a device of their own
and sends a *report*, one line of JSON that names its form. The estimate reads many reports. A report that could not
have come from the form (another form's, not JSON, a category or a number outside what its mechanism says) is left out
and counted.

>>> form = Form(question="Do you smoke?", kind="frequency", epsilon="1", categories=["yes", "no"])
>>> reports = [form.report("yes") for _ in range(30)] + [form.report("no") for _ in range(70)]
>>> estimate = form.estimate([*reports, "not a report"])
>>> estimate.reports, estimate.refused
(100, 1)
>>> Form.from_json(form.to_json()) == form
True
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hush.accounting import Event
from hush.core import InvalidValueError, Number, exact
from hush.core.chart import Chart, ChartAxis, ChartBar, bar_chart
from hush.core.format import decimal
from hush.core.numbers import assign
from hush.local.frequencies import ProjectiveGeometry, SubsetSelection, frequency
from hush.local.means import LocalMean
from hush.mechanisms.base import choose, ordinary
from hush.mechanisms.randomized_response import RandomizedResponse

_KINDS = ("frequency", "mean")
_LONGEST_QUESTION = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimated:
    """The estimates from the reports of a survey."""

    form: Form
    names: tuple[str, ...]
    """The categories; for a mean the one name ``mean``."""
    values: tuple[float, ...]
    errors: tuple[float, ...]
    """Half-widths; each holds with probability ``confidence``."""
    confidence: float
    reports: int
    refused: int
    """The number of lines that could not have come from the form."""

    def chart(self) -> Chart:
        """Return a bar chart with error bars."""
        bars, ends = [], [0.0]
        for row, (name, value, error) in enumerate(zip(self.names, self.values, self.errors, strict=True)):
            reach, tooltip = (value - error, value + error), f"{name}: {value:.4g} ± {error:.3g}"
            bars.append(ChartBar(row=row, end=value, reach=reach, tooltip=tooltip))
            ends += reach
        axis = ChartAxis.around("share" if self.form.kind == "frequency" else "mean", min(ends), max(ends))
        private = f"private at ε = {decimal(Fraction(self.form.epsilon))}"
        subtitle = f"{self.reports:,} reports, each {private}; ± at {self.confidence:.6g}"
        return bar_chart(self.names, bars, axis, title=self.form.question, subtitle=subtitle)

    plot = chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A question that everybody answers through a mechanism of their own."""

    question: str
    """The question in words."""
    kind: str
    """``frequency`` with ``categories``, or ``mean`` with ``lower`` and ``upper``."""
    epsilon: Number
    """The privacy of each report."""
    categories: Sequence[str] = ()
    lower: Number | None = None
    upper: Number | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.question, str) or not 0 < len(self.question) <= _LONGEST_QUESTION:
            allowed = f"a text of 1 to {_LONGEST_QUESTION} characters"
            raise InvalidValueError("question", got=self.question, allowed=allowed)
        choose(self.kind, _KINDS, "kind")
        ends = self.lower is not None, self.upper is not None
        if self.kind == "frequency" and (any(ends) or not self.categories):
            raise InvalidValueError("categories", got=self.categories, allowed="given for a frequency, and no range")
        if self.kind == "mean" and (self.categories or not all(ends)):
            raise InvalidValueError("lower", got=self.lower, allowed="given with upper for a mean, and no categories")
        assign(self, epsilon=ordinary(self.epsilon, "epsilon"), categories=tuple(map(str, self.categories)))
        if self.kind == "mean":
            assign(self, lower=exact(self.lower, "lower"), upper=exact(self.upper, "upper"))
        _ = self.mechanism  # its own limits are told now

    @property
    def mechanism(self) -> RandomizedResponse | SubsetSelection | ProjectiveGeometry | LocalMean:
        """The mechanism that everybody runs."""
        if self.kind == "mean" and self.lower is not None and self.upper is not None:
            return LocalMean(epsilon=self.epsilon, lower=self.lower, upper=self.upper)
        return frequency(epsilon=self.epsilon, categories=list(self.categories))

    @property
    def event(self) -> Event:
        """The privacy event of a report, for the person who sends it."""
        return self.mechanism.event

    @property
    def digest(self) -> str:
        """A digest that names the form in reports."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def report(self, answer: Any) -> str:
        """Return one person's randomised answer as a line of JSON; another category than the form's is refused."""
        if self.kind == "frequency" and answer not in self.categories:
            raise InvalidValueError("answer", got=answer, allowed=" or ".join(map(repr, self.categories[:20])))
        if self.kind == "mean":
            exact(answer, "answer")
        drawn = self.mechanism.release(answer)
        if isinstance(self.mechanism, RandomizedResponse):
            drawn = self.categories.index(drawn)
        content = {"form": self.digest, "report": drawn.tolist() if isinstance(drawn, np.ndarray) else drawn}
        return json.dumps(content, separators=(",", ":"))

    def estimate(self, lines: Iterable[str], *, confidence: Number = Fraction(19, 20)) -> Estimated:
        """Return the estimates from reports; lines that could not have come from the form are counted and left out."""
        digest, mechanism = self.digest, self.mechanism
        accepted: list[Any] = []
        refused = 0
        for line in lines:
            if not line.strip():
                continue
            try:
                content = json.loads(line)
                report = content["report"] if content["form"] == digest else None
            except (ValueError, KeyError, TypeError, RecursionError):
                report = None
            if self._possible(report, mechanism):
                accepted.append(report)
            else:
                refused += 1
        if not accepted:
            raise InvalidValueError(
                "reports", got=f"none of this form, and {refused} others", allowed=f"reports of form {digest}"
            )
        count = len(accepted)
        level = exact(confidence, "confidence")
        if isinstance(mechanism, LocalMean):
            names: tuple[str, ...] = ("mean",)
            values = [mechanism.estimate(accepted)]
            errors = [mechanism.error(confidence, count=count)]
        else:
            names = tuple(self.categories)
            reports = [self.categories[i] for i in accepted] if isinstance(mechanism, RandomizedResponse) else accepted
            values = mechanism.estimate(reports).tolist()
            errors = mechanism.errors(values, confidence, count=count).tolist()
        return Estimated(
            form=self, names=names, values=tuple(values), errors=tuple(errors), confidence=float(level),
            reports=len(accepted), refused=refused,
        )  # fmt: skip

    def _possible(self, report: Any, mechanism: Any) -> bool:
        """Return whether a report is a whole number below the mechanism's limit, or a set of whole numbers."""
        limit = len(self.categories)
        if isinstance(mechanism, ProjectiveGeometry | LocalMean):
            limit = mechanism.points if isinstance(mechanism, ProjectiveGeometry) else len(mechanism.reports)
        entries, size = [report], 1
        if isinstance(mechanism, SubsetSelection):
            entries, size = report if isinstance(report, list) else [], mechanism.size
        # Not isinstance: True is an int in Python, but no mechanism reports it.
        numbers = all(type(entry) is int and 0 <= entry < limit for entry in entries)
        return numbers and len(entries) == len(set(entries)) == size

    def to_json(self) -> str:
        """Return the form as JSON."""
        content: dict[str, Any] = {
            "version": 1, "question": self.question, "kind": self.kind, "epsilon": str(self.epsilon),
        }  # fmt: skip
        if self.kind == "frequency":
            content["categories"] = list(self.categories)
        else:
            content |= {"lower": str(self.lower), "upper": str(self.upper)}
        return json.dumps(content, ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Form:
        """Read a form that `to_json` wrote."""
        try:
            content = json.loads(text)
            version = content.pop("version", None)
        except (ValueError, AttributeError, TypeError, RecursionError):
            raise InvalidValueError("form", got=text, allowed="a form as `hush local make-form` writes it") from None
        fields = {"question", "kind", "epsilon", "categories", "lower", "upper"}
        if version != 1 or set(content) - fields or not {"question", "kind", "epsilon"} <= set(content):
            raise InvalidValueError("form", got=sorted(content), allowed="a form of version 1")
        names = content.get("categories", [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise InvalidValueError("categories", got=names, allowed="a list of texts")
        return cls(**content)
