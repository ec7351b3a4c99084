"""A curator that lives elsewhere: ``hush.connect("https://…", token=…)`` asks a service as one asks a local curator.

The same methods take the same arguments, return the same `Answer`, `AccountView` and `Release`, and raise the same
errors with the same texts. Only the standard library is needed for the way there.

**Nothing is paid twice.** Every question goes with a request id, its own or the asker's. Should the connection break,
the same id is sent again, and the service gives the answer that was paid for. A service that is busy is asked again
later, for a while.

**Nothing travels in the clear.** A token goes over https, or to this very machine.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from html import escape
from ipaddress import ip_address
from typing import Any, Self
from urllib.parse import quote, urlsplit

from hush.accounting.events import Event, event_from_json
from hush.accounting.filters import filter_from_json
from hush.core import BudgetExceededError, HushError, InvalidValueError, Number, OffGridError, PrecisionError, exact
from hush.core.format import visible
from hush.curator.access import ClosedError, ForkedError, Parameters
from hush.curator.answer import Answer, Money
from hush.engines.errors import EngineError, SourceError
from hush.ledger import AccountView, Release
from hush.ledger import errors as ledger_errors
from hush.ledger.actors import label
from hush.ledger.shares import Spending
from hush.query.builder import Builder
from hush.query.builder import table as start
from hush.query.errors import QuestionError, UnboundedError
from hush.query.plan import UnplannableError
from hush.query.sql.parameters import Binder
from hush.query.wire import to_wire

_STORED = "application/vnd.hush.answer+json"
_TRIES = 4
"""How often a request is sent before its failure is told."""
_PATIENCE = 60.0
"""How long a busy service is asked again, in seconds."""


class RemoteError(HushError):
    """The service cannot be reached, or refuses in a way that a local curator has not."""

    code = "remote"


class RemoteCurator:
    """Asks a service. It has the methods of a `Curator`; use it from any thread."""

    def __init__(self, address: str, *, token: str, timeout: float = 300.0, certificates: str | None = None) -> None:
        """``certificates`` is a file of authorities to be trusted instead of the system's; ``timeout`` in seconds."""
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise InvalidValueError("address", got=address, allowed="a URL such as https://hush.example")
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            hint = "A token that travels in the clear is anybody's."
            raise InvalidValueError("address", got=address, allowed="an https:// URL beyond this machine", hint=hint)
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
            raise InvalidValueError("token", got="something else", allowed="the text that the service showed once")
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = ssl.create_default_context(cafile=certificates) if parts.scheme == "https" else None
        self._token, self._timeout = token, timeout
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._closed = False
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
        body = _question(
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
        body = _question(
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
        return _answer(self._send("POST", "/ask", {**body, "fresh": fresh, "reason": reason}, accept=_STORED))

    def dummy(self) -> RemoteDummy:
        """Return what answers the same questions about made-up rows: free, and marked as such."""
        return RemoteDummy(self)

    # reading

    def answer(self, receipt: str | int) -> Answer:
        """Return the answer that was given under a receipt. Free."""
        response = self._send("GET", f"/answers/{quote(str(receipt), safe='')}", accept=_STORED)
        return replace(Answer.from_bytes(response.body), receipt=str(receipt))

    def budget(self) -> list[AccountView]:
        """Return what is left: the analyst's budgets, and those of the data sets above them."""
        return [
            AccountView(
                data=account["data"],
                analyst=account["analyst"],
                account=filter_from_json(account["state"]),
                pending=account["pending"],
            )
            for account in self._get("/budget")["accounts"]
        ]

    def history(self, limit: int | None = None) -> list[Release]:
        """Return the analyst's questions and what they cost, newest first."""
        found = self._get("/history" if limit is None else f"/history?limit={quote(str(limit))}")
        return [Release(**release) for release in found["releases"]]

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
        self._closed = True
        for connection in self._connections:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # the way there

    def _get(self, path: str) -> dict[str, Any]:
        return self._send("GET", path).json()

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._send("POST", path, body).json()

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, accept: str = "application/json"
    ) -> _Response:
        """Send a request, again if need be, and return the response; a refusal is raised as a local curator would."""
        if self._closed:
            raise ClosedError
        headers = {"Authorization": f"Bearer {self._token}", "Accept": accept}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, allow_nan=False).encode()
        until, failures = time.monotonic() + _PATIENCE, 0
        while True:
            try:
                response = self._once(method, path, content, headers)
            except (OSError, http.client.HTTPException) as error:
                self._drop()
                failures += 1
                if isinstance(error, ssl.SSLCertVerificationError) or failures >= _TRIES:
                    raise RemoteError(f"The service at {self._host} cannot be reached: {_why(error)}.") from None
                if failures > 1:  # a connection that was idle for long is simply opened again
                    time.sleep(0.1 * 2**failures)
                continue
            if response.status < 400:
                return response
            wait = response.headers.get("retry-after", "")
            if response.status in {429, 503} and wait.isdigit() and time.monotonic() + int(wait) < until:
                time.sleep(int(wait))
                continue
            raise _refusal(response)

    def _once(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> _Response:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = (
                http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
                if self._tls is None
                else http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
            )
            self._connections.append(connection)
        connection.request(method, f"{self._path}/api/v1{path}", content, dict(headers))
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return _Response(status=answer.status, headers=named, body=answer.read())

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._connections.remove(connection)
            self._local.connection = None


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
        body = _question(question, parameters, **{name: term for name, term in terms.items() if name not in paid})
        return _answer(self._curator._send("POST", "/dummy", body, accept=_STORED))  # noqa: SLF001 - of one module

    def close(self) -> None:
        """Do nothing: the connection is the curator's."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True, repr=False)
class RemoteExplanation:
    """What a question would cost and how far off its answers would be, as a service says it."""

    content: Mapping[str, Any] = field(repr=False)

    @property
    def price(self) -> Money:
        """What it costs, item by item."""
        told = self.content["exact"]
        items = tuple((what, Fraction(epsilon), Fraction(delta)) for what, epsilon, delta in told["items"])
        return Money(epsilon=Fraction(told["epsilon"]), delta=Fraction(told["delta"]), items=items)

    @property
    def events(self) -> tuple[Event, ...]:
        """What an accountant would be told."""
        return tuple(event_from_json(event) for event in self.content["events"])

    @property
    def caveats(self) -> tuple[str, ...]:
        """What can bias the answers."""
        return tuple(self.content["caveats"])

    @property
    def keys(self) -> str:
        """Where the group keys come from."""
        return str(self.content["keys"])

    def errors(self) -> dict[str, float | None]:
        """Return each noisy number's half-width where it is known in advance; None where it depends on the data."""
        return dict(self.content["errors"])

    def errors_if_settled(self) -> dict[str, float]:
        """Return half-widths where HAVING may show rows that noise lifted: those of rows that it cannot have."""
        return dict(self.content["errors_if_settled"])

    def errors_times_rows(self) -> dict[str, float]:
        """Return for each average what its half-width is at most, about, times the number of rows in the group."""
        return dict(self.content["errors_times_rows"])

    def rows_off(self) -> dict[str, float]:
        """Return for each quantile about how many rows it is off."""
        return dict(self.content["rows_off"])

    def rows_needed(self) -> dict[str, float]:
        """Return for each quantile about how many rows it takes; of fewer it may be anything."""
        return dict(self.content["rows_needed"])

    def drawable(self) -> bool:
        """Return whether the answer can be drawn."""
        return bool(self.content["drawable"])

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as plain JSON values."""
        return {name: value for name, value in self.content.items() if name not in {"exact", "drawable", "lines"}}

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        return list(self.content["lines"])

    def __str__(self) -> str:
        return "\n".join(map(visible, self.lines()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def connect(address: str, *, token: str, timeout: float = 300.0, certificates: str | None = None) -> RemoteCurator:
    """Return a curator that asks a service, as ``hush serve`` runs one.

    Parameters
    ----------
    address
        Where it is, such as ``https://hush.example``; ``http://`` only on this machine.
    token
        The text that the service showed once when the token was made.
    timeout
        How long to wait for a response, in seconds.
    certificates
        A file of certificates to be trusted, where the service's own is not signed by a known authority.
    """
    return RemoteCurator(address, token=token, timeout=timeout, certificates=certificates)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Response:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        try:
            content = json.loads(self.body)
        except ValueError:
            raise RemoteError("What answers at this address is not a hush service.") from None
        if not isinstance(content, dict):
            raise RemoteError("What answers at this address is not a hush service.")
        return content


def _answer(response: _Response) -> Answer:
    """Return the answer in a response: what the ledger keeps, and what stands beside it."""
    told, left = response.headers, None
    if "hush-remaining" in told:
        epsilon, delta = map(Fraction, told["hush-remaining"].split())
        left = Money(epsilon=epsilon, delta=delta)
    return replace(
        Answer.from_bytes(response.body),
        receipt=told.get("hush-receipt", ""),
        remaining=left,
        spending=_spending(told.get("hush-spending")),
        made_up="hush-made-up" in told,
        repeated=told.get("hush-repeated", ""),
        shared="hush-shared" in told,
    )


def _spending(told: str | None) -> Spending | None:
    if told is None:
        return None
    whose, took, left = json.loads(told)
    return Spending(whose=whose, took=Fraction(took), left=Fraction(left))


def _question(question: str | Builder, parameters: Parameters, **terms: Any) -> dict[str, Any]:
    """Return a question and its terms as they travel."""
    if isinstance(question, Builder):
        from hush.query.sql.building import tree

        text, parameters = str(question), tree(question.steps)[1]
    elif isinstance(question, str):
        text = question
    else:
        raise InvalidValueError("question", got=question, allowed="SQL as text, or a question built with table(…)")
    Binder(parameters)  # refuses what is neither a list nor a mapping
    body: dict[str, Any] = {"question": text, "parameters": to_wire(parameters)}
    for name, value in terms.items():
        if value is None:
            continue
        if name == "dialect" and value == "duckdb":
            continue
        if name in {"data", "keys", "dialect"}:
            body[name] = value if isinstance(value, str) else str(value)
        elif name == "accuracy" and isinstance(value, tuple | list):
            body[name] = [_amount(part, name) for part in value]
        else:
            body[name] = _amount(value, name)
    return body


def _amount(value: Any, name: str) -> Any:
    """Return a number as it travels: exactly; what is none is refused here as it would be there."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    number = exact(value, name)
    return str(number)


_KINDS: tuple[type[HushError], ...] = (
    BudgetExceededError,
    InvalidValueError,
    OffGridError,
    PrecisionError,
    QuestionError,
    UnboundedError,
    UnplannableError,
    EngineError,
    SourceError,
    ClosedError,
    ForkedError,
    *(kind for kind in vars(ledger_errors).values() if isinstance(kind, type) and issubclass(kind, HushError)),
)
_BY_CODE: Mapping[str, type[HushError]] = {kind.code: kind for kind in _KINDS if kind is not HushError}


def _refusal(response: _Response) -> HushError:
    """Return the error that a service tells: of the class that a local curator would raise, with its text."""
    try:
        told = json.loads(response.body)
        code, detail = str(told["code"]), str(told["detail"])
    except (ValueError, KeyError, TypeError):
        return RemoteError(f"The service answered with status {response.status}, and said nothing that can be read.")
    kind = _BY_CODE.get(code, RemoteError)
    error = kind.__new__(kind)
    HushError.__init__(error, detail)
    if kind is RemoteError:
        error.code = code  # type: ignore[misc]
    if isinstance(error, InvalidValueError):
        error.parameter = str(told.get("parameter", ""))
    return error


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); name those to be trusted: certificates=FILE"
    return str(getattr(error, "reason", "") or getattr(error, "strerror", "") or error or type(error).__name__)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
