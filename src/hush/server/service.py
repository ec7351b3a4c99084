"""The service: the stores of one worker, the policy in force, and the methods for a person who is signed in.

The API and the pages call the same methods. Replies are JSON values of `hush.server.schemas`, or an `Answer`. The name
of the analyst comes from the session or the token, never from a request.

**The policy in force** is one reading of its file: its engines and its ledger, opened once for all analysts. Curators
are cheap: each request makes one for its analyst from what is open. When the file changes, it is opened anew beside the
old one; the old one is closed when its last question has been answered. A file with a mistake changes nothing: what was
in force stays in force, and the mistake goes to the log and to the owner.

**Nobody's request waits for a file.** How long it takes to read a CSV file depends on its cells: on a stray quote. So
files are read before a policy comes into force, which at the start is before the first request, and a thread of its own
reads the policy and the files again when they change. Up to then questions are answered from the rows as they were.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import logging
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hush.core import HushError
from hush.core.storage import parse_size
from hush.core.work import limited
from hush.curator.answer import Answer, Money
from hush.curator.curator import Curator
from hush.curator.data_sets import OpenDataSet, open_data_set, refuse_sharing
from hush.curator.explanation import Explanation
from hush.curator.session import AnalystSession, Outlet
from hush.engines.protocol import DEFAULT_ROWS
from hush.ledger import Actor, OwnerAct, ParkedQuestion
from hush.ledger.budgets import Spending
from hush.ledger.entries import label
from hush.ledger.errors import LedgerFullError
from hush.policy.file import Policy
from hush.policy.ledger import decide_request, ledger_of, ledger_or_stand_in, streams_of
from hush.server import monitoring, questions, rate_limits, schemas
from hush.server.auth import oidc
from hush.server.auth.people import SCOPES, People, Person
from hush.server.errors import ForbiddenError, NoPolicyError, SecondOwnerError, UnknownPlaceError
from hush.server.questions import MOST_WORK, Questions, Turn
from hush.server.rate_limits import Rate, RateLimits
from hush.server.settings import ServiceSettings, open_storage
from hush.storage import in_database

log = logging.getLogger("hush.server")
Result = TypeVar("Result")
_LOOK = 0.5
"""Seconds between two checks of the policy's file."""
_RETRY = 60.0
"""Seconds after which an unreadable file is tried again."""


class OpenPolicy:
    """A policy with its engines and its ledger, in whose chain it is recorded. Use it from any thread."""

    def __init__(self, settings: ServiceSettings) -> None:
        detail = {"sha256": hashlib.sha256(Path(settings.policy).read_bytes()).hexdigest()}
        self.policy = Policy.read(settings.policy)
        refuse_sharing(self.policy)
        self.ledger, self.made = ledger_or_stand_in(self.policy, self.policy.data)
        if settings.quota:
            quota, places = parse_size(settings.quota, "quota"), (ledger_of(self.policy), settings.people)
            files = [Path(place).resolve() for place in places if not in_database(place)]
            self.ledger.limit_room(partial(_check_room, files, quota))
        self.data_sets: dict[str, OpenDataSet] = {}
        opened = ExitStack()
        opened.callback(self.ledger.close)
        self.close = weakref.finalize(self, opened.close)
        """Closes engines and ledger. It is called at the latest when nobody holds this object any more."""
        try:
            for name, data in self.policy.data.items():
                self.data_sets[name] = data_set = open_data_set(
                    self.policy, data, timeout=settings.limit, memory=settings.memory, threads=settings.threads or None
                )
                opened.callback(data_set.engine.close)
            self.load()
            if self.made:  # not recorded again where it is the one that was recorded last
                self.ledger.record(OwnerAct(identity="policy", by="policy file", what="policy", detail=detail))
        except BaseException:
            self.close()
            raise

    def load(self) -> None:
        """Read the files that were not read yet, and those that have changed."""
        for name, data_set in self.data_sets.items():
            for table, rows in data_set.engine.load().items():
                declared = data_set.sizes.get(table, DEFAULT_ROWS)
                if rows > declared and not data_set.schema.tables[table].public:
                    log.warning(
                        "table %s has more rows than the %d that the policy declares; when answers leave may then tell "
                        "something of the rows: write rows = … in [data.%s.tables.%s]",
                        *(table, declared, name, table),
                    )

    def curator(self, person: Person, outlet: Outlet | None = None) -> Curator:
        """Return a curator for a person who is signed in; one without an outlet is for free operations alone."""
        if person.name not in self.policy.analysts:
            raise ForbiddenError(f"The policy does not name {person.name} as an analyst; ask the owner.")
        names = self.policy.analysts[person.name].data
        streams = streams_of(self.policy, person.name)
        data_sets = {name: self.data_sets[name] for name in names}
        return Curator(AnalystSession(data_sets, self.ledger, person.name, streams=streams, outlet=outlet))

    def requests(self, actor: Actor) -> list[ParkedQuestion]:
        """Return the requests to the owner that an actor may see, waiting and decided; none without a ledger."""
        return self.ledger.requests(actor) if self.made else []


