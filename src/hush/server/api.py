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
from hush.curator.answer import Answer
from hush.ledger import Role
from hush.query.parameters import from_wire
from hush.server import bodies, forms
from hush.server.errors import ForbiddenError, UnknownPlaceError
from hush.server.people import Person, Token
from hush.server.problems import BadRequestError
from hush.server.questions import check_rate
from hush.server.routes import Reached, Visitor
from hush.server.service import Service
from hush.server.traffic import Rate

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


async def explain(request: Request, service: Service, who: Person) -> Response:
    """Say what a question would cost."""
    body = await bodies.read(request, bodies.ExplainBody)
    terms = body.terms()
    if body.epsilons and "epsilon" in terms:
        raise InvalidValueError("epsilons", got="both", allowed="given instead of epsilon, not beside it")
    found = await service.explain(who, body.question, from_wire(body.parameters), epsilons=body.epsilons, **terms)
    shown = [forms.explanation(explanation) for explanation in found]
    return JSONResponse({"explanations": shown} if body.epsilons else shown[0])


async def ask(request: Request, service: Service, who: Person) -> Response:
    """Answer a question."""
    form = chosen_form(request, FORMS)
    body = await bodies.read(request, bodies.AskBody)
    parameters = from_wire(body.parameters)
    found = await service.ask(
        who, body.question, parameters, request=body.request, fresh=body.fresh, reason=body.reason, **body.terms()
    )
    return written(found, form)


async def dummy(request: Request, service: Service, who: Person) -> Response:
    """Answer a question about made-up rows."""
    form = chosen_form(request, FORMS)
    body = await bodies.read(request, bodies.ExplainBody)
    return written(await service.dummy(who, body.question, from_wire(body.parameters), **body.terms()), form)


async def answer(request: Request, service: Service, who: Person) -> Response:
    """Show an answer again."""
    form = chosen_form(request, FORMS)
    return written(await service.answer(who, number_in(request)), form)


def written(found: Answer, form: str) -> Response:
    """Return an answer in one of its forms."""
    headers = {"hush-receipt": found.receipt}
    if found.remaining is not None:
        headers["hush-remaining"] = f"{decimal(found.remaining.epsilon)} {decimal(found.remaining.delta)}"
    if found.spending is not None:
        spent = found.spending
        headers["hush-spending"] = json.dumps([spent.whose, str(spent.took), str(spent.left)])
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
    """Return in which form an answer is wanted, before anything is charged."""
    chosen = request.query_params.get("format")
    if chosen is not None:
        if chosen not in forms:
            raise InvalidValueError("format", got=chosen, allowed=f"one of {', '.join(forms)}")
        return chosen
    accepted = [part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "*/*").split(",")]
    for name, media in forms.items():
        if media in accepted:
            return name
    if {"*/*", "application/*"} & set(accepted):
        return "json"
    raise BadRequestError(f"This can be had as {', '.join(forms.values())}.", 406)


async def budget(_: Request, service: Service, who: Person) -> Response:
    """Show what is left."""
    return JSONResponse({"accounts": await service.budget(who)})


async def history(request: Request, service: Service, who: Person) -> Response:
    """Show what was asked."""
    limit = request.query_params.get("limit")
    most = None if limit is None else integer(whole(limit, "limit"), "limit", minimum=1, maximum=10_000)
    return JSONResponse({"releases": await service.history(who, most)})


async def receipt(request: Request, service: Service, who: Person) -> Response:
    """Show a charge."""
    return JSONResponse(await service.receipt(who, number_in(request)))


async def queue(_: Request, service: Service, who: Person) -> Response:
    """Show where questions stand."""
    return JSONResponse({"questions": service.places(who), "limit": service.settings.limit})


async def cancel(request: Request, service: Service, who: Person) -> Response:
    """End a question."""
    service.cancel(who, request.path_params["request"])
    return JSONResponse({"cancelled": request.path_params["request"]}, 202)


async def requests(_: Request, service: Service, who: Person) -> Response:
    """Show what waits for the owner."""
    return JSONResponse({"requests": await service.requests(who)})


async def request_budget(request: Request, service: Service, who: Person) -> Response:
    """Ask for a larger budget."""
    body = await bodies.read(request, bodies.BudgetRequestBody)
    made = await service.request_budget(who, epsilon=body.epsilon, reason=body.reason, data=body.data)
    return JSONResponse(made, 201)


async def decide(request: Request, service: Service, who: Person) -> Response:
    """Approve or decline a request."""
    body = await bodies.read(request, bodies.DecisionBody)
    return JSONResponse(await service.decide(who, number_in(request), approve=body.approve, reason=body.reason))


async def me(_: Request, service: Service, who: Person) -> Response:
    """Say who is signed in."""
    roles = sorted(role.value for role in who.roles)
    sessions = [asdict(session) for session in service.people.sessions(who.name)]
    return JSONResponse({"name": who.name, "roles": roles, "scopes": sorted(who.scopes), "sessions": sessions})


async def tokens(_: Request, service: Service, who: Person) -> Response:
    """Show one's tokens."""
    return JSONResponse({"tokens": [_token(token) for token in service.people.tokens(who.name)]})


