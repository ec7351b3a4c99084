"""The one table of what can be reached and by whom. What is not in it is not there.

Every route says who may come: anybody, whoever is signed in, analysts or owners; and which scope a token needs. A route
is wrapped here, so that no handler runs before its visitor is known, allowed and sure to mean it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from hush.core import InvalidValueError
from hush.core.values import dataclass
from hush.ledger import Role
from hush.server import identity, problems
from hush.server.errors import ForbiddenError, SignInError
from hush.server.people import Person, acting
from hush.server.questions import check_rate
from hush.server.service import Service
from hush.server.traffic import Rate


class Visitor(Enum):
    """Who may come."""

    ANYBODY = "anybody"
    SIGNED_IN = "signed in"
    ANALYST = "analyst"
    OWNER = "owner"


Handler = Callable[[Request, Service, Person], Awaitable[Response]]
NOBODY = Person(name="-", roles=frozenset(), scopes=frozenset())
"""Who comes to places for anybody without being signed in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A place that can be reached: its address, who may come, and what happens there."""

    method: str
    path: str
    handler: Handler
    visitor: Visitor
    scope: str = "read"
    """What a token must be for."""
    summary: str = ""
    """What it does, for the API's document; nothing for pages, which are not in it."""
    body: type[BaseModel] | None = None
    """The form of the request's body."""
    query: tuple[tuple[str, dict[str, Any]], ...] = ()
    """The names of the query, with their JSON schemas."""
    result: str = ""
    """The name of the response's schema in the API's document."""
    media: tuple[str, ...] = ()
    """Further forms in which the response can be had."""
    page: bool = field(default=False)
    """Whether people come here by browser: who is not signed in is sent to where they can."""


def built(table: Sequence[Reached]) -> list[Route]:
    """Return the routes of a table."""
    return [Route(place.path, _guarded(place), methods=[place.method], name=place.path) for place in table]


def _guarded(place: Reached) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        service = cast("Service", request.app.state.service)
        request.scope["hush.route"] = place.path
        try:
            who = await _let_in(place, request, service)
            if not place.page:
                _check_query(place, request)
            return await _acted(place, request, service, who)
        except SignInError as error:
            return RedirectResponse("/sign-in", 303) if place.page else problems.response(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it leaves in one form
            return _told(place, request, error)

    return endpoint


def _told(place: Reached, request: Request, error: Exception) -> Response:
    if not place.page:
        return problems.response(error)
    return cast("Response", request.app.state.refused(request, error))


async def _acted(place: Reached, request: Request, service: Service, who: Person) -> Response:
    """Do what somebody came for, in their name; what they changed then stands in the ledger's chain."""
    with acting(who.name, who.token):
        response = await place.handler(request, service, who)
    if service.people.acted:
        await service.record_acts()
    return response


def _check_query(place: Reached, request: Request) -> None:
    """Refuse names that nobody reads, and names that come twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    known = [name for name, _ in place.query]
    if set(names) - set(known) or len(names) != len(set(names)):
        allowed = f"made of {', '.join(known)}, each once" if known else "left out"
        raise InvalidValueError("query", got=", ".join(names), allowed=allowed)


async def _let_in(place: Reached, request: Request, service: Service) -> Person:
    """Return who comes, if they may."""
    identity.check_origin(request)
    who = identity.identify(request, service.people, service.settings)
    if who is None:
        if place.visitor is not Visitor.ANYBODY:
            raise SignInError
        return NOBODY
    if who.session and place.visitor is not Visitor.ANYBODY:
        await identity.check_form(request, service.settings)
    needed = {Visitor.ANALYST: Role.ANALYST, Visitor.OWNER: Role.OWNER}.get(place.visitor)
    if needed is not None and needed not in who.roles:
        raise ForbiddenError(f"This needs the {needed.value} role; ask the owner.")
    if place.visitor is not Visitor.ANYBODY and place.scope not in who.scopes:
        raise ForbiddenError(f"The token is not for this: it needs the scope {place.scope!r}.")
    check_rate(service.traffic, Rate.VISITS, who.name)
    return who
