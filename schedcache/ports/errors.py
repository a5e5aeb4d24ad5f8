"""How a call to the API server can fail, as far as the scheduler needs to distinguish it.

    ApiError                    the call failed; its subclass says what that means
        RefusedError            the server refused: nothing was done
            NotFoundError
        UnavailableError        the server could not be reached, or did not answer a read: nothing was done
            FencedError
        OutcomeUnknownError     a write that may or may not have been carried out: only a read can tell
            ConflictError

Every error is of exactly one of the three kinds, so their handlers may come in any order.
"""

from typing import ClassVar


class ApiError(Exception):
    """A call to the API server failed. Not raised itself, since it does not say whether something was done.

    Attributes:
        status: the HTTP status code, 0 if there was no answer.
        reason: the API's reason, or a word for what happened instead.
        may_pass: whether the same request may succeed a little later.
    """

    may_pass: ClassVar[bool] = False

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        if not isinstance(self, RefusedError | UnavailableError | OutcomeUnknownError):
            raise TypeError(
                f"{type(self).__name__}: expected a RefusedError, an UnavailableError or an OutcomeUnknownError, which say"
                " whether something was done"
            )
        self.status = status
        self.reason = reason
        super().__init__(message)


class RefusedError(ApiError):
    """The server refused, and nothing was done."""


class NotFoundError(RefusedError):
    """404, and the API server itself says that the object does not exist."""


class UnavailableError(ApiError):
    """Nothing was done: the request never reached the server, or was a read that got no answer or a 5xx."""

    may_pass = True


class FencedError(UnavailableError):
    """The write was held back: it could not be sure to end before somebody else may lead."""

    may_pass = False


class OutcomeUnknownError(ApiError):
    """Time-out, lost connection or a 5xx after a write was sent: the server may or may not have carried it out. Only a read can tell."""

    may_pass = True


class ConflictError(OutcomeUnknownError):
    """409: the object is not in the state that the request expects. That may be the work of our own first attempt: no proof of failure."""

    may_pass = False
