"""The API's document, made from the table of routes: OpenAPI 3.1."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hush.server.errors import MEDIA
from hush.server.routes import Permission, Route

_TEXT = {"type": "string"}
_OPTIONAL = {"type": ["string", "null"]}
_NUMBER = {"type": "number"}
_OBJECT: dict[str, Any] = {"type": "object"}
_TEXTS = {"type": "array", "items": _TEXT}
_AMOUNT = {
    "type": "object",
    "required": ["epsilon", "delta"],
    "properties": {"epsilon": _TEXT, "delta": _TEXT, "share": _NUMBER},
}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


_EXPLANATION = _object(
    price=_AMOUNT, items=_list(_OBJECT), keys=_TEXT, errors=_OBJECT, confidence=_NUMBER, caveats=_TEXTS, lines=_TEXTS
)
_RELEASE = _object(
    number={"type": "integer"},
    request=_TEXT,
    analyst=_TEXT,
    data=_TEXT,
    when=_TEXT,
    question=_TEXT,
    events=_list(_OBJECT),
    price=_list(_OBJECT),
    share=_NUMBER,
    of=_TEXT,
    shares=_OBJECT,
    outcome={"type": "string"},
)
_REQUEST = _object(
    number={"type": "integer"},
    analyst=_TEXT,
    data=_TEXT,
    when=_TEXT,
    question=_TEXT,
    epsilon=_OPTIONAL,
    reason=_TEXT,
    state={"type": "string", "enum": ["waiting", "approved", "declined", "used"]},
    by=_TEXT,
    why=_TEXT,
    wanted=_OPTIONAL,
)
_STREAM = {
    **_object(
        name=_TEXT,
        data=_TEXT,
        question=_TEXT,
        pays={"type": "string", "enum": ["each release", "once"]},
        epsilon=_TEXT,
        confidence=_NUMBER,
        every=_TEXT,
        periods={"type": "integer"},
        released={"type": "integer"},
        ended={"type": "boolean"},
        receipt=_OPTIONAL,
    )
}
_STREAM["properties"] |= {  # of declared streams alone
    "first": _TEXT,
    "late": {"type": "boolean"},
    "readers": {"anyOf": [_TEXT, _TEXTS]},
    "declared": _TEXT,
    "share": _NUMBER,
    "left": {"type": "integer"},
    "releases": _list(_object(period=_TEXT, slot=_TEXT, state=_TEXT, receipt={"type": ["integer", "null"]})),
}
_SCHEMAS: dict[str, Any] = {
    "Problem": _object(type=_TEXT, title=_TEXT, status={"type": "integer"}, code=_TEXT, detail=_TEXT),
    "Document": _OBJECT,
    "Health": _object(status=_TEXT),
    "Me": _object(name=_TEXT, roles=_TEXTS, scopes=_TEXTS, sessions=_list(_OBJECT)),
    "DataSets": _object(
        data=_list(_object(name=_TEXT, unit=_OPTIONAL, neighbours=_TEXT, budget=_AMOUNT, tables=_list(_OBJECT)))
    ),
    "Explained": {"anyOf": [_EXPLANATION, _object(explanations=_list(_EXPLANATION))]},
    "Answer": _object(
        columns=_TEXTS,
        rows=_list({"type": "array"}),
        errors=_list({"type": "array"}),
        confidence=_NUMBER,
        price=_AMOUNT,
        remaining={"anyOf": [_AMOUNT, {"type": "null"}]},
        receipt=_TEXT,
        caveats=_TEXTS,
    ),
    "Accounts": _object(
        accounts=_list(
            _object(
                data=_TEXT,
                analyst=_OPTIONAL,
                budget=_AMOUNT,
                spent=_object(share=_NUMBER),
                remaining=_AMOUNT,
                set_aside=_NUMBER,
                pending={"type": "integer"},
                state=_OBJECT,
            )
        )
    ),
    "Releases": _object(releases=_list(_RELEASE)),
    "Receipt": {**_RELEASE, "properties": {**_RELEASE["properties"], "hash": _TEXT}},
    "Queue": _object(
        questions=_list(
            _object(request=_TEXT, running={"type": "boolean"}, ahead={"type": "integer"}, seconds=_NUMBER)
        ),
        limit=_NUMBER,
    ),
    "Cancelled": _object(cancelled=_TEXT),
    "ReleaseExplained": _object(price=_AMOUNT, caveats=_TEXTS, exact=_OBJECT, lines=_TEXTS),
    "Made": _object(
        release={"type": "string", "enum": ["marginals", "synthetic", "family", "ranges", "model"]},
        receipt=_TEXT,
        price={},
    ),
    "Recorded": _object(receipt=_TEXT, remaining=_AMOUNT),
    "Streams": _object(streams=_list(_STREAM)),
    "Stream": _STREAM,
    "NewStream": _STREAM,
    "AdvancedStream": {**_STREAM, "properties": {**_STREAM["properties"], "due": {"type": "integer"}}},
    "StreamExplained": _object(
        price=_AMOUNT, periods={"type": "integer"}, errors=_OBJECT, confidence=_NUMBER, caveats=_TEXTS
    ),
    "DeclarationExplained": _object(
        name=_TEXT, epsilon=_TEXT, share=_NUMBER, fitting={"type": "integer"}, fits={"type": "boolean"}, release=_OBJECT
    ),
    "Requests": _object(requests=_list(_REQUEST)),
    "Request": _REQUEST,
    "MadeRequest": _REQUEST,
    "Tokens": _object(tokens=_list(_object(id=_TEXT, label=_TEXT, scopes=_TEXTS, created=_TEXT, expires=_TEXT))),
    "NewToken": _object(id=_TEXT, label=_TEXT, scopes=_TEXTS, created=_TEXT, expires=_TEXT, token=_TEXT),
    "People": _object(people=_list(_object(name=_TEXT, roles=_TEXTS))),
    "Link": {"type": "object", "required": ["link"], "properties": {"link": _TEXT, "name": _TEXT}},
}
_CREATED = {"NewToken", "Link", "MadeRequest", "NewStream"}


def document(table: Sequence[Route]) -> dict[str, Any]:
    """Return the OpenAPI document of all API routes."""
    schemas = dict(_SCHEMAS)
    paths: dict[str, dict[str, Any]] = {}
    for route in table:
        if route.page:
            continue
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "hush",
            "version": "1",
            "description": "Noisy answers with error bars, until the budget is spent. Prices are exact texts.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(place: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": place.summary,
        "operationId": f"{place.method.lower()}{re.sub(r'[^a-z]+', '_', place.path.removeprefix('/api/v1'))}",
        "parameters": _parameters(place),
        "responses": _responses(place),
    }
    if place.permission is not Permission.ANYBODY:
        operation["security"] = [{"token": []}]
        operation["description"] = f"For: {place.permission.value}; a token needs the scope {place.scope!r}."
    if place.body is not None:
        schema = place.body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[place.body.__name__] = schema
        content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{place.body.__name__}"}}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(place: Route) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", place.path)
    shapes = {"number": {"type": "integer", "minimum": 1}}
    inside = [
        {"name": name, "in": "path", "required": True, "schema": shapes.get(name, {"type": "string", "minLength": 1})}
        for name in names
    ]
    return [*inside, *({"name": name, "in": "query", "schema": shape} for name, shape in place.query)]


def _responses(place: Route) -> dict[str, Any]:
    refused = {"schema": {"$ref": "#/components/schemas/Problem"}}
    responses: dict[str, Any] = {}
    if place.result:
        content: dict[str, Any] = {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{place.result}"}},
            **{media: {} for media in place.media},
        }
        code = "201" if place.result in _CREATED else "202" if place.result == "Cancelled" else "200"
        responses[code] = {"description": place.summary, "content": content}
    else:
        responses["204"] = {"description": "Done"}
    for status, reason in _refusals(place).items():
        responses[str(status)] = {"description": reason, "content": {MEDIA: refused}}
    return responses


def _refusals(place: Route) -> dict[int, str]:
    refusals = {
        400: "Not a proper request",
        408: "Too slow",
        413: "Too large",
        415: "Not JSON, or compressed",
        421: "Another host name",
        422: "A value or a question is not right",
        429: "Too many requests",
        503: "Busy, or the ledger cannot be used",
    }
    if place.permission is not Permission.ANYBODY:
        refusals |= {401: "Not signed in", 403: "Not allowed"}
    if "{" in place.path or place.query or place.body is not None:
        refusals |= {404: "Nothing there that you may see"}
    if place.media:
        refusals |= {406: "No such form"}
    if place.scope == "ask" or place.media:
        refusals |= {402: "The budget does not suffice; nothing was charged"}
    if place.path.startswith("/api/v1/streams"):
        refusals |= {401: "Not signed in", 402: "The budget does not suffice", 409: "Another state than needed"}
    if place.permission is Permission.ANALYST:
        refusals |= {409: "Another state than needed: no ledger, a request id used before, or cancelled"}
    return refusals
