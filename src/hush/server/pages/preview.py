"""*Before you spend*: the cost and the expected error of a question at 25 prices, on one page.

Everything here follows from the question, the policy and what is left of the budgets. No row is read and nothing is
charged. The page gets all prices at once, so that its slider moves without asking again.

Prices are eight to a decade, so that each is about a third higher than the one before. The highest is the remaining
budget:

>>> ladder(Fraction("1.27"))[-3:], len(ladder(Fraction("1.27")))
(['0.75', '1', '1.27'], 25)

The odds are those of `hush.utility.posterior`, rounded up, for an observer who starts with even odds about one person.

>>> odds("0.1")
'Somebody who was 50 in 100 sure of a fact about one person can be at most 53 in 100 sure after this answer.'
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.core.format import figure, percent
from hush.core.svg import Sheet
from hush.curator.curator import Curator
from hush.curator.explanation import ComposedExplanation, Explanation
from hush.ledger.budgets import Outlook, price, takes
from hush.query.plan.keys import Listed
from hush.query.types import Kind
from hush.report.columns import AnswerColumn, shown_error
from hush.report.pictures import label, picture
from hush.utility import posterior

PRICES = 25
ROWS = 2000
"""How many rows a group is supposed to have, unless somebody says otherwise."""
_DECADE = ("1", "1.3", "1.8", "2.4", "3.2", "4.2", "5.6", "7.5")
_SHAPE = (1.0, 1.6, 0.45, 0.22, 0.72, 1.25, 0.9, 0.35)
"""Heights of made-up bars, as parts of the rows a group is supposed to have."""
_MOST_BARS = 8
_USUAL = 25
"""The price that is proposed is the limit of the smaller budget over this, whatever is left: it stays while there is
room."""
_MADE_UP = tuple(f"group {number}" for number in range(1, 6))


def ladder(left: Fraction) -> list[str]:
    """Return the prices that can be chosen, up to the remaining budget."""
    top = left if left > 0 else Fraction(1)
    steps: list[Fraction] = []
    power = math.floor(math.log10(top)) + 1
    while len(steps) < PRICES - 1:
        steps += [Fraction(step) * Fraction(10) ** power for step in reversed(_DECADE)]
        steps = [step for step in steps if step < top]
        power -= 1
    price_steps = [*reversed(steps[: PRICES - 1]), top]
    return [figure(step, exact=True) for step in price_steps]


def odds(epsilon: str) -> str:
    """Return in words how much an answer at a price can reveal about one person."""
    percent = math.ceil(100 * posterior(epsilon) - 1e-9)
    parts = f"{percent} in 100" if percent < 100 else "all but"
    return f"Somebody who was 50 in 100 sure of a fact about one person can be at most {parts} sure after this answer."


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One noisy number of a question, and how far off it would be at each price."""

    name: str
    errors: tuple[float | None, ...]
    """At each price, for groups as large as supposed; None where that depends on the data."""
    counts: bool
    about: bool
    """Whether the errors are bounds of the error of an average."""

    def words(self, index: int) -> str:
        """Return the error at a price."""
        error = self.errors[index]
        if error is None:
            return "known with the answer"
        return f"{'≤ about' if self.about else '±'} {shown_error(float(f'{error:.3g}'))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The values of a question at each price, before it is charged."""

    data: str
    prices: tuple[str, ...]
    chosen: int
    odds: tuple[str, ...]
    takes: tuple[str, ...]
    """The share that each price takes of the budget that binds, and the share that is left then, in words."""
    more: tuple[int, ...]
    """How many questions like it fit at each price, this one included."""
    outputs: tuple[Output, ...]
    bars: tuple[tuple[float, ...], ...]
    """For each account its remaining share, and then the share of the budget that each price takes."""
    notes: tuple[str, ...]
    rows: int
    labels: tuple[str, ...]
    key: str

    def to_json(self) -> dict[str, Any]:
        """Return the values for the script of the page, which moves the slider."""
        return {
            "prices": self.prices,
            "odds": self.odds,
            "takes": self.takes,
            "more": self.more,
            "bars": self.bars,
            "outputs": [
                {
                    "name": output.name,
                    "errors": output.errors,
                    "words": [output.words(index) for index in range(len(self.prices))],
                    "parts": [self.part(output, index) for index in range(len(self.prices))],
                }
                for output in self.outputs
            ],
        }

    def part(self, output: Output, index: int) -> str:
        """Return an error as part of a group of the size supposed, for counts."""
        error = output.errors[index]
        if not output.counts or error is None:
            return ""
        percent = 100 * error / self.rows
        return f"{percent:,.0f} %" if percent >= 10 else f"{percent:.2g} %"

    def dummy(self, *, width: float, name: str) -> Sheet | None:
        """Return hatched bars of made-up heights with the error bars that the chosen price would have."""
        drawn = next((output for output in self.outputs if output.errors[self.chosen] is not None), None)
        if drawn is None:
            return None
        error = drawn.errors[self.chosen]
        assert error is not None  # noqa: S101 - chosen so
        scale = self.rows if drawn.counts else max(error * 3, 1.0)
        values = tuple(round(scale * height, 2) for height in _SHAPE[: len(self.labels)])
        key = AnswerColumn(name=self.key or " ", kind=Kind.TEXT, values=self.labels)
        bars = AnswerColumn(
            name=drawn.name, kind=Kind.DECIMAL, values=values, errors=(error,) * len(values), counts=drawn.counts
        )
        return picture([key, bars], width=width, dummy=name, heading=False)


