"""The command line: a module for each family of commands, one place where errors become messages and exit statuses.

Every command takes ``--json``. Results go to standard output, messages to standard error. A
:class:`~hush.core.HushError` ends a command with its own exit status, 2 for a bad question or policy and 3 for the
budget, and with ``--json`` prints ``{"error": {"code": …, "message": …}}`` to standard output.

A command's module is imported when the command runs, and not before: help and mistakes are told at once, without NumPy
or an engine. So the names of commands and their short descriptions stand here, in the one table that knows them.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer import Option

COMMANDS = {
    "demo": ("demo", "A tour on synthetic data."),
    "init": ("init", "Write a first policy."),
    "check": ("check", "Every mistake of a policy and its files."),
    "tables": ("check", "What can be asked about."),
    "explain": ("ask", "What a question would cost."),
    "ask": ("ask", "Ask a question, and pay for it."),
    "show": ("history", "A paid answer, once more."),
    "shell": ("shell", "Ask one question after another."),
    "marginals": ("releases", "All tables of some columns at once."),
    "synth": ("releases", "Synthetic rows, with a certificate."),
    "ranges": ("releases", "All quantiles and intervals of a column."),
    "fit": ("releases", "A private model."),
    "stream": ("stream", "Releases that come again and again."),
    "bounds": ("releases", "How much max_rows and max_groups cut."),
    "budget": ("history", "What is left of every budget."),
    "history": ("history", "Which releases spent the budget."),
    "requests": ("ledger", "Questions that wait for the owner."),
    "account": ("account", "What a list of mechanisms reveals together."),
    "audit": ("audit", "Is something as private as it says?"),
    "engine": ("check", "What the role in a database may do."),
    "ledger": ("ledger", "Open, raise, check, copy and restore the ledger: what owners do."),
    "local": ("local", "Surveys whose answers people randomise themselves."),
    "party": ("party", "Take part in a secure sum."),
    "aggregate": ("party", "Run a secure sum of many parties."),
    "serve": ("serve", "An API and a page for many analysts."),
    "people": ("people", "Who may use a service."),
    "completion": ("completion", "Completion for bash, zsh and fish."),
}
"""The commands in the order of the help: the module of each, and its short help. To remove one, delete its line."""

_STATUS = (
    "Exit status of every command: 0 done, 2 the question, the policy or the command line is not right, 3 the budget "
    "does not suffice."
)
_LASTING = frozenset({"aggregate", "audit", "demo", "fit", "party", "serve", "shell", "stream", "synth"})
"""Commands that run for long, or make many objects that only the garbage collector frees."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"hush {version('hush')}")
        except PackageNotFoundError:  # run from a source tree that nobody installed
            print("hush (not installed)")
        raise typer.Exit


def _root(
    _version: Annotated[bool, Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Answer questions about protected data, and account for the privacy that the answers cost."""


def application(command: str | None = None, *, listed: bool = False) -> typer.Typer:
    """Return the application with one command; without one, or if ``listed``, with the names of all others."""
    app = typer.Typer(
        name="hush",
        help="A differential-privacy curator: noisy answers with error bars, until the budget is spent.",
        epilog=_STATUS,
        no_args_is_help=True,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    if command is not None:  # the function or the group of its name in its module; its docstring is its help
        name, words = COMMANDS[command]
        module = import_module(f"hush.cli.{name}")
        if isinstance(target := getattr(module, command), typer.Typer):
            app.add_typer(target, name=command, short_help=words, epilog=_STATUS)
        else:
            app.command(command, short_help=words, epilog=_STATUS)(target)
    if command is None or listed:
        for name, (_, words) in COMMANDS.items():
            if name != command:
                app.command(name, help=words)(lambda: None)
    return app


def main() -> None:
    """Run the command line and leave with its exit status."""
    if not _LASTING.intersection(sys.argv[1:]):  # a command ends before collecting what its imports left would pay
        gc.disable()
    if "_HUSH_COMPLETE" in os.environ:  # a shell wants to know what may be typed next
        from hush.cli.completion import complete

        complete()
    if any(word in COMMANDS for word in sys.argv[1:]):  # else there is nothing to tell of
        from hush.cli.output import log_to_terminal

        log_to_terminal()
    try:
        status = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        # Python flushes standard output once more at exit, which would fail again and print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status."""
    as_json = "--json" in arguments
    command = next((word for word in arguments if not word.startswith("-")), None)
    try:
        app = application(command if command in COMMANDS else None)
        status: Any = app(arguments, prog_name="hush", standalone_mode=False)
    except typer.Abort:
        return 130
    except Exception as error:
        from hush.cli.output import fail

        if (status := fail(error, as_json=as_json)) is None:
            raise
    return status if isinstance(status, int) else 0
