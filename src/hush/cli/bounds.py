"""``hush bounds``: how much max_rows and max_groups cut, as a private estimate that is paid for."""

from __future__ import annotations

from typing import Annotated

import typer

from hush.cli.ask import AnalystOption, DataOption
from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, print_json

_HELP = """
Estimate how much of a table lies beyond its bounds, and propose others: for owners who set max_rows and max_groups.

No error bar speaks of what bounding cuts. This asks two questions with half of ε each: how many units have how many
rows (or groups, with --by), and which part lies beyond the bound. It is charged like any question, to the data set and
to the analyst under whose name it is asked. The last line printed goes into the policy, if analysts should be told:
then the notes of their answers say it.

Examples:

    hush bounds visits --epsilon 0.1
    hush bounds visits --by disease --epsilon 0.1 --quantile 0.99
    hush bounds visits --epsilon 0.1 --as owner --json

Exit status: 0 answered, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("bounds", help=_HELP, short_help="How much max_rows and max_groups cut.")(bounds)


def bounds(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A private table whose rows belong to units.")],
    epsilon: Annotated[str, typer.Option("--epsilon", metavar="ε", help="What the estimate costs.")],
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="The groups: how many of them max_groups leaves out.")
    ] = None,
    quantile: Annotated[
        str | None,
        typer.Option("--quantile", metavar="P", help="Which part of the units the proposal covers: 0.95 if not said."),
    ] = None,
    analyst: AnalystOption = None,
    policy: PolicyOption = POLICY,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate what lies beyond the bounds."""
    from hush.curator.opening import open_policy

    with open_policy(policy, analyst=analyst) as curator:
        found = curator.bounding(table, by=by, epsilon=epsilon, quantile=quantile, data=data)
    if as_json:
        print_json(found.to_json())
    else:
        console().print(str(found), markup=False)
