"""Several questions as one plan: what it costs, that it is all or nothing, and that equal questions agree."""

from __future__ import annotations

from fractions import Fraction

import pytest

import hush
from hush.core import BudgetExceededError, InvalidValueError
from hush.curator import together
from hush.curator.terms import QuestionTerms

ROWS = {"age": [20 + place % 60 for place in range(600)], "city": ["Oslo", "Bergen"] * 300}
COUNT = "SELECT COUNT(*) AS n FROM data WHERE age > {}"
CITIES = "SELECT city, COUNT(*) AS n FROM data GROUP BY city"


@pytest.fixture(params=[{"budget": "10"}, {"budget": {"epsilon": "10", "delta": "1e-6"}}], ids=["pure", "zcdp"])
def curator(request):
    with hush.protect(ROWS, bounds={"age": (0, 120)}, values={"city": ["Oslo", "Bergen"]}, **request.param) as opened:
        yield opened


def terms(*questions: tuple[str, str]) -> list[QuestionTerms]:
    return [QuestionTerms(question, epsilon=epsilon) for question, epsilon in questions]


def asked(curator, planned: together.QuestionPlan, request: str = "r1") -> together.AnswersTogether:
    how = {"text": "DASHBOARD", "same": planned.identity + request, "request": request}
    return together.ask(curator.session, planned, **how)


def spent(curator) -> Fraction:
    return curator.budget()[0].spent.share


def test_a_plan_of_twelve_costs_at_most_its_parts_at_equal_error(curator) -> None:
    """Ten distinct questions of twelve; each part's error is that of the question alone at its own ε or less."""
    questions = [(COUNT.format(age), "0.1") for age in range(20, 60, 4)] + [(CITIES, "0.2"), (CITIES.lower(), "0.1")]
    planned = together.plan(curator.session, terms(*questions))
    assert (len(planned.places), len(planned.plans)) == (12, 11)
    alone = [curator.explain(question, epsilon=epsilon) for question, epsilon in questions]
    answers = asked(curator, planned)
    for question, answer in zip(alone, answers.answers, strict=True):
        worst = max(question.errors().values())
        assert all(error <= worst * 1.000001 for column in answer.columns if column.noisy for error in column.errors)
    together_spent = spent(curator)
    for question, epsilon in questions:
        curator.ask(question, epsilon=epsilon, fresh=True)
    apart = spent(curator) - together_spent
    assert 0 < together_spent <= apart
    assert len(curator.history()) == 13


def test_equal_questions_share_one_answer(curator) -> None:
    planned = together.plan(curator.session, terms((CITIES, "0.1"), (COUNT.format(3), "0.1"), (CITIES, "0.3")))
    first, _, third = asked(curator, planned).answers
    assert first == third
    assert first.price.epsilon == Fraction(3, 10)


def test_all_is_affordable_or_nothing_is_begun(curator) -> None:
    before = curator.budget()[0].to_json()
    planned = together.plan(curator.session, terms((CITIES, "1"), (COUNT.format(3), "50")))
    assert planned.outlook.more == 0
    with pytest.raises(BudgetExceededError):
        asked(curator, planned)
    assert curator.budget()[0].to_json() == before
    assert curator.history() == []


def test_the_same_request_again_is_free(curator) -> None:
    planned = together.plan(curator.session, terms((CITIES, "0.1"), (COUNT.format(3), "0.1")))
    first = asked(curator, planned)
    before = spent(curator)
    again = asked(curator, planned)
    assert again.answers == first.answers
    assert (again.receipt, spent(curator)) == (first.receipt, before)
    assert asked(curator, planned, "r2").answers != first.answers  # refreshed, at a new price
    assert spent(curator) > before


def test_too_many_or_no_questions_are_refused(curator) -> None:
    for number in (0, together.MOST + 1):
        with pytest.raises(InvalidValueError, match=f"from 1 to {together.MOST} questions"):
            together.plan(curator.session, terms(*[(CITIES, "0.01")] * number))
