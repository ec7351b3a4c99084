"""Dashboards: answers that an analyst pins to a page, refreshes as one plan, and may share.

A dashboard belongs to one analyst and one data set, and lies in the service's own tables. Its tiles are questions with
their ε; a tile shows the answer that was pinned, and after a refresh the refreshed one. A refresh is one charge
(`hush.curator.together`): all of it is affordable, or nothing is begun.

**Who may see one.** Its maker, as long as the policy names them for the data set. And its readers: analysts of the data
set whom the maker names, or all of them, where the owner lets analysts have each other's answers (``share = true``).
As with every shared answer a reader pays its price from their own account, once for each refresh: that account bounds
what *they* learn. Up to then they see the questions and the price. For everybody else there is no such dashboard.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hush.core import InvalidValueError
from hush.core.format import decimal
from hush.curator import together
from hush.curator.curator import Curator
from hush.curator.terms import QuestionTerms
from hush.ledger import Actor, Release, RequestConflictError
from hush.policy.streams import unknown_reader
from hush.query.parameters import from_wire
from hush.query.question import fingerprint
from hush.server.errors import ForbiddenError, UnknownPlaceError
from hush.server.routes import Visit
from hush.server.service import OpenPolicy
from hush.storage import Storage

MOST = 50
"""How many dashboards one analyst can have."""
_LONGEST_TITLE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A question on a dashboard, with its ε, and the receipt of the answer that was pinned."""

    question: str
    epsilon: str
    receipt: int
    index: int | None = None
    """Its place in the last refresh; None if it was pinned later."""
    identity: str = field(default_factory=lambda: uuid.uuid4().hex)
    terms: Mapping[str, Any] = field(default_factory=dict)
    """The terms of the pinned answer, as JSON values; ``question`` is how the ledger wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page of tiles."""

    identity: str
    maker: str
    title: str
    data: str
    tiles: tuple[Tile, ...] = ()
    readers: tuple[str, ...] | str = ()
    """Names, or ``"analysts"`` for all analysts of the data set."""
    refreshed: str = ""
    """The fingerprint of the last refresh; empty before the first."""
    paid: dict[str, int] = field(default_factory=dict)
    """The receipts of those who have paid for the last refresh."""

    @property
    def text(self) -> str:
        """The dashboard's questions as the ledger records them."""
        questions = "\n".join(tile.question for tile in self.tiles)
        return f"DASHBOARD {self.title!r}, {len(self.tiles)} questions in one plan:\n{questions}"

    def terms(self) -> list[QuestionTerms]:
        """Return the questions of all tiles on the terms of the pinned answers."""
        asked = [{"question": tile.question, "epsilon": tile.epsilon, **tile.terms} for tile in self.tiles]
        return [
            QuestionTerms(**{**terms, "parameters": from_wire(terms.get("parameters", ())), "data": self.data})
            for terms in asked
        ]

    def paid_as(self, name: str) -> str:
        """Return the fingerprint under which somebody pays: the maker for the next refresh, a reader for the last.

        Each refresh has another one. It stays until the refresh is made, so that the owner can approve it meanwhile.
        """
        if name != self.maker:
            return self.refreshed
        tiles = [(tile.epsilon, tile.terms) for tile in self.tiles]
        return fingerprint("dashboard", self.identity, self.maker, self.refreshed, self.text, tiles)


