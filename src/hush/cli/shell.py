"""``hush shell``: one question after another, with completion and a history.

The line editor is Python's own ``readline``, so the shell needs nothing that is not there. A question ends with a
semicolon or an empty line; a line that begins with a backslash is a command of the shell itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from inspect import cleandoc
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from hush.cli.options import AskerOptions, spread
from hush.cli.output import tell, working
from hush.core import HushError, positive
from hush.core.format import visible

if TYPE_CHECKING:
    from hush.curator.curator import Curator

COMMANDS = ("tables", "budget", "history", "epsilon", "explain", "dummy", "fresh", "show", "help", "quit")
_SQL = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN USING ON AS AND OR NOT IN BETWEEN LIKE IS NULL CASE WHEN THEN "
    "ELSE END DISTINCT FILTER WITH UNION ALL ASC DESC CAST EXTRACT DATE INTERVAL"
)


@spread
def shell(
    asker: AskerOptions, epsilon: Annotated[str, Option(metavar="ε", help="What every question may cost.")] = "0.1"
) -> None:
    r"""Ask one question after another, each ended by a semicolon or an empty line.

    Tab completes tables, columns, functions and words of SQL; the history is kept between sessions.

        \tables, \budget, \history    what can be asked about, what is left, what was asked
        \epsilon 0.1                  what every further question may cost
        \explain SELECT …             what a question would cost and how far off it would be, for nothing
        \dummy SELECT …               try a question on made-up rows, for nothing
        \fresh SELECT …               ask anew what was answered before
        \show 56, \help, \quit

    Examples:

        hush shell
        hush shell --as alice --epsilon 0.1
    """
    with asker.opened() as curator:
        session = ShellSession(curator, epsilon, as_json=asker.as_json)
        if sys.stdin.isatty():
            edit_lines(session.words())
            print(f"{curator.analyst}: ε={epsilon} a question. \\tables shows what can be asked, \\help the rest.")
        session.read(_typed if sys.stdin.isatty() else sys.stdin.readline)


class ShellSession:
    """A person's session at the shell: reads lines, asks, and shows answers."""

    def __init__(self, curator: Curator, epsilon: str, *, as_json: bool = False) -> None:
        self._curator = curator
        self._as_json = as_json
        self.epsilon = epsilon
        positive(epsilon, "--epsilon")

    def words(self) -> list[str]:
        """Return the words for completion: tables, columns, functions, words of SQL and commands."""
        from hush.query.functions import FUNCTIONS, REWRITES
        from hush.query.question import AGGREGATES

        records: list[Any] = [*AGGREGATES, *FUNCTIONS.values(), *REWRITES]
        functions = {f"{name}(" for record in records for name in record.names}
        tables = self._curator.tables()
        columns = [column for table in tables.values() for column in table]
        return sorted({*tables, *columns, *functions, *_SQL.split(), *(f"\\{command}" for command in COMMANDS)})

    def read(self, line: Callable[[], str]) -> None:
        """Read lines until the end, and run each question and each command."""
        question = ""
        for typed in chain(iter(line, ""), [""]):  # the end of the input ends a question, too
            text = typed.rstrip("\n")
            if not question and text.lstrip().startswith("\\"):
                if not self.told(self.command, text.strip()[1:]):
                    return
                continue
            question += text + "\n"
            if text.rstrip().endswith(";") or not text.strip():
                if question.strip(" \n;"):
                    self.told(self.ask, question.strip().rstrip(";"))
                question = ""

    def told(self, do: Callable[[str], Any], text: str) -> bool:
        """Run a function and print its error, if any; return whether the session goes on."""
        try:
            return do(text) is not False
        except HushError as error:
            print(f"error: {visible(str(error))}", file=sys.stderr)
        except KeyboardInterrupt:  # ends one question, not the session; `working` says whether it was charged
            pass
        return True

    def ask(self, question: str, *, fresh: bool = False) -> None:
        """Ask a question."""
        with working("asking", quiet=self._as_json, pays=True):
            answer = self._curator.ask(question, epsilon=self.epsilon, fresh=fresh)
        self._print(answer)

    def command(self, text: str) -> bool | None:
        """Run a command of the shell; return False to leave the shell."""
        name, _, rest = text.partition(" ")
        rest = rest.strip().rstrip(";")
        match name:
            case "quit" | "q":
                return False
            case "tables" | "budget":
                tell(None, str(getattr(self._curator, name)()), as_json=False)
            case "history":
                tell(None, *map(repr, reversed(self._curator.history(limit=20))), as_json=False)
            case "epsilon":
                positive(rest, "epsilon")
                self.epsilon = rest
            case "explain":
                tell(None, str(self._curator.explain(rest, epsilon=self.epsilon)), as_json=False)
            case "dummy":
                with self._curator.dummy() as dummy:
                    self._print(dummy.ask(rest, epsilon=self.epsilon))
            case "fresh":
                self.ask(rest, fresh=True)
            case "show":
                self._print(self._curator.show(rest))
            case _:
                lines = cleandoc(shell.__doc__ or "").splitlines()
                print("\n".join(line for line in lines if line.startswith("    \\")))
        return None

    def _print(self, answer: Any) -> None:
        tell(answer.to_json(), answer, as_json=self._as_json)


def _typed() -> str:
    """Return the next typed line; an empty text at the end of the input."""
    try:
        return input("hush> ") + "\n"
    except EOFError:
        print()
        return ""


def edit_lines(words: Iterable[str]) -> None:
    """Set up line editing, completion, and a history that is kept between sessions."""
    try:
        import readline
    except ImportError:  # not everywhere
        return
    listed = list(words)

    def complete(text: str, state: int) -> str | None:
        found = [word for word in listed if word.casefold().startswith(text.casefold())]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n,()=<>+*/;")
    readline.parse_and_bind("tab: complete")
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "hush"
    with suppress(OSError):
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = state / "shell_history"
        file.touch(mode=0o600)
        readline.read_history_file(file)
        import atexit

        atexit.register(readline.write_history_file, file)
