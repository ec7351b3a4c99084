"""The curator of a client: each method sends a request to a service, and returns the same as a local curator.

Releases come as the ledger keeps them: noisy measurements with their public head. From these the client makes tables,
synthetic rows, ranges and models, so that conditions, roll-ups, more rows and files need no further request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from hush.accounting.events import Event
from hush.accounting.filters import filter_from_json
from hush.client.explanation import RemoteExplanation, RemoteReleaseExplanation
from hush.client.streams import RemoteStreams, request_id
from hush.client.transport import ANSWER, RELEASE, Connection, Response, amount, answer_in, body_of, remaining_in
from hush.core import InvalidValueError, Number, positive
from hush.curator.answer import Answer, Money
from hush.curator.terms import (
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
    takes,
    takes_options,
)
from hush.ledger import AccountView, ParkedQuestion, Release
from hush.query.builder import Builder
from hush.query.builder import table as start
from hush.query.errors import UnknownTableError, did_you_mean
from hush.query.schema import Schema, Table, UnitPath
from hush.query.types import Kind, Type

if TYPE_CHECKING:
    from hush.curator.marginal_release import MarginalRelease
    from hush.curator.model_release import Recorded
    from hush.curator.owner import Bounding
    from hush.curator.range_release import RangeRelease
    from hush.curator.synthetic_release import FamilyRelease, SyntheticRelease


class RemoteCurator:
    """Asks a service. It has the methods of a `Curator`; use it from any thread.

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
            self.analyst = str(self._get("/me")["name"])
            """Who asks."""
        except BaseException:
            self.close()
            raise

    # questions

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table; finish it with ``.ask(epsilon=…)`` or ``.explain(epsilon=…)``."""
        return start(name, alias, asker=self)

    @takes(QuestionTerms)
    def explain(self, terms: QuestionTerms) -> RemoteExplanation:
        """Explain a question: its price and how accurate its answer would be. Reads no data and spends nothing."""
        return RemoteExplanation(self._post("/explain", body_of(terms)))

    def at_prices(
        self, question: str | Builder, /, parameters: Parameters = (), *, epsilons: Sequence[Number], **terms: Any
    ) -> list[RemoteExplanation]:
        """Explain a question at several prices; see `Curator.at_prices`. Spends nothing."""
        body = body_of(QuestionTerms(question, parameters, **terms))
        prices = [amount(epsilon, "epsilons") for epsilon in epsilons]
        return [
            RemoteExplanation(explained)
            for explained in self._post("/explain", {**body, "epsilons": prices})["explanations"]
        ]

    @takes(QuestionOrder)
    def ask(self, terms: QuestionOrder) -> Answer:
        """Answer a question, and charge it; see `Curator.ask`."""
        return answer_in(self._service.send("POST", "/ask", _paid(terms), accept=ANSWER))

    def dummy(self) -> RemoteDummy:
        """Return a curator that answers the same questions about made-up rows: free, and marked as made up."""
        return RemoteDummy(self)

    def bounding(
        self,
        table: str,
        *,
        by: str | None = None,
        epsilon: Number,
        quantile: Number | None = None,
        data: str | None = None,
    ) -> Bounding:
        """Estimate how much the bounds of a table cut, for the price of two questions; see `Curator.bounding`.

        Notes of later answers do not speak of it: the owner may write it into the policy.
        """
        from hush.curator.owner import estimate

        schemas = [_schema(public) for public in self._get("/data")["data"] if data in {None, public["name"]}]
        schema = next((schema for schema in schemas if table in schema.tables), None)
        if schema is None:
            private = [name for schema in schemas for name, table_ in schema.tables.items() if not table_.public]
            raise UnknownTableError(f"There is no table {table!r}.", did_you_mean(str(table), private))
        return estimate(self, schema, table, by=by, epsilon=epsilon, quantile=quantile)

    # whole releases

    @takes(MarginalOrder)
    def marginals(self, terms: MarginalOrder) -> MarginalRelease:
        """Release all tables of some columns at once, and charge them; see `Curator.marginals`."""
        release: MarginalRelease = self._make("marginals", terms)
        return release

    @takes(MarginalTerms)
    def explain_marginals(self, terms: MarginalTerms) -> RemoteReleaseExplanation:
        """Explain `marginals`: the price, and how far off every cell would be. Spends nothing."""
        return self._explain("marginals", body_of(terms))

    @takes(SynthesisOrder)
    def synth(self, terms: SynthesisOrder) -> SyntheticRelease:
        """Release synthetic rows, and charge them; see `Curator.synth`. A service does not say how far it got."""
        if terms.progress is not None:
            terms.progress("asking the service", 0.0)
        release: SyntheticRelease = self._make("synth", terms)
        return release

    @takes(SynthesisTerms)
    def explain_synth(self, terms: SynthesisTerms) -> RemoteReleaseExplanation:
        """Explain `synth`: the price, and the noise of the rows. Spends nothing."""
        return self._explain("synth", body_of(terms))

    @takes(RangeOrder)
    def ranges(self, terms: RangeOrder) -> RangeRelease:
        """Release every interval and all quantiles of one column, and charge them; see `Curator.ranges`."""
        release: RangeRelease = self._make("ranges", terms)
        return release

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
        if terms.progress is not None:
            terms.progress("asking the service", 0.0)
        release: FamilyRelease = self._make("children", terms)
        return release

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
        receipt = self._post("/events", body)
        # exact: amounts travel as text, not as floats
        epsilon, delta = (Fraction(receipt["remaining"][name]) for name in ("epsilon", "delta"))
        remaining = Money(epsilon=epsilon, delta=delta)
        return Recorded(event=event, note=note, receipt=receipt["receipt"], remaining=remaining)

    @property
    def stream(self) -> RemoteStreams:
        """Releases that come again and again: ``stream.create(…)``, ``stream.open(name)``, ``stream.list()``."""
        return RemoteStreams(self._service)

    def _make(self, kind: str, terms: Order, **more: Any) -> Any:
        return _release_in(self._service.send("POST", f"/releases/{kind}", {**_paid(terms), **more}, accept=RELEASE))

    def _explain(self, kind: str, body: Mapping[str, Any]) -> RemoteReleaseExplanation:
        return RemoteReleaseExplanation(self._post(f"/releases/{kind}/explain", body))

    # what was asked, and what is left

    def answer(self, receipt: str | int) -> Answer:
        """Return the answer that was given under a receipt. Free."""
        response = self._service.send("GET", f"/answers/{quote(str(receipt), safe='')}", accept=ANSWER)
        return replace(Answer.from_bytes(response.body), receipt=str(receipt))

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
            for account in self._get("/budget")["accounts"]
        ]

    def history(self, limit: int | None = None) -> list[Release]:
        """Return the analyst's questions with their prices, newest first."""
        path = "/history" if limit is None else f"/history?limit={quote(str(limit))}"
        return [Release(**release) for release in self._get(path)["releases"]]

    def tables(self) -> dict[str, dict[str, str]]:
        """Return the columns that can be asked about, by table."""
        return {
            table["name"]: {column["name"]: column["type"] for column in table["columns"]}
            for data_set in self._get("/data")["data"]
            for table in data_set["tables"]
        }

    def request(self, *, epsilon: Number, reason: str = "", data: str | None = None) -> ParkedQuestion:
        """Ask the owner for a larger budget: ``epsilon`` is its new total. Spends nothing; see `Curator.request`."""
        body = {"epsilon": amount(epsilon, "epsilon"), "reason": reason, "data": data}
        return ParkedQuestion(**self._post("/requests", body))

    def requests(self) -> list[ParkedQuestion]:
        """Return the requests to the owner, newest first: the analyst's own, or for an owner all requests."""
        return [ParkedQuestion(**request) for request in self._get("/requests")["requests"]]

    def decide(self, number: int, *, approve: bool, reason: str = "") -> ParkedQuestion:
        """Approve or decline a request, as an owner with a token for it; see `Ledger.decide`."""
        body = {"approve": approve, "reason": reason}
        return ParkedQuestion(**self._post(f"/requests/{quote(str(number), safe='')}/decision", body))

    def close(self) -> None:
        """Close all connections; nothing can be asked any more."""
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, path: str) -> dict[str, Any]:
        return self._service.send("GET", path).json()

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._service.send("POST", path, body).json()


