"""The API for programs, ``/api/v1``: everything the page does, as JSON.

Answers can be had in four forms, by ``Accept``: JSON, CSV, an Arrow stream, and hush's own, which is byte for byte what
the ledger keeps and from which the client makes the very `Answer` that a local curator gives.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, cast

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.core import InvalidValueError, integer
from hush.core.format import decimal
from hush.curator.answer import Answer, Money
from hush.ledger import Role
from hush.ledger.budgets import Spending
from hush.server import schemas
from hush.server.auth.people import Person, Token
from hush.server.auth.sessions import client_address
from hush.server.errors import BadRequestError, ForbiddenError, UnknownPlaceError
from hush.server.rate_limits import Rate
from hush.server.routes import Handler, Permission, Query, Route
from hush.server.service import Service

JSON = "application/json"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
STORED = "application/vnd.hush.answer+json"
FORMS = {"json": JSON, "csv": CSV, "arrow": ARROW, "stored": STORED}
LIMIT = ("limit", {"type": "integer", "minimum": 1, "maximum": 10_000})
FORMAT = ("format", {"type": "string", "enum": list(FORMS)})


async def data(_: Request, service: Service, who: Person) -> Response:
    """Show the data sets."""
    return JSONResponse({"data": await service.data_sets(who)})


async def explain(_: Request, service: Service, who: Person, body: schemas.Body) -> Response:
    """Return the price and the expected error of a question."""
    terms = body.given()
    if terms.get("epsilons") and "epsilon" in terms:
        raise InvalidValueError("epsilons", got="both", allowed="given instead of epsilon, not beside it")
    explanations = [schemas.explanation(explanation) for explanation in await service.explain(who, **terms)]
    return JSONResponse({"explanations": explanations} if terms.get("epsilons") else explanations[0])


async def ask(request: Request, service: Service, who: Person, body: schemas.Body) -> Response:
    """Answer a question."""
    form = chosen_form(request, FORMS)
    return written(await service.ask(who, **body.given()), form)


async def dummy(request: Request, service: Service, who: Person, body: schemas.Body) -> Response:
    """Answer a question about made-up rows."""
    form = chosen_form(request, FORMS)
    return written(await service.dummy(who, **body.given()), form)


async def answer(request: Request, service: Service, who: Person) -> Response:
    """Show an answer again."""
    form = chosen_form(request, FORMS)
    return written(await service.answer(who, number_in(request)), form)


def budget_headers(receipt: str, remaining: Money | None, spending: Spending | None) -> dict[str, str]:
    """Return the headers of a charge."""
    headers = {"hush-receipt": receipt}
    if remaining is not None:
        headers["hush-remaining"] = f"{decimal(remaining.epsilon)} {decimal(remaining.delta)}"
    if spending is not None:
        headers["hush-spending"] = json.dumps([spending.whose, str(spending.took), str(spending.left)])
    return headers


def written(found: Answer, form: str) -> Response:
    """Return an answer in one of its forms."""
    headers = budget_headers(found.receipt, found.remaining, found.spending)
    if found.made_up:
        headers["hush-made-up"] = "true"
    if found.repeated:
        headers["hush-repeated"] = found.repeated
    if found.shared:
        headers["hush-shared"] = "true"
    match form:
        case "csv":
            return Response(found.to_csv(), headers=headers, media_type=CSV)
        case "arrow":
            return Response(_arrow(found), headers=headers, media_type=ARROW)
        case "stored":
            return Response(found.to_bytes(), headers=headers, media_type=STORED)
        case _:
            return JSONResponse(found.to_json(), headers=headers)


def _arrow(found: Answer) -> bytes:
    table = found.table
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def chosen_form(request: Request, forms: Mapping[str, str]) -> str:
    """Return the form of an answer that the client accepts; called before anything is charged."""
    form_name = request.query_params.get("format")
    if form_name is not None:
        if form_name not in forms:
            raise InvalidValueError("format", got=form_name, allowed=f"one of {', '.join(forms)}")
        return form_name
    accepted = [
        media_range.partition(";")[0].strip().lower() for media_range in request.headers.get("accept", "*/*").split(",")
    ]
    for name, media in forms.items():
        if media in accepted:
            return name
    if {"*/*", "application/*"} & set(accepted):
        return "json"
    raise BadRequestError(f"This can be had as {', '.join(forms.values())}.", 406)


async def budget(_: Request, service: Service, who: Person) -> Response:
    """Show the remaining budgets."""
    return JSONResponse({"accounts": await service.budget(who)})


async def history(request: Request, service: Service, who: Person) -> Response:
    """Show the questions that were charged, newest first."""
    limit = request.query_params.get("limit")
    maximum = None if limit is None else integer(whole(limit, "limit"), "limit", minimum=1, maximum=10_000)
    return JSONResponse({"releases": await service.history(who, maximum)})


async def receipt(request: Request, service: Service, who: Person) -> Response:
    """Show a charge."""
    return JSONResponse(await service.receipt(who, number_in(request)))


async def queue(_: Request, service: Service, who: Person) -> Response:
    """Show the positions of one's questions in the queue."""
    return JSONResponse({"questions": service.places(who), "limit": service.settings.limit})


