"""The questions of ``hush init`` on a terminal, about everything that must not be decided from the data.

First whose rows these are, in all tables; then what is publicly known of each column; then how much may ever be
learned, with what that buys; then who may ask. What is answered is checked by the policy's own rules and asked again if
they refuse it. An empty answer leaves the place open. No question shows anything of a row, and what is proposed comes
from the names of columns alone.

*Going back.* The interview is a function of the answers so far: `<` forgets the last answer and runs it again, the
earlier answers given without a word. So a question may depend on any answer before it.

>>> what_it_buys("1", "")
'about 16 counts at ±50, or 170 at ±500'
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import typer

from hush.cli.output import console
from hush.core import HushError, InvalidValueError, exact, positive
from hush.core.format import visible
from hush.core.storage import DECIMALS, ENCODINGS, text_encoding
from hush.ledger import Budget
from hush.ledger.entries import label
from hush.ledger.history import counts
from hush.mechanisms import propose_delta
from hush.policy.draft import (
    LEAVE_OUT,
    PUBLIC,
    Draft,
    DraftTable,
    checked_words,
    first_words,
    known_words,
    read_count,
    read_delta,
    read_epsilon,
    read_list,
    usual_words,
)
from hush.policy.file import UNIT_PATH
from hush.query.date_formats import format_like
from hush.query.plan.stability import MAX_GROUPS, MAX_ROWS
from hush.query.types import Kind

T = TypeVar("T")
_BACK = frozenset({"<", "back"})
_SKIP = "."
_TAKE = "="
_EXAMPLES = {
    Kind.INTEGER: "range of whole numbers, such as 0..100",
    Kind.DECIMAL: "range of numbers, such as 0..5000",
    Kind.DATE: "range of dates, such as 2024-01-01..2024-12-31",
    Kind.TIMESTAMP: "range of times, such as 2024-01-01..2024-12-31 23:59:59",
    Kind.TEXT: "public values, with commas between",
}
_IDENTIFIER = re.compile(r"(?i)(.*[_ ])?(id|no|nr|key|number)|[a-z]id|[a-z]+(?-i:Id|ID)")
_PROPOSED = "2"
_STRENGTH = {"1": "strong", "2": "good", "4": "moderate", "8": "weak"}


class _BackError(Exception):
    """The owner wants the last question again."""


class Interview:
    """Questions on a terminal; the owner can go back to each earlier one."""

    def __init__(self) -> None:
        self._answers: list[Any] = []
        self._next = 0

    def hold(self, script: Callable[[Interview], T]) -> T:
        """Run a script of questions to its end, and again from the start each time the owner goes back."""
        while True:
            self._next = 0
            try:
                return script(self)
            except _BackError:
                self._answers.pop()

    def say(self, text: str) -> None:
        """Print a text, unless it was printed before, in an earlier run of the script."""
        if self._next == len(self._answers):
            console().print(text, markup=False)

    def ask(self, question: str, check: Callable[[str], T], *, empty: T, usual: str = "") -> T:
        """Ask until the answer is valid; an empty answer returns ``empty``, and = stands for the ``usual`` one."""
        if self._next == len(self._answers):
            offer = f" ({_TAKE} takes {usual})" if usual else ""
            offer = f" ({_TAKE} leaves it out)" if usual == LEAVE_OUT else offer
            self._answers.append(self._typed(question + offer, check, empty, usual))
        self._next += 1
        answer: T = self._answers[self._next - 1]
        return answer

    def _typed(self, question: str, check: Callable[[str], T], empty: T, usual: str) -> T:
        while True:
            said = typer.prompt(visible(question), default="", show_default=False).strip()
            if not said:
                return empty
            said = usual if said == _TAKE else said
            if said.casefold() in _BACK and self._answers:
                raise _BackError
            try:
                said.encode()  # a policy is written in UTF-8; a terminal can send half of a surrogate pair
                if said and said.casefold() not in _BACK:
                    return check(said)
                problem = "This is the first question." if said else "Nothing is proposed here; say it in words."
            except UnicodeEncodeError:
                problem = "That cannot be written as UTF-8."
            except HushError as error:
                problem = str(error)
            console().print(problem, markup=False)


def interview(talk: Interview, draft: Draft, *, given: Collection[str] = ()) -> Draft:
    """Ask for all that a draft leaves open; ``given`` are the words about text files that are said already."""
    talk.say(
        "Say what you know of the subject, never what you saw in the data: analysts may read it. Nothing is proposed "
        "from rows.\n"
        "  (empty) decide later   - leave a column out          = take what is proposed\n"
        "  < go back              . leave the rest of a table   Ctrl-C write nothing\n"
    )
    draft = replace(draft, tables=_ask_reading(talk, draft.tables, given))
    if any(table.untyped for table in draft.tables):
        question = "How do they write 31 December 2024? (empty: 2024-12-31)"
        draft = replace(draft, dates=talk.ask(question, format_like, empty=""))
    if draft.unit == "":
        draft = replace(draft, unit=_ask_unit(talk, draft))
    paths = {table.name: _ask_path(talk, table, draft) for table in draft.without_unit}
    tables = [replace(table, unit=paths.get(table.name, "")) for table in draft.tables]
    draft = replace(draft, tables=[_ask_table(talk, table, draft.unit) for table in tables])
    epsilon, delta = _ask_budget(talk, draft)
    talk.say("")
    analysts = talk.ask("Who may ask? Names, with commas between (empty: alice)", _names, empty=tuple(draft.analysts))

    def no_more(said: str) -> str:
        if positive(said, "ε") > (exact(epsilon, "ε") if epsilon else math.inf):
            raise InvalidValueError("ε", got=said, allowed=f"at most the data's {epsilon}")
        return said

    own = talk.ask("A budget of their own, ε for each (empty: none, they share the data's)", no_more, empty="")
    return replace(draft, epsilon=epsilon, delta=delta, analysts=analysts, own_epsilon=own)


def agreed(what: str, *, default: bool = False) -> bool:
    """Ask for yes or no; an empty answer is the default."""
    try:
        return typer.confirm(what, default=default)
    except typer.Abort:
        return False


def _ask_unit(talk: Interview, draft: Draft) -> str | None:
    """Ask for the unit's column, which identifies a person; return an empty text to decide later."""
    holders = draft.holders
    likely = sorted(filter(_IDENTIFIER.fullmatch, holders), key=lambda name: -len(holders[name]))
    # Proposed only if it is clear: one likely name, or one that more tables have than any other.
    clear = likely and (len(likely) == 1 or len(holders[likely[0]]) > len(holders[likely[1]]))
    usual = likely[0] if clear else ""
    talk.say(f"Whose row is it? One of the columns {', '.join(holders)},")
    undecided: str | None = ""
    question = 'or "every row" if every row is another person'
    return talk.ask(question, lambda said: draft.read_unit(said, "--unit"), empty=undecided, usual=usual)