class RemoteDummy:
    """Answers questions about made-up rows of a service. It closes with the curator it came from."""

    def __init__(self, curator: RemoteCurator) -> None:
        self._service = curator._service  # noqa: SLF001 - of one module
        self.explain = curator.explain

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table."""
        return start(name, alias, asker=self)

    @takes(QuestionOrder)
    def ask(self, terms: QuestionOrder) -> Answer:
        """Answer a question about made-up rows; the terms of payment are ignored."""
        body = body_of(QuestionTerms(**terms.explained()))
        return answer_in(self._service.send("POST", "/dummy", body, accept=ANSWER))

    def close(self) -> None:
        """Do nothing: the connection is the curator's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


def _paid(terms: Terms) -> dict[str, Any]:
    """Return the body of a request that is charged: with an id, so that it is paid once however often it is sent."""
    body = body_of(terms)
    return {**body, "request": request_id(body.get("request"))}


def _release_in(response: Response) -> Any:
    """Return the release in a response."""
    from hush.curator.curator import release_of
    from hush.curator.kept_release import unpacked

    head, measurements = unpacked(response.body)
    assert head is not None  # noqa: S101 - a service sends releases with their heads
    receipt = response.headers.get("hush-receipt", "")
    return release_of(head, measurements, receipt=receipt, remaining=remaining_in(response.headers))


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
