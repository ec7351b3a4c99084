"""Write what this version of hush writes: ledgers, an anchor, an export, a policy, stored answers.

Run once for every released version, with that version's code, and keep the result for ever:

    python tests/data/versions/make.py /srv/clinic

The folder must not exist. Its path is recorded in the ledgers, so take one that names no machine and no person; then
move its content to ``tests/data/versions/VERSION``. `test_versions.py` opens every such folder with the present code.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

from hush import storage
from hush.accounting import (
    ApproximateDPEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    RandomizedResponseEvent,
    ZCDPEvent,
)
from hush.curator.answer import Answer, Money
from hush.curator.opening import open_policy
from hush.ledger import Actor, Ledger
from hush.query.types import Kind
from hush.report.columns import AnswerColumn

POLICY = """ledger = "hush.ledger"

[data.clinic]
unit = "patient_id"
budget = { epsilon = "4", delta = "1e-7" }
[data.clinic.tables.visits]
source = "visits.csv"
max_groups = 3
max_rows = 5
columns.age = { type = "integer", lower = 0, upper = 120 }
columns.disease = { type = "text", values = ["Flu", "HIV"] }
columns.city = { type = "text" }
columns.cost = { type = "decimal", lower = 0, upper = 5000, step = "0.01" }
columns.day = { type = "date", lower = 2024-01-01, upper = 2024-12-31 }
[data.clinic.tables.cities]
source = "cities.csv"
public = true
columns.city = { type = "text" }
columns.coast = { type = "boolean" }

[data.survey]
neighbours = "replace"
budget = { epsilon = "1" }
[data.survey.tables.people]
source = "people.csv"
columns.income = { type = "integer", lower = 0, upper = 1000 }

[analysts.alice]
data = ["clinic", "survey"]
budget = { epsilon = "1", delta = "1e-8" }
[analysts.bob]
data = ["survey"]
budget = { epsilon = "0.5" }
"""
QUESTIONS = {
    "count": ("alice", "SELECT COUNT(*) AS n FROM visits", "0.1"),
    "groups": ("alice", "SELECT disease, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY disease", "0.2"),
    "private-keys": ("alice", "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "0.2"),
    "joined": ("alice", "SELECT coast, SUM(age) AS ages FROM visits JOIN cities USING (city) GROUP BY coast", "0.1"),
    "median": ("alice", "SELECT MEDIAN(day) AS day FROM visits", "0.1"),
    "survey": ("bob", "SELECT SUM(income) AS total FROM people", "0.25"),
}
EVENTS = {
    "sum": [LaplaceEvent(scale=8), DiscreteLaplaceEvent(parameter=Fraction(1, 10), sensitivity=1)],
    "renyi": [GaussianEvent(sigma=20), DiscreteGaussianEvent(sigma=20, sensitivity=1), LaplaceEvent(scale=30)],
    "zcdp": [ZCDPEvent(rho=Fraction(1, 1000)), RandomizedResponseEvent(epsilon=Fraction(1, 10))],
    "gdp": [LaplaceEvent(scale=40)],
}


def tables(folder: Path) -> None:
    """Write rows that belong to nobody."""
    cities = ("north", "south", "east", "west")
    visits = [
        f"{row // 2},{20 + row % 60},{('Flu', 'HIV')[row % 5 == 0]},{cities[row % 4]},{row % 90}.5,"
        f"2024-0{1 + row % 9}-15"
        for row in range(120)
    ]
    (folder / "visits.csv").write_text("\n".join(["patient_id,age,disease,city,cost,day", *visits, ""]))
    coast = [f"{city},{str(city in {'north', 'west'}).lower()}" for city in cities]
    (folder / "cities.csv").write_text("\n".join(["city,coast", *coast, ""]))
    (folder / "people.csv").write_text("\n".join(["income", *(str(10 * row) for row in range(60)), ""]))
    (folder / "hush.toml").write_text(POLICY)


def asked(folder: Path) -> dict[str, dict[str, object]]:
    """Make the policy's ledger, without an anchor, ask, and keep the answers; return what they say."""
    owner = Actor.owner("owner")
    Ledger.open(folder / "hush.ledger", anchor="none", create=owner).close()
    said: dict[str, dict[str, object]] = {}
    for name, (analyst, sql, epsilon) in QUESTIONS.items():
        with open_policy(folder / "hush.toml", analyst=analyst, create=True) as curator:
            answer = curator.ask(sql, epsilon=epsilon, request=f"{name}-1")
        kept(folder, name, answer)
        said[name] = answer.to_json()
    with Ledger.open(folder / "hush.ledger") as ledger:
        ledger.raise_budget("survey", epsilon="2", actor=owner)
        views = [(view.data, view.analyst, str(view.epsilon), str(view.delta)) for view in ledger.budget(owner)]
        releases = [(release.number, release.analyst, release.question) for release in ledger.history(owner)]
        with (folder / "export.jsonl").open("x") as file:
            ledger.export(file, actor=owner)
        said["ledger"] = {"accounts": views, "history": releases, "report": asdict(ledger.verify())}
    return said