async def cancel(request: Request, service: Service, who: Person) -> Response:
    """End a question."""
    service.cancel(who, request.path_params["request"])
    return JSONResponse({"cancelled": request.path_params["request"]}, 202)


async def requests(_: Request, service: Service, who: Person) -> Response:
    """Show the requests to the owner, waiting and decided."""
    return JSONResponse({"requests": await service.requests(who)})


async def request_budget(_: Request, service: Service, who: Person, body: schemas.BudgetRequestBody) -> Response:
    """Ask for a larger budget."""
    budget_request = await service.request_budget(who, epsilon=body.epsilon, reason=body.reason, data=body.data)
    return JSONResponse(budget_request, 201)


async def decide(request: Request, service: Service, who: Person, body: schemas.DecisionBody) -> Response:
    """Approve or decline a request."""
    return JSONResponse(await service.decide(who, number_in(request), approve=body.approve, reason=body.reason))


async def me(_: Request, service: Service, who: Person) -> Response:
    """Say who is signed in."""
    roles = sorted(role.value for role in who.roles)
    sessions = [asdict(session) for session in service.people.sessions(who.name)]
    return JSONResponse({"name": who.name, "roles": roles, "scopes": sorted(who.scopes), "sessions": sessions})


async def tokens(_: Request, service: Service, who: Person) -> Response:
    """Show one's tokens."""
    return JSONResponse({"tokens": [_token(token) for token in service.people.tokens(who.name)]})


async def make_token(_: Request, service: Service, who: Person, body: schemas.TokenBody) -> Response:
    """Make a token; its secret is shown this once."""
    if not set(body.scopes) <= who.scopes or ("own" in body.scopes and not who.owner):
        raise ForbiddenError("A token cannot allow more than the person who makes it may do.")
    service.rates.check(Rate.TOKENS, who.name)
    token, secret = service.people.make_token(
        who.name, label=body.label, scopes=body.scopes, days=body.days, until=who.expires
    )
    return JSONResponse({**_token(token), "token": secret}, 201)


async def revoke_token(request: Request, service: Service, who: Person) -> Response:
    """End a token."""
    if not service.revoke_token(who, request.path_params["id"]):
        raise UnknownPlaceError
    return Response(status_code=204)


async def end_session(request: Request, service: Service, who: Person) -> Response:
    """End a session."""
    if not service.end_session(who, request.path_params["id"]):
        raise UnknownPlaceError
    return Response(status_code=204)


async def set_password(request: Request, service: Service, who: Person, body: schemas.PasswordBody) -> Response:
    """Change one's password; all sessions end."""
    service.rates.check(Rate.PASSWORDS, who.name)
    right = await asyncio.to_thread(service.people.may_change, who, body.old)
    if not right:
        service.failures.note(who.name, client_address(request), "password")
        raise ForbiddenError(
            "The old password is not right. A first one is set in a browser, after signing in by link."
        )
    await asyncio.to_thread(service.people.set_password, who.name, body.new)
    return Response(status_code=204)


async def people(_: Request, service: Service, __: Person) -> Response:
    """Show everybody."""
    names = service.people.names()
    accounts = [{"name": name, "roles": sorted(role.value for role in roles)} for name, roles in names.items()]
    return JSONResponse({"people": accounts})


async def add_person(_: Request, service: Service, __: Person, body: schemas.PersonBody) -> Response:
    """Add somebody; the link signs them in once."""
    service.people.add(body.name, roles=[_role(name) for name in body.roles])
    return JSONResponse({"name": body.name, "link": f"/welcome/{service.people.make_link(body.name)}"}, 201)


async def make_link(request: Request, service: Service, _: Person) -> Response:
    """Make a one-time link for somebody."""
    link = service.people.make_link(request.path_params["name"])
    return JSONResponse({"link": f"/welcome/{link}"}, 201)


async def remove_person(request: Request, service: Service, _: Person) -> Response:
    """Remove somebody."""
    service.people.remove(request.path_params["name"])
    return Response(status_code=204)


