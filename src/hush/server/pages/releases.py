"""Releases: tables, synthetic rows, ranges, models and streams on the page, each explained before it is paid for.

``GET /releases?kind=…&q=…`` explains and never spends; ``POST /releases`` makes the release and leads to its own
address, where it can be taken away as a file. A request id in the form makes a second click bring the same release for
nothing.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hush.core import HushError
from hush.core.format import visible
from hush.curator.marginal_release import MarginalRelease
from hush.curator.model_release import MODELS
from hush.curator.range_release import RangeRelease
from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease
from hush.report.columns import shown_error
from hush.server import errors
from hush.server.api import number_in, whole
from hush.server.auth.people import Person
from hush.server.errors import UnknownPlaceError
from hush.server.pages import models
from hush.server.pages.answers import kind_of, shown
from hush.server.pages.layout import problem_of, quoted, show, text_of
from hush.server.pages.preview import odds
from hush.server.releases import FORMS, written
from hush.server.routes import Permission, Route, page_route
from hush.server.service import Service

KINDS: Mapping[str, tuple[str, str]] = {
    "marginals": ("Tables", "Every table of some columns at once, all in agreement, each cell with its ±."),
    "synth": ("Synthetic rows", "Rows of people who never were, much like those in the data, with a certificate."),
    "ranges": ("Ranges", "Every interval, the distribution and all quantiles of one column."),
    "fit": ("Model", "A regression, classification or clustering with differential privacy."),
    "stream": ("Stream", "A count or sum for each day that keeps coming, paid once for its whole life."),
}
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "marginals": ("degree",),
    "synth": (),
    "ranges": (),
    "fit": ("target", "model"),
    "stream": ("horizon", "name"),
}
_MOST_LISTED = 1000
_PREVIEW = 12


async def releases_page(request: Request, service: Service, who: Person) -> Response:
    """Show the form for a release, its price and error, and the releases made before."""
    return await _releasing(request, service, who, request.query_params)


async def _releasing(
    request: Request,
    service: Service,
    who: Person,
    values: QueryParams | FormData,
    *,
    error: HushError | None = None,
) -> Response:
    kind = text_of(values, "kind", 20)
    kind = kind if kind in KINDS else "marginals"
    schema = await service.data_sets(who)
    data = text_of(values, "data", 200)
    data_set = next((candidate for candidate in schema if candidate["name"] == data), schema[0] if schema else None)
    fields = {name: text_of(values, name, 200).strip() for name in ("epsilon", *_FIELDS[kind])}
    question = text_of(values, "q", 50_000)
    explanation = None
    if question.strip() and fields["epsilon"]:
        try:
            explanation = await _explained(service, who, kind, question, fields, data)
        except HushError as refusal:
            error = error or refusal
    defaults = {"degree": "2", "model": "regression", "horizon": "1 year", "epsilon": "0.5"}
    return await show(
        request,
        service,
        who,
        "releases.html",
        200 if error is None else errors.status(error),
        data="" if data_set is None else data_set["name"],
        kinds=KINDS,
        kind=kind,
        question=question or _example(data_set, kind),
        given={name: value or defaults.get(name, "") for name, value in fields.items()},
        models=list(MODELS),
        explained=explanation,
        problem=None if error is None else problem_of(error),
        made=await _listed(service, who),
        request_id=uuid.uuid4().hex,
    )


def _terms(kind: str, question: str, given: Mapping[str, str], data: str) -> dict[str, Any]:
    """Return a form's fields as a curator takes them."""
    terms: dict[str, Any] = {"epsilon": given["epsilon"] or None, **({"data": data} if data else {})}
    if kind == "marginals":
        return {**terms, "table": question, "degree": whole(given["degree"] or "2", "degree")}
    terms["question"] = question
    if kind == "fit":
        terms |= {"model": given["model"] or "regression", **({"target": given["target"]} if given["target"] else {})}
    if kind == "stream":
        terms["horizon"] = given["horizon"]
    return terms


