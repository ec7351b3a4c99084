"""The statement that computes functions of what was released, in the engine's own types; see `hush.query.released`.

Keys and noisy aggregates come as parameters, one list each. So the statement's length depends on the question alone,
and it is written and resolved before the charge. No value can make it fail (`hush.engines.sql.expressions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from hush.engines.sql.build import alias, call, cast, column, ordered, parameter, select
from hush.engines.sql.expressions import name_of, render
from hush.engines.sql.keys import key_value
from hush.engines.sql.values import FORMS, Form, Value
from hush.query.expressions import Released
from hush.query.question import Question
from hush.query.released import released_in, shown

_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedStatement:
    """A statement that returns a column for each part, and a row for each group."""

    text: str
    parts: int
    """How many columns it returns."""
    reads: tuple[tuple[Released, Form], ...]
    """What its parameters hold, after the numbers of the groups."""

    def parameters(self, keys: Sequence[Sequence[Any]], aggregates: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the lists it reads: from each key's and each aggregate's values by group."""
        size = len((keys or aggregates)[0]) if keys or aggregates else 1
        found: list[list[Any]] = [list(range(size))]
        for item, form in self.reads:
            values = (keys if item.source == "key" else aggregates)[item.index]
            found.append([_in_form(value, form) for value in values])
        return found


def released_statement(question: Question, keys: Sequence[Value]) -> ReleasedStatement | None:
    """Return the statement for a question's outputs; None if there is nothing to compute.

    ``keys`` says what is known of each key's values, such as how many digits a decimal has.
    """
    parts = shown(question).parts
    if not parts:
        return None
    columns: dict[str, Value] = {}
    cells = [alias(call("unnest", cast(parameter(1), "BIGINT[]")), "i")]
    reads: list[tuple[Released, Form]] = []
    for at, item in enumerate(released_in(parts), start=2):
        form = FORMS[item.type.kind]
        value = Value(column(f"v{at}", "t"), form)
        if item.source == "key":
            known = key_value(keys[item.index], item.type)
            if known.single:  # a listed key of float32 numbers is the decimal that they stand for
                value = value.as_single()
            elif known.form is form:
                value = replace(known, sql=value.sql, within=None, step=None, literal=None)
        cells.append(alias(call("unnest", cast(parameter(at), f"{form.value}[]")), f"v{at}"))
        columns[name_of(item)] = value
        reads.append((item, form))
    values = [key_value(render(part, columns), part.type) for part in parts]
    results = [alias(value.sql, f"o{at}") for at, value in enumerate(values)]
    query = ordered(select(results, select(cells)), column("i", "t"))
    return ReleasedStatement(text=query.measured, parts=len(parts), reads=tuple(reads))


def _in_form(value: Any, form: Form) -> Any:
    """Return a released value as the engine takes it; what is no number is NULL."""
    if value is None or form not in {Form.INTEGER, Form.DOUBLE}:
        return value
    if form is Form.INTEGER:
        return None if value != value else max(-_LARGEST, min(_LARGEST, int(value)))  # noqa: PLR0124 - NaN
    try:
        return float(value) if isinstance(value, Fraction | int) else value
    except OverflowError:
        return None
