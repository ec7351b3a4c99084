"""The curator of a client: each method sends a request to a service, and returns the same as a local curator.

Releases come as the ledger keeps them: noisy measurements with their public head. From these the client makes tables,
synthetic rows, ranges and models, so that conditions, roll-ups, more rows and files need no further request.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote

from hush.accounting.events import Event, event_from_json
from hush.accounting.filters import filter_from_json
from hush.client.transport import (
    ANSWER,
    RELEASE,
    Connection,
    Response,
    amount,
    answer_in,
    body_of,
    remaining_in,
    spending_in,
)
from hush.core import HushError, InvalidValueError, Number, positive
from hush.core.format import ToldInLines, visible
from hush.curator.answer import Answer, Money
from hush.curator.terms import (
    BoundingTerms,
    FamilyOrder,
    FamilyTerms,
    FitOrder,
    FitTerms,
    MarginalOrder,
    MarginalTerms,
    Order,
    Parameters,
    QuestionOrder,
    QuestionTerms,
    RangeOrder,
    RangeTerms,
    SynthesisOrder,
    SynthesisTerms,
    Terms,
    TotalsOrder,
    TotalsTerms,
    takes,
    takes_options,
)
from hush.ledger import AccountView, ParkedQuestion, Release
from hush.ledger.entries import label
from hush.query.schema import Schema, Table, UnitPath
from hush.query.types import Kind, Type

if TYPE_CHECKING:
    from hush.curator.count_release import MarginalRelease, RangeRelease
    from hush.curator.declared_streams import StreamView
    from hush.curator.model_release import Recorded
    from hush.curator.owner import Bounding
    from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease
    from hush.query.builder import Asker, Builder


class _Asker:
    """Asks questions, until it is closed."""

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table; finish it with ``.ask(epsilon=…)`` or ``.explain(epsilon=…)``."""
        from hush.query.builder import table  # it loads the parser

        return table(name, alias, asker=cast("Asker", self))

    def close(self) -> None:
        """Close all connections of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RemoteCurator(_Asker):
    """Asks a service, as `hush.connect` returns it. It has the methods of a `Curator`; use it from any thread.

    >>> import hush
    >>> hush.RemoteCurator("http://127.0.0.1:9", token="secret")
    Traceback (most recent call last):
    ...
    hush.client.transport.RemoteError: The service at 127.0.0.1 cannot be reached: Connection refused.
    """

    def __init__(self, address: str, *, token: str, timeout: float = 300.0, certificates: str | None = None) -> None:
        """``certificates`` is a file of authorities to be trusted instead of the system's; ``timeout`` in seconds."""
        self._service = Connection(address, token=token, timeout=timeout, certificates=certificates)
        try:
            self.analyst = str(self._service.get("/me")["name"])
            """Who asks."""
        except BaseException:
            self.close()
            raise

    # questions

    @takes(QuestionTerms)
    def explain(self, terms: QuestionTerms) -> RemoteExplanation:
        """Explain a question: its price and how accurate its answer would be. Reads no data and spends nothing."""
        return RemoteExplanation(self._service.post("/explain", body_of(terms)))

    def at_prices(
        self, question: str | Builder, /, parameters: Parameters = (), *, epsilons: Sequence[Number], **terms: Any
    ) -> list[RemoteExplanation]:
        """Explain a question at several prices; see `Curator.at_prices`. Spends nothing."""
        prices = [amount(epsilon, "epsilons") for epsilon in epsilons]
        body = {**body_of(QuestionTerms(question, parameters, **terms)), "epsilons": prices}
        return [RemoteExplanation(explained) for explained in self._service.post("/explain", body)["explanations"]]

    @takes(QuestionOrder)
    def ask(self, terms: QuestionOrder) -> Answer:
        """Answer a question, and charge it; see `Curator.ask`."""
        return answer_in(self._service.send("POST", "/ask", _paid(terms), accept=ANSWER))

    def dummy(self) -> RemoteDummy:
        """Return a curator that answers the same questions about made-up rows: free, and marked as made up."""
        return RemoteDummy(self)

    @takes(BoundingTerms)
    def bounding(self, terms: BoundingTerms) -> Bounding:
        """Estimate how much the bounds of a table cut, for the price of two questions; see `Curator.bounding`.

        Notes of later answers do not speak of it: the owner may write it into the policy.
        """
        from hush.curator.owner import estimate

        data_sets = self._service.get("/data")["data"]
        schemas = [_schema(data_set) for data_set in data_sets if terms.data in {None, data_set["name"]}]
        return estimate(self, schemas, terms)[1]

    # whole releases

    @takes(MarginalOrder)
    def marginals(self, terms: MarginalOrder) -> MarginalRelease:
        """Release all tables of some columns at once, and charge them; see `Curator.marginals`."""
        return cast("MarginalRelease", self._make("marginals", terms))

    @takes(MarginalTerms)
    def explain_marginals(self, terms: MarginalTerms) -> RemoteReleaseExplanation:
        """Explain `marginals`: the price, and how far off every cell would be. Spends nothing."""
        return self._explain("marginals", body_of(terms))

    @takes(SynthesisOrder)
    def synth(self, terms: SynthesisOrder) -> SyntheticRelease:
        """Release synthetic rows, and charge them; see `Curator.synth`. A service does not say how far it got."""
        return cast("SyntheticRelease", self._make("synth", terms))

    @takes(SynthesisTerms)
    def explain_synth(self, terms: SynthesisTerms) -> RemoteReleaseExplanation:
        """Explain `synth`: the price, and the noise of the rows. Spends nothing."""
        return self._explain("synth", body_of(terms))

    @takes(RangeOrder)
    def ranges(self, terms: RangeOrder) -> RangeRelease:
        """Release every interval and all quantiles of one column, and charge them; see `Curator.ranges`."""
        return cast("RangeRelease", self._make("ranges", terms))

    @takes(RangeTerms)
    def explain_ranges(self, terms: RangeTerms) -> RemoteReleaseExplanation:
        """Explain `ranges`: the price, and how far off intervals would be. Spends nothing."""
        return self._explain("ranges", body_of(terms))

    @takes_options(FitOrder)
    def fit(self, terms: FitOrder, options: dict[str, Any]) -> Any:
        """Fit a private model to the rows that SQL names, and charge it; see `Curator.fit`."""
        return self._make("fit", terms, options=options)

    @takes_options(FitTerms)
    def explain_fit(self, terms: FitTerms, options: dict[str, Any]) -> RemoteReleaseExplanation:
        """Explain `fit`: the price, and the noise of the model. Spends nothing."""
        return self._explain("fit", {**body_of(terms), "options": options})

    @takes(FamilyOrder)
    def synth_children(self, terms: FamilyOrder) -> FamilyRelease:
        """Release synthetic parents with synthetic children, each for half of the price; `Curator.synth_children`."""
        return cast("FamilyRelease", self._make("children", terms))

    @takes(FamilyTerms)
    def explain_children(self, terms: FamilyTerms) -> tuple[RemoteReleaseExplanation, RemoteReleaseExplanation]:
        """Explain `synth_children`: the prices of the parents and of the children. Spends nothing."""
        from hush.curator.synthetic_release import shared_columns

        half = positive(terms.epsilon, "epsilon") / 2
        parent, child = (
            self.explain_synth(sql, epsilon=half, max_rows=rows, data=terms.data)
            for sql, rows in ((terms.parents, 1), (terms.children, terms.max_rows))
        )
        # the service explains each part by itself, so the check of both together is made here
        shared_columns(list(parent.content["columns"]), list(child.content["columns"]), terms.number, terms.children)
        return parent, child

    def released(self, receipt: str | int) -> Any:
        """Return a whole release by its receipt. Free."""
        return _release_in(self._service.send("GET", f"/releases/{quote(str(receipt), safe='')}", accept=RELEASE))

    def record(self, event: Event, note: str, *, data: str | None = None, request: str | None = None) -> Recorded:
        """Charge an event that hush does not carry out, for example a training run, before it starts."""
        from hush.curator.model_release import Recorded

        if not isinstance(event, Event):
            raise InvalidValueError("event", got=event, allowed="an event of hush.accounting")
        body = {"event": event.to_json(), "note": note, "data": data, "request": request_id(request)}
        reply = self._service.post("/events", body)
        # exact: amounts travel as text, not as floats
        remaining = Money(epsilon=Fraction(reply["remaining"]["epsilon"]), delta=Fraction(reply["remaining"]["delta"]))
        return Recorded(event=event, note=note, receipt=reply["receipt"], remaining=remaining)

    @property
    def stream(self) -> RemoteStreams:
        """Releases that come again and again: ``stream.create(…)``, ``stream.open(name)``, ``stream.list()``."""
        return RemoteStreams(self._service)

    def _make(self, kind: str, terms: Order, **more: Any) -> Any:
        if isinstance(terms, SynthesisOrder | FamilyOrder) and terms.progress is not None:
            terms.progress("asking the service", 0.0)
        return _release_in(self._service.send("POST", f"/releases/{kind}", {**_paid(terms), **more}, accept=RELEASE))

    def _explain(self, kind: str, body: Mapping[str, Any]) -> RemoteReleaseExplanation:
        return RemoteReleaseExplanation(self._service.post(f"/releases/{kind}/explain", body))

    # what was asked, and what is left

    def answer(self, receipt: str | int) -> Answer:
        """Return the answer that was given under a receipt. Free."""
        return answer_in(self._service.send("GET", f"/answers/{quote(str(receipt), safe='')}", accept=ANSWER))

    show = answer
    """The name of this method in a local curator."""

    def budget(self) -> list[AccountView]:
        """Return the remaining budgets: the analyst's own, and those of the data sets above them."""
        return [
            AccountView(
                data=account["data"],
                analyst=account["analyst"],
                account=filter_from_json(account["state"]),
                pending=account["pending"],
                charged=filter_from_json(account["charged"]) if account["charged"] is not None else None,
            )
            for account in self._service.get("/budget")["accounts"]
        ]

    def history(self, limit: int | None = None) -> list[Release]:
        """Return the analyst's questions with their prices, newest first."""
        path = "/history" if limit is None else f"/history?limit={quote(str(limit))}"
        return [Release(**release) for release in self._service.get(path)["releases"]]

    def tables(self) -> dict[str, dict[str, str]]:
        """Return the columns that can be asked about, by table."""
        return {
            table["name"]: {column["name"]: column["type"] for column in table["columns"]}
            for data_set in self._service.get("/data")["data"]
            for table in data_set["tables"]
        }

    def request(self, *, epsilon: Number, reason: str = "", data: str | None = None) -> ParkedQuestion:
        """Ask the owner for a larger budget: ``epsilon`` is its new total. Spends nothing; see `Curator.request`."""
        body = {"epsilon": amount(epsilon, "epsilon"), "reason": reason, "data": data}
        return ParkedQuestion(**self._service.post("/requests", body))

    def requests(self) -> list[ParkedQuestion]:
        """Return the requests to the owner, newest first: the analyst's own, or for an owner all requests."""
        return [ParkedQuestion(**request) for request in self._service.get("/requests")["requests"]]

    def decide(self, number: int, *, approve: bool, reason: str = "") -> ParkedQuestion:
        """Approve or decline a request, as an owner with a token for it; see `Ledger.decide`."""
        body = {"approve": approve, "reason": reason}
        return ParkedQuestion(**self._service.post(f"/requests/{quote(str(number), safe='')}/decision", body))

    def close(self) -> None:
        """Close all connections; nothing can be asked any more."""
        self._service.close()

    def __repr__(self) -> str:
        """Return analyst, service, tables and budgets, line by line; only the first line where no service answers."""
        head = f"<{type(self).__name__} of {self.analyst} at {self._service.host}"
        try:
            lines = [f"{head}: {', '.join(self.tables())}>", *(f"  {view}" for view in self.budget())]
        except HushError as error:
            lines = [f"{head}> ({error})"]
        return "\n".join(map(visible, lines))


