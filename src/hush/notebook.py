"""``%%hush``: questions in SQL as cells of a notebook.

::

    %load_ext hush
    %hush curator                     (which variable asks; needless where a notebook has one curator)

    %%hush                            (without a price: price and expected error at several prices, for nothing)
    SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease

    %%hush --epsilon 0.5 --to answer  (asks, shows the answer with its chart, and keeps it in a variable)
    SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease

The options are the terms of a question (`hush.curator.terms.QuestionOrder`), as on the command line.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, NoReturn

from hush.client import RemoteCurator
from hush.core import HushError, InvalidValueError
from hush.core.format import ToldInLines
from hush.curator.curator import Curator
from hush.curator.explanation import figures
from hush.curator.terms import QuestionOrder, TermKind, terms_of

if TYPE_CHECKING:
    from hush.client.curator import RemoteExplanation
    from hush.curator.explanation import Explanation

PRICES = ("0.01", "0.03", "0.1", "0.3", "1", "3")
"""The prices that a cell without a price shows."""


class MagicError(HushError):
    """The line of ``%%hush`` cannot be understood."""

    code = "notebook"


@dataclass(frozen=True, slots=True, repr=False)
class Prices(ToldInLines):
    """The expected errors of a question at several prices, line by line."""

    explanations: list[Explanation] | list[RemoteExplanation]

    def lines(self) -> list[str]:
        """Return a line for each price with the errors of all outputs, then the notes."""
        rows = [(str(explained.price), errors_of(explained)) for explained in self.explanations]
        width = max(len(price) for price, _ in rows)
        notes = dict.fromkeys(note for explained in self.explanations for note in explained.caveats)
        return [
            *(f"{price:<{width}}   {errors}" for price, errors in rows),
            *(f"note: {note}" for note in notes),
            "Nothing was spent. To ask, write a price after %%hush, such as --epsilon 0.1.",
        ]


def errors_of(explained: Explanation | RemoteExplanation) -> str:
    """Return the expected error of each output, in one line."""
    words = dict.fromkeys(explained.errors(), "known with the answer") | figures(explained)
    return "; ".join(f"{name} {error}" for name, error in words.items()) or "no noisy number"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise MagicError(f"{message}. {self.format_usage().strip()}")


def magic(shell: Any) -> Callable[[str, str | None], Any]:
    """Return the function behind ``%hush`` and ``%%hush`` for an IPython shell."""
    variable, terms_by_name = "", terms_of(QuestionOrder)
    parser = _Parser(prog="%%hush", add_help=False, allow_abbrev=False)
    parser.add_argument("--to", metavar="VARIABLE")
    for name, term in terms_by_name.items():
        if term.kind is TermKind.FLAG:
            parser.add_argument(f"--{name}", action="store_true", default=None)
        elif term.kind not in {TermKind.SQL, TermKind.VALUES, TermKind.LOCAL}:
            parser.add_argument(f"--{name.replace('_', '-')}", metavar=term.metavar or name.upper())

    def hush(line: str, cell: str | None = None) -> Any:
        """Ask the SQL in the cell at a price, or show its expected error at several prices.

        %hush VARIABLE chooses the curator that asks. Options: --epsilon, --accuracy, --to VARIABLE, and the other
        terms of a question.
        """
        nonlocal variable
        if cell is None:
            _curator(shell.user_ns, line.strip())
            variable = line.strip()
            return None
        try:
            given = vars(parser.parse_args(shlex.split(line)))
        except ValueError as error:  # a quotation mark without its partner
            raise MagicError(f"The options cannot be read: {error}.") from None
        target = given.pop("to")
        if target is not None and (not target.isidentifier() or iskeyword(target)):
            raise InvalidValueError("--to", got=target, allowed="the name of a variable")
        terms = {name: value for name, value in given.items() if value is not None}
        for name, value in terms.items():
            if isinstance(value, str):
                terms[name] = terms_by_name[name].read(value, f"--{name.replace('_', '-')}")
        curator = _curator(shell.user_ns, variable)
        order = QuestionOrder(cell, **terms)
        if order.epsilon is None and order.accuracy is None:
            if target is not None:
                raise InvalidValueError(
                    "--to", got=target, allowed="given together with a price, such as --epsilon 0.1"
                )
            return show_prices(curator, order)
        answer = curator.ask(**order.given())
        if target is not None:
            shell.user_ns[target] = answer
        return answer

    return hush


def show_prices(curator: Curator | RemoteCurator, order: QuestionOrder) -> Any:
    """Return the expected errors at several prices; with a slider where ipywidgets is installed."""
    terms = order.explained()
    prices = Prices(curator.at_prices(terms.pop("question"), epsilons=PRICES, **terms))
    if find_spec("ipywidgets") is None:
        return prices
    widgets, display = import_module("ipywidgets"), import_module("IPython.display").display

    def show(explained: Any) -> None:  # the name of its parameter is the slider's
        display(explained)

    display(prices)
    choices = [(str(explained.price), explained) for explained in prices.explanations]
    slider = widgets.SelectionSlider(options=choices, description="price", continuous_update=False)
    return widgets.interactive(show, explained=slider)


def _curator(variables: dict[str, Any], name: str) -> Curator | RemoteCurator:
    """Return the curator in the variable of this name, or the only one of a notebook."""
    if name:
        chosen = variables.get(name)
        if not isinstance(chosen, Curator | RemoteCurator):
            raise InvalidValueError("%hush", got=name, allowed="the name of a variable that holds a curator")
        return chosen
    curators = {
        id(value): (variable, value)
        for variable, value in variables.items()
        if isinstance(value, Curator | RemoteCurator) and not variable.startswith("_")
    }
    if not curators:
        raise MagicError("There is no curator in this notebook. Make one first: curator = hush.open('hush.toml').")
    if len(curators) > 1:
        names = ", ".join(variable for variable, _ in curators.values())
        raise MagicError(f"There are several curators: {names}. Choose one first, such as %hush {names.split(',')[0]}.")
    return next(iter(curators.values()))[1]
