"""What ``hush init`` asks on a terminal: what the data must not decide.

The unit and the budget first, then for each column what is publicly known of it: bounds of numbers, dates and times,
lists of texts. What is answered is checked by the policy's own rules and asked again if they refuse it; an empty answer
leaves the place open, and ``.`` the rest of a table. No question shows anything of a row.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

import typer

from hush.cli.output import console
from hush.core import HushError, InvalidValueError, exact, positive
from hush.core.format import visible
from hush.ledger import Budget
from hush.ledger.reading import counts
from hush.policy.columns import column_type
from hush.policy.document import Document, PolicyError, Section
from hush.policy.draft import first_words
from hush.query.errors import did_you_mean
from hush.query.types import Kind

T = TypeVar("T")
_SKIP = "."
_TAKE = "="
EVERY_ROW = "every row"
"""The answer that every row is another person."""
_EVERY_ROW = frozenset({EVERY_ROW, "row", "each row", "every row is another person"})
_USUAL = {"age": "0..120", "sex": "female, male", "gender": "female, male", "month": "1..12", "year": "1900..2100"}
"""What is usual for columns of well-known names; never taken from rows, and never without a word of the owner."""
_TYPES = {"int": "integer", "float": "decimal", "number": "decimal", "str": "text", "string": "text", "bool": "boolean"}
_EXAMPLES = {Kind.DATE: ", such as 2024-12-31", Kind.TIMESTAMP: ", such as 2024-12-31 23:59:59"}


class _SkippedError(Exception):
    """The owner has had enough of a table's questions."""


def agreed(what: str) -> bool:
    """Ask for a yes or a no; nothing is a no."""
    try:
        return typer.confirm(what, default=False)
    except typer.Abort:
        return False


def ask_unit(names: Collection[str]) -> str:
    """Ask for the column that says whose row it is; nothing if it is to be decided later."""
    listed = ", ".join(names)
    words = f'Whose row is it? One of {listed}; "{EVERY_ROW}" if every row is another person; empty to decide later'
    return _asked(words, lambda said: a_unit(said, names)) or ""


def a_unit(said: str, names: Collection[str]) -> str:
    """Return the unit, if it is the name of a column, or `EVERY_ROW` if there is none."""
    if " ".join(said.casefold().split()) in _EVERY_ROW and said not in names:
        return EVERY_ROW
    if said.casefold() not in {name.casefold() for name in names}:
        hint = did_you_mean(said, names, otherwise=f"There are {', '.join(list(names)[:20])}.")
        raise InvalidValueError("--unit", got=said, allowed="a column of one of the tables", hint=hint)
    return said


def ask_epsilon() -> str:
    """Ask for the lifetime budget."""
    return _asked("Lifetime budget ε (1 is strong, 10 weak; empty to decide later)", an_epsilon) or ""


def an_epsilon(said: str) -> str:
    """Return ε as it was written, if it is one."""
    positive(said, "--epsilon")
    return said


def what_it_buys(epsilon: str, delta: str) -> str:
    """Return how many good counts a budget is worth, in words."""
    account = Budget(epsilon=epsilon, delta=delta or 0).open()
    return (
        f"That is enough for about {counts(account):,} counts that are right to within ±50, nineteen times in twenty."
    )


def ask_delta() -> str:
    """Ask for the budget's δ."""
    words = "far below one over the number of people, such as 1e-7; empty for 0, which allows no private keys"
    return _asked(f"Its δ ({words})", a_delta) or ""


def a_delta(said: str) -> str:
    """Return δ as it was written, if it is one."""
    allowed = "a number of at least 0 and below 1"
    if not 0 <= exact(said, "--delta", allowed=allowed) < 1:
        raise InvalidValueError("--delta", got=said, allowed=allowed)
    return said


def ask_columns(
    columns: Iterable[tuple[str, str, str]], *, unit: str, untyped: Collection[str]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Ask for each column what is public about it; return the words of the columns of which something was said."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for table, column, sql_type in columns:
        words = first_words(sql_type)
        if words and words["type"] != Kind.BOOLEAN.value and column.casefold() != unit.casefold():
            tables.setdefault(table, {})[column] = words
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for table, asked in tables.items():
        console().print(
            f"\nTable {table}: what may anybody know of its columns? Say what you know of the subject, never what you "
            f'saw in the data. An empty answer leaves a place open, "{_SKIP}" the rest of this table.',
            markup=False,
        )
        for column, words in asked.items():
            before = dict(words)
            try:
                _ask_column(column, words, untyped=table in untyped)
            except _SkippedError:
                break
            finally:
                if words != before:
                    found[table, column] = words
    return found


def _ask_column(column: str, words: dict[str, Any], *, untyped: bool) -> None:
    """Ask about one column, and add what is answered to its words."""

    def add(key: str, question: str, read: Callable[[str], Any] = str) -> None:
        def check(said: str) -> Any:
            value = read(said)
            column_type(Section(Document("", {}), (column,), {**words, key: value}))
            return value

        if (value := _asked(question, check, may_skip=True)) is not None:
            words[key] = value

    kinds = [kind.value for kind in Kind]
    if untyped:
        types = f"{column}: {', '.join(kinds[:-1])} or {kinds[-1]} (empty: {words['type']})"
        add("type", types, lambda said: _TYPES.get(said.casefold(), said))
    kind = Kind(words["type"])
    usual = _USUAL.get(column.casefold(), "")
    usual = usual if usual and (".." in usual) == kind.ranged and kind.numeric == kind.ranged else ""
    offered = f' (usual is {usual}: "{_TAKE}" takes it)' if usual else ""
    if kind is Kind.TEXT:
        question = f"{column} ({kind.value}): its public values, separated by commas{offered}"
        add("values", question, lambda said: _texts(usual if said == _TAKE else said))
    elif kind.ranged:
        ends: list[str] = []

        def lower(said: str) -> str:
            first, dots, last = (usual if said == _TAKE and usual else said).partition("..")
            if dots:
                both = {**words, "lower": first.strip(), "upper": last.strip()}
                column_type(Section(Document("", {}), (column,), both))
                ends[:] = [last.strip()]
            return first.strip()

        example = _EXAMPLES.get(kind, ", or both as 0..100" if kind.numeric else "")
        add("lower", f"{column} ({kind.value}): lower bound{example}{offered}", lower)
        if ends:
            words["upper"] = ends[0]
        else:
            add("upper", f"{column} ({kind.value}): upper bound")


def _texts(said: str) -> list[str]:
    """Return the texts of a list; one with a comma in it stands in double quotes."""
    found = [text.strip() for text in next(csv.reader([said], skipinitialspace=True))]
    return [text for text in found if text]


def _asked(question: str, check: Callable[[str], T], *, may_skip: bool = False) -> T | None:
    """Ask until the answer is right, or empty."""
    while True:
        said = typer.prompt(visible(question), default="", show_default=False).strip()
        if not said:
            return None
        if may_skip and said == _SKIP:
            raise _SkippedError
        try:
            said.encode()
            return check(said)
        except UnicodeEncodeError:
            problem = "That cannot be written as UTF-8."
        except PolicyError as error:
            problem = f"{error.what} {error.hint}".rstrip()
        except HushError as error:
            problem = str(error)
        console().print(problem, markup=False)
