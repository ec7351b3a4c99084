"""The API for programs, ``/api/v1``: everything the page does, as JSON.

Answers can be had in four forms, by ``Accept``: JSON, CSV, an Arrow stream, and hush's own, which is byte for byte what
the ledger keeps and from which the client makes the very `Answer` that a local curator gives.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.core import InvalidValueError, integer
from hush.core.format import decimal
from hush.curator.answer import Answer, Money
from hush.ledger import Role
from hush.ledger.budgets import Spending
from hush.server import schemas
from hush.server.auth.people import Token
from hush.server.errors import BadRequestError, ForbiddenError, UnknownPlaceError
from hush.server.rate_limits import Rate
from hush.server.routes import ANALYST, ANYBODY, OWNER, SIGNED_IN, Routes, Visit

ROUTES = Routes()
AnyResponse = TypeVar("AnyResponse", bound=Response)
JSON = "application/json"
CSV = "text/csv"
ARROW = "application/vnd.apache.arrow.stream"
STORED = "application/vnd.hush.answer+json"
FORMS = {"json": JSON, "csv": CSV, "arrow": ARROW, "stored": STORED}
LIMIT = ("limit", {"type": "integer", "minimum": 1, "maximum": 10_000})
FORMAT = ("format", {"type": "string", "enum": list(FORMS)})
ANSWERS: Mapping[str, Any] = {"query": (FORMAT,), "media": (CSV, ARROW, STORED)}
"""The query and media types of all routes of answers."""


@ROUTES.api("GET /data", ANALYST, "DataSets")
async def data(visit: Visit) -> dict[str, Any]:
    """Data sets: schema and policy, never data."""
    return {"data": await visit.data_sets()}


@ROUTES.api("POST /explain", ANALYST, "Explained", schemas.ExplainBody)
async def explain(visit: Visit, body: schemas.Body) -> dict[str, Any]:
    """Price and error of a question."""
    terms = body.given()
    if terms.get("epsilons") and "epsilon" in terms:
        raise InvalidValueError("epsilons", got="both", allowed="given instead of epsilon, not beside it")
    explanations = [schemas.explanation(explanation) for explanation in await visit.explain(**terms)]
    return {"explanations": explanations} if terms.get("epsilons") else explanations[0]


@ROUTES.api("POST /ask", ANALYST, "Answer", schemas.AskBody, scope="ask", **ANSWERS)
async def ask(visit: Visit, body: schemas.Body) -> Response:
    """Ask, and pay."""
    form = chosen_form(visit.request, FORMS)
    return written(await visit.ask(**body.given()), form)


@ROUTES.api("POST /dummy", ANALYST, "Answer", schemas.QuestionBody, **ANSWERS)
async def dummy(visit: Visit, body: schemas.Body) -> Response:
    """Try on made-up rows, free."""
    form = chosen_form(visit.request, FORMS)
    return written(await visit.dummy(**body.given()), form)


@ROUTES.api("GET /answers/{number}", ANALYST, "Answer", **ANSWERS)
async def answer(visit: Visit) -> Response:
    """An answer that was given, free."""
    form = chosen_form(visit.request, FORMS)
    return written(await visit.answer(number_in(visit)), form)


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
            import pyarrow as pa

            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, found.table.schema) as stream:
                stream.write_table(found.table)
            return Response(bytes(sink.getvalue()), headers=headers, media_type=ARROW)
        case "stored":
            return Response(found.to_bytes(), headers=headers, media_type=STORED)
        case _:
            return JSONResponse(found.to_json(), headers=headers)


def chosen_form(request: Request, forms: Mapping[str, str]) -> str:
    """Return the form of an answer that the client accepts; called before anything is charged."""
    form_name = request.query_params.get("format")
    if form_name is not None:
        if form_name not in forms:
            raise InvalidValueError("format", got=form_name, allowed=f"one of {', '.join(forms)}")
        return form_name
    ranges = request.headers.get("accept", "*/*").split(",")
    accepted = [media_range.partition(";")[0].strip().lower() for media_range in ranges]
    for name, media in forms.items():
        if media in accepted:
            return name
    if {"*/*", "application/*"} & set(accepted):
        return "json"
    raise BadRequestError(f"This can be had as {', '.join(forms.values())}.", 406)


@ROUTES.api("GET /budget", ANALYST, "Accounts")
async def budget(visit: Visit) -> dict[str, Any]:
    """The budgets, with the share of each that is left."""
    accounts = await visit.with_curator(lambda curator: [schemas.account(view) for view in curator.budget()])
    return {"accounts": accounts}


@ROUTES.api("GET /history", ANALYST, "Releases", query=(LIMIT,))
async def history(visit: Visit) -> dict[str, Any]:
    """The questions and releases so far, with their charges."""
    limit = visit.query.get("limit")
    maximum = None if limit is None else integer(whole(limit, "limit"), "limit", minimum=1, maximum=10_000)
    return {"releases": await visit.history(maximum)}


@ROUTES.api("GET /receipts/{number}", ANALYST, "Receipt")
async def receipt(visit: Visit) -> dict[str, Any]:
    """One charge, with its place in the ledger."""
    return await visit.receipt(number_in(visit))


@ROUTES.api("GET /questions", ANALYST, "Queue")
async def queue(visit: Visit) -> dict[str, Any]:
    """Where one's questions stand."""
    return {"questions": visit.service.queue.positions(visit.name), "limit": visit.settings.limit}