def _ask_path(talk: Interview, table: DraftTable, draft: Draft) -> str:
    """Ask where a table without the unit's column finds its unit, or whether it is public."""
    suggested = draft.suggested_paths(table)
    # Those over a column that by its name is the other table's key, as visits … via visit_id.
    parts = {path: path.replace('"', "").casefold().partition(" via ") for path in suggested}
    likely = [path for path, (other, _, key) in parts.items() if key.startswith(other.partition(".")[0].rstrip("s"))]
    usual = likely[0] if len(likely) == 1 else ""
    others = f" Such as {', or '.join(likely[:3])}." if len(likely) > 1 else ""

    def path(said: str) -> str:
        if said.casefold() == PUBLIC:
            return PUBLIC
        match = UNIT_PATH.fullmatch(said)
        others = {other.name.casefold() for other in draft.tables if other.name != table.name}
        if match is None or match[1].strip('"').casefold() not in others or not table.has(match[3].strip('"')):
            allowed = f'"TABLE.{draft.unit} via COLUMN" with another table and a column of {table.name}, or public'
            raise InvalidValueError(f"the unit of {table.name}", got=said, allowed=allowed)
        return said

    talk.say(f"\nTable {table.name} has no column {draft.unit}. Where is the row that has it?{others}")
    question = f'  "TABLE.{draft.unit} via COLUMN", or "public" if anybody may know {table.name}'
    return talk.ask(question, path, empty="", usual=usual)


