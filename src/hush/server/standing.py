"""Standing questions over the network: who may read them, how owners declare them, and the worker that releases them.

Every worker looks every `LOOK` seconds whether a release is due. Which worker makes it is decided by the ledger's lock
(`hush.ledger.standing`). The release takes its turn and its slot as a question does: its outcome is recorded at a
public moment after its charge, and readers see it from then on.

Releases have addresses that stay: ``/standing/NAME/2026-11-16`` and ``/standing/NAME/latest``. Where the owner said
``readers = "public"`` nobody needs to sign in. What somebody may not read is not there for them: both read alike.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hush.core import HushError, InvalidValueError
from hush.core.values import dataclass
from hush.curator.answer import Answer
from hush.curator.publishing import Publisher, StandingExplanation, declare_all
from hush.curator.standing import StandingView, published, views
from hush.engines.errors import EngineError
from hush.ledger import Actor, Release, Reservation
from hush.ledger.schedules import Schedule
from hush.ledger.standing import StandingQuestion, UnknownStandingError
from hush.ledger.system import now
from hush.policy.standing import unknown_reader
from hush.server import bodies
from hush.server.api import ARROW, CSV, FORMAT, FORMS, STORED, chosen_form, place, written
from hush.server.errors import NoPolicyError, SignInError, UnknownPlaceError
from hush.server.opened import OpenPolicy
from hush.server.people import Person
from hush.server.questions import ServedCurator, check_rate, this_turn
from hush.server.routes import NOBODY, Reached, Visitor
from hush.server.service import Service
from hush.server.traffic import Rate

log = logging.getLogger("hush.server")
LOOK = 2.0
"""So often a worker looks whether a release is due, in seconds."""
AGAIN = 60.0
"""After so many seconds a declaration that was refused is tried again, and the next release after one that failed."""
_NOBODY = "standing\n"
"""Under which name releases wait for their turn: nobody can be called so."""


class ServedPublisher(ServedCurator, Publisher):
    """Declares and releases standing questions, and keeps to the slots of a service."""

    def reserved(self, reservation: Reservation) -> None:
        """Note when a release was charged: slots are counted from there."""
        turn = this_turn()
        if turn is not None:
            turn.charged(self, reservation)


class Scheduler:
    """Makes what is due, as long as a worker lives."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._told: dict[str, str] = {}
        self._refused: dict[str, float] = {}
        """When declarations of the policy were refused: they are tried again, but not at every look."""
        self._failed: dict[str, float] = {}
        """When releases failed: what else is due waits, because it would fail alike and be charged."""
        self._ending = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """Look no more, once what is being made is finished."""
        self._ending.set()
        if self._task is not None:
            await self._task

    async def _look(self) -> None:
        while not self._ending.is_set():
            try:
                await self.release_due()
            except HushError as error:
                self._tell("", error)
            except Exception as error:  # whatever it is, the next look may do better
                log.error("looking for standing questions failed: %s", type(error).__name__)  # noqa: TRY400 - no values
                log.debug("its trace", exc_info=error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), LOOK)

    async def release_due(self) -> int:
        """Declare what the policy names, make every release that is due, and return how many were made."""
        try:
            names, refused = await self._service.with_policy(self._due)
        except NoPolicyError:
            return 0
        for name, error in refused.items():
            self._tell(name, error)
        count = 0
        for name in names:
            try:
                while not self._ending.is_set():  # what is due and was not begun can wait for the next worker
                    made = await self._service.questions.run(_NOBODY, f"standing {name}", self._release(name))
                    if made is None:
                        break
                    count += 1
                    if made.state == "failed":
                        self._failed[name] = time.monotonic()
                        break
            except EngineError as error:  # it took longer than a question may
                self._failed[name] = time.monotonic()
                self._tell(name, error)
            except HushError as error:
                self._tell(name, error)
        return count

    def _due(self, opened: OpenPolicy) -> tuple[list[str], Mapping[str, HushError]]:
        """Return the standing questions of which something is due; declare those of the policy that are not yet."""
        if not opened.made:
            return [], {}
        publisher = ServedPublisher(opened.data_sets, opened.ledger)
        soon = time.monotonic() - AGAIN
        named = [asked for name, asked in opened.policy.standing.items() if self._refused.get(name, soon) <= soon]
        refused = declare_all(publisher, named)
        self._refused |= dict.fromkeys(refused, time.monotonic())
        publisher.plans.close_dead()
        clock = now()
        plans = publisher.plans.listed()
        names = [plan.question.name for plan in plans if plan.due(clock) is not None or plan.over(clock)]
        return [name for name in names if self._failed.get(name, soon) <= soon], refused

    def _release(self, name: str) -> Callable[[], Any]:
        def release() -> Any:
            with self._service.policy.use() as opened:
                return ServedPublisher(opened.data_sets, opened.ledger).release_due(name)

        return release

    def _tell(self, name: str, error: HushError) -> None:
        """Log a refusal, once as long as it stays the same."""
        if self._told.get(name) != str(error):
            self._told[name] = str(error)
            log.warning("standing question %s: %s", name or "-", error)