def _check_room(places: Iterable[Path], quota: int) -> None:
    """Refuse a charge when ledger and people, with the files beside them of the same beginning, take the quota."""
    beside = [path for place in places for path in place.parent.glob(f"{place.name}*")]
    files = [path for root in beside for path in (root, *root.rglob("*"))]
    used = sum(path.stat().st_size for path in files if path.is_file())
    if used >= quota:
        raise LedgerFullError(
            f"Ledger, streams and people take {used:,} bytes of the disk, and the quota of this service is {quota:,}. "
            "Nothing was charged. The owner raises it: hush serve --quota."
        )


class CurrentPolicy:
    """The policy that is in force: the file as it was when it last could be read."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._stamp = _stamp(settings.policy)
        self._opened = OpenPolicy(settings) if Path(settings.policy).exists() else None
        """None as long as there is no policy: the owner makes it on the page."""
        self._looking, self._reading = threading.Lock(), threading.Lock()
        self._retry_at = 0.0
        self.mistake = ""
        """The mistake in the present file; empty if the file is in force."""
        self._closed = threading.Event()
        threading.Thread(target=_watch, args=(weakref.ref(self), self._closed), name="hush-policy", daemon=True).start()

    def in_force(self) -> OpenPolicy:
        """Return the policy in force, which stays open as long as it is held."""
        if (opened := self._opened) is None:
            raise NoPolicyError
        return opened

    @property
    def made(self) -> bool:
        """Whether a policy is in force and has its ledger."""
        return self._opened is not None and self._opened.made

    def load_again(self) -> None:
        """Read data files again that have changed; an unreadable one keeps its former rows."""
        if time.monotonic() < self._retry_at:
            return
        try:
            with self._reading:
                if (opened := self._opened) is not None:
                    opened.load()
        except HushError as error:
            self._retry_at = time.monotonic() + _RETRY
            log.warning("a file has changed and cannot be read, so questions are about its former rows: %s", error)

    def look_again(self) -> None:
        """Read the policy again if it has changed, and return when it is in force."""
        with self._looking:
            stamp = _stamp(self._settings.policy)
            appeared = False
            if self._opened is not None and not self._opened.made:
                # The owner may have made the ledger after the policy was opened without one.
                place = ledger_of(self._opened.policy)
                appeared = isinstance(place, Path) and place.exists()
            if stamp == self._stamp and not appeared:
                return
            # Before it is read: a file with a mistake is not read again until it changes.
            self._stamp = stamp
            try:
                fresh = OpenPolicy(self._settings)
            except HushError as error:
                self.mistake = str(error)
                log.warning("the policy was changed and cannot be used, so the one before stays in force: %s", error)
                return
            self._opened, self.mistake = fresh, ""
        log.info("the policy was read again")

    def close(self) -> None:
        """Close everything once nobody uses it."""
        self._closed.set()
        with self._looking, self._reading:  # an engine that reads a file cannot be closed
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


def _watch(policy: weakref.ref[CurrentPolicy], closed: threading.Event) -> None:
    """Check the policy and its files for changes, as long as the `CurrentPolicy` is in use."""
    while not closed.wait(_LOOK) and (current := policy()) is not None:
        try:
            current.look_again()
            current.load_again()
        except Exception:
            log.exception("the policy could not be looked at")
        # This thread must not keep alive a policy that nobody else uses.
        del current


def _stamp(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)  # noqa: PTH116 - a stamp, not a path
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino


class Service:
    """Policy, engines, ledger, people and queue of one worker."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.people = People(settings.people, two_owners=settings.two_owners)
        self.failures = monitoring.FailureCounts(self.people)
        schema = (*questions.SCHEMA, *rate_limits.SCHEMA, *oidc.SCHEMA, *monitoring.SCHEMA)
        self.shared = open_storage(settings.shared_state, schema, durable=False)
        self.rates = RateLimits(self.shared)
        self.queue = questions.QuestionQueue(self.shared)
        self.policy = CurrentPolicy(settings)
        self.counters = monitoring.Counters(self.shared, tick=settings.tick)
        self.questions = Questions(self.queue, settings)
        self.oidc = oidc.OpenIdProvider(oidc.OidcSettings.read(settings.oidc)) if settings.oidc else None
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="hush-service")
        self.explaining: dict[str, asyncio.Semaphore] = {}
        """Who has free computations under way."""

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
        self.shared.close()

    async def record_acts(self) -> None:
        """Write the waiting acts of owners into the ledger's chain, if there is a ledger."""
        try:
            await self.with_policy(lambda opened: opened.made and monitoring.record(self.people, opened.ledger))
        except HushError as error:  # what was done is done, and is told when the ledger is there
            self.people.acted = True
            if not isinstance(error, NoPolicyError):
                log.warning("acts of owners wait for the ledger: %s", error)

    async def with_policy(self, work: Callable[[OpenPolicy], Result]) -> Result:
        """Do something with the policy in force, in a thread that knows who acts (`hush.server.auth.people.acting`)."""

        def do() -> Result:
            with limited(MOST_WORK):
                return work(self.policy.in_force())

        return await asyncio.get_running_loop().run_in_executor(self._threads, contextvars.copy_context().run, do)