class RemoteDummy(_Asker):
    """Answers questions about made-up rows of a service. It closes with the curator it came from."""

    def __init__(self, curator: RemoteCurator) -> None:
        self._service = curator._service  # noqa: SLF001 - of one module
        self.explain = curator.explain

    @takes(QuestionOrder)
    def ask(self, terms: QuestionOrder) -> Answer:
        """Answer a question about made-up rows; the terms of payment are ignored."""
        body = body_of(QuestionTerms(**terms.explained()))
        return answer_in(self._service.send("POST", "/dummy", body, accept=ANSWER))


def _paid(terms: Terms) -> dict[str, Any]:
    """Return the body of a request that is charged: with an id, so that it is paid once however often it is sent."""
    body = body_of(terms)
    return {**body, "request": request_id(body.get("request"))}


def _release_in(response: Response) -> Any:
    from hush.curator.curator import release_of
    from hush.curator.kept_release import unpacked

    head, measurements = unpacked(response.body)
    assert head is not None  # noqa: S101 - a service sends releases with their heads
    headers = response.headers
    receipt, remaining, spending = headers.get("hush-receipt", ""), remaining_in(headers), spending_in(headers)
    return release_of(head, measurements, receipt=receipt, remaining=remaining, spending=spending)


def _schema(public: Mapping[str, Any]) -> Schema:
    """Return the schema of a data set with the fields that `bounding` needs: columns, unit and bounds."""
    unit = None if public["unit"] is None else UnitPath(column=public["unit"])
    tables = {
        table["name"]: Table(
            name=table["name"],
            columns={column["name"]: Type(Kind(column["type"])) for column in table["columns"]},
            public=table["public"],
            unit=None if table["public"] else unit,
            max_rows=table.get("max_rows", 1),
            max_groups=table.get("max_groups", 1),
        )
        for table in public["tables"]
    }
    return Schema(data=public["name"], tables=tables, unit=public["unit"])


