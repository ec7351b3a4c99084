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
from dataclasses import replace
from fractions import Fraction
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from hush.core import BudgetExceededError, HushError, InvalidValueError, OffGridError, PrecisionError, exact
from hush.core.values import dataclass
from hush.curator.access import ClosedError, ForkedError, Parameters
from hush.curator.answer import Answer, Money
from hush.engines.errors import EngineError, SourceError
from hush.ledger import ApprovalNeededError
from hush.ledger import errors as ledger_errors
from hush.ledger.shares import Spending
from hush.query.builder import Builder
from hush.query.errors import QuestionError, UnboundedError
from hush.query.parameters import Binder, to_wire
from hush.query.plan import UnplannableError

_TRIES = 4
"""How often a request is sent before its failure is told."""
_PATIENCE = 60.0
"""How long a busy service is asked again, in seconds."""


class RemoteError(HushError):
    """The service cannot be reached, or refuses in a way that a local curator has not."""

    code = "remote"


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
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = ssl.create_default_context(cafile=certificates) if parts.scheme == "https" else None
        self._token, self._timeout = token, timeout
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._closed = False

    def close(self) -> None:
        """Let go of all connections."""
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
            raise refusal(response)

    def _once(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> Response:
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
        return Response(status=answer.status, headers=named, body=answer.read())

    def _drop(self) -> None:
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._connections.remove(connection)
            self._local.connection = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a service answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the object that it is."""
        try:
            content = json.loads(self.body)
        except ValueError:
            raise RemoteError("What answers at this address is not a hush service.") from None
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
    """Return the answer in a response: what the ledger keeps, and what stands beside it."""
    told = response.headers
    return replace(
        Answer.from_bytes(response.body),
        receipt=told.get("hush-receipt", ""),
        remaining=remaining_in(told),
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


def question_body(question: str | Builder, parameters: Parameters, **terms: Any) -> dict[str, Any]:
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
            body[name] = [amount(part, name) for part in value]
        else:
            body[name] = amount(value, name)
    return body


def amount(value: Any, name: str) -> Any:
    """Return a number as it travels: exactly; what is none is refused here as it would be there."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    number = exact(value, name)
    return str(number)


def remaining_in(told: Mapping[str, str]) -> Money | None:
    """Return what remains, as the headers of a response say."""
    if "hush-remaining" not in told:
        return None
    epsilon, delta = map(Fraction, told["hush-remaining"].split())
    return Money(epsilon=epsilon, delta=delta)
