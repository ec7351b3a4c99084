"""``hush check``, ``tables`` and ``engine check``: what a policy allows, and what is wrong with it or with a role."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hush.cli.ask import AnalystOption
from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, owner_log, print_json, working
from hush.core import InvalidValueError

_CHECK_HELP = """
Check the policy against the schemas of its files, and report every mistake at once; without one, show what an analyst
will see. Reads no rows, spends nothing.

With --rows all files are read, and it says how many rows and cells cannot be read as the policy declares them: a line
with too few or too many fields, a character that the encoding does not have, a cell that is no number. Such rows still
count, and such cells are NULL. THESE NUMBERS ARE EXACT, so they are facts about people: they are for the owner of the
rows, are printed here and kept nowhere, and must not be shown to an analyst.

Examples:

    hush check
    hush check --policy clinic.toml --json
    hush check --rows

Exit status: 0 the policy can be used, 2 there are mistakes.
"""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("check", help=_CHECK_HELP, short_help="Every mistake of a policy and its files.")(check)
    app.command("tables", help=_TABLES_HELP, short_help="What can be asked about.")(tables)
    engine = typer.Typer(help="What the role in a database may do.", no_args_is_help=True)
    engine.command("check", help=_ROLE_HELP, short_help="What the role in a database may do.")(check_role)
    app.add_typer(engine, name="engine")


def check(
    policy: PolicyOption = POLICY,
    rows: Annotated[
        bool, typer.Option("--rows", help="Count what cannot be read. Exact numbers, for the owner alone.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Check a policy."""
    from hush.curator.checking import check as checked

    with working("reading all rows" if rows else "reading schemas", quiet=as_json), owner_log():
        result = checked(policy, rows=rows)
    unread = [{"data": data, "table": table, **_facts(found)} for (data, table), found in result.unread.items()]
    if as_json:
        mistakes = [{"code": error.code, "message": str(error)} for error in result.mistakes]
        tables = {data: list(names) for data, names in result.tables.items()}
        print_json({"policy": str(policy), "tables": tables, "mistakes": mistakes} | ({"rows": unread} if rows else {}))
        return 2 if result.mistakes else 0
    for error in result.mistakes:
        console().print(f"{error}", markup=False, soft_wrap=True)
    if result.seen and not result.mistakes:
        console().print("What an analyst will see:\n", markup=False)
        console().print(str(result.seen), markup=False, soft_wrap=True)
        console().print("", markup=False)
    if rows:
        _print(unread)
    number = len(result.mistakes)
    good = "The policy can be used." if not number else f"{number} mistake{'s' if number > 1 else ''}."
    console().print(good, markup=False)
    return 2 if number else 0


def check_rows(policy: Path) -> bool:
    """Print mistakes of a policy, and how many rows and cells are not as it says; say whether it can be used."""
    from hush.curator.checking import check as checked

    with working("reading all rows"), owner_log():
        result = checked(policy, rows=True)
    for error in result.mistakes:
        console().print(f"{error}", markup=False, soft_wrap=True)
    _print([{"data": data, "table": table, **_facts(found)} for (data, table), found in result.unread.items()])
    return not result.mistakes


def _facts(found: Any) -> dict[str, Any]:
    lines = found.lines
    return {
        "rows": found.rows,
        "too_few_fields": 0 if lines is None else lines.short,
        "too_many_fields": 0 if lines is None else lines.long,
        "open_quotes": 0 if lines is None else lines.broken,
        "unknown_characters": 0 if lines is None else lines.replaced,
        "without_unit": found.without_unit,
        "unread_cells": dict(found.cells),
    }


_WORDS = {
    "too_few_fields": "rows with too few fields",
    "too_many_fields": "rows with too many fields",
    "open_quotes": "lines with a quote that is not closed",
    "unknown_characters": "characters that the encoding does not have; try another, such as windows-1252",
    "without_unit": "rows without a unit",
}


def _print(unread: list[dict[str, Any]]) -> None:
    for facts in unread:
        _print_table(facts)
    console().print("These numbers are exact: they are for you, and for nobody who asks questions.", markup=False)


def _print_table(facts: dict[str, Any]) -> None:
    out = console()
    out.print(f"{facts['data']}.{facts['table']}: {facts['rows']} rows", markup=False)
    for key, words in _WORDS.items():
        if facts[key]:
            out.print(f"  {facts[key]} {words}", markup=False)
    for column, number in facts["unread_cells"].items():
        if number:
            out.print(f"  {number} cells of {column} that are not what the policy says", markup=False)


_TABLES_HELP = """
Show the tables that can be asked about: their columns with bounds and values, whose privacy is protected, and questions
to begin with. All of it is the policy's; no row is read and nothing is spent.

Examples:

    hush tables
    hush tables visits --as alice
    hush tables --json
"""


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


_ROLE_HELP = """
Check the role that hush has in the databases of a policy: it must be able to read the columns that the policy names,
and nothing else. Prints what is missing, what is too much, and the statements that make a role with just that.

Examples:

    hush engine check
    hush engine check --policy clinic.toml --json

Exit status: 0 the role can read what it must and nothing else, 2 otherwise.
"""


def check_role(policy: PolicyOption = POLICY, as_json: JsonOption = False) -> int:
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
                    "notes": list(item.notes),
                }
                for name, item in found.items()
            }
        )
    else:
        if not found:
            console().print("No data set of this policy lies in a database.", markup=False)
        for name, item in found.items():
            good = "can read what it must, and nothing else." if item.exact else "is not as it should be:"
            if item.exact and not item.complete:
                good = "can read what it must. What else it may do, this engine does not tell."
            console().print(f"{name}: the role {item.role} {good}", markup=False, soft_wrap=True)
            for line in (*item.missing, *item.surplus, *item.notes):
                console().print(f"  {line}", markup=False, soft_wrap=True)
            if item.grants:
                console().print("A role with just what hush needs:", markup=False)
            for line in item.grants:
                console().print(f"  {line}", markup=False, soft_wrap=True)
    return 0 if all(item.exact for item in found.values()) else 2
