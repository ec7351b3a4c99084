"""Standing questions on the page: the list, every release with table, chart and receipt, and how owners declare one.

Every release has an address that stays, ``/standing/NAME/2026-11-16``; the newest is also ``/standing/NAME/latest``.
Both take ``.json``, ``.csv``, ``.arrow`` or ``.svg`` at their end for files. What is public is shown to anybody.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from hush.core import HushError, InvalidValueError
from hush.core.format import visible
from hush.curator.publishing import StandingExplanation
from hush.curator.standing import StandingView
from hush.ledger.shares import percent
from hush.ledger.standing import StandingQuestion
from hush.query.types import Kind
from hush.report import files
from hush.report.columns import AnswerColumn, shown_error
from hush.report.pictures import picture
from hush.server import problems, standing
from hush.server.api import written
from hush.server.errors import NoPolicyError, UnknownPlaceError
from hush.server.page.answers import NARROW, both, shown
from hush.server.page.frame import problem_of, show, text_of
from hush.server.people import Person
from hush.server.routes import Reached, Visitor
from hush.server.service import Service

_FILES = {"csv": "csv", "json": "json", "arrow": "arrow"}
_SHOWN = 60
_WIDEST = 1040.0
_SERIES = 3
"""From so many releases on they are drawn over time."""
_PRICES = (("epsilon", "each release"), ("total_epsilon", "all releases together"))
_WORDS = {
    "planned": "to come",
    "due": "due: it is made soon",
    "running": "being made",
    "made": "released",
    "failed": "failed; it stays charged",
    "skipped": "skipped",
    "ended": "not made: ended before",
}
_FIELDS = ("name", "question", "amount", "price", "every", "first", "releases", "late", "readers", "data")


async def standing_page(request: Request, service: Service, who: Person) -> Response:
    """Show the standing questions, as a page, JSON or CSV."""
    views = await standing.listed(request, service, who)
    ending = request.path_params.get("ending", "")
    if ending == "json":
        return JSONResponse({"standing": [view.to_json() for view in views]})
    if ending == "csv":
        rows = [{"name": view.name} | release.to_json() for view in views for release in view.releases]
        return _csv(rows, ("name", "period", "slot", "state", "receipt"), "standing")
    if ending:
        raise UnknownPlaceError
    return await _list(request, service, who, given={})


async def _list(
    request: Request,
    service: Service,
    who: Person,
    status: int = 200,
    *,
    given: dict[str, str],
    explained: StandingExplanation | None = None,
    error: HushError | None = None,
) -> Response:
    views = await standing.listed(request, service, who)
    names = await service.with_policy(lambda opened: list(opened.policy.data))
    usual = dict.fromkeys(_FIELDS, "") | {"every": "week", "releases": "12", "late": "make", "readers": "analysts"}
    usual |= {"price": "epsilon", "first": datetime.now(UTC).date().isoformat(), "data": names[0] if names else ""}
    told = None if explained is None else _told(explained)
    return await show(
        request,
        service,
        who,
        "standing.html",
        status,
        questions=[_question(view) for view in views],
        owner=_owns(who),
        known_data=names,
        prices=_PRICES,
        given=usual | given,
        explained=told,
        problem=None if error is None else problem_of(error),
    )


def _owns(who: Person) -> bool:
    return who.owner and "own" in who.scopes


def _question(view: StandingView) -> dict[str, Any]:
    """Return a standing question as templates draw it."""
    latest, to_come = view.latest, [release for release in view.releases if release.state in {"planned", "due"}]
    state = "ended" if view.ended else f"{view.left} to come" if view.left else "complete"
    return {
        "name": view.name,
        "data": visible(view.data),
        "question": visible(view.question, lines=True),
        "every": view.every,
        "epsilon": view.epsilon,
        "left": view.left,
        "state": state,
        "latest": "" if latest is None else latest.period,
        "next": "" if view.ended or not to_come else to_come[0].slot[:16].replace("T", " ") + " UTC",
    }


def _told(explained: StandingExplanation) -> dict[str, Any]:
    errors = [
        (visible(name), "known with the answer" if error is None else f"± {shown_error(float(error))}")
        for name, error in explained.release.errors().items()
    ]
    fits = explained.question.schedule.slots <= explained.fitting
    return {"head": visible(str(explained)), "errors": errors, "fits": fits, "share": percent(explained.share)}


async def question_page(request: Request, service: Service, who: Person) -> Response:
    """Show a standing question and what became of its dates."""
    name, _, ending = str(request.path_params["name"]).partition(".")
    view = await standing.found(request, service, who, name)
    if ending == "json":
        return JSONResponse(view.to_json())
    if ending == "csv":
        rows = [release.to_json() for release in view.releases]
        return _csv(rows, ("period", "slot", "state", "receipt"), view.name)
    if ending:
        raise UnknownPlaceError
    if sum(release.state == "made" for release in view.releases) < _SERIES:
        return await _drawn(request, service, who, view)
    answer = (await standing.read(request, service, who, name, "all")).answer
    chart = both([picture(answer.columns, width=width, heading=False) for width in (_WIDEST, NARROW)])
    series = {"chart": chart, "confidence": f"{100 * answer.confidence:.6g} %"}
    return await _drawn(request, service, who, view, series=series)


async def release_page(request: Request, service: Service, who: Person) -> Response:
    """Show one release, in any of its forms."""
    name, (period, _, ending) = request.path_params["name"], str(request.path_params["period"]).partition(".")
    found = await standing.read(request, service, who, name, period)
    if found.period == "all" and not ending:
        return RedirectResponse(f"/standing/{found.view.name}", 303)
    file = f"{found.view.name}-{found.period}"
    if ending in _FILES:
        response = written(found.answer, _FILES[ending])
        response.headers["content-disposition"] = f'attachment; filename="{file}.{ending}"'
        return response
    if ending == "svg":
        headers = {"content-disposition": f'attachment; filename="{file}.svg"'}
        return Response(found.answer.chart().svg, media_type="image/svg+xml", headers=headers)
    if ending:
        raise UnknownPlaceError
    made = found.receipt
    receipt = {
        "number": made.number,
        "when": made.when[:16].replace("T", " "),
        "epsilon": made.epsilon,
        "share": f"{100 * made.share:.2g} %",
        "request": made.request,
        "hash": found.hash,
    }
    return await _drawn(
        request, service, who, found.view, period=found.period, answer=shown(found.answer), receipt=receipt
    )


async def _drawn(request: Request, service: Service, who: Person, view: StandingView, **values: Any) -> Response:
    past = [release for release in view.releases if release.state not in {"planned", "ended"}]
    coming = [release for release in view.releases if release.state in {"planned", "ended"}]
    listed = [*reversed(past), *coming]
    rows = [
        {"period": release.period, "state": release.state, "receipt": release.receipt, "words": _WORDS[release.state]}
        for release in listed[:_SHOWN]
    ]
    given: dict[str, Any] = {"period": "", "answer": None, "receipt": None, "series": None, "problem": None}
    return await show(
        request,
        service,
        who,
        "standing_question.html",
        data=view.data,
        question=_question(view),
        releases=rows,
        further=max(len(listed) - _SHOWN, 0),
        owner=_owns(who),
        **given | values,
    )


async def _given(request: Request) -> dict[str, str]:
    form = await request.form()
    return {name: text_of(form, name, 50_000 if name == "question" else 1000).strip() for name in _FIELDS}


async def _understood(service: Service, given: dict[str, str]) -> StandingQuestion:
    if not given["releases"].isascii() or not given["releases"].isdecimal() or len(given["releases"]) > 5:
        raise InvalidValueError("releases", got=given["releases"], allowed="a whole number from 1")
    price = given["price"] if given["price"] in dict(_PRICES) else "epsilon"
    readers = given["readers"]
    listed = [name.strip() for name in readers.split(",") if name.strip()]
    words = {
        "name": given["name"],
        "question": given["question"],
        price: given["amount"],
        "every": given["every"],
        "first": given["first"],
        "releases": int(given["releases"]),
        "late": given["late"] != "skip",
        "readers": readers if readers in {"analysts", "public"} else listed,
        "data": given["data"],
    }
    return await standing.question_of(service, words)


async def explain(request: Request, service: Service, who: Person) -> Response:
    """Show what a standing question would cost."""
    given = await _given(request)
    try:
        explained = await standing.explained(service, await _understood(service, given))
    except HushError as error:
        return await _list(request, service, who, problems.status(error), given=given, error=error)
    return await _list(request, service, who, given=given, explained=explained)


async def declare(request: Request, service: Service, who: Person) -> Response:
    """Declare a standing question."""
    given = await _given(request)
    try:
        view = await standing.declared(service, who, await _understood(service, given))
    except HushError as error:
        return await _list(request, service, who, problems.status(error), given=given, error=error)
    return RedirectResponse(f"/standing/{view.name}", 303)


async def end(request: Request, service: Service, who: Person) -> Response:
    """End a standing question."""
    name, form = request.path_params["name"], await request.form()
    view = await standing.found(request, service, who, name)
    try:
        await standing.ended(service, who, view.name, text_of(form, "reason", 2000).strip())
    except HushError as error:
        if isinstance(error, NoPolicyError | UnknownPlaceError):
            raise
        return await _drawn(request, service, who, view, problem=problem_of(error))
    return RedirectResponse(f"/standing/{view.name}", 303)


def _csv(rows: list[dict[str, Any]], names: tuple[str, ...], file: str) -> Response:
    columns = [
        AnswerColumn(
            name=name,
            kind=Kind.TEXT,
            values=tuple("" if row[name] is None else str(row[name]) for row in rows),
        )
        for name in names
    ]
    headers = {"content-disposition": f'attachment; filename="{file}.csv"'}
    return Response(files.to_csv(columns), media_type="text/csv", headers=headers)


def table() -> list[Reached]:
    """Return these pages' part of the table of routes."""
    anybody, owner = Visitor.ANYBODY, Visitor.OWNER
    places: list[tuple[str, str, Any, Visitor, str]] = [
        ("GET", "/standing", standing_page, anybody, "read"),
        ("GET", "/standing.{ending}", standing_page, anybody, "read"),
        ("POST", "/standing", declare, owner, "own"),
        ("POST", "/standing/explain", explain, owner, "own"),
        ("GET", "/standing/{name}", question_page, anybody, "read"),
        ("POST", "/standing/{name}/end", end, owner, "own"),
        ("GET", "/standing/{name}/{period}", release_page, anybody, "read"),
    ]
    return [
        Reached(method=method, path=path, handler=handler, visitor=visitor, scope=scope, page=True)
        for method, path, handler, visitor, scope in places
    ]
