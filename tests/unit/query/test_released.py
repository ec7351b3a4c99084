"""Between its ends lies whatever an expression can be: random points of the box never leave them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hush.query.expressions import Call, Expression, Literal, Op, Released
from hush.query.released import enclose, evaluate
from hush.query.types import Kind, Type

NUMBER, TRUTH = Type(Kind.DECIMAL), Type(Kind.BOOLEAN)
X, Y = (Released("aggregate", at, NUMBER) for at in range(2))


def number(value: float) -> Literal:
    return Literal(Fraction(value), NUMBER)


def call(op: Op, *arguments: Expression) -> Call:
    truths = {Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL, Op.AND, Op.OR, Op.NOT, Op.EQUAL}
    return Call(op, arguments, TRUTH if op in truths else NUMBER)


ABOVE = call(Op.GREATER, X, Y)
EXPRESSIONS = {
    "add": call(Op.ADD, X, Y),
    "subtract": call(Op.SUBTRACT, X, Y),
    "multiply": call(Op.MULTIPLY, X, Y),
    "divide": call(Op.DIVIDE, X, Y),
    "negate": call(Op.NEGATE, X),
    "abs": call(Op.ABS, call(Op.SUBTRACT, X, Y)),
    "sqrt": call(Op.SQRT, X),
    "ln": call(Op.LN, call(Op.ABS, X)),
    "exp": call(Op.EXP, X),
    "round": call(Op.ROUND, X, number(1)),
    "floor": call(Op.FLOOR, X),
    "clip": call(Op.CLIP, X, number(-1), number(2)),
    "least": call(Op.LEAST, X, Y, number(1)),
    "greatest": call(Op.GREATEST, X, call(Op.SQRT, Y)),
    "less": call(Op.LESS, X, number(1)),
    "at most": call(Op.LESS_EQUAL, X, Y),
    "and": call(Op.AND, ABOVE, call(Op.LESS, Y, number(0))),
    "or": call(Op.OR, ABOVE, call(Op.NOT, call(Op.GREATER_EQUAL, call(Op.SQRT, X), number(1)))),
    "case": call(Op.CASE, ABOVE, X, call(Op.LESS, Y, number(0)), call(Op.NEGATE, Y), number(7)),
    "coalesce": call(Op.COALESCE, call(Op.SQRT, X), number(0)),
    "square": call(Op.MULTIPLY, call(Op.SUBTRACT, X, Y), call(Op.SUBTRACT, X, Y)),
    "even power": call(Op.POWER, X, number(2)),
    "odd power": call(Op.POWER, X, number(3)),
    "root": call(Op.POWER, X, number(0.5)),
    "inverse": call(Op.POWER, X, number(-2)),
    "power of both": call(Op.POWER, X, Y),
    "not equal": Call(Op.NOT_EQUAL, (X, Y), TRUTH),
    "modulo of a constant": call(Op.MODULO, X, number(2)),
    "null if": call(Op.NULL_IF, X, Y),
    "modulo": call(Op.MODULO, X, Y),
    "equal": call(Op.EQUAL, X, Y),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_no_point_of_a_box_lies_outside(name: str) -> None:
    rng = np.random.default_rng(3)
    size, expression = 300, EXPRESSIONS[name]
    boxes = []
    for _ in range(2):
        low = rng.normal(0, 3, size)
        boxes.append((low, low + rng.choice([0.0, 0.5, 4.0], size)))
    low, high = enclose(expression, [], boxes, size)
    for _ in range(200):
        point = [one + (other - one) * rng.choice([0, 1, rng.random()], size) for one, other in boxes]
        values = np.broadcast_to(evaluate(expression, [], point), (size,))
        missing = np.isnan(values)
        slack = 1e-9 * np.maximum(1, np.abs(values))
        assert np.all(missing | ((low - slack <= values) & (values <= high + slack)))
        assert not np.any(missing & (low == 1) & (high == 1)), "what may be NULL does not surely hold"


def test_infinite_boxes_have_infinite_ends_and_conditions_that_hold_there() -> None:
    above = call(Op.GREATER, X, number(5))
    ends = [(np.array([6.0, 5.0, -np.inf]), np.array([np.inf, np.inf, np.inf]))]
    assert enclose(above, [], ends, 3)[0].tolist() == [1, 0, 0]
    assert enclose(call(Op.MULTIPLY, X, number(2)), [], ends, 3)[1].tolist() == [np.inf] * 3


def test_what_nobody_knows_never_holds() -> None:
    unknown = [(np.array([-np.inf]), np.array([np.inf]))] * 2
    for name in ("and", "or", "less", "at most", "equal"):
        assert enclose(EXPRESSIONS[name], [], unknown, 1)[0][0] < 1
