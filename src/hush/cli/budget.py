"""``hush budget``: the remaining budgets, and the number of counts that they pay for."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hush.cli.options import JsonOption, LedgerOptions, spread
from hush.cli.output import console, print_json
from hush.core.format import figure, percent
from hush.ledger import AccountView


@spread
def budget(
    options: LedgerOptions,
    error: Annotated[str, typer.Option(help="The half-width of the counts.", metavar="±")] = "50",
    confidence: Annotated[str, typer.Option(help="How sure the half-width is.", metavar="P")] = "0.95",
    details: Annotated[bool, typer.Option("--details", help="The accountant's currencies as well.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the share of every budget that is left, and the number of counts that it pays for.

    "Spent" and "left" are shares of the budget, the scale on which hush ask, explain and history say what a question
    takes: what all questions took, what is set aside for streams, and what is left make 100%. "Counts" says how many
    more counts fit that are right within ±ERROR at the confidence. Analysts whom the policy names no longer are shown
    as removed: what they spent stays spent.

    With --details, a second table has the sums that the accountant keeps, each against its limit: the losses in its
    own currency (Rényi divergence at an order, ρ, μ² or ε), the sum of ε, and the δ for choosing group keys; and "at
    once", the largest ε of one further question without Gaussian noise. With --json it adds the ε and δ spent.

    Examples:

        hush budget
        hush budget --as alice --error 20 --confidence 0.99
        hush budget --details
        hush budget --ledger postgresql://ledger.example/hush --json
    """
    with options.opened() as book:
        views = book.budget(options.reader(book))
        counts = [view.counts(error=error, confidence=confidence) for view in views]
    if as_json:
        wanted = {"error": error, "confidence": confidence}
        accounts = [
            view.to_json(details=details) | {"removed": view.removed, "counts": {**wanted, "left": left}}
            for view, left in zip(views, counts, strict=True)
        ]
        print_json({"accounts": accounts})
        return
    console().print(_table(views, counts, error))
    if details:
        console().print(_details(views))
    for view in views:
        if view.removed:
            console().print(escape(f"{view.analyst} on {view.data}: removed, the policy names them no longer"))


def _table(views: list[AccountView], counts: list[int], error: str) -> Table:
    """Return the accounts as a table; the columns for pending and set-aside amounts appear only if needed."""
    titles = ["data", "analyst", "budget ε", "δ", "spent", "left", f"counts at ±{error}"]
    pending, aside = any(view.pending for view in views), any(view.set_aside for view in views)
    titles[5:5] = ["set aside"] if aside else []
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in [*titles, "pending"] if pending else titles:
        table.add_column(title, justify="left" if title in {"data", "analyst"} else "right")
    for view, left in zip(views, counts, strict=True):
        cells = [
            escape(view.data),
            escape(view.analyst or "(all)") + (" (removed)" if view.removed else ""),
            figure(view.epsilon),
            figure(view.delta),
            percent(view.spent.share),
            *([percent(view.set_aside)] if aside else []),
            percent(view.remaining.share),
            "–" if view.removed else f"{left:,}",
        ]
        style = "bold" if view.analyst is None else "dim" if view.removed else None
        table.add_row(*cells, *([str(view.pending)] if pending else []), style=style)
    return table


def _details(views: list[AccountView]) -> Table:
    """Return the sums that the accountant keeps, each against its limit."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("data", "analyst", "currency", "losses", "sum of ε", "at once ε", "δ for keys"):
        table.add_column(title, justify="left" if title in {"data", "analyst", "currency"} else "right")
    for view in views:
        account = view.account
        summed = "∞" if account.spent_epsilon is None else figure(account.spent_epsilon)
        table.add_row(
            escape(view.data),
            escape(view.analyst or "(all)"),
            account.currency,
            f"{figure(account.spent_loss)} of {figure(account.limit)}",
            f"{summed} of {figure(account.epsilon)}",
            figure(view.remaining.epsilon),
            f"{figure(account.spent_delta)} of {figure(account.reserve)}",
        )
    return table
