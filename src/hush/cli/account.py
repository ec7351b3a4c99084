"""``hush account``: the total privacy loss of a list of mechanisms."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

from rich.table import Table
from typer import Argument, Option

from hush.accounting import Row, compare, comparison_chart, compose, event_from_json
from hush.cli.ask import writable
from hush.cli.options import JsonOption
from hush.cli.output import plain_table, tell, working
from hush.core import InvalidValueError, exact
from hush.core.format import figure


def account(
    file: Annotated[str, Argument(metavar="FILE", help="JSON with a list of mechanisms; - for standard input.")],
    delta: Annotated[str | None, Option(help="Give ε at this δ.", metavar="δ")] = None,
    epsilon: Annotated[str | None, Option(help="Give δ at this ε.", metavar="ε")] = None,
    chart: Annotated[Path | None, Option(help="Chart of the theorems (.svg, .png, .html), at --delta.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Account for a list of mechanisms: ε at a δ, or δ at an ε, certified from both sides.

    FILE is JSON: a list of mechanisms, or an object with such a list under "mechanisms". A dash reads standard input.

    ```json
    [{"type": "gaussian", "sigma": 30, "sensitivity": 1, "count": 1000},
     {"type": "laplace", "scale": 2, "sensitivity": 1}]
    ```

    Without --json, a table compares the named theorems of composition with the certified value.

    ```sh
    hush account mechanisms.json --delta 1e-6
    hush account mechanisms.json --delta 1e-6 --chart theorems.svg
    hush account mechanisms.json --epsilon 1 --json
    ```
    """
    if (delta is None) == (epsilon is None):
        raise InvalidValueError(
            "--delta" if delta is None else "--epsilon",
            got="neither" if delta is None else "both",
            allowed="one of --delta (for ε) and --epsilon (for δ)",
        )
    writable(chart, "--chart", (".svg", ".png", ".html"))
    if chart is not None and (delta is None or exact(delta, "--delta") == 0):
        raise InvalidValueError("--chart", got=str(chart), allowed="given together with a positive --delta")
    content = _read(file)
    if isinstance(content, dict) and "mechanisms" in content:
        content = content["mechanisms"]
    if not isinstance(content, list) or not content:
        allowed = 'a list of mechanisms, or an object with "mechanisms"'
        raise InvalidValueError("FILE", got=content, allowed=allowed, hint="See hush account --help.")
    events = [event_from_json(mechanism) for mechanism in content]
    with working("accounting", quiet=as_json):
        guarantee = compose(events)
        answer = guarantee.epsilon(delta) if delta is not None else guarantee.delta(epsilon or "0")
    if not math.isfinite(answer.upper):
        raise InvalidValueError("--delta", got=delta, allowed="one at which these mechanisms have a finite ε")
    rows = []
    if delta is not None and exact(delta, "--delta") > 0 and (chart is not None or not as_json):
        with working("comparing theorems", quiet=as_json):
            rows = compare(events, delta=delta)
    if chart is not None:
        comparison_chart(rows).save(chart)
    symbol, given = ("ε", f"δ = {delta}") if delta is not None else ("δ", f"ε = {epsilon}")
    text = f"{figure(answer.lower, digits=12)} ≤ {symbol} ≤ {figure(answer.upper, digits=12)} at {given}"
    told = _table(rows, delta or "") if rows and not as_json else text
    tell({"lower": answer.lower, "upper": answer.upper}, told, as_json=as_json)


def _table(rows: list[Row], delta: str) -> Table:
    table = plain_table("theorem", "ε", "ratio", "note", right={"ε", "ratio"})
    table.title, table.title_justify, table.columns[3].style = f"ε at δ = {delta}", "left", "dim"
    truth = rows[-1].epsilon
    for row in rows:
        if row.epsilon is None:
            table.add_row(row.theorem, "–", "", row.note, style="dim")
            continue
        ratio = figure(row.epsilon / truth, digits=4) if truth else ""
        table.add_row(row.theorem, figure(row.epsilon), ratio, row.note, style="bold" if row is rows[-1] else None)
    return table


def _read(file: str) -> Any:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        # Numbers stay as they are written: 0.1 is one tenth, not the nearest float.
        return json.loads(text, parse_float=str, parse_constant=str)
    except (OSError, ValueError, RecursionError) as error:
        allowed = "a file of JSON that can be read"
        raise InvalidValueError("FILE", got=file, allowed=allowed, hint=f"{error}.") from error
