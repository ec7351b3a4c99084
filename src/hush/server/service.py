"""The methods of the service for a person who is signed in. The API and the pages call the same methods.

Replies are JSON values of `hush.server.schemas`, or an `Answer`. The name of the analyst comes from the session or the
token, never from a request.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from hush.core import HushError
from hush.core.work import limited
from hush.curator import together
from hush.curator.answer import Answer, Money
from hush.curator.curator import Curator
from hush.curator.explanation import Explanation
from hush.ledger import Actor, LedgerError
from hush.ledger.actors import label
from hush.ledger.budgets import Spending
from hush.policy import budget_requests
from hush.server import audit, metrics, queue, rate_limits, schemas
from hush.server.auth import oidc
from hush.server.auth.people import SCOPES, People, Person
from hush.server.errors import ForbiddenError, NoPolicyError, SecondOwnerError, UnknownPlaceError
from hush.server.opened import CurrentPolicy, OpenPolicy
from hush.server.questions import MOST_WORK, Questions, Turn
from hush.server.rate_limits import Rate, RateLimits
from hush.server.settings import ServiceSettings, open_storage

log = logging.getLogger("hush.server")
Result = TypeVar("Result")
_EACH = 8
"""How many explanations are kept for one person …"""
_PEOPLE = 32
"""… and for how many people: some 6 MB, or 60 MB if every explanation has the largest number of prices."""
_SECONDS = 60.0


class Service:
    """Policy, engines, ledger, people and queue of one worker."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.people = People(settings.people, two_owners=settings.two_owners)
        self.failures = audit.FailureCounts(self.people)
        schema = (*queue.SCHEMA, *rate_limits.SCHEMA, *oidc.SCHEMA, *metrics.SCHEMA)
        self._shared = open_storage(settings.shared_state, schema, durable=False)
        self.rates = RateLimits(self._shared)
        self.queue = queue.QuestionQueue(self._shared)
        self.flows = oidc.SignInFlows(self._shared)
        self.policy = CurrentPolicy(settings)
        self.counters = metrics.Counters(self._shared, tick=settings.tick)
        self.questions = Questions(
            self.queue,
            tick=settings.tick,
            limit=settings.limit,
            at_once=settings.at_once,
            queue=settings.queue,
            each=settings.each,
        )
        self.oidc = oidc.OpenIdProvider(oidc.OidcSettings.read(settings.oidc)) if settings.oidc else None
        self._explained = ExplanationCache()
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="hush-service")
        self._explaining: dict[str, asyncio.Semaphore] = {}

    async def close(self) -> None:
        """Wait for the questions at work, then close all stores and threads."""
        for _ in range(int(10 * (self.settings.limit + 5))):
            if self.questions.idle:
                break
            await asyncio.sleep(0.1)
        self._threads.shutdown(wait=True)
        self.counters.write()
        self.failures.write()
        self.policy.close()
        self.people.close()
        self._shared.close()

    async def record_acts(self) -> None:
        """Write the waiting acts of owners into the ledger's chain, if there is a ledger."""

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
            with self.policy.use() as opened, limited(MOST_WORK):
                return work(opened)

        return await asyncio.get_running_loop().run_in_executor(self._threads, do)

    async def for_nothing(self, who: Person, rate: Rate, work: Callable[[OpenPolicy], Result]) -> Result:
        """Run a free computation for a person, two at once at most: others need the threads too."""
        self.rates.check(rate, who.name)
        async with self._explaining.setdefault(who.name, asyncio.Semaphore(2)):
            return await self.with_policy(work)

    async def with_curator(self, who: Person, work: Callable[[Curator], Result]) -> Result:
        """Do something with somebody's own curator, in a thread. It must neither read rows nor charge."""
        return await self.with_policy(lambda opened: work(opened.curator(who)))

    # what analysts do

    async def data_sets(self, who: Person) -> list[dict[str, Any]]:
        """Return the data sets that somebody may ask about: schema and policy, never data."""

        def read(opened: OpenPolicy) -> list[dict[str, Any]]:
            curator = opened.curator(who)
            return [
                schemas.data_set(data_set, opened.policy.data[name].budget)
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
        """Return the price and error of a question, at several prices or on the given terms. Spends nothing."""

        def explain(curator: Curator) -> list[Explanation]:
            if epsilons:
                return curator.at_prices(question, parameters, epsilons=epsilons, **terms)
            return [curator.explain(question, parameters, **terms)]

        def look(opened: OpenPolicy) -> list[Explanation]:
            curator = opened.curator(who)
            budgets = tuple((view.data, view.analyst, view.account) for view in curator.budget())
            words = repr((question, parameters, list(epsilons), sorted(terms.items())))
            return self._explained.get(who.name, (opened.digest, budgets, words), lambda: explain(curator))

        return await self.for_nothing(who, Rate.EXPLANATIONS, look)

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

        def ask(curator: Curator, name: str) -> Answer:
            return curator.ask(question, parameters, request=name, **terms)

        return await self.at_work(who, request, ask)

    # whole releases

    async def explain_release(self, who: Person, kind: str, how: Mapping[str, Any]) -> Any:
        """Return the price and the expected error of a whole release. Spends nothing."""
        return await self.for_nothing(
            who, Rate.EXPLANATIONS, lambda opened: getattr(opened.curator(who), f"explain_{kind}")(**how)
        )

    async def explain_stream(self, who: Person, how: Mapping[str, Any]) -> dict[str, Any]:
        """Return the price and the expected error of a stream. Spends nothing."""
        return await self.for_nothing(who, Rate.EXPLANATIONS, lambda opened: opened.curator(who).stream.explain(**how))

    async def release(
        self, who: Person, kind: str, how: Mapping[str, Any], *, request: str | None = None
    ) -> tuple[Any, Money, Spending | None]:
        """Make and charge a whole release; return it, the remaining budget and the share that it took.

        It takes its turn as a question does.
        """

        def release(curator: Curator, name: str) -> tuple[Any, Money, Spending | None]:
            artefact = getattr(curator, kind)(**how, request=name)
            spending = curator.session.ledger.spending(int(artefact.receipt))
            return artefact, curator.remaining(artefact.receipt), spending

        return await self.at_work(who, request, release)

    async def at_work(
        self, who: Person, request: str | None, work: Callable[[Curator, str], Result], what: str = "questions"
    ) -> Result:
        """Do something that is charged or reads rows: it waits for its turn, and leaves at its slot."""
        self.rates.check(Rate.QUESTIONS, who.name, what=what)
        name = uuid.uuid4().hex if request is None else label(request, "request")

        def do(turn: Turn) -> Result:
            with self.policy.use() as opened:
                return work(opened.curator(who, turn), name)

        with self.counters.question():
            return await self.questions.run(who.name, name, do)

    async def released(self, who: Person, number: int) -> Any:
        """Return a whole release of somebody's own by its receipt. Free."""
        return await self.with_curator(who, lambda curator: _found(functools.partial(curator.released, number)))

    async def stored(self, who: Person, number: int) -> bytes:
        """Return the stored bytes of a person's own release by its receipt."""
        actor = Actor.analyst(who.name)
        return await self.with_policy(
            lambda opened: _found(functools.partial(opened.ledger.stored_answer, number, actor))
        )

    async def dummy(
        self, who: Person, question: str, parameters: Sequence[Any] | Mapping[str, Any] = (), **terms: Any
    ) -> Answer:
        """Answer a question about made-up rows: free, and marked as made up."""

        def ask(opened: OpenPolicy) -> Answer:
            with opened.curator(who).dummy() as made_up:
                return made_up.ask(question, parameters, **terms)

        return await self.for_nothing(who, Rate.TRIALS, ask)

    async def budget(self, who: Person) -> list[dict[str, Any]]:
        """Return the remaining budgets of an analyst, and those of the data sets above them."""
        return await self.with_policy(lambda opened: [schemas.account(view) for view in opened.curator(who).budget()])

    async def history(self, who: Person, limit: int | None = None) -> list[dict[str, Any]]:
        """Return an analyst's questions with their prices, newest first."""
        return await self.with_policy(lambda opened: [asdict(charge) for charge in opened.curator(who).history(limit)])

    async def receipt(self, who: Person, number: int) -> dict[str, Any]:
        """Return one charge of somebody's, with its place in the ledger."""
        return await self.with_policy(
            lambda opened: schemas.receipt(*_found(functools.partial(opened.ledger.receipt, number, _actor(who))))
        )

    async def answer(self, who: Person, number: int) -> Answer:
        """Return the answer that was given under a receipt of somebody's own. Free."""

        def read(opened: OpenPolicy) -> Answer:
            actor = Actor.analyst(who.name)  # owners do not read analysts' answers here either
            return replace(_found(functools.partial(Answer.shown, opened.ledger, number, actor)), repeated="")

        return await self.with_policy(read)

    async def answers(self, who: Person, number: int) -> tuple[Answer, ...]:
        """Return the answers of a dashboard that somebody has paid for, by their receipt. Free."""
        return together.unpacked(await self.stored(who, number))

    # what waits for the owner

    async def requests(self, who: Person) -> list[dict[str, Any]]:
        """Return the requests that somebody may see, newest first: owners all, analysts their own."""
        return await self.with_policy(lambda opened: [asdict(parked) for parked in opened.requests(_actor(who))])

    async def request_budget(self, who: Person, *, epsilon: Any, reason: str, data: str | None) -> dict[str, Any]:
        """Ask the owner for a larger budget."""
        self.rates.check(Rate.REQUESTS, who.name)
        return await self.with_policy(
            lambda opened: asdict(opened.curator(who).request(epsilon=epsilon, reason=reason, data=data))
        )

    async def decide(self, who: Person, number: int, *, approve: bool, reason: str) -> dict[str, Any]:
        """Approve or decline a request, as an owner. More budget is also written into the policy."""

        def decide(opened: OpenPolicy) -> dict[str, Any]:
            actor = Actor.owner(who.name)
            request = next((parked for parked in opened.requests(actor) if parked.number == number), None)
            if request is None:
                raise UnknownPlaceError
            if approve and request.state == "waiting":
                epsilon = request.wanted or request.epsilon
                # The amount is part of the text, so both owners agree to the same raise.
                self.agree(who, "raise", f"request {number}: {request.analyst} on {request.data}, ε {epsilon}")
            policy_path = Path(self.settings.policy).resolve()
            if budget_requests.decide(
                opened.policy, policy_path, opened.ledger, number, approve=approve, actor=actor, reason=reason
            ):
                self.policy.look_again()
            return next(asdict(request) for request in opened.requests(actor) if request.number == number)

        return await self.with_policy(decide)

    def agree(self, who: Person, what: str, content: str) -> None:
        """Refuse an act that needs two owners until a second owner does the same; the first attempt is stored."""
        if self.settings.two_owners and not self.people.agreed(who.name, what, content):
            raise SecondOwnerError

    def places(self, who: Person) -> list[dict[str, Any]]:
        """Return the positions of a person's questions in the queue."""
        return [asdict(position) for position in self.queue.positions(who.name)]

    def cancel(self, who: Person, request: str) -> None:
        """End a question of somebody's own."""
        if not self.queue.cancel(who.name, request):
            raise UnknownPlaceError(f"No question of yours is waiting or at work under the request {request!r}.")

    def revoke_token(self, who: Person, identity: str) -> bool:
        """Revoke a person's own token, if the acting token has all its scopes; return whether it existed."""
        scopes = [token.scopes for token in self.people.tokens(who.name) if token.id == identity]
        _check_reach(who, *scopes)
        return bool(self.people.revoke_token(who.name, identity))

    def end_session(self, who: Person, identity: str) -> bool:
        """End a person's own session; return whether it existed."""
        _check_reach(who, SCOPES if who.owner else SCOPES[:2])
        return bool(self.people.end_session(who.name, identity))


class ExplanationCache:
    """A short-lived cache of explanations in one worker, apart for each person. Use it from any thread.

    A page explains the same question at every turn: when it is opened, when its slider is let go, when it is asked.
    Planning takes milliseconds each time, and gives the same. So a worker remembers the last explanations, each for

    *   the person it was given to, and nobody else: two people may see different schemas, and that an explanation comes
        quickly must not tell what others asked;
    *   the policy in force and the very words of the request;
    *   the budgets as they were, which are part of what is explained. They are shown to this person anyway;
    *   a minute, because public tables can change.

    Nothing here depends on a protected row.

    >>> cache = ExplanationCache()
    >>> cache.get("alice", "key", lambda: ["planned"]), cache.get("alice", "key", lambda: ["planned anew"])
    (['planned'], ['planned'])
    >>> cache.get("bob", "key", lambda: ["bob's own"])
    ["bob's own"]
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._people: OrderedDict[str, OrderedDict[Hashable, tuple[float, list[Explanation]]]] = OrderedDict()
        self._lock = threading.Lock()
        self._clock = clock

    def get(self, person: str, key: Hashable, explain: Callable[[], list[Explanation]]) -> list[Explanation]:
        """Return the stored explanation of a person and key, or compute and store it. Refusals are not stored."""
        with self._lock:
            explanations = self._people.get(person)
            entry = None if explanations is None else explanations.get(key)
        if entry is not None and self._clock() - entry[0] < _SECONDS:
            return entry[1]
        # Outside of the lock, so that nobody waits for another person's planning.
        explained = explain()
        with self._lock:
            explanations = self._people.setdefault(person, OrderedDict())
            self._people.move_to_end(person)
            explanations[key] = (self._clock(), explained)
            explanations.move_to_end(key)
            if len(explanations) > _EACH:
                explanations.popitem(last=False)
            if len(self._people) > _PEOPLE:
                self._people.popitem(last=False)
        return explained


def _check_reach(who: Person, *ended: Collection[str]) -> None:
    """Refuse to end a token or session with more scopes than the acting token."""
    if any(set(scopes) - who.scopes for scopes in ended):
        raise ForbiddenError("A token cannot end what is for more than itself: use one with its scopes, or a browser.")


def _actor(who: Person) -> Actor:
    # A token without the scope "own" acts as an analyst, even for an owner.
    return Actor.owner(who.name) if who.owner and "own" in who.scopes else Actor.analyst(who.name)


def _found(read: Callable[[], Result]) -> Result:
    """Return the result of ``read``; a receipt of another person gives the same error as a missing one."""
    try:
        return read()
    except LedgerError as error:
        if error.code == "unknown-receipt":
            raise UnknownPlaceError from None
        raise
