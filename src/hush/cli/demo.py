"""``hush demo``: the whole way of a question, on a synthetic hospital: 100,000 patients, their visits, and a policy.

DuckDB makes the rows from hashes of row numbers, so every run makes the same ones and no real person is among them.

``hush demo distributed`` is one count under four models of trust. The example of three smokers is the one by which
secure computation is told apart from privacy: three people compute which share of the smokers among them has cancer,
and nobody learns anything but the result. Alice, who smokes, sees 2/3 or 1/2 and knows more about the others than they
would like; with noise in the sum she does not.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule
from typer import Argument, Option

from hush.cli.options import JsonOption
from hush.cli.output import console, plain_table, print_json
from hush.core import BudgetExceededError
from hush.core.format import figure

if TYPE_CHECKING:
    from hush.curator.curator import Curator

PATIENTS = 100_000

POLICY = """\
# A policy is what the owner decides: whose privacy, which bounds, how much may ever be learned.
[data.clinic]
engine = "duckdb"
unit = "patient_id"                   # all visits of one patient are protected together
neighbours = "add-remove"
budget = { epsilon = "4", delta = "1e-7" }

[data.clinic.tables.visits]
source = "visits.parquet"
max_groups = 3                        # one patient counts in at most 3 groups of an answer
max_rows = 5                          # and with at most 5 visits in each
rows = 300_000                        # about how many there are, rounded up: a service times its answers by it
columns.age     = { type = "integer", lower = 0, upper = 120 }
columns.sex     = { type = "text", values = ["female", "male"] }
columns.region  = { type = "text", values = ["North", "East", "South", "West"] }
columns.day     = { type = "date", lower = 2025-01-01, upper = 2025-12-31 }
columns.disease = { type = "text", values = ["Diabetes", "Flu", "Hepatitis", "HIV", "Injury"] }
columns.cost    = { type = "decimal", lower = 0, upper = 5000, step = "0.01" }

[data.clinic.tables.regions]
source = "regions.csv"
public = true
columns.region     = { type = "text" }
columns.inhabitants = { type = "integer" }

