"""``hush marginals``: all tables of some columns at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hush.cli.ask import AnalystOption, DataOption, EpsilonOption, question
from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, print_json
from hush.core import InvalidValueError
from hush.report.columns import shown

ExplainOption = Annotated[bool, typer.Option("--explain", help="Say what it would cost and err; spend nothing.")]
MaxRowsOption = Annotated[
    int | None,
    typer.Option("--max-rows", metavar="N", help="How many rows of one unit count; the policy's if not said."),
]
RequestOption = Annotated[
    str | None,
    typer.Option("--request", metavar="ID", help="Your own id: asked again, the same release comes back, free."),
]

_HELP = """
Release all tables of two (or more) columns at once, with the least error that is possible at the price.

Every count has its error bar, and all tables agree with each other. With --out, one file for each table, a report
and the measurements are written.

Examples:

    hush marginals visits --by age,sex,disease --degree 2 --epsilon 1 --out tables
    hush marginals "SELECT sex, disease FROM visits WHERE age >= 65" --epsilon 0.5 --explain --json

Exit status: 0 released, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("marginals", help=_HELP, short_help="All tables of some columns at once.")(marginals)


def marginals(
    table: Annotated[str, typer.Argument(metavar="TABLE|SQL", help="A table, or SQL that names rows; @FILE reads it.")],
    by: Annotated[str | None, typer.Option("--by", metavar="COLUMNS", help="The columns, with commas between.")] = None,
    degree: Annotated[int, typer.Option("--degree", metavar="K", help="How many columns each table has.")] = 2,
    epsilon: EpsilonOption = None,
    optimise: Annotated[
        str,
        typer.Option(
            "--optimise", metavar="max|sum|cells", help="The largest error, or the mean over tables or cells."
        ),
    ] = "max",
    confidence: Annotated[float, typer.Option("--confidence", metavar="P", help="How often error bars hold.")] = 0.95,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write the tables and a report here.")
    ] = None,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write parquet instead of CSV.")] = False,
    max_rows: MaxRowsOption = None,
    analyst: AnalystOption = None,
    policy: PolicyOption = POLICY,
    data: DataOption = None,
    request: RequestOption = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release marginals."""
    from hush.curator.opening import open_policy

    names = None if by is None else [name.strip() for name in by.split(",") if name.strip()]
    text = question(table) if by is None else table
    if out is not None and out.exists() and not out.is_dir():
        raise InvalidValueError("--out", got=str(out), allowed="a folder")
    with open_policy(policy, analyst=analyst) as curator:
        if explain:
            explained = curator.explain_marginals(
                text,
                names,
                degree=degree,
                epsilon=epsilon,
                optimise=optimise,
                confidence=confidence,
                max_rows=max_rows,
                data=data,
            )
            print_json(explained.to_json()) if as_json else console().print(str(explained), markup=False)
            return
        release = curator.marginals(
            text,
            names,
            degree=degree,
            epsilon=epsilon,
            optimise=optimise,
            confidence=confidence,
            max_rows=max_rows,
            data=data,
            request=request,
        )
    written = [] if out is None else [str(path) for path in release.save(out, suffix=".parquet" if parquet else ".csv")]
    if as_json:
        print_json(release.to_json() | {"files": written})
        return
    screen = console()
    screen.print(str(release), markup=False)
    for columns in release.tables:
        screen.print(f"  {' × '.join(columns)}: each cell ±{shown(release.marginals[columns].error)}", markup=False)
    if written:
        screen.print(f"written: {len(written)} files in {out}", markup=False)
    screen.print(f"receipt {release.receipt}", markup=False)
