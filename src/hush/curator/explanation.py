"""Explanations: the price of a question and the half-widths of its outputs, before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hush.accounting.events import Event
from hush.core.format import ToldInLines, decimal, figure
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
from hush.query.types import Kind
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

    plan: Plan | ComposedPlan
    tighter: tuple[Plan, ...] = ()
    """The same question at tighter limits, for the same price; none for a question over answers."""
    outlook: Outlook | None = None
    """The share that the question would take from the tightest budget; None if not asked for, or if it is free."""
    notes: tuple[str, ...] = ()
    """The engine's notes on how it would answer."""

    @property
    def price(self) -> Money:
        """The price, item by item."""
        return Money(epsilon=self.plan.epsilon, delta=self.plan.delta, items=tuple(self.plan.items))

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that an accountant would charge."""
        return self.plan.events

    @property
    def caveats(self) -> tuple[str, ...]:
        """Known causes of bias in the answers, in words."""
        return tuple(dict.fromkeys((*self.plan.caveats, *self.notes)))

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        return "; ".join(dict.fromkeys(map(_keys, self.plan.parts.values())))

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance; None where it depends on the data.

        That of a question over answers is the widest, where rows differ.
        """
        plan = self.plan
        if isinstance(plan, Plan):
            return {
                # where noise may lift a row over HAVING, its half-width depends on the row
                name: None if _lifted(plan, output) else expected_error(plan, output)
                for name, output in plan.question.outputs
                if errs(plan, output)
            }
        table = plan.question.table
        noise = {column.name for column in columns_of(table) if column.noisy and column.type.kind.numeric}
        decided_by_noise = chosen_by_noise(table)
        return {
            name: None if decided_by_noise else widest_error(plan, unique)
            for name, unique in plan.question.outputs
            if unique in noise
        }

    def _known(self, figure_of: Callable[[Plan, Expression], float | None]) -> dict[str, float]:
        """Return a figure of each output that has it in advance; none of a question over answers has."""
        if not isinstance(self.plan, Plan):
            return {}
        stated = ((name, figure_of(self.plan, output)) for name, output in self.plan.question.outputs)
        return {name: value for name, value in stated if value is not None}

    def errors_if_settled(self) -> dict[str, float]:
        """Return half-widths for rows in which noise cannot have decided HAVING, for outputs with HAVING over noise."""
        return self._known(lambda plan, output: expected_error(plan, output) if _lifted(plan, output) else None)

    def columns(self) -> list[tuple[str, Kind, bool]]:
        """Return the name and the kind of each output, and whether it will have half-widths."""
        plan, ends = self.plan, dict(self.plan.question.intervals)
        if isinstance(plan, Plan):
            outputs = [(name, output.type.kind, errs(plan, output)) for name, output in plan.question.outputs]
        else:
            known = {column.name: column for column in columns_of(plan.question.table)}
            named = [(name, known[unique]) for name, unique in plan.question.outputs]
            outputs = [(name, of.type.kind, of.noisy and of.type.kind.numeric) for name, of in named]
        return [(name, kind, noisy and name not in ends) for name, kind, noisy in outputs]

    def drawable(self) -> bool:
        """Return whether the answer can be drawn: a chart needs a noisy number."""
        return any(kind.numeric and noisy for _, kind, noisy in self.columns())

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
            **self._figures("errors", "errors_if_settled", "errors_times_rows", "rows_off", "rows_needed", "limits"),
            "tighter": [
                rung._figures("limits", "errors", "errors_times_rows", "rows_off")  # noqa: SLF001 - of this class
                for rung in map(Explanation, self.tighter)
            ],
            "confidence": self.plan.confidence,
            "caveats": list(self.caveats),
            "events": [event.to_json() for event in self.events],
        }

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        lines = [f"price: {self.price}"]
        for expense, epsilon in self._items():
            extra = f", δ={figure(expense.delta, exact=True)}" if expense.delta else ""
            lines.append(f"  {expense.what}: ε={epsilon}{extra}")
        lines += [] if self.outlook is None else [f"budget: {self.outlook}"]
        parts = self.plan.parts.values()
        draws = [draw.mechanism for part in parts for draw in part.draws]
        used = [tree.noise for tree in draws if isinstance(tree, GroupedDistribution)]
        used += [noise.law for part in parts for noise in part.noises]
        laws = sorted({"Laplace" if isinstance(law, GroupedLaplace) else "Gaussian" for law in used})
        if laws:
            lines.append(f"noise: {', '.join(laws)}")
        by_noise = any(part.selection is not None and part.selection.gaussian for part in parts)
        lines.append(f"keys: {self.keys}{', by Gaussian noise on how many units they have' if by_noise else ''}")
        lines += [f"{name}: {error}" for name, error in self._errors_in_words().items()]
        tighter = []
        for rung in map(Explanation, self.tighter):
            if words := "; ".join(f"{name} {error}" for name, error in figures(rung).items()):
                limits = ", ".join(f"{name}={value}" for name, value in rung.limits().items())
                tighter.append(f"  with {limits}: {words}")
        if tighter:
            lines += ["at tighter limits there is less noise, but more of a unit is left out:", *tighter]
        return [*lines, *(f"note: {caveat}" for caveat in self.caveats)]

    def _figures(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name)() for name in names}

    def limits(self) -> dict[str, int]:
        """Return the widest limits of its questions."""
        limits = [part.exact_query.limits for part in self.plan.parts.values()]
        return {"max_rows": max(limit.rows for limit in limits), "max_groups": max(limit.groups for limit in limits)}

    def _items(self) -> list[tuple[PriceItem, str]]:
        """Return the items of the price, each with its ε as it is shown."""
        amounts = itemised(self.plan.epsilon, [expense.epsilon for expense in self.plan.items])
        return list(zip(self.plan.items, amounts, strict=True))

    def _errors_in_words(self) -> dict[str, str]:
        """Return a text about the error of every noisy output."""
        words, upto = {}, "at most "
        if isinstance(self.plan, Plan):
            words, upto = {name: "has no ±" for name, output in self.plan.question.outputs if noisy(output)}, ""
        for name, error in self.errors().items():
            width = "depends on the data; known with the answer" if error is None else f"{upto}± {shown_error(error)}"
            words[name] = width
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


def _keys(plan: Plan) -> str:
    """Return where the group keys of a question about rows come from."""
    query = plan.exact_query
    if not query.keys:
        return "no groups"
    if query.domains is None:
        return "chosen privately"
    sizes = [len(domain.values) for domain in query.domains if isinstance(domain, Listed)]
    return f"{math.prod(sizes)} public" if len(sizes) == len(query.domains) else "public"


def _lifted(plan: Plan, output: Expression) -> bool:
    """Return whether noise of an output may decide HAVING."""
    return plan.winners is not None and bool(plan.winners.having) and decided(plan, output)


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

    Parts are rounded down at the seventh digit of the smallest, and the last one takes what is left.

    >>> itemised(Fraction(1, 2), [Fraction(1, 6)] * 3)
    ['0.1666666', '0.1666666', '0.1666668']
    """
    texts = [figure(amount, exact=True) for amount in parts]
    aim = Fraction(figure(total, exact=True))
    if not parts or min(parts) <= 0 or sum(map(Fraction, texts)) == aim:
        return texts
    unit = Fraction(10) ** (math.floor(math.log10(min(parts))) - 6)
    # scaled to the total as it is shown, which may itself be rounded
    amounts = [amount * aim / total // unit * unit for amount in parts[:-1]]
    return list(map(decimal, [*amounts, aim - sum(amounts)]))
