"""``hush budget``, ``history`` and ``show``: the remaining budgets, the releases that spent them, and their answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from rich.markup import escape
from rich.table import Table
from typer import Argument, Option

from hush.cli.options import LedgerOptions, spread
from hush.cli.output import FormatOption, plain_table, print_answer, the_format
from hush.core import exact
from hush.core.format import figure, percent, visible
from hush.ledger import AccountView, Release
from hush.ledger.budgets import budget_of

_TITLES = ("no.", "when", "analyst", "data", "ε", "took", "outcome")
_NUMBERS = {"no.", "ε", "took"}


@spread
def budget(
    options: LedgerOptions,
    error: Annotated[str, Option(help="The half-width of the counts.", metavar="±")] = "50",
    confidence: Annotated[str, Option(help="How sure the half-width is.", metavar="P")] = "0.95",
    details: Annotated[bool, Option("--details", help="The accountant's currencies as well.")] = False,
) -> None:
    """Show the share of every budget that is left, and the number of counts that it pays for.

    What all questions took, what is set aside for streams, and what is left make 100%. "Counts" says how many more
    counts fit that are right within ±ERROR at the confidence.

    With --details, a second table has the sums that the accountant keeps, each against its limit: the losses in its
    own currency (Rényi divergence at an order, ρ, μ² or ε), the sum of ε, and the δ for choosing group keys; and "at
    once", the largest ε of one further question without Gaussian noise. With --json it adds the ε and δ spent.

    Examples:

        hush budget --as alice --error 20 --confidence 0.99
        hush budget --details --json
    """
    with options.opened() as book:
        views = book.budget(options.reader(book))
        counts = [view.counts(error=error, confidence=confidence) for view in views]
    wanted = {"error": error, "confidence": confidence}
    accounts = [
        view.to_json(details=details) | {"removed": view.removed, "counts": {**wanted, "left": left}}
        for view, left in zip(views, counts, strict=True)
    ]
    tables = [_budgets(views, counts, error), *([_details(views)] if details else [])]
    gone = "removed, the policy names them no longer"
    removed = [f"{view.analyst} on {view.data}: {gone}" for view in views if view.removed]
    options.tell({"accounts": accounts}, *tables, *removed)


def _budgets(views: list[AccountView], counts: list[int], error: str) -> Table:
    """Return the accounts as a table; the columns for pending and set-aside amounts appear only if needed."""
    pending, aside = any(view.pending for view in views), any(view.set_aside for view in views)
    titles = ["budget ε", "δ", "spent", *["set aside"] * aside, "left", f"counts at ±{error}", *["pending"] * pending]
    table = plain_table("data", "analyst", *titles, right=titles)
    for view, left in zip(views, counts, strict=True):
        name = escape(view.analyst or "(all)") + " (removed)" * view.removed
        cells = [escape(view.data), name, figure(view.epsilon), figure(view.delta), percent(view.spent.share)]
        cells += [percent(view.set_aside)] if aside else []
        cells += [percent(view.remaining.share), "–" if view.removed else f"{left:,}"]
        cells += [str(view.pending)] if pending else []
        table.add_row(*cells, style="bold" if view.analyst is None else "dim" if view.removed else None)
    return table


def _details(views: list[AccountView]) -> Table:
    """Return the sums that the accountant keeps, each against its limit."""
    figures = ("losses", "sum of ε", "at once ε", "δ for keys")
    table = plain_table("data", "analyst", "currency", *figures, right=figures)
    for view in views:
        account = view.account
        summed = "∞" if account.spent_epsilon is None else figure(account.spent_epsilon)
        losses = f"{figure(account.spent_loss)} of {figure(account.limit)}"
        keys = f"{figure(account.spent_delta)} of {figure(account.reserve)}"
        names = escape(view.data), escape(view.analyst or "(all)"), account.currency
        total = f"{summed} of {figure(account.epsilon)}"
        table.add_row(*names, losses, total, figure(view.remaining.epsilon), keys)
    return table


@spread
def history(
    options: LedgerOptions,
    data: Annotated[str | None, Option(help="Only this data set.", metavar="NAME")] = None,
    limit: Annotated[int | None, Option(help="Only the newest.", metavar="N", min=1)] = None,
) -> None:
    """List the charges, newest first: analyst, question, ε, the share of the budget that was taken, and the outcome.

    "Took" is a share of the data set's budget; with --as of the budget that bound the question, the analyst's own or
    the data set's. A raise rewrites no line: an earlier share says of which ε it was taken. An *abandoned* charge is
    one whose process died before it had an answer; it stays charged, like a failed or pending one.

    Examples:

        hush history --limit 20
        hush history --as alice --data clinic
    """
    with options.opened() as book:
        who = options.reader(book, data)
        releases = book.history(who, data=data, limit=limit)
        totals = [view for view in book.budget(who) if data in {None, view.data} and not view.removed]
    own = options.analyst is not None
    shown = [str(view) for view in totals if own or view.analyst is None]
    content = {"releases": [asdict(release) for release in releases]}
    options.tell(content, *_drawn(releases, totals, own=own), *shown)


def _drawn(releases: list[Release], totals: list[AccountView], *, own: bool) -> list[str]:
    """Return a line of columns for each charge, and its question below it."""
    present = {view.whose: view.epsilon for view in totals}
    several = own and len({release.of for release in releases}) > 1
    rows = [_TITLES]
    for release in releases:
        # ε as it was asked; Gaussian noise of a given σ has none of its own
        epsilon = release.epsilon or release.price[0].get("epsilon")
        asked = "–" if epsilon is None else figure(exact(epsilon, "epsilon"))
        of = release.of if own else budget_of((release.data, ""))
        took = percent(0)
        if of in release.shares:  # another analyst's answer costs the data set nothing
            took = percent(release.shares[of]["took"], taken=True) + (f" of {visible(of)}" if several else "")
            then = exact(release.shares[of]["epsilon"], "epsilon")
            took += f" of ε={figure(then)}" if present.get(of, then) != then else ""  # of that day
        names = visible(release.who), visible(release.data)
        rows.append((str(release.number), release.when[:16].replace("T", " "), *names, asked, took, release.outcome))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.rjust if title in _NUMBERS else str.ljust for title in _TITLES]
    lines = []
    for row, question in zip(rows, ["", *(release.question for release in releases)], strict=True):
        lines.append("  ".join(side(cell, wide) for side, cell, wide in zip(sides, row, widths, strict=True)).rstrip())
        if question:
            lines.append(" " * widths[0] + "  " + visible(" ".join(question.split())))
    return lines


@spread
def show(
    receipt: Annotated[str, Argument(metavar="RECEIPT", help="The number below an answer, or in hush history.")],
    *,
    options: LedgerOptions,
    format_: FormatOption = None,
) -> None:
    """Show an answer again, by its receipt: the ledger keeps paid answers, and to look at one is free. No row is read.

    Examples:

        hush show 56
        hush show 56 --as alice --format markdown
    """
    from hush.curator.answer import Answer

    chosen = the_format(format_, as_json=options.as_json)
    with options.opened() as book:
        answer = Answer.shown(book, receipt, options.reader(book))
    print_answer(answer, chosen, every_note=True)
