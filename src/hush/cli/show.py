"""``hush show``: an answer that was paid for, once more."""

from __future__ import annotations

from typing import Annotated

import typer

from hush.cli.answers import FormatOption, print_answer, the_format
from hush.cli.options import POLICY, AnchorOption, AsOption, JsonOption, LedgerOption, PolicyOption, opened, reader

_HELP = """
Show an answer again, by its receipt: what was paid for is kept in the ledger, and free to look at. No row is read.

Examples:

    hush show 56
    hush show 56 --as alice --format markdown
    hush show 56 --json

Exit status: 0 shown, 2 there is no such receipt, or it has no answer.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("show", help=_HELP, short_help="A paid answer, once more.")(show)


def show(
    receipt: Annotated[str, typer.Argument(metavar="RECEIPT", help="The number below an answer, or in hush history.")],
    ledger: LedgerOption = None,
    policy: PolicyOption = POLICY,
    anchor: AnchorOption = None,
    analyst: AsOption = None,
    format_: FormatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show an answer."""
    from hush.curator.answer import Answer

    chosen = the_format(format_, as_json=as_json)
    with opened(ledger, policy, anchor) as book:
        answer = Answer.shown(book, receipt, reader(book, analyst))
    print_answer(answer, chosen)
