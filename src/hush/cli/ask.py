"""``hush ask`` and ``hush explain``: ask a question and pay for it, or see its price first."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from hush.cli.options import AskerOptions, spread
from hush.cli.output import Format, FormatOption, print_answer, text_of, the_format, working
from hush.core import HushError, InvalidValueError
from hush.core.format import visible
from hush.curator.terms import QuestionOrder, QuestionTerms

FileOption = Annotated[Path | None, Option("--file", "-f", metavar="FILE", help="Read the question from this file.")]
_NEEDS = {".png": ("resvg_py", "charts"), ".parquet": ("pyarrow", "arrow")}
"""The module that a file format needs, and the extra of hush that installs it."""


@spread
def ask(
    terms: QuestionOrder,
    asker: AskerOptions,
    file: FileOption = None,
    dummy: Annotated[bool, Option("--dummy", help="Try it on made-up rows: free.")] = False,
    chart: Annotated[Path | None, Option(metavar="FILE", help="Save a chart (.svg, .png, .html).")] = None,
    output: Annotated[Path | None, Option(metavar="FILE", help="Save the answer (.csv, .json, .parquet).")] = None,
    format_: FormatOption = None,
    as_csv: Annotated[bool, Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Ask a question in SQL and get noisy answers with error bars. The price is charged before any data is read.

    Examples:

        hush ask "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease" --epsilon 0.5
        hush ask -f question.sql --accuracy 50@0.99 --as alice
        echo "SELECT AVG(cost) AS mean FROM visits" | hush ask - --epsilon 0.1 --json
        hush ask -f question.sql --epsilon 0.5 --chart answer.svg
        hush ask -f question.sql --epsilon 0.5 --dummy

    The same question asked again, in whatever spelling, brings back the answer that was paid for, free of charge;
    --fresh asks anew. With --dummy the question is tried on made-up rows: free, and marked as such.
    """
    form = the_format(format_, as_json=asker.as_json, as_csv=as_csv)
    terms = replace(terms, question=question(str(terms.question), file))
    writable(chart, "--chart", (".svg", ".png", ".html"))
    writable(output, "--output", (".csv", ".json", ".parquet"))
    with (
        working("asking", quiet=form is not Format.TABLE, pays=True),
        asker.opened() as real,
        real.dummy() if dummy else nullcontext(real) as curator,
    ):
        if chart is not None and not curator.explain(**terms.explained()).drawable():  # refused before it is paid for
            allowed = "left out where no result is a noisy number, as the answer could not be drawn"
            hint = "Add one to the question, such as COUNT(*). Nothing was charged."
            raise InvalidValueError("--chart", got=str(chart), allowed=allowed, hint=hint)
        answer = curator.ask(**terms.given())
    print_answer(answer, form)  # it is paid for, so it is shown before anything else can go wrong
    try:
        if output is not None:
            answer.save(output)
        if chart is not None:
            answer.chart().save(chart)
    except HushError as error:
        print(f"error: the answer is above, but not in the file: {visible(str(error))}", file=sys.stderr)
        raise typer.Exit(2) from None


@spread
def explain(terms: QuestionTerms, asker: AskerOptions, file: FileOption = None) -> None:
    """Show the price of a question and the error of its answers. Reads no data and spends nothing.

    Examples:

        hush explain "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease" --epsilon 0.5
        hush explain -f question.sql --accuracy 50@0.99 --json

    It does not say whether the budget suffices.
    """
    terms = replace(terms, question=question(str(terms.question), file))
    with working("planning", quiet=asker.as_json), asker.opened() as curator:
        explanation = curator.explain(**terms.given())
    asker.tell(explanation.to_json(), str(explanation))


def writable(path: Path | None, option: str, suffixes: tuple[str, ...]) -> None:
    """Refuse a file that could not be written, before the question is paid for."""
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise InvalidValueError(option, got=str(path), allowed=f"a file name ending in {', '.join(suffixes)}")
    if not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidValueError(option, got=str(path), allowed="a file in a folder that can be written to")
    module, extra = _NEEDS.get(path.suffix.lower(), ("", ""))
    if module and find_spec(module) is None:
        hint = f"Install what it needs: pip install 'hush[{extra}]'."
        raise InvalidValueError(option, got=str(path), allowed="a file that can be written here", hint=hint)


def question(query: str, file: Path | None = None) -> str:
    """Return the question's text from the argument, a file or standard input."""
    if file is not None:
        if query != "-":
            raise InvalidValueError("--file", got=f"{file} and a question", allowed="one of the two")
        query = f"@{file}"
    if query == "-":
        return sys.stdin.read()
    if query.startswith("@"):
        return text_of(Path(query[1:]), "SQL")
    if len(query.split()) == 1 and Path(query).is_file():
        raise InvalidValueError("SQL", got=query, allowed="a question", hint=f"To read it from the file: @{query}")
    return query
