"""Whole releases over the API: tables, synthetic rows, ranges and models, explained for nothing and made for a price.

They take the way of a question: a turn in the queue, a charge before anything is read, and an outcome that leaves at a
slot (`hush.server.questions`). What is sent is the noisy release and what is public of it, so its size tells nothing
else of rows. A release is kept under its receipt, and every form of it can be had again for nothing:

=========== ===== ===== ======= ===== ==========================================
release     JSON  CSV   Parquet zip   of what
=========== ===== ===== ======= ===== ==========================================
marginals   yes   yes   yes     yes   one table by its number; the zip has all
synthetic   yes   yes   yes           rows, as many as are asked for
family      yes                       parents and children, for `hush.connect`
ranges      yes   yes   yes           the distribution
model       yes                       the model, for `hush.learn.load`
=========== ===== ===== ======= ===== ==========================================
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.accounting.events import event_from_json
from hush.core import InvalidValueError, integer
from hush.curator.answer import Answer, Money
from hush.curator.curator import Curator
from hush.curator.marginal_release import MarginalRelease
from hush.curator.model_release import Recorded
from hush.curator.range_release import RangeRelease
from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease
from hush.server import schemas
from hush.server.api import CSV, JSON, api_route, budget_headers, chosen_form, number_in, whole
from hush.server.auth.people import Person
from hush.server.routes import Handler, Permission, Route
from hush.server.service import Service

STORED = "application/vnd.hush.release"
PARQUET = "application/vnd.apache.parquet"
ZIP = "application/zip"
FORMS = {"json": JSON, "csv": CSV, "parquet": PARQUET, "zip": ZIP, "stored": STORED}
MADE_FORMS = {"json": JSON, "stored": STORED}
MOST_ROWS = 1_000_000
"""How many synthetic rows can be had at once."""


def _explaining(kind: str) -> Handler:
    async def explain(_: Request, service: Service, who: Person, body: schemas.Body) -> Response:
        """Return the price and the expected error of a release."""
        return JSONResponse(schemas.explanation(await service.explain_release(who, kind, body.given())))

    return explain


def _making(kind: str) -> Handler:
    async def make(request: Request, service: Service, who: Person, body: schemas.Body) -> Response:
        """Make a release, and charge it."""
        form = chosen_form(request, MADE_FORMS)
        terms = body.given()
        artefact, remaining, spending = await service.release(who, kind, terms, request=terms.pop("request", None))
        headers = budget_headers(artefact.receipt, remaining, spending)
        if form == "json":
            return JSONResponse(await asyncio.to_thread(described, artefact, remaining), headers=headers)
        content = await _stored(service, who, artefact)
        return Response(content, headers=headers, media_type=STORED)

    return make


async def _stored(service: Service, who: Person, made: Any) -> bytes:
    """Return a release as bytes; a model's are those that the ledger keeps."""
    if isinstance(made, MarginalRelease | SyntheticRelease | RangeRelease | FamilyRelease):
        return await asyncio.to_thread(made.to_bytes)
    return await service.stored(who, int(made.receipt))


def described(made: Any, remaining: Money | None) -> dict[str, Any]:
    """Return a release as plain JSON values."""
    kinds = {MarginalRelease: "marginals", SyntheticRelease: "synthetic", RangeRelease: "ranges"}
    kinds |= {FamilyRelease: "family"}
    if type(made) in kinds:
        return {"release": kinds[type(made)], **made.to_json()}
    money = None if remaining is None else remaining.to_json()
    return {
        "release": "model",
        "model": made.to_json(),
        "price": made.price,
        "receipt": made.receipt,
        "remaining": money,
    }


async def released(request: Request, service: Service, who: Person) -> Response:
    """Return a release again, in any of its forms."""
    form, number = chosen_form(request, FORMS), number_in(request)
    options = {
        name: whole(text, name) for name in ("table", "rows", "seed") if (text := request.query_params.get(name))
    }
    artefact = await service.released(who, number)
    if form == "stored":
        return Response(await service.stored(who, number), media_type=STORED, headers={"hush-receipt": str(number)})
    return await asyncio.to_thread(written, artefact, form, **options)


