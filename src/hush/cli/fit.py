"""``hush fit``: a private model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hush.cli.ask import AnalystOption, DataOption, EpsilonOption, QueryArgument, question, writable
from hush.cli.marginals import ExplainOption, RequestOption
from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, print_json

_HELP = """
Fit a private model to the rows that SQL names: regression, classification, linear, naive_bayes, moments, pca, kmeans.

Of each unit one row counts. With --out the model is written as JSON, without any row; `hush.learn.load` reads it.

Examples:

    hush fit "SELECT age, sex, cost FROM visits" --target cost --epsilon 0.5 --out cost.json
    hush fit "SELECT age, cost, disease FROM visits" --target disease --model classification --epsilon 1 --json
    hush fit "SELECT age, cost FROM visits" --model kmeans --epsilon 1 --explain

Exit status: 0 released, 2 the question or the policy is not right, 3 the budget does not suffice.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("fit", help=_HELP, short_help="A private model.")(fit)


def fit(
    query: QueryArgument = "-",
    target: Annotated[str | None, typer.Option("--target", metavar="COLUMN", help="The column to predict.")] = None,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="Which model.")] = "regression",
    epsilon: EpsilonOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the model (.json).")] = None,
    analyst: AnalystOption = None,
    policy: PolicyOption = POLICY,
    data: DataOption = None,
    request: RequestOption = None,
    explain: ExplainOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit and release a model."""
    from hush.curator.opening import open_policy

    text = question(query)
    writable(out, "--out", (".json",))
    how: dict[str, Any] = {"target": target, "model": model, "epsilon": epsilon, "data": data}
    with open_policy(policy, analyst=analyst) as curator:
        if explain:
            explained = curator.explain_fit(text, **how)
            print_json(explained.to_json()) if as_json else console().print(str(explained), markup=False)
            return
        fitted = curator.fit(text, **how, request=request)
    if out is not None:
        fitted.save(out)
    if as_json:
        print_json(
            fitted.to_json()
            | {"receipt": fitted.receipt, "remaining": fitted.remaining, "file": None if out is None else str(out)}
        )
        return
    screen = console()
    screen.print(f"{type(fitted).__name__} at {fitted.price}, receipt {fitted.receipt}", markup=False)
    if hasattr(fitted, "summary"):
        screen.print(str(fitted.summary()), markup=False)
