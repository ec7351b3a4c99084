"""The pages Budget, History and Receipt: spent and remaining budget."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.core import exact
from hush.core.format import figure, percent, visible
from hush.curator.curator import Curator
from hush.query.types import Kind
from hush.report import files
from hush.report.columns import AnswerColumn
from hush.server.api import number_in
from hush.server.auth.people import Person
from hush.server.pages.answers import kind_of
from hush.server.pages.layout import bar, show
from hush.server.routes import Permission, Route, page_route
from hush.server.service import Service

_COUNTS = ((10, "0.95"), (50, "0.95"), (200, "0.95"))
_MOST = 1000
_COLUMNS = ("number", "when", "data", "question", "epsilon", "share", "of", "outcome")


async def budget_page(request: Request, service: Service, who: Person) -> Response:
    """Show the remaining budgets, the largest charges, and how many further counts fit."""

    def look(curator: Curator) -> list[dict[str, Any]]:
        return [
            {
                "data": view.data,
                "own": view.analyst == who.name,
                "bar": bar(view),
                "delta": figure(view.delta) if view.delta else "",
                "spent": percent(view.spent.share),
                "counts": [(width, view.counts(error=width, confidence=sure)) for width, sure in _COUNTS],
                "set_aside": percent(view.set_aside) if view.set_aside else "",
                "pending": view.pending,
            }
            for view in curator.budget()
        ]

    accounts = await service.with_curator(who, look)
    releases = [_release(release) for release in await service.history(who, _MOST)]
    dearest = sorted(releases, key=lambda made: -made["part"])[:10]
    return await show(request, service, who, "budget.html", accounts=accounts, dearest=dearest)


async def history_page(request: Request, service: Service, who: Person) -> Response:
    """Show the history of questions, newest first, as a page, JSON or CSV."""
    releases = await service.history(who, _MOST)
    ending = request.path_params.get("ending", "")
    if ending == "json":
        return JSONResponse({"releases": releases})
    rows = [_release(release) for release in releases]
    if ending == "csv":
        columns = [
            AnswerColumn(name=name, kind=Kind.TEXT, values=tuple(str(row[name]) for row in rows)) for name in _COLUMNS
        ]
        headers = {"content-disposition": 'attachment; filename="history.csv"'}
        return Response(files.to_csv(columns), media_type="text/csv", headers=headers)
    return await show(request, service, who, "history.html", releases=rows)


async def receipt_page(request: Request, service: Service, who: Person) -> Response:
    """Show one charge: its question, its events, its price and its place in the ledger."""
    receipt = await service.receipt(who, number_in(request))
    release = _release(receipt) | {"hash": receipt["hash"], "events": receipt["events"], "request": receipt["request"]}
    return await show(
        request, service, who, "receipt.html", data=receipt["data"], release=release, price=_prices(receipt)
    )


def _release(made: dict[str, Any]) -> dict[str, Any]:
    share = made["shares"].get(made["of"], {})
    return {
        "number": made["number"],
        "when": made["when"][:16].replace("T", " "),
        "data": visible(made["data"]),
        "analyst": visible(made["analyst"]),
        "question": visible(made["question"], lines=True),
        "epsilon": _figure(made["epsilon"]),
        "share": percent(share["took"], taken=True) if share else "nothing",
        "of": visible(made["of"]) + (f" of ε {figure(exact(share['epsilon'], 'epsilon'))}" if share else ""),
        "left": percent(share["left"]) if share else "",
        "part": share.get("took", 0.0),
        "outcome": made["outcome"],
        "kind": kind_of(made["question"]),
        "reason": made["reason"] or "",
    }


def _prices(made: dict[str, Any]) -> list[dict[str, str]]:
    """Return the price in each account: in ε and δ, and as the loss in the account's own currency."""
    names = ["everybody's budget", f"{visible(made['analyst'])}'s budget"]
    return [
        {"whose": name, **{unit: _figure(price.get(unit)) for unit in ("epsilon", "delta", "loss")}}
        for name, price in zip(names, made["price"], strict=False)
    ]


def _figure(amount: str | None) -> str:
    if amount in {None, "infinite"}:
        return "–"
    return figure(Fraction(str(amount)))


def table() -> list[Route]:
    """Return the routes of the Budget, History and Receipt pages."""
    analyst = Permission.ANALYST
    return [
        page_route("GET", "/budget", budget_page, analyst),
        page_route("GET", "/history", history_page, analyst),
        page_route("GET", "/history.{ending}", history_page, analyst),
        page_route("GET", "/receipts/{number}", receipt_page, analyst),
    ]
