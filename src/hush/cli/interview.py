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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
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
from hush.policy.document import PolicyError
from hush.policy.draft import (
    LEAVE_OUT,
    PUBLIC,
    checked_words,
    first_words,
    known_words,
    suggested_paths,
    texts,
    usual_words,
    without_unit,
)
from hush.policy.file import UNIT_PATH
from hush.query.date_formats import format_like
from hush.query.errors import did_you_mean
from hush.query.plan.stability import MAX_GROUPS, MAX_ROWS
from hush.query.types import Kind

T = TypeVar("T")
_BACK = frozenset({"<", "back"})
_SKIP = "."
_TAKE = "="
EVERY_ROW = "every row"
"""The answer that every row is another person."""
_EVERY_ROW = frozenset({EVERY_ROW, "row", "each row", "every row is another person"})
_EXAMPLES = {
    Kind.INTEGER: "range of whole numbers, such as 0..100",
    Kind.DECIMAL: "range of numbers, such as 0..5000",
    Kind.DATE: "range of dates, such as 2024-01-01..2024-12-31",
    Kind.TIMESTAMP: "range of times, such as 2024-01-01..2024-12-31 23:59:59",
    Kind.TEXT: "public values, with commas between",
}
_IDENTIFIER = re.compile(r"(?i)(.*[_ ])?(id|no|nr|key|number)|[a-z]id|[a-z]+(?-i:Id|ID)")
_OFFERED = ("1", "2", "4", "8")
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

    def ask(self, question: str, check: Callable[[str], T], *, empty: T) -> T:
        """Ask until the answer is valid; an empty answer returns ``empty``."""
        if self._next == len(self._answers):
            self._answers.append(self._typed(question, check, empty))
        self._next += 1
        answer: T = self._answers[self._next - 1]
        return answer

    def _typed(self, question: str, check: Callable[[str], T], empty: T) -> T:
        while True:
            said = typer.prompt(visible(question), default="", show_default=False).strip()
            if not said:
                return empty
            if said.casefold() in _BACK:
                if self._answers:
                    raise _BackError
                console().print("This is the first question.", markup=False)
                continue
            try:
                said.encode()  # a policy is written in UTF-8; a terminal can send half of a surrogate pair
                return check(said)
            except UnicodeEncodeError:
                problem = "That cannot be written as UTF-8."
            except PolicyError as error:
                problem = f"{error.what} {error.hint}".rstrip()
            except HushError as error:
                problem = str(error)
            console().print(problem, markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The owner's answers, in the words of `hush.policy.draft.draft`."""

    reading: Mapping[str, str] = field(default_factory=dict)
    """How text files are written, in the policy's words, as far as it was asked."""
    unit: str = ""
    """The unit's column, `EVERY_ROW`, or nothing if it is open."""
    paths: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    columns: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    left_out: Collection[tuple[str, str]] = ()
    epsilon: str = ""
    delta: str = ""
    analysts: Sequence[str] = ("alice",)
    own_epsilon: str = ""


def interview(
    talk: Interview,
    columns: Sequence[tuple[str, str, str]],
    *,
    untyped: Collection[str],
    given: Said,
    proposed: Mapping[str, str] = MappingProxyType({}),
) -> Said:
    """Ask for everything that is not given yet; ``proposed`` are the words about text files that are asked for."""
    talk.say(
        "Say what you know of the subject, never what you saw in the data: analysts may read it. Nothing is proposed "
        "from rows.\n"
        "  (empty) decide later   - leave a column out          = take what is proposed\n"
        "  < go back              . leave the rest of a table   Ctrl-C write nothing\n"
    )
    reading = _ask_reading(talk, proposed)
    date_format = ""
    if untyped:
        question = "How do they write 31 December 2024? (empty: 2024-12-31)"
        date_format = talk.ask(question, format_like, empty="")
    unit = given.unit or _ask_unit(talk, columns)
    paths = _ask_paths(talk, columns, unit)
    tables: dict[str, list[tuple[str, str]]] = {}
    for table, column, sql_type in columns:
        if paths.get(table) != PUBLIC:
            tables.setdefault(table, []).append((column, sql_type))
    limits: dict[str, tuple[str, str]] = {}
    known: dict[tuple[str, str], Mapping[str, Any]] = {}
    left_out: set[tuple[str, str]] = set()
    for table, held in tables.items():
        talk.say(f"\nTable {table}")
        if unit not in {"", EVERY_ROW}:
            limits[table] = _ask_limits(talk, unit)
        for column, words in _ask_columns(talk, held, unit=unit, untyped=table in untyped).items():
            if words is None:
                left_out.add((table, column))
            else:
                known[table, column] = _formatted(words, date_format) if table in untyped else words
    epsilon, delta = _ask_budget(talk, given)
    talk.say("")
    somebody: tuple[str, ...] = ("alice",)
    analysts = talk.ask("Who may ask? Names, with commas between (empty: alice)", _names, empty=somebody)

    def no_more(said: str) -> str:
        if positive(said, "ε") > (exact(epsilon, "ε") if epsilon else math.inf):
            raise InvalidValueError("ε", got=said, allowed=f"at most the data's {epsilon}")
        return said

    own = talk.ask("A budget of their own, ε for each (empty: none, they share the data's)", no_more, empty="")
    return Said(
        reading=reading,
        unit=unit,
        paths=paths,
        limits=limits,
        columns=known,
        left_out=left_out,
        epsilon=epsilon,
        delta=delta,
        analysts=analysts,
        own_epsilon=own,
    )


def agreed(what: str, *, default: bool = False) -> bool:
    """Ask for yes or no; an empty answer is the default."""
    try:
        return typer.confirm(what, default=default)
    except typer.Abort:
        return False


def _ask_unit(talk: Interview, columns: Iterable[tuple[str, str, str]]) -> str:
    """Ask for the unit's column, which identifies a person; return an empty text to decide later."""
    tables: dict[str, list[str]] = {}
    for table, column, _ in columns:
        tables.setdefault(column, []).append(table)
    likely = sorted(
        (name for name in tables if _IDENTIFIER.fullmatch(name)),
        key=lambda name: -len(tables[name]),
    )
    # Proposed only if it is clear: one likely name, or one that more tables have than any other.
    usual = likely[0] if likely and (len(likely) == 1 or len(tables[likely[0]]) > len(tables[likely[1]])) else ""
    talk.say(f"Whose row is it? One of the columns {', '.join(tables)},")
    return talk.ask(
        f'or "{EVERY_ROW}" if every row is another person{_offer(usual)}',
        lambda said: a_unit(_taken(said, usual), tables),
        empty="",
    )


def a_unit(said: str, names: Collection[str]) -> str:
    """Return the unit, if it is the name of a column, or `EVERY_ROW` if there is none."""
    if " ".join(said.casefold().split()) in _EVERY_ROW and said not in names:
        return EVERY_ROW
    if said.casefold() not in {name.casefold() for name in names}:
        hint = did_you_mean(said, names, otherwise=f"There are {', '.join(list(names)[:20])}.")
        raise InvalidValueError("--unit", got=said, allowed="a column of one of the tables", hint=hint)
    return said


def _ask_paths(talk: Interview, columns: Sequence[tuple[str, str, str]], unit: str) -> dict[str, str]:
    """Ask, for each table without the unit's column, for its path to the unit or whether the table is public."""
    if unit in {"", EVERY_ROW}:
        return {}
    names = {table.casefold() for table, _, _ in columns}
    held = {(table.casefold(), column.casefold()) for table, column, _ in columns}

    def path(table: str, usual: str, said: str) -> str:
        said = _taken(said, usual)
        if said.casefold() == PUBLIC:
            return PUBLIC
        match = UNIT_PATH.fullmatch(said)
        other, key = ("", "") if match is None else (match[1].strip('"').casefold(), match[3].strip('"').casefold())
        if match is None or other not in names or (table.casefold(), key) not in held or other == table.casefold():
            allowed = f'"TABLE.{unit} via COLUMN" with another table and a column of {table}, or public'
            raise InvalidValueError(f"the unit of {table}", got=said, allowed=allowed)
        return said

    paths: dict[str, str] = {}
    for table in without_unit(columns, unit):
        likely = [path for path in suggested_paths(table, columns, unit) if _names_a_row(path)]
        usual = likely[0] if len(likely) == 1 else ""
        others = f" Such as {', or '.join(likely[:3])}." if len(likely) > 1 else ""
        talk.say(f"\nTable {table} has no column {unit}. Where is the row that has it?{others}")
        question = f'  "TABLE.{unit} via COLUMN", or "public" if anybody may know {table}{_offer(usual)}'
        paths[table] = talk.ask(question, partial(path, table, usual), empty="")
    return paths


def _names_a_row(path: str) -> bool:
    """Say whether a path goes over a column that by its name is the other table's key, as visits … via visit_id."""
    other, _, key = path.partition(" via ")
    return key.strip('"').casefold().startswith(other.partition(".")[0].strip('"').casefold().rstrip("s"))


def _ask_limits(talk: Interview, unit: str) -> tuple[str, str]:
    """Ask how many groups and rows of a table one unit may have: max_groups and max_rows."""
    rows = talk.ask(
        f"  How many rows has one {unit}, typically? More needs more noise (empty: 1)",
        lambda said: _count(said, "max_rows", MAX_ROWS),
        empty="1",
    )
    if rows == "1":
        return "1", "1"
    groups = talk.ask(
        f"  In how many groups, such as months, may one {unit} count? (empty: 1)",
        lambda said: _count(said, "max_groups", MAX_GROUPS),
        empty="1",
    )
    return groups, rows


def _count(said: str, name: str, largest: int) -> str:
    if not said.isdecimal() or not 1 <= int(said) <= largest:
        raise InvalidValueError(name, got=said, allowed=f"a whole number from 1 to {largest}")
    return str(int(said))


def _ask_columns(
    talk: Interview, columns: Sequence[tuple[str, str]], *, unit: str, untyped: bool
) -> dict[str, Mapping[str, Any] | None]:
    """Ask for the public facts about each column of a table; None for a column that is left out."""
    held = {column: first_words(sql_type) for column, sql_type in columns if column.casefold() != unit.casefold()}
    declared = {column: words for column, words in held.items() if words}
    asked = {column: words for column, words in declared.items() if words["type"] != Kind.BOOLEAN.value}
    if asked:
        talk.say("  What may anybody know of its columns?")
    if asked and untyped:
        talk.say(
            "  The file keeps no types, so say them too:  int 0..120  decimal 0..50 step 0.01\n"
            "  date 2024-01-01..2024-12-31  text  or public values: red, green, blue"
        )
    known: dict[str, Mapping[str, Any] | None] = {}
    for column, words in asked.items():
        answer = _ask_column(talk, column, words, untyped=untyped)
        if answer == _SKIP:
            break
        if answer == LEAVE_OUT:
            known[column] = None
        elif isinstance(answer, Mapping) and answer != words:
            known[column] = answer
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
        said = _taken(said, usual)
        return said if said in {_SKIP, LEAVE_OUT} else known_words(column, said, words, untyped=untyped)

    name = column if untyped else f"{column}: {_EXAMPLES[kind]}"
    nothing: Mapping[str, Any] | str = words
    answer = talk.ask(f"  {name}{_offer(usual)}", read, empty=nothing)
    if not isinstance(answer, Mapping):
        return answer
    kind = Kind(answer["type"])
    if untyped and answer.keys() == {"type"} and answer["type"] != words["type"] and kind.ranged:  # a type, no more
        asked: Mapping[str, Any] = dict(answer)
        question = f"  {column}: {_EXAMPLES[kind]}"
        answer = talk.ask(question, lambda said: known_words(column, said, asked, untyped=False), empty=asked)
    if "lower" in answer and "upper" not in answer:
        ends: Mapping[str, Any] = dict(answer)

        def upper(said: str) -> Mapping[str, Any]:
            return checked_words(column, {**ends, "upper": said})

        answer = talk.ask(f"  {column}: upper bound", upper, empty=ends)
    return answer


def _ask_budget(talk: Interview, given: Said) -> tuple[str, str]:
    """Ask for the lifetime budget (ε, δ), and show how many counts it pays for."""
    if given.epsilon and given.delta:
        return given.epsilon, given.delta
    delta = given.delta
    if not delta:
        talk.say("\nHow much may all answers together, for ever, reveal about one person?")
        people = talk.ask(
            "About how many people are in the data, as far as anybody knows? (empty: 10000)",
            lambda said: float(positive(said.replace(",", "").replace("_", ""), "the number of people")),
            empty=1e4,
        )
        delta = proposed_delta(people)
    epsilon = given.epsilon
    if not epsilon:
        talk.say("What a lifetime budget of ε buys, in counts (± holds 19 times in 20):")
        for offer in _OFFERED:
            talk.say(f"  ε = {offer}  {_STRENGTH[offer]:<8}  {what_it_buys(offer, delta)}")
        talk.say("All counts of one GROUP BY are one of them. Sums, means and medians cost more.")
        epsilon = talk.ask(f"ε{_offer(_PROPOSED)}", lambda said: an_epsilon(_taken(said, _PROPOSED)), empty="")
    if not given.delta:
        words = "the chance that ε fails; 0 buys less, and no private keys"
        proposed = delta
        question = f"δ, {words}{_offer(proposed)}"
        delta = talk.ask(question, lambda said: a_delta(_taken(said, proposed)), empty="")
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


def an_epsilon(said: str) -> str:
    """Return ε as it was written, after checking that it is positive."""
    positive(said, "--epsilon")
    return said


def a_delta(said: str) -> str:
    """Return δ as it was written, after checking that it is at least 0 and below 1."""
    allowed = "a number of at least 0 and below 1"
    if not 0 <= exact(said, "--delta", allowed=allowed) < 1:
        raise InvalidValueError("--delta", got=said, allowed=allowed)
    return said


def _ask_reading(talk: Interview, proposed: Mapping[str, str]) -> dict[str, str]:
    """Ask how text files store characters and numbers; an empty answer takes what their first lines propose."""
    said: dict[str, str] = {}
    if "encoding" in proposed:
        question = (
            f"How do the text files store letters like é? (empty: {proposed['encoding']}; old Excel: windows-1252)"
        )
        said["encoding"] = talk.ask(question, _encoding, empty=proposed["encoding"])
    if "decimal" in proposed:
        question = f"What stands before decimals in them, a point or a comma? (empty: {proposed['decimal']})"
        said["decimal"] = talk.ask(question, _decimal, empty=proposed["decimal"])
    return said


def _encoding(said: str) -> str:
    if text_encoding(said) is None:
        raise InvalidValueError("encoding", got=said, allowed=f"an encoding, such as {ENCODINGS}")
    return said


def _decimal(said: str) -> str:
    mark = {"point": ".", "comma": ","}.get(said.casefold(), said)
    if mark not in DECIMALS:
        raise InvalidValueError("decimal", got=said, allowed="a point or a comma")
    return mark


def _formatted(words: Mapping[str, Any], date_format: str) -> Mapping[str, Any]:
    """Return a column's words with the format of dates, if it fits; a time needs a format that has one."""
    kinds = {Kind.DATE.value} | ({Kind.TIMESTAMP.value} if "%H" in date_format else set())
    if not date_format or words["type"] not in kinds:
        return words
    return {"type": words["type"], "format": date_format, **words}


def _names(said: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label(name, "name") for name in texts(said)))


def _offer(usual: str) -> str:
    """Return a hint in brackets on how to accept the proposed answer."""
    if usual == LEAVE_OUT:
        return f" ({_TAKE} leaves it out)"
    return f" ({_TAKE} takes {usual})" if usual else ""


def _taken(said: str, usual: str) -> str:
    if said != _TAKE:
        return said
    if not usual:
        raise InvalidValueError("answer", got=_TAKE, allowed="said in words, as nothing is proposed here")
    return usual