async def make_token(request: Request, service: Service, who: Person) -> Response:
    """Make a token; its secret is shown this once."""
    body = await bodies.read(request, bodies.TokenBody)
    if not set(body.scopes) <= who.scopes or ("own" in body.scopes and not who.owner):
        raise ForbiddenError("A token cannot be for more than whoever makes it may do.")
    check_rate(service.traffic, Rate.TOKENS, who.name)
    token, secret = service.people.make_token(
        who.name, label=body.label, scopes=body.scopes, days=body.days, until=who.expires
    )
    return JSONResponse({**_token(token), "token": secret}, 201)


async def revoke_token(request: Request, service: Service, who: Person) -> Response:
    """End a token."""
    if not service.people.revoke_token(who.name, request.path_params["id"]):
        raise UnknownPlaceError
    return Response(status_code=204)


async def end_session(request: Request, service: Service, who: Person) -> Response:
    """End a session."""
    if not service.people.end_session(who.name, request.path_params["id"]):
        raise UnknownPlaceError
    return Response(status_code=204)


async def set_password(request: Request, service: Service, who: Person) -> Response:
    """Change one's password; all sessions end."""
    body = await bodies.read(request, bodies.PasswordBody)
    check_rate(service.traffic, Rate.PASSWORDS, who.name)
    right = await asyncio.to_thread(service.people.may_change, who, body.old)
    if not right:
        raise ForbiddenError(
            "The old password is not right. A first one is set in a browser, after signing in by link."
        )
    await asyncio.to_thread(service.people.set_password, who.name, body.new)
    return Response(status_code=204)


async def people(_: Request, service: Service, __: Person) -> Response:
    """Show everybody."""
    names = service.people.names()
    shown = [{"name": name, "roles": sorted(role.value for role in roles)} for name, roles in names.items()]
    return JSONResponse({"people": shown})


async def add_person(request: Request, service: Service, _: Person) -> Response:
    """Add somebody; the link signs them in once."""
    body = await bodies.read(request, bodies.PersonBody)
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
    service.traffic.places("")
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
    """Return a whole number of the query."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidValueError(name, got=text, allowed="a whole number")
    return int(text)


def number_in(request: Request) -> int:
    """Return the number in an address."""
    text = str(request.path_params["number"])
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UnknownPlaceError
    return int(text)


def place(
    method: str, path: str, handler: Any, visitor: Visitor, summary: str, result: str = "", **more: Any
) -> Reached:
    """Return a place of the API."""
    return Reached(
        method=method,
        path=f"/api/v1{path}",
        handler=handler,
        visitor=visitor,
        summary=summary,
        result=result,
        **more,
    )


def table() -> list[Reached]:
    """Return the API's part of the table of routes."""
    analyst, owner, known = Visitor.ANALYST, Visitor.OWNER, Visitor.SIGNED_IN
    explained: type[BaseModel] = bodies.ExplainBody
    wish, verdict = bodies.BudgetRequestBody, bodies.DecisionBody
    answers: Mapping[str, Any] = {"query": (FORMAT,), "media": (CSV, ARROW, STORED)}
    return [
        place("GET", "/openapi.json", document, Visitor.ANYBODY, "This document", "Document"),
        place("GET", "/health", health, Visitor.ANYBODY, "Whether the service answers", "Health"),
        place("GET", "/me", me, known, "Who is signed in", "Me"),
        place("GET", "/data", data, analyst, "Data sets: schema and policy, never data", "DataSets"),
        place("POST", "/explain", explain, analyst, "Price and error of a question", "Explained", body=explained),
        place("POST", "/ask", ask, analyst, "Ask, and pay", "Answer", body=bodies.AskBody, scope="ask", **answers),
        place("POST", "/dummy", dummy, analyst, "Try on made-up rows, free", "Answer", body=explained, **answers),
        place("GET", "/budget", budget, analyst, "What is left", "Accounts"),
        place("GET", "/history", history, analyst, "What was asked", "Releases", query=(LIMIT,)),
        place("GET", "/receipts/{number}", receipt, analyst, "One charge, with its place in the ledger", "Receipt"),
        place("GET", "/answers/{number}", answer, analyst, "An answer that was given, free", "Answer", **answers),
        place("GET", "/questions", queue, analyst, "Where one's questions stand", "Queue"),
        place("DELETE", "/questions/{request}", cancel, analyst, "End a question", "Cancelled", scope="ask"),
        place("GET", "/requests", requests, known, "What waits, or waited, for the owner", "Requests"),
        place(
            "POST",
            "/requests",
            request_budget,
            analyst,
            "Ask for a larger budget",
            "MadeRequest",
            body=wish,
            scope="ask",
        ),
        place("POST", "/requests/{number}/decision", decide, owner, "Decide", "Request", body=verdict, scope="own"),
        place("GET", "/tokens", tokens, known, "One's tokens, without their secrets", "Tokens"),
        place("POST", "/tokens", make_token, known, "Make a token", "NewToken", body=bodies.TokenBody),
        place("DELETE", "/tokens/{id}", revoke_token, known, "End a token"),
        place("DELETE", "/sessions/{id}", end_session, known, "End a session"),
        place("PUT", "/password", set_password, known, "Change one's password", body=bodies.PasswordBody),
        place("GET", "/people", people, owner, "Everybody, with their roles", "People", scope="own"),
        place("POST", "/people", add_person, owner, "Add somebody", "Link", body=bodies.PersonBody, scope="own"),
        place("DELETE", "/people/{name}", remove_person, owner, "Remove somebody", scope="own"),
        place("POST", "/people/{name}/links", make_link, owner, "A one-time link", "Link", scope="own"),
    ]
