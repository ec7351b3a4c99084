"""The curator of a client: what is asked of it goes to a service, and what comes back is what a local one returns."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from hush.accounting.filters import filter_from_json
from hush.client.explanation import RemoteExplanation
from hush.client.releases import RemoteReleases
from hush.client.transport import Connection, amount, answer_in, question_body
from hush.core import InvalidValueError, Number
from hush.curator.access import Parameters
from hush.curator.answer import Answer
from hush.curator.standing import StandingView
from hush.ledger import AccountView, ParkedQuestion, Release
from hush.ledger.actors import label
from hush.query.builder import Builder
from hush.query.builder import table as start
from hush.query.errors import UnknownTableError, did_you_mean
from hush.query.schema import Schema, Table, UnitPath
from hush.query.types import Kind, Type

if TYPE_CHECKING:
    from hush.curator.bounding import Bounding

_STORED = "application/vnd.hush.answer+json"


class RemoteCurator(RemoteReleases):
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

    # asking

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table; finish it with ``.ask(epsilon=…)`` or ``.explain(epsilon=…)``."""
        return start(name, alias, asker=self)

    def explain(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        epsilon: Number | None = None,
        accuracy: Number | tuple[Number, Number] | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        data: str | None = None,
        max_rows: int | None = None,
        max_groups: int | None = None,
        keys: str | None = None,
        dialect: str = "duckdb",
    ) -> RemoteExplanation:
        """Say what a question would cost and how accurate it would be. Reads no data and spends nothing."""
        body = question_body(
            question,
            parameters,
            epsilon=epsilon,
            accuracy=accuracy,
            delta=delta,
            confidence=confidence,
            data=data,
            max_rows=max_rows,
            max_groups=max_groups,
            keys=keys,
            dialect=dialect,
        )
        return RemoteExplanation(self._post("/explain", body))

    def ask(
        self,
        question: str | Builder,
        /,
        parameters: Parameters = (),
        *,
        epsilon: Number | None = None,
        accuracy: Number | tuple[Number, Number] | None = None,
        delta: Number | None = None,
        confidence: Number | None = None,
        data: str | None = None,
        request: str | None = None,
        max_rows: int | None = None,
        max_groups: int | None = None,
        keys: str | None = None,
        fresh: bool = False,
        reason: str = "",
        dialect: str = "duckdb",
    ) -> Answer:
        """Answer a question, and charge it; see `Curator.ask`."""
        body = question_body(
            question,
            parameters,
            epsilon=epsilon,
            accuracy=accuracy,
            delta=delta,
            confidence=confidence,
            data=data,
            max_rows=max_rows,
            max_groups=max_groups,
            keys=keys,
            dialect=dialect,
        )
        if not isinstance(fresh, bool):
            raise InvalidValueError("fresh", got=fresh, allowed="True or False")
        if not isinstance(reason, str):
            raise InvalidValueError("reason", got=reason, allowed="a text")
        body["request"] = uuid.uuid4().hex if request is None else label(request, "request")
        return answer_in(self._service.send("POST", "/ask", {**body, "fresh": fresh, "reason": reason}, accept=_STORED))

    def dummy(self) -> RemoteDummy:
        """Return what answers the same questions about made-up rows: free, and marked as such."""
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
        from hush.curator.bounding import estimate

        schemas = [_schema(told) for told in self._get("/data")["data"] if data in {None, told["name"]}]
        schema = next((schema for schema in schemas if table in schema.tables), None)
        if schema is None:
            known = [name for schema in schemas for name, held in schema.tables.items() if not held.public]
            raise UnknownTableError(f"There is no table {table!r}.", did_you_mean(str(table), known))
        return estimate(self, schema, table, by=by, epsilon=epsilon, quantile=quantile)

    # reading

    def answer(self, receipt: str | int) -> Answer:
        """Return the answer that was given under a receipt. Free."""
        response = self._service.send("GET", f"/answers/{quote(str(receipt), safe='')}", accept=_STORED)
        return replace(Answer.from_bytes(response.body), receipt=str(receipt))

    show = answer
    """The name that it has at a local curator."""

    def budget(self) -> list[AccountView]:
        """Return what is left: the analyst's budgets, and those of the data sets above them."""
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
        """Return the analyst's questions and what they cost, newest first."""
        found = self._get("/history" if limit is None else f"/history?limit={quote(str(limit))}")
        return [Release(**release) for release in found["releases"]]

    def request(self, *, epsilon: Number, reason: str = "", data: str | None = None) -> ParkedQuestion:
        """Ask the owner for a larger budget: ``epsilon`` is its new total. Spends nothing; see `Curator.request`."""
        body = {"epsilon": amount(epsilon, "epsilon"), "reason": reason, "data": data}
        return ParkedQuestion(**self._post("/requests", body))

    def requests(self) -> list[ParkedQuestion]:
        """Return what waits, or waited, for the owner, newest first: an analyst's own; to an owner everybody's."""
        return [ParkedQuestion(**request) for request in self._get("/requests")["requests"]]

    def decide(self, number: int, *, approve: bool, reason: str = "") -> ParkedQuestion:
        """Approve or decline a request, as an owner with a token for it; see `Ledger.decide`."""
        body = {"approve": approve, "reason": reason}
        return ParkedQuestion(**self._post(f"/requests/{quote(str(number), safe='')}/decision", body))

    def standing(self) -> list[StandingView]:
        """Return the standing questions that one may read, with every period of each. Free."""
        return [StandingView.from_json(view) for view in self._get("/standing")["standing"]]

    def standing_answer(self, name: str, period: str = "latest") -> Answer:
        """Return a release of a standing question by its period, such as "2026-11-16", or the latest. Free."""
        path = f"/standing/{quote(str(name), safe='')}/{quote(str(period), safe='')}"
        return answer_in(self._service.send("GET", path, accept=_STORED))

    def explain_standing(self, question: str, **words: Any) -> dict[str, Any]:
        """Say what a standing question would cost, as an owner with a token for it; words as for `declare_standing`."""
        return self._post("/standing/explain", _standing_body(question, words))

    def declare_standing(self, question: str, **words: Any) -> StandingView:
        """Set aside what a standing question costs, as an owner with a token for it.

        The words are those of ``[standing.NAME]`` in a policy: ``name``, ``epsilon`` (or ``total_epsilon`` or
        ``rho``), ``every``, ``first``, ``releases``, ``confidence``, ``late``, ``readers``, ``data``.
        """
        return StandingView.from_json(self._post("/standing", _standing_body(question, words)))

    def end_standing(self, name: str, reason: str = "") -> None:
        """Make no further release of a standing question, as an owner with a token for it."""
        self._service.send("DELETE", f"/standing/{quote(str(name), safe='')}?reason={quote(reason, safe='')}")

    def tables(self) -> dict[str, dict[str, str]]:
        """Return the columns that can be asked about, by table."""
        return {
            table["name"]: {column["name"]: column["type"] for column in table["columns"]}
            for data_set in self._get("/data")["data"]
            for table in data_set["tables"]
        }

    # as long as it is open

    def close(self) -> None:
        """Let go of all connections; nothing can be asked any more."""
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, path: str) -> dict[str, Any]:
        return self._service.send("GET", path).json()

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._service.send("POST", path, body).json()