# explanations


@dataclass(frozen=True, slots=True, repr=False)
class _RemotePrice(ToldInLines):
    """The common part of all explanations from a service: price, caveats and lines."""

    content: Mapping[str, Any] = field(repr=False)

    @property
    def price(self) -> Money:
        """The price, item by item."""
        return Money.from_json(self.content["exact"])

    @property
    def caveats(self) -> tuple[str, ...]:
        """The facts that a reader must know, for example causes of bias."""
        return tuple(self.content["caveats"])

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        return list(self.content["lines"])

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        # these fields are for this class alone; without them the JSON equals a local explanation's
        return {name: value for name, value in self.content.items() if name not in {"exact", "drawable", "lines"}}


@dataclass(frozen=True, slots=True, repr=False)
class RemoteExplanation(_RemotePrice):
    """The price of a question and the half-widths of its answers, as a service states them."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that an accountant would charge."""
        return tuple(event_from_json(event) for event in self.content["events"])

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        return str(self.content["keys"])

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance; None where it depends on the data."""
        return dict(self.content["errors"])

    def errors_if_settled(self) -> dict[str, float]:
        """Return half-widths for rows in which noise cannot have decided HAVING, for outputs with HAVING over noise."""
        return dict(self.content["errors_if_settled"])

    def errors_times_rows(self) -> dict[str, float]:
        """Return for each average about the largest half-width times the number of rows in the group."""
        return dict(self.content["errors_times_rows"])

    def rows_off(self) -> dict[str, float]:
        """Return for each quantile about how many rows it is off."""
        return dict(self.content["rows_off"])

    def rows_needed(self) -> dict[str, float]:
        """Return for each quantile about how many rows a group needs; with fewer, the quantile may be any value."""
        return dict(self.content["rows_needed"])

    def drawable(self) -> bool:
        """Return whether the answer can be drawn."""
        return bool(self.content["drawable"])


@dataclass(frozen=True, slots=True, repr=False)
class RemoteReleaseExplanation(_RemotePrice):
    """The price of a whole release and its errors, as a service states them."""

    @property
    def event(self) -> Event:
        """The event that an accountant would charge for a model."""
        return event_from_json(self.content["event"])

    def errors(self) -> dict[Any, float]:
        """Return half-widths or deviations: by table, by column, or by the length of an interval."""
        from hush.curator.kept_release import errors_in

        return errors_in(self.content)


# streams


class RemoteStreams:
    """The streams at a service that one may read: one's own running totals, and declared ones."""

    def __init__(self, service: Connection) -> None:
        self._service = service

    def names(self) -> list[str]:
        """Return the names of the streams."""
        return [view.name for view in self.list()]

    def list(self) -> list[StreamView]:
        """Return the streams, declared ones with every period. Free."""
        return [_view(content) for content in self._service.get("/streams")["streams"]]

    def open(self, name: str) -> RemoteStream:
        """Return a stream by its name: one's own, else a declared one."""
        from hush.curator.stream_states import StreamError

        names = self.names()
        if name.casefold() not in map(str.casefold, names):
            raise StreamError(f"There is no stream {name!r}; there are: {', '.join(names) or 'none yet'}.")
        return RemoteStream(self._service, name)

    @takes(TotalsTerms)
    def explain(self, terms: TotalsTerms) -> dict[str, Any]:
        """Explain `create`: the price, and how far off days, weeks and totals would be. Spends nothing."""
        return self._service.post("/streams/explain", body_of(terms))

    @takes(TotalsOrder)
    def create(self, order: TotalsOrder) -> RemoteStream:
        """Create running totals and charge their whole life; see `hush.curator.streams.Streams.create`."""
        return RemoteStream(self._service, self._service.post("/streams", _paid(order))["name"])

    def explain_declaration(self, question: str, **terms: Any) -> dict[str, Any]:
        """Explain `declare`: the price that it would set aside, for an owner's token. Sets nothing aside."""
        return self._service.post("/streams/declared/explain", _declaration(question, terms))

    def declare(self, question: str, **terms: Any) -> StreamView:
        """Set aside the price of a stream, as an owner with a token for it.

        The terms are those of ``[streams.NAME]`` in a policy: ``name``, ``epsilon`` (or ``total_epsilon`` or
        ``rho``), ``every``, ``first``, ``releases``, ``confidence``, ``late``, ``readers``, ``data``.
        """
        return _view(self._service.post("/streams/declared", _declaration(question, terms)))

    def stop(self, name: str, reason: str = "") -> None:
        """Make no further release of a declared stream, as an owner with a token for it."""
        self._service.send("DELETE", f"/streams/declared/{quote(name, safe='')}?reason={quote(reason, safe='')}")


