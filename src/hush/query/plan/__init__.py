"""Planning: from a question and a policy to statistics, bounds, noise and a price. No data, no engine.

`plan` plans a question at a price, or at the price that an accuracy needs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from hush.core import InvalidValueError, Number, fraction_between, nonnegative, positive
from hush.query.errors import TooSmallError, UnplannableError
from hush.query.expressions import Call
from hush.query.plan.draws import Draw
from hush.query.plan.expected import decided, expected_error, known_error
from hush.query.plan.plan import DeltaBudget, ExactQuery, Noise, Plan, PriceItem, Selection, at_price
from hush.query.plan.stability import Matches, TighterLimits, uncounted
from hush.query.question import Question
from hush.query.released import noisy
from hush.query.schema import Schema

__all__ = [
    "CONFIDENCE",
    "Draw",
    "ExactQuery",
    "Noise",
    "Plan",
    "PriceItem",
    "Selection",
    "UnplannableError",
    "confident",
    "plan",
    "smallest",
    "width_and_confidence",
]

_SMALLEST, _LARGEST = Fraction(1, 10**100), 10**9
_LEAST, _MOST = Fraction(1, 10**9), 10**6
"""The range in which the ε that an accuracy needs is searched."""
CONFIDENCE = 0.95
"""The default confidence of error bars."""
_LOWEST, _HIGHEST = 0.5, 0.999
"""The least and greatest confidence for which error bars are simulated."""


def plan(
    question: Question,
    schema: Schema,
    *,
    epsilon: Number | None = None,
    accuracy: Number | tuple[Number, Number] | None = None,
    delta: Number = 0,
    key_delta: Number | None = None,
    gaussian: bool = True,
    prefer_gaussian: bool = False,
    confidence: Number | None = None,
    max_rows: int | None = None,
    max_groups: int | None = None,
    most_rho: Fraction | None = None,
    keys: str | None = None,
    matches: Matches = uncounted,
) -> Plan:
    """Plan a question at a price, or at the price that an accuracy needs.

    Parameters
    ----------
    question, schema
        What is asked, and what is public about the data.
    epsilon
        What the whole question costs, however many aggregates it has.
    accuracy
        Instead of ``epsilon``: (half-width, confidence) that every COUNT and SUM must reach, and what is made of them
        by adding and constants; or a number, at 0.95.
    delta
        What the question may use of δ, for private keys and Gaussian noise; 0 keeps it pure.
    key_delta
        The part of it that private keys take, half of it by default. A live budget counts this as spent, whereas the δ
        of Gaussian noise only says at which δ its ε is meant.
    gaussian
        Whether the accounts that pay can take Gaussian noise, which has no pure ε.
    prefer_gaussian
        Whether to take it where they can, also where Laplace noise errs less at this price: of many equal releases it
        errs less at their price together.
    confidence
        How often an error bar holds: that of ``accuracy``, else 0.95. The price does not depend on it.
    max_rows, max_groups
        Tighter limits than the policy's on what one unit counts for: less noise, and more that is left out.
    keys
        "public" to list all of many public keys, "private" to choose them privately whatever is public of them.
    most_rho
        How much zCDP the accounts that pay can hold when they are empty.
    matches
        The engine's number of rows of a public relation that agree on some expressions at most.
    """
    if keys not in {None, "public", "private"}:
        raise InvalidValueError(
            "keys", got=keys, allowed="'public' to list them, 'private' to choose them, or left out"
        )
    tighter = TighterLimits(max_rows=max_rows, max_groups=max_groups)
    total = nonnegative(delta, "delta")
    for_keys = total / 2 if key_delta is None else nonnegative(key_delta, "key_delta")
    if for_keys > total:
        raise InvalidValueError("key_delta", got=key_delta, allowed=f"at most delta, {total}")
    if total >= 1 or 0 < for_keys < _SMALLEST:
        raise InvalidValueError("delta", got=delta, allowed="0, or from 1e-100 to below 1")
    budget = DeltaBudget(total, for_keys, gaussian, most_rho, prefer_gaussian)

    def planned(price: Fraction, certain: Number | None) -> Plan:
        if not _SMALLEST <= price <= _LARGEST:  # beyond, the floats that weigh one noise against another give up
            raise InvalidValueError("epsilon", got=price, allowed="from 1e-100 to 1e9")
        return at_price(question, schema, price, budget, confident(certain), tighter, keys, matches)

    return at_epsilon_or_accuracy(planned, _errors, epsilon, accuracy, confidence)


def _errors(candidate: Plan) -> list[float]:
    """Return the errors that an accuracy is about; refuse an output with an error that is not known in advance."""
    errors = []
    for name, output in candidate.question.outputs:
        error = expected_error(candidate, output) if noisy(output) else None
        if error is not None:
            errors.append(error)
        elif decided(candidate, output) and known_error(candidate, output, candidate.confidence) is not None:
            raise UnplannableError(
                f"accuracy= cannot be promised for {name}: noise decides which rows are shown, and how far off "
                "these are depends on how many there are to choose from, which nobody knows in advance; give "
                "epsilon= instead, or leave out LIMIT, which costs nothing"
            )
        elif noisy(output) and isinstance(output, Call):
            raise computed_error(name)
    return errors


def computed_error(name: str) -> UnplannableError:
    """Return the refusal of an accuracy for an output that is no count or sum."""
    return UnplannableError(
        f"accuracy= is about counts, sums, and sums and differences of these, which {name} is not; "
        "give epsilon= instead, or ask for what it is computed from"
    )


AnyPlan = TypeVar("AnyPlan")


def at_epsilon_or_accuracy(
    planned: Callable[[Fraction, Number | None], AnyPlan],
    errors_of: Callable[[AnyPlan], list[float]],
    epsilon: Number | None,
    accuracy: object,
    confidence: Number | None,
) -> AnyPlan:
    """Return the plan at a price, or at the smallest ε, to three digits, that reaches the accuracy in every error."""
    if (epsilon is None) == (accuracy is None):
        got, hint = "both" if accuracy is not None else "neither", "Say for instance epsilon 0.1, or accuracy 50."
        raise InvalidValueError("epsilon", got=got, allowed="given, or accuracy in its place", hint=hint)
    if epsilon is not None:
        return planned(positive(epsilon, "epsilon"), confidence)
    width, promised = width_and_confidence(accuracy)

    def reached(price: Fraction) -> bool:
        try:
            errors = errors_of(planned(price, promised))
        except TooSmallError:
            return False
        if not errors:
            raise UnplannableError(
                "accuracy= needs a COUNT or SUM whose error is known in advance; give epsilon= instead"
            )
        return max(errors) <= width

    price = smallest(reached)
    if price is None:
        raise UnplannableError(f"no ε up to 10⁶ makes the error as small as ±{width}; ask for less accuracy")
    return planned(price, promised if confidence is None else confidence)


def width_and_confidence(accuracy: object) -> tuple[Fraction, float]:
    """Return the requested half-width and its confidence."""
    pair = accuracy if isinstance(accuracy, tuple | list) else (accuracy, CONFIDENCE)
    if len(pair) != 2:
        raise InvalidValueError("accuracy", got=accuracy, allowed="a half-width, or (half-width, confidence)")
    return positive(pair[0], "accuracy"), confident(pair[1])


def smallest(will_do: Callable[[Fraction], bool]) -> Fraction | None:
    """Return the smallest sufficient ε, to three digits; None if no ε up to 10⁶ suffices.

    >>> float(smallest(lambda epsilon: epsilon >= Fraction(1, 3)))
    0.3335
    """
    # errors shrink as ε grows: go up by factors of 8 until it suffices, then bisect
    low = high = _LEAST
    while not will_do(high):
        low, high = high, high * 8
        if high > _MOST:
            return None
    while high > low * Fraction(1001, 1000):
        # few digits, so that the price is short to write
        middle = Fraction(f"{float((low + high) / 2):.4g}")
        if not low < middle < high:
            break
        low, high = (low, middle) if will_do(middle) else (middle, high)
    return high


def confident(value: Number | None) -> float:
    """Return the requested confidence, or the default.

    >>> confident(None), confident("0.99")
    (0.95, 0.99)
    """
    confidence = CONFIDENCE if value is None else float(fraction_between(value, "confidence"))
    if not _LOWEST <= confidence <= _HIGHEST:
        raise InvalidValueError("confidence", got=value, allowed=f"from {_LOWEST} to {_HIGHEST}")
    return confidence
