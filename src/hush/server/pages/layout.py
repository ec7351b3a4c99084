"""The layout of every page: templates, navigation, the data set, bars of budgets left, and refusals as pages.

Templates lie in ``templates/``; they escape everything and know no undefined names. Scripts and styles lie in
``static/`` and are served as they are.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, cast

import jinja2
from markupsafe import Markup, escape
from starlette.responses import FileResponse, HTMLResponse, Response

from hush.core import BudgetExceededError, HushError
from hush.core.chart import style_sheet
from hush.core.format import figure, percent, visible
from hush.curator.curator import Curator
from hush.ledger import AccountView, ApprovalNeededError, Role
from hush.report.columns import shown_error
from hush.server import errors
from hush.server.auth import sessions
from hush.server.errors import ForbiddenError, NoPolicyError, UnknownPlaceError
from hush.server.routes import ANYBODY, NOBODY, Route, Routes, Visit

ROUTES = Routes()
_FOLDER = Path(__file__).parent
_STATIC = _FOLDER / "static"
_MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_CSRF_INPUT = Markup('<input type="hidden" name="{}" value="{}">')


@cache
def _templates() -> jinja2.Environment:
    loader = jinja2.FileSystemLoader(_FOLDER / "templates")
    templates = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, finalize=_visible, trim_blocks=True
    )
    templates.filters |= {
        "exact": escape,
        "amount": amount,
        "counted": counted,
        "minute": minute,
        "day": lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M"),
        "taken": lambda share: percent(share, taken=True),
        "percent": percent,
        "figure": figure,
        "half_width": shown_error,
        "rounded": rounded,
    }
    return templates


def _visible(value: Any) -> Any:
    """Return a value as a page shows it: with escapes for characters that nobody sees, unless it is markup already.

    What a form sends back must not change: there templates write ``{{ question | exact }}``.
    """
    return value if hasattr(value, "__html__") else visible(str(value), lines=True)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 row``, ``1,200 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


async def refused(visit: Visit, error: Exception, route: Route | None = None) -> Response:
    """Return a refusal: on the page of its route, else as a page of its own; to programs as problem+json.

    ``route`` is the one that was permitted, if any. A page for anybody shows no navigation.
    """
    if isinstance(error, HushError) and route is not None and visit.who is not NOBODY:
        if route.refused is not None and not isinstance(error, UnknownPlaceError):  # what is not there has no page
            try:
                return cast("Response", await route.refused(visit, error=error))
            except HushError as further:
                error = further
        return await show(visit, "problem.html", error=error)
    problem = errors.problem_response(error)
    if "text/html" not in visit.request.headers.get("accept", "") or visit.request.url.path.startswith("/api/"):
        return problem
    told = {"text": json.loads(bytes(problem.body))["detail"], "pointer": ""}
    nobody = Visit(visit.service, NOBODY, visit.request)
    page = await show(nobody, "problem.html", problem.status_code, problem=told)
    if "retry-after" in problem.headers:
        page.headers["retry-after"] = problem.headers["retry-after"]
    return page


@ROUTES.page("GET /static/{name}", ANYBODY)
async def static(visit: Visit) -> Response:
    """Return a script, a style sheet or an image."""
    name = visit.path["name"]
    if name == "chart.css":  # the colours of charts belong to charts
        return Response(style_sheet(), media_type="text/css")
    path = _STATIC / name
    if path.parent != _STATIC or path.suffix not in _MEDIA or not path.is_file():
        raise UnknownPlaceError
    return FileResponse(path, media_type=_MEDIA[path.suffix])


def account_view(view: AccountView) -> dict[str, Any]:
    """Return a budget as pages show it."""
    return {
        "data": view.data,
        "analyst": view.analyst or "",
        "whose": view.analyst or "everybody",
        "budget": figure(view.epsilon),
        "delta": figure(view.delta) if view.delta else "",
        "spent": percent(view.spent.share),
        "set_aside": percent(view.set_aside) if view.set_aside else "",
        "left": percent(view.remaining.share),
        "share": float(100 * view.remaining.share),
        "pending": view.pending,
        "removed": view.removed,
    }


async def show(
    visit: Visit,
    template: str,
    status: int | None = None,
    *,
    error: HushError | None = None,
    data: str = "",
    places: bool = True,
    **values: Any,
) -> Response:
    """Return a page with its head; a refusal is shown on it, and gives the status unless there is another one.

    Without ``places`` the head is that for nobody, whoever it is, and neither policy nor ledger is opened.
    """
    who = visit.who if places else NOBODY
    bars: list[dict[str, Any]] = []
    data_sets: list[str] = []

    def look(curator: Curator) -> None:
        data_sets.extend(curator.data_sets)
        data_set = data if data in curator.data_sets else next(iter(curator.data_sets), "")
        bars.extend(account_view(view) for view in curator.budget() if view.data == data_set)

    waiting = 0
    if Role.ANALYST in who.roles:
        with suppress(ForbiddenError, NoPolicyError):  # an analyst whom no policy names yet
            await visit.with_curator(look)
    if who.owner:
        with suppress(HushError):  # whatever is wrong with policy or ledger, the page itself says
            waiting = sum(request["state"] == "waiting" for request in await visit.requests())
    if status is None:
        status = 200 if error is None else errors.status(error)
    context = {
        "me": None if who is NOBODY else who,
        "analyst": Role.ANALYST in who.roles,
        "badge": waiting,
        "bars": bars,
        "data_sets": data_sets,
        "data": data or next(iter(data_sets), ""),
        "problem": None if error is None else problem_of(error),
        "path": visit.request.url.path,
        "csrf_input": _CSRF_INPUT.format(sessions.CSRF_FIELD, sessions.csrf_token(visit.request, visit.settings)),
        "request_id": uuid.uuid4().hex,
    }
    return HTMLResponse(_templates().get_template(template).render({**context, **values}), status)


def problem_of(error: HushError) -> dict[str, Any]:
    """Return a refusal as pages show it, with the words of the command line."""
    waits, short = isinstance(error, ApprovalNeededError), type(error) is BudgetExceededError  # not of an allowance
    return {"text": str(error), "pointer": error.pointer(), "waits": waits, "short": short}


async def data_set_named(visit: Visit, name: str) -> dict[str, Any] | None:
    """Return a data set of a person by its name, else their first one."""
    data_sets = await visit.data_sets()
    return next((data_set for data_set in data_sets if data_set["name"] == name), next(iter(data_sets), None))


def amount(text: str | None) -> str:
    """Return an amount of the ledger with few digits; a dash where there is none."""
    return "–" if text in {None, "infinite"} else figure(Fraction(str(text)))


def rounded(error: float) -> str:
    """Return an error with at most three significant digits."""
    return shown_error(float(f"{error:.3g}"))


def minute(when: str) -> str:
    """Return a time of the ledger up to its minute."""
    return when[:16].replace("T", " ")
