"""``hush stream``: counts and sums that keep coming."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hush.cli.ask import AskerOptions, DataOption, EpsilonOption, QueryArgument, question, writable
from hush.cli.options import JsonOption, spread
from hush.cli.output import console, print_json, working
from hush.cli.releases import ExplainOption, MaxRowsOption
from hush.report.columns import shown

_HELP = """
Counts and sums by day that keep coming, for a price that is paid once.

Examples:

    hush stream create "SELECT day, COUNT(*) AS n FROM visits GROUP BY day" --name daily --horizon 10years --epsilon 1
    hush stream advance daily
    hush stream show daily --json
"""
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The stream's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
    group.command("create", help="Make a stream, and pay for its whole life.")(create)
    group.command("advance", help="Release all periods that are over. Free, and never twice.")(advance)
    group.command("show", help="Show what was released.")(show)
    group.command("list", help="List the streams.")(names)
    group.command("end", help="End a stream: nothing more will be released.")(end)
    app.add_typer(group, name="stream", help=_HELP, short_help="Counts that keep coming.")


@spread
def create(
    query: QueryArgument = "-",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What the stream is called.")] = "",
    horizon: Annotated[str, typer.Option("--horizon", metavar="LENGTH", help="How long, such as '10 years'.")] = "",
    epsilon: EpsilonOption = None,
    every: Annotated[str | None, typer.Option("--every", metavar="PERIOD", help="hour, day or week.")] = None,
    start: Annotated[str | None, typer.Option("--start", metavar="DATE", help="The first period.")] = None,
    max_rows: MaxRowsOption = None,
    *,
    asker: AskerOptions,
    data: DataOption = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make a stream."""
    text = question(query)
    how: dict[str, Any] = {
        "horizon": horizon,
        "epsilon": epsilon,
        "every": every,
        "start": start,
        "max_rows": max_rows,
        "data": data,
    }
    with working("planning and measuring", quiet=as_json, pays=True), asker.opened() as curator:
        said = curator.stream.explain(text, **how)
        if not explain:
            made = curator.stream.create(text, name=name, **how)
            said |= {"name": made.name, "receipt": made.receipt}
    if as_json:
        print_json(said)
        return
    screen = console()
    screen.print(f"{said['periods']} periods at ε={said['price']['epsilon']}", markup=False)
    for label, error in said["errors"].items():
        screen.print(f"  each {label}: ±{shown(error)} or less", markup=False)
    for caveat in said["caveats"]:
        screen.print(f"  note: {caveat}", markup=False)


@spread
def advance(
    name: NameArgument,
    through: Annotated[
        str | None, typer.Option("--through", metavar="DATE", help="The last period to release.")
    ] = None,
    *,
    asker: AskerOptions,
    as_json: JsonOption = False,
) -> None:
    """Release periods."""
    last = int(through) if through is not None and through.isdecimal() else through
    with working("releasing", quiet=as_json), asker.opened() as curator:
        stream = curator.stream.open(name)
        before = stream.released
        released = stream.advance(last)
    if as_json:
        print_json({"name": name, "released": released, "new": released - before})
    else:
        console().print(f"{released - before} new periods, {released} altogether", markup=False)


@spread
def show(
    name: NameArgument,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Save as .csv, .json, .parquet.")
    ] = None,
    *,
    asker: AskerOptions,
    as_json: JsonOption = False,
) -> None:
    """Show a stream."""
    writable(output, "--output", (".csv", ".json", ".parquet"))
    with asker.opened() as curator:
        stream = curator.stream.open(name)
        answer, said = stream.answer, stream.to_json() if as_json else {}
    if as_json:
        print_json(said)
    else:
        console().print(answer)
    if output is not None:
        answer.save(output)


@spread
def names(*, asker: AskerOptions, as_json: JsonOption = False) -> None:
    """List streams."""
    with asker.opened() as curator:
        found = [{"name": name, "released": curator.stream.open(name).released} for name in curator.stream.names()]
    if as_json:
        print_json({"streams": found})
        return
    for item in found:
        console().print(f"{item['name']}: {item['released']} periods released", markup=False)


@spread
def end(name: NameArgument, *, asker: AskerOptions, as_json: JsonOption = False) -> None:
    """End a stream."""
    with asker.opened() as curator:
        curator.stream.open(name).end()
    if as_json:
        print_json({"name": name, "ended": True})
    else:
        console().print(f"{name} has ended", markup=False)
