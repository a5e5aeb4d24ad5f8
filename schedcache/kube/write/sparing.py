"""Logs what may go wrong a thousand times in a row."""

import time
from collections.abc import Callable
from typing import Any

import structlog

from schedcache.ports import ApiError

log = structlog.get_logger()


class SparingLog:
    """Warnings about refused or failed requests: the first of its kind at once, then at most one in so many seconds.

    Those with the same status and reason are of one kind. A line says how many were left out before it.

    Args:
        event: what is logged.
        seconds: between two of one kind.
        clock: seconds, monotonic.
    """

    def __init__(self, event: str, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = event
        self._seconds = seconds
        self._clock = clock
        # By status and reason: when the last line was written, and how many were left out since.
        self._sorts: dict[tuple[int, str], tuple[float, int]] = {}

    def warning(self, error: ApiError, **about: Any) -> None:
        """Log the error with `about`, or count it."""
        sort, now = (error.status, error.reason), self._clock()
        told_at, left_out = self._sorts.get(sort, (float("-inf"), 0))
        if now - told_at < self._seconds:
            self._sorts[sort] = told_at, left_out + 1
            return
        self._sorts[sort] = now, 0
        log.warning(self._event, **about, error=str(error), **({"left_out": left_out} if left_out else {}))