class DashboardStore:
    """The dashboards of a service, in the tables beside its people."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def all(self) -> list[Dashboard]:
        """Return all dashboards, by title."""
        rows = self._storage.rows("SELECT id, person, content FROM hush_dashboards")
        return sorted((_read(row) for row in rows), key=lambda dashboard: (dashboard.title, dashboard.identity))

    def add(self, dashboard: Dashboard) -> None:
        """Add a dashboard."""
        with self._storage.changing():
            owned = self._storage.rows("SELECT id FROM hush_dashboards WHERE person = ?", dashboard.maker)
            if len(owned) >= MOST:
                raise InvalidValueError("dashboards", got=len(owned) + 1, allowed=f"at most {MOST} of one analyst")
            into = "INSERT INTO hush_dashboards (id, person, content) VALUES (?, ?, ?)"
            self._storage.change(into, dashboard.identity, dashboard.maker, _written(dashboard))

    def change(self, identity: str, change: Callable[[Dashboard], Dashboard]) -> None:
        """Replace a dashboard by a function of it, under the lock."""
        with self._storage.changing():
            rows = self._storage.rows("SELECT id, person, content FROM hush_dashboards WHERE id = ?", identity)
            if rows:
                content = _written(change(_read(rows[0])))
                self._storage.change("UPDATE hush_dashboards SET content = ? WHERE id = ?", content, identity)

    def remove(self, identity: str) -> None:
        """Remove a dashboard; its receipts stay."""
        self._storage.change("DELETE FROM hush_dashboards WHERE id = ?", identity)


def _written(dashboard: Dashboard) -> str:
    content = asdict(dashboard)
    return json.dumps({name: value for name, value in content.items() if name not in {"identity", "maker"}})


def _read(row: tuple[Any, ...]) -> Dashboard:
    content = json.loads(row[2])
    content["tiles"] = tuple(Tile(**tile) for tile in content["tiles"])
    content["readers"] = content["readers"] if isinstance(content["readers"], str) else tuple(content["readers"])
    return Dashboard(identity=row[0], maker=row[1], **content)


def store(visit: Visit) -> DashboardStore:
    """Return the dashboards of the service that is visited."""
    return DashboardStore(visit.people.storage)


# who may see


async def listed(visit: Visit) -> list[Dashboard]:
    """Return the dashboards that somebody may see under the policy in force, for them and their makers; own first."""
    dashboards = sorted(store(visit).all(), key=lambda dashboard: dashboard.maker != visit.name)

    def look(opened: OpenPolicy) -> list[Dashboard]:
        analysts = opened.policy.analysts

        def may_see(dashboard: Dashboard) -> bool:
            of_data = {name for name, analyst in analysts.items() if dashboard.data in analyst.data}
            if not {visit.name, dashboard.maker} <= of_data:
                return False
            named = dashboard.readers == "analysts" or visit.name in dashboard.readers
            return dashboard.maker == visit.name or (named and opened.data_sets[dashboard.data].share)

        return [dashboard for dashboard in dashboards if may_see(dashboard)]

    return await visit.with_policy(look)


async def opened_by(visit: Visit, identity: str) -> Dashboard:
    """Return a dashboard; one that somebody may not see is not there."""
    for dashboard in await listed(visit):
        if dashboard.identity == identity:
            return dashboard
    raise UnknownPlaceError


async def owned(visit: Visit, identity: str) -> Dashboard:
    """Return a dashboard of somebody's own; a reader may not change it."""
    dashboard = await opened_by(visit, identity)
    if dashboard.maker != visit.name:
        raise ForbiddenError("Only its maker changes a dashboard; pin what you need to one of your own.")
    return dashboard


# tiles


async def made(visit: Visit, title: str, data: str) -> Dashboard:
    """Make an empty dashboard about a data set."""
    title = title.strip()
    if not 0 < len(title) <= _LONGEST_TITLE:
        raise InvalidValueError("title", got=title, allowed=f"1 to {_LONGEST_TITLE} characters")
    names = [data_set["name"] for data_set in await visit.data_sets()]
    if data not in names:
        raise InvalidValueError("data", got=data, allowed=f"one of {', '.join(names)}")
    dashboard = Dashboard(identity=uuid.uuid4().hex, maker=visit.name, title=title, data=data)
    store(visit).add(dashboard)
    return dashboard


async def pin(visit: Visit, dashboard: Dashboard, receipt: int) -> None:
    """Pin an answer of somebody's own to their dashboard."""
    charged, answer = await visit.receipt(receipt), await visit.answer(receipt)
    if charged["data"] != dashboard.data:
        raise InvalidValueError("receipt", got=receipt, allowed=f"an answer about {dashboard.data}")
    if answer.terms is None:
        allowed, hint = "an answer with which its terms are recorded", "Ask the question afresh, and pin that answer."
        raise InvalidValueError("receipt", got=receipt, allowed=allowed, hint=hint)
    epsilon = decimal(answer.price.epsilon)
    tile = Tile(question=charged["question"], epsilon=epsilon, receipt=receipt, terms=answer.terms)

    def add(current: Dashboard) -> Dashboard:
        if len(current.tiles) >= together.MOST:
            raise InvalidValueError("tiles", got=len(current.tiles) + 1, allowed=f"at most {together.MOST}")
        return replace(current, tiles=(*current.tiles, tile))

    store(visit).change(dashboard.identity, add)


