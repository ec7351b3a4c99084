"""The table of all routes, each with its permission. There are no routes outside the table.

Every route says who may use it (anybody, people who are signed in, analysts or owners) and which scope a token needs.
The check is wrapped around the handler here, so that no handler runs before the person is known and allowed, and the
request is known to be their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

from pydantic import BaseModel
from starlette import routing
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hush.core import InvalidValueError
from hush.ledger import Role
from hush.server import errors, schemas
from hush.server.auth import csrf, sessions
from hush.server.auth.people import Person, acting
from hush.server.errors import ForbiddenError, SignInError
from hush.server.rate_limits import Rate
from hush.server.service import Service


class Permission(Enum):
    """Who may use a route."""

    ANYBODY = "anybody"
    SIGNED_IN = "signed in"
    ANALYST = "analyst"
    OWNER = "owner"


Query = tuple[tuple[str, dict[str, Any]], ...]
"""The names of a query, with their JSON schemas."""
Handler = Callable[..., Awaitable[Response]]
"""A function of the request, the service, the person, and the body where the route has one."""
NOBODY = Person(name="-", roles=frozenset(), scopes=frozenset())
"""The person of a request without a sign-in, on routes for anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route: method and path, permission, handler, and its part of the API's document."""

    method: str
    path: str
    handler: Handler
    permission: Permission
    scope: str = "read"
    """The scope that a token must have."""
    summary: str = ""
    """Its summary in the API's document; empty for pages, which are not in it."""
    body: type[BaseModel] | None = None
    """The model of the request's body."""
    query: Query = ()
    result: str = ""
    """The name of the response's schema in the API's document."""
    media: tuple[str, ...] = ()
    """Further media types of the response."""
    page: bool = field(default=False)
    """Whether it is a page for browsers: people who are not signed in are redirected to the sign-in page."""


def page_route(method: str, path: str, handler: Handler, permission: Permission, scope: str = "read") -> Route:
    """Return the route of a page."""
    return Route(method=method, path=path, handler=handler, permission=permission, scope=scope, page=True)


def starlette_routes(table: Sequence[Route]) -> list[routing.Route]:
    """Return the routes of a table for the web framework, each behind its permission."""
    return [routing.Route(route.path, endpoint(route), methods=[route.method], name=route.path) for route in table]


def endpoint(route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a route behind its permission."""

    async def permitted(request: Request) -> Response:
        service = cast("Service", request.app.state.service)
        request.scope["hush.route"] = route.path
        try:
            person = await _authorise(route, request, service)
            if not route.page:
                _check_query(route, request)
            try:
                with acting(person.name, person.token):
                    body = [] if route.body is None else [await schemas.read(request, route.body)]
                    return await route.handler(request, service, person, *body)
            finally:
                # What was changed stands in the ledger's chain before the response leaves.
                if service.people.acted:
                    await service.record_acts()
        except SignInError as error:
            return RedirectResponse("/sign-in", 303) if route.page else errors.problem_response(error)
        except Exception as error:  # noqa: BLE001 - every error leaves as a problem
            if not route.page:
                return errors.problem_response(error)
            return cast("Response", request.app.state.refused(request, error))

    return permitted


async def _authorise(route: Route, request: Request, service: Service) -> Person:
    """Return the person of a request, or refuse it."""
    # Before the sign-in check: it protects the sign-in form, too.
    csrf.check_origin(request)
    try:
        person = sessions.identify(request, service.people, service.settings)
    except SignInError:
        service.failures.note("", sessions.client_address(request), "token")
        raise
    if person is None:
        if route.permission is not Permission.ANYBODY:
            raise SignInError
        return NOBODY
    if route.permission is not Permission.ANYBODY:
        # Tokens need no CSRF check: no other site can make a browser send them.
        if person.session:
            await csrf.check_csrf(request, service.settings)
        role = {Permission.ANALYST: Role.ANALYST, Permission.OWNER: Role.OWNER}.get(route.permission)
        if role is not None and role not in person.roles:
            raise ForbiddenError(f"This needs the {role.value} role; ask the owner.")
        if route.scope not in person.scopes:
            raise ForbiddenError(f"The token is not for this: it needs the scope {route.scope!r}.")
    service.rates.check(Rate.VISITS, person.name)
    return person


def _check_query(route: Route, request: Request) -> None:
    """Refuse unknown names in the query, and names that come twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    allowed_names = [name for name, _ in route.query]
    if set(names) - set(allowed_names) or len(names) != len(set(names)):
        allowed = f"made of {', '.join(allowed_names)}, each once" if allowed_names else "left out"
        raise InvalidValueError("query", got=", ".join(names), allowed=allowed)
