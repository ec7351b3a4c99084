"""A clinic and a shop to ask about."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from hush.query.schema import Hop, Schema, Table, UnitPath
from hush.query.types import Kind, Type, position


def whole(lower=None, upper=None, *, nullable=True):
    ends = [None if end is None else Fraction(end) for end in (lower, upper)]
    return Type(Kind.INTEGER, nullable, *ends, Fraction(1))


def decimal(lower=None, upper=None, step=None, *, nullable=True):
    ends = [None if end is None else Fraction(end) for end in (lower, upper, step)]
    return Type(Kind.DECIMAL, nullable, *ends)


def text(*values, nullable=True):
    return Type(Kind.TEXT, nullable, values=values or None)


def make_schema():
    days = Type(Kind.DATE, True, position(dt.date(2020, 1, 1)), position(dt.date(2024, 12, 31)), Fraction(1))
    visits = Table(
        name="visits",
        columns={
            "age": whole(0, 120),
            "disease": text("Diabetes", "Flu", "Hepatitis", "HIV"),
            "cost": decimal(0, 5000, "0.01"),
            "quantity": whole(0, 10, nullable=False),
            "city": text(),
            "income": decimal(),
            "day": days,
            "at": Type(Kind.TIMESTAMP),
            "smoker": Type(Kind.BOOLEAN, values=(False, True)),
            "region_id": whole(1, 20),
        },
        unit=UnitPath(column="patient_id"),
        max_rows=5,
        max_groups=3,
    )
    patients = Table(
        name="patients",
        columns={"sex": text("f", "m", "x"), "born": whole(1900, 2024), "city": text()},
        unit=UnitPath(column="patient_id"),
    )
    regions = Table(
        name="regions",
        columns={"region_id": whole(1, 20, nullable=False), "name": text(), "population": whole(0, 10**8)},
        public=True,
    )
    tests = Table(
        name="tests",
        columns={"result": decimal(-1, 1, "0.125")},
        unit=UnitPath(column="patient_id", hops=(Hop(column="visit_id", table="visits", key="visit_id"),)),
    )
    tables = {table.name: table for table in (visits, patients, regions, tests)}
    return Schema(data="clinic", tables=tables, unit="patient_id")
