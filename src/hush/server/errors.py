"""Errors of the service, in addition to those of a curator; and how all errors leave, as RFC 9457's problem+json.

Each class below is a `ServiceError`, and says with which HTTP status it leaves. Over HTTP, texts and codes are those of
the command line.

>>> from hush.core import BudgetExceededError
>>> problem(BudgetExceededError("needs ε=0.30 but 0.12 of alice's 1.00 remains"))[0]
402
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from hush.core import BudgetExceededError, HushError
from hush.core.format import visible
from hush.ledger import ApprovalNeededError

if TYPE_CHECKING:
    from starlette.responses import Response

log = logging.getLogger("hush.server")


class ServiceError(HushError):
    """The service refuses."""

    status: ClassVar[int] = 400
    message: ClassVar[str] = ""
    """Its usual text."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.message)


class SignInError(ServiceError):
    """The request is not signed in. The text is the same for every cause."""

    code, status = "sign-in", 401
    message = "Sign in first: with a token, or in a browser."


class ForbiddenError(ServiceError):
    """Who asks is known and may not do this."""

    code, status = "forbidden", 403


class UnknownPlaceError(ServiceError):
    """Nothing is there, or nothing that this person may see: both read alike."""

    code, status = "unknown", 404
    message = "There is nothing here, or nothing that you may see."


class TooManyError(ServiceError):
    """Too many requests; one more is allowed after some ``seconds``."""

    code, status = "too-many", 429

    def __init__(self, seconds: float, what: str = "requests") -> None:
        self.seconds = seconds
        super().__init__(f"Too many {what}; try again in {max(1, round(seconds))} s. Nothing was charged.")


class BusyError(ServiceError):
    """The queue is full."""

    code, status = "busy", 503
    message = "Too many questions are waiting; try again soon. Nothing was charged."


class SecondOwnerError(ServiceError):
    """The act needs a second owner."""

    code, status = "second-owner", 409
    message = "This takes two owners. It is noted, and holds once another owner does the same within a week."


class CancelledError(ServiceError):
    """The question was cancelled."""

    code, status = "cancelled", 409

    def __init__(self, *, charged: bool) -> None:
        after = "It stays charged, and its answer was thrown away." if charged else "Nothing was charged."
        super().__init__(f"The question was cancelled. {after}")


class PeopleError(ServiceError):
    """The store of people refuses: a name that is taken, a last owner, a wrong code."""

    code, status = "people", 422


class StorageError(ServiceError):
    """The state that workers share cannot be reached or written; place and cause are for the log, not the client."""

    code, status = "storage", 503
    message = (
        "The service cannot reach its own state at the moment; try again soon. What was charged stays charged, and "
        "comes again free of charge under the same request."
    )


class NoPolicyError(ServiceError):
    """The service runs without a policy, so nothing can be asked yet."""

    code, status = "no-policy", 409
    message = "There is no policy yet, so nothing can be asked. The owner makes one on the page Data."


class InternalError(ServiceError):
    """Nobody foresaw it."""

    code, status = "internal", 500
    message = "Something went wrong in the service; its log says what. What was charged stays charged."


class BadRequestError(ServiceError):
    """A malformed request: wrong form, size or type."""

    def __init__(self, message: str, status: int = 400) -> None:
        self.status = status  # type: ignore[misc]
        super().__init__(message)


MEDIA = "application/problem+json"
_MISUSED = "This is not how this address is used."
_STATUS = {
    "budget-exceeded": 402,
    "not-allowed": 403,
    "account-exists": 409,
    "approval-needed": 409,
    "ledger": 409,
    "ledger-missing": 409,
    "request-conflict": 409,
    "request-unanswered": 409,
    "source": 409,
    "stream": 409,
    "unknown-account": 409,
    "too-many-requests": 429,
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


def problem_response(error: Exception) -> Response:
    """Return the response to an error; an unexpected error is described in the log alone."""
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse

    if isinstance(error, HTTPException):
        unknown = error.status_code == 404
        error = UnknownPlaceError() if unknown else BadRequestError(_MISUSED, error.status_code)
    if not isinstance(error, HushError):
        log.error("an error that nobody foresaw: %s", type(error).__name__)
        log.debug("its trace", exc_info=error)
        error = InternalError()
    status_code, body = problem(error)
    headers = {}
    if isinstance(error, SignInError):
        headers["WWW-Authenticate"] = 'Bearer realm="hush"'
    if isinstance(error, TooManyError) or status_code == 503:
        headers["Retry-After"] = str(max(1, round(getattr(error, "seconds", 1))))
    return JSONResponse(body, status_code, headers, MEDIA)