def _standing_body(question: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """Return a standing question as it travels."""
    exact = {"epsilon", "total_epsilon", "rho", "confidence", "delta"}
    told = {name: amount(word, name) if name in exact else word for name, word in words.items() if word is not None}
    if "late" in told and isinstance(told["late"], str):
        told["late"] = told["late"] != "skip"
    if "first" in told:
        told["first"] = str(told["first"])
    return {"question": question, **told}


class RemoteDummy:
    """Answers questions about made-up rows of a service. It closes with the curator it came from."""

    def __init__(self, curator: RemoteCurator) -> None:
        self._curator = curator
        self.explain = curator.explain

    def table(self, name: str, alias: str | None = None) -> Builder:
        """Start a question about a table."""
        return start(name, alias, asker=self)

    def ask(self, question: str | Builder, /, parameters: Parameters = (), **terms: Any) -> Answer:
        """Answer a question about made-up rows."""
        paid = {"request", "fresh"}  # mean nothing where nothing is paid
        body = question_body(question, parameters, **{name: term for name, term in terms.items() if name not in paid})
        return answer_in(self._curator._service.send("POST", "/dummy", body, accept=_STORED))  # noqa: SLF001 - of one module

    def close(self) -> None:
        """Do nothing: the connection is the curator's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


def _schema(told: Mapping[str, Any]) -> Schema:
    """Return what a service says of a data set as far as bounds are about it."""
    unit = None if told["unit"] is None else UnitPath(column=told["unit"])
    tables = {
        table["name"]: Table(
            name=table["name"],
            columns={column["name"]: Type(Kind(column["type"])) for column in table["columns"]},
            public=table["public"],
            unit=None if table["public"] else unit,
            max_rows=table.get("max_rows", 1),
            max_groups=table.get("max_groups", 1),
        )
        for table in told["tables"]
    }
    return Schema(data=told["name"], tables=tables, unit=told["unit"])