# what is read


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRelease:
    """One release, as somebody may read it."""

    view: StandingView
    period: str
    answer: Answer
    receipt: Release
    hash: str
    """Of its charge in the ledger's chain."""


def reader_of(request: Request, service: Service, who: Person) -> str | None:
    """Return as whom somebody reads; None for nobody in particular, who may come only so often."""
    if who is NOBODY:
        check_rate(service.traffic, Rate.VISITS, request.client.host if request.client else "")
    return who.name if "read" in who.scopes else None


def _data_of(opened: OpenPolicy, who: Person) -> dict[str, tuple[str, ...]] | None:
    """Return the data sets of each analyst; None for an owner, who reads everything."""
    if who.owner and "own" in who.scopes:
        return None
    return {name: person.data for name, person in opened.policy.analysts.items()}


async def listed(request: Request, service: Service, who: Person) -> list[StandingView]:
    """Return the standing questions that somebody may read."""
    reader = reader_of(request, service, who)

    def look(opened: OpenPolicy) -> list[StandingView]:
        return views(opened.ledger, reader, _data_of(opened, who)) if opened.made else []

    return await service.with_policy(look)


async def found(request: Request, service: Service, who: Person, name: str) -> StandingView:
    """Return one standing question; who is not signed in and may not read it is asked to sign in."""
    for view in await listed(request, service, who):
        if view.name.casefold() == name.casefold():
            return view
    raise SignInError if who is NOBODY else UnknownPlaceError


async def read(request: Request, service: Service, who: Person, name: str, period: str) -> ReadRelease:
    """Return one release."""
    view, reader = await found(request, service, who, name), reader_of(request, service, who)

    def look(opened: OpenPolicy) -> ReadRelease:
        _, dated, answer = published(opened.ledger, name, period, reader, _data_of(opened, who))
        receipt, entry = opened.ledger.receipt(int(answer.receipt), Actor.owner("policy"))
        return ReadRelease(view=view, period=dated, answer=answer, receipt=receipt, hash=entry.hash.hex())

    try:
        return await service.with_policy(look)
    except UnknownStandingError:
        raise UnknownPlaceError from None


# what owners do


async def explained(service: Service, question: StandingQuestion) -> StandingExplanation:
    """Say what a standing question would cost. Sets nothing aside."""
    return await service.with_policy(
        lambda opened: ServedPublisher(opened.data_sets, opened.ledger).explain_standing(question)
    )


async def declared(service: Service, who: Person, question: StandingQuestion) -> StandingView:
    """Set aside what a standing question costs."""

    def declare(opened: OpenPolicy) -> StandingView:
        opened.ledger.check_made()
        publisher = ServedPublisher(opened.data_sets, opened.ledger)
        plan = publisher.declare(question, actor=Actor.owner(who.name))
        return StandingView.of(plan, publisher.plans.releases(plan))

    return await service.with_policy(declare)


