"""Answers: noisy values with error bars, their price and the remaining budget."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hush.core import HushError, InvalidValueError, nonnegative
from hush.core.format import figure, visible
from hush.core.on_demand import optional
from hush.core.storage import path_of, writing
from hush.ledger import Actor, Ledger, LedgerError
from hush.ledger.budgets import Spending
from hush.ledger.entries import receipt_number
from hush.query.types import Kind
from hush.report import files, tables
from hush.report.columns import AnswerColumn

if TYPE_CHECKING:
    from hush.ledger import Release

_LIMITS = ("lower", "upper")
"""The fields of a column that limit its truth; absent where no limit is known, and in answers of older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """An amount of privacy, (ε, δ), with the items that it pays for."""

    epsilon: Fraction
    delta: Fraction
    items: tuple[tuple[str, Fraction, Fraction], ...] = ()
    """(name, ε, δ) for each item of a price."""

    @classmethod
    def single(cls, purpose: str, epsilon: Fraction) -> Money:
        """Return the price of a single item, which has no δ of its own."""
        return cls(epsilon=epsilon, delta=Fraction(0), items=((purpose, epsilon, Fraction(0)),))

    def to_json(self) -> dict[str, str]:
        """Return ε and δ as exact text."""
        return {"epsilon": figure(self.epsilon, exact=True), "delta": figure(self.delta, exact=True)}

    def itemised_json(self) -> dict[str, Any]:
        """Return ε, δ and every item as exact fractions, from which `from_json` makes the same amount again."""
        items = [[purpose, str(epsilon), str(delta)] for purpose, epsilon, delta in self.items]
        return {"epsilon": str(self.epsilon), "delta": str(self.delta), "items": items}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Money:
        """Return the amount that `itemised_json` wrote."""
        items = (
            (purpose, nonnegative(epsilon, "epsilon"), nonnegative(delta, "delta"))
            for purpose, epsilon, delta in content["items"]
        )
        epsilon, delta = nonnegative(content["epsilon"], "epsilon"), nonnegative(content["delta"], "delta")
        return cls(epsilon=epsilon, delta=delta, items=tuple(items))

    def __str__(self) -> str:
        return f"ε={figure(self.epsilon, exact=True)}" + (
            f", δ={figure(self.delta, exact=True)} for keys" if self.delta else ""
        )