class PersonalService:
    """The service for one person: the methods that the API, the pages and the SQL door share."""

    def __init__(self, service: Service, who: Person) -> None:
        self.service, self.people, self.settings = service, service.people, service.settings
        self.with_policy = service.with_policy
        self.who, self.name = who, who.name
        self.analyst = Actor.analyst(who.name)

    def check_rate(self, rate: Rate) -> None:
        """Count a visit of this person, or refuse it if it comes too soon."""
        self.service.rates.check(rate, self.name)

    async def with_curator(self, work: Callable[[Curator], Result]) -> Result:
        """Do something with this person's curator, in a thread. It must neither read rows nor charge."""
        return await self.with_policy(lambda opened: work(opened.curator(self.who)))

    async def for_nothing(self, rate: Rate, work: Callable[[Curator], Result]) -> Result:
        """Run a free computation, two at once at most: others need the threads too."""
        self.check_rate(rate)
        async with self.service.explaining.setdefault(self.name, asyncio.Semaphore(2)):
            return await self.with_curator(work)

    async def at_work(self, request: str | None, work: Callable[[Curator, str], Result]) -> Result:
        """Do something that is charged or reads rows: it waits for its turn, and leaves at its slot."""
        self.check_rate(Rate.QUESTIONS)
        name = uuid.uuid4().hex if request is None else label(request, "request")

        def do(turn: Turn) -> Result:
            opened = self.service.policy.in_force()  # a name, so that it stays open until the work is done
            return work(opened.curator(self.who, turn), name)

        with self.service.counters.question():
            return await self.service.questions.run(self.name, name, do)

    # questions and whole releases

    async def data_sets(self) -> list[dict[str, Any]]:
        """Return the data sets that somebody may ask about: schema and policy, never data."""

        def read(opened: OpenPolicy) -> list[dict[str, Any]]:
            data_sets = opened.curator(self.who).data_sets.items()
            return [schemas.data_set(data_set, opened.policy.data[name].budget) for name, data_set in data_sets]

        return await self.with_policy(read)

    async def explain(self, question: str, *, epsilons: Sequence[Any] = (), **terms: Any) -> list[Explanation]:
        """Return the price and error of a question, at several prices or on the given terms. Spends nothing."""

        def look(curator: Curator) -> list[Explanation]:
            if epsilons:
                return curator.at_prices(question, epsilons=epsilons, **terms)
            return [curator.explain(question, **terms)]

        return await self.for_nothing(Rate.EXPLANATIONS, look)

    async def ask(self, *, request: str | None = None, **terms: Any) -> Answer:
        """Answer a question, and charge it. It waits for its turn, and leaves at its slot."""
        return await self.at_work(request, lambda curator, name: curator.ask(**terms, request=name))

    async def dummy(self, *, rate: Rate = Rate.TRIALS, **terms: Any) -> Answer:
        """Answer a question about made-up rows: free, and marked as made up."""

        def ask(curator: Curator) -> Answer:
            with curator.dummy() as made_up:
                return made_up.ask(**terms)

        return await self.for_nothing(rate, ask)

    async def explain_release(self, kind: str, how: Mapping[str, Any]) -> Any:
        """Return the price and the expected error of a whole release. Spends nothing."""
        return await self.for_nothing(Rate.EXPLANATIONS, lambda curator: getattr(curator, f"explain_{kind}")(**how))

    async def release(
        self, kind: str, how: Mapping[str, Any], *, request: str | None = None
    ) -> tuple[Any, Money, Spending | None]:
        """Make and charge a whole release; return it, the remaining budget and the share that it took."""

        def release(curator: Curator, name: str) -> tuple[Any, Money, Spending | None]:
            artefact = getattr(curator, kind)(**how, request=name)
            spending = curator.session.ledger.spending(int(artefact.receipt))
            return artefact, curator.remaining(artefact.receipt), spending

        return await self.at_work(request, release)

    # what was asked, and what is left

    async def history(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return an analyst's questions with their prices, newest first."""
        return list(map(asdict, await self.with_curator(lambda curator: curator.history(limit))))

    async def receipt(self, number: int) -> dict[str, Any]:
        """Return one charge of somebody's, with its place in the ledger."""

        def read(opened: OpenPolicy) -> dict[str, Any]:
            charge, entry = opened.ledger.receipt(number, self.who.actor)
            return {**asdict(charge), "hash": entry.hash.hex()}

        return await self.with_policy(read)

    async def released(self, number: int) -> Any:
        """Return a whole release of somebody's own by its receipt. Free."""
        return await self.with_curator(lambda curator: curator.released(number))

    async def stored(self, number: int) -> bytes:
        """Return the stored bytes of a person's own release by its receipt."""
        return await self.with_policy(lambda opened: opened.ledger.stored_answer(number, self.analyst))

    async def answer(self, number: int) -> Answer:
        """Return the answer under one of this person's own receipts; an owner, too, gets only their own. Free."""
        answer = await self.with_policy(lambda opened: Answer.shown(opened.ledger, number, self.analyst))
        return replace(answer, repeated="")

    # what waits for the owner

    async def requests(self) -> list[dict[str, Any]]:
        """Return the requests that somebody may see, newest first: owners all, analysts their own."""
        return await self.with_policy(lambda opened: [asdict(parked) for parked in opened.requests(self.who.actor)])

    async def request_budget(self, *, epsilon: Any, reason: str, data: str | None) -> dict[str, Any]:
        """Ask the owner for a larger budget."""
        self.check_rate(Rate.REQUESTS)
        return asdict(await self.with_curator(partial(Curator.request, epsilon=epsilon, reason=reason, data=data)))

    async def decide(self, number: int, *, approve: bool, reason: str) -> dict[str, Any]:
        """Approve or decline a request, as an owner. More budget is also written into the policy."""

        def decide(opened: OpenPolicy) -> dict[str, Any]:
            actor = Actor.owner(self.name)
            request = next((parked for parked in opened.requests(actor) if parked.number == number), None)
            if request is None:
                raise UnknownPlaceError
            if approve and request.state == "waiting":
                epsilon = request.wanted or request.epsilon
                # The amount is part of the text, so both owners agree to the same raise.
                self.agree("raise", f"request {number}: {request.analyst} on {request.data}, ε {epsilon}")
            policy_path = Path(self.settings.policy).resolve()
            if decide_request(
                opened.policy, policy_path, opened.ledger, number, approve=approve, actor=actor, reason=reason
            ):
                self.service.policy.look_again()
            return next(asdict(request) for request in opened.requests(actor) if request.number == number)

        return await self.with_policy(decide)

    def agree(self, what: str, content: str) -> None:
        """Refuse an act that needs two owners until a second owner does the same; the first attempt is stored."""
        if self.settings.two_owners and not self.people.agreed(self.name, what, content):
            raise SecondOwnerError

    # questions under way, tokens, sessions

    def cancel(self, request: str) -> None:
        """End a question of somebody's own."""
        if not self.service.queue.cancel(self.name, request):
            raise UnknownPlaceError(f"No question of yours is waiting or at work under the request {request!r}.")

    def revoke_token(self, identity: str) -> bool:
        """Revoke a person's own token; return whether it existed."""
        scopes = {scope for token in self.people.tokens(self.name) if token.id == identity for scope in token.scopes}
        self._check_reach(scopes)
        return bool(self.people.revoke_token(self.name, identity))

    def end_session(self, identity: str) -> bool:
        """End a person's own session; return whether it existed."""
        self._check_reach(set(SCOPES if self.who.owner else SCOPES[:2]))
        return bool(self.people.end_session(self.name, identity))

    def _check_reach(self, scopes: set[str]) -> None:
        """Refuse to end a token or session with more scopes than the acting token."""
        if scopes - self.who.scopes:
            raise ForbiddenError(
                "A token cannot end what is for more than itself: use one with its scopes, or a browser."
            )
