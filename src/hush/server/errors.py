"""Errors of the service, in addition to those of a curator.

::

    HushError
    └── ServiceError
        ├── SignInError         nobody is signed in, or what they showed is not valid (401)
        ├── ForbiddenError      somebody is signed in who may not do this (403)
        ├── UnknownPlaceError   there is nothing at this address, or not for this person (404)
        ├── TooManyError        too many requests in too short a time (429)
        ├── BusyError           the queue is full (503)
        ├── SecondOwnerError    it waits for another owner to do the same (409)
        ├── CancelledError      the asker cancelled the question
        ├── PeopleError         the store of people refuses: a name that is taken, a password that is too short
        └── StorageError        the state that workers share cannot be reached (503)

Each has the HTTP status with which it leaves.
"""

from __future__ import annotations

from typing import ClassVar

from hush.core import HushError


class ServiceError(HushError):
    """The service refuses."""

    code = "service"
    status: ClassVar[int] = 400


class SignInError(ServiceError):
    """The request is not signed in. The text is the same for every cause."""

    code = "sign-in"
    status = 401

    def __init__(self, message: str = "Sign in first: with a token, or in a browser.") -> None:
        super().__init__(message)


class ForbiddenError(ServiceError):
    """Who asks is known and may not do this."""

    code = "forbidden"
    status = 403


class UnknownPlaceError(ServiceError):
    """Nothing is there, or nothing that this person may see: both read alike."""

    code = "unknown"
    status = 404

    def __init__(self, message: str = "There is nothing here, or nothing that you may see.") -> None:
        super().__init__(message)


class TooManyError(ServiceError):
    """Too many requests."""

    code = "too-many"
    status = 429

    def __init__(self, seconds: float, what: str = "requests") -> None:
        self.seconds = seconds
        """After how long one more is allowed."""
        super().__init__(f"Too many {what}; try again in {max(1, round(seconds))} s. Nothing was charged.")


class BusyError(ServiceError):
    """The queue is full."""

    code = "busy"
    status = 503

    def __init__(self, message: str = "Too many questions are waiting; try again soon. Nothing was charged.") -> None:
        super().__init__(message)


class SecondOwnerError(ServiceError):
    """The act needs a second owner."""

    code = "second-owner"
    status = 409

    def __init__(self) -> None:
        super().__init__(
            "This takes two owners. It is noted, and holds once another owner does the same within a week."
        )


class CancelledError(ServiceError):
    """The question was cancelled."""

    code = "cancelled"
    status = 409

    def __init__(self, *, charged: bool) -> None:
        after = "It stays charged, and its answer was thrown away." if charged else "Nothing was charged."
        super().__init__(f"The question was cancelled. {after}")


class PeopleError(ServiceError):
    """The store of people refuses."""

    code = "people"
    status = 422


class StorageError(ServiceError):
    """The state that workers share cannot be reached or written."""

    code = "storage"
    status = 503

    def __init__(self, place: str, why: str) -> None:
        super().__init__(
            "The service cannot reach its own state at the moment; try again soon. What was charged stays charged, and "
            "comes again free of charge under the same request."
        )
        self.place, self.why = place, why
        """For the log at the machine, not for the client."""


class NoPolicyError(ServiceError):
    """The service runs without a policy, so nothing can be asked yet."""

    code = "no-policy"
    status = 409

    def __init__(self) -> None:
        super().__init__("There is no policy yet, so nothing can be asked. The owner makes one on the page Data.")
