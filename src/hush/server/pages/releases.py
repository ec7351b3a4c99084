"""Releases: tables, synthetic rows, ranges, models and streams on the page, each explained before it is paid for.

``GET /releases?kind=…&q=…`` explains and never spends; ``POST /releases`` makes the release and leads to its own
address, where it can be taken away as a file. A request id in the form makes a second click bring the same release for
nothing.

A fitted model has coefficients with intervals, curves of effects, and a form that predicts. They follow from the
released numbers, so that looking at it and predicting cost nothing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from hush.core import HushError, InvalidValueError
from hush.core.format import figure
from hush.curator.catalogue import quoted
from hush.curator.count_release import MarginalRelease, RangeRelease
from hush.curator.model_release import MODELS
from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease
from hush.learn.linear import LinearModel
from hush.learn.model import Classifier
from hush.learn.regression import AdditiveModel
from hush.learn.schema import ModelColumn
from hush.server.api import attached, number_in, number_of, whole
from hush.server.errors import UnknownPlaceError
from hush.server.pages.answers import UNNOTED, kind_of, shown
from hush.server.pages.ask import led_to, odds
from hush.server.pages.layout import data_set_named, problem_of, rounded, show
from hush.server.pages.tables import NUMBERS, TIMES
from hush.server.rate_limits import Rate
from hush.server.releases import FORMS, file_options, written
from hush.server.routes import ANALYST, Routes, Visit

ROUTES = Routes()
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
_DEFAULTS = {"degree": "2", "model": "regression", "horizon": "1 year", "epsilon": "0.5"}
_MOST_LISTED = 1000
_PREVIEW = 12
_PREFIX = "in "
"""How the fields of a prediction begin: a column may be called as one of the page's own fields."""


@ROUTES.page("GET /releases", ANALYST)
async def releases_page(visit: Visit, *, error: HushError | None = None) -> Response:
    """Show the form for a release, its price and error, and the releases made before."""
    form = await visit.fields()
    kind = form["kind"] if form["kind"] in KINDS else "marginals"
    question, data = form["q"], form["data"]
    data_set = await data_set_named(visit, data)
    fields = {name: form[name].strip() for name in ("epsilon", *_FIELDS[kind])}
    explanation = None
    if question.strip() and fields["epsilon"]:
        try:
            explanation = await _explained(visit, kind, _terms(kind, question, fields, data))
        except HushError as refusal:
            error = error or refusal
    made = [
        (KINDS[made_kind][0], release)
        for release in await visit.history(_MOST_LISTED)
        if (made_kind := kind_of(release["question"])) in KINDS and made_kind != "stream"
    ]
    return await show(
        visit,
        "releases.html",
        error=error,
        data="" if data_set is None else data_set["name"],
        kinds=KINDS,
        kind=kind,
        question=question or _example(data_set, kind),
        given={name: value or _DEFAULTS.get(name, "") for name, value in fields.items()},
        models=list(MODELS),
        explained=explanation,
        made=made,
    )


def _terms(kind: str, question: str, given: Mapping[str, str], data: str) -> dict[str, Any]:
    terms: dict[str, Any] = {"epsilon": given["epsilon"] or None, **({"data": data} if data else {})}
    if kind == "marginals":
        return {**terms, "table": question, "degree": whole(given["degree"] or "2", "degree")}
    terms["question"] = question
    if kind == "fit":
        terms |= {"model": given["model"] or "regression", **({"target": given["target"]} if given["target"] else {})}
    if kind == "stream":
        terms["horizon"] = given["horizon"]
    return terms


async def _explained(visit: Visit, kind: str, terms: dict[str, Any]) -> dict[str, Any]:
    if kind == "stream":
        explained = await visit.for_nothing(Rate.EXPLANATIONS, lambda curator: curator.stream.explain(**terms))
        rows = [(f"each {name}", f"± {rounded(error)}") for name, error in explained["errors"].items()]
        head = f"{explained['periods']:,} periods for ε {explained['price']['epsilon']}"
        return {"head": head, "rows": rows, "notes": explained["caveats"], "odds": odds(terms["epsilon"])}
    explanation = await visit.explain_release(kind, terms)
    price, *facts = explanation.facts
    rows = [(fact.label, fact.told(rounded)) for fact in facts]
    if (outlook := explanation.outlook) is not None:
        rows.append(("budget", str(outlook)))
    return {"head": price.told(), "rows": rows, "notes": explanation.caveats, "odds": odds(terms["epsilon"])}


@ROUTES.page("POST /releases/explain", ANALYST)
async def explain(visit: Visit) -> Response:
    """Lead to the address at which a release is explained."""
    return await led_to("/releases", visit, "kind q data epsilon degree target model horizon name")


@ROUTES.page("POST /releases", ANALYST, "ask", refused=releases_page)
async def make(visit: Visit) -> Response:
    """Make a release, and lead to it."""
    form = await visit.fields()
    kind = form["kind"]
    if kind not in KINDS:
        raise UnknownPlaceError
    fields = {name: form[name].strip() for name in ("epsilon", *_FIELDS[kind])}
    request = form["request"] or uuid.uuid4().hex
    terms = _terms(kind, form["q"], fields, form["data"])
    if kind == "stream":
        terms["name"] = fields["name"]
        await visit.at_work(request, lambda curator, request: curator.stream.create(request=request, **terms).name)
        return RedirectResponse(f"/streams/{quote(fields['name'], safe='')}", 303)
    terms |= {"fresh": True} if "fresh" in form else {}
    release, *_ = await visit.release(kind, terms, request=request)
    before = (await visit.receipt(int(release.receipt)))["request"] != request
    return RedirectResponse(f"/releases/{release.receipt}{'?again=1' if before else ''}", 303)


