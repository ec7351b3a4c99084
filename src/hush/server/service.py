"""What a service does for somebody who is signed in. The API and the pages call the same methods.

Everything is said as JSON values by `hush.server.forms`, or as an `Answer`. The name of the analyst comes from whoever
is signed in, never from a request.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from hush.core import HushError
from hush.curator.answer import Answer, Money
from hush.curator.explanation import Explanation
from hush.ledger import Actor, LedgerError
from hush.ledger.actors import label
from hush.policy import raising
from hush.server import audit, forms
from hush.server.errors import NoPolicyError, UnknownPlaceError
from hush.server.explained import ExplanationCache
from hush.server.metrics import Counters
from hush.server.oidc import OidcSettings, OpenIdProvider
from hush.server.opened import CurrentPolicy, OpenPolicy
from hush.server.people import People, Person
from hush.server.questions import Questions, ServedCurator, check_rate
from hush.server.settings import ServiceSettings
from hush.server.traffic import Rate, Traffic, as_json

log = logging.getLogger("hush.server")
Result = TypeVar("Result")
MOST_PRICES = 64
"""How many prices one explanation may be asked for."""


class Service:
    """Policy, engines, ledger, people and queue of one worker."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.people = People(settings.people)
        self.traffic = Traffic(settings.traffic)
        self.policy = CurrentPolicy(settings)
        self.counters = Counters(self.traffic, tick=settings.tick)
        self.questions = Questions(
            self.traffic,
            tick=settings.tick,
            limit=settings.limit,
            at_once=settings.at_once,
            queue=settings.queue,
            each=settings.each,
        )
        self.oidc = OpenIdProvider(OidcSettings.read(settings.oidc)) if settings.oidc else None
        self._explained: ExplanationCache[list[Explanation]] = ExplanationCache()
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="hush-service")

    async def close(self) -> None:
        """Let go of everything, once what was asked is answered."""
        for _ in range(int(10 * (self.settings.limit + 5))):
            if self.questions.idle:
                break
            await asyncio.sleep(0.1)
        self._threads.shutdown(wait=True)
        self.counters.write()
        self.policy.close()
        self.people.close()
        self.traffic.close()

    async def record_acts(self) -> None:
        """Have what owners did stand in the ledger's chain, as far as there is a ledger."""

        def record(opened: OpenPolicy) -> None:
            if opened.made:
                audit.record(self.people, opened.ledger)

        try:
            await self.with_policy(record)
        except NoPolicyError:
            self.people.acted = True
        except HushError as error:  # what was done is done, and is told when the ledger is back
            self.people.acted = True
            log.warning("acts of owners wait for the ledger: %s", error)

    # what threads do

    async def with_policy(self, work: Callable[[OpenPolicy], Result]) -> Result:
        """Do something with the policy in force, in a thread."""

        def do() -> Result:
            with self.policy.use() as opened:
                return work(opened)

        return await asyncio.get_running_loop().run_in_executor(self._threads, do)

    async def with_curator(self, who: Person, work: Callable[[ServedCurator], Result]) -> Result:
        """Do something with somebody's own curator, in a thread. It must neither read rows nor charge."""
        return await self.with_policy(lambda opened: work(opened.curator(who)))

    # what analysts do

    async def data_sets(self, who: Person) -> list[dict[str, Any]]:
        """Return the data sets that somebody may ask about: schema and policy, never data."""

        def read(opened: OpenPolicy) -> list[dict[str, Any]]:
            curator = opened.curator(who)
            return [
                forms.data_set(data_set, opened.policy.data[name].budget)
                for name, data_set in curator.data_sets.items()
            ]

        return await self.with_policy(read)

    async def explain(
        self,
        who: Person,
        question: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        epsilons: Sequence[Any] = (),
        **terms: Any,
    ) -> list[Explanation]:
        """Say what a question would cost: at each of several prices, or on the terms given. Spends nothing."""
        check_rate(self.traffic, Rate.EXPLANATIONS, who.name)

        def explain(curator: ServedCurator) -> list[Explanation]:
            if epsilons:
                return curator.at_prices(question, parameters, epsilons=epsilons, **terms)
            prices = [{"epsilon": epsilon} for epsilon in epsilons] or [{}]
            return [curator.explain(question, parameters, **terms, **price) for price in prices]

        def look(opened: OpenPolicy) -> list[Explanation]:
            curator = opened.curator(who)
            budgets = tuple((view.data, view.analyst, view.account) for view in curator.budget())
            words = repr((question, parameters, list(epsilons), sorted(terms.items())))
            return self._explained.get(who.name, (opened.digest, budgets, words), lambda: explain(curator))

        return await self.with_policy(look)

    async def ask(
        self,
        who: Person,
        question: str,
        parameters: Sequence[Any] | Mapping[str, Any] = (),
        *,
        request: str | None = None,
        **terms: Any,
    ) -> Answer:
        """Answer a question, and charge it. It waits for its turn, and leaves at its slot."""

        def ask(curator: ServedCurator, name: str) -> Answer:
            return curator.ask(question, parameters, request=name, **terms)

        return await self.at_work(who, request, ask)

    # whole releases

    async def explain_release(self, who: Person, kind: str, how: Mapping[str, Any]) -> Any:
        """Say what a whole release would cost and how far off it would be. Spends nothing."""
        check_rate(self.traffic, Rate.EXPLANATIONS, who.name)
        return await self.with_curator(who, lambda curator: getattr(curator, f"explain_{kind}")(**how))

    async def explain_stream(self, who: Person, how: Mapping[str, Any]) -> dict[str, Any]:
        """Say what a stream would cost and how far off it would be. Spends nothing."""
        check_rate(self.traffic, Rate.EXPLANATIONS, who.name)
        return await self.with_curator(who, lambda curator: curator.stream.explain(**how))

    async def release(
        self, who: Person, kind: str, how: Mapping[str, Any], *, request: str | None = None
    ) -> tuple[Any, Money]:
        """Make a whole release, and charge it; also say what remains. It takes its turn as a question does."""

        def release(curator: ServedCurator, name: str) -> tuple[Any, Money]:
            made = getattr(curator, kind)(**how, request=name)
            return made, curator.remaining(made.receipt)

        return await self.at_work(who, request, release)

    async def at_work(
        self, who: Person, request: str | None, work: Callable[[ServedCurator, str], Result], what: str = "questions"
    ) -> Result:
        """Do something that is charged or reads rows: it waits for its turn, and leaves at its slot."""
        check_rate(self.traffic, Rate.QUESTIONS, who.name, what=what)
        name = uuid.uuid4().hex if request is None else label(request, "request")

        def do() -> Result:
            with self.policy.use() as opened:
                return work(opened.curator(who), name)

        with self.counters.question():
            return await self.questions.run(who.name, name, do)

    async def released(self, who: Person, number: int) -> Any:
        """Return a whole release of somebody's own by its receipt. Free."""
        return await self.with_curator(who, lambda curator: _found(functools.partial(curator.released, number)))

    async def stored(self, who: Person, number: int) -> bytes:
        """Return what the ledger keeps under a receipt of somebody's own."""
        actor = Actor.analyst(who.name)
        return await self.with_policy(
            lambda opened: _found(functools.partial(opened.ledger.stored_answer, number, actor))
        )

    async def dummy(
        self, who: Person, question: str, parameters: Sequence[Any] | Mapping[str, Any] = (), **terms: Any
    ) -> Answer:
        """Answer a question about made-up rows: free, and marked as such."""
        check_rate(self.traffic, Rate.TRIALS, who.name)

        def ask(opened: OpenPolicy) -> Answer:
            with opened.curator(who).dummy() as made_up:
                return made_up.ask(question, parameters, **terms)

        return await self.with_policy(ask)

    async def budget(self, who: Person) -> list[dict[str, Any]]:
        """Return what is left: an analyst's budgets, and those of the data sets above them."""
        return await self.with_policy(lambda opened: [forms.account(view) for view in opened.curator(who).budget()])

    async def history(self, who: Person, limit: int | None = None) -> list[dict[str, Any]]:
        """Return an analyst's questions and what they cost, newest first."""
        return await self.with_policy(
            lambda opened: [forms.release(made) for made in opened.curator(who).history(limit)]
        )

    async def receipt(self, who: Person, number: int) -> dict[str, Any]:
        """Return one charge of somebody's, with its place in the ledger."""
        return await self.with_policy(
            lambda opened: forms.receipt(*_found(functools.partial(opened.ledger.receipt, number, _actor(who))))
        )

    async def answer(self, who: Person, number: int) -> Answer:
        """Return the answer that was given under a receipt of somebody's own. Free."""

        def read(opened: OpenPolicy) -> Answer:
            actor = Actor.analyst(who.name)  # owners do not read analysts' answers here either
            return replace(_found(functools.partial(Answer.shown, opened.ledger, number, actor)), repeated="")

        return await self.with_policy(read)

    # what waits for the owner

    async def requests(self, who: Person) -> list[dict[str, Any]]:
        """Return the requests that somebody may see, newest first: owners all, analysts their own."""
        return await self.with_policy(lambda opened: [asdict(made) for made in opened.requests(_actor(who))])

    async def request_budget(self, who: Person, *, epsilon: Any, reason: str, data: str | None) -> dict[str, Any]:
        """Ask the owner for a larger budget."""
        check_rate(self.traffic, Rate.REQUESTS, who.name)
        return await self.with_policy(
            lambda opened: asdict(opened.curator(who).request(epsilon=epsilon, reason=reason, data=data))
        )

    async def decide(self, who: Person, number: int, *, approve: bool, reason: str) -> dict[str, Any]:
        """Approve or decline a request, as an owner. More budget is also written into the policy."""

        def decide(opened: OpenPolicy) -> dict[str, Any]:
            actor = Actor.owner(who.name)
            if number not in {request.number for request in opened.requests(actor)}:
                raise UnknownPlaceError
            place = Path(self.settings.policy).resolve()
            if raising.decide(opened.policy, place, opened.ledger, number, approve=approve, actor=actor, reason=reason):
                self.policy.look_again()
            return next(asdict(request) for request in opened.requests(actor) if request.number == number)

        return await self.with_policy(decide)

    def places(self, who: Person) -> list[dict[str, Any]]:
        """Return where somebody's questions stand in the queue."""
        return as_json(self.traffic.places(who.name))

    def cancel(self, who: Person, request: str) -> None:
        """End a question of somebody's own."""
        if not self.traffic.cancel(who.name, request):
            raise UnknownPlaceError(f"No question of yours is waiting or at work under the request {request!r}.")


def _actor(who: Person) -> Actor:
    return Actor.owner(who.name) if who.owner and "own" in who.scopes else Actor.analyst(who.name)


def _found(read: Callable[[], Result]) -> Result:
    """Return what is there and may be seen; all else reads alike."""
    try:
        return read()
    except LedgerError as error:
        if error.code == "unknown-receipt":
            raise UnknownPlaceError from None
        raise
