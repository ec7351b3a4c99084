"""Whole releases over the API: tables, synthetic rows, ranges and models, explained for nothing and made for a price.

They take the way of a question: a turn in the queue, a charge before anything is read, and an outcome that leaves at a
slot (`hush.server.questions`). What is sent is the noisy release and what is public of it, so its size tells nothing
else of rows. A release is kept under its receipt, and every form of it can be had again for nothing:

=========== ===== ===== ======= ===== ==========================================
release     JSON  CSV   Parquet zip   of what
=========== ===== ===== ======= ===== ==========================================
marginals   yes   yes   yes     yes   one table by its number; the zip has all
synthetic   yes   yes   yes           rows, as many as are asked for
ranges      yes   yes   yes           the distribution
model       yes                       the model, for `hush.learn.load`
=========== ===== ===== ======= ===== ==========================================
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import zipfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.accounting.events import event_from_json
from hush.core import InvalidValueError, integer
from hush.core.format import decimal
from hush.curator.answer import Answer, Money
from hush.curator.marginal_release import MarginalRelease
from hush.curator.range_release import RangeRelease
from hush.curator.synthetic_release import SyntheticRelease
from hush.server import bodies
from hush.server.api import CSV, JSON, chosen_form, number_in, place, whole
from hush.server.people import Person
from hush.server.routes import Reached, Visitor
from hush.server.service import Service

STORED = "application/vnd.hush.release"
PARQUET = "application/vnd.apache.parquet"
ZIP = "application/zip"
FORMS = {"json": JSON, "csv": CSV, "parquet": PARQUET, "zip": ZIP, "stored": STORED}
MADE_FORMS = {"json": JSON, "stored": STORED}
MOST_ROWS = 1_000_000
"""How many synthetic rows can be had at once."""
Handler = Callable[[Request, Service, Person], Awaitable[Response]]


def _explaining(kind: str, model: type[bodies.ReleaseBody]) -> Handler:
    async def explain(request: Request, service: Service, who: Person) -> Response:
        """Say what a release would cost."""
        body = await bodies.read(request, model)
        return JSONResponse(explained(await service.explain_release(who, kind, body.how())))

    return explain


def explained(explanation: Any) -> dict[str, Any]:
    """Return what is said of a release beforehand: in figures, exactly, and in words."""
    exact, lines = explanation.price.itemised_json(), str(explanation).splitlines()
    return {**explanation.to_json(), "exact": exact, "lines": lines}


def _making(kind: str, model: type[bodies.ReleaseBody]) -> Handler:
    async def make(request: Request, service: Service, who: Person) -> Response:
        """Make a release, and charge it."""
        form = chosen_form(request, MADE_FORMS)
        body = await bodies.read(request, model)
        made, remaining = await service.release(who, kind, body.how(), request=getattr(body, "request", None))
        headers = {"hush-receipt": made.receipt}
        headers["hush-remaining"] = f"{decimal(remaining.epsilon)} {decimal(remaining.delta)}"
        if form == "json":
            return JSONResponse(await asyncio.to_thread(described, made, remaining), headers=headers)
        content = await _stored(service, who, made)
        return Response(content, headers=headers, media_type=STORED)

    return make


async def _stored(service: Service, who: Person, made: Any) -> bytes:
    """Return a release as bytes; a model's are those that the ledger keeps."""
    if isinstance(made, MarginalRelease | SyntheticRelease | RangeRelease):
        return await asyncio.to_thread(made.to_bytes)
    return await service.stored(who, int(made.receipt))


def described(made: Any, remaining: Money | None) -> dict[str, Any]:
    """Return a release as plain JSON values."""
    kinds = {MarginalRelease: "marginals", SyntheticRelease: "synthetic", RangeRelease: "ranges"}
    if type(made) in kinds:
        return {"release": kinds[type(made)], **made.to_json()}
    left = None if remaining is None else remaining.to_json()
    return {
        "release": "model",
        "model": made.to_json(),
        "price": made.price,
        "receipt": made.receipt,
        "remaining": left,
    }


async def released(request: Request, service: Service, who: Person) -> Response:
    """Give out a release again, in any of its forms."""
    form, number = chosen_form(request, FORMS), number_in(request)
    options = {
        name: whole(text, name) for name in ("table", "rows", "seed") if (text := request.query_params.get(name))
    }
    made = await service.released(who, number)
    if form == "stored":
        return Response(await service.stored(who, number), media_type=STORED, headers={"hush-receipt": str(number)})
    return await asyncio.to_thread(written, made, form, **options)


def written(made: Any, form: str, *, table: int | None = None, rows: int | None = None, seed: int = 0) -> Response:
    """Return a release as a file."""
    name = f"release-{made.receipt}"
    if form == "json":
        return JSONResponse(described(made, None))
    if isinstance(made, MarginalRelease):
        if form == "zip":
            return _file(_zipped(made), name, "zip")
        most = len(made.tables)
        if table is None and most > 1:
            raise InvalidValueError("table", got=None, allowed=f"the number of a table, from 1 to {most}; or the zip")
        chosen = integer(1 if table is None else table, "table", minimum=1, maximum=most)
        return _answer_file(made[made.tables[chosen - 1]], form, f"{name}-{chosen}")
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
    held = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in made.save(folder):
            archive.write(path, path.name)
    return held.getvalue()


def _file(content: bytes, name: str, ending: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(content, media_type=FORMS[ending], headers=headers)


async def record(request: Request, service: Service, who: Person) -> Response:
    """Charge an event that the caller states."""
    body = await bodies.read(request, bodies.EventBody)
    event = event_from_json(body.event)
    recorded = await service.at_work(
        who, body.request, lambda curator, name: curator.record(event, body.note, data=body.data, request=name)
    )
    return JSONResponse({"receipt": recorded.receipt, "remaining": recorded.remaining.to_json()})


def table() -> list[Reached]:
    """Return this part of the table of routes."""
    kinds: Mapping[str, tuple[str, type[bodies.ReleaseBody], type[bodies.ReleaseBody]]] = {
        "marginals": ("all tables of some columns", bodies.MarginalsBody, bodies.PaidMarginalsBody),
        "synth": ("synthetic rows", bodies.SynthBody, bodies.PaidSynthBody),
        "ranges": ("all ranges of a column", bodies.RangesBody, bodies.PaidRangesBody),
        "fit": ("a model", bodies.FitBody, bodies.PaidFitBody),
    }
    analyst, form = Visitor.ANALYST, {"type": "string"}
    small = {"type": "integer", "minimum": 0, "maximum": 2**53}
    query = (
        ("format", {**form, "enum": list(FORMS)}),
        ("table", {**small, "minimum": 1}),
        ("rows", {**small, "minimum": 1, "maximum": MOST_ROWS}),
        ("seed", small),
    )
    made: dict[str, Any] = {"media": (STORED,), "query": (("format", {**form, "enum": list(MADE_FORMS)}),)}
    places = []
    for kind, (what, free, paid) in kinds.items():
        path, told = f"/releases/{kind}", f"Price and error of {what}"
        places += [
            place("POST", f"{path}/explain", _explaining(kind, free), analyst, told, "ReleaseExplained", body=free),
            place("POST", path, _making(kind, paid), analyst, f"Make {what}", "Made", body=paid, scope="ask", **made),
        ]
    files = (CSV, PARQUET, ZIP, STORED)
    return [
        *places,
        place("GET", "/releases/{number}", released, analyst, "A release again", "Made", query=query, media=files),
        place("POST", "/events", record, analyst, "State an event", "Recorded", body=bodies.EventBody, scope="ask"),
    ]
