"""Post-processing: arithmetic, comparison and choice over noisy aggregates, evaluated in Python.

Outputs, HAVING and ORDER BY see only what is already released, so nothing here can cost privacy or fail differently
for different rows. Functions of keys, texts and dates, and casts, are computed by the engine (`hush.query.released`).
How NumPy computes each function is said by its record in `hush.query.functions`; what arrays look like, by
`hush.query.functions.arrays`.

>>> from fractions import Fraction
>>> from hush.query.expressions import Op
>>> from hush.query.types import Kind, Type
>>> total = Released("aggregate", 0, Type(Kind.DECIMAL))
>>> half = Call(Op.DIVIDE, (total, Literal(Fraction(2), Type(Kind.INTEGER))), Type(Kind.DECIMAL))
>>> evaluate(half, [], [np.array([3.0, 5.0])])
array([1.5, 2.5])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hush.query.errors import QuestionError
from hush.query.expressions import Call, Column, Expression, Literal, Released
from hush.query.functions import FUNCTIONS
from hush.query.functions.arrays import as_array, key_array, unknown
from hush.query.functions.record import Array

__all__ = ["Array", "as_array", "evaluate", "key_array"]


def evaluate(expression: Expression, keys: Sequence[Array], aggregates: Sequence[Array]) -> Array:
    """Return the expression's values for all groups."""
    match expression:
        case Released():
            return (keys if expression.source == "key" else aggregates)[expression.index]
        case Literal():
            return as_array([expression.value], expression.type.kind)
        case Call():
            arguments = [evaluate(argument, keys, aggregates) for argument in expression.arguments]
            with np.errstate(all="ignore"):
                result = (FUNCTIONS[expression.op].evaluate or unknown)(expression, arguments)
            if result.dtype == np.float64 and not np.isfinite(result).all():
                result = np.where(np.isfinite(result), result, np.nan)
            return result
        case Column():
            raise QuestionError("a row's column stands outside an aggregate.", "Aggregate it, or add it to GROUP BY.")