def _ask_table(talk: Interview, table: DraftTable, unit: str | None) -> DraftTable:
    """Ask for the limits and the columns of a table, unless it is public."""
    if table.unit == PUBLIC:
        return table
    talk.say(f"\nTable {table.name}")
    rows = groups = "1"
    if unit:
        question = f"  How many rows has one {unit}, typically? More needs more noise (empty: 1)"
        rows = talk.ask(question, lambda said: read_count(said, "max_rows", MAX_ROWS), empty="1")
    if rows != "1":
        question = f"  In how many groups, such as months, may one {unit} count? (empty: 1)"
        groups = talk.ask(question, lambda said: read_count(said, "max_groups", MAX_GROUPS), empty="1")
    return replace(table, max_groups=groups, max_rows=rows, words=_ask_columns(talk, table, unit))


def _ask_columns(talk: Interview, table: DraftTable, unit: str | None) -> dict[str, Mapping[str, Any] | None]:
    """Ask for the public facts about each column of a table; None for a column that is left out."""
    held = {column: first_words(sql_type) for column, sql_type in table.columns_but(unit).items()}
    declared = {column: words for column, words in held.items() if words}
    asked = {column: words for column, words in declared.items() if words["type"] != Kind.BOOLEAN.value}
    if asked:
        talk.say("  What may anybody know of its columns?")
    if asked and table.untyped:
        talk.say(
            "  The file keeps no types, so say them too:  int 0..120  decimal 0..50 step 0.01\n"
            "  date 2024-01-01..2024-12-31  text  or public values: red, green, blue"
        )
    known: dict[str, Mapping[str, Any] | None] = {}
    for column, words in asked.items():
        answer = _ask_column(talk, column, words, untyped=table.untyped)
        if answer == _SKIP:
            break
        if answer != words:
            known[column] = answer if isinstance(answer, Mapping) else None
    if declared and all(known.get(column, words) is None for column, words in declared.items()):
        kept = next(reversed(declared))
        del known[kept]
        talk.say(f"  A table needs a column that can be asked about: {kept} stays.")
    return known


def _ask_column(talk: Interview, column: str, words: dict[str, Any], *, untyped: bool) -> Mapping[str, Any] | str:
    """Ask about one column; return its declaration, or the sign that skips the column or the rest of the table."""
    kind = Kind(words["type"])
    usual = usual_words(column, None if untyped else kind)

    def read(said: str) -> Mapping[str, Any] | str:
        return said if said in {_SKIP, LEAVE_OUT} else known_words(column, said, words, untyped=untyped)

    name = column if untyped else f"{column}: {_EXAMPLES[kind]}"
    nothing: Mapping[str, Any] | str = words
    answer = talk.ask(f"  {name}", read, empty=nothing, usual=usual)
    if not isinstance(answer, Mapping):
        return answer
    kind = Kind(answer["type"])
    if untyped and answer.keys() == {"type"} and answer["type"] != words["type"] and kind.ranged:  # a type, no more
        asked: Mapping[str, Any] = dict(answer)
        question = f"  {column}: {_EXAMPLES[kind]}"
        answer = talk.ask(question, lambda said: known_words(column, said, asked, untyped=False), empty=asked)
    if "lower" in answer and "upper" not in answer:
        ends: Mapping[str, Any] = dict(answer)
        answer = talk.ask(
            f"  {column}: upper bound", lambda said: checked_words(column, {**ends, "upper": said}), empty=ends
        )
    return answer