_MADE_UP = "MADE-UP ROWS"
CAVEATS_SHOWN = 2
"""How many caveats stand under an answer at once; the most important come first."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer:
    """A question's noisy answer. It renders itself in notebooks and terminals.

    Receipt and remaining budget do not take part in equality.

    >>> import hush
    >>> curator = hush.protect({"age": list(range(100))}, bounds={"age": (0, 120)}, budget="1")
    >>> answer = curator.ask("SELECT COUNT(*) AS n FROM data", epsilon="0.5")
    >>> [sorted(row) for row in answer.rows()], str(answer.price)
    ([['n', 'n_error']], 'ε=0.5')
    """

    columns: tuple[AnswerColumn, ...]
    confidence: float
    price: Money
    remaining: Money | None = field(default=None, compare=False)
    receipt: str = field(default="", compare=False)
    caveats: tuple[str, ...] = ()
    question: str = ""
    spending: Spending | None = field(default=None, compare=False)
    """The share that the question took from the tightest budget, and the share that this budget has left."""
    repeated: str = field(default="", compare=False)
    """The time of the payment, if this is a stored answer to the same question; empty if it was computed just now."""
    shared: bool = field(default=False, compare=False)
    """Whether this is another analyst's answer: it is charged to the asker's own budget, not to the data set's."""
    terms: Mapping[str, Any] | None = field(default=None, compare=False)
    """The terms of the question but its price, as JSON values; None for an answer that does not have them."""
    made_up: bool = False
    """Whether the rows were invented to try the question (`hush.curator.made_up`): no person is in this answer."""

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Go through the rows, each a dictionary with errors included."""
        return iter(self.rows())

    def __bool__(self) -> bool:
        return True  # also an answer without rows is one

    def __getitem__(self, which: str | int) -> Any:
        """Return the values of a column by its name (or ``NAME_error``), or a row by its number."""
        if not isinstance(which, str):
            return self.rows()[which]
        cells = files.flat(self._marked)
        if which not in cells:
            names = ", ".join(cells)
            raise InvalidValueError("column", got=which, allowed=f"a column of the answer ({names})")
        return cells[which]

    @property
    def _marked(self) -> tuple[AnswerColumn, ...]:
        """The columns for export; an answer from made-up rows has a further column ``made_up``, which says so."""
        if not self.made_up:
            return self.columns
        mark = AnswerColumn(name="made_up", kind=Kind.BOOLEAN, values=(True,) * len(self))
        return (mark, *self.columns)

    # as data

    @property
    def table(self) -> Any:
        """A pyarrow.Table with one column per output, each noisy one followed by its ``_error``."""
        metadata = {"hush.receipt": self.receipt, "hush.confidence": str(self.confidence)}
        return files.arrow(self._marked, metadata | ({"hush.made_up": "true"} if self.made_up else {}))

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame."""
        import pandas as pd

        return pd.DataFrame(files.flat(self._marked))

    def to_polars(self) -> Any:
        """Return a polars.DataFrame."""
        import polars as pl

        return pl.DataFrame(files.flat(self._marked))

    def rows(self) -> list[dict[str, Any]]:
        """Return the answer as dictionaries, errors included."""
        cells = files.flat(self._marked)
        return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]

    def value(self) -> Any:
        """Return the only value of an answer that has one row and one output."""
        if len(self) != 1 or len(self.columns) != 1:
            raise HushError(f"the answer has {len(self)} rows and {len(self.columns)} outputs, not one of each")
        return next(iter(self.columns[0].values))

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the answer as CSV, and write it if a path is given."""
        return _written(files.to_csv(self._marked), path)

    def to_markdown(self) -> str:
        """Return the answer as a Markdown table, with its notes below."""
        names = [_markdown(column.name) for column in self._marked]
        lines = [names, ["---:" if column.kind.numeric else "---" for column in self._marked]]
        lines += [[_markdown(tables.cell(column, row)) for column in self._marked] for row in range(len(self))]
        table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
        return f"{table}\n\n" + "".join(f"- {_markdown(note)}\n" for note in self.notes())

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain JSON values."""
        return {
            "columns": [column.name for column in self.columns],
            "rows": files.rows(self.columns),
            "errors": files.errors(self.columns),
            "confidence": self.confidence,
            **paid_json(self),
            "repeated": self.repeated or None,
            "shared": self.shared,
            "made_up": self.made_up,
        }

    def save(self, path: str | Path) -> None:
        """Write a file; its suffix says which: .csv, .json, .parquet, or .svg, .png, .html for the chart."""
        target = path_of(path)
        match target.suffix.lower():
            case ".csv":
                self.to_csv(target)
            case ".json":
                _written(files.dumps(self.to_json()), target)
            case ".parquet":
                pq = optional("pyarrow.parquet", "arrow")
                with writing(target):
                    pq.write_table(self.table, target)
            case ".svg" | ".png" | ".html":
                self.chart().save(target)
            case _:
                allowed = "a file name ending in .csv, .json or .parquet, or in .svg, .png or .html for the chart"
                raise InvalidValueError("path", got=str(path), allowed=allowed)

    # as pictures

    def chart(self, title: str = "", *, column: str = "") -> Any:
        """Return a chart with error bars of a noisy number: the first one, unless another column is named.

        The title says what is shown unless one is given; the line under it says the price and the confidence.
        """
        from hush.report.pictures import picture

        return picture(self.columns, subtitle=self.subtitle(), title=title, column=column)

    plot = chart

    def subtitle(self) -> str:
        """Return the subtitle of a chart: the price and the confidence."""
        words = f"price {self.price}; ± at {100 * self.confidence:.6g}% confidence, of the noise alone"
        return f"{_MADE_UP}; {words}" if self.made_up else words

    def notes(self) -> tuple[str, ...]:
        """Return the lines below the table: confidence, price, its share of the budget, receipt and caveats."""
        if self.made_up:
            costs = f"asked of the real rows, it costs {self.price}"
            sure = f"± at {100 * self.confidence:.6g}% confidence"
            return (f"{_MADE_UP}: nobody is in this answer, and nothing was charged; {costs}", sure, *self.caveats)
        lines = [f"± at {100 * self.confidence:.6g}% confidence; price {self.price}"]
        if self.spending is not None:
            lines[0] += f", which took {self.spending}"
        if self.receipt:
            lines[0] += f"; receipt {self.receipt}"
        if self.shared:
            lines.append(
                "another analyst has paid for the same question: this is that answer, charged to your own budget "
                "alone; fresh=True (hush ask --fresh) asks anew"
            )
        elif self.repeated:
            lines.append(
                f"the same question was paid for on {self.repeated[:10]}: this is the answer of then, and nothing was "
                "charged; fresh=True (hush ask --fresh) asks anew"
            )
        return (*lines, *tables.marks(self.columns), *self.caveats)

    def brief_notes(self) -> tuple[str, ...]:
        """Return the notes with at most two caveats; a last line says where the others are."""
        hidden = len(self.caveats) - CAVEATS_SHOWN
        if hidden <= 0:
            return self.notes()
        where = f"hush show {self.receipt}, or answer.notes()" if self.receipt else "answer.notes()"
        return (*self.notes()[:-hidden], f"{hidden} more note{'s' if hidden > 1 else ''}: {where}")

    def _repr_html_(self) -> str:
        hidden = max(len(self.caveats) - CAVEATS_SHOWN, 0)
        notes = self.notes()
        return tables.html_table(self.columns, notes=notes[: len(notes) - hidden], more=notes[len(notes) - hidden :])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        """Return the answer as notebooks keep it: the table with its chart beside it, and the chart alone."""
        table = self._repr_html_()
        plain = {"text/plain": repr(self), "text/html": table}
        if len(self) < 2 or not any(column.noisy and column.kind.numeric for column in self.columns):
            return plain
        from hush.report.pictures import picture

        drawn = picture(self.columns, subtitle=self.subtitle(), width=560)
        return {**drawn._repr_mimebundle_(), **plain, "text/html": tables.beside(table, drawn)}

    def __rich__(self) -> Any:
        return tables.Terminal(columns=self.columns, notes=self.brief_notes())

    def __str__(self) -> str:
        return "\n".join([tables.text_table(self.columns), *map(visible, self.brief_notes())])

    __repr__ = __str__

    # post-processing

    def nonnegative(self, total: float | None = None, *, column: str = "") -> Answer:
        """Return the answer with its counts moved to the nearest non-negative ones that keep their sum.

        ``total`` is the sum to keep, a whole number such as the answer to the same question without groups; by default
        the sum of the noisy counts. ``column`` says which count is meant, where there are several; without a total all
        are. This is a projection: clipping alone would push the sum up. Half-widths grow by what a count was moved, so
        that they still contain the truth wherever they did. Free: it is post-processing.
        """
        names = [candidate.name for candidate in self.columns if candidate.counts and column in {"", candidate.name}]
        if not names or (total is not None and len(names) > 1):
            counts = ", ".join(candidate.name for candidate in self.columns if candidate.counts)
            raise InvalidValueError("column", got=column, allowed=f"one of the answer's counts ({counts or 'none'})")
        if total is not None:
            allowed = "a whole number from 0 to 1e15, as counts add up to one"
            sum_to = nonnegative(total, "total", allowed=allowed)
            if sum_to > 10**15 or sum_to.denominator != 1:
                raise InvalidValueError("total", got=total, allowed=allowed)
            total = float(total)
        changed = [
            _nonnegative(candidate, total) if candidate.name in names else candidate for candidate in self.columns
        ]
        return replace(self, columns=tuple(changed))

    # for the ledger

    def to_bytes(self) -> bytes:
        """Return the answer as bytes for replays, which `from_bytes` reads; without its receipt and remaining budget.

        It is JSON. Columns of floats and of half-widths are one text each, their float64 in base64, NaN for NULL;
        version 1 listed their numbers.
        """
        if self.made_up:
            raise HushError("an answer made of invented rows is not kept: nobody could tell it from a real one")
        content = {
            "version": 2,
            "columns": [
                {
                    "name": column.name,
                    "kind": column.kind.value,
                    "values": _packed(column.values),
                    "errors": None if column.errors is None else _packed(column.errors),
                    "counts": column.counts,
                    **{end: limit for end in _LIMITS if (limit := getattr(column, end)) is not None},
                }
                for column in self.columns
            ],
            "confidence": self.confidence,
            "price": [str(self.price.epsilon), str(self.price.delta)],
            "items": self.price.itemised_json()["items"],
            "caveats": list(self.caveats),
            "question": self.question,
            **({} if self.terms is None else {"terms": self.terms}),
        }
        return json.dumps(content, ensure_ascii=False, allow_nan=False, default=lambda day: day.isoformat()).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Answer:
        """Return the answer that `to_bytes` wrote."""
        try:
            content = json.loads(data)
            columns = tuple(
                AnswerColumn(
                    name=entry["name"],
                    kind=Kind(entry["kind"]),
                    values=_unpacked(entry["values"], Kind(entry["kind"])),
                    errors=None if entry["errors"] is None else _unpacked(entry["errors"], Kind.DECIMAL),
                    counts=entry.get("counts", False),
                    **{end: float(entry[end]) for end in _LIMITS if end in entry},
                )
                for entry in content["columns"]
            )
            epsilon, delta = content["price"]
            return cls(
                columns=columns,
                confidence=content["confidence"],
                price=Money.from_json({"epsilon": epsilon, "delta": delta, "items": content["items"]}),
                caveats=tuple(content["caveats"]),
                question=content["question"],
                terms=content.get("terms"),
            )
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            hint = "Ask again with the request's own id: the ledger keeps what it answered."
            raise InvalidValueError("data", got=data, allowed="bytes that Answer.to_bytes wrote", hint=hint) from None

    @classmethod
    def shown(cls, ledger: Ledger, receipt: str | int, actor: Actor) -> Answer:
        """Return the paid answer of a receipt; refuse a receipt without an answer, or with one that is no table."""
        release, stored = stored_answer(ledger, receipt, actor)
        try:
            answer = cls.from_bytes(stored)
        except InvalidValueError:
            raise LedgerError(
                f"Receipt {release.number} is no table but a whole release or a statement: {release.question[:80]}. "
                "Ask for it again under its request id, which is free; "
                f"a service shows the answers of a dashboard at /answers/{release.number}."
            ) from None
        return replace(answer, receipt=str(release.number), repeated=release.when)


