"""The ways in which a list or a watch can end, and what follows from each: the edges of the reflector's state machine."""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from schedcache.kube.http.outcomes import SILENT, UNREACHABLE, ThrottledError
from schedcache.kube.watch.decoder import BrokenStreamError, StatusError
from schedcache.ports import ApiError


class Ending(Enum):
    """Why a watch ended, or why a list could not be read; the value is its name in counters."""

    CLOSED = "closed"
    """The server ended the stream properly: its time was up, or we read too slowly."""
    IDLE_CLOSED = "closed at once"
    """As CLOSED, but within a second and without an event, for the third time in a row."""
    EXPIRED = "expired"
    """410: the server has forgotten the resourceVersion that we would go on from."""
    INVALID_VERSION = "invalid version"
    """The server does not know the resourceVersion yet, or considers it invalid: it was restored from a backup."""
    THROTTLED = "throttled"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    SERVER_ERROR = "server error"
    CONNECTION = "connection"
    """The connection was refused, reset or cut."""
    SILENT = "silent"
    """No data for longer than the interval between bookmarks: the connection is dead, but not closed."""
    BROKEN = "broken"
    """A line that is not a watch event."""


class Pause(Enum):
    """What to wait for before the next request."""

    NONE = "none"
    BACKOFF = "backoff"
    RETRY_AFTER = "retry after"
    """What the server asked for, otherwise as BACKOFF."""


class Edge(NamedTuple):
    """What follows: list again or resume the watch from the last resourceVersion, and when."""

    relist: bool
    pause: Pause


EDGES: Mapping[Ending, Edge] = {
    Ending.CLOSED: Edge(relist=False, pause=Pause.NONE),
    Ending.IDLE_CLOSED: Edge(relist=False, pause=Pause.BACKOFF),
    Ending.EXPIRED: Edge(relist=True, pause=Pause.NONE),
    Ending.INVALID_VERSION: Edge(relist=True, pause=Pause.BACKOFF),
    Ending.THROTTLED: Edge(relist=False, pause=Pause.RETRY_AFTER),
    Ending.UNAUTHORIZED: Edge(relist=False, pause=Pause.BACKOFF),
    Ending.FORBIDDEN: Edge(relist=False, pause=Pause.BACKOFF),
    Ending.SERVER_ERROR: Edge(relist=False, pause=Pause.BACKOFF),
    Ending.CONNECTION: Edge(relist=False, pause=Pause.BACKOFF),
    Ending.SILENT: Edge(relist=False, pause=Pause.NONE),
    Ending.BROKEN: Edge(relist=False, pause=Pause.BACKOFF),
}
"""For a watch. A list that fails is started again after the same pause."""

RELIST_AFTER_SILENT = 2
"""A server that is silent again, after it has accepted the same version anew, may never get there: see docs/watch.md on backups."""
RELIST_AFTER_BROKEN = 3
"""A stream that breaks this often in a row without an event in between breaks at the same event: list instead."""
IDLE_CLOSES = 3
IDLE_SECONDS = 1.0
_TOO_LARGE = "Too large resource version"
_WITHOUT_ANSWER: Mapping[str, Ending] = {UNREACHABLE: Ending.CONNECTION, SILENT: Ending.SILENT}

Failure = ApiError | StatusError | BrokenStreamError
FAILURES = (ApiError, StatusError, BrokenStreamError)
"""Every error that may end a list or a watch; any other is a fault in this program."""


def ending_of(error: Failure) -> Ending:
    """The ending for the error of a list or a watch."""
    match error:
        case BrokenStreamError():
            return Ending.BROKEN
        case ApiError(status=0, reason=reason) if reason in _WITHOUT_ANSWER:
            return _WITHOUT_ANSWER[reason]
        case ApiError(status=code, reason=reason) | StatusError(code=code, reason=reason):
            return ending_of_status(code, reason, str(error))


def retry_after_of(error: Failure | None) -> float | None:
    """Seconds that the server asks to wait, None if it does not."""
    return error.retry_after if isinstance(error, ThrottledError | StatusError) else None


def ending_of_status(code: int, reason: str = "", text: str = "") -> Ending:
    """The ending for an answer other than 2xx, or for an ERROR event."""
    if code == 410 or reason in ("Expired", "Gone"):
        return Ending.EXPIRED
    if code == 400 or _TOO_LARGE in text:
        return Ending.INVALID_VERSION
    known = {401: Ending.UNAUTHORIZED, 403: Ending.FORBIDDEN, 429: Ending.THROTTLED}
    return known.get(code, Ending.SERVER_ERROR)