class RemoteStream:
    """One stream at a service."""

    def __init__(self, service: Connection, name: str) -> None:
        self._service, self.name = service, name
        self._path = f"/streams/{quote(name, safe='')}"

    @property
    def view(self) -> StreamView:
        """The question, the price and the progress."""
        return _view(self._service.get(self._path))

    @property
    def released(self) -> int:
        """How many periods were released."""
        return self.view.released

    @property
    def receipt(self) -> str | None:
        """The receipt of the newest release, or of the one charge for running totals."""
        return self.view.receipt

    def advance(self, through: object = None) -> int:
        """Release all periods of running totals that are over and were not released; return how many there are now."""
        last = through if through is None or type(through) is int else str(through)
        while True:  # a service releases one part of bounded work for each request
            reply = self._service.post(f"{self._path}/advance", {"through": last})
            if not reply["due"]:
                return int(reply["released"])

    def stop(self) -> None:
        """Stop running totals: nothing more will be released, and nothing is refunded."""
        self._service.send("DELETE", self._path)

    def release(self, period: str = "latest") -> Answer:
        """Return the release of a date ("2026-11-16"), the latest, or all releases in one table. Free."""
        return answer_in(self._service.send("GET", f"{self._path}/{quote(period, safe='')}", accept=ANSWER))

    @property
    def answer(self) -> Answer:
        """All releases in one table."""
        return self.release("all")

    @property
    def table(self) -> Any:
        """The same as a pyarrow.Table."""
        return self.answer.table

    def to_json(self) -> dict[str, Any]:
        """Return the stream as plain JSON values, with all that was released."""
        return {**self.view.to_json(), **self.answer.to_json()}

    def __repr__(self) -> str:
        return f"<stream {self.name!r}, {self.released} periods released>"


def _view(content: Mapping[str, Any]) -> StreamView:
    from hush.curator.declared_streams import StreamView

    return StreamView.from_json(content)


def request_id(request: str | None) -> str:
    """Return the asker's own id, or a new one: a request that is sent again with its id is paid once."""
    return uuid.uuid4().hex if request is None else label(request, "request")


def _declaration(question: str, terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a declaration, as plain JSON values with exact numbers."""
    exact = {"epsilon", "total_epsilon", "rho", "confidence", "delta"}
    body = {name: amount(value, name) if name in exact else value for name, value in terms.items() if value is not None}
    if isinstance(body.get("late"), str):
        body["late"] = body["late"] != "skip"
    if "first" in body:
        body["first"] = str(body["first"])
    return {"question": question, **body}
