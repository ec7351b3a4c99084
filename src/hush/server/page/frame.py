"""What surrounds a page: its places, the data set, and bars of what is left."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import Response

from hush.core import BudgetExceededError, HushError
from hush.core.format import figure, visible
from hush.core.values import dataclass
from hush.ledger import AccountView, ApprovalNeededError, Role
from hush.server import problems
from hush.server.errors import ForbiddenError, NoPolicyError, SignInError
from hush.server.pages import draw
from hush.server.people import Person
from hush.server.questions import ServedCurator
from hush.server.routes import Handler
from hush.server.service import Service

_STANDING = ("Standing", "/standing")
_ANALYST = (
    ("Ask", "/ask"),
    ("Releases", "/releases"),
    _STANDING,
    ("Budget", "/budget"),
    ("History", "/history"),
    ("Tables", "/tables"),
)
_OWNER = (("Data", "/data"), ("People", "/people"), ("Requests", "/requests"), ("Audit", "/audit"))
_REQUESTS = (("My requests", "/requests"),)
"""Where analysts see what they asked the owner for; owners have a place for all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What is left of one budget."""

    whose: str
    left: str
    budget: str
    share: float


def bar(view: AccountView) -> Bar:
    """Return a budget as the head of a page shows it."""
    return Bar(
        whose=view.analyst or "everybody",
        left=figure(view.remaining.epsilon),
        budget=figure(view.epsilon),
        share=round(100 * float(view.remaining.share), 2),
    )


async def show(
    request: Request, service: Service, who: Person, template: str, status: int = 200, *, data: str = "", **values: Any
) -> Response:
    """Return a page with its head."""
    bars: list[Bar] = []
    data_sets: list[str] = []

    def look(curator: ServedCurator) -> None:
        data_sets.extend(curator.data_sets)
        chosen = data if data in curator.data_sets else next(iter(curator.data_sets), "")
        bars.extend(bar(view) for view in curator.budget() if view.data == chosen)

    if Role.ANALYST in who.roles:
        with suppress(ForbiddenError, NoPolicyError):  # an analyst whom no policy names yet
            await service.with_curator(who, look)
    waiting = await _waiting(service, who) if who.owner else 0
    analyst = Role.ANALYST in who.roles
    places = [*(_ANALYST if analyst else ()), *(_OWNER if who.owner else _REQUESTS), *(() if analyst else [_STANDING])]
    chosen = data or (data_sets[0] if data_sets else "")
    badges = {"/requests": waiting} if waiting else {}
    head = {"places": places, "badges": badges, "bars": bars, "data_sets": data_sets, "data": chosen}
    return draw(request, service, who, template, status, **head, **values)


async def _waiting(service: Service, who: Person) -> int:
    """Return how many requests wait for an owner."""
    with suppress(HushError):  # whatever is wrong with policy or ledger, the page itself says
        return sum(request["state"] == "waiting" for request in await service.requests(who))
    return 0


def told(handler: Handler) -> Handler:
    """Return a handler whose refusals are pages, with the words of the command line."""

    async def telling(request: Request, service: Service, who: Person) -> Response:
        try:
            return await handler(request, service, who)
        except SignInError:
            raise
        except HushError as error:
            return await show(request, service, who, "problem.html", problems.status(error), problem=problem_of(error))

    return telling


def problem_of(error: HushError) -> dict[str, Any]:
    """Return a refusal as pages show it, with the words of the command line."""
    waits, short = isinstance(error, ApprovalNeededError), type(error) is BudgetExceededError  # not of an allowance
    return {"text": visible(str(error), lines=True), "pointer": error.pointer(), "waits": waits, "short": short}


def text_of(values: QueryParams | FormData, name: str, most: int) -> str:
    """Return a field of a form or a query, cut to its longest."""
    found = values.get(name, "")
    return found[:most].replace("\r\n", "\n") if isinstance(found, str) else ""


def quoted(name: str) -> str:
    """Return a name as SQL takes it."""
    return name if name.isidentifier() and name.islower() else '"' + name.replace('"', '""') + '"'
