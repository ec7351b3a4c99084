"""The Tables page: tables with their columns, and the largest change that one protected unit can make."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from hush.ledger import Role
from hush.server.auth.people import Person
from hush.server.pages.layout import draw, show
from hush.server.routes import NOBODY, Permission, Route, page_route
from hush.server.service import Service


async def tables_page(request: Request, service: Service, who: Person) -> Response:
    """Show the tables of all data sets."""
    data_sets = await service.data_sets(who)
    if request.path_params.get("ending") == "json":
        return JSONResponse({"data": data_sets})
    data_views = [
        {**data_set, "tables": [_table(table, data_set["unit"]) for table in data_set["tables"]]}
        for data_set in data_sets
    ]
    return await show(request, service, who, "tables.html", shown=data_views)


def _table(table: dict[str, Any], unit: str | None) -> dict[str, Any]:
    columns = [
        {"name": column["name"], "type": column["type"], "range": described(column)} for column in table["columns"]
    ]
    return {**table, "columns": columns, "unit_example": None if table["public"] else _example(table, unit)}


def described(column: dict[str, Any]) -> str:
    """Return a column's bounds or values in a few words."""
    if column.get("values"):
        values = [str(value) for value in column["values"]]
        return ", ".join(values) if len(values) <= 12 else f"{', '.join(values[:8])}, … ({len(values)} values)"
    lower, upper = column.get("lower"), column.get("upper")
    if lower is None and upper is None:
        return ""
    if lower is None or upper is None:
        return f"from {lower}" if upper is None else f"to {upper}"
    return f"{lower} – {upper}"


def beside(data_set: dict[str, Any]) -> dict[str, Any]:
    """Return a data set as it stands beside a question: tables, and of each column a few words."""
    tables = [
        {**table, "columns": [{"name": column["name"], "note": _brief(column)} for column in table["columns"]]}
        for table in data_set["tables"]
    ]
    return {**data_set, "tables": tables}


def _brief(column: dict[str, Any]) -> str:
    if column.get("values"):
        return f"{column['type']}, {len(column['values'])} values"
    lower, upper = column.get("lower"), column.get("upper")
    return column["type"] if lower is None or upper is None else f"{column['type']} {lower}–{upper}"


def _example(table: dict[str, Any], unit: str | None) -> dict[str, Any]:
    """Return a made-up unit: its rows in each group as they are stored, and as they count."""
    rows, groups = table.get("max_rows") or 1, table.get("max_groups") or 1
    keys = max((column["values"] for column in table["columns"] if column.get("values")), key=len, default=None)
    names = [str(key) for key in keys] if keys else [f"group {number}" for number in range(1, 9)]
    keys_shown = names[: min(groups + 2, len(names), 6)]
    stored = [rows + 4, *([1] * (len(keys_shown) - 1))] if len(keys_shown) > 1 else [rows + 4]
    counted = [min(count, rows) if index < groups else 0 for index, count in enumerate(stored)]
    steps = [
        {"key": key, "stored": old, "counted": new} for key, old, new in zip(keys_shown, stored, counted, strict=True)
    ]
    return {"unit": unit or "row", "rows": rows, "groups": groups, "steps": steps, "most": rows * groups}


async def about_page(request: Request, service: Service, who: Person) -> Response:
    """Explain odds, ± and budgets to anybody."""
    if who is NOBODY:
        return draw(request, service, who, "about.html", places=[], bars=[], data_sets=[], data="")
    return await show(request, service, who, "about.html")


async def home(_: Request, __: Service, who: Person) -> Response:
    """Lead to where somebody works."""
    return RedirectResponse("/ask" if Role.ANALYST in who.roles else "/data", 303)


def table() -> list[Route]:
    """Return the routes of the Tables page, the first page and the introduction."""
    return [
        page_route("GET", "/", home, Permission.SIGNED_IN),
        page_route("GET", "/tables", tables_page, Permission.ANALYST),
        page_route("GET", "/tables.{ending}", tables_page, Permission.ANALYST),
        page_route("GET", "/what-is-this", about_page, Permission.ANYBODY),
    ]
