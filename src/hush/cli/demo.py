"""``hush demo``: the whole way of a question, on a synthetic hospital: 100,000 patients, their visits, and a policy.

DuckDB makes the rows from hashes of row numbers, so every run makes the same ones and no real person is among them.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.rule import Rule

from hush.cli.options import JsonOption
from hush.cli.output import console, print_json
from hush.core import BudgetExceededError

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
VICTIM = 711
_EXACT = "SELECT COUNT(*) FROM read_parquet($visits) WHERE disease = 'HIV' AND patient_id <> $left_out"
_FIRST = "SELECT MIN(patient_id) FROM read_parquet($visits) WHERE disease = 'HIV' AND patient_id >= $first"
_PRIVATE = "SELECT COUNT(*) AS n FROM visits WHERE disease = 'HIV'"


class Tour(StrEnum):
    """The tours to choose from."""

    HOSPITAL = "hospital"
    DISTRIBUTED = "distributed"


def demo(
    tour: Annotated[
        Tour, typer.Argument(metavar="[TOUR]", help="hospital, or distributed: counting without a trusted curator.")
    ] = Tour.HOSPITAL,
    folder: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where to put the files; else they are deleted at the end.")
    ] = None,
    engine: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where the rows are added up: duckdb, or Spark's local[*] or sc://….")
    ] = "duckdb",
    patients: Annotated[int, typer.Option(help="How many patients to make.", min=1000)] = PATIENTS,
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
        from hush.cli import trust_tour

        shown = trust_tour.tour(out, folder=folder)
        if as_json:
            print_json(shown)
        return
    from hush.curator.opening import rehearse

    with ExitStack() as stack:
        where = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hush-demo-")))
        if folder is not None or not as_json:
            out.print(f"Making {patients:,} patients who never were, with their visits and a policy, in {where} …")
        write_hospital(where, patients, engine)
        curator = stack.enter_context(rehearse(where / "hush.toml", analyst="alice"))
        answers = [_ask(curator, out, *stop) for stop in TOUR]
        attack = _attack(curator, out, where)
        refusal = _refusal(curator, out)
        left = curator.budget()
    remaining = {view.analyst or "everybody": float(view.remaining.epsilon) for view in left}
    if as_json:
        print_json({"answers": answers, "attack": attack, "refused": refusal, "remaining": remaining})
        return
    out.print(Rule("What is left", align="left"))
    for view in left:
        out.print(f"{view}: enough for {view.counts(error=50):,} more counts at ±50")
    if folder is not None:
        out.print(
            f"\nThe tour's ledger ended with it. Go on in {folder}: hush ledger open makes one that stays, then "
            "hush ask, hush budget, hush history."
        )


def _ask(curator: Curator, out: Console, title: str, sql: str, epsilon: str) -> dict[str, Any]:
    out.print(Rule(title, align="left"))
    out.print(f"[bold]{escape(sql)}[/]  at ε = {epsilon}")
    answer = curator.ask(sql, epsilon=epsilon)
    out.print(answer)
    return answer.to_json()


def _attack(curator: Curator, out: Console, where: Path) -> dict[str, Any]:
    """Ask the same count with and without one patient: exactly, then privately.

    The attacker knows every visit but those of one patient, so the difference of two exact counts tells how often that
    patient was treated. The second data set is the first without that patient; hush is asked about each.
    """
    import duckdb

    visits = str(where / "visits.parquet")
    with duckdb.connect() as connection:

        def scalar(sql: str, **values: int) -> int:
            return int(connection.execute(sql, {"visits": visits, **values}).fetchall()[0][0])

        victim = scalar(_FIRST, first=VICTIM)
        everybody, without = scalar(_EXACT, left_out=-1), scalar(_EXACT, left_out=victim)
    answer = curator.ask(_PRIVATE, epsilon="0.2")
    private, error = answer.rows()[0]["n"], answer.rows()[0]["n_error"]
    out.print(Rule("An attack: somebody knows every visit but those of one patient", align="left"))
    out.print(f"exact     {everybody:,} visits for HIV, {without:,} without patient {victim}: the secret is out.")
    out.print(
        f"private   {private:,.0f} ± {error:.0f}, less the {without:,} the attacker knows of: "
        f"{private - without:+,.0f} ± {error:.0f} tells nothing about one patient."
    )
    return {"exact": everybody - without, "private": private - without, "error": error}


def _refusal(curator: Curator, out: Console) -> str:
    """Ask a question that costs more than the remaining budget, and show the refusal."""
    out.print(Rule("And when the budget does not suffice", align="left"))
    try:
        curator.ask("SELECT COUNT(*) AS n FROM visits", epsilon="3")
    except BudgetExceededError as error:
        out.print(f"[red]refused:[/] {escape(str(error))}", highlight=False)
        return str(error)
    raise AssertionError("a budget of 3 cannot hold what the tour spent and 3 more")


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
