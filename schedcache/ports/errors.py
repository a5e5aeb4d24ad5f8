"""What a call to the API server can end in, as far as the scheduler has to tell the ends apart.

    ApiError                    it did not succeed; which of the three below says what that means
        RefusedError            the server has answered no: nothing was done
            NotFoundError
        UnavailableError        the server could not be asked, or had no answer to a read: nothing was done
        OutcomeUnknownError     a write that may or may not have been done: only a read can tell
            ConflictError

Every error is of exactly one of the three kinds, so handlers of them may stand in any order.
"""

from typing import ClassVar


class ApiError(Exception):
    """A call to the API server did not succeed. Not raised as such, since it does not say whether something was done.

    Attributes:
        status: the HTTP code, 0 where there was no answer.
        reason: the API's reason text, or a word for what happened in its place.
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
    """The server has answered no, and nothing was done."""


class NotFoundError(RefusedError):
    """404, and the API server itself says that the object does not exist."""


class UnavailableError(ApiError):
    """Nothing was done: the request never reached the server, or was a read that had no answer, or a 5xx for one."""

    may_pass = True


class OutcomeUnknownError(ApiError):
    """Time-out, lost connection or a 5xx after a write was sent: the server may or may not have done it. Only a read can tell."""

    may_pass = True


class ConflictError(OutcomeUnknownError):
    """409: what is there is not what the request expects. That is no proof of failure: our own first attempt may have made it so."""

    may_pass = False
