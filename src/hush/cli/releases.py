"""Whole releases: ``hush marginals``, ``ranges``, ``synth`` and ``fit``; and ``bounds``, a paid estimate for owners."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from hush.cli.ask import question, writable
from hush.cli.options import AskerOptions, spread
from hush.cli.output import working
from hush.core import InvalidValueError
from hush.core.on_demand import optional
from hush.curator.terms import BoundingTerms, FitOrder, MarginalOrder, RangeOrder, SynthesisOrder, Terms
from hush.report.columns import shown

ExplainOption = Annotated[bool, Option("--explain", help="Say what it would cost and err; spend nothing.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseOptions(AskerOptions):
    """Who asks for a release, and whether it is only to be explained."""

    explain: ExplainOption = False


def _release(kind: str, doing: str, terms: Terms, options: ReleaseOptions) -> Any:
    """Call the curator's method of this name; with ``explain``, print price and error instead and return None."""
    with working(doing, quiet=options.as_json, pays=True) as progress, options.opened() as curator:
        if options.explain:
            explained = getattr(curator, f"explain_{kind}")(**terms.explained())
            options.tell(explained.to_json(), str(explained))
            return None
        watched = {"progress": progress} if kind == "synth" else {}
        return getattr(curator, kind)(**terms.given(), **watched)


@spread
def marginals(
    terms: MarginalOrder,
    out: Annotated[Path | None, Option(metavar="DIR", help="Write the tables and a report here.")] = None,
    parquet: Annotated[bool, Option("--parquet", help="Write parquet instead of CSV.")] = False,
    *,
    options: ReleaseOptions,
) -> None:
    """Release all tables of two (or more) columns at once, with the least error that is possible at the price.

    Every count has its error bar, and all tables agree with each other. With --out, one file for each table, a report
    and the measurements are written.

    Examples:

        hush marginals visits --by age,sex,disease --degree 2 --epsilon 1 --out tables
        hush marginals "SELECT sex, disease FROM visits WHERE age >= 65" --epsilon 0.5 --explain --json
    """
    if terms.by is None:
        terms = replace(terms, table=question(terms.table))
    if out is not None and out.exists() and not out.is_dir():
        raise InvalidValueError("--out", got=str(out), allowed="a folder")
    release = _release("marginals", "measuring", terms, options)
    if release is None:
        return
    written = [] if out is None else [str(path) for path in release.save(out, suffix=".parquet" if parquet else ".csv")]
    options.tell(
        release.to_json() | {"files": written},
        str(release),
        *(f"  {' × '.join(names)}: each cell ±{shown(release.marginals[names].error)}" for names in release.tables),
        *([f"written: {len(written)} files in {out}"] if written else []),
        f"receipt {release.receipt}",
    )


@spread
def ranges(
    terms: RangeOrder,
    bins: Annotated[int, Option(metavar="N", help="Bins of the histogram.", min=1, max=1024)] = 20,
    out: Annotated[Path | None, Option(metavar="FILE", help="Write the distribution (.csv).")] = None,
    chart: Annotated[Path | None, Option(metavar="FILE", help="Draw the histogram.")] = None,
    *,
    options: ReleaseOptions,
) -> None:
    """Release every interval, the distribution and all quantiles of one column at once.

    Examples:

        hush ranges "SELECT age FROM visits" --epsilon 0.5 --explain
        hush ranges "SELECT cost FROM visits WHERE disease = 'flu'" --epsilon 1 --out distribution.csv --chart ages.svg
    """
    terms = replace(terms, question=question(terms.question))
    writable(out, "--out", (".csv",))
    writable(chart, "--chart", (".svg", ".png", ".html"))
    release = _release("ranges", "measuring", terms, options)
    if release is None:
        return
    histogram = release.histogram(bins=bins)
    if out is not None:
        release.distribution().save(out)
    if chart is not None:
        histogram.chart(f"rows by {release.column.name}").save(chart)
    lines = []
    for row in release.quantiles():
        value, low, high = (shown(row[name]) for name in ("value", "low", "high"))
        lines.append(f"  {row['part']:.0%} of the rows are at most {value} (between {low} and {high})")
    options.tell(release.to_json(), histogram, *lines, f"receipt {release.receipt}")


