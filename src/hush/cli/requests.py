"""``hush requests``: questions that wait for the owner."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from hush.cli.options import POLICY, AnchorOption, AsOption, JsonOption, LedgerOption, PolicyOption, actor, opened
from hush.cli.output import console, print_json

_HELP = """
List what waits, or waited, for the owner: questions above the ask_first of a policy, and larger budgets. The owner
approves or declines by number; both are recorded. An approved question may be asked once; an approved budget is raised
in the ledger and in the policy. Nobody sees an answer here.

Examples:

    hush requests
    hush requests --as alice
    hush requests --approve 12
    hush requests --decline 12 --reason "ask for counts by region instead"
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("requests", help=_HELP, short_help="Questions that wait for the owner.")(requests)


def requests(
    approve: Annotated[int | None, typer.Option("--approve", metavar="NUMBER", help="Let this one be asked.")] = None,
    decline: Annotated[int | None, typer.Option("--decline", metavar="NUMBER", help="Do not.")] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded.")] = "",
    ledger: LedgerOption = None,
    policy: PolicyOption = POLICY,
    anchor: AnchorOption = None,
    analyst: AsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List requests, and decide on them."""
    who = actor(analyst)
    with opened(ledger, policy, anchor) as book:
        for number, approved in ((approve, True), (decline, False)):
            if number is None:
                continue
            if ledger is None and policy.exists():  # more budget is written into the policy, too
                from hush.curator.data_sets import read_policy
                from hush.policy import raising

                raising.decide(read_policy(policy), policy, book, number, approve=approved, actor=who, reason=reason)
            else:
                book.decide(number, approve=approved, actor=who, reason=reason)
        found = book.requests(who)
    if as_json:
        print_json({"requests": [asdict(request) for request in found]})
        return
    for request in found:
        console().print(str(request), markup=False, soft_wrap=True)
    if not found:
        console().print("No question waits.", markup=False)