async def _explained(
    service: Service, who: Person, kind: str, question: str, given: Mapping[str, str], data: str
) -> dict[str, Any]:
    terms = _terms(kind, question, given, data)
    if kind == "stream":
        outlook = await service.explain_stream(who, terms)
        errors = [(f"each {name}", f"± {_rounded(str(error))}") for name, error in outlook["errors"].items()]
        head = f"{outlook['periods']:,} periods for ε {outlook['price']['epsilon']}"
        return {"head": head, "rows": errors, "notes": outlook["caveats"], "odds": odds(given["epsilon"])}
    explanation = await service.explain_release(who, kind, terms)
    head, *lines = str(explanation).splitlines()
    caveats = {f"  note: {caveat}" for caveat in explanation.caveats}
    pairs = [line.strip().partition(": ") for line in lines if line not in caveats]
    rows = [(visible(name), _rounded(value)) if value else ("", _rounded(name)) for name, _, value in pairs]
    notes = [visible(caveat) for caveat in explanation.caveats]
    return {"head": visible(head), "rows": rows, "notes": notes, "odds": odds(given["epsilon"])}


def _rounded(text: str) -> str:
    """Return a text with its decimal numbers rounded to three digits, as for errors."""
    return re.sub(r"\d+\.\d+", lambda found: shown_error(float(f"{float(found[0]):.3g}")), visible(text))


async def _listed(service: Service, who: Person) -> list[dict[str, Any]]:
    """Return one's releases, newest first."""
    return [
        {
            "number": release["number"],
            "when": release["when"][:16].replace("T", " "),
            "kind": KINDS[kind][0],
            "question": visible(release["question"], lines=True),
            "outcome": release["outcome"],
        }
        for release in await service.history(who, _MOST_LISTED)
        if (kind := kind_of(release["question"])) in KINDS and kind != "stream"
    ]


async def explain(request: Request, _: Service, __: Person) -> Response:
    """Lead to the address at which a release is explained."""
    form = await request.form()
    names = {"kind": 20, "q": 50_000, "data": 200, "epsilon": 60, "degree": 20, "target": 200, "model": 60}
    names |= {"horizon": 100, "name": 64}
    query = {name: text for name, length in names.items() if (text := text_of(form, name, length))}
    return RedirectResponse(f"/releases?{urlencode(query)}", 303)


async def make(request: Request, service: Service, who: Person) -> Response:
    """Make a release, and lead to it."""
    form = await request.form()
    kind, question = text_of(form, "kind", 20), text_of(form, "q", 50_000)
    if kind not in KINDS:
        raise UnknownPlaceError
    fields = {name: text_of(form, name, 200).strip() for name in ("epsilon", *_FIELDS[kind])}
    name = text_of(form, "request", 200) or uuid.uuid4().hex
    try:
        terms = _terms(kind, question, fields, text_of(form, "data", 200))
        if kind == "stream":
            title = fields["name"]
            await service.at_work(
                who, name, lambda curator, request: curator.stream.create(name=title, request=request, **terms).name
            )
            return RedirectResponse(f"/streams/{quote(title, safe='')}", 303)
        terms |= {"fresh": True} if "fresh" in form else {}
        release, *_ = await service.release(who, kind, terms, request=name)
    except HushError as error:
        return await _releasing(request, service, who, form, error=error)
    before = (await service.receipt(who, int(release.receipt)))["request"] != name
    return RedirectResponse(f"/releases/{release.receipt}{'?again=1' if before else ''}", 303)


async def release_page(request: Request, service: Service, who: Person) -> Response:
    """Show a release again, or give it out as a file."""
    name, _, ending = str(request.path_params["number"]).partition(".")
    request.path_params["number"] = name
    number = number_in(request)
    artefact = await service.released(who, number)
    if ending:
        if ending not in FORMS or ending == "stored":
            raise UnknownPlaceError
        query = request.query_params
        options = {option: whole(text, option) for option in ("table", "rows", "seed") if (text := query.get(option))}
        response = await asyncio.to_thread(written, artefact, ending, **options)
        if ending == "json":
            response.headers["content-disposition"] = f'attachment; filename="release-{name}.json"'
        return response
    release = await service.receipt(who, number)
    drawn = await asyncio.to_thread(_drawn, artefact, request.url.path, request.query_params)
    return await show(
        request,
        service,
        who,
        "release.html",
        data=release["data"],
        receipt=release,
        number=number,
        again="again" in request.query_params,
        **drawn,
    )


