"""Asking: the question, what is known before it is paid for, and the answer with everything that can be done with it.

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
from hush.core.format import figure, visible
from hush.curator.answer import Answer
from hush.report.columns import AnswerColumn
from hush.report.pictures import picture
from hush.report.tables import MARK, cell, marks
from hush.server import problems
from hush.server.api import written
from hush.server.errors import UnknownPlaceError
from hush.server.page import exports
from hush.server.page.before import ROWS, Before, before
from hush.server.page.frame import show
from hush.server.page.tables import beside
from hush.server.people import Person
from hush.server.questions import ServedCurator, check_rate
from hush.server.routes import Reached, Visitor
from hush.server.service import Service

_WIDE, _NARROW = 520.0, 340.0
_ENDINGS = {"csv": "csv", "json": "json", "arrow": "arrow"}
_SHOWN_ROWS = 200


async def ask_page(request: Request, service: Service, who: Person) -> Response:
    """Show a question, and what is known before it is paid for."""
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
    question, data = _text(values, "q", 50_000), _text(values, "data", 200)
    schema = await service.data_sets(who)
    chosen = next((item for item in schema if item["name"] == data), schema[0] if schema else None)
    known: Before | None = None
    if question.strip():
        try:
            known = await _before(service, who, question, values)
        except HushError as refusal:
            error = error or refusal
    status = 200 if error is None else problems.status(error)
    drawn = [] if known is None else [known.dummy(width=width, name=f"hatch{width:.0f}") for width in (_WIDE, _NARROW)]
    return await show(
        request,
        service,
        who,
        "ask.html",
        status,
        data="" if chosen is None else chosen["name"],
        schema=None if chosen is None else beside(chosen),
        question=question,
        known=known,
        prices="" if known is None else json.dumps(known.to_json(), ensure_ascii=False),
        dummy=_both(drawn),
        rows=known.rows if known else ROWS,
        examples=_examples(chosen),
        problem=None if error is None else _problem(error),
        answer=None if tried is None else shown(tried),
        request_id=uuid.uuid4().hex,
    )


async def _before(service: Service, who: Person, question: str, values: QueryParams | FormData) -> Before:
    check_rate(service.traffic, f"explain {who.name}", every=1 / 40, burst=400, what="explanations")
    epsilon, rows = _text(values, "epsilon", 60).strip(), _text(values, "rows", 12)
    size = int(rows) if rows.isascii() and rows.isdigit() and 0 < int(rows) <= 10**9 else ROWS
    data = _text(values, "data", 200) or None

    def look(curator: ServedCurator) -> Before:
        names = curator.data_sets
        return before(curator, question, data=data if data in names else None, epsilon=epsilon, rows=size)

    return await service.with_curator(who, look)


async def explain(request: Request, _: Service, __: Person) -> Response:
    """Lead to the address at which a question is explained."""
    form = await request.form()
    names = {"q": 50_000, "data": 200, "epsilon": 60, "rows": 12}
    query = {name: text for name, most in names.items() if (text := _text(form, name, most))}
    return RedirectResponse(f"/ask?{urlencode(query)}", 303)


async def ask(request: Request, service: Service, who: Person) -> Response:
    """Ask, and lead to the answer."""
    form = await request.form()
    question, epsilon = _text(form, "q", 50_000), _text(form, "epsilon", 60).strip()
    name = _text(form, "request", 200) or uuid.uuid4().hex
    terms: dict[str, Any] = {"epsilon": epsilon} if epsilon else {}
    terms |= {"fresh": True} if "fresh" in form else {}
    try:
        answer = await service.ask(who, question, request=name, data=_text(form, "data", 200) or None, **terms)
    except HushError as error:
        return await _asking(request, service, who, form, error=error)
    return RedirectResponse(f"/answers/{answer.receipt}{'?again=1' if answer.repeated else ''}", 303)


async def try_out(request: Request, service: Service, who: Person) -> Response:
    """Answer a question from made-up rows, for nothing."""
    form = await request.form()
    question, epsilon = _text(form, "q", 50_000), _text(form, "epsilon", 60).strip() or "0.1"
    data = _text(form, "data", 200) or None
    try:
        check_rate(service.traffic, f"try {who.name}", every=1, burst=60, what="tries")
        answer = await service.with_curator(who, partial(_from_made_up, question, epsilon=epsilon, data=data))
    except HushError as error:
        return await _asking(request, service, who, form, error=error)
    return await _asking(request, service, who, form, tried=answer)


def _from_made_up(question: str, curator: ServedCurator, **terms: Any) -> Answer:
    with curator.dummy() as made_up:
        return made_up.ask(question, **terms)


async def answer_page(request: Request, service: Service, who: Person) -> Response:
    """Show an answer again, in any of its forms."""
    name, _, ending = str(request.path_params["name"]).partition(".")
    if not name.isascii() or not name.isdigit() or len(name) > 18:
        raise UnknownPlaceError
    answer = await service.answer(who, int(name))
    if ending in _ENDINGS:
        response = written(answer, _ENDINGS[ending])
        response.headers["content-disposition"] = f'attachment; filename="answer-{name}.{ending}"'
        return response
    if ending == "svg":
        file = answer.chart().svg
        headers = {"content-disposition": f'attachment; filename="answer-{name}.svg"'}
        return Response(file, media_type="image/svg+xml", headers=headers)
    release = await service.receipt(who, int(name))
    if ending in {"py", "ipynb"}:
        address = f"{request.url.scheme}://{request.headers.get('host', 'localhost')}"
        text = (
            exports.script(answer, release, address) if ending == "py" else exports.notebook(answer, release, address)
        )
        media = "text/x-python" if ending == "py" else "application/x-ipynb+json"
        headers = {"content-disposition": f'attachment; filename="answer-{name}.{ending}"'}
        return Response(text, media_type=media, headers=headers)
    if ending:
        raise UnknownPlaceError
    return await show(
        request,
        service,
        who,
        "answer.html",
        data=release["data"],
        answer=shown(answer),
        receipt=release,
        question=answer.question,
        again="again" in request.query_params,
        epsilon=figure(answer.price.epsilon, exact=True),
    )


async def compare_page(request: Request, service: Service, who: Person) -> Response:
    """Show two answers beside each other, with their differences."""
    numbers = [request.query_params.get(name, "") for name in ("a", "b")]
    answers: list[Answer] = []
    problem = None
    for number in numbers:
        if number.isascii() and number.isdigit() and len(number) <= 18:
            try:
                answers.append(await service.answer(who, int(number)))
            except UnknownPlaceError:
                problem = {"text": f"There is no answer of yours under receipt {number}.", "pointer": ""}
    pair = answers if len(answers) == 2 else []
    rows = compared(*pair) if pair else []
    recent = [made for made in await service.history(who, 50) if made["outcome"] == "answered"]
    return await show(
        request, service, who, "compare.html", numbers=numbers, answers=pair, rows=rows, recent=recent, problem=problem
    )


def compared(first: Answer, second: Answer) -> list[dict[str, str]]:
    """Return what two answers say of the same keys, and how far they are apart.

    The ± of a difference is the sum of both: where each holds 19 times in 20, theirs holds at least 9 times in 10.
    """
    numbers = [
        (one, two)
        for one in first.columns
        for two in second.columns
        if one.noisy and two.noisy and one.name == two.name and one.kind.numeric and two.kind.numeric
    ]
    if not numbers:
        return []
    one, two = numbers[0]
    places = {_keys(second, row): row for row in range(len(second))}
    rows = []
    for row in range(len(first)):
        keys = _keys(first, row)
        if keys not in places:
            continue
        other = places[keys]
        difference = _difference(one, row, two, other)
        label = ", ".join("NULL" if key is None else visible(str(key)) for key in keys) or "all rows"
        rows.append({"key": label, "a": cell(one, row), "b": cell(two, other), "difference": difference})
    return rows


def _difference(one: AnswerColumn, row: int, two: AnswerColumn, other: int) -> str:
    values = one.values[row], two.values[other]
    errors = [error for error in ((one.errors or ())[row], (two.errors or ())[other]) if error is not None]
    if None in values or len(errors) < 2:
        return "?"
    made = AnswerColumn(name="d", kind=one.kind, values=(values[1] - values[0],), errors=(sum(errors),))
    return cell(made, 0).replace(f" {MARK}", "")


def _keys(answer: Answer, row: int) -> tuple[Any, ...]:
    return tuple(column.values[row] for column in answer.columns if not column.noisy)


def shown(answer: Answer) -> dict[str, Any]:
    """Return an answer as templates draw it."""
    rows = []
    for row in range(min(len(answer), _SHOWN_ROWS)):
        cells = []
        for column in answer.columns:
            value, _, error = cell(column, row).partition(" ± ")
            quiet = column.noisy and column.values[row] is not None and not column.tells(row)
            cells.append({"value": value, "error": error, "numeric": column.kind.numeric, "quiet": quiet})
        rows.append(cells)
    drawable = len(answer) and any(column.noisy and column.kind.numeric for column in answer.columns)
    drawn = [picture(answer.columns, width=width, heading=False) for width in (_WIDE, _NARROW)] if drawable else []
    return {
        "columns": [{"name": visible(column.name), "numeric": column.kind.numeric} for column in answer.columns],
        "rows": rows,
        "further": max(len(answer) - _SHOWN_ROWS, 0),
        "chart": _both(drawn),
        "price": str(answer.price),
        "confidence": f"{100 * answer.confidence:.6g} %",
        "receipt": answer.receipt,
        "notes": [*marks(answer.columns), *answer.caveats],
        "made_up": answer.made_up,
    }


def _both(drawn: list[Any]) -> str:
    """Return a picture for wide screens and one for phones; what a style sheet hides is not read out either."""
    kinds = ("wide", "narrow")
    return "".join(made.page(classes=kind) for made, kind in zip(drawn, kinds, strict=False) if made is not None)


def _examples(schema: dict[str, Any] | None) -> list[str]:
    """Return three questions that this schema can answer."""
    if schema is None:
        return []
    for table in schema["tables"]:
        if table["public"]:
            continue
        name = _quoted(table["name"])
        keys = [_quoted(column["name"]) for column in table["columns"] if column.get("values")]
        numbers = [
            _quoted(column["name"])
            for column in table["columns"]
            if column["type"] in {"integer", "decimal"} and column.get("lower") is not None
        ]
        days = [
            _quoted(column["name"]) for column in table["columns"] if column["type"] == "date" and column.get("lower")
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


def _quoted(name: str) -> str:
    return name if name.isidentifier() and name.islower() else '"' + name.replace('"', '""') + '"'


def _problem(error: HushError) -> dict[str, str]:
    return {"text": visible(str(error), lines=True), "pointer": error.pointer()}


def _text(values: QueryParams | FormData, name: str, most: int) -> str:
    found = values.get(name, "")
    return found[:most].replace("\r\n", "\n") if isinstance(found, str) else ""


def table() -> list[Reached]:
    """Return these pages' part of the table of routes."""
    analyst = Visitor.ANALYST
    places: list[tuple[str, str, Any, str]] = [
        ("GET", "/ask", ask_page, "read"),
        ("POST", "/explain", explain, "read"),
        ("POST", "/ask", ask, "ask"),
        ("POST", "/try", try_out, "read"),
        ("GET", "/answers/{name}", answer_page, "read"),
        ("GET", "/compare", compare_page, "read"),
    ]
    return [
        Reached(method=method, path=path, handler=handler, visitor=analyst, scope=scope, page=True)
        for method, path, handler, scope in places
    ]
