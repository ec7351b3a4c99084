"""``hush init``: a first policy from the schema of files."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hush.cli.options import POLICY, JsonOption, actor
from hush.cli.output import console, owner_log, print_json, warn
from hush.core import InvalidValueError

if TYPE_CHECKING:
    from hush.engines.registry import Source


def init(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="Parquet, CSV, JSON, DuckDB or SQLite files, or folders of them."),
    ],
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="Where to write.")] = Path("hush.toml"),
    data: Annotated[str, typer.Option("--data", metavar="NAME", help="What to call the data set.")] = "mydata",
    separator: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="What separates the fields of CSV files, if not a comma.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option(metavar="NAME", help="How the characters of CSV files are stored, if not as utf-8.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(metavar="MARK", help="What stands before decimals in CSV files, if not a point.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where the clocks are that show the tables' times.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help='The column that says whose row it is, or "every row".')] = None,
    epsilon: Annotated[str | None, typer.Option(metavar="ε", help="The lifetime budget.")] = None,
    delta: Annotated[str | None, typer.Option(metavar="δ", help="The budget's δ.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Ask nothing on a terminal; leave open what is not said.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a first hush.toml from the names and types of the columns of FILEs.

    What the data must not decide is asked, or left open for you to fill in: the unit, the bounds, the public values,
    the budget. Nothing is ever copied from the rows, but for the names in the first record of a JSON file.

    Examples:

        hush init visits.parquet regions.csv
        hush init visits.parquet --unit patient_id --epsilon 4 --delta 1e-7
        hush init hospital.duckdb              every table of the database
        hush init data/                        every table in a folder
        hush init visits.parquet --no-input    leaves every place open

    Exit status: 0 written, 2 a file cannot be read or the policy is there already.
    """
    from hush.cli.interview import EVERY_ROW, Interview, Said, a_delta, a_unit, agreed, an_epsilon, interview
    from hush.curator.data_sets import read_policy
    from hush.policy.draft import PUBLIC, draft, without_unit
    from hush.policy.ledger import make_ledger

    if output.exists() and not force:
        raise InvalidValueError("--output", got=str(output), allowed="a file that is not there yet", hint="Or --force.")
    written = {"separator": separator, "encoding": encoding or None, "decimal": decimal or None, "timezone": timezone}
    tables = _tables(_files(files), {key: word for key, word in written.items() if word is not None})
    columns = _columns(tables)
    untyped = frozenset(name for name, table in tables.items() if table.source.untyped)
    names = list(dict.fromkeys(column for _, column, _ in columns))
    asking = sys.stdin.isatty() and not as_json and not no_input
    said = Said(
        unit=a_unit(unit, names) if unit else "",
        epsilon=an_epsilon(epsilon) if epsilon else "",
        delta=a_delta(delta) if delta else "",
    )
    if asking:
        given = said
        plain = encoding is None and any(table.reading.get("encoding") == "utf-8" for table in tables.values())
        said = Interview().hold(lambda talk: interview(talk, columns, untyped=untyped, given=given, encodings=plain))
        for table in tables.values():
            if said.encoding and table.reading.get("encoding") == "utf-8":
                table.reading["encoding"] = said.encoding
    every_row = said.unit == EVERY_ROW
    unit = "" if every_row else said.unit
    lacking = [table for table in (without_unit(columns, unit) if unit else []) if not said.paths.get(table)]
    text = draft(
        columns,
        sources={name: table.place for name, table in tables.items()},
        said=said.columns,
        untyped=untyped,
        reading={name: table.reading for name, table in tables.items()},
        data=data,
        unit=unit or None,
        every_row=every_row,
        paths=said.paths,
        limits=said.limits,
        left_out=said.left_out,
        epsilon=said.epsilon,
        delta=said.delta,
        analysts=said.analysts,
        own_epsilon=said.own_epsilon,
    )
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidValueError(
            "--output", got=str(output), allowed="a file that can be written", hint=f"{error.strerror}."
        ) from None
    if as_json:
        print_json({"policy": str(output), "tables": sorted(tables), "without_unit": lacking})
    else:
        _warn_of(tables, columns, lacking, unit)
        finished = '= ""' not in text
        option = "" if output == POLICY else f" --policy {output}"
        left = "Look through it" if finished else "Fill in the empty places"
        console().print(f"Wrote {output}. {left}; hush check{option} says whether it can be used.", markup=False)
        question = "Read all rows once, to count for your eyes what is not as you said?"
        if finished and asking and agreed(question, default=True):
            from hush.cli.check import check_rows

            finished = check_rows(output)
        if finished and asking and agreed("Make its ledger now, with these budgets?"):
            with make_ledger(read_policy(output), actor=actor(None)) as ledger:
                console().print(f"Made {ledger.place}. Now anybody the policy names may ask:", markup=False)
                private = [name for name in tables if said.paths.get(name) != PUBLIC and name.isidentifier()]
                who = f" --as {said.analysts[0]}" if len(said.analysts) > 1 else ""
                question = f"SELECT COUNT(*) AS n FROM {(private or ['TABLE'])[0]}"  # noqa: S608 - shown, never run
                console().print(f'  hush ask "{question}" --epsilon 0.1{who}{option}', markup=False, soft_wrap=True)
        else:
            console().print(f"When it is right, make its ledger: hush ledger open{option}", markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FoundTable:
    """A table in one of the files: where it is, and how its file is written."""

    source: Source
    place: str
    reading: dict[str, str]


def _tables(files: list[Path], written: dict[str, str]) -> dict[str, _FoundTable]:
    """Return the tables of files by name; a file format option that is not given is proposed."""
    from hush.engines.registry import CSV, Source, inner_tables, proposed_encoding, table_name

    timezone: dict[str, Any] = {key: word for key, word in written.items() if key == "timezone"}
    tables: dict[str, _FoundTable] = {}
    for path in files:
        source, reading = Source.of(path, **timezone), timezone
        if source.format in CSV:
            reading = {"encoding": proposed_encoding(path), "decimal": ".", **written}
            if "separator" in reading:
                reading = {"separator": reading.pop("separator"), **reading}
            if source.format == "tsv":
                reading.pop("separator", None)
            source = Source.of(path, **reading)
        inside: list[str | None] = [*inner_tables(path)]
        for inner in inside or [None]:
            name = inner or table_name(path)
            place = f"{path}#{inner}" if inner else str(path)
            if name in tables:
                raise InvalidValueError(
                    "FILE",
                    got=f"{tables[name].place} and {place}",
                    allowed=f"tables of different names, and these are both called {name}",
                    hint="Rename one of them, or name the files that are meant.",
                )
            tables[name] = _FoundTable(source=replace(source, table=inner), place=place, reading=dict(reading))
    return tables


def _columns(tables: dict[str, _FoundTable]) -> list[tuple[str, str, str]]:
    """Return table, name and type of all columns; propose a time zone for tables that have times with a zone."""
    from hush.curator.data_sets import schema_types
    from hush.engines.registry import open_sources, proposed_timezone

    with owner_log():
        opened = open_sources({name: table.source for name, table in tables.items()})
    with opened:
        columns = [
            (name, column, sql_type)
            for name, table in tables.items()
            for column, sql_type in schema_types(table.source, name, opened.types[name]).items()
        ]
    for name in {table for table, _, sql_type in columns if sql_type == "TIMESTAMP WITH TIME ZONE"}:
        tables[name].reading.setdefault("timezone", proposed_timezone(tables[name].source))
    return columns


def _warn_of(
    tables: dict[str, _FoundTable], columns: list[tuple[str, str, str]], lacking: list[str], unit: str
) -> None:
    """Warn about tables without the unit's column, and about files that may have another separator."""
    for name in lacking:
        warn(f"table {name} has no column {unit}: say in its unit = … where its rows find their unit")
    for name, table in tables.items():
        if table.source.format == "csv" and sum(holder == name for holder, _, _ in columns) == 1:
            warn(f"table {name} has one column; if its fields are not separated by commas, say --separator")


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
