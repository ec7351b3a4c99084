"""``hush init``: a first policy from the schema of files and from the owner's answers (:mod:`hush.cli.interview`)."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from hush.cli.interview import Interview, agreed, interview
from hush.cli.options import POLICY, JsonOption, actor
from hush.cli.output import console, owner_log, print_json, warn, write_text
from hush.core import InvalidValueError
from hush.policy.draft import PUBLIC, Draft, read_delta, read_epsilon

if TYPE_CHECKING:
    from hush.curator.owner import NewTable


def init(
    files: Annotated[list[str], Argument(metavar="FILE…", help="Files of tables, folders, or postgresql://….")],
    output: Annotated[Path, Option(metavar="FILE", help="Where to write.")] = Path("hush.toml"),
    data: Annotated[str, Option(metavar="NAME", help="What to call the data set.")] = "mydata",
    separator: Annotated[str | None, Option(metavar="CHARACTER", help="What separates fields of CSV files.")] = None,
    encoding: Annotated[str | None, Option(metavar="NAME", help="How CSV files store characters.")] = None,
    decimal: Annotated[str | None, Option(metavar="MARK", help="The decimal mark of CSV files: . or ,")] = None,
    timezone: Annotated[str | None, Option(metavar="NAME", help="The time zone of the tables' times.")] = None,
    unit: Annotated[str | None, Option(help='The column that says whose row it is, or "every row".')] = None,
    epsilon: Annotated[str | None, Option(metavar="ε", help="The lifetime budget.")] = None,
    delta: Annotated[str | None, Option(metavar="δ", help="The budget's δ.")] = None,
    force: Annotated[bool, Option("--force", help="Replace a file that is there.")] = False,
    no_input: Annotated[bool, Option("--no-input", help="Ask nothing; leave open what is not said.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a first hush.toml from the names and types of the columns of FILEs: Parquet, CSV, JSON, DuckDB or SQLite.

    What the data must not decide is asked, or left open for you to fill in: the unit, the bounds, the public values,
    the budget. Nothing is ever copied from the rows, but for the names in the first record of a JSON file. On a
    terminal a finished policy is then checked against all rows, for your eyes; only one that reads them gets a ledger.

    Examples:

        hush init visits.parquet regions.csv
        hush init visits.parquet --unit patient_id --epsilon 4 --delta 1e-7
        hush init hospital.duckdb              every table of the database
        hush init data/                        every table in a folder
        hush init postgresql://curator@db.example/clinic
    """
    from hush.cli.check import check_rows
    from hush.policy.file import Policy
    from hush.policy.ledger import make_ledger

    if output.exists() and not force:
        raise InvalidValueError("--output", got=str(output), allowed="a file that is not there yet", hint="Or --force.")
    options = {"separator": separator, "encoding": encoding, "decimal": decimal, "timezone": timezone}
    given = {key: word for key, word in options.items() if word}
    with owner_log():
        tables, engine = _tables(files, given)
    draft = Draft(
        tables=tables,
        data=data,
        engine=engine,
        epsilon=read_epsilon(epsilon, "--epsilon") if epsilon else "",
        delta=read_delta(delta, "--delta") if delta else "",
    )
    if unit:
        draft = replace(draft, unit=draft.read_unit(unit, "--unit"))
    asking = sys.stdin.isatty() and not as_json and not no_input
    if asking:
        said = draft
        draft = Interview().hold(lambda talk: interview(talk, said, given=given))
    write_text(output, draft.to_toml(), "--output")
    lacking = [table.name for table in draft.without_unit if not table.unit]
    if as_json:
        names = sorted(table.name for table in tables)
        print_json({"policy": str(output), "tables": names, "without_unit": lacking})
        return
    for name in lacking:
        warn(f"table {name} has no column {draft.unit}: say in its unit = … where its rows find their unit")
    for table in tables:
        if table.csv and len(table.columns) == 1:
            warn(f"table {table.name} has one column; if its first line has several names, say --separator")
    option = "" if output == POLICY else f" --policy {output}"
    left = "Look through it" if draft.finished else "Fill in the empty places"
    console().print(f"Wrote {output}. {left}; hush check{option} says whether it can be used.", markup=False)
    if draft.finished and asking:
        console().print("Reading all rows once, to tell you alone of what is not as you said.", markup=False)
        usable, proposals = check_rows(output)
        while proposals and agreed(f"Write {', '.join(map(str, proposals))}, and read again?", default=True):
            for proposal in proposals:
                draft = draft.revised(proposal.table, proposal.column, proposal.key, proposal.value)
            write_text(output, draft.to_toml(), "--output")
            usable, proposals = check_rows(output)
        if usable and agreed("Make its ledger now, with these budgets?"):
            with make_ledger(Policy.read(output), actor=actor(None)) as ledger:
                console().print(f"Made {ledger.place}. Now anybody the policy names may ask:", markup=False)
                names = [table.name for table in draft.tables if table.unit != PUBLIC and table.name.isidentifier()]
                who = f" --as {draft.analysts[0]}" if len(draft.analysts) > 1 else ""
                question = f"SELECT COUNT(*) AS n FROM {(names or ['TABLE'])[0]}"  # noqa: S608 - shown, never run
                console().print(f'  hush ask "{question}" --epsilon 0.1{who}{option}', markup=False, soft_wrap=True)
            return
    console().print(
        f"When hush check --rows{option} finds it right, make its ledger: hush ledger open{option}", markup=False
    )


def _tables(files: list[str], words: Mapping[str, str]) -> tuple[list[NewTable], str]:
    """Return the tables of files, or of a database by its address, and the engine that a policy names for them."""
    from hush.curator.owner import tables_of_files, tables_of_server
    from hush.engines.registry import is_server

    servers = [file for file in files if is_server(file)]
    if not servers:
        return tables_of_files(_files([Path(file) for file in files]), words), "duckdb"
    if len(files) > 1 or words:
        allowed = "a database alone, without files or words about files beside it"
        raise InvalidValueError("FILE", got=", ".join(files), allowed=allowed)
    return tables_of_server(servers[0]), servers[0]


def _files(paths: list[Path]) -> list[Path]:
    """Return the named files, and from named folders the files with an ending of a table format."""
    from hush.engines.errors import SourceError
    from hush.engines.registry import Source

    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = []
        for file in sorted(path.iterdir()):
            with suppress(SourceError):  # something else
                Source.of(file)
                inside.append(file)
        if not inside:
            raise InvalidValueError("FILE", got=str(path), allowed="a folder with files that hold tables")
        found += inside
    return found
