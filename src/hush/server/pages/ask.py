"""The Ask page: a question, with its price and expected error before it is charged.

Looking never spends: ``GET /ask?q=…`` explains, ``POST /ask`` asks and leads to the answer's own address. A request id
in the form makes a second click, or a second try, bring the same answer for nothing.
"""

from __future__ import annotations

import json
import uuid
from functools import partial
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hush.core import HushError
from hush.core.format import figure
from hush.curator.answer import Answer
from hush.curator.curator import Curator
from hush.server import errors
from hush.server.auth.people import Person
from hush.server.opened import OpenPolicy
from hush.server.pages.answers import NARROW, WIDE, both, shown
from hush.server.pages.layout import problem_of, quoted, show, text_of
from hush.server.pages.preview import ROWS, Before, before
from hush.server.pages.query_builder import choices
from hush.server.pages.tables import beside
from hush.server.rate_limits import Rate
from hush.server.routes import Permission, Route, page_route
from hush.server.service import Service


async def ask_page(request: Request, service: Service, who: Person) -> Response:
    """Show a question, with its price and expected error before it is charged."""
    return await _asking(request, service, who, request.query_params)


async def _asking(
    request: Request,
    service: Service,
    who: Person,
    values: QueryParams | FormData,
    *,
    error: HushError | None = None,
    tried: Answer | None = None,
) -> Response:
    question, data = text_of(values, "q", 50_000), text_of(values, "data", 200)
    schema = await service.data_sets(who)
    data_set = next((candidate for candidate in schema if candidate["name"] == data), schema[0] if schema else None)
    preview: Before | None = None
    if question.strip():
        try:
            preview = await _before(service, who, question, values)
        except HushError as refusal:
            error = error or refusal
    status = 200 if error is None else errors.status(error)
    drawn = (
        [] if preview is None else [preview.dummy(width=width, name=f"hatch{width:.0f}") for width in (WIDE, NARROW)]
    )
    return await show(
        request,
        service,
        who,
        "ask.html",
        status,
        data="" if data_set is None else data_set["name"],
        schema=None if data_set is None else beside(data_set),
        question=question,
        known=preview,
        prices="" if preview is None else json.dumps(preview.to_json(), ensure_ascii=False),
        dummy=both(drawn),
        rows=preview.rows if preview else ROWS,
        examples=_examples(data_set),
        builders=[choices(table_schema) for table_schema in data_set["tables"] if not table_schema["public"]]
        if data_set
        else [],
        problem=None if error is None else problem_of(error),
        answer=None if tried is None else shown(tried),
        request_id=uuid.uuid4().hex,
        ask_first=await _ask_first(service, who),
        reason=text_of(values, "reason", 2000),
    )


async def _ask_first(service: Service, who: Person) -> str:
    """Return the ε above which a question waits for the owner; empty where none does."""

    def look(opened: OpenPolicy) -> str:
        analyst = opened.policy.analysts.get(who.name)
        return "" if analyst is None or analyst.ask_first is None else figure(analyst.ask_first, exact=True)

    return await service.with_policy(look)


async def _before(service: Service, who: Person, question: str, values: QueryParams | FormData) -> Before:
    service.rates.check(Rate.EXPLANATIONS, who.name)
    epsilon, rows = text_of(values, "epsilon", 60).strip(), text_of(values, "rows", 12)
    size = int(rows) if rows.isascii() and rows.isdigit() and 0 < int(rows) <= 10**9 else ROWS
    data = text_of(values, "data", 200) or None

    def look(curator: Curator) -> Before:
        names = curator.data_sets
        return before(curator, question, data=data if data in names else None, epsilon=epsilon, rows=size)

    return await service.with_curator(who, look)


async def explain(request: Request, _: Service, __: Person) -> Response:
    """Lead to the address at which a question is explained."""
    form = await request.form()
    names = {"q": 50_000, "data": 200, "epsilon": 60, "rows": 12}
    query = {name: text for name, length in names.items() if (text := text_of(form, name, length))}
    return RedirectResponse(f"/ask?{urlencode(query)}", 303)


async def ask(request: Request, service: Service, who: Person) -> Response:
    """Ask, and lead to the answer."""
    form = await request.form()
    question, epsilon = text_of(form, "q", 50_000), text_of(form, "epsilon", 60).strip()
    name = text_of(form, "request", 200) or uuid.uuid4().hex
    terms: dict[str, Any] = {"epsilon": epsilon} if epsilon else {}
    terms |= {"fresh": True} if "fresh" in form else {}
    terms |= {"reason": reason} if (reason := text_of(form, "reason", 2000).strip()) else {}
    try:
        answer = await service.ask(who, question, request=name, data=text_of(form, "data", 200) or None, **terms)
    except HushError as error:
        return await _asking(request, service, who, form, error=error)
    return RedirectResponse(f"/answers/{answer.receipt}{'?again=1' if answer.repeated else ''}", 303)


async def try_out(request: Request, service: Service, who: Person) -> Response:
    """Answer a question from made-up rows, for nothing."""
    form = await request.form()
    question, epsilon = text_of(form, "q", 50_000), text_of(form, "epsilon", 60).strip() or "0.1"
    data = text_of(form, "data", 200) or None
    try:
        service.rates.check(Rate.TRIES, who.name)
        answer = await service.with_curator(who, partial(_from_made_up, question, epsilon=epsilon, data=data))
    except HushError as error:
        return await _asking(request, service, who, form, error=error)
    return await _asking(request, service, who, form, tried=answer)


def _from_made_up(question: str, curator: Curator, **terms: Any) -> Answer:
    with curator.dummy() as made_up:
        return made_up.ask(question, **terms)


def _examples(schema: dict[str, Any] | None) -> list[str]:
    """Return three questions that this schema can answer."""
    if schema is None:
        return []
    for table in schema["tables"]:
        if table["public"]:
            continue
        name = quoted(table["name"])
        keys = [quoted(column["name"]) for column in table["columns"] if column.get("values")]
        numbers = [
            quoted(column["name"])
            for column in table["columns"]
            if column["type"] in {"integer", "decimal"} and column.get("lower") is not None
        ]
        days = [
            quoted(column["name"]) for column in table["columns"] if column["type"] == "date" and column.get("lower")
        ]
        questions = []
        if keys:
            questions.append(f"SELECT {keys[-1]}, COUNT(*) AS n\nFROM {name}\nGROUP BY {keys[-1]}")
        if numbers:
            by = f"{keys[0]}, " if keys else ""
            group = f"\nGROUP BY {keys[0]}" if keys else ""
            questions.append(f"SELECT {by}AVG({numbers[-1]}) AS mean\nFROM {name}{group}")
        if days:
            month = f"DATE_TRUNC('month', {days[0]})"
            questions.append(f"SELECT {month} AS month, COUNT(*) AS n\nFROM {name}\nGROUP BY month")
        questions.append(f"SELECT COUNT(*) AS n\nFROM {name}")
        return questions[:3]
    return []


def table() -> list[Route]:
    """Return the routes of the Ask page."""
    analyst = Permission.ANALYST
    return [
        page_route("GET", "/ask", ask_page, analyst),
        page_route("POST", "/explain", explain, analyst),
        page_route("POST", "/ask", ask, analyst, "ask"),
        page_route("POST", "/try", try_out, analyst),
    ]