@ROUTES.api("DELETE /questions/{request}", ANALYST, "Cancelled", scope="ask", status=202)
async def cancel(visit: Visit) -> dict[str, Any]:
    """End a question."""
    visit.cancel(visit.path["request"])
    return {"cancelled": visit.path["request"]}


@ROUTES.api("GET /requests", SIGNED_IN, "Requests")
async def requests(visit: Visit) -> dict[str, Any]:
    """The requests to the owner, open and decided."""
    return {"requests": await visit.requests()}


@ROUTES.api("POST /requests", ANALYST, "Request", schemas.BudgetRequestBody, scope="ask", status=201)
async def request_budget(visit: Visit, body: schemas.BudgetRequestBody) -> dict[str, Any]:
    """Ask for a larger budget."""
    return await visit.request_budget(**body.model_dump())


@ROUTES.api("POST /requests/{number}/decision", OWNER, "Request", schemas.DecisionBody)
async def decide(visit: Visit, body: schemas.DecisionBody) -> dict[str, Any]:
    """Decide."""
    return await visit.decide(number_in(visit), **body.model_dump())


@ROUTES.api("GET /me", SIGNED_IN, "Me")
async def me(visit: Visit) -> dict[str, Any]:
    """Who is signed in."""
    roles = sorted(role.value for role in visit.who.roles)
    sessions, scopes = visit.people.sessions(visit.name), sorted(visit.who.scopes)
    return {"name": visit.name, "roles": roles, "scopes": scopes, "sessions": sessions}


@ROUTES.api("GET /tokens", SIGNED_IN, "Tokens")
async def tokens(visit: Visit) -> dict[str, Any]:
    """One's tokens, without their secrets."""
    return {"tokens": [_token(token) for token in visit.people.tokens(visit.name)]}


@ROUTES.api("POST /tokens", SIGNED_IN, "NewToken", schemas.TokenBody, status=201)
async def make_token(visit: Visit, body: schemas.TokenBody) -> dict[str, Any]:
    """Make a token."""
    if not set(body.scopes) <= visit.who.scopes or ("own" in body.scopes and not visit.who.owner):
        raise ForbiddenError("A token cannot allow more than the person who makes it may do.")
    visit.check_rate(Rate.TOKENS)
    token, secret = visit.people.make_token(
        visit.name, label=body.label, scopes=body.scopes, days=body.days, until=visit.who.expires
    )
    return {**_token(token), "token": secret}