def before(
    curator: Curator,
    question: str,
    *,
    data: str | None,
    epsilon: str = "",
    rows: int = ROWS,
    confidence: str = "",
) -> Before:
    """Return the values of a question at each price; raise the refusal of a question that cannot be asked."""
    terms: dict[str, Any] = {"data": data, **({"confidence": confidence} if confidence else {})}
    data_set, _ = curator.parse(question, (), data)
    views = [view for view in curator.budget() if view.data == data_set.schema.data]
    remaining = min((view.remaining.epsilon for view in views), default=Fraction(0))
    usual = min((view.epsilon for view in views), default=Fraction(0)) / _USUAL
    prices = ladder(remaining)
    if epsilon and epsilon not in prices:
        prices = _with(prices, epsilon)
    price_index = prices.index(epsilon) if epsilon else _near(prices, usual)
    explained = curator.at_prices(question, epsilons=prices, **terms)
    accounts = [view.account for view in views]
    charges = [[price(account, explanation.events) for explanation in explained] for account in accounts]
    labels, key = _labels(explained[0])
    return Before(
        data=data_set.schema.data,
        prices=tuple(prices),
        chosen=price_index,
        odds=tuple(map(odds, prices)),
        takes=tuple("free" if told.outlook is None else _takes(told.outlook) for told in explained),
        more=tuple(0 if told.outlook is None else told.outlook.more for told in explained),
        outputs=_outputs(explained, rows),
        bars=tuple(
            (float(1 - account.share_spent), *(float(takes(account, charge)) for charge in prices_of))
            for account, prices_of in zip(accounts, charges, strict=True)
        ),
        notes=explained[price_index].caveats,
        rows=rows,
        labels=labels,
        key=key,
    )


def _with(prices: Sequence[str], epsilon: str) -> list[str]:
    """Return the prices with a chosen one in its place."""
    chosen_price = Fraction(epsilon)
    return [
        *(step for step in prices if Fraction(step) < chosen_price),
        epsilon,
        *(s for s in prices if Fraction(s) > chosen_price),
    ]


def _near(prices: Sequence[str], wanted: Fraction) -> int:
    """Return the index of the highest price that is at most ``wanted``."""
    return max((index for index, step in enumerate(prices) if Fraction(step) <= wanted), default=0)


def _takes(outlook: Outlook) -> str:
    """Return in words the share that a question takes, and the share that is left then."""
    share = percent(outlook.takes, taken=True)
    if not outlook.more:
        return f"takes {share} of {outlook.whose}: more than the {percent(outlook.left)} that is left"
    return f"takes {share} of {outlook.whose}; {percent(outlook.left - outlook.takes)} is left then"


def _outputs(explained: Sequence[Explanation], rows: int) -> tuple[Output, ...]:
    error_tables = [{**explanation.errors(), **explanation.errors_if_settled()} for explanation in explained]
    times = [explanation.errors_times_rows() for explanation in explained]
    outputs = []
    for name in error_tables[0]:
        about = name in times[0]
        errors = tuple(
            times[index][name] / rows if about else error_tables[index][name] for index in range(len(explained))
        )
        outputs.append(Output(name=name, errors=errors, counts=_counts(explained[0], name), about=about))
    return tuple(outputs)


def _counts(explanation: Explanation, name: str) -> bool:
    if isinstance(explanation, ComposedExplanation):
        return False
    return dict(explanation.plan.question.outputs)[name].type.kind is Kind.INTEGER


def _labels(explanation: Explanation) -> tuple[tuple[str, ...], str]:
    """Return some keys of the answer, and their name: public ones as they are, others made up."""
    if isinstance(explanation, ComposedExplanation):
        return _MADE_UP, ""
    question = explanation.plan.question
    if not question.keys:
        return ("all rows",), ""
    name = _key_name(question.outputs, question.keys)
    domains = explanation.plan.exact_query.domains
    if domains is None or not isinstance(domains[0], Listed):
        return _MADE_UP, name
    values = [float(value) if isinstance(value, Fraction) else value for value in domains[0].values[:_MOST_BARS]]
    return tuple(label(int(v) if isinstance(v, float) and v.is_integer() else v) for v in values), name


def _key_name(outputs: Sequence[tuple[str, Any]], keys: Sequence[tuple[str, Any]]) -> str:
    key_names: Mapping[Any, str] = {
        getattr(output, "index", None): name for name, output in outputs if getattr(output, "source", "") == "key"
    }
    return key_names.get(0, keys[0][0])
