"""Explanations: the price of a question and the half-widths of its outputs, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hush.accounting.events import Event
from hush.core import Number, positive
from hush.core.format import ToldInLines, figure
from hush.curator.answer import Money
from hush.ledger.budgets import Outlook
from hush.mechanisms.grouped import GroupedDistribution, GroupedLaplace
from hush.query.answers.plan import ComposedPlan, widest_error
from hush.query.answers.tree import chosen_by_noise, columns_of
from hush.query.expressions import Expression
from hush.query.plan import Plan, decided, error_times_rows, errs, expected_error, rows_needed, rows_off
from hush.query.plan.keys import Listed
from hush.query.plan.plan import PriceItem
from hush.query.released import noisy
from hush.report.columns import shown_error

_SUPPOSED = 2000
"""The size of the example group for which the error of an average is shown in advance."""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(ToldInLines):
    """A plan, put into words.

    >>> import hush
    >>> curator = hush.protect({"age": [30, 40, 50]}, bounds={"age": (0, 120)}, budget="1")
    >>> explained = curator.explain("SELECT COUNT(*) AS n FROM data", epsilon="0.5")
    >>> explained.to_json()["price"]
    {'epsilon': '0.5', 'delta': '0'}
    """

    plan: Plan
    tighter: tuple[Plan, ...] = ()
    """The same question at tighter limits, for the same price."""
    outlook: Outlook | None = None
    """The share that the question would take from the tightest budget; None if not asked for, or if it is free."""

    @property
    def price(self) -> Money:
        """The price, item by item."""
        return Money.of(self.plan)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that an accountant would charge."""
        return self.plan.events

    @property
    def caveats(self) -> tuple[str, ...]:
        """Known causes of bias in the answers, in words."""
        return self.plan.caveats

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        query = self.plan.exact_query
        if not query.keys:
            return "no groups"
        if query.domains is None:
            return "chosen privately"
        size = 1
        for domain in query.domains:
            if not isinstance(domain, Listed):
                return "public"
            size *= len(domain.values)
        return f"{size} public"

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance; None where it depends on the data."""
        return {
            # where noise may lift a row over HAVING, its half-width depends on the row
            name: None if self._lifted(output) else expected_error(self.plan, output)
            for name, output in self.plan.question.outputs
            if errs(self.plan, output)
        }

    def _known(self, figure_of: Callable[[Plan, Expression], float | None]) -> dict[str, float]:
        """Return a figure of each output that has it in advance."""
        stated = ((name, figure_of(self.plan, output)) for name, output in self.plan.question.outputs)
        return {name: value for name, value in stated if value is not None}

    def errors_if_settled(self) -> dict[str, float]:
        """Return half-widths for rows in which noise cannot have decided HAVING, for outputs with HAVING over noise."""
        return self._known(lambda plan, output: expected_error(plan, output) if self._lifted(output) else None)

    def _lifted(self, output: Expression) -> bool:
        """Return whether noise of an output may decide HAVING."""
        return self.plan.winners is not None and bool(self.plan.winners.having) and decided(self.plan, output)

    def drawable(self) -> bool:
        """Return whether the answer can be drawn: a chart needs a noisy number."""
        return any(output.type.kind.numeric and errs(self.plan, output) for _, output in self.plan.question.outputs)

    def errors_times_rows(self) -> dict[str, float]:
        """Return for each average about the largest half-width times the number of rows in the group."""
        return self._known(error_times_rows)

    def rows_off(self) -> dict[str, float]:
        """Return for each quantile about how many rows it is off."""
        return self._known(rows_off)

    def rows_needed(self) -> dict[str, float]:
        """Return for each quantile about how many rows a group needs; with fewer, the quantile may be any value."""
        return self._known(rows_needed)

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        return {
            "price": self.price.to_json(),
            "budget": None if self.outlook is None else self.outlook.to_json(),
            "items": [
                {"what": expense.what, "epsilon": epsilon, "delta": figure(expense.delta, exact=True)}
                for expense, epsilon in self._items()
            ],
            "keys": self.keys,
            "errors": self.errors(),
            "errors_if_settled": self.errors_if_settled(),
            "errors_times_rows": self.errors_times_rows(),
            "rows_off": self.rows_off(),
            "rows_needed": self.rows_needed(),
            "limits": self._limits_to_json(),
            "tighter": [
                {
                    "limits": rung._limits_to_json(),  # noqa: SLF001 - another one of this class
                    "errors": rung.errors(),
                    "errors_times_rows": rung.errors_times_rows(),
                    "rows_off": rung.rows_off(),
                }
                for rung in map(Explanation, self.tighter)
            ],
            "confidence": self.plan.confidence,
            "caveats": list(self.caveats),
            "events": [event.to_json() for event in self.events],
        }

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        lines = self._price_lines()
        trees = [pick.mechanism for pick in self.plan.draws if isinstance(pick.mechanism, GroupedDistribution)]
        used = [*(noise.law for noise in self.plan.noises), *(tree.noise for tree in trees)]
        laws = sorted({"Laplace" if isinstance(law, GroupedLaplace) else "Gaussian" for law in used})
        if laws:
            lines.append(f"noise: {', '.join(laws)}")
        by_noise = self.plan.selection is not None and self.plan.selection.gaussian
        lines.append(f"keys: {self.keys}{', by Gaussian noise on how many units they have' if by_noise else ''}")
        lines += [f"{name}: {error}" for name, error in self._errors_in_words().items()]
        tighter = []
        for rung in map(Explanation, self.tighter):
            if words := "; ".join(f"{name} {error}" for name, error in figures(rung).items()):
                limits = ", ".join(f"{name}={value}" for name, value in rung._limits_to_json().items())  # noqa: SLF001
                tighter.append(f"  with {limits}: {words}")
        if tighter:
            lines += ["at tighter limits there is less noise, but more of a unit is left out:", *tighter]
        return [*lines, *(f"note: {caveat}" for caveat in self.caveats)]

    def _price_lines(self) -> list[str]:
        """Return the lines of the price, item by item, and of its share of the budget."""
        lines = [f"price: {self.price}"]
        for expense, epsilon in self._items():
            extra = f", δ={figure(expense.delta, exact=True)}" if expense.delta else ""
            lines.append(f"  {expense.what}: ε={epsilon}{extra}")
        return lines if self.outlook is None else [*lines, f"budget: {self.outlook}"]

    def suppose(self, rows: Number) -> dict[str, float]:
        """Return the half-widths in a group of ``rows`` rows; those of averages are about the largest possible."""
        number = float(positive(rows, "rows"))
        averages = {name: error / number for name, error in self.errors_times_rows().items()}
        half_widths = {name: error for name, error in self.errors().items() if error is not None}
        return half_widths | averages

    def _limits_to_json(self) -> dict[str, int]:
        limits = self.plan.exact_query.limits
        return {"max_rows": limits.rows, "max_groups": limits.groups}

    def _items(self) -> list[tuple[PriceItem, str]]:
        """Return the items of the price, each with its ε as it is shown."""
        amounts = itemised(self.plan.epsilon, [expense.epsilon for expense in self.plan.items])
        return list(zip(self.plan.items, amounts, strict=True))

    def _errors_in_words(self) -> dict[str, str]:
        """Return a text about the error of every noisy output."""
        words = {name: "has no ±" for name, output in self.plan.question.outputs if noisy(output)}
        for name, error in self.errors().items():
            words[name] = "depends on the data; known with the answer" if error is None else f"± {shown_error(error)}"
        for name, error in self.errors_if_settled().items():
            words[name] = f"± {shown_error(error)}, and more in rows close to what HAVING asks; known with the answer"
        for name, error in self.errors_times_rows().items():
            words[name] = f"at most about ± {_rounded(error)} over the number of rows (suppose {_SUPPOSED:,} rows: "
            words[name] += f"± {_rounded(error / _SUPPOSED)}); known with the answer"
        for name, rows in self.rows_off().items():
            needed = _rounded(self.rows_needed()[name])
            words[name] = f"about {_rounded(rows)} rows off, known in its own unit with the answer; "
            words[name] += f"of fewer than about {needed} rows it may be anything"
        return words


@dataclass(frozen=True, slots=True, repr=False)
class ComposedExplanation(Explanation):
    """The plan of a question about answers, put into words."""

    plan: ComposedPlan  # type: ignore[assignment]
    """The plan of the whole question; the inner questions have plans of their own."""
    tighter: tuple[Plan, ...] = ()

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        sources = dict.fromkeys(Explanation(question_plan).keys for question_plan in self.plan.parts.values())
        return "; ".join(sources)

    def _limits_to_json(self) -> dict[str, int]:
        """Return the widest limits of its questions."""
        limits = [question_plan.exact_query.limits for question_plan in self.plan.parts.values()]
        return {"max_rows": max(limit.rows for limit in limits), "max_groups": max(limit.groups for limit in limits)}

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance: the widest, where rows differ."""
        composed = self.plan.question
        noise = {column.name: column for column in columns_of(composed.table) if column.noisy}
        decided_by_noise = chosen_by_noise(composed.table)
        half_widths: dict[str, float | None] = {}
        for name, unique in composed.outputs:
            if unique in noise and noise[unique].type.kind.numeric:
                half_widths[name] = None if decided_by_noise else widest_error(self.plan, unique)
        return half_widths

    def _known(self, _figure_of: Callable[[Plan, Expression], float | None]) -> dict[str, float]:
        """Return nothing: further figures of questions over answers are known with the answer."""
        return {}

    def drawable(self) -> bool:
        """Return whether the answer can be drawn: a chart needs a noisy number."""
        return bool(self.errors())

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        lines = self._price_lines()
        lines.append(f"keys: {self.keys}")
        for name, error in self.errors().items():
            width = "depends on the data; known with the answer" if error is None else f"at most ± {shown_error(error)}"
            lines.append(f"{name}: {width}")
        return [*lines, *(f"note: {caveat}" for caveat in self.caveats)]


