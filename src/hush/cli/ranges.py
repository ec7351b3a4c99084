"""``hush ranges``: quantiles, the distribution and histograms of one column from one release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hush.cli.ask import AnalystOption, DataOption, EpsilonOption, QueryArgument, question, writable
from hush.cli.marginals import ExplainOption, MaxRowsOption, RequestOption
from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, print_json
from hush.report.columns import shown

_HELP = """
Release every interval, the distribution and all quantiles of one column at once.

Examples:

    hush ranges "SELECT age FROM visits" --epsilon 0.5
    hush ranges "SELECT cost FROM visits WHERE disease = 'flu'" --epsilon 1 --out distribution.csv --chart ages.svg
    hush ranges "SELECT age FROM visits" --epsilon 0.5 --explain --json

Exit status: 0 released, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("ranges", help=_HELP, short_help="All quantiles and intervals of a column.")(ranges)


def ranges(
    query: QueryArgument = "-",
    epsilon: EpsilonOption = None,
    bins: Annotated[int, typer.Option("--bins", metavar="N", help="Bins of the histogram.", min=1, max=1024)] = 20,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the distribution (.csv).")] = None,
    chart: Annotated[Path | None, typer.Option("--chart", metavar="FILE", help="Draw the histogram.")] = None,
    max_rows: MaxRowsOption = None,
    analyst: AnalystOption = None,
    policy: PolicyOption = POLICY,
    data: DataOption = None,
    request: RequestOption = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Release all ranges of a column."""
    from hush.curator.opening import open_policy

    text = question(query)
    writable(out, "--out", (".csv",))
    writable(chart, "--chart", (".svg", ".png", ".html", ".json"))
    with open_policy(policy, analyst=analyst) as curator:
        if explain:
            explained = curator.explain_ranges(text, epsilon=epsilon, max_rows=max_rows, data=data)
            print_json(explained.to_json()) if as_json else console().print(str(explained), markup=False)
            return
        release = curator.ranges(text, epsilon=epsilon, max_rows=max_rows, data=data, request=request)
    histogram = release.histogram(bins=bins)
    if out is not None:
        release.distribution().save(out)
    if chart is not None:
        histogram.chart(f"rows by {release.column.name}").save(chart)
    if as_json:
        print_json(release.to_json())
        return
    screen = console()
    screen.print(histogram)
    for row in release.quantiles():
        value, low, high = (shown(row[name]) for name in ("value", "low", "high"))
        screen.print(f"  {row['part']:.0%} of the rows are at most {value} (between {low} and {high})", markup=False)
    screen.print(f"receipt {release.receipt}", markup=False)
