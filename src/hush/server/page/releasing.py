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
from hush.curator.answer import Answer
from hush.curator.marginal_release import MarginalRelease
from hush.curator.model_release import MODELS
from hush.curator.range_release import RangeRelease
from hush.curator.synthetic_release import SyntheticRelease
from hush.report.columns import shown_error
from hush.server import problems, streams
from hush.server.api import number_in, whole
from hush.server.api import written as written_answer
from hush.server.errors import UnknownPlaceError
from hush.server.page.answers import shown
from hush.server.page.before import odds
from hush.server.page.frame import problem_of, quoted, show, text_of
from hush.server.people import Person
from hush.server.questions import ServedCurator
from hush.server.releases import FORMS, written
from hush.server.routes import Reached, Visitor
from hush.server.service import Service

KINDS: Mapping[str, tuple[str, str]] = {
    "marginals": ("Tables", "Every table of some columns at once, all in agreement, each cell with its ±."),
    "synth": ("Synthetic rows", "Rows of people who never were, much like those in the data, with a certificate."),
    "ranges": ("Ranges", "Every interval, the distribution and all quantiles of one column."),
    "fit": ("Model", "A regression, classification or clustering that tells on nobody."),
    "stream": ("Stream", "A count or sum for each day that keeps coming, paid once for its whole life."),
}
_WORDS = {"MARGINALS": "marginals", "SYNTHETIC": "synth", "RANGES:": "ranges", "FIT": "fit", "STREAM": "stream"}
"""How the questions of whole releases begin in the ledger."""
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "marginals": ("degree",),
    "synth": (),
    "ranges": (),
    "fit": ("target", "model"),
    "stream": ("horizon", "name"),
}
_MOST_LISTED = 1000
_PREVIEW = 12
_TABLES_SHOWN = 4


def kind_of(question: str) -> str:
    """Return which kind of whole release a question of the ledger is; nothing for another question."""
    return _WORDS.get(question.split(" ", 1)[0], "")


