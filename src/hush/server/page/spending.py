"""What was spent and what is left: Budget, History and the receipt of one charge."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.core.format import figure, visible
from hush.query.types import Kind
from hush.report import files
from hush.report.columns import AnswerColumn
from hush.server.api import number_in
from hush.server.page.frame import bar, show
from hush.server.page.releasing import kind_of
from hush.server.people import Person
from hush.server.questions import ServedCurator
from hush.server.routes import Reached, Visitor
from hush.server.service import Service

_COUNTS = ((10, "0.95"), (50, "0.95"), (200, "0.95"))
_MOST = 1000
_COLUMNS = ("number", "when", "data", "question", "epsilon", "share", "outcome")


async def budget_page(request: Request, service: Service, who: Person) -> Response:
    """Show what is left, what spent it, and how many more of what fit."""

    def look(curator: ServedCurator) -> list[dict[str, Any]]:
        return [
            {
                "data": view.data,
                "own": view.analyst == who.name,
                "bar": bar(view),
                "delta": figure(view.delta) if view.delta else "",
                "key_delta": figure(view.remaining.delta) if view.delta else "",
                "share": f"{100 * float(view.remaining.share):.3g} %",
                "counts": [(width, view.counts(error=width, confidence=sure)) for width, sure in _COUNTS],
                "set_aside": f"{100 * float(view.set_aside):.3g} %" if view.set_aside else "",
                "pending": view.pending,
            }
            for view in curator.budget()
        ]

    accounts = await service.with_curator(who, look)
    releases = [_release(made) for made in await service.history(who, _MOST)]
    dearest = sorted(releases, key=lambda made: -made["part"])[:10]
    return await show(request, service, who, "budget.html", accounts=accounts, dearest=dearest)


async def history_page(request: Request, service: Service, who: Person) -> Response:
    """Show what was asked, newest first, as a page, JSON or CSV."""
    releases = await service.history(who, _MOST)
    ending = request.path_params.get("ending", "")
    if ending == "json":
        return JSONResponse({"releases": releases})
    shown = [_release(made) for made in releases]
    if ending == "csv":
        columns = [
            AnswerColumn(name=name, kind=Kind.TEXT, values=tuple(str(made[name]) for made in shown))
            for name in _COLUMNS
        ]
        headers = {"content-disposition": 'attachment; filename="history.csv"'}
        return Response(files.to_csv(columns), media_type="text/csv", headers=headers)
    return await show(request, service, who, "history.html", releases=shown)


async def receipt_page(request: Request, service: Service, who: Person) -> Response:
    """Show one charge: what was asked, what it released, its price and its place in the ledger."""
    found = await service.receipt(who, number_in(request))
    release = _release(found) | {"hash": found["hash"], "events": found["events"], "request": found["request"]}
    return await show(request, service, who, "receipt.html", data=found["data"], release=release, price=_prices(found))


def _release(made: dict[str, Any]) -> dict[str, Any]:
    price = made["price"][0] if made["price"] else {}
    epsilon = price.get("epsilon") or price.get("loss") or "0"
    return {
        "number": made["number"],
        "when": made["when"][:16].replace("T", " "),
        "data": visible(made["data"]),
        "analyst": visible(made["analyst"]),
        "question": visible(made["question"], lines=True),
        "epsilon": _figure(epsilon),
        "share": f"{100 * made['share']:.2g} %",
        "part": made["share"],
        "outcome": made["outcome"],
        "kind": kind_of(made["question"]),
        "reason": made["reason"] or "",
    }


def _prices(made: dict[str, Any]) -> list[dict[str, str]]:
    """Return the price in each account: in ε and δ, and as the loss in the account's own currency."""
    names = ["everybody's budget", f"{visible(made['analyst'])}'s budget"]
    return [
        {"whose": name, **{part: _figure(price.get(part)) for part in ("epsilon", "delta", "loss")}}
        for name, price in zip(names, made["price"], strict=False)
    ]


def _figure(amount: str | None) -> str:
    if amount in {None, "infinite"}:
        return "–"
    return figure(Fraction(str(amount)))


def table() -> list[Reached]:
    """Return these pages' part of the table of routes."""
    places: list[tuple[str, Any]] = [
        ("/budget", budget_page),
        ("/history", history_page),
        ("/history.{ending}", history_page),
        ("/receipts/{number}", receipt_page),
    ]
    return [
        Reached(method="GET", path=path, handler=handler, visitor=Visitor.ANALYST, page=True)
        for path, handler in places
    ]
