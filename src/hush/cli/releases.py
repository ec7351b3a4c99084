"""Whole releases: ``hush marginals``, ``ranges``, ``synth`` and ``fit``; and ``bounds``, a paid estimate for owners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hush.cli.ask import AskerOptions, DataOption, EpsilonOption, QueryArgument, question, writable
from hush.cli.options import JsonOption, spread
from hush.cli.output import console, print_json, working
from hush.core import InvalidValueError
from hush.core.on_demand import optional
from hush.core.values import dataclass
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
FreshOption = Annotated[bool, typer.Option("--fresh", help="Release anew, for its price, what was released before.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions(AskerOptions):
    """Who asks for a release, of which data, and whether it is only to be explained."""

    data: DataOption = None
    request: RequestOption = None
    fresh: FreshOption = False
    explain: ExplainOption = False
    as_json: JsonOption = False


_MARGINALS_HELP = """
Release all tables of two (or more) columns at once, with the least error that is possible at the price.

Every count has its error bar, and all tables agree with each other. With --out, one file for each table, a report
and the measurements are written.

Examples:

    hush marginals visits --by age,sex,disease --degree 2 --epsilon 1 --out tables
    hush marginals "SELECT sex, disease FROM visits WHERE age >= 65" --epsilon 0.5 --explain --json

Exit status: 0 released, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command("marginals", help=_MARGINALS_HELP, short_help="All tables of some columns at once.")(marginals)
    app.command("ranges", help=_RANGES_HELP, short_help="All quantiles and intervals of a column.")(ranges)
    app.command("synth", help=_SYNTH_HELP, short_help="Synthetic rows, with a certificate.")(synth)
    app.command("fit", help=_FIT_HELP, short_help="A private model.")(fit)
    app.command("bounds", help=_BOUNDS_HELP, short_help="How much max_rows and max_groups cut.")(bounds)


@spread
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
    *,
    options: ReleaseOptions,
) -> None:
    """Release marginals."""
    names = None if by is None else [name.strip() for name in by.split(",") if name.strip()]
    text = question(table) if by is None else table
    if out is not None and out.exists() and not out.is_dir():
        raise InvalidValueError("--out", got=str(out), allowed="a folder")
    how: dict[str, Any] = {"degree": degree, "epsilon": epsilon, "optimise": optimise, "confidence": confidence}
    how |= {"max_rows": max_rows, "data": options.data}
    with working("measuring", quiet=options.as_json, pays=True), options.opened() as curator:
        if options.explain:
            _print_explained(curator.explain_marginals(text, names, **how), as_json=options.as_json)
            return
        release = curator.marginals(text, names, **how, request=options.request, fresh=options.fresh)
    written = [] if out is None else [str(path) for path in release.save(out, suffix=".parquet" if parquet else ".csv")]
    if options.as_json:
        print_json(release.to_json() | {"files": written})
        return
    screen = console()
    screen.print(str(release), markup=False)
    for columns in release.tables:
        screen.print(f"  {' × '.join(columns)}: each cell ±{shown(release.marginals[columns].error)}", markup=False)
    if written:
        screen.print(f"written: {len(written)} files in {out}", markup=False)
    screen.print(f"receipt {release.receipt}", markup=False)


def _print_explained(explained: Any, *, as_json: bool) -> None:
    """Print what a release would cost, and the noise it would have."""
    print_json(explained.to_json()) if as_json else console().print(str(explained), markup=False)


_RANGES_HELP = """
Release every interval, the distribution and all quantiles of one column at once.

Examples:

    hush ranges "SELECT age FROM visits" --epsilon 0.5
    hush ranges "SELECT cost FROM visits WHERE disease = 'flu'" --epsilon 1 --out distribution.csv --chart ages.svg
    hush ranges "SELECT age FROM visits" --epsilon 0.5 --explain --json

Exit status: 0 released, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


@spread
def ranges(
    query: QueryArgument = "-",
    epsilon: EpsilonOption = None,
    bins: Annotated[int, typer.Option("--bins", metavar="N", help="Bins of the histogram.", min=1, max=1024)] = 20,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the distribution (.csv).")] = None,
    chart: Annotated[Path | None, typer.Option("--chart", metavar="FILE", help="Draw the histogram.")] = None,
    max_rows: MaxRowsOption = None,
    *,
    options: ReleaseOptions,
) -> None:
    """Release all ranges of a column."""
    text = question(query)
    writable(out, "--out", (".csv",))
    writable(chart, "--chart", (".svg", ".png", ".html", ".json"))
    how: dict[str, Any] = {"epsilon": epsilon, "max_rows": max_rows, "data": options.data}
    with working("measuring", quiet=options.as_json, pays=True), options.opened() as curator:
        if options.explain:
            _print_explained(curator.explain_ranges(text, **how), as_json=options.as_json)
            return
        release = curator.ranges(text, **how, request=options.request, fresh=options.fresh)
    histogram = release.histogram(bins=bins)
    if out is not None:
        release.distribution().save(out)
    if chart is not None:
        histogram.chart(f"rows by {release.column.name}").save(chart)
    if options.as_json:
        print_json(release.to_json())
        return
    screen = console()
    screen.print(histogram)
    for row in release.quantiles():
        value, low, high = (shown(row[name]) for name in ("value", "low", "high"))
        screen.print(f"  {row['part']:.0%} of the rows are at most {value} (between {low} and {high})", markup=False)
    screen.print(f"receipt {release.receipt}", markup=False)


_SYNTH_HELP = """
Make synthetic rows like those that SQL names, on the policy's grid, and certify how good they are.

