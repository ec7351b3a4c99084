"""The policy file: what it means, and what it says when it is wrong."""

from __future__ import annotations

import contextlib
import datetime as dt
import pickle
import tomllib
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.core import HushError, Neighbours
from hush.policy.columns import kind_of
from hush.policy.document import PolicyError, locate
from hush.policy.draft import Draft, DraftTable
from hush.policy.file import Policy
from hush.query.date_formats import DateFormat
from hush.query.question import fingerprint
from hush.query.schema import Hop, UnitPath
from hush.query.types import Kind, position

DESIGN = """
[data.clinic]
engine = "duckdb"                     # or postgresql://..., spark://...
unit = "patient_id"                   # omit: every row is one unit
neighbours = "add-remove"             # or "replace"
budget = { epsilon = "4", delta = "1e-7" }
[data.clinic.tables.visits]
source = "visits.parquet"
max_groups = 3
max_rows = 5
columns.age     = { type = "integer", lower = 0, upper = 120 }
columns.disease = { type = "text", values = ["Diabetes", "Flu", "Hepatitis", "HIV"] }
columns.cost    = { type = "decimal", lower = 0, upper = 5000, step = "0.01" }
[data.clinic.tables.regions]
source = "regions.csv"
public = true
[analysts.alice]
data = ["clinic"]
budget = { epsilon = "1", delta = "1e-8" }
"""

SHOP = """
[data.shop]
unit = "customer_id"
budget.epsilon = 1
[data.shop.tables.orders]
source = "orders"
columns.total = {{ type = "decimal", lower = 0, upper = 100 }}
[data.shop.tables.items]
source = "items"
unit = "{items}"
columns.price = "decimal"
[data.shop.tables.notes]
source = "notes"
unit = "{notes}"
columns.length = "integer"
"""


def test_the_policy_of_the_design():
    policy = Policy.parse(DESIGN)
    clinic = policy.data["clinic"]
    assert (clinic.engine, clinic.unit, clinic.neighbours) == ("duckdb", "patient_id", Neighbours.ADD_REMOVE)
    assert (clinic.budget.epsilon, clinic.budget.delta) == (4, Fraction(1, 10**7))
    assert policy.analysts["alice"].budget.delta == Fraction(1, 10**8)
    assert policy.analyst("alice").data == ("clinic",)
    schema = policy.schema("clinic")
    visits = schema.tables["visits"]
    assert (visits.max_groups, visits.max_rows, visits.unit) == (3, 5, UnitPath(column="patient_id"))
    age, disease, cost = (visits.columns[name] for name in ("age", "disease", "cost"))
    assert (age.kind, age.lower, age.upper, age.step, age.nullable) == (Kind.INTEGER, 0, 120, 1, True)
    assert disease.values == ("Diabetes", "Flu", "Hepatitis", "HIV")
    assert cost.step == Fraction(1, 100)
    assert schema.tables["regions"].public
    assert clinic.tables["visits"].source == "visits.parquet"


def test_columns_of_public_tables_may_come_from_the_engine_and_of_private_ones_never():
    found = {"regions": {"id": "BIGINT", "name": "VARCHAR", "shape": "BLOB"}, "visits": {"secret": "VARCHAR"}}
    schema = Policy.parse(DESIGN).schema("clinic", found)
    assert {name: type_.kind for name, type_ in schema.tables["regions"].columns.items()} == {
        "id": Kind.INTEGER,
        "name": Kind.TEXT,
    }
    assert "secret" not in schema.tables["visits"].columns


