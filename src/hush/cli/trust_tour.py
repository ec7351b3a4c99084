"""``hush demo distributed``: one count under four models of trust, with real processes.

The example of three smokers is the one by which secure computation is told apart from privacy: three people compute
which share of the smokers among them has cancer, and nobody learns anything but the result. Alice, who smokes, sees 2/3
or 1/2 and knows more about the others than they would like; with noise in the sum she does not.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table

from hush.core.format import figure
from hush.distributed import LaplaceShare, Session, aggregate, chart_of_trust, listen, new_key, price_of_trust
from hush.mechanisms import Laplace, RandomizedResponse

_PARTIES = ("north", "east", "south", "west")
_PEOPLE = 10_000
_SHARE = 0.3
_CHART = "price-of-trust.svg"


def tour(out: Console, *, epsilon: str = "1", folder: Path | None = None) -> dict[str, Any]:
    """Run the tour, and return its figures; a chart is saved in the folder, if one is given."""
    true = [int(_PEOPLE / len(_PARTIES) * _SHARE) + 10 * i for i in range(len(_PARTIES))]
    out.print(Rule(f"One count, four models of trust: {_PEOPLE:,} people, ε = {epsilon}", align="left"))
    rows = price_of_trust(epsilon=epsilon, people=_PEOPLE)
    summed = _secure_sum(true, epsilon, out)
    asked = _survey(sum(true), epsilon)
    hidden = next(row.local_epsilon for row in rows if row.model == "shuffled")
    shuffled = _survey(sum(true), hidden)
    central = Laplace(sensitivity=1, epsilon=epsilon).release(sum(true))
    drawn = {"central": central, "aggregated, 10% lost": summed, "local": asked, "shuffled": shuffled}
    table = Table()
    for heading in ("model", "trusted", "standard deviation", f"one run (truth {sum(true):,})"):
        table.add_column(heading, justify="right" if "deviation" in heading or "run" in heading else "left")
    for row in rows:
        run = drawn.get(row.model)
        table.add_row(row.model, row.trusted, figure(row.deviation, digits=3), "" if run is None else f"{run:,.0f}")
    out.print(table)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        chart_of_trust(rows).save(folder / _CHART)
        out.print(f"A chart of it is in {folder / _CHART}.")
    smokers = _smokers(out)
    return {
        "models": [{"model": row.model, "deviation": row.deviation, "run": drawn.get(row.model)} for row in rows],
        "truth": sum(true),
        "smokers": smokers,
        "chart": None if folder is None else str(folder / _CHART),
    }


def _survey(yes: int, epsilon: Any) -> float:
    """Ask everybody by randomized response, and return the estimated count."""
    mechanism = RandomizedResponse(epsilon=epsilon)
    answers = [1] * yes + [0] * (_PEOPLE - yes)
    return float(mechanism.estimate(mechanism.release(answers))[1]) * _PEOPLE


def _secure_sum(counts: list[int], epsilon: str, out: Console) -> int:
    """Let four processes and an aggregator sum their counts with shared noise."""
    keys = {name: new_key() for name in _PARTIES}
    private, public = new_key()
    session = Session(
        name="demo", parties={name: key[1] for name, key in keys.items()}, aggregator=public, epsilon=epsilon
    )
    with tempfile.TemporaryDirectory(prefix="hush-demo-") as folder:
        place = Path(folder)
        (place / "session.json").write_text(session.to_json())
        server = listen("127.0.0.1", 0)
        host, port = server.getsockname()[:2]
        children = []
        for name, count in zip(_PARTIES, counts, strict=True):
            (place / f"{name}.key").write_text(keys[name][0].hex())
            (place / f"{name}.csv").write_text(str(count))
            children.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "hush", "party", "join", str(place / "session.json"), "--name", name),
                        *("--key", str(place / f"{name}.key"), "--values", str(place / f"{name}.csv")),
                        *("--connect", f"{host}:{port}", "--json"),
                    ],
                    stdout=subprocess.DEVNULL,
                )
            )
        try:
            total = aggregate(session, private, server, seconds=60)
        finally:
            for child in children:
                child.wait(timeout=60)
    out.print(
        f"Four processes ({', '.join(_PARTIES)}) summed their counts. The aggregator saw four masked numbers and "
        f"the sum, [bold]{int(total.values[0]):,}[/], whose noise deviates by {figure(total.deviation, digits=3)}."
    )
    return int(total.values[0])


def _smokers(out: Console) -> dict[str, Any]:
    """Compute the share of smokers with cancer among three people, exactly and with noise."""
    people = {"Alice": (1, 1), "Bob": (1, 1), "Carol": (1, 0)}  # smokes, has cancer
    smokers = sum(smokes for smokes, _ in people.values())
    both = sum(smokes * cancer for smokes, cancer in people.values())
    out.print(Rule("Secure computation is not privacy: three smokers", align="left"))
    out.print(
        f"Computed in secret and told exactly: {both}/{smokers} of the smokers have cancer. Alice smokes and has it: "
        f"she knows that {both - 1} of the {smokers - 1} others has it too. With one other, she would know all."
    )
    share = LaplaceShare(sensitivity=2, epsilon="1", parties=3)
    noisy = [value + sum(share.draw() for _ in range(3)) for value in (both, smokers)]
    half_width = figure(1.96 * share.deviation, digits=2)
    out.print(
        f"With noise made by the three together, at ε = 1: {noisy[0]} of {noisy[1]}, each ± {half_width}. Of three "
        "people that says nothing, as it should. Of three million it would be right to a part in a hundred thousand."
    )
    return {"exact": [both, smokers], "noisy": noisy}
