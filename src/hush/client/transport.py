"""The way to a service and back: one connection for each thread, requests sent again, refusals as errors.

Questions, their terms and what comes back travel exactly, as JSON and headers.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from hush.core import BudgetExceededError, HushError, InvalidValueError, OffGridError, PrecisionError, exact
from hush.curator.answer import Answer, Money
from hush.curator.session import ClosedError, ForkedError
from hush.curator.terms import QuestionTerms, TermKind, Terms, terms_of
from hush.engines.errors import EngineError, SourceError
from hush.ledger import ApprovalNeededError
from hush.ledger import errors as ledger_errors
from hush.ledger.budgets import Spending
from hush.query.errors import QuestionError, UnboundedError
from hush.query.parameters import Binder, to_wire
from hush.query.plan import UnplannableError

ANSWER = "application/vnd.hush.answer+json"
RELEASE = "application/vnd.hush.release"
_TRIES = 4
"""How often a request is sent before its failure is raised."""
_PATIENCE = 60.0
"""How long a busy service is asked again, in seconds."""


class RemoteError(HushError):
    """The service cannot be reached, or refuses with an error that a local curator does not have."""


class Connection:
    """The connections to one service, with a token. Use it from any thread."""

    def __init__(self, address: str, *, token: str, timeout: float, certificates: str | None) -> None:
        parts = urlsplit(address)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise InvalidValueError("address", got=address, allowed="a URL such as https://hush.example")
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            hint = "A token that travels in the clear is anybody's."
            raise InvalidValueError("address", got=address, allowed="an https:// URL beyond this machine", hint=hint)
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
            raise InvalidValueError("token", got="something else", allowed="the text that the service showed once")
        self.host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = ssl.create_default_context(cafile=certificates) if parts.scheme == "https" else None
        self._token, self._timeout = token, timeout
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._closed = False

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for connection in self._connections:
            connection.close()

    def send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, accept: str = "application/json"
    ) -> Response:
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
                if (broken := getattr(self._local, "connection", None)) is not None:
                    broken.close()
                    self._connections.remove(broken)
                    self._local.connection = None
                failures += 1
                if isinstance(error, ssl.SSLCertVerificationError) or failures >= _TRIES:
                    raise RemoteError(f"The service at {self.host} cannot be reached: {_why(error)}.") from None
                if failures > 1:  # a connection that was idle for long is simply opened again
                    time.sleep(0.1 * 2**failures)
                continue
            if response.status < 400:
                return response
            wait = response.headers.get("retry-after", "")
            # the service is busy and says for how long; within the patience the wait is worth it
            if response.status in {429, 503} and wait.isdigit() and time.monotonic() + int(wait) < until:
                time.sleep(int(wait))
                continue
            raise refusal(response)

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON at a path."""
        return self.send("GET", path).json()

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send JSON to a path, and return the reply."""
        return self.send("POST", path, body).json()

    def _once(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Response:
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = (
                http.client.HTTPConnection(self.host, self._port, timeout=self._timeout)
                if self._tls is None
                else http.client.HTTPSConnection(self.host, self._port, timeout=self._timeout, context=self._tls)
            )
            self._connections.append(connection)
        connection.request(method, f"{self._path}/api/v1{path}", content, dict(headers))
        answer = connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Response(status=answer.status, headers=named, body=answer.read())


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response of a service: status, headers and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object."""
        content = None
        with suppress(ValueError):
            content = json.loads(self.body)
        if not isinstance(content, dict):
            raise RemoteError("What answers at this address is not a hush service.")
        return content


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
    ApprovalNeededError,
    *(kind for kind in vars(ledger_errors).values() if isinstance(kind, type) and issubclass(kind, HushError)),
)
_BY_CODE: Mapping[str, type[HushError]] = {kind.code: kind for kind in _KINDS if kind is not HushError}


def refusal(response: Response) -> HushError:
    """Return the error in a response: of the class that a local curator would raise, with its text."""
    try:
        told = json.loads(response.body)
        code, detail = str(told["code"]), str(told["detail"])
    except (ValueError, KeyError, TypeError):
        return RemoteError(f"The service answered with status {response.status}, and said nothing that can be read.")
    kind = _BY_CODE.get(code, RemoteError)
    # constructors differ from class to class, and the text is complete already
    error = kind.__new__(kind)
    HushError.__init__(error, detail)
    if kind is RemoteError:
        error.code = code  # type: ignore[misc]
    if isinstance(error, InvalidValueError):
        error.parameter = str(told.get("parameter", ""))
    if isinstance(error, ApprovalNeededError):
        error.number = int(told.get("request", 0))
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


def answer_in(response: Response) -> Answer:
    """Return the answer in a response: the stored answer from the body; receipt and budget from the headers."""
    told = response.headers
    return replace(
        Answer.from_bytes(response.body),
        receipt=told.get("hush-receipt", ""),
        remaining=remaining_in(told),
        spending=spending_in(told),
        made_up="hush-made-up" in told,
        repeated=told.get("hush-repeated", ""),
        shared="hush-shared" in told,
    )


def spending_in(headers: Mapping[str, str]) -> Spending | None:
    """Return the share that was taken, in the headers of a response; None if it is not stated."""
    if "hush-spending" not in headers:
        return None
    whose, took, left = json.loads(headers["hush-spending"])
    return Spending(whose=whose, took=Fraction(took), left=Fraction(left))


def body_of(terms: Terms) -> dict[str, Any]:
    """Return the body of a request: the terms that differ from their defaults, as JSON values."""
    body: dict[str, Any] = {}
    kinds = terms_of(terms)
    for name, value in terms.given().items():
        match kinds[name].kind:
            case TermKind.SQL if isinstance(value, str):
                body[name] = value
            case TermKind.SQL:
                from hush.query.builder import Builder  # it loads the parser

                if not isinstance(value, Builder):
                    built = ", or a question built with table(…)" if isinstance(terms, QuestionTerms) else ""
                    raise InvalidValueError(name, got=value, allowed=f"SQL as text{built}")
                body |= {name: str(value), "parameters": to_wire(value.values)}
            case TermKind.VALUES:
                Binder(value)  # refuses what is neither a list nor a mapping
                body[name] = to_wire(value)
            case TermKind.ACCURACY if isinstance(value, tuple | list):
                body[name] = [amount(number, name) for number in value]
            case TermKind.ACCURACY | TermKind.AMOUNT | TermKind.FRACTION:
                body[name] = amount(value, name)
            case TermKind.COUNT:
                body[name] = int(value)
            case TermKind.NAMES:
                body[name] = list(value)
            case TermKind.PERIOD:
                body[name] = value if type(value) is int else str(value)
            case TermKind.NAME:
                body[name] = str(value)
            case TermKind.FLAG | TermKind.TEXT:
                body[name] = value
    return body


def amount(value: Any, name: str) -> Any:
    """Return a number as an exact JSON value; refuse other values with the same error as the service."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float):
        # JSON has no NaN and no infinity: as text they reach the service, which refuses them with its own words
        return value if value - value == 0 else str(value)
    return str(exact(value, name))


def remaining_in(told: Mapping[str, str]) -> Money | None:
    """Return the remaining budget in the headers of a response; None if it is not stated."""
    if "hush-remaining" not in told:
        return None
    epsilon, delta = map(Fraction, told["hush-remaining"].split())
    return Money(epsilon=epsilon, delta=delta)
