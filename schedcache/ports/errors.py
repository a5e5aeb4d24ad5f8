"""What a call to the API server can end in, as far as the scheduler has to tell the ends apart."""


class ApiError(Exception):
    """The server refused the call and nothing was done; `status` is the HTTP code, `reason` the API's reason text."""

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        super().__init__(message)


class NotFoundError(ApiError):
    """404: the object does not exist."""


class ConflictError(ApiError):
    """409: for a Binding that is no proof of failure, it may be our own first attempt that went through."""


class OutcomeUnknownError(ApiError):
    """Time-out, lost connection or a 5xx: the server may or may not have done it. Only a GET can tell."""
