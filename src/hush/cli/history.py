"""``hush history``: which releases spent the budget."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from hush.cli.output import console, number, print_json
from hush.cli.where import POLICY, AnchorOption, AsOption, JsonOption, LedgerOption, PolicyOption, actor, opened
from hush.core.visible import visible

_HELP = """
List the charges, newest first: who asked what, which share of the data set's budget it took, and what became of it.

An *abandoned* charge is one whose process died before it had an answer; it stays charged, like a failed or pending one.

Examples:

    hush history --limit 20
    hush history --as alice --data clinic
    hush history --json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("history", help=_HELP, short_help="Which releases spent the budget.")(history)


def history(
    ledger: LedgerOption = None,
    policy: PolicyOption = POLICY,
    anchor: AnchorOption = None,
    analyst: AsOption = None,
    data: Annotated[str | None, typer.Option(help="Only this data set.", metavar="NAME")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the newest.", metavar="N", min=1)] = None,
    as_json: JsonOption = False,
) -> None:
    """List charges."""
    with opened(ledger, policy, anchor) as book:
        releases = book.history(actor(analyst), data=data, limit=limit)
    if as_json:
        print_json({"releases": [asdict(release) for release in releases]})
        return
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in ("no.", "when", "analyst", "data", "share", "outcome", "question"):
        table.add_column(title, justify="right" if title in {"no.", "share"} else "left", no_wrap=title != "question")
    for release in releases:
        table.add_row(
            str(release.number),
            release.when[:19].replace("T", " "),
            escape(release.analyst),
            escape(release.data),
            f"{number(100 * release.share, digits=3)}%",
            release.outcome,
            escape(visible(" ".join(release.question.split()))),
        )
    console().print(table)
