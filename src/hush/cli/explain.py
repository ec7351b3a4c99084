"""``hush explain``: what a question would cost, and how accurate it would be."""

from __future__ import annotations

import typer

from hush.cli.ask import (
    AccuracyOption,
    AnalystOption,
    ConfidenceOption,
    DataOption,
    DeltaOption,
    DialectOption,
    EpsilonOption,
    FileOption,
    GroupsOption,
    KeysOption,
    QueryArgument,
    RowsOption,
    question,
    terms,
)
from hush.cli.options import POLICY, JsonOption, PolicyOption
from hush.cli.output import console, print_json

_HELP = """
Say what a question would cost and how far off its answers would be. Reads no data and spends nothing.

Examples:

    hush explain "SELECT disease, COUNT(*) AS n FROM visits GROUP BY disease" --epsilon 0.5
    hush explain -f question.sql --accuracy 50@0.99 --json

Exit status: 0 it can be asked, 2 the question or the policy is not right. Whether the budget suffices is not looked at.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("explain", help=_HELP, short_help="What a question would cost.")(explain)


def explain(
    query: QueryArgument = "-",
    file: FileOption = None,
    epsilon: EpsilonOption = None,
    accuracy: AccuracyOption = None,
    confidence: ConfidenceOption = None,
    delta: DeltaOption = None,
    max_rows: RowsOption = None,
    max_groups: GroupsOption = None,
    keys: KeysOption = None,
    analyst: AnalystOption = None,
    policy: PolicyOption = POLICY,
    data: DataOption = None,
    dialect: DialectOption = "duckdb",
    as_json: JsonOption = False,
) -> None:
    """Explain a question."""
    from hush.curator.opening import open_policy

    with open_policy(policy, analyst=analyst) as curator:
        asked = terms(epsilon, accuracy, delta, confidence, max_rows, max_groups, keys)
        explanation = curator.explain(question(query, file), data=data, dialect=dialect, **asked)
    if as_json:
        print_json(explanation.to_json())
    else:
        console().print(str(explanation), markup=False)