def test_columns_default_to_nullable_and_decimals_to_no_grid():
    text = """
    [data.d]
    budget = { epsilon = 0.5 }
    [data.d.tables.t]
    source = "t"
    columns.weight = { type = "decimal", lower = 0, upper = 100 }
    columns.free = { type = "decimal" }
    columns.grade = { type = "decimal", values = ["1.1", 1.25] }
    columns.flag = { type = "boolean", nullable = false }
    columns.rank = { type = "integer", values = [3, 1, 2] }
    columns.day = { type = "date", lower = 2020-01-01, upper = "2020-12-31" }
    columns.at = { type = "timestamp", lower = 2020-01-01 }
    columns.score = { type = "decimal", lower = "-0.5", upper = 0.1, nullable = false }
    """
    policy = Policy.parse(text)
    assert policy.data["d"].budget.delta == 0
    assert policy.schema("d").unit is None
    columns = policy.schema("d").tables["t"].columns
    assert columns["weight"].step is None  # conditions see what is stored; sums have a grid of their own
    assert columns["free"].step is None
    assert columns["grade"].step == Fraction(1, 20)
    assert columns["flag"].values == (False, True)
    assert (columns["rank"].lower, columns["rank"].upper) == (1, 3)
    assert columns["day"].upper == position(dt.date(2020, 12, 31))
    assert columns["at"].lower == position(dt.datetime(2020, 1, 1))
    assert columns["score"].upper == Fraction(1, 10)
    assert not columns["score"].nullable


def test_units_by_foreign_keys():
    schema = Policy.parse(SHOP.format(items="orders.customer_id via order_id", notes="items via item = id")).schema(
        "shop"
    )
    assert schema.tables["items"].unit == UnitPath(
        column="customer_id", hops=(Hop(column="order_id", table="orders", key="order_id"),)
    )
    assert schema.tables["notes"].unit == UnitPath(
        column="customer_id",
        hops=(Hop(column="item", table="items", key="id"), Hop(column="order_id", table="orders", key="order_id")),
    )


@pytest.mark.parametrize(
    ("items", "notes", "line", "words"),
    [
        ("ordrs.customer_id via order_id", "cid", 10, "Did you mean 'orders'"),
        ("orders.customer via order_id", "cid", 10, "not orders.customer"),
        ("notes via x", "items via y", 14, "circle"),
        ("orders.customer_id via", "cid", 10, "cannot be read"),
        ("orders.customer_id", "cid", 10, "cannot be read"),
        ("", "cid", 10, "not empty"),
        ("items via id", "cid", 10, "circle"),
    ],
)
def test_bad_unit_paths(items, notes, line, words):
    with pytest.raises(PolicyError, match=words) as caught:
        Policy.parse(SHOP.format(items=items, notes=notes))
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('unit = "patient_id"', "unti = 3", 4, "Did you mean 'unit'"),
        ('unit = "patient_id"', 'unit = ""', 4, "Name the column"),
        ('"add-remove"             #', '"both" #', 5, "'add-remove' or 'replace'"),
        ('epsilon = "4"', "epsilon = -4", 6, "positive number of at most 1e100; got -4"),
        ('epsilon = "4"', 'epsilon = ""', 6, "still empty"),
        ('epsilon = "4"', "epsilon = nan", 6, "positive number"),
        ('epsilon = "4", ', "", 6, "epsilon is still empty"),
        ('delta = "1e-7"', "delta = 1", 6, "below 1"),
        ('delta = "1e-7"', "detla = 0", 6, "Did you mean 'delta'"),
        ('budget = { epsilon = "4", delta = "1e-7" }', "", 2, "budget.epsilon is still empty"),
        ('source = "visits.parquet"', "", 7, "needs a source"),
        ("max_rows = 5", "max_rows = 0", 10, "from 1"),
        ("max_rows = 5", "max_rows = 1048577", 10, "from 1 to 1048576; got 1048577. Noise grows with it"),
        ("max_groups = 3", "max_groups = 1048577", 9, "from 1 to 1048576; got 1048577. Noise grows with it"),
        ("max_rows = 5", "max_rows = true", 10, "whole number"),
        ("max_rows = 5", "max_row = 5", 10, "Did you mean 'max_rows'"),
        ('type = "integer"', 'type = "integr"', 11, "Did you mean 'integer'"),
        ('type = "integer", ', "", 11, "needs a type"),
        ("lower = 0, upper = 120", "lower = 0.5, upper = 120", 11, "whole number"),
        ("lower = 0, upper = 120", "lower = 130, upper = 120", 11, "not be below lower"),
        ("lower = 0, upper = 120", "lower = 0, uper = 120", 11, "Did you mean 'upper'"),
        ("lower = 0, upper = 120", "step = 500, lower = 1, upper = 120", 11, "too large"),
        ("lower = 0, upper = 120", "nullable = false", 11, "nearest to zero"),
        ('values = ["Diabetes", "Flu", "Hepatitis", "HIV"]', 'values = ["Flu", "Flu"]', 12, "twice"),
        ('values = ["Diabetes", "Flu", "Hepatitis", "HIV"]', "values = [1]", 12, "must be text"),
        ('values = ["Diabetes", "Flu", "Hepatitis", "HIV"]', "lower = 1", 12, "has no lower"),
        ('step = "0.01"', "step = 0", 13, "positive"),
        ('step = "0.01"', 'step = "0.01", values = [0.005]', 13, "multiples of its step"),
        ("columns.cost ", "columns.patient_id ", 13, "protected unit"),
        ("columns.cost ", "columns.AGE ", 13, "case alone"),
        ("public = true", "public = 1", 16, "true or false"),
        ("public = true", "public = true\nmax_rows = 3", 17, "public table has no max_rows"),
        ('data = ["clinic"]', 'data = ["clinc"]', 18, "Did you mean 'clinic'"),
        ('data = ["clinic"]', "data = 3", 18, "list of data sets"),
        ("[analysts.alice]", "[analyst.alice]", 17, "Did you mean 'analysts'"),
        ("[data.clinic]", "[data.clinic", 2, "not TOML"),
    ],
)
def test_an_error_has_its_line_and_a_way_out(old, new, line, words):
    assert old in DESIGN
    with pytest.raises(PolicyError, match=words) as caught:
        Policy.parse(DESIGN.replace(old, new))
    assert caught.value.line == line
    assert str(caught.value).startswith(f"hush.toml:{line}: ")
    assert (caught.value.code, caught.value.exit_status) == ("policy", 2)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_key_of_former_versions_is_passed_over_with_a_word(caplog):
    policy = Policy.parse(DESIGN.replace('source = "visits.parquet"', 'source = "visits.csv"\nkeep = true'))
    assert policy.data["clinic"].tables["visits"].source == "visits.csv"
    assert "data.clinic.tables.visits.keep is no longer used" in caplog.text
    assert "parquet" in caplog.text


