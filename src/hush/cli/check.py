"""``hush check``: every mistake of a policy and its files, and what of their rows cannot be read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, owner_log, print_json

_HELP = """
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
    """Add the command to the application."""
    app.command("check", help=_HELP, short_help="Every mistake of a policy and its files.")(check)


def check(
    policy: PolicyOption = POLICY,
    rows: Annotated[
        bool, typer.Option("--rows", help="Count what cannot be read. Exact numbers, for the owner alone.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Check a policy."""
    from hush.curator.checking import check as checked

    with owner_log():
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
    for facts in unread:
        _print(facts)
    if rows:
        console().print("These numbers are exact: they are for you, and for nobody who asks questions.", markup=False)
    number = len(result.mistakes)
    good = "The policy can be used." if not number else f"{number} mistake{'s' if number > 1 else ''}."
    console().print(good, markup=False)
    return 2 if number else 0


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
    "unknown_characters": "characters that the encoding does not have",
    "without_unit": "rows without a unit",
}


def _print(facts: dict[str, Any]) -> None:
    out = console()
    out.print(f"{facts['data']}.{facts['table']}: {facts['rows']} rows", markup=False)
    for key, words in _WORDS.items():
        if facts[key]:
            out.print(f"  {facts[key]} {words}", markup=False)
    for column, number in facts["unread_cells"].items():
        if number:
            out.print(f"  {number} cells of {column} that are not what the policy says", markup=False)
