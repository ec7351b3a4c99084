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
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.responses import JSONResponse, Response

from hush.accounting.events import event_from_json
from hush.core import InvalidValueError, integer
from hush.curator import terms
from hush.curator.answer import Money
from hush.curator.count_release import MarginalRelease, RangeRelease
from hush.curator.curator import Curator
from hush.curator.model_release import Recorded
from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease
from hush.server import schemas
from hush.server.api import CSV, JSON, attached, budget_headers, chosen_form, number_in, whole
from hush.server.routes import ANALYST, Routes, Visit
from hush.server.schemas import Body, OptionsBody, body_of

ROUTES = Routes()
STORED = "application/vnd.hush.release"
PARQUET = "application/vnd.apache.parquet"
ZIP = "application/zip"
FORMS = {"json": JSON, "csv": CSV, "parquet": PARQUET, "zip": ZIP, "stored": STORED}
MADE_FORMS = {"json": JSON, "stored": STORED}
MOST_ROWS = 1_000_000
"""How many synthetic rows can be had at once."""
_KINDS: Mapping[type, str] = {
    MarginalRelease: "marginals",
    SyntheticRelease: "synthetic",
    RangeRelease: "ranges",
    FamilyRelease: "family",
}
_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0, "maximum": 2**53}
_QUERY = (
    ("format", {**_TEXT, "enum": list(FORMS)}),
    ("table", {**_COUNT, "minimum": 1}),
    ("rows", {**_COUNT, "minimum": 1, "maximum": MOST_ROWS}),
    ("seed", _COUNT),
)


def _declare(
    kind: str, name: str, subject: str, free: type[terms.Terms] | None, paid: type[terms.Terms], base: type[Body] = Body
) -> None:
    """Declare how a kind of release is explained, where that has a route, and how it is made."""

    async def explain(visit: Visit, body: Body) -> dict[str, Any]:
        return schemas.explanation(await visit.explain_release(kind, body.given()))

    async def make(visit: Visit, body: Body) -> Response:
        form, given = chosen_form(visit.request, MADE_FORMS), body.given()
        made, remaining, spending = await visit.release(kind, given, request=given.pop("request", None))
        headers = budget_headers(made.receipt, remaining, spending)
        if form == "json":
            return JSONResponse(await asyncio.to_thread(described, made, remaining), headers=headers)
        if type(made) in _KINDS:
            content = await asyncio.to_thread(made.to_bytes)
        else:  # of a model, the bytes that the ledger keeps
            content = await visit.stored(int(made.receipt))
        return Response(content, headers=headers, media_type=STORED)

    path, title = f"POST /releases/{name}", name.title()
    if free is not None:
        body, summary = body_of(free, f"{title}Body", base), f"Price and error of {subject}"
        ROUTES.api(f"{path}/explain", ANALYST, "ReleaseExplained", body, summary=summary)(explain)
    body = body_of(paid, f"Paid{title}Body", base)
    more: dict[str, Any] = {"media": (STORED,), "query": (("format", {**_TEXT, "enum": list(MADE_FORMS)}),)}
    ROUTES.api(path, ANALYST, "Made", body, summary=f"Make {subject}", scope="ask", **more)(make)


_declare("marginals", "marginals", "all tables of some columns", terms.MarginalTerms, terms.MarginalOrder)
_declare("synth", "synth", "synthetic rows", terms.SynthesisTerms, terms.SynthesisOrder)
_declare("ranges", "ranges", "all ranges of a column", terms.RangeTerms, terms.RangeOrder)
_declare("fit", "fit", "a model", terms.FitTerms, terms.FitOrder, OptionsBody)
_declare("synth_children", "children", "parents and children", None, terms.FamilyOrder)


def described(made: Any, remaining: Money | None) -> dict[str, Any]:
    """Return a release as plain JSON values."""
    if type(made) in _KINDS:
        return {"release": _KINDS[type(made)], **made.to_json()}
    return {
        "release": "model",
        "model": made.to_json(),
        "price": made.price,
        "receipt": made.receipt,
        "remaining": None if remaining is None else remaining.to_json(),
    }


@ROUTES.api("GET /releases/{number}", ANALYST, "Made", query=_QUERY, media=(CSV, PARQUET, ZIP, STORED))
async def released(visit: Visit) -> Response:
    """A release again."""
    form, number = chosen_form(visit.request, FORMS), number_in(visit)
    options = file_options(visit)
    made = await visit.released(number)
    if form == "stored":
        content = await visit.stored(number)
        return Response(content, media_type=STORED, headers={"hush-receipt": str(number)})
    return await asyncio.to_thread(written, made, form, **options)


def file_options(visit: Visit) -> dict[str, int]:
    """Return the options of a release's file that the query names."""
    return {name: whole(text, name) for name in ("table", "rows", "seed") if (text := visit.query.get(name))}


def written(made: Any, form: str, *, table: int | None = None, rows: int | None = None, seed: int = 0) -> Response:
    """Return a release as a file."""
    if form == "json":
        return JSONResponse(described(made, None))
    name = f"release-{made.receipt}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{form}"
        if isinstance(made, MarginalRelease) and form == "zip":  # all tables, the report and the measurements
            parts = made.save(folder)
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                for part in parts:
                    archive.write(part, part.name)
        elif isinstance(made, MarginalRelease):
            tables = len(made.tables)
            if table is None and tables > 1:
                allowed = f"the number of a table, from 1 to {tables}; or the zip"
                raise InvalidValueError("table", got=None, allowed=allowed)
            number = integer(1 if table is None else table, "table", minimum=1, maximum=tables)
            name = f"{name}-{number}"
            made[made.tables[number - 1]].save(path)
        elif isinstance(made, RangeRelease) and form != "zip":
            made.distribution().save(path)
        elif isinstance(made, SyntheticRelease) and form != "zip":
            count = None if rows is None else integer(rows, "rows", minimum=1, maximum=MOST_ROWS)
            made.save(path, rows=count, seed=integer(seed, "seed", minimum=0, maximum=2**63 - 1))
        else:
            raise InvalidValueError("format", got=form, allowed="a form that this release has, such as json")
        return attached(Response(path.read_bytes(), media_type=FORMS[form]), f"{name}.{form}")


@ROUTES.api("POST /events", ANALYST, "Recorded", schemas.EventBody, scope="ask")
async def record(visit: Visit, body: schemas.EventBody) -> dict[str, Any]:
    """State an event."""

    def state(curator: Curator, name: str) -> Recorded:
        return curator.record(event_from_json(body.event), body.note, data=body.data, request=name)

    recorded = await visit.at_work(body.request, state)
    return {"receipt": recorded.receipt, "remaining": recorded.remaining.to_json()}