def anchored(folder: Path) -> dict[str, object]:
    """Make a ledger with its anchor in the usual place, and an account of every kind."""
    owner = Actor.owner("owner")
    with Ledger.open(folder / "anchored.ledger", create=owner) as ledger:
        for kind, events in EVENTS.items():
            budget = {"epsilon": 2, "delta": 0 if kind == "sum" else "1e-6", "kind": "pure" if kind == "sum" else kind}
            ledger.create_data(kind, budget, actor=owner)
            ledger.add_analyst("alice", data=kind, budget=None if kind == "gdp" else budget, actor=owner)
            for event in events:
                name = f"{kind}-{type(event).__name__}"
                question = {"analyst": "alice", "data": kind, "question": name, "events": [event]}
                ledger.answered(ledger.reserve(name, **question), name.encode())
        boxes = [ApproximateDPEvent(epsilon=Fraction(1, 10), delta=Fraction(1, 10**9))]
        ticket = ledger.reserve("failed", analyst="alice", data="renyi", question="fails", events=boxes)
        ledger.failed(ticket, "no answer could be computed")
        ledger.reserve("pending", analyst="alice", data="zcdp", question="is open", events=boxes)
        return {"report": asdict(ledger.verify())}


def kept(folder: Path, name: str, answer: Answer) -> None:
    """Store an answer's bytes."""
    (folder / "answers").mkdir(exist_ok=True)
    (folder / "answers" / f"{name}.json").write_bytes(answer.to_bytes())


def every_type(folder: Path) -> dict[str, object]:
    """Store an answer with a column of every type, NULL in each."""
    day, moment = dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 0, 500000)
    columns = (
        AnswerColumn(name="whole", kind=Kind.INTEGER, values=(2**70, None, -1), errors=(1.5, None, 2.0), counts=True),
        AnswerColumn(name="decimal", kind=Kind.DECIMAL, values=(0.1, None, -1e300), errors=(0.5, None, 1e299)),
        AnswerColumn(name="text", kind=Kind.TEXT, values=("=1+1", None, "Zürich\n")),
        AnswerColumn(name="flag", kind=Kind.BOOLEAN, values=(True, None, False)),
        AnswerColumn(name="day", kind=Kind.DATE, values=(day, None, day), errors=(3.0, None, 0.0)),
        AnswerColumn(name="moment", kind=Kind.TIMESTAMP, values=(moment, None, moment)),
    )
    price = Money(epsilon=Fraction(1, 3), delta=Fraction(1, 10**9), items=(("n", Fraction(1, 3), Fraction(1, 10**9)),))
    answer = Answer(columns=columns, confidence=0.95, price=price, caveats=("a caveat",), question="SELECT …")
    kept(folder, "every-type", answer)
    return answer.to_json()


def main(folder: Path) -> None:
    """Write everything."""
    os.umask(0o022)
    folder.mkdir(parents=True)
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    storage._process = lambda _: {"host": "host", "pid": 1, "started": "boot:1"}  # no trace of the machine
    tables(folder)
    said = asked(folder)
    said["anchored"] = anchored(folder)
    said["every-type"] = every_type(folder)
    (folder / "said.json").write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
