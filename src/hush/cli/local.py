"""``hush local``: surveys in which people randomise their own answers."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from hush.cli.options import JsonOption
from hush.cli.output import plain_table, print_data, private_file, tell, text_of, write_text
from hush.core import InvalidValueError
from hush.core.format import figure
from hush.local.survey import Form

_HELP = """
Surveys without a trusted curator: every person randomises their own answer.

```sh
hush local make-form "Do you smoke?" --categories yes,no --epsilon 1 --out form.json
hush local report form.json yes >> reports.jsonl      # on each person's own device
hush local estimate form.json reports.jsonl --chart smokers.svg
```
"""
local = typer.Typer(name="local", help=_HELP, no_args_is_help=True, rich_markup_mode="markdown")
FormArgument = Annotated[Path, Argument(metavar="FORM", help="The form, as make-form wrote it.")]


@local.command("make-form")
def make_form(
    question: Annotated[str, Argument(help="What is asked, in words.")],
    epsilon: Annotated[str, Option(metavar="ε", help="The privacy of each report.")],
    categories: Annotated[str | None, Option(metavar="A,B,…", help="The answers that may be given.")] = None,
    bounds: Annotated[str | None, Option(metavar="LOWER,UPPER", help="For a mean: the range of the numbers.")] = None,
    out: Annotated[Path | None, Option("--out", "-o", metavar="FILE", help="Where to write the form.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a form: a public file with the question and the mechanism."""
    if (categories is None) == (bounds is None):
        raise InvalidValueError("--categories", got=categories, allowed="given, or --bounds, but not both")
    if categories is not None:
        names = [name.strip() for name in categories.split(",")]
        form = Form(question=question, kind="frequency", epsilon=epsilon, categories=names)
    else:
        lower, _, upper = str(bounds).partition(",")
        form = Form(question=question, kind="mean", epsilon=epsilon, lower=lower, upper=upper)
    if out is not None:
        write_text(out, form.to_json() + "\n")
    elif not as_json:
        print_data(form.to_json() + "\n")
        return
    content = {"form": form.digest, "mechanism": type(form.mechanism).__name__, "file": str(out) if out else None}
    text = f"Form {form.digest} written to {out}; answers go through {content['mechanism']}."
    tell(content, text, as_json=as_json)


@local.command("report")
def report(
    form: FormArgument, answer: Annotated[str, Argument(help="The true answer; it does not leave this command.")]
) -> None:
    """Print one randomised report of a true answer, a line of JSON."""
    print_data(_form(form).report(answer) + "\n")


@local.command("estimate")
def estimate(
    form: FormArgument,
    reports: Annotated[str, Argument(metavar="REPORTS", help="Reports, one per line; - for standard input.")],
    confidence: Annotated[str, Option(help="How often each ± holds.")] = "0.95",
    chart: Annotated[Path | None, Option(metavar="FILE", help="Save a chart (.svg, .png, .html).")] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the answers of people, with error bars, and count reports that cannot be genuine."""
    made = _form(form)
    with nullcontext(sys.stdin) if reports == "-" else private_file(reports, "r") as lines:
        result = made.estimate(lines, confidence=confidence)
    if chart is not None:
        result.chart().save(chart)
    table, rows = plain_table("answer", "estimate", right={"estimate"}), []
    for name, value, half_width in zip(result.names, result.values, result.errors, strict=True):
        table.add_row(name, f"{figure(value, digits=4)} ± {figure(half_width, digits=2)}")
        rows.append([name, value])
    content = {"columns": ["answer", "estimate"], "rows": rows, "errors": [[None, error] for error in result.errors]}
    content |= {name: getattr(result, name) for name in ("confidence", "reports", "refused")}
    sure = f"± at {100 * result.confidence:.6g}% confidence"
    told = f"{result.reports:,} reports; {sure}; refused: {result.refused:,}"
    tell(content, made.question, table, told, as_json=as_json)


def _form(path: Path) -> Form:
    return Form.from_json(text_of(path, "FORM"))
