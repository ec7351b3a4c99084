"""What ``hush init`` asks on a terminal: what the data must not decide.

First whose rows these are, in all tables; then what is publicly known of each column; then how much may ever be
learned, with what that buys; then who may ask. What is answered is checked by the policy's own rules and asked again if
they refuse it. An empty answer leaves the place open. No question shows anything of a row, and what is proposed comes
from the names of columns alone.

*Going back.* The interview is a function of the answers so far: `<` forgets the last answer and runs it again, the
earlier answers given without a word. So a question may depend on any answer before it.

>>> known_words("age", "int 0..120", {"type": "text"}, untyped=True)
{'type': 'integer', 'lower': '0', 'upper': '120'}
>>> usual_words("birth_year"), usual_words("patient_name"), usual_words("cost")
('integer 1900..2100', '-', '')
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeVar

import typer

from hush.cli.output import console
from hush.core import HushError, InvalidValueError, exact, positive
from hush.core.format import visible
from hush.core.values import dataclass
from hush.ledger import Budget
from hush.ledger.actors import label
from hush.ledger.reading import counts
from hush.policy.columns import column_type
from hush.policy.document import Document, PolicyError, Section
from hush.policy.draft import PUBLIC, first_words, suggested_paths, without_unit
from hush.policy.units import UNIT_PATH
from hush.query.errors import did_you_mean
from hush.query.plan.limits import MAX_GROUPS, MAX_ROWS
from hush.query.types import Kind

T = TypeVar("T")
_BACK = frozenset({"<", "back"})
_SKIP = "."
_TAKE = "="
_LEAVE_OUT = "-"
EVERY_ROW = "every row"
"""The answer that every row is another person."""
_EVERY_ROW = frozenset({EVERY_ROW, "row", "each row", "every row is another person"})
_USUAL = {
    r"age|age_years": "integer 0..120",
    r"sex|gender": "text female, male",
    r"(year_of_)?birth(_?year)?|yob|year": "integer 1900..2100",
    r"month": "integer 1..12",
    r"hour": "integer 0..23",
    r"minute": "integer 0..59",
    r"weight(_kg)?": "decimal 0..300",
    r"height(_cm)?": "decimal 0..250",
    r"percent(age)?|.*_(percent|pct)": "decimal 0..100",
    r"lat(itude)?": "decimal -90..90",
    r"lon(gitude)?": "decimal -180..180",
    r"date|day|.*_(date|day)|date_.*|date_of_.*": "date 2000-01-01..2030-12-31",
    r"time(stamp)?|.*_(at|time|timestamp)": "timestamp 2000-01-01..2030-12-31",
    r"id|.*_id|uuid|.*name|e?mail|phone|.*_(e?mail|phone|address)|address|ssn|iban|notes?|comments?": _LEAVE_OUT,
}
"""What is usual for columns of well-known names; never taken from rows, and never without a word of the owner."""
_TYPES = {"int": "integer", "float": "decimal", "number": "decimal", "str": "text", "string": "text", "bool": "boolean"}
_INFERRED = (
    (r"[-+]?[0-9]+", Kind.INTEGER),
    (r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?", Kind.DECIMAL),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", Kind.DATE),
    (r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T].+", Kind.TIMESTAMP),
)
_EXAMPLES = {
    Kind.INTEGER: "its range, such as 0..100",
    Kind.DECIMAL: "its range, such as 0..5000",
    Kind.DATE: "its range, such as 2024-01-01..2024-12-31",
    Kind.TIMESTAMP: "its range, such as 2024-01-01..2024-12-31 23:59:59",
    Kind.TEXT: "its public values, with commas between",
}
_IDENTIFIER = re.compile(r"(?i)(.*[_ ])?(id|no|nr|key|number)|[a-z]id|[a-z]+(?-i:Id|ID)")
_OFFERED = ("1", "2", "4", "8")
_PROPOSED = "2"
_STRENGTH = {"1": "strong", "2": "good", "4": "moderate", "8": "weak"}


class _BackError(Exception):
    """The owner wants the last question again."""


class Conversation:
    """Questions on a terminal, of which any can be gone back to."""

    def __init__(self) -> None:
        self._answers: list[Any] = []
        self._next = 0

    def hold(self, script: Callable[[Conversation], T]) -> T:
        """Run a script of questions until it ends, as often as somebody goes back."""
        while True:
            self._next = 0
            try:
                return script(self)
            except _BackError:
                self._answers.pop()

    def say(self, text: str) -> None:
        """Print something, unless it was printed before the question that is gone back to."""
        if self._next == len(self._answers):
            console().print(text, markup=False)

    def ask(self, question: str, check: Callable[[str], T], *, empty: T) -> T:
        """Ask until the answer is right; nothing stands for ``empty``."""
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
                said.encode()
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
    """What the owner said, in the words of `hush.policy.draft.draft`."""

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
    talk: Conversation, columns: Sequence[tuple[str, str, str]], *, untyped: Collection[str], given: Said
) -> Said:
    """Ask for everything that is not given yet."""
    talk.say(
        'An empty answer leaves a place open for later, "<" goes back, Ctrl-C leaves without writing anything. Say '
        "what you know of the subject, never what you saw in the data: analysts may read it.\n"
    )
    unit = given.unit or _ask_unit(talk, columns)
    paths = _ask_paths(talk, columns, unit)
    limits = {} if unit in {"", EVERY_ROW} else _ask_limits(talk, columns, unit, paths)
    private = [column for column in columns if paths.get(column[0]) != PUBLIC]
    known, left_out = _ask_columns(talk, private, unit=unit, untyped=untyped)
    epsilon, delta = _ask_budget(talk, given)
    talk.say("")
    somebody: tuple[str, ...] = ("alice",)
    analysts = talk.ask("Who may ask? Names, with commas between (empty: alice)", _names, empty=somebody)
    own = talk.ask(
        "A budget of their own: ε for each of them (empty: none, they share the data's)",
        lambda said: _own(said, epsilon),
        empty="",
    )
    return Said(
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


def agreed(what: str) -> bool:
    """Ask for a yes or a no; nothing is a no."""
    try:
        return typer.confirm(what, default=False)
    except typer.Abort:
        return False


def _ask_unit(talk: Conversation, columns: Iterable[tuple[str, str, str]]) -> str:
    """Ask for the column that says whose row it is; nothing if it is to be decided later."""
    tables: dict[str, list[str]] = {}
    for table, column, _ in columns:
        tables.setdefault(column, []).append(table)
    likely = sorted(
        (name for name in tables if _IDENTIFIER.fullmatch(name)),
        key=lambda name: -len(tables[name]),
    )
    usual = likely[0] if likely and (len(likely) == 1 or len(tables[likely[0]]) > len(tables[likely[1]])) else ""
    words = f'Whose row is it? One of {", ".join(tables)}; or "{EVERY_ROW}" if every row is another person'
    return talk.ask(f"{words}{_offer(usual)}", lambda said: a_unit(_taken(said, usual), tables), empty="")


def a_unit(said: str, names: Collection[str]) -> str:
    """Return the unit, if it is the name of a column, or `EVERY_ROW` if there is none."""
    if " ".join(said.casefold().split()) in _EVERY_ROW and said not in names:
        return EVERY_ROW
    if said.casefold() not in {name.casefold() for name in names}:
        hint = did_you_mean(said, names, otherwise=f"There are {', '.join(list(names)[:20])}.")
        raise InvalidValueError("--unit", got=said, allowed="a column of one of the tables", hint=hint)
    return said


def _ask_paths(talk: Conversation, columns: Sequence[tuple[str, str, str]], unit: str) -> dict[str, str]:
    """Ask for each table without the unit over which key it finds it, or whether anybody may know it."""
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
        likely = suggested_paths(table, columns, unit)
        usual = likely[0] if len(likely) == 1 else ""
        others = f" Such as {', or '.join(likely[:3])}." if len(likely) > 1 else ""
        talk.say(f"\nTable {table} has no column {unit}. Over which key does a row find it, in another table?{others}")
        question = f'  "TABLE.{unit} via COLUMN", or "public" if anybody may know this table{_offer(usual)}'
        paths[table] = talk.ask(question, partial(path, table, usual), empty="")
    return paths


def _ask_limits(
    talk: Conversation, columns: Iterable[tuple[str, str, str]], unit: str, paths: Mapping[str, str]
) -> dict[str, tuple[str, str]]:
    """Ask for each private table how much of it one unit may make."""
    limits = {}
    for table in dict.fromkeys(table for table, _, _ in columns if paths.get(table) != PUBLIC):
        talk.say(f"\nTable {table}: rows beyond a limit count less, and a higher limit needs more noise.")
        rows = talk.ask(
            f"  How many rows does one {unit} typically have here? (empty: 1)",
            lambda said: _count(said, "max_rows", MAX_ROWS),
            empty="1",
        )
        groups = "1"
        if rows != "1":
            groups = talk.ask(
                f"  In how many groups of an answer, such as different months, may one {unit} count? (empty: 1)",
                lambda said: _count(said, "max_groups", MAX_GROUPS),
                empty="1",
            )
        limits[table] = groups, rows
    return limits


def _count(said: str, name: str, largest: int) -> str:
    if not said.isdecimal() or not 1 <= int(said) <= largest:
        raise InvalidValueError(name, got=said, allowed=f"a whole number from 1 to {largest}")
    return str(int(said))


def _ask_columns(
    talk: Conversation, columns: Sequence[tuple[str, str, str]], *, unit: str, untyped: Collection[str]
) -> tuple[dict[tuple[str, str], Mapping[str, Any]], set[tuple[str, str]]]:
    """Ask for each column what is public about it; return the words of columns, and the columns to leave out."""
    tables: dict[str, dict[str, dict[str, Any]]] = {}
    for table, column, sql_type in columns:
        words = first_words(sql_type)
        if words and words["type"] != Kind.BOOLEAN.value and column.casefold() != unit.casefold():
            tables.setdefault(table, {})[column] = words
    declared = {(table, column) for table, column, kind in columns if first_words(kind) and column != unit}
    known: dict[tuple[str, str], Mapping[str, Any]] = {}
    left_out: set[tuple[str, str]] = set()
    for table, asked in tables.items():
        talk.say(
            f"\nTable {table}: what may anybody know of its columns? "
            f'"{_LEAVE_OUT}" leaves a column out of the policy, "{_SKIP}" leaves the rest of this table open.'
        )
        if table in untyped:
            talk.say(
                "Its file keeps no types. Write for instance  int 0..120  or  decimal 0..5000 step 0.01  or  "
                "date 2024-01-01..2024-12-31  or  text  or public values:  red, green, blue"
            )
        for column, words in asked.items():
            answer = _ask_column(talk, column, words, untyped=table in untyped)
            if answer == _SKIP:
                break
            if answer == _LEAVE_OUT:
                left_out.add((table, column))
            elif isinstance(answer, Mapping) and answer != words:
                known[table, column] = answer
        if asked and not {
            column for holder, column in declared if holder == table and (holder, column) not in left_out
        }:
            left_out.discard((table, column))
            talk.say(f"  A table needs a column that can be asked about: {column} stays.")
    return known, left_out


def _ask_column(talk: Conversation, column: str, words: dict[str, Any], *, untyped: bool) -> Mapping[str, Any] | str:
    """Ask about one column; return its words, or that it, or the rest of its table, is left."""
    kind = Kind(words["type"])
    usual = usual_words(column, None if untyped else kind)

    def read(said: str) -> Mapping[str, Any] | str:
        said = _taken(said, usual)
        return said if said in {_SKIP, _LEAVE_OUT} else known_words(column, said, words, untyped=untyped)

    what = "its type and range, or its values" if untyped else _EXAMPLES[kind]
    name = column if untyped else f"{column} ({kind.value})"
    nothing: Mapping[str, Any] | str = words
    answer = talk.ask(f"  {name}: {what}{_offer(usual)}", read, empty=nothing)
    if not isinstance(answer, Mapping):
        return answer
    kind = Kind(answer["type"])
    if untyped and answer.keys() == {"type"} and answer["type"] != words["type"] and kind.ranged:  # a type, no more
        asked: Mapping[str, Any] = dict(answer)
        question = f"  {column} ({kind.value}): {_EXAMPLES[kind]}"
        answer = talk.ask(question, lambda said: known_words(column, said, asked, untyped=False), empty=asked)
    if "lower" in answer and "upper" not in answer:
        ends: Mapping[str, Any] = dict(answer)

        def upper(said: str) -> Mapping[str, Any]:
            return _checked(column, {**ends, "upper": said})

        answer = talk.ask(f"  {column} ({kind.value}): upper bound", upper, empty=ends)
    return answer


def usual_words(column: str, kind: Kind | None = None) -> str:
    """Return what is usual for a column of a well-known name, and of this kind; nothing for others."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", column).replace(" ", "_").casefold()
    usual = next((words for pattern, words in _USUAL.items() if re.fullmatch(pattern, name)), "")
    if kind is None or usual in {"", _LEAVE_OUT}:
        return usual
    type_, _, rest = usual.partition(" ")
    fits = type_ == kind.value or {type_, kind.value} <= {Kind.INTEGER.value, Kind.DECIMAL.value}
    return rest if fits else ""