async def health(_: Request, service: Service, __: Person) -> Response:
    """Say that the service answers. It says nothing else to anybody."""
    service.queue.positions("")
    return JSONResponse({"status": "ok"})


async def document(request: Request, _: Service, __: Person) -> Response:
    """Show the API's document."""
    return JSONResponse(cast("dict[str, Any]", request.app.state.document))


def _token(token: Token) -> dict[str, Any]:
    times = {name: datetime.fromtimestamp(getattr(token, name), UTC).isoformat() for name in ("created", "expires")}
    return {"id": token.id, "label": token.label, "scopes": list(token.scopes), **times}


def _role(name: str) -> Role:
    if name not in {role.value for role in Role}:
        raise InvalidValueError("roles", got=name, allowed="owner or analyst")
    return Role(name)


def whole(text: str, name: str) -> int:
    """Return a parameter of the query as a whole number."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidValueError(name, got=text, allowed="a whole number")
    return int(text)


def number_in(request: Request) -> int:
    """Return the number in the path of a request."""
    text = str(request.path_params["number"])
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UnknownPlaceError
    return int(text)


def api_route(
    address: str,
    handler: Handler,
    permission: Permission,
    summary: str,
    result: str = "",
    body: type[BaseModel] | None = None,
    *,
    scope: str = "read",
    query: Query = (),
    media: tuple[str, ...] = (),
) -> Route:
    """Return a route of the API by its method and path; those of owners need the scope ``own``."""
    method, _, path = address.partition(" ")
    return Route(
        method=method,
        path=f"/api/v1{path}",
        handler=handler,
        permission=permission,
        scope="own" if permission is Permission.OWNER else scope,
        summary=summary,
        result=result,
        body=body,
        query=query,
        media=media,
    )


def table() -> list[Route]:
    """Return the API's part of the table of routes."""
    analyst, owner, signed_in = Permission.ANALYST, Permission.OWNER, Permission.SIGNED_IN
    answers: Mapping[str, Any] = {"query": (FORMAT,), "media": (CSV, ARROW, STORED)}
    return [
        api_route("GET /openapi.json", document, Permission.ANYBODY, "This document", "Document"),
        api_route("GET /health", health, Permission.ANYBODY, "Whether the service answers", "Health"),
        api_route("GET /me", me, signed_in, "Who is signed in", "Me"),
        api_route("GET /data", data, analyst, "Data sets: schema and policy, never data", "DataSets"),
        api_route("POST /explain", explain, analyst, "Price and error of a question", "Explained", schemas.ExplainBody),
        api_route("POST /ask", ask, analyst, "Ask, and pay", "Answer", schemas.AskBody, scope="ask", **answers),
        api_route(
            "POST /dummy", dummy, analyst, "Try on made-up rows, free", "Answer", schemas.QuestionBody, **answers
        ),
        api_route("GET /budget", budget, analyst, "What is left", "Accounts"),
        api_route("GET /history", history, analyst, "What was asked", "Releases", query=(LIMIT,)),
        api_route("GET /receipts/{number}", receipt, analyst, "One charge, with its place in the ledger", "Receipt"),
        api_route("GET /answers/{number}", answer, analyst, "An answer that was given, free", "Answer", **answers),
        api_route("GET /questions", queue, analyst, "Where one's questions stand", "Queue"),
        api_route("DELETE /questions/{request}", cancel, analyst, "End a question", "Cancelled", scope="ask"),
        api_route("GET /requests", requests, signed_in, "What waits, or waited, for the owner", "Requests"),
        api_route(
            "POST /requests",
            request_budget,
            analyst,
            "Ask for a larger budget",
            "MadeRequest",
            schemas.BudgetRequestBody,
            scope="ask",
        ),
        api_route("POST /requests/{number}/decision", decide, owner, "Decide", "Request", schemas.DecisionBody),
        api_route("GET /tokens", tokens, signed_in, "One's tokens, without their secrets", "Tokens"),
        api_route("POST /tokens", make_token, signed_in, "Make a token", "NewToken", schemas.TokenBody),
        api_route("DELETE /tokens/{id}", revoke_token, signed_in, "End a token"),
        api_route("DELETE /sessions/{id}", end_session, signed_in, "End a session"),
        api_route("PUT /password", set_password, signed_in, "Change one's password", body=schemas.PasswordBody),
        api_route("GET /people", people, owner, "Everybody, with their roles", "People"),
        api_route("POST /people", add_person, owner, "Add somebody", "Link", schemas.PersonBody),
        api_route("DELETE /people/{name}", remove_person, owner, "Remove somebody"),
        api_route("POST /people/{name}/links", make_link, owner, "A one-time link", "Link"),
    ]
