"""The Tables page, and questions that are clicked together from tables: measure, group and condition become SQL.

The builder's form works without script, spends nothing, and leads to ``/ask?q=…``, where the question can be changed
before it is asked. Columns are named by their place in the schema, so that no name can be mistaken for SQL.

>>> visits = {"name": "visits", "columns": [{"name": "age", "type": "integer"}, {"name": "order", "type": "text"}]}
>>> print(sql(visits, {"measure": "average", "of": "0", "by": "1", "where": "0", "how": "at least", "value": "65"}))
SELECT "order", AVG(age) AS mean_age
FROM visits
WHERE age >= 65
GROUP BY "order"
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from starlette.responses import JSONResponse, RedirectResponse, Response

from hush.core.format import decimal
from hush.curator.catalogue import quoted
from hush.ledger import Role
from hush.server.api import number_of
from hush.server.errors import UnknownPlaceError
from hush.server.pages.layout import show
from hush.server.routes import ANALYST, ANYBODY, SIGNED_IN, Routes, Visit

ROUTES = Routes()
MEASURES: Mapping[str, tuple[str, str]] = {
    "number of rows": ("COUNT(*)", "n"),
    "sum": ("SUM({0})", "total_{1}"),
    "average": ("AVG({0})", "mean_{1}"),
    "median": ("MEDIAN({0})", "median_{1}"),
}
CONDITIONS: Mapping[str, str] = {
    "is": "=", "is not": "<>", "below": "<", "at most": "<=", "at least": ">=", "above": ">",
}  # fmt: skip
NUMBERS = {"integer", "decimal"}
TIMES = {"date", "timestamp"}


@ROUTES.page("GET /tables", ANALYST)
@ROUTES.page("GET /tables.{ending}", ANALYST)
async def tables_page(visit: Visit) -> Response:
    """Show the tables of all data sets."""
    data_sets = await visit.data_sets()
    if visit.path.get("ending") == "json":
        return JSONResponse({"data": data_sets})
    for data_set in data_sets:
        for table in data_set["tables"]:
            table["unit_example"] = None if table["public"] else _example(table, data_set["unit"])
    return await show(visit, "tables.html", shown=data_sets)


def _example(table: dict[str, Any], unit: str | None) -> dict[str, Any]:
    """Return a made-up unit: its rows in each group as they are stored, and as they count."""
    rows, groups = table.get("max_rows") or 1, table.get("max_groups") or 1
    keys = max((column["values"] for column in table["columns"] if column.get("values")), key=len, default=None)
    names = [str(key) for key in keys] if keys else [f"group {number}" for number in range(1, 9)]
    keys_shown = names[: min(groups + 2, len(names), 6)]
    stored = [rows + 4, *[1] * (len(keys_shown) - 1)]
    counted = [min(count, rows) if index < groups else 0 for index, count in enumerate(stored)]
    steps = [
        {"key": key, "stored": old, "counted": new} for key, old, new in zip(keys_shown, stored, counted, strict=True)
    ]
    return {"unit": unit or "row", "rows": rows, "groups": groups, "steps": steps, "most": rows * groups}


@ROUTES.page("GET /what-is-this", ANYBODY)
async def about_page(visit: Visit) -> Response:
    """Explain odds, ± and budgets to anybody."""
    return await show(visit, "about.html")


@ROUTES.page("GET /", SIGNED_IN)
async def home(visit: Visit) -> Response:
    """Lead to where somebody works."""
    return RedirectResponse("/ask" if Role.ANALYST in visit.who.roles else "/data", 303)


# questions that are clicked together


def summable(table: Mapping[str, Any]) -> list[tuple[int, str]]:
    """Return the places and names of the columns that can be summed: numbers within declared limits."""
    columns = enumerate(table["columns"])
    return [
        (place, column["name"])
        for place, column in columns
        if column["type"] in NUMBERS and column.get("lower") is not None
    ]


def sql(table: Mapping[str, Any], chosen: Mapping[str, str]) -> str:
    """Return the chosen question as SQL; empty fields of the form add no clause."""
    of, by, where = (_column(table, chosen.get(field, "")) for field in ("of", "by", "where"))
    measure = chosen.get("measure", "")
    if measure not in MEASURES or of is None:
        measure = "number of rows"
    form, name = MEASURES[measure]
    plain = "" if of is None else "".join(letter if letter.isalnum() else "_" for letter in of["name"].lower())
    outputs = [f"{form.format('' if of is None else quoted(of['name']))} AS {quoted(name.format('', plain))}"]
    lines, group = [f"FROM {quoted(table['name'])}"], ""
    if by is not None:
        group = "month" if by["type"] in TIMES else quoted(by["name"])
        month = f"DATE_TRUNC('month', {quoted(by['name'])}) AS month"
        outputs.insert(0, month if by["type"] in TIMES else group)
    how, value = CONDITIONS.get(chosen.get("how", "")), chosen.get("value", "").strip()
    if where is not None and how is not None and value:
        lines.append(f"WHERE {quoted(where['name'])} {how} {_literal(where['type'], value)}")
    if group:
        lines.append(f"GROUP BY {group}")
    return "\n".join([f"SELECT {', '.join(outputs)}", *lines])


def _column(table: Mapping[str, Any], place: str) -> dict[str, Any] | None:
    return next((column for index, column in enumerate(table["columns"]) if index == number_of(place)), None)


def _literal(kind: str, value: str) -> str:
    """Return a value as SQL; a value of the wrong type stays a text, which the question's refusal then names."""
    text = "'" + value.replace("'", "''") + "'"
    if kind in NUMBERS:
        with suppress(ValueError, ZeroDivisionError):
            return decimal(Fraction(value)) if len(value) <= 40 else text
    if kind == "boolean" and value.lower() in {"true", "false", "yes", "no"}:
        return "TRUE" if value.lower() in {"true", "yes"} else "FALSE"
    return {"date": "DATE ", "timestamp": "TIMESTAMP "}.get(kind, "") + text


@ROUTES.page("GET /build", ANALYST)
async def build(visit: Visit) -> Response:
    """Lead to the question that was clicked together."""
    fields = await visit.fields()
    for data_set in await visit.data_sets():
        for table in data_set["tables"]:
            if (data_set["name"], table["name"]) == (fields["data"], fields["table"]):
                query = {"q": sql(table, fields), "data": data_set["name"]}
                return RedirectResponse(f"/ask?{urlencode(query)}", 303)
    raise UnknownPlaceError