def known_words(column: str, said: str, words: Mapping[str, Any], *, untyped: bool) -> Mapping[str, Any]:
    """Return a column's words with what is said of it: a type if the file keeps none, a range, or public values."""
    kind, rest = Kind(words["type"]), said
    if untyped:
        first, _, others = said.partition(" ")
        named = _TYPES.get(first.casefold(), first.casefold())
        if named in {each.value for each in Kind}:
            kind, rest = Kind(named), others.strip()
        elif ".." in said:
            kind = _inferred(said)
        elif "," not in said:
            types = ", ".join(each.value for each in Kind)
            hint = did_you_mean(first, [each.value for each in Kind], otherwise="")
            allowed = f"a type ({types}), a range such as 0..100, or public values with commas between"
            raise InvalidValueError(column, got=said, allowed=allowed, hint=hint)
    kept = words if kind.value == words["type"] else {}
    found: dict[str, Any] = {**kept, "type": kind.value}
    if not rest:
        return _checked(column, found)
    if not kind.ranged:
        return _checked(column, {**found, "values": _texts(rest)})
    rest, _, step = rest.partition(" step ")
    lower, dots, upper = rest.partition("..")
    found["lower"] = lower.strip()
    found |= ({"upper": upper.strip()} if dots else {}) | ({"step": step.strip()} if step else {})
    return _checked(column, found)


