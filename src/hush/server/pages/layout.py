"""The layout of every page: templates, navigation, the data set, bars of budgets left, and refusals as pages.

Templates lie in ``templates/``; they escape everything and know no undefined names. Scripts and styles lie in
``static/`` and are served as they are.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from hush.core import BudgetExceededError, HushError
from hush.core.format import figure, percent, visible
from hush.core.svg import style_sheet
from hush.curator.curator import Curator
from hush.ledger import AccountView, ApprovalNeededError, Role
from hush.server import errors
from hush.server.auth import csrf
from hush.server.auth.people import Person
from hush.server.errors import ForbiddenError, NoPolicyError, SignInError, UnknownPlaceError
from hush.server.routes import NOBODY, Handler, Permission, Route, page_route
from hush.server.service import Service

_FOLDER = Path(__file__).parent
_STATIC = _FOLDER / "static"
_MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_CSRF_INPUT = Markup('<input type="hidden" name="{}" value="{}">')
_STREAMS, _BUDGETS = ("Streams", "/streams"), ("Budgets", "/budgets")
_ANALYST = (
    ("Ask", "/ask"),
    ("Dashboards", "/dashboards"),
    ("Releases", "/releases"),
    _STREAMS,
    ("Budget", "/budget"),
    ("History", "/history"),
    ("Tables", "/tables"),
)
_OWNER = (("Data", "/data"), ("People", "/people"), ("Requests", "/requests"), ("Audit", "/audit"))


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(_FOLDER / "templates")
    templates = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    templates.filters["counted"] = counted
    return templates


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 row``, ``1,200 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def draw(request: Request, service: Service, who: Person, template: str, status: int = 200, **values: Any) -> Response:
    """Return a template as a page, without navigation unless it is among the values."""
    context: dict[str, Any] = {
        "places": [],
        "badges": {},
        "bars": [],
        "data_sets": [],
        "data": "",
        "analyst": Role.ANALYST in who.roles,
        "me": None if who is NOBODY else who,
        "csrf_input": _CSRF_INPUT.format(csrf.CSRF_FIELD, csrf.csrf_token(request, service.settings)),
        "path": request.url.path,
    }
    return HTMLResponse(_templates().get_template(template).render({**context, **values}), status)


def refused(request: Request, service: Service, error: Exception) -> Response:
    """Return an error as a page to browsers, and as problem+json to programs."""
    problem = errors.problem_response(error)
    if "text/html" not in request.headers.get("accept", "") or request.url.path.startswith("/api/"):
        return problem
    text = json.loads(bytes(problem.body))["detail"]
    page = draw(request, service, NOBODY, "problem.html", problem.status_code, problem={"text": text, "pointer": ""})
    if "retry-after" in problem.headers:
        page.headers["retry-after"] = problem.headers["retry-after"]
    return page


async def static(request: Request, _: Service, __: Person) -> Response:
    """Return a script, a style sheet or an image."""
    if request.path_params["name"] == "chart.css":  # the colours of charts belong to charts
        return Response(style_sheet(), media_type="text/css")
    path = _STATIC / request.path_params["name"]
    if path.parent != _STATIC or path.suffix not in _MEDIA or not path.is_file():
        raise UnknownPlaceError
    return FileResponse(path, media_type=_MEDIA[path.suffix])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One budget and its remaining part, as the head of a page shows them."""

    whose: str
    left: str
    budget: str
    share: float


def bar(view: AccountView) -> Bar:
    """Return a budget as the head of a page shows it."""
    return Bar(
        whose=view.analyst or "everybody",
        left=percent(view.remaining.share),
        budget=figure(view.epsilon),
        share=float(100 * view.remaining.share),
    )


async def show(
    request: Request, service: Service, who: Person, template: str, status: int = 200, *, data: str = "", **values: Any
) -> Response:
    """Return a page with its head."""
    bars: list[Bar] = []
    data_sets: list[str] = []

    def look(curator: Curator) -> None:
        data_sets.extend(curator.data_sets)
        data_set = data if data in curator.data_sets else next(iter(curator.data_sets), "")
        bars.extend(bar(view) for view in curator.budget() if view.data == data_set)

    if Role.ANALYST in who.roles:
        with suppress(ForbiddenError, NoPolicyError):  # an analyst whom no policy names yet
            await service.with_curator(who, look)
    waiting = await _waiting(service, who) if who.owner else 0
    analyst = Role.ANALYST in who.roles
    places = [*(_ANALYST if analyst else ()), *(_OWNER if who.owner else ())]
    places += [] if analyst else [_BUDGETS, _STREAMS] if who.owner else [_STREAMS]
    data_set = data or (data_sets[0] if data_sets else "")
    badges = {"/requests": waiting} if waiting else {}
    head = {"places": places, "badges": badges, "bars": bars, "data_sets": data_sets, "data": data_set}
    return draw(request, service, who, template, status, **head, **values)


async def _waiting(service: Service, who: Person) -> int:
    """Return how many requests wait for an owner."""
    with suppress(HushError):  # whatever is wrong with policy or ledger, the page itself says
        return sum(request["state"] == "waiting" for request in await service.requests(who))
    return 0


def with_problem_page(handler: Handler) -> Handler:
    """Return a handler that shows refusals as pages, with the words of the command line."""

    async def wrapper(request: Request, service: Service, who: Person) -> Response:
        try:
            return await handler(request, service, who)
        except SignInError:
            raise
        except HushError as error:
            return await show(request, service, who, "problem.html", errors.status(error), problem=problem_of(error))

    return wrapper


def problem_of(error: HushError) -> dict[str, Any]:
    """Return a refusal as pages show it, with the words of the command line."""
    waits, short = isinstance(error, ApprovalNeededError), type(error) is BudgetExceededError  # not of an allowance
    return {"text": visible(str(error), lines=True), "pointer": error.pointer(), "waits": waits, "short": short}


def text_of(values: QueryParams | FormData, name: str, most: int) -> str:
    """Return a field of a form or a query, cut to its longest."""
    value = values.get(name, "")
    return value[:most].replace("\r\n", "\n") if isinstance(value, str) else ""


def quoted(name: str) -> str:
    """Return a name as SQL takes it."""
    return name if name.isidentifier() and name.islower() else '"' + name.replace('"', '""') + '"'


def table() -> list[Route]:
    """Return the route of scripts, style sheets and images."""
    return [page_route("GET", "/static/{name}", static, Permission.ANYBODY)]