@ROUTES.api("DELETE /tokens/{id}", SIGNED_IN)
async def revoke_token(visit: Visit) -> None:
    """End a token."""
    if not visit.revoke_token(visit.path["id"]):
        raise UnknownPlaceError


@ROUTES.api("DELETE /sessions/{id}", SIGNED_IN)
async def end_session(visit: Visit) -> None:
    """End a session."""
    if not visit.end_session(visit.path["id"]):
        raise UnknownPlaceError


@ROUTES.api("PUT /password", SIGNED_IN, body=schemas.PasswordBody)
async def set_password(visit: Visit, body: schemas.PasswordBody) -> None:
    """Change one's password."""
    hint = " A first one is set in a browser, after signing in by link."
    await check_password(visit, body.old, f"The old password is not right.{hint}")
    await asyncio.to_thread(visit.people.set_password, visit.name, body.new)


async def check_password(visit: Visit, old: str, refusal: str) -> None:
    """Refuse a change by somebody who does not know the password, and count it among the failed sign-ins."""
    visit.check_rate(Rate.PASSWORDS)
    if not await asyncio.to_thread(visit.people.may_change, visit.who, old):
        visit.note_failure("password")
        raise ForbiddenError(refusal)


@ROUTES.api("GET /people", OWNER, "People")
async def people(visit: Visit) -> dict[str, Any]:
    """Everybody, with their roles."""
    names = visit.people.names()
    accounts = [{"name": name, "roles": sorted(role.value for role in roles)} for name, roles in names.items()]
    return {"people": accounts}


@ROUTES.api("POST /people", OWNER, "Link", schemas.PersonBody, status=201)
async def add_person(visit: Visit, body: schemas.PersonBody) -> dict[str, Any]:
    """Add somebody."""
    if strangers := set(body.roles) - {role.value for role in Role}:
        raise InvalidValueError("roles", got=", ".join(sorted(strangers)), allowed="owner or analyst")
    visit.people.add(body.name, roles=[Role(name) for name in body.roles])
    return {"name": body.name, "link": f"/welcome/{visit.people.make_link(body.name)}"}


@ROUTES.api("POST /people/{name}/links", OWNER, "Link", status=201)
async def make_link(visit: Visit) -> dict[str, Any]:
    """A one-time link."""
    return {"link": f"/welcome/{visit.people.make_link(visit.path['name'])}"}


@ROUTES.api("DELETE /people/{name}", OWNER)
async def remove_person(visit: Visit) -> None:
    """Remove somebody."""
    visit.people.remove(visit.path["name"])


@ROUTES.api("GET /health", ANYBODY, "Health")
async def health(visit: Visit) -> dict[str, Any]:
    """Whether the service answers."""
    visit.service.queue.positions("")
    return {"status": "ok"}


@ROUTES.api("GET /openapi.json", ANYBODY, "Document")
async def document(visit: Visit) -> dict[str, Any]:
    """This document."""
    return cast("dict[str, Any]", visit.request.app.state.document)


def _token(token: Token) -> dict[str, Any]:
    times = {name: datetime.fromtimestamp(getattr(token, name), UTC).isoformat() for name in ("created", "expires")}
    return {"id": token.id, "label": token.label, "scopes": list(token.scopes), **times}


def number_of(text: str) -> int | None:
    """Return the whole number that a text is."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def whole(text: str, name: str) -> int:
    """Return a parameter of the query as a whole number."""
    if (number := number_of(text)) is None:
        raise InvalidValueError(name, got=text, allowed="a whole number")
    return number


def number_in(visit: Visit) -> int:
    """Return the number in the path of a request."""
    if (number := number_of(str(visit.path["number"]))) is None:
        raise UnknownPlaceError
    return number


def attached(response: AnyResponse, name: str) -> AnyResponse:
    """Return a response as a file of this name."""
    response.headers["content-disposition"] = f'attachment; filename="{name}"'
    return response