def figures(explained: Any) -> dict[str, str]:
    """Return a short text for each output with an error that is known in advance, of a local or remote explanation."""
    texts = {name: f"± {shown_error(error)}" for name, error in explained.errors().items() if error is not None}
    texts |= {name: f"± {shown_error(error)}" for name, error in explained.errors_if_settled().items()}
    for name, error in explained.errors_times_rows().items():
        texts[name] = f"about ± {_rounded(error)} over the number of rows"
    for name, rows in explained.rows_off().items():
        texts[name] = f"about {_rounded(rows)} rows off"
    return texts


def _rounded(value: float) -> str:
    """Return a number to two digits."""
    return shown_error(float(f"{value:.2g}"))


def itemised(total: Fraction, parts: Sequence[Fraction]) -> list[str]:
    """Return the parts of a total as decimals that add up to the total as `figure` shows it.

    Each part is rounded down at the sixth digit of the smallest part. Then the parts with the largest remainders get
    one unit each, until the sum is right.

    >>> itemised(Fraction(1, 2), [Fraction(1, 6)] * 3)
    ['0.166667', '0.166667', '0.166666']
    """
    texts = [figure(amount, exact=True) for amount in parts]
    aim = Fraction(figure(total, exact=True))
    if not parts or min(parts) <= 0 or sum(map(Fraction, texts)) == aim:
        return texts
    exponent = math.floor(math.log10(min(parts))) - 5
    # the total must be a whole number of units, or no rounding of the parts could add up to it
    while (aim / Fraction(10) ** exponent).denominator != 1:
        exponent -= 1
    # scaled to the total as it is shown, which may itself be rounded
    exact = [amount * aim / total / Fraction(10) ** exponent for amount in parts]
    units = [math.floor(scaled) for scaled in exact]
    lost = sorted(range(len(parts)), key=lambda index: units[index] - exact[index])
    for index in lost[: int(sum(exact)) - sum(units)]:
        units[index] += 1
    decimals = (Decimal(count).scaleb(exponent).normalize() for count in units)
    return [f"{number:f}" if number.adjusted() > -5 else f"{number:e}" for number in decimals]
