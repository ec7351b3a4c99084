"""How long texts can be, and what functions of them cost.

Every text is cut where it is read (`build.shortened`) and where parts are joined, so that each has a length that no row
exceeds (`Value.most`, in characters). A function of texts then costs so many nanoseconds a character at most, measured
with the worst characters on the slowest engine that is allowed; where it looks for another text, more for the length
of that. None makes a text longer than its arguments together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate

from hush.engines.sql.build import MADE, costing
from hush.engines.sql.traversal import repeated_texts, with_known
from hush.engines.sql.values import MAX_TEXT, Form, Value
from hush.query.expressions import Call, Column, Expression, Literal, Op
from hush.query.functions import FUNCTIONS
from hush.query.types import Kind

_READING = 600
"""Nanoseconds to read a text as something else, besides what its characters cost."""
_NEEDLE = 8
"""To look for so many characters costs a nanosecond more for each that is looked at."""


def weighed(expression: Call, arguments: list[Value], value: Value) -> Value:
    """Return the value of a call with what its texts cost, and how long it is if it is a text."""
    texts = [argument.chars for argument in arguments if argument.form is Form.TEXT]
    if texts:
        value = replace(value, sql=costing(value.sql, _work(expression.op, texts)))
    if value.form is not Form.TEXT:
        return value
    return replace(value, most=_most(expression, texts))


def _work(op: Op, texts: list[int]) -> int:
    if op is Op.CONCAT:
        return MADE * sum(min(length, MAX_TEXT) for length in accumulate(texts))
    record = FUNCTIONS[op]
    rate = record.per_character
    if rate is None:
        return len(texts) * _READING + MADE * sum(texts)
    if record.searches:
        return texts[0] * (rate + sum(texts[1:]) // _NEEDLE)
    return rate * sum(texts)


def _most(expression: Call, texts: list[int]) -> int | None:
    """Return how many characters a call makes at most; None for one that makes a text of something else."""
    if not texts:
        return None
    match expression.op:
        case Op.CONCAT:
            others = len(expression.arguments) - len(texts)
            return min(MAX_TEXT, sum(texts) + others * Value.SHORT)
        case Op.SUBSTRING | Op.LEFT | Op.RIGHT:
            size = expression.arguments[-1]
            if isinstance(size, Literal) and isinstance(size.value, Fraction | int) and size.value >= 0:
                return min(texts[0], int(size.value))
            return texts[0]
        case Op.REPLACE:
            return texts[0]
        case _:
            return min(MAX_TEXT, FUNCTIONS[expression.op].lengthens * max(texts))


def rate(expression: Expression) -> int:
    """Return about how many nanoseconds an expression takes for each character of the texts that it reads.

    >>> from hush.query.types import Kind, Type
    >>> rate(Call(Op.LOWER, (Column("t", Type(Kind.TEXT, True)),), Type(Kind.TEXT, True)))
    20
    """
    if not isinstance(expression, Call):
        return 0
    texts = sum(argument.type.kind is Kind.TEXT and argument.type.values is None for argument in expression.arguments)
    per_character = FUNCTIONS[expression.op].per_character
    own = (MADE if per_character is None else per_character) * texts
    return own + sum(rate(argument) for argument in expression.arguments)


def rate_of(expressions: Iterable[Expression]) -> int:
    """Return about how many nanoseconds expressions take for each character, if equal texts are made once."""
    given = list(expressions)
    known = {text: Column(str(at), text.type) for at, text in enumerate(repeated_texts(given))}
    return sum(rate(text) + MADE for text in known) + sum(rate(with_known(item, known)) for item in given)