def _inferred(said: str) -> Kind:
    """Return the kind of number, date or time that both ends of a range are."""
    ends = [end.strip() for end in said.partition(" step ")[0].split("..", 1)]
    return next(
        (kind for pattern, kind in _INFERRED if all(re.fullmatch(pattern, end) for end in ends)), Kind.TIMESTAMP
    )


def _checked(column: str, words: dict[str, Any]) -> dict[str, Any]:
    """Return a column's words, if the policy's rules allow them."""
    column_type(Section(Document("", {}), (column,), words))
    return words


def _texts(said: str) -> list[str]:
    """Return the texts of a list; one with a comma in it stands in double quotes."""
    texts = [text.strip() for text in next(csv.reader([said], skipinitialspace=True))]
    return [text for text in texts if text]


def _ask_budget(talk: Conversation, given: Said) -> tuple[str, str]:
    """Ask how much may ever be learned, and say what it buys."""
    if given.epsilon and given.delta:
        return given.epsilon, given.delta
    delta = given.delta
    if not delta:
        talk.say("\nHow much may all answers together ever reveal about one person? ε and δ say it, once and for all.")
        people = talk.ask(
            "About how many people is this data about, as far as anybody may know? (empty: 10000)",
            lambda said: float(positive(said.replace(",", "").replace("_", ""), "the number of people")),
            empty=1e4,
        )
        delta = proposed_delta(people)
    epsilon = given.epsilon
    if not epsilon:
        talk.say("What a lifetime budget of ε buys, in counts that are right nineteen times in twenty:")
        for offer in _OFFERED:
            talk.say(f"  ε = {offer}  {_STRENGTH[offer]:<8}  {what_it_buys(offer, delta)}")
        talk.say("All counts of a GROUP BY together are one of them. Sums, means and medians cost more.")
        epsilon = talk.ask(
            f"ε{_offer(_PROPOSED, 'proposed')}", lambda said: an_epsilon(_taken(said, _PROPOSED)), empty=""
        )
    if not given.delta:
        words = "the chance that the promise of ε fails; 0 allows no private keys and buys less"
        proposed = delta
        question = f"δ, {words}{_offer(proposed, 'proposed')}"
        delta = talk.ask(question, lambda said: a_delta(_taken(said, proposed)), empty="")
        if epsilon and delta != proposed:
            talk.say(f"That buys {what_it_buys(epsilon, delta)}.")
    return epsilon, delta


