"""``hush serve``: a curator on the network, with an API for programs and pages for people.

::

    app ─► Protection (headers, sizes, times) ─► table of routes ─► who comes, and may they? ─► handler ─► Service

`hush.server.app` makes the application of one worker from `ServiceSettings`; `hush.server.running` starts workers. Who
looks for something finds

*   `routes`: the one table, route → visitor and scope; `api` and `pages` each give their part of it (``table()``);
*   `releases` and `streams`: the API of whole releases; `standing`: questions that are released again and again;
*   `service`: what is done for whoever is signed in. API and pages call the same methods;
*   `questions`: queue, one question at a time for each person, slots, time limit, cancelling;
*   `opened`: policy, engines and ledger, opened once for all and read again when the policy changes;
*   `people` (who may come) and `traffic` (what goes on), which all workers share: a `storage` is a SQLite file or a
    PostgreSQL database. `passwords` and `oidc` are ways to sign in;
*   `audit`: how owners' acts get into the ledger's chain; `explained`: explanations given a moment ago;
*   `door`: PostgreSQL's protocol, for tools that speak it;
*   `identity` (tokens, cookies, forms), `protection`, `problems` (errors as problem+json), `forms` (values as JSON).

**A new page** is a handler ``async def page(request, service, who) -> Response`` in a module with a ``table()`` of
`routes.Reached` with ``page=True``, added to `table` below. It calls `Service`, and draws a template of ``templates/``
with `pages.draw`: autoescaped, without undefined names. Forms carry ``{{ form_field }}``/``{{ form_token }}``; scripts
send it as the header ``Hush-Form-Token``. Files in ``static/`` are served as they are; there is no build step. The
content security policy allows nothing inline and nothing from elsewhere.

State lives in the stores, none in workers: a worker may be killed at any time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from hush.server.door.listening import DoorSocket
    from hush.server.routes import Reached
    from hush.server.settings import ServiceSettings


def table() -> list[Reached]:
    """Return the whole table of routes."""
    from hush.server import api, page, pages, releases, standing, streams

    modules = (api, releases, streams, standing, pages, page)
    return [place for module in modules for place in module.table()]


def app(settings: ServiceSettings, door: DoorSocket | None = None) -> ASGIApp:
    """Return the application of one worker, which also listens at the SQL door where there is one."""
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response

    from hush.server import openapi, pages
    from hush.server.protection import Protection
    from hush.server.routes import built
    from hush.server.service import Service
    from hush.server.standing import Scheduler

    places = table()
    service = Service(settings)
    scheduler = Scheduler(service)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        opened = None if door is None else await door.open(service)
        scheduler.start()
        try:
            yield
        finally:
            await scheduler.close()
            if opened is not None:
                await opened.close()
            await service.close()

    def refused(request: Request, error: Exception) -> Response:
        return pages.refused(request, service, error)

    async def nowhere(request: Request, error: Exception) -> Response:
        return refused(request, error)

    application = Starlette(routes=built(places), lifespan=lifespan)
    application.router.redirect_slashes = False
    application.add_exception_handler(HTTPException, nowhere)
    application.state.service, application.state.refused = service, refused
    application.state.document = openapi.document(places)
    return Protection(application, service)