def _ask_budget(talk: Interview, given: Draft) -> tuple[str, str]:
    """Ask for the lifetime budget (ε, δ), and show how many counts it pays for."""
    if given.epsilon and given.delta:
        return given.epsilon, given.delta
    delta, epsilon = given.delta, given.epsilon
    if not delta:
        talk.say("\nHow much may all answers together, for ever, reveal about one person?")
        people = talk.ask(
            "About how many people are in the data, as far as anybody knows? (empty: 10000)",
            lambda said: float(positive(said.replace(",", "").replace("_", ""), "the number of people")),
            empty=1e4,
        )
        delta = proposed_delta(people)
    if not epsilon:
        talk.say("What a lifetime budget of ε buys, in counts (± holds 19 times in 20):")
        for offer, strength in _STRENGTH.items():
            talk.say(f"  ε = {offer}  {strength:<8}  {what_it_buys(offer, delta)}")
        talk.say("All counts of one GROUP BY are one of them. Sums, means and medians cost more.")
        epsilon = talk.ask("ε", lambda said: read_epsilon(said, "--epsilon"), empty="", usual=_PROPOSED)
    if not given.delta:
        proposed, question = delta, "δ, the chance that ε fails; 0 buys less, and no private keys"
        delta = talk.ask(question, lambda said: read_delta(said, "--delta"), empty="", usual=proposed)
        if epsilon and delta != proposed:
            talk.say(f"That buys {what_it_buys(epsilon, delta)}.")
    return epsilon, delta


def proposed_delta(people: float) -> str:
    """Return the power of ten below `hush.propose_delta`, and at most its proposal for unknown numbers of people.

    >>> proposed_delta(8_000), proposed_delta(1_000_000)
    ('1e-6', '1e-7')
    """
    delta = min(propose_delta(), propose_delta(math.ceil(min(max(people, 2), 1e12))))
    return f"1e{math.floor(math.log10(delta))}"


def what_it_buys(epsilon: str, delta: str) -> str:
    """Return how many good counts a budget is worth, in words."""
    account = Budget(epsilon=epsilon, delta=delta or 0).open()
    good, rough = (f"{float(f'{counts(account, error=error):.2g}'):,.0f}" for error in (50, 500))
    return f"about {good} counts at ±50, or {rough} at ±500"


def _ask_reading(talk: Interview, tables: Sequence[DraftTable], given: Collection[str]) -> list[DraftTable]:
    """Ask how text files store characters and numbers; an empty answer takes the proposals of their first lines."""
    readings = [table.reading for table in tables if "encoding" in table.reading]  # those of CSV files
    said: dict[str, str] = {}
    for key, read, question in (
        ("encoding", _encoding, "How do the text files store letters like é? (empty: {}; old Excel: windows-1252)"),
        ("decimal", _decimal, "What stands before decimals in them, a point or a comma? (empty: {})"),
    ):
        # One answer is for all files, so it is asked for where the same is proposed for all.
        if readings and key not in given and len({reading[key] for reading in readings}) == 1:
            said[key] = talk.ask(question.format(readings[0][key]), read, empty=readings[0][key])
    return [
        replace(table, reading={**table.reading, **said}) if "encoding" in table.reading else table for table in tables
    ]


def _encoding(said: str) -> str:
    if text_encoding(said) is None:
        raise InvalidValueError("encoding", got=said, allowed=f"an encoding, such as {ENCODINGS}")
    return said


def _decimal(said: str) -> str:
    mark = {"point": ".", "comma": ","}.get(said.casefold(), said)
    if mark not in DECIMALS:
        raise InvalidValueError("decimal", got=said, allowed="a point or a comma")
    return mark


def _names(said: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label(name, "name") for name in read_list(said, "names")))