Examples:

    hush synth "SELECT age, sex, disease, cost FROM visits" --epsilon 1 --out synthetic.parquet
    hush synth @rows.sql --epsilon 1 --rows 100000 --out synthetic.csv --json
    hush synth "SELECT age, sex FROM visits" --epsilon 1 --explain

Exit status: 0 released, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


@spread
def synth(
    query: QueryArgument = "-",
    epsilon: EpsilonOption = None,
    rows: Annotated[
        int | None, typer.Option("--rows", metavar="N", help="How many rows to write: about as many as there are.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the rows (.csv, .parquet).")] = None,
    certify: Annotated[str, typer.Option("--certify", metavar="SHARE", help="What the certificate takes.")] = "0.05",
    max_rows: MaxRowsOption = None,
    *,
    options: ReleaseOptions,
) -> None:
    """Release synthetic rows."""
    text = question(query)
    writable(out, "--out", (".csv", ".parquet"))
    if out is not None and not options.explain:
        optional("pyarrow", "arrow")  # before the charge
    how: dict[str, Any] = {"epsilon": epsilon, "certify": certify, "max_rows": max_rows, "data": options.data}
    with working("counting", quiet=options.as_json, pays=True) as told, options.opened() as curator:
        if options.explain:
            _print_explained(curator.explain_synth(text, **how), as_json=options.as_json)
            return
        release = curator.synth(text, **how, request=options.request, fresh=options.fresh, progress=told)
    if out is not None:
        release.save(out, rows=rows)
    if options.as_json:
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


_FIT_HELP = """
Fit a private model to the rows that SQL names: regression, classification, linear, naive_bayes, moments, pca, kmeans.

Of each unit one row counts. With --out the model is written as JSON, without any row; `hush.learn.load` reads it.

Examples:

    hush fit "SELECT age, sex, cost FROM visits" --target cost --epsilon 0.5 --out cost.json
    hush fit "SELECT age, cost, disease FROM visits" --target disease --model classification --epsilon 1 --json
    hush fit "SELECT age, cost FROM visits" --model kmeans --epsilon 1 --explain

Exit status: 0 released, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


@spread
def fit(
    query: QueryArgument = "-",
    target: Annotated[str | None, typer.Option("--target", metavar="COLUMN", help="The column to predict.")] = None,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Which model.")] = "regression",
    epsilon: EpsilonOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the model (.json).")] = None,
    *,
    options: ReleaseOptions,
) -> None:
    """Fit and release a model."""
    text = question(query)
    writable(out, "--out", (".json",))
    how: dict[str, Any] = {"target": target, "model": model, "epsilon": epsilon, "data": options.data}
    with working("fitting", quiet=options.as_json, pays=True), options.opened() as curator:
        if options.explain:
            _print_explained(curator.explain_fit(text, **how), as_json=options.as_json)
            return
        fitted = curator.fit(text, **how, request=options.request, fresh=options.fresh)
    if out is not None:
        fitted.save(out)
    if options.as_json:
        print_json(
            fitted.to_json()
            | {"receipt": fitted.receipt, "remaining": fitted.remaining, "file": None if out is None else str(out)}
        )
        return
    screen = console()
    screen.print(f"{type(fitted).__name__} at {fitted.price}, receipt {fitted.receipt}", markup=False)
    if hasattr(fitted, "summary"):
        screen.print(str(fitted.summary()), markup=False)


_BOUNDS_HELP = """
Estimate how much of a table lies beyond its bounds, and propose others: for owners who set max_rows and max_groups.

No error bar speaks of what bounding cuts. This asks two questions with half of ε each: how many units have how many
rows (or groups, with --by), and which part lies beyond the bound. It is charged like any question, to the data set and
to the analyst under whose name it is asked. The last line printed goes into the policy, if analysts should be told:
then the notes of their answers say it.

Examples:

    hush bounds visits --epsilon 0.1
    hush bounds visits --by disease --epsilon 0.1 --quantile 0.99
    hush bounds visits --epsilon 0.1 --as owner --json

Exit status: 0 answered, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


@spread
def bounds(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="A private table whose rows belong to units.")],
    epsilon: Annotated[str, typer.Option("--epsilon", metavar="ε", help="What the estimate costs.")],
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="The groups: how many of them max_groups leaves out.")
    ] = None,
    quantile: Annotated[
        str | None,
        typer.Option("--quantile", metavar="P", help="Which part of the units the proposal covers: 0.95 if not said."),
    ] = None,
    *,
    asker: AskerOptions,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate what lies beyond the bounds."""
    with working("estimating", quiet=as_json, pays=True), asker.opened() as curator:
        found = curator.bounding(table, by=by, epsilon=epsilon, quantile=quantile, data=data)
    if as_json:
        print_json(found.to_json())
    else:
        console().print(str(found), markup=False)
