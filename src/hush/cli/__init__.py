"""The command line: one module per command, one place where errors become messages and exit statuses.

Every command takes ``--json``. Results go to standard output, messages to standard error. A
:class:`~hush.core.HushError` ends a command with its own exit status, 2 for a bad question or policy and 3 for the
budget, and with ``--json`` prints ``{"error": {"code": …, "message": …}}`` to standard output.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from hush.cli import (
    account,
    ask,
    bounds,
    budget,
    check,
    demo,
    explain,
    fit,
    history,
    init,
    ledger,
    local,
    marginals,
    party,
    people,
    ranges,
    requests,
    serve,
    show,
    stream,
    synth,
    tables,
)
from hush.cli.output import fail, log_to_terminal, usage_failed
from hush.core import HushError

app = typer.Typer(
    name="hush",
    help="A differential-privacy curator: noisy answers with error bars, until the budget is spent.\n\n"
    "Exit status of every command: 0 done, 2 the question, the policy or the command line is not right, 3 the budget "
    "does not suffice.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    demo,
    init,
    check,
    tables,
    explain,
    ask,
    show,
    marginals,
    synth,
    ranges,
    fit,
    stream,
    bounds,
    budget,
    history,
    requests,
    account,
    ledger,
    local,
    party,
    people,
    serve,
):
    _command.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        try:
            print(f"hush {version('hush')}")
        except PackageNotFoundError:  # run from a source tree that nobody installed
            print("hush (not installed)")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Answer questions about protected data, and account for what the answers reveal."""


def main() -> None:
    """Run the command line and leave with its exit status."""
    log_to_terminal()
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    as_json = "--json" in arguments
    try:
        status = app(arguments, prog_name="hush", standalone_mode=False)
    except HushError as error:
        return fail(error, as_json=as_json)
    except typer.Abort:
        return 130
    except Exception as error:
        if (status := usage_failed(error, as_json=as_json)) is None:
            raise
    return status if isinstance(status, int) else 0