def _drawn(made: Any, address: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return a release as its template draws it; of several tables the one that the query names by its number."""
    drawn: dict[str, Any] = {"tables": [], "answers": [], "rows": [], "columns": [], "facts": [], "text": ""}
    drawn |= {"notes": [], "question": "", "headline": "", "kind": "model", "model": None, "table": 0}
    if isinstance(made, FamilyRelease):
        made = made.parents
    if isinstance(made, MarginalRelease):
        tables = [
            (number, " × ".join(map(visible, columns)), f"{made.coding.domain.cells(columns):,}", _error(made, columns))
            for number, columns in enumerate(made.tables, start=1)
        ]
        wanted = query.get("table", "")
        table = int(wanted) if wanted in {str(number) for number, *_ in tables} else 1
        answer = shown(made[made.tables[table - 1]], address, query, {"table": str(table)})
        answers = [(tables[table - 1][1], {**answer, "notes": []})]
        drawn |= {"kind": "marginals", "tables": tables, "table": table, "answers": answers}
        drawn |= {"headline": _rounded(str(made))}
    elif isinstance(made, SyntheticRelease):
        preview = made.table.slice(0, _PREVIEW)
        rows = [["" if cell is None else visible(str(cell)) for cell in row.values()] for row in preview.to_pylist()]
        drawn |= {"kind": "synthetic", "rows": rows, "columns": [visible(name) for name in preview.column_names]}
        drawn |= {"headline": str(made), "facts": _certificate(made)}
    elif isinstance(made, RangeRelease):
        answers = [(visible(made.column.name), {**shown(made.histogram(), address, query), "notes": []})]
        facts = [
            (f"{100 * quantile['part']:g} % lie below", f"{quantile['value']} ({quantile['low']} – {quantile['high']})")
            for quantile in made.quantiles()
        ]
        drawn |= {"kind": "ranges", "answers": answers, "facts": facts, "headline": f"All ranges at {made.price}"}
    else:
        text = visible(made.explain(), lines=True)
        return {
            **drawn,
            "text": text,
            "headline": f"{type(made).__name__} at {made.price}",
            "model": models.drawn(made, query),
        }
    return {
        **drawn,
        "notes": [visible(caveat) for caveat in made.caveats],
        "question": visible(made.question, lines=True),
    }


def _error(made: MarginalRelease, columns: tuple[str, ...]) -> str:
    return f"± {_rounded(str(made.marginals[columns].error))}"


def _certificate(made: SyntheticRelease) -> list[tuple[str, str]]:
    """Return how good synthetic rows are known to be."""
    quality = made.quality
    if quality is None:
        return []
    worst = quality.worst
    return [
        ("Distance of pairs, in the mean", f"{quality.mean:.3g} ± {quality.mean_error:.2g}"),
        (
            "Furthest from the data",
            f"{' × '.join(map(visible, worst.columns))}: {worst.distance:.3g} ± {worst.error:.2g}",
        ),
    ]


def _example(schema: dict[str, Any] | None, kind: str) -> str:
    """Return SQL that this kind of release can begin with."""
    for table in [] if schema is None else schema["tables"]:
        if table["public"]:
            continue
        name, columns = quoted(table["name"]), table["columns"]
        categories = [quoted(column["name"]) for column in columns if column.get("values")]
        numbers = [
            quoted(column["name"])
            for column in columns
            if column["type"] in {"integer", "decimal"} and column.get("lower") is not None
        ]
        days = [quoted(column["name"]) for column in columns if column["type"] in {"date", "timestamp"}]
        if kind == "stream":
            return f"SELECT {days[0]}, COUNT(*) AS n\nFROM {name}\nGROUP BY {days[0]}" if days else ""
        outputs = numbers[:1] if kind == "ranges" else [*numbers, *categories][:4]
        return f"SELECT {', '.join(outputs)}\nFROM {name}" if outputs else ""
    return ""


def table() -> list[Route]:
    """Return the routes of the Releases pages."""
    analyst = Permission.ANALYST
    return [
        page_route("GET", "/releases", releases_page, analyst),
        page_route("POST", "/releases/explain", explain, analyst),
        page_route("POST", "/releases", make, analyst, "ask"),
        page_route("GET", "/releases/{number}", release_page, analyst),
    ]
