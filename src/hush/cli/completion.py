"""``hush completion``: commands, options and their values are completed by bash, zsh and fish.

A shell's script runs ``hush`` with a variable set, in which it says what was typed so far. Then nothing is done but to
print what may come next. The module of a command is imported for its options alone, so a key press reads no policy
but for the names of analysts.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import completion_init, get_completion_script, install  # type: ignore[attr-defined]

from hush.cli.options import JsonOption
from hush.cli.output import console, print_data, print_json

VARIABLE = "_HUSH_COMPLETE"
"""The variable by which a shell asks for completions."""

_HELP = """
Let your shell complete commands, options and names of analysts when you press Tab.

Prints a script for the shell, or with --install puts it where the shell finds it in new sessions.

Examples:

    hush completion bash --install
    source <(hush completion bash)
    hush completion zsh > ~/.zfunc/_hush
    hush completion fish > ~/.config/fish/completions/hush.fish
"""


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("completion", help=_HELP, short_help="Completion for bash, zsh and fish.")(completion)


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Which shell.")],
    put_in_place: Annotated[
        bool, typer.Option("--install", help="Put the script where the shell finds it; changes its start-up file.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print a script, or install it."""
    if put_in_place:
        _, place = install(shell=shell.value, prog_name="hush", complete_var=VARIABLE)
        if as_json:
            print_json({"shell": shell.value, "file": str(place)})
        else:
            console().print(f"Installed in {place}. It works in new sessions of {shell.value}.", markup=False)
        return
    script = get_completion_script(prog_name="hush", complete_var=VARIABLE, shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        print_data(f"{script}\n")


def complete() -> None:
    """Print what may come next, as the shell asks, and leave."""
    from hush.cli import COMMANDS, application

    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    command = next((word for word in typed.split()[1:] if word in COMMANDS), None)
    completion_init()
    application(command, listed=True)(prog_name="hush", complete_var=VARIABLE)
