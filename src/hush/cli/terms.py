"""Options of the command line for the terms of a request (`hush.curator.terms`): one for each term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from inspect import Parameter
from typing import Annotated, Any

import typer

from hush.curator.terms import TermKind, Terms, term_of

_TYPES: Mapping[TermKind, Any] = {TermKind.COUNT: int, TermKind.FRACTION: float, TermKind.FLAG: bool}
"""Kinds that Typer reads itself; others are texts."""


def options(request: type[Terms]) -> list[Parameter]:
    """Return the parameters of a command that takes a request: its SQL as an argument, other terms as options."""
    shown = [field for field in fields(request) if term_of(field).kind not in {TermKind.LOCAL, TermKind.VALUES}]
    return [_parameter(field) for field in shown]


def _parameter(field: Field[Any]) -> Parameter:
    term = term_of(field)
    kind, default = _TYPES.get(term.kind, str), field.default
    if term.kind is TermKind.SQL:
        # without a metavar of its own the SQL may be left out, and is read from standard input
        metavar, default = (term.metavar, Parameter.empty) if term.metavar else ("[SQL]", "-")
        words = f"{term.help} @FILE reads it from a file, - (or nothing) from standard input."
        annotation: Any = Annotated[kind, typer.Argument(metavar=metavar, help=words)]
    else:
        default = Parameter.empty if default is MISSING else default
        spelling = f"--{field.name.replace('_', '-')}"
        option = typer.Option(spelling, metavar=term.metavar or None, help=term.help)
        annotation = Annotated[kind | None if default is None else kind, option]
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def gathered(request: type[Terms], given: dict[str, Any]) -> Terms:
    """Take the values of a request's options out of ``given``, and return the request."""
    terms = {}
    for field in fields(request):
        if field.name not in given:
            continue
        value, term = given.pop(field.name), term_of(field)
        if isinstance(value, str) and term.kind in {TermKind.ACCURACY, TermKind.NAMES}:
            value = term.read(value, f"--{field.name}")
        terms[field.name] = value
    return request(**terms)
