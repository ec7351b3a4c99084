"""What there is to know of a function, in one record.

A `Function` says how an `Op` is written in a question, how its arguments are checked and its type derived, how NumPy
computes it over noisy answers, and what it costs. The front end, the typing, the evaluation and the engines all read
this table, so a new function is one name in `Op`, one record, and its SQL where that is not ``NAME(arguments)``.

A `Rewrite` is a function that is only another way to write others: its meaning, its range, its cost and its totality
are those of the text that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy.typing as npt

from hush.query.expressions import Call, Expression, Op
from hush.query.types import Type

Array = npt.NDArray[Any]
Arguments = tuple[Expression, ...]
Rule = Callable[[Op, Arguments], Type]
"""Checks the arguments and returns the type: the kind, the range and the step, and whether NULL may occur."""
Evaluation = Callable[[Call, list[Array]], Array]
"""Computes a call over arrays; NaN or None stands for NULL."""

ANY_NUMBER = 1000
"""As many arguments as anybody will write."""
ONE = ("this",)
"""Where sqlglot keeps the argument of a function that has one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A class of sqlglot's nodes that calls a function with the node's own arguments, in order."""

    node: str
    """The name of the class, such as "Left"; this layer does not know the parser."""
    slots: tuple[str, ...] = ("this", "expression")
    """The node's arguments; those that are not set are left out. One that starts with * holds a list."""
    ignored: tuple[str, ...] = ()
    """Arguments that only say how other databases differ."""


class Rising(Enum):
    """With which arguments a function never falls, the others being constants."""

    ALL = "all"
    FIRST = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One total function of a row's values."""

    op: Op
    rule: Rule
    arity: tuple[int, int]
    """How many arguments it takes at least and at most."""
    names: tuple[str, ...] = ()
    """How it is called: ``NAME(…)``. The first is its name in engines that have nothing else to say of it."""
    reads: tuple[Reading, ...] = ()
    """Classes of nodes that are nothing but a call of it."""
    fields: tuple[str, ...] = ()
    """Names of the part of a date that it takes, in EXTRACT and DATE_PART."""
    types: tuple[str, ...] = ()
    """Names of SQL's types to which it casts."""
    prepare: Callable[[Op, Arguments], Arguments] | None = None
    """Brings the arguments to one kind before the rule sees them."""
    chooses: bool = False
    """Whether its value is one of its arguments, so that its rule says itself what NULL means."""
    evaluate: Evaluation | None = None
    """How NumPy computes it over noisy numbers; None for a function of texts or dates."""
    by_engine: bool | None = None
    """Whether its meaning is the engine's also over noisy numbers; by default if NumPy has none."""
    rising: Rising | None = None
    """Whether it never falls, so that intervals pass through it."""
    per_character: int | None = None
    """Nanoseconds per character of its texts, at most, on the slowest engine; None if it reads texts as something."""
    lengthens: int = 1
    """A text that it makes has at most so many characters per character of its longest text."""
    searches: bool = False
    """Whether it looks for its further texts in the first, which costs more the longer they are."""

    @property
    def computed_by_engine(self) -> bool:
        """Whether an engine computes it, also over what was released."""
        return self.evaluate is None if self.by_engine is None else self.by_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """A function that stands for an expression made of others."""

    names: tuple[str, ...]
    parameters: tuple[str, ...]
    """The names of its arguments in the text."""
    text: str
    """The expression, in SQL."""
    node: str = ""
    """sqlglot's class for it, if it has one."""
    slots: tuple[str, ...] = ("this", "expression")
    """Which of the node's arguments the parameters are."""