[analysts.alice]
data = ["clinic"]
budget = { epsilon = "3", delta = "1e-8" }
"""

REGIONS = "region,inhabitants\nNorth,402000\nEast,251000\nSouth,233000\nWest,158000\n"

_UNIFORM = "CREATE MACRO u(i, salt) AS (md5_number_lower(concat(i, ' ', salt)) >> 11) / 9007199254740992.0"

_VISITS = """
COPY (
  WITH patients AS (
    SELECT i AS patient_id,
           CAST(FLOOR(18 + 75 * POWER(u(i, 'age'), 1.25)) AS INTEGER) AS age,
           CASE WHEN u(i, 'sex') < 0.52 THEN 'female' ELSE 'male' END AS sex,
           CASE WHEN u(i, 'region') < 0.38 THEN 'North' WHEN u(i, 'region') < 0.63 THEN 'East'
                WHEN u(i, 'region') < 0.85 THEN 'South' ELSE 'West' END AS region,
           1 + CAST(FLOOR(-1.7 * LN(1 - 0.98 * u(i, 'visits'))) AS INTEGER) AS visits
    FROM range({patients}) AS t(i)
  ), visits AS (
    SELECT *, patient_id * 100 + k AS v FROM patients, UNNEST(range(visits)) AS t(k)
  )
  SELECT patient_id, age, sex, region,
         DATE '2025-01-01' + CAST(FLOOR(365 * u(v, 'day')) AS INTEGER) AS day,
         CASE WHEN u(v, 'disease') < 0.16 + 0.004 * (age - 18) THEN 'Diabetes'
              WHEN u(v, 'disease') < 0.74 THEN 'Flu' WHEN u(v, 'disease') < 0.92 THEN 'Injury'
              WHEN u(v, 'disease') < 0.975 THEN 'Hepatitis' ELSE 'HIV' END AS disease,
         CAST(ROUND(40 + (120 + 4 * age) * -LN(1 - 0.999 * u(v, 'cost')), 2) AS DECIMAL(10, 2)) AS cost
  FROM visits
) TO '{target}' (FORMAT parquet)
"""

TOUR = [
    ("How many visits?", "SELECT COUNT(*) AS visits FROM visits", "0.05"),
    (
        "Which diseases, and what do they cost?",
        "SELECT disease, COUNT(*) AS visits, AVG(cost) AS mean_cost FROM visits GROUP BY disease ORDER BY visits DESC",
        "0.5",
    ),
    (
        "Joined with a public table",
        "SELECT r.region, COUNT(*) AS visits FROM visits AS v JOIN regions AS r USING (region) GROUP BY r.region",
        "0.2",
    ),
    (
        "A fact about each patient first: how often do people come?",
        "SELECT AVG(n) AS visits FROM (SELECT patient_id, CLIP(COUNT(*), 0, 10) AS n FROM visits GROUP BY patient_id)",
        "0.2",
    ),
    ("The median cost of the old", "SELECT MEDIAN(cost) AS median_cost FROM visits WHERE age >= 65", "0.2"),
]
VICTIM = 739
"""A patient who was treated for HIV; the rows are always the same."""
_EXACT = "SELECT COUNT(*) FROM read_parquet($visits) WHERE disease = 'HIV' AND patient_id <> $left_out"
_PRIVATE = "SELECT COUNT(*) AS n FROM visits WHERE disease = 'HIV'"


class Tour(StrEnum):
    """The tours to choose from."""

    HOSPITAL = "hospital"
    DISTRIBUTED = "distributed"


def demo(
    tour: Annotated[Tour, Argument(metavar="[TOUR]", help="hospital, or distributed.")] = Tour.HOSPITAL,
    folder: Annotated[Path | None, Option(metavar="FOLDER", help="Keep the files here.")] = None,
    engine: Annotated[str, Option(metavar="ADDRESS", help="duckdb, or Spark's local[*] or sc://….")] = "duckdb",
    patients: Annotated[int, Option(help="How many patients to make.", min=1000)] = PATIENTS,
    as_json: JsonOption = False,
) -> None:
    """Make a tour through a hospital that never was.

    It makes 100,000 patients and a policy that protects them, asks some questions, shows an attack that works on exact
    answers fail on private ones, and what is left of the budget.

    Examples:

        hush demo
        hush demo --folder clinic      keep the files, and go on asking there
        hush demo --engine 'local[*]'   the same on Spark, which runs in this process
        hush demo distributed          a count without a trusted curator, between four processes

    Nothing in it is real, and nothing else on this machine is touched. The tour's budget is forgotten when it ends.
    """
    out = Console(quiet=True) if as_json else console()
    if tour is Tour.DISTRIBUTED:
        shown = _trust_tour(out, "1", folder)
        if as_json:
            print_json(shown)
        return
    from hush.curator.opening import rehearse

    with ExitStack() as stack:
        where = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hush-demo-")))
        out.print(f"Making {patients:,} patients who never were, with their visits and a policy, in {where} …")
        write_hospital(where, patients, engine)
        curator = stack.enter_context(rehearse(where / "hush.toml", analyst="alice"))
        answers = []
        for title, sql, epsilon in TOUR:
            out.print(Rule(title, align="left"))
            out.print(f"[bold]{escape(sql)}[/]  at ε = {epsilon}")
            answer = curator.ask(sql, epsilon=epsilon)
            out.print(answer)
            answers.append(answer.to_json())
        attack, refusal = _attack(curator, out, where), ""
        out.print(Rule("And when the budget does not suffice", align="left"))
        try:  # 3 and what the tour spent are more than the budget
            curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon="3")
        except BudgetExceededError as error:
            refusal = str(error)
        out.print(f"[red]refused:[/] {escape(refusal)}", highlight=False)
        left = curator.budget()
    out.print(Rule("What is left", align="left"))
    for view in left:
        out.print(f"{view}: enough for {view.counts(error=50):,} more counts at ±50")
    if as_json:
        remaining = {view.analyst or "everybody": float(view.remaining.epsilon) for view in left}
        print_json({"answers": answers, "attack": attack, "refused": refusal, "remaining": remaining})
    elif folder is not None:
        out.print(
            f"\nThe tour's ledger ended with it. Go on in {folder}: hush ledger open makes one that stays, then "
            "hush ask, hush budget, hush history."
        )


def _attack(curator: Curator, out: Console, where: Path) -> dict[str, Any]:
    """Ask the same count with and without one patient: exactly, then privately.

    The attacker knows every visit but those of one patient, so the difference of two exact counts tells how often that
    patient was treated. The second data set is the first without that patient; hush is asked about each.
    """
    import duckdb

    counted = {"visits": str(where / "visits.parquet")}
    with duckdb.connect() as connection:
        everybody, without = (
            connection.execute(_EXACT, {**counted, "left_out": patient}).fetchall()[0][0] for patient in (-1, VICTIM)
        )
    answer = curator.ask(_PRIVATE, epsilon="0.2")
    private, error = answer.rows()[0]["n"], answer.rows()[0]["n_error"]
    out.print(Rule("An attack: somebody knows every visit but those of one patient", align="left"))
    out.print(f"exact     {everybody:,} visits for HIV, {without:,} without patient {VICTIM}: the secret is out.")
    out.print(
        f"private   {private:,.0f} ± {error:.0f}, less the {without:,} the attacker knows of: "
        f"{private - without:+,.0f} ± {error:.0f} tells nothing about one patient."
    )
    return {"exact": everybody - without, "private": private - without, "error": error}


def write_hospital(folder: Path, patients: int = PATIENTS, engine: str = "duckdb") -> None:
    """Write visits.parquet, regions.csv and hush.toml into a folder."""
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    target = str(folder / "visits.parquet").replace("'", "''")
    with duckdb.connect() as connection:
        connection.execute(_UNIFORM)
        connection.execute(_VISITS.format(patients=int(patients), target=target))
    (folder / "regions.csv").write_text(REGIONS, encoding="utf-8")
    (folder / "hush.toml").write_text(POLICY.replace('"duckdb"', f'"{engine}"', 1), encoding="utf-8")


# One count under four models of trust, with real processes.

_PARTIES = ("north", "east", "south", "west")
_PEOPLE = 10_000
_SHARE = 0.3
_CHART = "price-of-trust.svg"


def _trust_tour(out: Console, epsilon: str, folder: Path | None) -> dict[str, Any]:
    """Run the tour, and return its figures; a chart is saved in the folder, if one is given."""
    from hush.distributed import chart_of_trust, price_of_trust
    from hush.mechanisms import Laplace, RandomizedResponse

    true = [int(_PEOPLE / len(_PARTIES) * _SHARE) + 10 * i for i in range(len(_PARTIES))]
    out.print(Rule(f"One count, four models of trust: {_PEOPLE:,} people, ε = {epsilon}", align="left"))
    rows = price_of_trust(epsilon=epsilon, people=_PEOPLE)
    drawn: dict[str, float] = {"aggregated, 10% lost": _secure_sum(true, epsilon, out)}
    drawn["central"] = Laplace(sensitivity=1, epsilon=epsilon).release(sum(true))
    for model in ("local", "shuffled"):  # everybody is asked by randomized response, and the count is estimated
        own: Any = next(row.local_epsilon for row in rows if row.model == model)
        response = RandomizedResponse(epsilon=own)
        answers = response.release([1] * sum(true) + [0] * (_PEOPLE - sum(true)))
        drawn[model] = float(response.estimate(answers)[1]) * _PEOPLE
    figures = ("standard deviation", f"one run (truth {sum(true):,})")
    table = plain_table("model", "trusted", *figures, right=figures)
    for row in rows:
        run = drawn.get(row.model)
        table.add_row(row.model, row.trusted, figure(row.deviation, digits=3), "" if run is None else f"{run:,.0f}")
    out.print(table)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        chart_of_trust(rows).save(folder / _CHART)
        out.print(f"A chart of it is in {folder / _CHART}.")
    models = [{"model": row.model, "deviation": row.deviation, "run": drawn.get(row.model)} for row in rows]
    chart = None if folder is None else str(folder / _CHART)
    return {"models": models, "truth": sum(true), "smokers": _smokers(out), "chart": chart}


def _secure_sum(counts: list[int], epsilon: str, out: Console) -> int:
    """Let four processes and an aggregator sum their counts with shared noise."""
    from multiprocessing import get_context

    from hush.distributed import Session, aggregate, join, listen, new_key

    keys = {name: new_key() for name in _PARTIES}
    private, public = new_key()
    parties = {name: key[1] for name, key in keys.items()}
    session = Session(name="demo", parties=parties, aggregator=public, epsilon=epsilon)
    server = listen("127.0.0.1", 0)
    address = server.getsockname()
    children = [
        get_context("spawn").Process(target=join, args=(session, name, keys[name][0], [count], address))
        for name, count in zip(_PARTIES, counts, strict=True)
    ]
    for child in children:
        child.start()
    try:
        total = aggregate(session, private, server, seconds=60)
    finally:
        for child in children:
            child.join(timeout=60)
    out.print(
        f"Four processes ({', '.join(_PARTIES)}) summed their counts. The aggregator saw four masked numbers and "
        f"the sum, [bold]{int(total.values[0]):,}[/], whose noise deviates by {figure(total.deviation, digits=3)}."
    )
    return int(total.values[0])


def _smokers(out: Console) -> dict[str, Any]:
    """Compute the share of smokers with cancer among three people, exactly and with noise."""
    from hush.distributed import LaplaceShare

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
