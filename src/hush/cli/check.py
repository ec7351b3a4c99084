"""``hush check``, ``tables`` and ``engine check``: show a policy's tables; find mistakes in a policy or a role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from hush.cli.options import AskerOptions, PolicyOptions, command, spread
from hush.cli.output import owner_log, tell, working
from hush.core import InvalidValueError

engine = typer.Typer(help="What the role in a database may do.", no_args_is_help=True)


@spread
def check(
    options: PolicyOptions,
    rows: Annotated[
        bool, Option("--rows", help="Count what cannot be read. Exact numbers, for the owner alone.")
    ] = False,
) -> int:
    """Check the policy against the schemas of its files, and report every mistake at once; without one, show the tables
    as an analyst will see them. Reads no rows, spends nothing.

    With --rows all tables are read, and it says how many rows and cells cannot be read as the policy declares them: a
    line with too few or too many fields, a character that the encoding does not have, a cell that is no number. Such
    rows still count, and such cells are NULL. A column of which most cells cannot be read is a mistake, told with what
    to write instead: a format of dates, a decimal mark, an encoding, a separator. THESE NUMBERS ARE EXACT, so they are
    facts about people: they are for the owner of the rows, are printed here and kept nowhere, and must not be shown to
    an analyst.

    Examples:

        hush check --policy clinic.toml --json
        hush check --rows
    """
    result = _checked(options.policy, rows=rows, quiet=options.as_json)
    number, unread = len(result.mistakes), _unread(result)
    content: dict[str, Any] = {
        "policy": str(options.policy),
        "tables": {data: list(names) for data, names in result.tables.items()},
        "mistakes": [{"code": error.code, "message": str(error)} for error in result.mistakes],
        "notes": list(result.notes),
    }
    content |= {"rows": unread, "proposals": [asdict(proposal) for proposal in result.proposals]} if rows else {}
    seen = ["What an analyst will see:\n", f"{result.seen}\n"] if result.seen and not number else []
    end = f"{number} mistake{'s' if number > 1 else ''}." if number else "The policy can be used."
    notes = [f"note: {note}" for note in result.notes]
    options.tell(content, *map(str, result.mistakes), *seen, *_unread_lines(unread), *notes, end)
    return 2 if number else 0


def check_rows(policy: Path) -> tuple[bool, Sequence[Any]]:
    """Print mistakes of a policy, and how many rows and cells are not as it says.

    Return whether it can be used, and words with which more could be read.
    """
    result = _checked(policy, rows=True)
    tell(None, *map(str, result.mistakes), *_unread_lines(_unread(result)), as_json=False)
    return not result.mistakes, result.proposals


def _checked(policy: Path, *, rows: bool, quiet: bool = False) -> Any:
    from hush.curator.owner import check as checked

    with working("reading all rows" if rows else "reading schemas", quiet=quiet), owner_log():
        return checked(policy, rows=rows)


def _unread(result: Any) -> list[dict[str, Any]]:
    """Return for each table how many rows and cells cannot be read as the policy declares them."""
    listed = []
    for (data, table), facts in result.unread.items():
        counts = {key: getattr(facts, name, 0) or getattr(facts.lines, name, 0) for key, (name, _) in _FACTS.items()}
        cells = {name: cells.unread for name, cells in facts.cells.items()}
        listed.append({"data": data, "table": table, "rows": facts.rows, **counts, "unread_cells": cells})
    return listed


_FACTS = {
    "too_few_fields": ("short", "rows with too few fields"),
    "too_many_fields": ("long", "rows with too many fields"),
    "open_quotes": ("broken", "lines with a quote that is not closed"),
    "unknown_characters": (
        "replaced", "characters that the encoding does not have; try another, such as windows-1252"
    ),
    "without_unit": ("without_unit", "rows without a unit"),
    "shared_keys": ("shared_keys", "keys by which other tables find their unit, and that lead to several"),
}  # fmt: skip
"""The counts for a table, or for the lines of its file: by its name in JSON, its name in the engines, in words."""


def _unread_lines(unread: list[dict[str, Any]]) -> list[str]:
    """Return the same in words."""
    lines = []
    for facts in unread:
        lines.append(f"{facts['data']}.{facts['table']}: {facts['rows']} rows")
        lines += [f"  {facts[key]} {words}" for key, (_, words) in _FACTS.items() if facts[key]]
        cells = facts["unread_cells"].items()
        lines += [f"  {count} cells of {name} that are not what the policy says" for name, count in cells if count]
    exact = "These numbers are exact: they are for you, and for nobody who asks questions."
    return [*lines, exact] if lines else []


@spread
def tables(
    asker: AskerOptions, table: Annotated[str | None, Argument(metavar="[TABLE]", help="Only this one.")] = None
) -> None:
    """Show the tables that can be asked about: their columns with bounds and values, the protected units, and questions
    to begin with. The policy alone says all this; no row is read and nothing is spent.

    Examples:

        hush tables
        hush tables visits --as alice
    """
    from hush.query.errors import did_you_mean

    with asker.opened() as curator:
        catalogue = curator.tables()
    if table not in {None, *catalogue}:
        hint = did_you_mean(str(table), catalogue, otherwise=f"There are {', '.join(catalogue)}.")
        raise InvalidValueError("TABLE", got=table, allowed="a table that can be asked about", hint=hint)
    chosen = [description for name, description in catalogue.items() if table in {None, name}]
    asker.tell({"tables": [description.to_json() for description in chosen]}, "\n\n".join(map(str, chosen)))


@command(engine, "check")
def check_role(options: PolicyOptions) -> int:
    """Check the role that hush has in the databases of a policy: it must be able to read the columns that the policy
    names, and nothing else. Prints missing rights, superfluous rights, and the statements that make the right role.

    Example:

        hush engine check --policy clinic.toml

    Exit status: 0 the role can read what it must and nothing else, 2 otherwise.
    """
    from hush.curator.owner import rights
    from hush.engines.registry import is_server
    from hush.policy.file import Policy

    opened = Policy.read(options.policy)
    roles = {name: rights(opened, data) for name, data in opened.data.items() if is_server(data.engine)}
    names = ("role", "missing", "surplus", "grants", "notes")
    content = {data: {name: getattr(role, name) for name in names} for data, role in roles.items()}
    lines = [] if roles else ["No data set of this policy lies in a database."]
    for name, role in roles.items():
        good = "can read what it must, and nothing else." if role.exact else "is not as it should be:"
        if role.exact and not role.complete:
            good = "can read what it must. What else it may do, this engine does not tell."
        lines.append(f"{name}: the role {role.role} {good}")
        lines += [f"  {line}" for line in (*role.missing, *role.surplus, *role.notes)]
        lines += ["A role with just what hush needs:", *(f"  {grant}" for grant in role.grants)] if role.grants else []
    options.tell(content, *lines)
    return 0 if all(role.exact for role in roles.values()) else 2
