"""How a question, its terms and what comes back travel between a client and a service: exactly, as JSON and headers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hush.client.transport import Response
from hush.core import InvalidValueError, exact
from hush.curator.access import Parameters
from hush.curator.answer import Answer, Money
from hush.ledger.shares import Spending
from hush.query.builder import Builder
from hush.query.parameters import Binder, to_wire


def answer_in(response: Response) -> Answer:
    """Return the answer in a response: what the ledger keeps, and what stands beside it."""
    told = response.headers
    return replace(
        Answer.from_bytes(response.body),
        receipt=told.get("hush-receipt", ""),
        remaining=remaining_in(told),
        spending=_spending(told.get("hush-spending")),
        made_up="hush-made-up" in told,
        repeated=told.get("hush-repeated", ""),
        shared="hush-shared" in told,
    )


def _spending(told: str | None) -> Spending | None:
    if told is None:
        return None
    whose, took, left = json.loads(told)
    return Spending(whose=whose, took=Fraction(took), left=Fraction(left))


def question_body(question: str | Builder, parameters: Parameters, **terms: Any) -> dict[str, Any]:
    """Return a question and its terms as they travel."""
    if isinstance(question, Builder):
        from hush.query.sql.building import tree

        text, parameters = str(question), tree(question.steps)[1]
    elif isinstance(question, str):
        text = question
    else:
        raise InvalidValueError("question", got=question, allowed="SQL as text, or a question built with table(…)")
    Binder(parameters)  # refuses what is neither a list nor a mapping
    body: dict[str, Any] = {"question": text, "parameters": to_wire(parameters)}
    for name, value in terms.items():
        if value is None:
            continue
        if name == "dialect" and value == "duckdb":
            continue
        if name in {"data", "keys", "dialect"}:
            body[name] = value if isinstance(value, str) else str(value)
        elif name == "accuracy" and isinstance(value, tuple | list):
            body[name] = [amount(part, name) for part in value]
        else:
            body[name] = amount(value, name)
    return body


def amount(value: Any, name: str) -> Any:
    """Return a number as it travels: exactly; what is none is refused here as it would be there."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    number = exact(value, name)
    return str(number)


def remaining_in(told: Mapping[str, str]) -> Money | None:
    """Return what remains, as the headers of a response say."""
    if "hush-remaining" not in told:
        return None
    epsilon, delta = map(Fraction, told["hush-remaining"].split())
    return Money(epsilon=epsilon, delta=delta)
