"""``hush completion``: commands, options and their values are completed by bash, zsh and fish.

A shell's script runs ``hush`` with a variable set, in which it says what was typed so far. Then nothing is done but to
print what may come next. The module of a command is imported for its options alone, so a key press reads no policy
but for the names of analysts.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

from typer import Argument, Option
from typer.completion import completion_init, get_completion_script, install  # type: ignore[attr-defined]

from hush.cli.options import JsonOption
from hush.cli.output import print_data, print_json, tell

VARIABLE = "_HUSH_COMPLETE"
"""The variable by which a shell asks for completions."""


class Shell(StrEnum):
    """Shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, Argument(metavar="bash|zsh|fish", help="Which shell.")],
    put_in_place: Annotated[bool, Option("--install", help="Install it; changes the start-up file.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Let your shell complete commands, options and names of analysts when you press Tab.

    Prints a script for the shell, or with --install puts it where the shell finds it in new sessions.

    Examples:

        hush completion bash --install
        source <(hush completion bash)
        hush completion zsh > ~/.zfunc/_hush
        hush completion fish > ~/.config/fish/completions/hush.fish
    """
    if put_in_place:
        _, place = install(shell=shell.value, prog_name="hush", complete_var=VARIABLE)
        text = f"Installed in {place}. It works in new sessions of {shell.value}."
        tell({"shell": shell.value, "file": str(place)}, text, as_json=as_json)
        return
    script = get_completion_script(prog_name="hush", complete_var=VARIABLE, shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        print_data(f"{script}\n")


def complete() -> None:
    """Print the completions that the shell asks for, and exit."""
    from hush.cli import COMMANDS, application

    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    command = next((word for word in typed.split()[1:] if word in COMMANDS), None)
    completion_init()
    # Options are completed from the command's own module, so that one is imported; of the others the names suffice.
    application(command, listed=True)(prog_name="hush", complete_var=VARIABLE)