def written(made: Any, form: str, *, table: int | None = None, rows: int | None = None, seed: int = 0) -> Response:
    """Return a release as a file."""
    name = f"release-{made.receipt}"
    if form == "json":
        return JSONResponse(described(made, None))
    if isinstance(made, MarginalRelease):
        if form == "zip":
            return _file(_zipped(made), name, "zip")
        table_count = len(made.tables)
        if table is None and table_count > 1:
            raise InvalidValueError(
                "table", got=None, allowed=f"the number of a table, from 1 to {table_count}; or the zip"
            )
        table_number = integer(1 if table is None else table, "table", minimum=1, maximum=table_count)
        return _answer_file(made[made.tables[table_number - 1]], form, f"{name}-{table_number}")
    if isinstance(made, RangeRelease) and form != "zip":
        return _answer_file(made.distribution(), form, name)
    if isinstance(made, SyntheticRelease) and form != "zip":
        count = None if rows is None else integer(rows, "rows", minimum=1, maximum=MOST_ROWS)
        integer(seed, "seed", minimum=0, maximum=2**63 - 1)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"rows.{form}"
            made.save(path, rows=count, seed=seed)
            return _file(path.read_bytes(), name, form)
    raise InvalidValueError("format", got=form, allowed="a form that this release has, such as json")


def _answer_file(answer: Answer, form: str, name: str) -> Response:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{form}"
        answer.save(path)
        return _file(path.read_bytes(), name, form)


def _zipped(made: MarginalRelease) -> bytes:
    """Return all tables, the report and the measurements in one file."""
    buffer = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in made.save(folder):
            archive.write(path, path.name)
    return buffer.getvalue()


def _file(content: bytes, name: str, ending: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(content, media_type=FORMS[ending], headers=headers)


async def record(_: Request, service: Service, who: Person, body: schemas.EventBody) -> Response:
    """Charge an event that the caller states."""

    def state(curator: Curator, name: str) -> Recorded:
        return curator.record(event_from_json(body.event), body.note, data=body.data, request=name)

    recorded = await service.at_work(who, body.request, state)
    return JSONResponse({"receipt": recorded.receipt, "remaining": recorded.remaining.to_json()})


def table() -> list[Route]:
    """Return the routes of whole releases."""
    kinds: Mapping[str, tuple[str, type[schemas.Body], type[schemas.Body]]] = {
        "marginals": ("all tables of some columns", schemas.MarginalsBody, schemas.PaidMarginalsBody),
        "synth": ("synthetic rows", schemas.SynthBody, schemas.PaidSynthBody),
        "ranges": ("all ranges of a column", schemas.RangesBody, schemas.PaidRangesBody),
        "fit": ("a model", schemas.FitBody, schemas.PaidFitBody),
    }
    analyst, form = Permission.ANALYST, {"type": "string"}
    small = {"type": "integer", "minimum": 0, "maximum": 2**53}
    query = (
        ("format", {**form, "enum": list(FORMS)}),
        ("table", {**small, "minimum": 1}),
        ("rows", {**small, "minimum": 1, "maximum": MOST_ROWS}),
        ("seed", small),
    )
    extras: dict[str, Any] = {"media": (STORED,), "query": (("format", {**form, "enum": list(MADE_FORMS)}),)}
    routes = []
    for kind, (subject, free, paid) in kinds.items():
        path, summary = f"/releases/{kind}", f"Price and error of {subject}"
        routes += [
            api_route(f"POST {path}/explain", _explaining(kind), analyst, summary, "ReleaseExplained", free),
            api_route(f"POST {path}", _making(kind), analyst, f"Make {subject}", "Made", paid, scope="ask", **extras),
        ]
    paid = schemas.PaidChildrenBody
    family = {"body": paid, "scope": "ask", **extras}
    make = _making("synth_children")
    routes.append(api_route("POST /releases/children", make, analyst, "Make parents and children", "Made", **family))
    files = (CSV, PARQUET, ZIP, STORED)
    return [
        *routes,
        api_route("GET /releases/{number}", released, analyst, "A release again", "Made", query=query, media=files),
        api_route("POST /events", record, analyst, "State an event", "Recorded", schemas.EventBody, scope="ask"),
    ]
