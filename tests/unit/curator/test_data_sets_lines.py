"""What is found out when a policy's tables are opened is told with the policy's line, too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hush
from hush.core import HushError

POLICY = """[data.clinic]
unit = "patient_id"
budget = { epsilon = "4" }

[data.clinic.tables.visits]
source = "visits.parquet"
columns.age = { type = "integer", lower = 0, upper = 120 }

[data.clinic.tables.items]
source = "items.parquet"
unit = "visits.patient_id via visit_id"
columns.cost = { type = "integer", lower = 0, upper = 120 }

[analysts.alice]
data = ["clinic"]
budget = { epsilon = "4" }
"""
MISTAKES = {
    "no file": ('"visits.parquet"', '"visit.parquet"', "6: there is no file "),
    "no known ending": ('"visits.parquet"', '"visits.xyz"', "6: cannot tell what "),
    "not what it says": ('"visits.parquet"', '"hush.parquet"', "6: the source of table 'visits' cannot be read"),
    "an address": ('"visits.parquet"', '"https://a.example/v.parquet"', "got 'https://a.example/v.parquet'. Fetch it"),
    "no such column": ("columns.age", "columns.agee", "7: table 'visits' has no column 'agee'. Did you mean 'age'?"),
    "no such key": ("via visit_id", "via nope", "11: table 'items' has no column 'nope'. It has visit_id, cost."),
    "no such key over there": ("via visit_id", "via visit_id = nope", "11: table 'visits' has no column 'nope'"),
    "no such engine": ('unit = "patient_id"', 'unit = "patient_id"\nengine = "mysql"', "3: there is no engine 'mysql'"),
    "no such unit": (
        'unit = "patient_id"',
        'unit = "patientid"',
        "11: the unit of table visits is visits.patientid, not visits.patient_id. One of the two is misspelt",
    ),
    "no such unit of a table": (
        'source = "visits.parquet"',
        'source = "visits.parquet"\nunit = "patientid"',
        "12: the unit of table visits is visits.patientid, not visits.patient_id. One of the two is misspelt",
    ),
    "no such unit over there": (
        "visits.patient_id via",
        "visits.patientid via",
        "11: the unit of table visits is visits.patient_id, not visits.patientid.",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_policy_is_told_with_its_line(mistake: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({"patient_id": [1], "age": [30], "visit_id": [1]}), tmp_path / "visits.parquet")
    pq.write_table(pa.table({"visit_id": [1], "cost": [5]}), tmp_path / "items.parquet")
    (tmp_path / "hush.parquet").write_text("no parquet", encoding="utf-8")
    old, new, told = MISTAKES[mistake]
    path = tmp_path / "hush.toml"
    path.write_text(POLICY.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(HushError) as caught:
        hush.open(path)
    assert str(caught.value).startswith(f"{path}:")
    assert told in str(caught.value)


def test_an_address_is_not_read() -> None:
    with pytest.raises(HushError, match="is an address, and only files are read"):
        hush.protect("https://a.example/v.parquet", budget=1)
