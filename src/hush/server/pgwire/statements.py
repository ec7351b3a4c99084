r"""What is read from the text of a statement before it runs: its parts, settings, cursors, and types of parameters.

**Parts** are split without a parser. Every pattern goes forward alone: what is not closed reaches to the end, so that
reading takes linear time.

>>> split("SELECT ';' -- ; \n; ; SELECT 2;")
["SELECT ';' -- ; \n", ' SELECT 2']
>>> first_word("/* a */ Begin work"), rest("SHOW  all ;")
('BEGIN', 'all')

**Settings** are price and other terms of the questions that follow (`hush.curator.terms`).

>>> read_setting("SET hush.epsilon = '0.1'"), read_setting("SET SESSION datestyle TO 'ISO'")
(('hush.epsilon', '0.1'), ('datestyle', 'ISO'))
>>> from_comments("/* hush.epsilon = 0.5, hush.confidence=0.9 */ SELECT '/* hush.epsilon = 7 */'")
{'epsilon': '0.5', 'confidence': '0.9'}

**Types of parameters.** Most drivers send a parameter as text and let the server find out its type, or ask for it
first. As in PostgreSQL the type follows from what stands beside the parameter: a column or an expression it is compared
or added to, a cast, LIMIT. It depends on the statement and the schema alone. A parameter beside nothing of a known type
is a text.

>>> data_sets = [{"name": "clinic", "tables": [{"name": "visits", "columns": [
...     {"name": "age", "type": "integer"}, {"name": "day", "type": "date"}]}]}]
>>> parameter_types("SELECT COUNT(*) FROM visits WHERE age BETWEEN $1 AND $2 AND day IN ($3) LIMIT $4", data_sets)
{1: 20, 2: 20, 3: 1082, 4: 20}
>>> parameter_types("SELECT relname FROM pg_class WHERE oid = $1 AND relname = ANY ($2)", data_sets)
{1: 20, 2: 1009}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from hush.curator.terms import QuestionOrder, terms_of
from hush.query.errors import QuestionError, did_you_mean
from hush.query.types import Kind
from hush.server.pgwire import messages
from hush.server.pgwire.catalogue import SHAPES, all_of, parsed
from hush.server.pgwire.types import BESIDE, BY_OID

TOKEN = re.compile(
    r"""'[^']*+(?:'|\Z)|"[^"]*+(?:"|\Z)|/\*(?P<block>.*?)(?:\*/|\Z)|--(?P<line>[^\n]*+)|(?P<end>;)""", re.DOTALL
)
"""Quoted texts, comments and semicolons. An unclosed quote or comment reaches to the end of the text."""
_WORD = re.compile(r"(?>\s+|/\*.*?\*/|--[^\n]*\n)*+([A-Za-z]+)", re.DOTALL)
_EXPLAIN = re.compile(r"\A.*?\bEXPLAIN\b(\s*\([^)]*\)|\s+ANALYZE|\s+VERBOSE)*", re.IGNORECASE | re.DOTALL)
_NAME = r"""(?P<name>[\w$]+|"[^"]+")"""
_DECLARE = re.compile(
    rf"\s*DECLARE\s+{_NAME}(?:\s+(?:BINARY|INSENSITIVE|ASENSITIVE|NO\s+SCROLL|SCROLL))*\s+CURSOR"
    r"(?:\s+WITHOUT\s+HOLD|(?P<hold>\s+WITH\s+HOLD))?\s+FOR\b",
    re.IGNORECASE,
)
_FETCH = re.compile(
    rf"(?:NEXT\s+|FORWARD\s+)?(?:(?P<count>\d{{1,9}}|ALL)\s+)?(?:(?:FROM|IN)\s+)?{_NAME}", re.IGNORECASE
)
_DATABASE = re.compile(
    r"""'[^']*+(?:'|\Z)|/\*.*?(?:\*/|\Z)|--[^\n]*+|(?<![\w.$"])(?:hush|"hush")\s*+\.\s*+(?=(?P<data>\w++|"[^"]++")\s*+\.)|"[^"]*+(?:"|\Z)""",
    re.DOTALL,
)
_TERMS = {
    name: term
    for name, term in terms_of(QuestionOrder).items()
    if name not in {"question", "parameters", "request"}  # of one question, not of those that follow
}
OURS = tuple(_TERMS)
"""The names that SET hush.… knows."""
_SET = re.compile(
    r"(?>\s+|/\*.*?\*/|--[^\n]*\n)*+SET\s+(?:(?:SESSION|LOCAL)\s+)?"
    r"(?:(?P<words>TIME\s+ZONE|NAMES|SCHEMA|TRANSACTION|CHARACTERISTICS)\b|(?P<name>[\w.]+)\s*(?:=|\bTO\b))(?P<value>.+)",
    re.IGNORECASE | re.DOTALL,
)
_OPTION = re.compile(r"(?:-c\s*|--)([\w.-]+)=((?:\\.|[^\s\\])*)", re.DOTALL)
_PAIR = re.compile(r"\bhush\.(\w+)\s*[:=]\s*'?([^\s,;']+)'?")
_ALIASES = {"int": "int4", "float": "float8", "decimal": "numeric"}
"""Other names of types, in casts."""
_NUMBERS = {messages.WHOLE, messages.FLOAT, messages.NUMERIC}
_BESIDE = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Between, exp.In, exp.Add,
    exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.If, exp.Case,
)  # fmt: skip
"""Expressions with operands of one common type."""
_TYPED = {exp.Median: exp.DType.DOUBLE, exp.Parameter: exp.DType.NULL, exp.TimestampTrunc: exp.DType.TIMESTAMP}


