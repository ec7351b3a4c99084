"""``hush engine check``: whether the role of a database engine can read what the policy needs, and nothing else."""

from __future__ import annotations

import typer

from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, print_json

_HELP = """
Check the role that hush has in the databases of a policy: it must be able to read the columns that the policy names,
and nothing else. Prints what is missing, what is too much, and the statements that make a role with just that.

Examples:

    hush engine check
    hush engine check --policy clinic.toml --json

Exit status: 0 the role can read what it must and nothing else, 2 otherwise.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    engine = typer.Typer(help="What the role in a database may do.", no_args_is_help=True)
    engine.command("check", help=_HELP, short_help="What the role in a database may do.")(check)
    app.add_typer(engine, name="engine")


def check(policy: PolicyOption = POLICY, as_json: JsonOption = False) -> int:
    """Check the roles of a policy's databases."""
    from hush.curator.checking import rights
    from hush.curator.data_sets import read_policy
    from hush.engines.opening import is_server

    opened = read_policy(policy)
    found = {name: rights(opened, data) for name, data in opened.data.items() if is_server(data.engine)}
    if as_json:
        print_json(
            {
                name: {
                    "role": item.role,
                    "missing": list(item.missing),
                    "surplus": list(item.surplus),
                    "grants": list(item.grants),
                }
                for name, item in found.items()
            }
        )
    else:
        if not found:
            console().print("No data set of this policy lies in a database.", markup=False)
        for name, item in found.items():
            good = "can read what it must, and nothing else." if item.exact else "is not as it should be:"
            console().print(f"{name}: the role {item.role} {good}", markup=False, soft_wrap=True)
            for line in (*item.missing, *item.surplus):
                console().print(f"  {line}", markup=False, soft_wrap=True)
            console().print("A role with just what hush needs:", markup=False)
            for line in item.grants:
                console().print(f"  {line}", markup=False, soft_wrap=True)
    return 0 if all(item.exact for item in found.values()) else 2