def paid_json(made: Any) -> dict[str, Any]:
    """Return price, remaining budget, receipt and caveats of an answer or a release as plain JSON values."""
    return {
        "price": made.price.to_json(),
        "remaining": None if made.remaining is None else made.remaining.to_json(),
        "budget": None if made.spending is None else made.spending.to_json(),
        "receipt": made.receipt,
        "caveats": list(made.caveats),
    }


def stored_answer(ledger: Ledger, receipt: str | int, actor: Actor) -> tuple[Release, bytes]:
    """Return a receipt with the bytes that were stored under it; refuse a receipt without an answer."""
    release, _ = ledger.receipt(receipt_number(receipt), actor)
    if release.outcome not in {"answered", "shared"}:
        why = "it is still being computed" if release.outcome == "pending" else f"it is {release.outcome}"
        raise LedgerError(f"Receipt {release.number} has no answer: {why}. It stays charged.")
    return release, ledger.stored_answer(release.number, actor)


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        target = path_of(path)
        with writing(target):
            target.write_text(text, encoding="utf-8")
    return text


def _markdown(text: str) -> str:
    """Return a text with the special characters of Markdown and HTML escaped."""
    return re.sub(r"([\\`*_{}\[\]<>|#&~])", r"\\\1", visible(text))


def _packed(values: tuple[Any, ...]) -> str | tuple[Any, ...]:
    """Return a column of floats and NULLs as one base64 text; any other column unchanged."""
    if float in (types := set(map(type, values))) and types <= {float, type(None)}:
        # numpy turns None into NaN; `_unpacked` turns it back
        return base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()
    return values


