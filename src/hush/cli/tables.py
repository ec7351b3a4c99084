"""``hush tables``: what can be asked about."""

from __future__ import annotations

from typing import Annotated

import typer

from hush.cli.ask import AnalystOption
from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, print_json
from hush.core import InvalidValueError

_HELP = """
Show the tables that can be asked about: their columns with bounds and values, whose privacy is protected, and questions
to begin with. All of it is the policy's; no row is read and nothing is spent.

Examples:

    hush tables
    hush tables visits --as alice
    hush tables --json
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("tables", help=_HELP, short_help="What can be asked about.")(tables)


def tables(
    table: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="Only this one.")] = None,
    analyst: AnalystOption = None,
    policy: PolicyOption = POLICY,
    as_json: JsonOption = False,
) -> None:
    """Show tables."""
    from hush.curator.opening import open_policy
    from hush.query.errors import did_you_mean

    with open_policy(policy, analyst=analyst) as curator:
        catalogue = curator.tables()
    chosen = list(catalogue.values())
    if table is not None:
        if table not in catalogue:
            hint = did_you_mean(table, catalogue, otherwise=f"There are {', '.join(catalogue)}.")
            raise InvalidValueError("TABLE", got=table, allowed="a table that can be asked about", hint=hint)
        chosen = [catalogue[table]]
    if as_json:
        print_json({"tables": [description.to_json() for description in chosen]})
    else:
        out = console()
        out.print("\n\n".join(map(str, chosen)), markup=False, soft_wrap=True)