@ROUTES.page("GET /releases/{number}", ANALYST)
async def release_page(visit: Visit) -> Response:
    """Show a release again, or give it out as a file."""
    visit.path["number"], _, ending = str(visit.path["number"]).partition(".")
    number = number_in(visit)
    made = await visit.released(number)
    if ending:
        if ending not in FORMS or ending == "stored":
            raise UnknownPlaceError
        response = await asyncio.to_thread(written, made, ending, **file_options(visit))
        return attached(response, f"release-{number}.json") if ending == "json" else response
    release = await visit.receipt(number)
    values = await asyncio.to_thread(_drawn, made, visit.request.url.path, visit.query)
    again = "again" in visit.query
    return await show(
        visit, "release.html", data=release["data"], receipt=release, number=number, again=again, **values
    )


def _drawn(made: Any, address: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return a release as its template draws it; of several tables the one that the query names by its number."""
    made = made.parents if isinstance(made, FamilyRelease) else made
    values: dict[str, Any] = {"made": made, "answers": [], "rows": [], "facts": [], "model": None, "table": 0}
    if isinstance(made, MarginalRelease):
        table = number_of(query.get("table", "")) or 1
        table = table if table <= len(made.tables) else 1
        columns = made.tables[table - 1]
        answer = shown(made[columns], address, query, {"table": str(table)})
        values |= {"table": table, "answers": [(" × ".join(columns), {**answer, **UNNOTED})]}
        return {**values, "kind": "marginals", "headline": made.largest_error().told(rounded)}
    if isinstance(made, SyntheticRelease):
        values["rows"] = made.table.slice(0, _PREVIEW).to_pylist()
        return {**values, "kind": "synthetic", "headline": str(made)}
    if isinstance(made, RangeRelease):
        values["answers"] = [(made.column.name, {**shown(made.histogram(), address, query), **UNNOTED})]
        values["facts"] = [
            (f"{100 * quantile['part']:g} % lie below", f"{quantile['value']} ({quantile['low']} – {quantile['high']})")
            for quantile in made.quantiles()
        ]
        return {**values, "kind": "ranges", "headline": f"All ranges at {made.price}"}
    values["model"] = _drawn_model(made, query)
    return {**values, "kind": "model", "headline": f"{type(made).__name__} at {made.price}"}


def _example(data_set: dict[str, Any] | None, kind: str) -> str:
    """Return SQL that this kind of release can begin with, about the first private table."""
    tables = [table for table in data_set["tables"] if not table["public"]] if data_set else []
    if not tables:
        return ""
    name, columns = quoted(tables[0]["name"]), tables[0]["columns"]
    if kind == "stream":
        days = [quoted(column["name"]) for column in columns if column["type"] in TIMES]
        return f"SELECT {days[0]}, COUNT(*) AS n\nFROM {name}\nGROUP BY {days[0]}" if days else ""
    bounded = [column for column in columns if column["type"] in NUMBERS and column["lower"] is not None]
    listed = [column for column in columns if column.get("values")]
    outputs = [quoted(column["name"]) for column in (bounded[:1] if kind == "ranges" else [*bounded, *listed][:4])]
    return f"SELECT {', '.join(outputs)}\nFROM {name}" if outputs else ""


# a fitted model


def _drawn_model(model: Any, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the parts of a model beside its explanation, with the prediction that the query asks for.

    An additive model has a curve for each column; of several classes, those of the one that the query names are drawn.
    """
    columns = model._schema().columns if hasattr(model, "predict") else ()  # noqa: SLF001 - of one family
    fields = [(column, query.get(_PREFIX + column.name, "")[:100]) for column in columns]
    prediction, problem = "", None
    if any(name.startswith(_PREFIX) for name in query):
        try:
            prediction = _predicted(model, fields)
        except HushError as error:
            problem = problem_of(error)
    additive = isinstance(model, AdditiveModel)
    several = additive and len(model.intercept_) > 1 and isinstance(model, Classifier)
    classes = [str(name) for name in model.classes_] if several else []
    fit = classes.index(query.get("class", "")) if query.get("class") in classes else 0
    return {
        "coefficients": model.summary().coefficients if isinstance(model, LinearModel) else [],
        "curves": [model.shape(column.name, fit=fit).chart().page() for column in columns] if additive else [],
        "classes": classes,
        "chosen": classes[fit] if classes else "",
        "fields": fields,
        "prediction": prediction,
        "problem": problem,
    }


def _predicted(model: Any, fields: Sequence[tuple[ModelColumn, str]]) -> str:
    """Return the prediction for one made-up row, with values as written in a form; an empty one is missing."""
    row = {column.name: [_value(column, text.strip())] for column, text in fields}
    if isinstance(model, Classifier):
        chances = getattr(model, "predict_proba")(row)[0]  # noqa: B009 - every classifier has it
        return ", ".join(f"{name}: {100 * chance:.3g} %" for name, chance in zip(model.classes_, chances, strict=True))
    return figure(float(model.predict(row)[0]), digits=5)


def _value(column: ModelColumn, text: str) -> Any:
    """Return a field's text as a value of a column; None, which is a missing value, for an empty one."""
    if not text:
        return None
    if column.values is not None:
        match = next((value for value in column.values if str(value) == text), None)
        if match is None:
            allowed = f"one of {', '.join(map(str, column.values[:20]))}"
            raise InvalidValueError(column.name, got=text, allowed=allowed)
        return match
    try:
        if column.unit:
            return dt.date.fromisoformat(text) if column.unit == "D" else dt.datetime.fromisoformat(text)
        return float(text)
    except ValueError:
        allowed = "a date such as 2025-01-31" if column.unit else "a number"
        raise InvalidValueError(column.name, got=text, allowed=allowed) from None