def _unpacked(values: str | list[Any], kind: Kind) -> tuple[Any, ...]:
    if isinstance(values, str):
        numbers = np.frombuffer(base64.b64decode(values), dtype="<f8").tolist()
        return tuple(None if math.isnan(value) else value for value in numbers)
    read = {Kind.DATE: dt.date.fromisoformat, Kind.TIMESTAMP: dt.datetime.fromisoformat}.get(kind)
    return tuple(values) if read is None else tuple(None if value is None else read(value) for value in values)


def _nonnegative(column: AnswerColumn, total: float | None) -> AnswerColumn:
    """Return a column of counts moved to the nearest non-negative whole ones with a sum, and wide enough half-widths.

    A true count is not negative. If [v-e, v+e] contains it, so does [max(c-e, 0), c+e] with c = max(v, 0).
    """
    from hush.mechanisms.estimators.base import nonnegative as nonnegative_counts

    noisy = tuple(column.values)
    numbers = [float(value) for value in noisy if value is not None]
    if not numbers:
        return column
    # noise can make the sum negative, but non-negative counts cannot add up to that
    aim = max(0.0, float(sum(numbers) if total is None else total))
    moved = nonnegative_counts(numbers, total=aim)
    floors = np.floor(moved).astype(int)
    # the projection, then largest remainders: the counts that rounding down moved most get the missing units
    if (missing := round(aim) - int(floors.sum())) > 0:
        floors[np.argsort(floors - moved, kind="stable")[:missing]] += 1
    counts = iter(floors.tolist())
    values = tuple(None if value is None else next(counts) for value in noisy)
    errors: list[float | None] = []
    for old, new, error in zip(noisy, values, column.errors or (None,) * len(noisy), strict=True):
        if old is None or error is None:
            errors.append(error)
        else:
            centre = max(old, 0)
            # the bar is symmetric around the moved count, so it must reach the farther end
            errors.append(max(centre + error - new, new - max(centre - error, 0.0)))
    return replace(column, values=values, errors=tuple(errors))
