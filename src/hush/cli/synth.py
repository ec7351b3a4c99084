"""``hush synth``: synthetic rows."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from hush.cli.ask import AnalystOption, DataOption, EpsilonOption, QueryArgument, question, writable
from hush.cli.marginals import ExplainOption, MaxRowsOption, RequestOption
from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, print_json
from hush.core.on_demand import optional

_HELP = """
Make synthetic rows like those that SQL names, on the policy's grid, and certify how good they are.

Examples:

    hush synth "SELECT age, sex, disease, cost FROM visits" --epsilon 1 --out synthetic.parquet
    hush synth @rows.sql --epsilon 1 --rows 100000 --out synthetic.csv --json
    hush synth "SELECT age, sex FROM visits" --epsilon 1 --explain

Exit status: 0 released, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("synth", help=_HELP, short_help="Synthetic rows, with a certificate.")(synth)


def synth(
    query: QueryArgument = "-",
    epsilon: EpsilonOption = None,
    rows: Annotated[
        int | None, typer.Option("--rows", metavar="N", help="How many rows to write: about as many as there are.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the rows (.csv, .parquet).")] = None,
    certify: Annotated[str, typer.Option("--certify", metavar="SHARE", help="What the certificate takes.")] = "0.05",
    max_rows: MaxRowsOption = None,
    analyst: AnalystOption = None,
    policy: PolicyOption = POLICY,
    data: DataOption = None,
    request: RequestOption = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release synthetic rows."""
    from hush.curator.opening import open_policy

    text = question(query)
    writable(out, "--out", (".csv", ".parquet"))
    if out is not None and not explain:
        optional("pyarrow", "arrow")  # before the charge
    how: dict[str, Any] = {"epsilon": epsilon, "certify": certify, "max_rows": max_rows, "data": data}
    with open_policy(policy, analyst=analyst) as curator:
        if explain:
            explained = curator.explain_synth(text, **how)
            print_json(explained.to_json()) if as_json else console().print(str(explained), markup=False)
            return
        quiet = as_json or not sys.stderr.isatty()
        with nullcontext() if quiet else Console(stderr=True).status("counting …") as status:

            def told(stage: str, part: float) -> None:
                if status is not None:
                    status.update(f"{stage} … {part:.0%}" if part else f"{stage} …")

            release = curator.synth(text, **how, request=request, progress=told)
    if out is not None:
        release.save(out, rows=rows)
    if as_json:
        print_json(release.to_json() | {"file": None if out is None else str(out)})
        return
    screen = console()
    screen.print(str(release), markup=False)
    quality = release.quality
    if quality is not None:
        worst = quality.worst
        screen.print(f"  furthest from the data: {' × '.join(worst.columns)}, {worst.distance:.3g} ± {worst.error:.2g}")
    for caveat in release.caveats:
        screen.print(f"  note: {caveat}", markup=False)
    screen.print(f"receipt {release.receipt}", markup=False)