async def ended(service: Service, who: Person, name: str, reason: str) -> None:
    """Make no further release of a standing question."""

    def end(opened: OpenPolicy) -> None:
        opened.ledger.standing.end(name, actor=Actor.owner(who.name), reason=reason)

    try:
        await service.with_policy(end)
    except UnknownStandingError:
        raise UnknownPlaceError from None


async def question_of(service: Service, words: Mapping[str, Any]) -> StandingQuestion:
    """Return the standing question in the words of a form or a body."""
    policy = await service.with_policy(lambda opened: opened.policy)
    names = list(policy.data)
    data = words.get("data") or (names[0] if len(names) == 1 else "")
    if data not in names:
        raise UnknownPlaceError(f"Say which data set it is about: one of {', '.join(names)}.")
    if (stranger := unknown_reader(words["readers"], data, policy.analysts)) is not None:
        raise InvalidValueError("readers", got=stranger, allowed=f"analysts of {data}, or analysts, or public")
    schedule = Schedule(first=words["first"], every=words["every"], slots=words["releases"])
    plain = {name: words[name] for name in words if name not in {"data", "first", "every", "releases", "readers"}}
    readers = words["readers"]
    return StandingQuestion(
        data=data, schedule=schedule, readers=readers if isinstance(readers, str) else tuple(readers), **plain
    )


# the API


async def standing(request: Request, service: Service, who: Person) -> Response:
    """Show the standing questions."""
    return JSONResponse({"standing": [view.to_json() for view in await listed(request, service, who)]})


async def one(request: Request, service: Service, who: Person) -> Response:
    """Show one standing question with all its periods."""
    return JSONResponse((await found(request, service, who, request.path_params["name"])).to_json())


async def release(request: Request, service: Service, who: Person) -> Response:
    """Show one release."""
    form = chosen_form(request, FORMS)
    name, period = request.path_params["name"], request.path_params["period"]
    shown = await read(request, service, who, name, period)
    response = written(shown.answer, form)
    response.headers["hush-period"] = shown.period
    return response


async def explain(request: Request, service: Service, _: Person) -> Response:
    """Say what a standing question would cost."""
    body = await bodies.read(request, bodies.StandingBody)
    return JSONResponse((await explained(service, await question_of(service, body.words()))).to_json())


async def declare(request: Request, service: Service, who: Person) -> Response:
    """Set aside what a standing question costs."""
    body = await bodies.read(request, bodies.StandingBody)
    return JSONResponse((await declared(service, who, await question_of(service, body.words()))).to_json(), 201)


async def end(request: Request, service: Service, who: Person) -> Response:
    """End a standing question."""
    await ended(service, who, request.path_params["name"], request.query_params.get("reason", "")[:2000])
    return Response(status_code=204)


def table() -> list[Reached]:
    """Return this part of the table of routes."""
    anybody, owner, answers = Visitor.ANYBODY, Visitor.OWNER, {"query": (FORMAT,), "media": (CSV, ARROW, STORED)}
    words, why = bodies.StandingBody, ("reason", {"type": "string", "maxLength": 2000})
    path = "/standing/{name}"
    return [
        place("GET", "/standing", standing, anybody, "Standing questions that one may read", "StandingList"),
        place("GET", path, one, anybody, "A standing question and its periods", "Standing"),
        place("GET", f"{path}/{{period}}", release, anybody, "A release, by its date or latest", "Answer", **answers),
        place(
            "POST",
            "/standing/explain",
            explain,
            owner,
            "Price of a standing question",
            "StandingExplained",
            body=words,
            scope="own",
        ),
        place("POST", "/standing", declare, owner, "Declare", "NewStanding", body=words, scope="own"),
        place("DELETE", path, end, owner, "End a standing question", query=(why,), scope="own"),
    ]
