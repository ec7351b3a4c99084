"""Which parts of what is shown an engine computes, so that every function has one meaning.

Outputs, HAVING and ORDER BY are expressions over what was released: keys and noisy aggregates. Whatever is made of keys
and constants alone, and every function of texts and dates and every cast, is computed by the engine that computes them
over rows, in its own types: from public values, after the noise. The results stand beside the keys, as further keys.
What is left is arithmetic, comparison and choice over noisy numbers (`hush.query.evaluate`), which is also what is
simulated to find out how far off an output may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from hush.query.expressions import Call, Expression, Op, Released
from hush.query.functions import FUNCTIONS
from hush.query.question import Question


def noisy(expression: Expression) -> bool:
    """Return whether an expression over what was released is made of aggregates."""
    if isinstance(expression, Call):
        return any(map(noisy, expression.arguments))
    return isinstance(expression, Released) and expression.source == "aggregate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A question whose outputs, HAVING and ORDER BY read further keys: the parts that an engine computes."""

    question: Question
    parts: tuple[Call, ...]
    """What stands for the further keys, in their order."""
    values: Mapping[Expression, Expression]
    """What to evaluate for the values of expressions of which the engine computes noisy parts as well.

    Half-widths, and what noise may have decided, follow from the expressions themselves.
    """


def shown(question: Question) -> Shown:
    """Return what an engine computes of a question, and the question with that as further keys."""
    outputs = [expression for _, expression in question.outputs]
    conditions = [*([] if question.having is None else [question.having]), *(item.by for item in question.order)]
    whole = [one for one in outputs if isinstance(one, Call) and any(map(noisy, _parts(one)))]
    found = [part for one in outputs for part in _parts(one) if not noisy(part)]
    found += [part for one in conditions for part in _parts(one)]
    parts = tuple(dict.fromkeys([*found, *whole]))
    if not parts:
        return Shown(question=question, parts=(), values={})
    first = len(question.keys)
    known = {part: Released("key", first + at, part.type) for at, part in enumerate(parts)}
    plain = {part: key for part, key in known.items() if not noisy(part)}
    evaluated = [*whole, *conditions]
    return Shown(
        question=replace(
            question,
            keys=(*question.keys, *(("", part) for part in parts)),
            outputs=tuple((name, _replaced(one, plain)) for name, one in question.outputs),
            having=None if question.having is None else _replaced(question.having, plain),
            order=tuple(replace(item, by=_replaced(item.by, plain)) for item in question.order),
        ),
        parts=parts,
        values={_replaced(one, plain): _replaced(one, known) for one in evaluated},
    )


def _parts(expression: Expression) -> Iterator[Call]:
    """Yield the largest parts that an engine computes."""
    if not isinstance(expression, Call):
        return
    ordered = expression.op in {Op.LEAST, Op.GREATEST} and not expression.type.kind.numeric
    if ordered or FUNCTIONS[expression.op].computed_by_engine or not noisy(expression):
        yield expression
    else:
        for argument in expression.arguments:
            yield from _parts(argument)


def released_in(expressions: Iterable[Expression]) -> tuple[Released, ...]:
    """Return the keys and aggregates that expressions read, each once."""
    found: dict[Released, None] = {}
    stack = list(expressions)
    while stack:
        expression = stack.pop()
        if isinstance(expression, Released):
            found[expression] = None
        elif isinstance(expression, Call):
            stack.extend(expression.arguments)
    return tuple(sorted(found, key=lambda item: (item.source, item.index)))


def _replaced(expression: Expression, known: Mapping[Call, Released]) -> Expression:
    """Return an expression in which parts that are known stand as what was released."""
    if not isinstance(expression, Call):
        return expression
    if expression in known:
        return known[expression]
    return Call(expression.op, tuple(_replaced(argument, known) for argument in expression.arguments), expression.type)