def test_empty_and_missing_files(tmp_path):
    with pytest.raises(PolicyError, match="no data set"):
        Policy.parse("")
    with pytest.raises(PolicyError, match="hush init"):
        Policy.read(tmp_path / "none.toml")
    (tmp_path / "hush.toml").write_bytes(b"\xff")
    with pytest.raises(PolicyError, match="UTF-8"):
        Policy.read(tmp_path / "hush.toml")
    (tmp_path / "hush.toml").write_text(DESIGN)
    assert Policy.read(tmp_path / "hush.toml").directory == tmp_path


def test_rows_as_units_have_one_row():
    text = DESIGN.replace('unit = "patient_id" ', "").replace("                  # omit: every row is one unit", "")
    with pytest.raises(PolicyError, match="every row of visits is a unit"):
        Policy.parse(text)


@given(st.text())
def test_any_text_is_a_policy_or_a_policy_error(text):
    with contextlib.suppress(HushError):
        Policy.parse(text)


@given(st.text(alphabet="[]{}.=\"'#\n ,ab1", max_size=60))
def test_lines_are_found_for_whatever_toml_accepts(text):
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = locate(text)
    for key in values:
        if "\\" not in key:
            assert (key,) in found
    assert all(1 <= line <= text.count("\n") + 1 for line in found.values())


def test_lines_of_nested_keys():
    text = 'a.b = """\n[x]\n"""\n[t."q.r"]\nk = [ # c ]\n {i = 1},\n "]"]\nz=1'
    found = locate(text)
    assert found[("t", "q.r", "k", "0", "i")] == 6
    assert found[("t", "q.r", "z")] == 8
    assert ("x",) not in found


