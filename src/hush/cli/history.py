"""``hush history`` and ``hush show``: which releases spent the budget, and their answers once more."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import Annotated, Literal

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from hush.cli.options import JsonOption, LedgerOptions, check_data, spread
from hush.cli.output import FormatOption, console, print_answer, print_json, the_format
from hush.core import exact
from hush.core.format import figure, percent, visible
from hush.ledger import AccountView, Release
from hush.ledger.budgets import budget_of

_TITLES = ("no.", "when", "analyst", "data", "ε", "took", "outcome")
_NAME = _TITLES.index("analyst")
_SHORTEST = 8
_NUMBERS = {"no.", "ε", "took"}
_LEAST = 40
"""The least width of the column of questions; with less, each question is printed below its line."""


@spread
def history(
    options: LedgerOptions,
    data: Annotated[str | None, typer.Option(help="Only this data set.", metavar="NAME")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the newest.", metavar="N", min=1)] = None,
    as_json: JsonOption = False,
) -> None:
    """List the charges, newest first: analyst, question, ε, the share of the budget that was taken, and the outcome.

    "Took" is a share of the data set's budget; with --as of the budget that bound the question, the analyst's own or
    the data set's, as hush explain and the answer said. The shares that were taken of a budget add up to what hush
    budget calls spent. A raise rewrites no line: an earlier share says of which ε it was taken. A question that was
    asked again and answered for nothing is no charge.

    An *abandoned* charge is one whose process died before it had an answer; it stays charged, like a failed or pending
    one.

    Examples:

        hush history --limit 20
        hush history --as alice --data clinic
        hush history --json
    """
    with options.opened() as book:
        check_data(book, data)
        who = options.reader(book)
        releases = book.history(who, data=data, limit=limit)
        totals = [view for view in book.budget(who) if data in {None, view.data} and not view.removed]
    if as_json:
        print_json({"releases": [asdict(release) for release in releases]})
        return
    out = console()
    for line in _drawn(releases, totals, out.width, own=options.analyst is not None):
        out.print(line)
    for view in totals:
        if options.analyst is not None or view.analyst is None:
            out.print(escape(str(view)))


def _drawn(releases: list[Release], totals: list[AccountView], width: int, *, own: bool) -> list[RenderableType]:
    """Return the charges as a table; on a narrow terminal each question is printed below its line."""
    present = {view.whose: view.epsilon for view in totals}
    several = own and len({release.of for release in releases}) > 1
    rows = [_TITLES, *(_cells(release, present, own=own, several=several) for release in releases)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = width - sum(widths) - 2 * len(widths)
    if room < 0:  # a long name goes on in the next line, and numbers stay in one
        widths[_NAME] = max(_SHORTEST, widths[_NAME] + room)
    questions = ["question", *(visible(" ".join(release.question.split())) for release in releases)]
    drawn: list[RenderableType] = []
    for at, (cells, question) in enumerate(zip(rows, questions, strict=True)):
        line = Table.grid(padding=(0, 2, 0, 0))
        for title, wide in zip(_TITLES, widths, strict=True):
            side: Literal["left", "right"] = "right" if title in _NUMBERS else "left"
            line.add_column(width=wide, no_wrap=title != _TITLES[_NAME], justify=side)
        below = room < _LEAST
        line.add_row(*map(escape, cells), *([] if below else [escape(question)]), style="bold" if at == 0 else None)
        drawn.append(line)
        if below and at:
            drawn.append(Padding(escape(question), (0, 0, 0, widths[0] + 2)))
    return drawn


def _cells(release: Release, present: dict[str, Fraction], *, own: bool, several: bool) -> tuple[str, ...]:
    return (
        str(release.number),
        release.when[:16].replace("T", " "),
        visible(release.who),
        visible(release.data),
        _epsilon(release),
        _took(release, release.of if own else budget_of((release.data, "")), present, named=several),
        release.outcome,
    )


def _took(release: Release, of: str, present: dict[str, Fraction], *, named: bool) -> str:
    """Return the share that was taken of a budget, with the budget's ε of that day if it is another one now."""
    if of not in release.shares:  # another analyst's answer costs the data set nothing
        return percent(0)
    share = release.shares[of]
    epsilon = exact(share["epsilon"], "epsilon")
    then = f" of ε={figure(epsilon)}" if present.get(of, epsilon) != epsilon else ""
    return f"{percent(share['took'], taken=True)}{f' of {visible(of)}' if named else ''}{then}"


def _epsilon(release: Release) -> str:
    """Return the ε of a charge, as it was asked; Gaussian noise of a given σ has none of its own."""
    epsilon = release.epsilon or release.price[0].get("epsilon")
    return "–" if epsilon is None else figure(exact(epsilon, "epsilon"))


@spread
def show(
    receipt: Annotated[str, typer.Argument(metavar="RECEIPT", help="The number below an answer, or in hush history.")],
    *,
    options: LedgerOptions,
    format_: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an answer again, by its receipt: the ledger keeps paid answers, and to look at one is free. No row is read.

    Examples:

        hush show 56
        hush show 56 --as alice --format markdown
        hush show 56 --json

    Exit status: 0 shown, 2 there is no such receipt, or it has no answer.
    """
    from hush.curator.answer import Answer

    chosen = the_format(format_, as_json=as_json)
    with options.opened() as book:
        answer = Answer.shown(book, receipt, options.reader(book))
    print_answer(answer, chosen, every_note=True)
