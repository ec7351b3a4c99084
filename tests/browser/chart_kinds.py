"""One answer for every kind of chart, with the awkward cases in them."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction

from hush.curator.answer import Answer, Money
from hush.query.types import Kind
from hush.report.columns import AnswerColumn


def answer(*columns: AnswerColumn) -> Answer:
    return Answer(columns=columns, confidence=0.95, price=Money(epsilon=Fraction(1, 2), delta=Fraction(0)))


def key(name: str, kind: Kind, values: list) -> AnswerColumn:
    return AnswerColumn(name=name, kind=kind, values=tuple(values))


def counts(name: str, values: list, errors: list) -> AnswerColumn:
    return AnswerColumn(name=name, kind=Kind.INTEGER, values=tuple(values), errors=tuple(errors), counts=True)


_DAYS = [dt.date(2023, 1, 2) + dt.timedelta(days=7 * week) for week in range(60)]
_WAVE = [round(900 + 700 * math.sin(week / 9) + 40 * (week % 3)) for week in range(60)]
_DISEASES = ["Diabetes", "Flu", "Hepatitis", "HIV", "Injury"]
_LONG = [
    "Malignant neoplasms of lymphoid, haematopoietic and related tissue",
    "Diseases of the ear and mastoid process",
    "Certain conditions originating in the perinatal period",
    "Injury, poisoning and certain other consequences of external causes",
    "Codes for special purposes",
    "\u202egnp.exe <script>alert(1)</script>",
]
_AGES = [f"{10 * band}–{10 * band + 9}" for band in range(10)]
_REGIONS = ["North", "East", "South", "West", "Upper Franconia", "Lower Saxony and Bremen", "Coast"]

CHARTS: dict[str, Answer] = {
    "bars": answer(
        key("disease", Kind.TEXT, _DISEASES), counts("visits", [6808, 14819, 1806, -120, 5615], [745.0] * 4 + [9000.0])
    ),
    "bars-wrapped": answer(
        key("course", Kind.TEXT, ["acute heart failure", "chronic heart failure", "stroke", "no event so far", None]),
        counts("patients", [410, 530, 120, 980, 14], [30.0] * 5),
    ),
    "bars-lying": answer(
        key("chapter", Kind.TEXT, _LONG), counts("stays", [4100, 530, 1200, 3980, 14, 600], [90.0] * 6)
    ),
    "bars-two-keys": answer(
        key("disease", Kind.TEXT, [disease for disease in _DISEASES for _ in range(3)]),
        key("sex", Kind.TEXT, ["female", "male", None] * 5),
        counts("visits", [3400, 3300, 60, 7400, 7300, 90, 900, 880, 12, 210, 430, 5, 2500, 3000, 44], [75.0] * 15),
    ),
    "means": answer(
        key("disease", Kind.TEXT, _DISEASES),
        AnswerColumn(
            name="mean_cost",
            kind=Kind.DECIMAL,
            values=(403.0, 368.2, 347.0, 2146.0, 4900.0),
            errors=(97.0, 41.0, 180.0, 2854.0, 400.0),
            lower=0.0,
            upper=5000.0,
        ),
    ),
    "histogram": answer(
        key("age", Kind.INTEGER, [*range(0, 60, 5), *range(70, 100, 5)]),
        counts("n", [120, 180, 260, 410, 640, 800, 890, 860, 700, 560, 420, 330, 150, 110, 70, 30, 20, 4], [25.0] * 18),
    ),
    "line": answer(key("week", Kind.DATE, _DAYS), counts("visits", _WAVE, [110.0] * 60)),
    "lines": answer(
        key("week", Kind.DATE, [day for day in _DAYS[:30] for _ in range(2)]),
        key("sex", Kind.TEXT, ["female", "male"] * 30),
        counts(
            "visits",
            [value - 200 * sex for value in _WAVE[:30] for sex in range(2)],
            [None if week == 7 else 900.0 if week == 21 else 90.0 for week in range(30) for _ in range(2)],
        ),
    ),
    "map": answer(
        key("age", Kind.TEXT, [age for age in _AGES for _ in _REGIONS]),
        key("region", Kind.TEXT, _REGIONS * len(_AGES)),
        counts(
            "visits",
            [
                round(1500 * math.exp(-(((row - 5) / 3) ** 2)) / (1 + column / 2))
                for row in range(10)
                for column in range(7)
            ],
            [900.0 if row == 0 and column > 2 else 45.0 for row in range(10) for column in range(7)],
        ),
    ),
    "number": answer(
        AnswerColumn(name="mean_age", kind=Kind.DECIMAL, values=(47.31,), errors=(0.42,), lower=0.0, upper=120.0)
    ),
    "nothing": answer(key("g", Kind.TEXT, ["a"]), counts("n", [None], [None])),
}
