"""The table of all routes, each with its permission, and the document made from it. No route is outside the table.

Every route says who may use it (anybody, people who are signed in, analysts or owners) and which scope a token needs.
The check is wrapped around the handler here, so that no handler runs before the person is known and allowed, and the
request is known to be their own.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from hush.core import HushError, InvalidValueError
from hush.ledger import Role
from hush.server import errors, schemas
from hush.server.auth import sessions
from hush.server.auth.people import Person, acting
from hush.server.errors import ForbiddenError, SignInError, UnknownPlaceError
from hush.server.rate_limits import Rate, address_block
from hush.server.service import PersonalService, Service


class Permission(Enum):
    """Who may use a route."""

    ANYBODY = "anybody"
    SIGNED_IN = "signed in"
    ANALYST = "analyst"
    OWNER = "owner"


ANYBODY, SIGNED_IN, ANALYST, OWNER = Permission
Query = tuple[tuple[str, dict[str, Any]], ...]
"""The names of a query, with their JSON schemas."""
Handler = Callable[..., Awaitable[Any]]
"""A function of a visit, and of the body where the route has one. It returns a response, or the JSON values of one."""
HandlerOf = TypeVar("HandlerOf", bound=Handler)
NOBODY = Person(name="-", roles=frozenset(), scopes=frozenset())
"""The person of a request without a sign-in, on routes for anybody."""


class Fields(dict[str, str]):
    """The texts of a form or a query, by name; one that was not sent is empty."""

    def __missing__(self, _: str) -> str:
        return ""


class Visit(PersonalService):
    """A request that its route permits: the service for the person who sent it."""

    def __init__(self, service: Service, who: Person, request: Request) -> None:
        super().__init__(service, who)
        self.request, self.path, self.query = request, request.path_params, request.query_params
        self.address = address_block(sessions.client_address(request))

    async def fields(self) -> Fields:
        """Return the texts of the form that was sent, or of the query."""
        values = await self.request.form() if self.request.method == "POST" else self.query
        return Fields({name: text.replace("\r\n", "\n") for name, text in values.items() if isinstance(text, str)})

    def note_failure(self, way: str, name: str | None = None) -> None:
        """Count a failed sign-in of this person, or of another name."""
        self.service.failures.note(self.name if name is None else name, self.address, way)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route: method and path, permission, handler, and its part of the API's document."""

    method: str
    path: str
    handler: Handler
    permission: Permission
    scope: str = "read"
    """The scope that a token must have; ``own`` where owners alone are permitted."""
    summary: str = ""
    """Its summary in the API's document; the docstring of its handler, where this is empty."""
    body: type[BaseModel] | None = None
    """The model of the request's body."""
    query: Query = ()
    result: str = ""
    """The name of the response's schema in the API's document."""
    status: int = 200
    """The status of its response; 204 for a handler that returns nothing."""
    media: tuple[str, ...] = ()
    """Further media types of the response."""
    page: bool = False
    """Whether it is a page for browsers: people who are not signed in are redirected to the sign-in page."""
    refused: Handler | None = None
    """The page that shows a refusal of this one; the problem page without it."""

    def __post_init__(self) -> None:
        if self.permission is OWNER:
            object.__setattr__(self, "scope", "own")


class Routes(list[Route]):
    """The routes of a module, each declared above its handler."""

    def page(
        self, address: str, permission: Permission, scope: str = "read", refused: Handler | None = None
    ) -> Callable[[HandlerOf], HandlerOf]:
        """Declare the route of a page by its method and path, and the page that shows its refusals."""
        return self._declare(address, permission, scope=scope, page=True, refused=refused)

    def api(
        self,
        address: str,
        permission: Permission,
        result: str = "",
        body: type[BaseModel] | None = None,
        **more: Any,
    ) -> Callable[[HandlerOf], HandlerOf]:
        """Declare a route of the API; ``result`` names the schema of its response."""
        path = address.replace(" ", " /api/v1", 1)
        return self._declare(path, permission, result=result, body=body, **more)

    def _declare(self, address: str, permission: Permission, **more: Any) -> Callable[[HandlerOf], HandlerOf]:
        def declare(handler: HandlerOf) -> HandlerOf:
            method, path = address.split(" ")
            self.append(Route(method=method, path=path, handler=handler, permission=permission, **more))
            return handler

        return declare