async def releases_page(request: Request, service: Service, who: Person) -> Response:
    """Show what can be released, what it would cost, and what was released."""
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
    chosen = next((item for item in schema if item["name"] == data), schema[0] if schema else None)
    given = {name: text_of(values, name, 200).strip() for name in ("epsilon", *_FIELDS[kind])}
    question = text_of(values, "q", 50_000)
    told = None
    if question.strip() and given["epsilon"]:
        try:
            told = await _explained(service, who, kind, question, given, data)
        except HushError as refusal:
            error = error or refusal
    defaults = {"degree": "2", "model": "regression", "horizon": "1 year", "epsilon": "0.5"}
    return await show(
        request,
        service,
        who,
        "releases.html",
        200 if error is None else problems.status(error),
        data="" if chosen is None else chosen["name"],
        kinds=KINDS,
        kind=kind,
        question=question or _example(chosen, kind),
        given={name: value or defaults.get(name, "") for name, value in given.items()},
        models=list(MODELS),
        explained=told,
        problem=None if error is None else problem_of(error),
        made=await _listed(service, who),
        streams=await streams.listed(service, who),
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
        said = await service.explain_stream(who, terms)
        errors = [(f"each {name}", f"± {_rounded(str(error))}") for name, error in said["errors"].items()]
        head = f"{said['periods']:,} periods for ε {said['price']['epsilon']}"
        return {"head": head, "rows": errors, "notes": said["caveats"], "odds": odds(given["epsilon"])}
    explanation = await service.explain_release(who, kind, terms)
    head, *lines = str(explanation).splitlines()
    caveats = {f"  note: {caveat}" for caveat in explanation.caveats}
    pairs = [line.strip().partition(": ") for line in lines if line not in caveats]
    rows = [(visible(name), _rounded(value)) if value else ("", _rounded(name)) for name, _, value in pairs]
    notes = [visible(caveat) for caveat in explanation.caveats]
    return {"head": visible(head), "rows": rows, "notes": notes, "odds": odds(given["epsilon"])}


def _rounded(text: str) -> str:
    """Return a text whose numbers are no finer than an error needs: three digits."""
    return re.sub(r"\d+\.\d+", lambda found: shown_error(float(f"{float(found[0]):.3g}")), visible(text))


async def _listed(service: Service, who: Person) -> list[dict[str, Any]]:
    """Return one's releases, newest first."""
    return [
        {
            "number": made["number"],
            "when": made["when"][:16].replace("T", " "),
            "kind": KINDS[kind][0],
            "question": visible(made["question"], lines=True),
            "outcome": made["outcome"],
        }
        for made in await service.history(who, _MOST_LISTED)
        if (kind := kind_of(made["question"])) and kind != "stream"
    ]


async def explain(request: Request, _: Service, __: Person) -> Response:
    """Lead to the address at which a release is explained."""
    form = await request.form()
    names = {"kind": 20, "q": 50_000, "data": 200, "epsilon": 60, "degree": 20, "target": 200, "model": 60}
    names |= {"horizon": 100, "name": 64}
    query = {name: text for name, most in names.items() if (text := text_of(form, name, most))}
    return RedirectResponse(f"/releases?{urlencode(query)}", 303)


async def make(request: Request, service: Service, who: Person) -> Response:
    """Make a release, and lead to it."""
    form = await request.form()
    kind, question = text_of(form, "kind", 20), text_of(form, "q", 50_000)
    if kind not in KINDS:
        raise UnknownPlaceError
    given = {name: text_of(form, name, 200).strip() for name in ("epsilon", *_FIELDS[kind])}
    name = text_of(form, "request", 200) or uuid.uuid4().hex
    try:
        terms = _terms(kind, question, given, text_of(form, "data", 200))
        if kind == "stream":
            title = given["name"]
            await service.at_work(
                who, name, lambda curator, request: curator.stream.create(name=title, request=request, **terms).name
            )
            return RedirectResponse(f"/streams/{quote(title, safe='')}", 303)
        terms |= {"fresh": True} if "fresh" in form else {}
        made, _ = await service.release(who, kind, terms, request=name)
    except HushError as error:
        return await _releasing(request, service, who, form, error=error)
    before = (await service.receipt(who, int(made.receipt)))["request"] != name
    return RedirectResponse(f"/releases/{made.receipt}{'?again=1' if before else ''}", 303)


async def release_page(request: Request, service: Service, who: Person) -> Response:
    """Show a release again, or give it out as a file."""
    name, _, ending = str(request.path_params["number"]).partition(".")
    request.path_params["number"] = name
    number = number_in(request)
    made = await service.released(who, number)
    if ending:
        if ending not in FORMS or ending == "stored":
            raise UnknownPlaceError
        query = request.query_params
        options = {part: whole(text, part) for part in ("table", "rows", "seed") if (text := query.get(part))}
        response = await asyncio.to_thread(written, made, ending, **options)
        if ending == "json":
            response.headers["content-disposition"] = f'attachment; filename="release-{name}.json"'
        return response
    release = await service.receipt(who, number)
    drawn = await asyncio.to_thread(_drawn, made)
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


def _drawn(made: Any) -> dict[str, Any]:
    """Return a release as its template draws it."""
    drawn: dict[str, Any] = {"tables": [], "answers": [], "rows": [], "columns": [], "facts": [], "text": ""}
    drawn |= {"notes": [], "question": "", "headline": "", "kind": "model"}
    if isinstance(made, MarginalRelease):
        names = list(dict.fromkeys(name for columns in made.tables for name in columns))
        tables = [
            (number, " × ".join(map(visible, columns)), f"{made.coding.domain.cells(columns):,}", _error(made, columns))
            for number, columns in enumerate(made.tables, start=1)
        ]
        answers = [(visible(name), {**shown(made[name]), "notes": []}) for name in names[:_TABLES_SHOWN]]
        drawn |= {"kind": "marginals", "tables": tables, "answers": answers, "headline": _rounded(str(made))}
    elif isinstance(made, SyntheticRelease):
        preview = made.table.slice(0, _PREVIEW)
        rows = [["" if cell is None else visible(str(cell)) for cell in row.values()] for row in preview.to_pylist()]
        drawn |= {"kind": "synthetic", "rows": rows, "columns": [visible(name) for name in preview.column_names]}
        drawn |= {"headline": str(made), "facts": _certificate(made)}
    elif isinstance(made, RangeRelease):
        answers = [(visible(made.column.name), {**shown(made.histogram()), "notes": []})]
        facts = [
            (f"{100 * found['part']:g} % lie below", f"{found['value']} ({found['low']} – {found['high']})")
            for found in made.quantiles()
        ]
        drawn |= {"kind": "ranges", "answers": answers, "facts": facts, "headline": f"All ranges at {made.price}"}
    else:
        text = str(made.summary()) if hasattr(made, "summary") else made.explain()
        return {**drawn, "text": visible(text, lines=True), "headline": f"{type(made).__name__} at {made.price}"}
    return {**drawn, "notes": [visible(caveat) for caveat in made.caveats], "question": visible(made.question)}


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


async def stream_page(request: Request, service: Service, who: Person) -> Response:
    """Show a stream, or give out what it has released."""
    return await _stream(request, service, who)


async def _stream(request: Request, service: Service, who: Person, error: HushError | None = None) -> Response:
    name, ending = request.path_params["name"], request.path_params.get("ending", "")

    def look(curator: ServedCurator) -> tuple[dict[str, Any], Answer]:
        stream = streams.found(curator, name)
        return streams.shown(stream), stream.answer

    told, answer = await service.with_curator(who, look)
    if ending:
        if ending not in {"csv", "json"}:
            raise UnknownPlaceError
        response = written_answer(answer, ending)
        response.headers["content-disposition"] = f'attachment; filename="stream.{ending}"'
        return response
    return await show(
        request,
        service,
        who,
        "stream.html",
        200 if error is None else problems.status(error),
        stream={**told, "question": visible(told["question"], lines=True), "address": quote(name, safe="")},
        answer=shown(answer) if len(answer) else None,
        request_id=uuid.uuid4().hex,
        problem=None if error is None else problem_of(error),
    )


async def change_stream(request: Request, service: Service, who: Person) -> Response:
    """Release the periods that are over, or end a stream."""
    form, name = await request.form(), request.path_params["name"]
    through: str | int | None = text_of(form, "through", 40).strip() or None
    if isinstance(through, str) and through.isascii() and through.isdigit():
        through = int(through)

    def advance(curator: ServedCurator, _: str) -> None:
        streams.found(curator, name).advance(through)

    try:
        if form.get("act") == "end":
            await service.with_curator(who, lambda curator: streams.found(curator, name).end())
        else:
            await service.at_work(who, text_of(form, "request", 200) or None, advance)
    except UnknownPlaceError:
        raise
    except HushError as error:
        return await _stream(request, service, who, error)
    return RedirectResponse(f"/streams/{quote(name, safe='')}", 303)


def _example(schema: dict[str, Any] | None, kind: str) -> str:
    """Return SQL that this kind of release can begin with."""
    for table in [] if schema is None else schema["tables"]:
        if table["public"]:
            continue
        name, columns = quoted(table["name"]), table["columns"]
        listed = [quoted(column["name"]) for column in columns if column.get("values")]
        numbers = [
            quoted(column["name"])
            for column in columns
            if column["type"] in {"integer", "decimal"} and column.get("lower") is not None
        ]
        days = [quoted(column["name"]) for column in columns if column["type"] in {"date", "timestamp"}]
        if kind == "stream":
            return f"SELECT {days[0]}, COUNT(*) AS n\nFROM {name}\nGROUP BY {days[0]}" if days else ""
        chosen = numbers[:1] if kind == "ranges" else [*numbers, *listed][:4]
        return f"SELECT {', '.join(chosen)}\nFROM {name}" if chosen else ""
    return ""


def table() -> list[Reached]:
    """Return these pages' part of the table of routes."""
    places: list[tuple[str, str, Any, str]] = [
        ("GET", "/releases", releases_page, "read"),
        ("POST", "/releases/explain", explain, "read"),
        ("POST", "/releases", make, "ask"),
        ("GET", "/releases/{number}", release_page, "read"),
        ("GET", "/streams/{name}", stream_page, "read"),
        ("GET", "/streams/{name}/all.{ending}", stream_page, "read"),
        ("POST", "/streams/{name}", change_stream, "ask"),
    ]
    return [
        Reached(method=method, path=path, handler=handler, visitor=Visitor.ANALYST, scope=scope, page=True)
        for method, path, handler, scope in places
    ]
