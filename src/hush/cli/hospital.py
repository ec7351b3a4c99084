"""A hospital that never was: 100,000 patients, their visits, and a policy that protects them.

DuckDB makes the rows from hashes of row numbers, so every run makes the same ones and no real person is among them.
"""

from __future__ import annotations

from pathlib import Path

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


def write(folder: Path, patients: int = PATIENTS) -> None:
    """Write visits.parquet, regions.csv and hush.toml into a folder."""
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    target = str(folder / "visits.parquet").replace("'", "''")
    with duckdb.connect() as connection:
        connection.execute(_UNIFORM)
        connection.execute(_VISITS.format(patients=int(patients), target=target))
    (folder / "regions.csv").write_text(REGIONS, encoding="utf-8")
    (folder / "hush.toml").write_text(POLICY, encoding="utf-8")
