"""What kopf logs and nobody needs. It is known by who is at work when kopf says it, never by its words, which change between versions.

Records are written by the task that they are about, so what that task has just done is noted in its context, and filters look there.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import kopf

OBJECTS_LOGGER = "kopf.objects"
"""Where kopf says what handlers do; in its documentation under this name."""

_failures: ContextVar[int] = ContextVar("_failures", default=0)
"""How often in a row the request that this task repeats has failed."""
_delivered: ContextVar[bool] = ContextVar("_delivered", default=False)
"""A handler of ours has returned in this task, and kopf has not said yet that it succeeded."""


def note_failure() -> None:
    """A request of kopf's has failed, and it will say so."""
    _failures.set(_failures.get() + 1)


def note_answer() -> None:
    """A request of kopf's was answered as it should be."""
    _failures.set(0)


def note_delivery() -> None:
    """A handler of ours is done, and kopf will say so."""
    _delivered.set(True)


def tell_failures_sparingly() -> None:
    """Of the failures of one request in a row the first, second, fourth, eighth and so on: an API server may be away for an hour.

    To be called once kopf has been imported, since it is about all of its loggers. Adding a filter twice is adding it once.
    """
    for name in list(logging.Logger.manager.loggerDict):
        if name.startswith("kopf."):
            logging.getLogger(name).addFilter(_is_told_sparingly)


def leave_out_successes() -> None:
    """A line for each event of ours otherwise, in the log of an operator that somebody else runs."""
    logging.getLogger(OBJECTS_LOGGER).addFilter(_is_not_about_success)


@contextmanager
def starting() -> Iterator[None]:
    """As kopf starts it warns of how it is run, such as in a thread that gets no signals: that is so on purpose here."""
    logger = logging.getLogger(kopf.spawn_tasks.__module__)
    logger.addFilter(_is_an_error)
    try:
        yield
    finally:
        logger.removeFilter(_is_an_error)


def _is_told_sparingly(record: logging.LogRecord) -> bool:
    return record.levelno != logging.ERROR or _failures.get().bit_count() <= 1


def _is_not_about_success(record: logging.LogRecord) -> bool:
    if not _delivered.get():
        return True
    _delivered.set(False)
    return record.levelno > logging.INFO


def _is_an_error(record: logging.LogRecord) -> bool:
    return record.levelno > logging.WARNING
