"""What is derived of the terms of a request: typed values, texts that are read, signatures and docstrings."""

from __future__ import annotations

from dataclasses import MISSING, fields
from inspect import signature
from typing import Any, get_args, get_origin

import pytest

from hush.core import HushError
from hush.curator import terms
from hush.curator.terms import (
    FitOrder,
    MarginalTerms,
    QuestionOrder,
    QuestionTerms,
    TermKind,
    Terms,
    takes,
    takes_options,
)


class Echo:
    @takes(QuestionOrder)
    def ask(self, terms: QuestionOrder) -> dict[str, Any]:
        """Return what was given."""
        return terms.given()

    @takes_options(FitOrder)
    def fit(self, terms: FitOrder, options: dict[str, Any]) -> Any:
        """Return what was given, and the rest."""
        return terms.given(), options


REQUESTS = [kind for kind in vars(terms).values() if isinstance(kind, type) and issubclass(kind, Terms)]


@pytest.mark.parametrize("request_type", REQUESTS, ids=lambda kind: kind.__name__)
def test_every_field_says_what_it_means(request_type: type[Terms]) -> None:
    for field in fields(request_type):
        kind, term = get_args(field.type)
        assert term.help.endswith((".", "…")), field.name
        if field.default is not MISSING and field.default is not None and get_origin(kind) is None:
            assert isinstance(field.default, kind), field.name


def test_a_method_shows_the_terms_as_its_parameters() -> None:
    shown = signature(Echo.ask).parameters
    assert [*shown][:3] == ["self", "question", "parameters"]
    assert {"epsilon", "accuracy", "max_rows", "request", "fresh", "reason"} <= set(shown)
    assert shown["dialect"].default == "duckdb"
    assert "\nepsilon\n    What" in str(Echo.ask.__doc__)
    assert str(signature(Echo.fit)).endswith("**options)")


def test_a_method_gets_the_terms_as_one_value() -> None:
    assert Echo().ask("q", [1], fresh=True) == {"question": "q", "parameters": [1], "fresh": True}
    assert Echo().fit("q", model="pca", components=2) == ({"question": "q", "model": "pca"}, {"components": 2})
    with pytest.raises(TypeError, match="epsilom"):
        Echo().ask("q", epsilom=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epsilon", "0.5", "0.5"),
        ("accuracy", "50", ("50", "0.95")),
        ("accuracy", "50@0.99", ("50", "0.99")),
        ("max_rows", "3", 3),
    ],
)
def test_texts_are_read(name: str, text: str, value: object) -> None:
    assert terms.terms_of(QuestionTerms)[name].read(text, name) == value


def test_lists_and_numbers_are_read() -> None:
    of = terms.terms_of(MarginalTerms)
    assert of["by"].read("age, sex,", "by") == ["age", "sex"]
    assert of["confidence"].read("0.9", "confidence") == 0.9


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TermKind.COUNT, "-1"),
        (TermKind.COUNT, "١"),
        (TermKind.FRACTION, "x"),
        (TermKind.FLAG, "yes"),
        (TermKind.ACCURACY, "50@"),
    ],
)
def test_other_texts_are_refused_by_the_name_that_their_writer_knows(kind: TermKind, text: str) -> None:
    with pytest.raises(HushError, match=r"hush\.that"):
        terms.Term(kind, "It.").read(text, "hush.that")
