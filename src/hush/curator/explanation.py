"""What a question would cost and how far off its answers would be, before anything is spent."""

from __future__ import annotations

from typing import Any

from hush.accounting.events import Event
from hush.core import Number, positive
from hush.core.format import ToldInLines, figure
from hush.core.values import dataclass
from hush.curator.answer import Money, itemised
from hush.ledger.shares import Outlook
from hush.mechanisms.grouped import GroupedDistribution, GroupedLaplace
from hush.query.composed import chosen_by_noise, columns_of
from hush.query.expressions import Expression
from hush.query.plan import Plan
from hush.query.plan.composed import ComposedPlan, widest_error
from hush.query.plan.domains import Listed
from hush.query.plan.expected import decided, error_times_rows, errs, expected_error, rows_needed, rows_off
from hush.query.plan.plan import Item
from hush.query.released import noisy
from hush.report.columns import shown_error

_SUPPOSED = 2000
"""In how large a group the error of an average is shown before anything is known."""


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
    """What the question would take of the budget that ends first; None where nobody asked, or nothing is charged."""

    @property
    def price(self) -> Money:
        """What it costs, item by item."""
        return Money.of(self.plan)

    @property
    def events(self) -> tuple[Event, ...]:
        """What an accountant would be told."""
        return self.plan.events

    @property
    def caveats(self) -> tuple[str, ...]:
        """What can bias the answers."""
        return self.plan.caveats

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        extraction = self.plan.extraction
        if not extraction.keys:
            return "no groups"
        if extraction.domains is None:
            return "chosen privately"
        size = 1
        for domain in extraction.domains:
            if not isinstance(domain, Listed):
                return "public"
            size *= len(domain.values)
        return f"{size} public"

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance; None where it depends on the data."""
        return {
            name: None if self._lifted(output) else expected_error(self.plan, output)
            for name, output in self.plan.question.outputs
            if errs(self.plan, output)
        }

    def errors_if_settled(self) -> dict[str, float]:
        """Return half-widths where HAVING may show rows that noise lifted: those of rows that it cannot have."""
        found = {
            name: expected_error(self.plan, output)
            for name, output in self.plan.question.outputs
            if self._lifted(output)
        }
        return {name: error for name, error in found.items() if error is not None}

    def _lifted(self, output: Expression) -> bool:
        """Return whether noise of an output may decide HAVING."""
        return self.plan.winners is not None and bool(self.plan.winners.having) and decided(self.plan, output)

    def drawable(self) -> bool:
        """Return whether the answer can be drawn: a chart is one of a noisy number."""
        return any(output.type.kind.numeric and errs(self.plan, output) for _, output in self.plan.question.outputs)

    def errors_times_rows(self) -> dict[str, float]:
        """Return for each average what its half-width is at most, about, times the number of rows in the group."""
        found = {name: error_times_rows(self.plan, output) for name, output in self.plan.question.outputs}
        return {name: error for name, error in found.items() if error is not None}

    def rows_off(self) -> dict[str, float]:
        """Return for each quantile about how many rows it is off."""
        found = {name: rows_off(self.plan, output) for name, output in self.plan.question.outputs}
        return {name: rows for name, rows in found.items() if rows is not None}

    def rows_needed(self) -> dict[str, float]:
        """Return for each quantile about how many rows it takes; of fewer it may be anything."""
        found = {name: rows_needed(self.plan, output) for name, output in self.plan.question.outputs}
        return {name: rows for name, rows in found.items() if rows is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        return {
            "price": self.price.to_json(),
            "budget": self._budget_to_json(),
            "items": [
                {"what": item.what, "epsilon": epsilon, "delta": figure(item.delta, exact=True)}
                for item, epsilon in self._items()
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
                    "limits": other._limits_to_json(),  # noqa: SLF001 - another one of this class
                    "errors": other.errors(),
                    "errors_times_rows": other.errors_times_rows(),
                    "rows_off": other.rows_off(),
                }
                for other in map(Explanation, self.tighter)
            ],
            "confidence": self.plan.confidence,
            "caveats": list(self.caveats),
            "events": [event.to_json() for event in self.events],
        }

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        lines = self._price_lines()
        trees = [pick.mechanism for pick in self.plan.picks if isinstance(pick.mechanism, GroupedDistribution)]
        used = [*(noise.law for noise in self.plan.noises), *(tree.noise for tree in trees)]
        laws = sorted({"Laplace" if isinstance(law, GroupedLaplace) else "Gaussian" for law in used})
        if laws:
            lines.append(f"noise: {', '.join(laws)}")
        chosen = self.plan.selection is not None and self.plan.selection.gaussian
        lines.append(f"keys: {self.keys}{', by Gaussian noise on how many units they have' if chosen else ''}")
        lines += [f"{name}: {error}" for name, error in self._errors_in_words().items()]
        lines += self._at_tighter_limits()
        return [*lines, *(f"note: {caveat}" for caveat in self.caveats)]

    def _budget_to_json(self) -> dict[str, Any] | None:
        if self.outlook is None:
            return None
        found = self.outlook
        return {"of": found.whose, "takes": float(found.takes), "left": float(found.left), "times": found.more}

    def _price_lines(self) -> list[str]:
        """Return what it costs, item by item, and what that takes of the budget."""
        lines = [f"price: {self.price}"]
        for item, epsilon in self._items():
            extra = f", δ={figure(item.delta, exact=True)}" if item.delta else ""
            lines.append(f"  {item.what}: ε={epsilon}{extra}")
        return lines + self._budget_line()

    def _budget_line(self) -> list[str]:
        return [] if self.outlook is None else [f"budget: {self.outlook}"]

    def suppose(self, rows: Number) -> dict[str, float]:
        """Return the half-widths in a group of so many rows: of averages at most about, of others as they are known."""
        number = float(positive(rows, "rows"))
        averages = {name: error / number for name, error in self.errors_times_rows().items()}
        known = {name: error for name, error in self.errors().items() if error is not None}
        return known | averages

    def _limits_to_json(self) -> dict[str, int]:
        limits = self.plan.extraction.limits
        return {"max_rows": limits.rows, "max_groups": limits.groups}

    def _at_tighter_limits(self) -> list[str]:
        """Return what would be known in advance if a question asked for tighter limits, a line for each."""
        lines = []
        for other in map(Explanation, self.tighter):
            figures = other._figures()  # noqa: SLF001 - another one of this class
            if figures:
                words = "; ".join(f"{name} {figure}" for name, figure in figures.items())
                limits = ", ".join(f"{name}={value}" for name, value in other._limits_to_json().items())  # noqa: SLF001
                lines.append(f"  with {limits}: {words}")
        return ["at tighter limits there is less noise, but more of a unit is left out:", *lines] if lines else []

    def _figures(self) -> dict[str, str]:
        """Return what is known in advance of each output's error, in a few words."""
        figures = {name: f"± {shown_error(error)}" for name, error in self.errors().items() if error is not None}
        figures |= {name: f"± {shown_error(error)}" for name, error in self.errors_if_settled().items()}
        for name, error in self.errors_times_rows().items():
            figures[name] = f"about ± {_rounded(error)} over the number of rows"
        for name, rows in self.rows_off().items():
            figures[name] = f"about {_rounded(rows)} rows off"
        return figures

    def _items(self) -> list[tuple[Item, str]]:
        """Return what is paid for, each with its ε as it is shown."""
        shown = itemised(self.plan.epsilon, [item.epsilon for item in self.plan.items])
        return list(zip(self.plan.items, shown, strict=True))

    def _errors_in_words(self) -> dict[str, str]:
        """Return what can be said in advance of every output that is not a key."""
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
    """What a question about answers has in place of a plan."""
    tighter: tuple[Plan, ...] = ()

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        found = dict.fromkeys(Explanation(part).keys for part in self.plan.parts.values())
        return "; ".join(found)

    def _limits_to_json(self) -> dict[str, int]:
        """Return the widest limits of its questions."""
        limits = [part.extraction.limits for part in self.plan.parts.values()]
        return {"max_rows": max(one.rows for one in limits), "max_groups": max(one.groups for one in limits)}

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance: the widest, where rows differ."""
        composed = self.plan.question
        noise = {column.name: column for column in columns_of(composed.table) if column.noisy}
        decided_by_noise = chosen_by_noise(composed.table)
        found: dict[str, float | None] = {}
        for name, unique in composed.outputs:
            if unique in noise and noise[unique].type.kind.numeric:
                found[name] = None if decided_by_noise else widest_error(self.plan, unique)
        return found

    def errors_if_settled(self) -> dict[str, float]:
        """Return nothing: where noise decides which rows are shown, half-widths are known with the answer."""
        return {}

    def errors_times_rows(self) -> dict[str, float]:
        """Return nothing: of averages among several answers nothing is said in advance."""
        return {}

    def rows_off(self) -> dict[str, float]:
        """Return nothing, likewise."""
        return {}

    def rows_needed(self) -> dict[str, float]:
        """Return nothing, likewise."""
        return {}

    def drawable(self) -> bool:
        """Return whether the answer can be drawn: a chart is one of a noisy number."""
        return bool(self.errors())

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        lines = self._price_lines()
        lines.append(f"keys: {self.keys}")
        for name, error in self.errors().items():
            known = "depends on the data; known with the answer" if error is None else f"at most ± {shown_error(error)}"
            lines.append(f"{name}: {known}")
        return [*lines, *(f"note: {caveat}" for caveat in self.caveats)]


def _rounded(value: float) -> str:
    """Return a number to two digits."""
    return shown_error(float(f"{value:.2g}"))