def endpoint(route: Route) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler of a route behind its permission."""

    async def permitted(request: Request) -> Response:
        service = cast("Service", request.app.state.service)
        request.scope["hush.route"] = route.path
        visit = Visit(service, NOBODY, request)
        try:
            person = await _authorise(route, request, service)
            visit = Visit(service, person, request)
            if not route.page:
                _check_query(route, request)
            try:
                with acting(person.name, person.token):
                    body = [] if route.body is None else [await schemas.read(request, route.body)]
                    reply = await route.handler(visit, *body)
            finally:
                # What was changed stands in the ledger's chain before the response leaves.
                if service.people.acted:
                    await service.record_acts()
            if isinstance(reply, Response):
                return reply
            return Response(status_code=204) if reply is None else JSONResponse(reply, route.status)
        except SignInError as error:
            return RedirectResponse("/sign-in", 303) if route.page else errors.problem_response(error)
        except Exception as error:  # noqa: BLE001 - every error leaves as a problem
            # A receipt or a stream of somebody else's reads like one that is not there.
            hidden = isinstance(error, HushError) and error.code in {"unknown-receipt", "unknown-stream"}
            refusal = UnknownPlaceError() if hidden else error
            if not route.page:
                return errors.problem_response(refusal)
            return cast("Response", await request.app.state.refused(visit, refusal, route))

    return permitted


async def _authorise(route: Route, request: Request, service: Service) -> Person:
    """Return the person of a request, or refuse it: by its origin, sign-in, role, scope and rate."""
    # Before the sign-in check: it protects the sign-in form, too.
    sessions.check_origin(request)
    try:
        person = sessions.identify(request, service.people, service.settings)
    except SignInError:
        service.failures.note("", sessions.client_address(request), "token")
        raise
    if person is None:
        if route.permission is not ANYBODY:
            raise SignInError
        return NOBODY
    if route.permission is not ANYBODY:
        # Tokens need no CSRF check: no other site can make a browser send them.
        if person.session:
            await sessions.check_csrf(request, service.settings)
        role = {ANALYST: Role.ANALYST, OWNER: Role.OWNER}.get(route.permission)
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


# the API's document: OpenAPI 3.1


def document(table: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of all API routes."""
    components = dict(schemas.REPLIES)
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        if not route.page:
            paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hush",
            "version": "1",
            "description": "Noisy answers with error bars, until the budget is spent. Prices are exact texts.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route, components: dict[str, Any]) -> dict[str, Any]:
    shapes = {"number": {"type": "integer", "minimum": 1}}
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": shapes.get(name, {"type": "string", "minLength": 1})}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    done = {"description": "Done", "content": _content(route.result) | {media: {} for media in route.media}}
    refusal = {"description": "A refusal, with its status", "content": _content("Problem", errors.MEDIA)}
    operation: dict[str, Any] = {
        "summary": route.summary or (route.handler.__doc__ or "").rstrip("."),
        "operationId": f"{route.method.lower()}{re.sub(r'[^a-z]+', '_', route.path.removeprefix('/api/v1'))}",
        "parameters": [*in_path, *({"name": name, "in": "query", "schema": shape} for name, shape in route.query)],
        "responses": {
            **({str(route.status): done} if route.result else {"204": {"description": "Done"}}),
            "default": refusal,
        },
    }
    if route.permission is not Permission.ANYBODY:
        operation["security"] = [{"token": []}]
        operation["description"] = f"For: {route.permission.value}; a token needs the scope {route.scope!r}."
    if route.body is not None:
        schema = route.body.model_json_schema(ref_template="#/components/schemas/{model}")
        components.update(schema.pop("$defs", {}))
        components[route.body.__name__] = schema
        operation["requestBody"] = {"required": True, "content": _content(route.body.__name__)}
    return operation


def _content(schema: str, media: str = "application/json") -> dict[str, Any]:
    return {media: {"schema": {"$ref": f"#/components/schemas/{schema}"}}}
