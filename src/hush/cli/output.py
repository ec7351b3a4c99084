"""How commands print: significant digits, errors in one shape, and control characters shown instead of obeyed.

Keys, names, stored questions and an engine's words were written by others. All text for a terminal goes through
`console`, `print_json` or `print_data`, which leave no control character of theirs in it.
An answer is printed in one of five forms: ``--format table|csv|json|markdown|parquet``.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from typer import Option

from hush.core import HushError, InvalidValueError
from hush.core.format import ascii_controls, visible
from hush.core.on_demand import optional
from hush.core.storage import watching_reads

if TYPE_CHECKING:
    from hush.curator.answer import Answer


# Typer carries a copy of click in some versions and uses the package in others; either way this is its root error.
_USAGE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def print_json(value: Any) -> None:
    """Print one JSON document; floats are written so that they read back as themselves."""
    print(ascii_controls(json.dumps(value, ensure_ascii=False, allow_nan=False)))


def tell(value: Any, *lines: RenderableType, as_json: bool) -> None:
    """Print a result: as JSON, or line by line for people."""
    if as_json:
        print_json(value)
        return
    out = console()
    for line in lines:
        out.print(line, markup=False, soft_wrap=isinstance(line, str))


def plain_table(*titles: str, right: Collection[str] = ()) -> Table:
    """Return a table without lines, with the columns that are named in ``right`` flush right."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in right else "left")
    return table


def print_data(text: str) -> None:
    """Print lines of data: as they are into a file or a pipe, with visible control characters on a terminal."""
    print(visible(text, lines=True) if sys.stdout.isatty() else text, end="")


class _Careful(Console):
    """A console that prints no control characters except those of its own styles."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Draw something, with all control characters in its text made visible."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(visible(part.text, lines=True), part.style)


class _Formatter(logging.Formatter):
    """Log lines that may quote a file or an engine."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with visible control characters: an engine's words may be the reason of an error."""
        sort = record.levelname if record.levelno >= logging.WARNING else "why"
        return visible(f"{sort}: {super().format(record)}", lines=True)


def log_to_terminal() -> None:
    """Send log lines to standard error: warnings, and more where `owner_log` is on."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Formatter("%(message)s"))
    logging.getLogger("hush").addHandler(handler)


@contextmanager
def owner_log() -> Iterator[None]:
    """Show an engine's messages about files, which may quote rows: only for an owner, who has the files."""
    logger = logging.getLogger("hush.engines")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(before)


def console(file: IO[str] | None = None) -> Console:
    """Return the console for results, or one for messages on standard error."""
    return _Careful(file=file, highlight=False, emoji=False, soft_wrap=file is not None)


@contextmanager
def working(doing: str, *, quiet: bool = False, pays: bool = False) -> Iterator[Callable[[str, float], None]]:
    """Show progress on a terminal; if the work ``pays``, report on Ctrl-C whether it was charged.

    It yields a function that takes a stage and its progress from 0 to 1. Neither depends on rows.
    """
    status = Console(stderr=True).status(f"{doing} …") if not quiet and sys.stderr.isatty() else None

    def told(stage: str, done: float = 0.0) -> None:
        if status is not None:
            status.update(f"{stage} … {done:.0%}" if done else f"{stage} …")

    def read(words: str) -> None:
        told(escape(visible(words.removesuffix(" …"))) or doing)

    try:
        with status or nullcontext(), watching_reads(read):
            yield told
    except KeyboardInterrupt as interrupt:
        if pays:
            # The curator adds a note with the receipt if the interrupt came after the charge.
            notes = getattr(interrupt, "__notes__", [])
            told_of = f"{notes[0]} is its receipt." if notes else "Interrupted before anything was charged."
            print(f"\n{told_of}", file=sys.stderr)
        raise


def warn(message: str) -> None:
    """Print a warning to standard error."""
    console(sys.stderr).print(f"[yellow]warning:[/] {escape(message)}")


def fail(error: Exception, *, as_json: bool) -> int | None:
    """Print an error of hush or of the command line, and return its exit status; return None for other errors."""
    usage: Any = error if isinstance(error, _USAGE) else None
    if usage is None and not isinstance(error, HushError):
        return None
    if as_json:
        code, message = (error.code, str(error)) if isinstance(error, HushError) else ("usage", usage.format_message())
        print_json({"error": {"code": code, "message": message}})
    elif usage is not None:  # with the usage of the command
        usage.show()
    else:
        console(sys.stderr).print(f"[bold red]error:[/] {escape(str(error))}")
    return error.exit_status if isinstance(error, HushError) else 2


class Format(StrEnum):
    """The form in which an answer is printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    MARKDOWN = "markdown"
    PARQUET = "parquet"


FormatOption = Annotated[Format | None, Option("--format", metavar="FORM", help=f"{', '.join(Format)}.")]


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


def print_answer(answer: Answer, form: Format, *, every_note: bool = False) -> None:
    """Print an answer to standard output, with all its notes or the most important ones."""
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
            from hush.report.tables import Terminal

            console().print(Terminal(columns=answer.columns, notes=answer.notes()) if every_note else answer)


def private_file(name: str, mode: str) -> IO[str]:
    """Open a text file to be read, or a new one that nobody but its owner can read: an export holds everything."""
    errors = "replace" if mode == "r" else "strict"  # a line that is no text is refused as what it is read as
    try:
        return open(name, mode, encoding="utf-8", errors=errors, opener=lambda path, flags: os.open(path, flags, 0o600))
    except OSError as error:
        allowed = "a new file that can be written" if mode == "x" else "a readable file"
        raise InvalidValueError("FILE", got=name, allowed=allowed, hint=f"{error.strerror}.") from error


def text_of(path: Path, parameter: str) -> str:
    """Return the text of a file that an argument names."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError(parameter, got=str(path), allowed=f"a file that can be read ({error})") from None


def write_text(path: Path, text: str, option: str = "--out") -> None:
    """Write a file that an option names."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        hint = f"{error.strerror}."
        raise InvalidValueError(option, got=str(path), allowed="a file that can be written", hint=hint) from None
