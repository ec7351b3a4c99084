"""Errors over HTTP: RFC 9457's problem+json, with the texts and codes of the command line.

>>> from hush.core import BudgetExceededError
>>> problem(BudgetExceededError("takes 30% of alice's budget, but 12% is left"))[0]
402
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from hush.core import BudgetExceededError, HushError
from hush.core.format import visible
from hush.ledger import ApprovalNeededError
from hush.server.errors import ServiceError, SignInError, TooManyError, UnknownPlaceError

log = logging.getLogger("hush.server")

MEDIA = "application/problem+json"
_STATUS: Mapping[str, int] = {
    "budget-exceeded": 402,
    "not-allowed": 403,
    "account-exists": 409,
    "approval-needed": 409,
    "ledger": 409,
    "ledger-missing": 409,
    "request-conflict": 409,
    "too-many-requests": 429,
    "request-unanswered": 409,
    "unknown-account": 409,
    "unknown-receipt": 404,
    "unknown-stream": 404,
    "source": 409,
    "stream": 409,
    "closed": 503,
    "forked": 503,
    "ledger-busy": 503,
    "ledger-damaged": 503,
    "ledger-rolled-back": 503,
    "ledger-unavailable": 503,
    "ledger-full": 507,
}
"""The HTTP status of an error by its code; 422 for other errors in a question or a value."""


def status(error: HushError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, ServiceError):
        return error.status
    return 402 if isinstance(error, BudgetExceededError) else _STATUS.get(error.code, 422)


def problem(error: HushError) -> tuple[int, dict[str, Any]]:
    """Return an error's status and its body."""
    status_code = status(error)
    body = {
        "type": f"urn:hush:{error.code}",
        "title": HTTPStatus(status_code).phrase,
        "status": status_code,
        "code": error.code,
        "detail": visible(str(error), lines=True),
    }
    if (parameter := getattr(error, "parameter", None)) is not None:
        body["parameter"] = str(parameter)
    if isinstance(error, ApprovalNeededError):
        body["request"] = error.number
    return status_code, body


def response(error: Exception) -> Response:
    """Return the response to an error; an unexpected error is described in the log alone."""
    if isinstance(error, HTTPException):
        error = _as_used(error.status_code)
    if not isinstance(error, HushError):
        log.error("an error that nobody foresaw: %s", type(error).__name__)
        log.debug("its trace", exc_info=error)
        error = InternalError()
    status_code, body = problem(error)
    headers = {}
    if isinstance(error, SignInError):
        headers["WWW-Authenticate"] = 'Bearer realm="hush"'
    if isinstance(error, TooManyError):
        headers["Retry-After"] = str(max(1, round(error.seconds)))
    elif status_code == 503:
        headers["Retry-After"] = "1"
    return JSONResponse(body, status_code, headers, MEDIA)


def _as_used(status: int) -> ServiceError:
    """Return the error for a request that the web framework refuses."""
    return UnknownPlaceError() if status == 404 else BadRequestError("This is not how this address is used.", status)


class InternalError(ServiceError):
    """An unexpected error."""

    code = "internal"
    status = 500

    def __init__(self) -> None:
        super().__init__("Something went wrong in the service; its log says what. What was charged stays charged.")


class BadRequestError(ServiceError):
    """A malformed request: wrong form, size or type."""

    code = "bad-request"

    def __init__(self, message: str, status: int = 400) -> None:
        self.status = status  # type: ignore[misc]
        super().__init__(message)