def test_the_draft_waits_for_the_owner_and_then_loads():
    visits = DraftTable(
        name="visits",
        source='v"s.parquet',
        columns={
            "patient_id": "BIGINT",
            "age": "INTEGER",
            "cost": "DECIMAL(10,2)",
            "disease": "VARCHAR",
            "day": "DATE",
            "odd name": "BOOLEAN",
            "photo": "BLOB\n[x]",
        },
    )
    empty = Draft(tables=[visits])
    with pytest.raises(PolicyError, match="Name the column"):
        Policy.parse(empty.to_toml())
    half = replace(empty, unit="patient_id")
    with pytest.raises(PolicyError, match="epsilon is still empty"):
        Policy.parse(half.to_toml())
    complete = replace(half, data="my clinic", epsilon="1")
    assert (empty.finished, half.finished, complete.finished) == (False, False, True)
    schema = Policy.parse(complete.to_toml()).schema("my clinic")
    kinds = {name: type_.kind for name, type_ in schema.tables["visits"].columns.items()}
    assert kinds == {
        "age": Kind.INTEGER,
        "cost": Kind.DECIMAL,
        "disease": Kind.TEXT,
        "day": Kind.DATE,
        "odd name": Kind.BOOLEAN,
    }
    assert all(
        type_.lower is None and not (type_.kind is Kind.TEXT and type_.values)
        for type_ in schema.tables["visits"].columns.values()
    )
    assert schema.tables["visits"].columns["cost"].step == Fraction(1, 100)


def test_kinds_of_sql_types():
    assert kind_of("timestamp with time zone") is Kind.TIMESTAMP
    assert kind_of("STRUCT(a INTEGER)") is None
    assert kind_of("character varying(10)") is Kind.TEXT
    assert kind_of("double precision") is Kind.DECIMAL
    assert kind_of("INTERVAL") is None


def test_the_owner_says_how_long_a_statement_may_take():
    assert Policy.parse(DESIGN).data_set("clinic").time_limit == 600
    limited = DESIGN.replace('engine = "duckdb" ', 'time_limit = 7200\nengine = "duckdb" ')
    assert Policy.parse(limited).data_set("clinic").time_limit == 7200
    with pytest.raises(PolicyError, match=r"time_limit must be a whole number from 1 to 604800; got 0\. It counts"):
        Policy.parse(limited.replace("7200", "0"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ('type = "date", format = "%d/%m"', "must be a day"),
        ('type = "date", format = "%d/%b/%Y"', "%b is not read"),
        ('type = "date", format = "%d/%m/%Y %d"', "each once"),
        ('type = "timestamp", format = "%d/%m/%Y %M:%S"', "perhaps a time"),
        ('type = "date", format = "%d\'%m\'%Y"', "spaces and"),
        ('type = "date", format = "dd/mm/yyyy"', "such as %d/%m/%Y"),
        ('type = "text", format = "%d/%m/%Y"', "a text column has no format"),
    ],
)
def test_formats_that_engines_would_not_read_alike_are_refused(words: str, message: str) -> None:
    text = DESIGN.replace("columns.age ", f"columns.day = {{ {words} }}\ncolumns.age ")
    with pytest.raises(PolicyError, match=message):
        Policy.parse(text)


def test_a_format_belongs_to_a_column_and_its_answers() -> None:
    day = (
        Policy.parse(
            DESIGN.replace("columns.age ", 'columns.day = { type = "date", format = "%d/%m/%Y" }\ncolumns.age ')
        )
        .schema("clinic")
        .tables["visits"]
        .columns["day"]
    )
    assert day.format == "%d/%m/%Y"
    assert DateFormat.parse(" %d/%m/%Y ").text == day.format, "spaces around a date do not count"
    assert fingerprint(day) != fingerprint(replace(day, format="%m/%d/%Y"))


def test_a_column_without_a_name_is_not_the_unit():
    mistakes = []
    drugs = '[data.clinic.tables.drugs]\nsource = "d.csv"\nunit = "visits via id"\ncolumns."" = { type = "text" }\n'
    Policy.parse(DESIGN + drugs, mistakes=mistakes)
    assert mistakes
    assert not [mistake for mistake in mistakes if "protected unit" in str(mistake)]