async def share_with(visit: Visit, dashboard: Dashboard, readers: tuple[str, ...] | str) -> None:
    """Name the readers of a dashboard; refuse where the owner does not let analysts have each other's answers."""

    def check(opened: OpenPolicy) -> None:
        if readers and not opened.data_sets[dashboard.data].share:
            raise ForbiddenError(
                f"The owner does not let analysts of {dashboard.data} have each other's answers; "
                "ask for share = true in the policy."
            )
        stranger = unknown_reader(readers, dashboard.data, opened.policy.analysts) if readers else None
        if stranger is not None:
            raise InvalidValueError("readers", got=stranger, allowed=f"analysts of {dashboard.data}")

    await visit.with_policy(check)
    store(visit).change(dashboard.identity, lambda current: replace(current, readers=readers))


# what is paid for


def last_refresh(curator: Curator, dashboard: Dashboard) -> Release:
    """Return the charge of the last refresh; refuse where it has no answers that can be shared."""
    if dashboard.maker not in dashboard.paid or not curator.data_sets[dashboard.data].share:
        raise ForbiddenError("This dashboard has no refreshed answers that can be shared.")
    paid, _ = curator.session.ledger.receipt(dashboard.paid[dashboard.maker], Actor.analyst(dashboard.maker))
    if paid.outcome != "answered":
        raise ForbiddenError("The last refresh of this dashboard has no answers.")
    return paid


def _check_priced(priced: str, present: str) -> None:
    """Refuse to charge another plan than the priced one."""
    if priced != present:
        raise RequestConflictError(
            "The dashboard has changed since its price was shown. Nothing was charged; look at the new price first."
        )


async def refresh(visit: Visit, dashboard: Dashboard, request: str, priced: str) -> None:
    """Ask all tiles anew in one charge, as the plan was priced; the same request again is free."""
    same = dashboard.paid_as(visit.name)
    places = {tile.identity: index for index, tile in enumerate(dashboard.tiles)}

    def ask(curator: Curator, name: str) -> None:
        session = curator.session
        planned = together.plan(session, dashboard.terms())
        _check_priced(priced, planned.identity)
        terms: dict[str, Any] = {"text": dashboard.text, "same": same, "request": name}
        released = together.ask(session, planned, limit=visit.settings.limit, **terms)
        _, charge = session.ledger.receipt(released.receipt, session.actor)

        def take(current: Dashboard) -> Dashboard:
            # an older request that was sent again leaves a newer refresh in place, with those who paid for it
            if charge.same_question != same or current.refreshed == same:
                return current
            tiles = tuple(replace(tile, index=places.get(tile.identity)) for tile in current.tiles)
            return replace(current, tiles=tiles, refreshed=same, paid={visit.name: released.receipt})

        store(visit).change(dashboard.identity, take)

    await visit.at_work(request, ask)


async def read(visit: Visit, dashboard: Dashboard, request: str, priced: str) -> None:
    """Pay for the last refresh as a reader, as it was priced, from their own account alone."""

    def ask(curator: Curator, name: str) -> int:
        paid = last_refresh(curator, dashboard)
        _check_priced(priced, dashboard.refreshed)
        return together.read(curator.session, paid, same=dashboard.refreshed, request=name).receipt

    receipt = await visit.at_work(request, ask)

    def note(current: Dashboard) -> Dashboard:
        if current.refreshed != dashboard.refreshed:  # refreshed meanwhile: the receipt shows what was paid for
            return current
        return replace(current, paid={**current.paid, visit.name: receipt})

    store(visit).change(dashboard.identity, note)