@spread
def synth(
    terms: SynthesisOrder,
    rows: Annotated[int | None, Option(metavar="N", help="How many rows to write: about as many as there are.")] = None,
    out: Annotated[Path | None, Option(metavar="FILE", help="Write the rows (.csv, .parquet).")] = None,
    *,
    options: ReleaseOptions,
) -> None:
    """Make synthetic rows like those that SQL names, on the policy's grid, and certify how good they are.

    Examples:

        hush synth "SELECT age, sex, disease, cost FROM visits" --epsilon 1 --out synthetic.parquet
        hush synth @rows.sql --epsilon 1 --rows 100000 --out synthetic.csv --json
    """
    terms = replace(terms, question=question(terms.question))
    writable(out, "--out", (".csv", ".parquet"))
    if out is not None and not options.explain:
        optional("pyarrow", "arrow")  # before the charge
    release = _release("synth", "counting", terms, options)
    if release is None:
        return
    if out is not None:
        release.save(out, rows=rows)
    lines = [str(release)]
    if release.quality is not None:
        worst = release.quality.worst
        distance = f"{worst.distance:.3g} ± {worst.error:.2g}"
        lines.append(f"  furthest from the data: {' × '.join(worst.columns)}, {distance}")
    lines += [f"  note: {caveat}" for caveat in release.caveats]
    content = release.to_json() | {"file": None if out is None else str(out)}
    options.tell(content, *lines, f"receipt {release.receipt}")


@spread
def fit(
    terms: FitOrder,
    out: Annotated[Path | None, Option(metavar="FILE", help="Write the model (.json).")] = None,
    *,
    options: ReleaseOptions,
) -> None:
    """Fit a private model to the rows that SQL names.

    Models are regression, classification, linear, naive_bayes, moments, pca and kmeans. Of each unit one row counts.
    With --out the model is written as JSON, without any row; `hush.learn.load` reads it.

    Examples:

        hush fit "SELECT age, sex, cost FROM visits" --target cost --epsilon 0.5 --out cost.json
        hush fit "SELECT age, cost, disease FROM visits" --target disease --model classification --epsilon 1 --json
        hush fit "SELECT age, cost FROM visits" --model kmeans --epsilon 1 --explain
    """
    terms = replace(terms, question=question(terms.question))
    writable(out, "--out", (".json",))
    model = _release("fit", "fitting", terms, options)
    if model is None:
        return
    if out is not None:
        model.save(out)
    paid = {"receipt": model.receipt, "remaining": model.remaining, "budget": model.spending}
    paid["file"] = None if out is None else str(out)
    lines = [f"{type(model).__name__} at {model.price}, which took {model.spending}; receipt {model.receipt}"]
    lines += [str(model.summary())] if hasattr(model, "summary") else []
    options.tell(model.to_json() | paid, *lines)


@spread
def bounds(terms: BoundingTerms, asker: AskerOptions) -> None:
    """Estimate how much of a table lies beyond its bounds, and propose others: for owners who set them.

    No error bar speaks of what max_rows and max_groups cut. This asks two questions with half of ε each: how many units
    have how many rows (or groups, with --by), and which part lies beyond the bound. It is charged like any question, to
    the data set and to the analyst under whose name it is asked. The last line printed goes into the policy, if the
    notes of answers should say it.

    Examples:

        hush bounds visits --epsilon 0.1 --as owner
        hush bounds visits --by disease --epsilon 0.1 --quantile 0.99
    """
    with working("estimating", quiet=asker.as_json, pays=True), asker.opened() as curator:
        estimate = curator.bounding(**terms.given())
    asker.tell(estimate.to_json(), str(estimate))