def first_word(text: str) -> str:
    """Return the first word of a statement, in capitals."""
    match = _WORD.match(text)
    return match[1].upper() if match else ""


def rest(text: str) -> str:
    """Return a statement without its first word and its semicolon."""
    match = _WORD.match(text)
    return text[match.end() if match else 0 :].strip().removesuffix(";").rstrip()


def split(text: str) -> list[str]:
    """Return the statements of a text, without empty ones."""
    parts, start = [], 0
    for token in TOKEN.finditer(text):
        if token["end"]:
            parts.append(text[start : token.start()])
            start = token.end()
    parts.append(text[start:])
    without_comments = (
        TOKEN.sub(lambda token: token[0] if token["block"] is token["line"] is None else "", part) for part in parts
    )
    return [part for part, rest in zip(parts, without_comments, strict=True) if rest.strip()]


def without_database(statement: str, data_sets: Collection[str]) -> str:
    """Return a question without the database's name before the names of data sets.

    >>> without_database("SELECT 'hush.clinic.x' FROM hush.clinic.visits", ["clinic"])
    "SELECT 'hush.clinic.x' FROM clinic.visits"
    """
    return _DATABASE.sub(
        lambda name: "" if name["data"] is not None and name["data"].strip('"') in data_sets else name[0], statement
    )


def explained(text: str) -> str:
    """Return the statement after EXPLAIN and its options."""
    return _EXPLAIN.sub("", text, count=1)


def declared(text: str) -> tuple[str, bool, str] | None:
    """Return the cursor that a statement declares: its name, whether it outlives its transaction, and its statement.

    >>> declared("DECLARE c NO SCROLL CURSOR WITH HOLD FOR SELECT 1")
    ('c', True, ' SELECT 1')
    """
    match = _DECLARE.match(text)
    if match is None:
        return None
    return cursor_name(match["name"]), match["hold"] is not None, text[match.end() :]


def fetched(text: str) -> tuple[str, int | None] | None:
    """Return the cursor of a FETCH or MOVE and the number of rows, None for all; nothing for a move backwards.

    >>> fetched("FETCH FORWARD 100 FROM c"), fetched("FETCH c"), fetched("FETCH ALL IN c"), fetched("FETCH LAST FROM c")
    (('c', 100), ('c', 1), ('c', None), None)
    """
    match = _FETCH.fullmatch(rest(text))
    if match is None:
        return None
    count = match["count"] or "1"
    return cursor_name(match["name"]), None if count.upper() == "ALL" else int(count)


def cursor_name(text: str) -> str:
    """Return the name of a cursor: in quotes as it stands, else in lower case."""
    return text.strip('"') if text.startswith('"') else text.lower()


# settings


def read_setting(statement: str) -> tuple[str, str | None] | None:
    """Return the name and the value of a SET, None to go back to the default; nothing for other statements."""
    match = _SET.fullmatch(statement)
    if match is None:
        return None
    value = match["value"].strip().removesuffix(";").rstrip()
    if not value:
        return None
    if value.startswith("'") and value.endswith("'") and len(value) > 1:
        value = value[1:-1].replace("''", "'")
    name = match["name"] or " ".join(match["words"].split())
    return name.lower(), None if value.upper() == "DEFAULT" else value


def check_name(name: str) -> str:
    """Return the name of one of our settings without its ``hush.``; refuse others."""
    short = name.removeprefix("hush.")
    if short not in OURS:
        setting_names = ", ".join(f"hush.{setting}" for setting in OURS)
        raise QuestionError(
            f"There is no setting {name!r}.", did_you_mean(short, list(OURS)) or f"There are {setting_names}."
        )
    return short


