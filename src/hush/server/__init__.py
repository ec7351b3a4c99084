"""``hush serve``: a curator on the network, with an API for programs and pages for people.

::

    app ─► Middleware (headers, sizes, times) ─► table of routes ─► permission ─► handler ─► Service

`hush.server.app` makes the application of one worker from `ServiceSettings`; `hush.server.workers` starts workers.
`_ROUTES` below lists the modules that declare routes; docs/architecture.md says what each of the others has.

**A new page** is a handler ``async def page(visit: Visit) -> Response`` in a module of `hush.server.pages`, under
``@ROUTES.page("GET /address", ANALYST)``. It calls the methods of `Visit`, and draws a template of ``pages/templates/``
with `pages.layout.show`: autoescaped, without undefined names, and with escapes for characters that nobody sees; texts
that a form sends back are ``exact``. Forms carry ``{{ csrf_input }}``; scripts send the token as the header
``Hush-Form-Token``. There is no build step. The content security policy allows nothing inline and nothing from
elsewhere.

State lies in the stores, none in workers: a worker may be killed at any time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hush.server.pgwire.server import PgServer
    from hush.server.routes import Route
    from hush.server.service import Service
    from hush.server.settings import ServiceSettings

_ROUTES = ("hush.server.api", "hush.server.releases", "hush.server.streams", "hush.server.pages")
"""The modules that declare routes."""


def table() -> list[Route]:
    """Return the table of all routes."""
    return [route for name in _ROUTES for route in import_module(name).ROUTES]


def app(settings: ServiceSettings, pg: Callable[[Service], PgServer] | None = None) -> ASGIApp:
    """Return the application of one worker; ``pg`` makes its server of PostgreSQL's protocol, where it has one."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route as RoutingRoute

    from hush.server.middleware import Middleware
    from hush.server.pages.layout import refused
    from hush.server.routes import NOBODY, Visit, document, endpoint
    from hush.server.service import Service
    from hush.server.streams import Scheduler

    routes = table()
    api_document = document(routes)
    mcp_door = None
    if settings.mcp:
        from hush.server.mcp import McpDoor

        mcp_door = McpDoor(routes)
        routes.append(mcp_door.route)
    service = Service(settings)
    scheduler = Scheduler(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(service.close)
            if pg is not None:
                pg_server = pg(service)
                stack.push_async_callback(pg_server.close)
                await pg_server.open()
            scheduler.start()
            stack.push_async_callback(scheduler.close)
            if mcp_door is not None:
                await stack.enter_async_context(mcp_door.running())
            yield

    async def unknown(request: Request, error: Exception) -> Response:
        return await refused(Visit(service, NOBODY, request), error)

    paths = [RoutingRoute(route.path, endpoint(route), methods=[route.method], name=route.path) for route in routes]
    application = Starlette(routes=paths, lifespan=lifespan)
    application.router.redirect_slashes = False
    application.add_exception_handler(HTTPException, unknown)
    application.state.service, application.state.refused = service, refused
    application.state.document = api_document
    return Middleware(application, service)
