"""How an answer is printed: ``--format table|csv|json|markdown|parquet``."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hush.cli.output import console, print_data, print_json
from hush.core import InvalidValueError
from hush.core.on_demand import optional

if TYPE_CHECKING:
    from hush.curator.answer import Answer


class Format(StrEnum):
    """In which form an answer is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    MARKDOWN = "markdown"
    PARQUET = "parquet"


FormatOption = Annotated[
    Format | None,
    typer.Option("--format", metavar="FORM", help="How to print it: table, csv, json, markdown or parquet."),
]


def the_format(chosen: Format | None, *, as_json: bool = False, as_csv: bool = False) -> Format:
    """Return the one form that the options ask for."""
    asked = {form for form, wanted in ((Format.JSON, as_json), (Format.CSV, as_csv), (chosen, chosen)) if wanted}
    if len(asked) > 1:
        given = " and ".join(sorted(f"--{form}" for form in asked if form is not None))
        raise InvalidValueError("--format", got=given, allowed="one form; choose one of them")
    form = next(iter(asked), None) or Format.TABLE
    if form is Format.PARQUET and sys.stdout.isatty():
        hint = "Send it to a file with > answer.parquet, or save it with --output answer.parquet."
        raise InvalidValueError("--format", got=form.value, allowed="another form on a terminal", hint=hint)
    if form is Format.PARQUET:
        optional("pyarrow.parquet", "arrow")  # refused here, before anything is paid for
    return form


def print_answer(answer: Answer, form: Format) -> None:
    """Print an answer to standard output."""
    match form:
        case Format.JSON:
            print_json(answer.to_json())
        case Format.CSV:
            print_data(answer.to_csv())
        case Format.MARKDOWN:
            print_data(answer.to_markdown())
        case Format.PARQUET:
            optional("pyarrow.parquet", "arrow").write_table(answer.table, sys.stdout.buffer)
        case _:
            console().print(answer)