def proposed_delta(people: float) -> str:
    """Return a δ of at most a hundredth of one over the number of people, a power of ten.

    >>> proposed_delta(8_000), proposed_delta(1_000_000)
    ('1e-6', '1e-8')
    """
    return f"1e-{max(6, math.ceil(math.log10(people)) + 2)}"


def what_it_buys(epsilon: str, delta: str) -> str:
    """Return how many good counts a budget is worth, in words.

    >>> what_it_buys("1", "")
    'about 16 counts at ±50, or 170 at ±500'
    """
    account = Budget(epsilon=epsilon, delta=delta or 0).open()
    good, rough = (f"{float(f'{counts(account, error=error):.2g}'):,.0f}" for error in (50, 500))
    return f"about {good} counts at ±50, or {rough} at ±500"


def an_epsilon(said: str) -> str:
    """Return ε as it was written, if it is one."""
    positive(said, "--epsilon")
    return said


def a_delta(said: str) -> str:
    """Return δ as it was written, if it is one."""
    allowed = "a number of at least 0 and below 1"
    if not 0 <= exact(said, "--delta", allowed=allowed) < 1:
        raise InvalidValueError("--delta", got=said, allowed=allowed)
    return said


def _own(said: str, epsilon: str) -> str:
    """Return an analyst's own ε, if it is no more than the data's."""
    if positive(said, "ε") > (exact(epsilon, "ε") if epsilon else math.inf):
        raise InvalidValueError("ε", got=said, allowed=f"at most the data's {epsilon}")
    return said


def _names(said: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(label(name, "name") for name in _texts(said)))


def _offer(usual: str, word: str = "usual") -> str:
    """Return in brackets how what is usual can be taken."""
    if usual == _LEAVE_OUT:
        return f' (usual is to leave it out: "{_LEAVE_OUT}")'
    return f' ({word} is {usual}: "{_TAKE}" takes it)' if usual else ""


def _taken(said: str, usual: str) -> str:
    if said != _TAKE:
        return said
    if not usual:
        raise InvalidValueError("answer", got=_TAKE, allowed="said in words, as nothing is proposed here")
    return usual