def from_start(options: Mapping[str, str]) -> dict[str, str]:
    r"""Return the settings with which a client connects: by name, or by ``options`` as PostgreSQL's own server takes.

    >>> from_start({"user": "alice", "options": r"-c hush.epsilon=0.1 --hush.data=a\ clinic -c jit=off"})
    {'epsilon': '0.1', 'data': 'a clinic'}
    """
    own_options = {name: value for name, value in options.items() if name.startswith("hush.")}
    for name, value in _OPTION.findall(options.get("options", "")):
        if name.startswith("hush."):
            own_options[name] = re.sub(r"\\(.)", r"\1", value, flags=re.DOTALL)
    settings = {check_name(name): value for name, value in own_options.items()}
    if "epsilon" in settings and "accuracy" in settings:
        raise QuestionError("The connection sets hush.epsilon and hush.accuracy.", "Leave one of them out.")
    terms(settings)  # refuses a value of another kind as the client connects
    return settings


def from_comments(statement: str) -> dict[str, str]:
    """Return the settings in the comments of a statement, which hold for it alone."""
    return {
        check_name(name): value
        for comment in TOKEN.finditer(statement)
        for name, value in _PAIR.findall(comment["block"] or comment["line"] or "")
    }


def terms(settings: Mapping[str, str]) -> dict[str, Any]:
    """Return settings as the keywords of a question."""
    return {name: _TERMS[name].read(value, f"hush.{name}") for name, value in settings.items()}


# types of parameters


def parameter_types(text: str, data_sets: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Return the types of the parameters of a statement by their numbers, as far as they are known."""
    tree = parsed(text)
    if tree is None:
        return {}
    table_names = {table.name.lower() for table in tree.find_all(exp.Table)}
    pairs = [
        (str(column["name"]).lower(), messages.BY_KIND[Kind(column["type"])])
        for data in data_sets
        for table in data["tables"]
        if str(table["name"]).lower() in table_names
        for column in table["columns"]
    ]
    pairs += [
        (name, BESIDE.get(kind) or messages.TEXT)
        for table_path, shape in SHAPES.items()
        if table_path.partition(".")[2] in table_names
        for name, kind in shape
    ]
    columns: dict[str, int] = {}
    for name, kind in pairs:  # 0 for a name with two different types
        columns[name] = kind if columns.get(name, kind) == kind else 0
    for node in tree.find_all(exp.Column, exp.Literal, *_TYPED):
        if isinstance(node, exp.Column) and (oid := columns.get(node.name.lower())):
            node.type = exp.DataType.build(BY_OID[oid].name, dialect="postgres")
        elif isinstance(node, exp.Literal) and not node.is_string and not node.is_int:
            node.type = exp.DType.DECIMAL
        elif type(node) in _TYPED:
            node.type = _TYPED[type(node)]
    with suppress(sqlglot.errors.SqlglotError, RecursionError):
        annotate_types(tree, dialect="postgres", overwrite_types=False)
    types: dict[int, int] = {}
    for parameter in tree.find_all(exp.Parameter):
        number = parameter.this.name
        if number.isdigit() and (oid := _type_at(parameter)):
            types.setdefault(int(number), oid)
    return dict(sorted(types.items()))


def _type_at(parameter: exp.Expression) -> int:
    """Return the type that the place of a parameter asks for; 0 for any."""
    node: Any = parameter
    while isinstance(node.parent, exp.Paren | exp.Neg | exp.Tuple):
        node = node.parent
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return cast_type(parent.to)
    if isinstance(parent, exp.Limit | exp.Offset | exp.Fetch):
        return messages.WHOLE
    if isinstance(parent, exp.Like | exp.ILike | exp.RegexpLike | exp.RegexpILike | exp.DPipe):
        return messages.TEXT
    if isinstance(parent, exp.Any) or all_of(parent):
        element_type = _beside(parent.parent)
        return BY_OID[element_type].array if element_type else 0
    return _beside(parent)


def _beside(parent: Any) -> int:
    """Return the common type of the operands of an expression; 0 where it is not known."""
    if not isinstance(parent, _BESIDE):
        return 0
    if "common" not in parent.meta:  # once, however many of the operands are parameters
        operands = [operand for operand in parent.iter_expressions() if not operand.is_string]
        types = [oid for operand in operands if (oid := cast_type(operand.type))]
        numbers = types and all(oid in _NUMBERS for oid in types)
        # A wider number has the higher type.
        parent.meta["common"] = max(types) if numbers else types[0] if types else 0
    common: int = parent.meta["common"]
    return common


def cast_type(kind: exp.DataType | None) -> int:
    """Return the number of a type of the parser's; 0 for one that is not known here."""
    name = "" if kind is None else kind.sql(dialect="postgres").lower().removeprefix("pg_catalog.").strip('"')
    element, brackets, _ = name.partition("[]")
    element = element.partition("(")[0].strip()
    oid = 0 if element == "regproc" else BESIDE.get(_ALIASES.get(element, element), 0)  # a function by its name
    return BY_OID[oid].array if brackets and oid else oid
