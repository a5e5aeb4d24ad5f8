"""Filters what kopf logs and nobody needs, by the task that logs it and never by the words, which change between versions.

Records are written by the task that they are about, so what that task has just done is noted in its context, and filters look there.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import kopf

OBJECTS_LOGGER = "kopf.objects"
"""The logger, documented by kopf, for what handlers do."""

_failures: ContextVar[int] = ContextVar("_failures", default=0)
"""How often in a row this task's request has failed."""
_delivered: ContextVar[bool] = ContextVar("_delivered", default=False)
"""A handler of ours has returned in this task, and kopf has not yet logged that it succeeded."""


def note_failure() -> None:
    """A request of kopf's has failed, and it will log that."""
    _failures.set(_failures.get() + 1)


def note_answer() -> None:
    """A request of kopf's has succeeded."""
    _failures.set(0)


def note_delivery() -> None:
    """A handler of ours has returned, and kopf will log that."""
    _delivered.set(True)


def tell_failures_sparingly() -> None:
    """Log the first, second, fourth, eighth ... failure of one request in a row: an API server may be away for an hour.

    To be called after kopf has been imported, since it applies to all of its loggers. Calling it again changes nothing.
    """
    for name in list(logging.Logger.manager.loggerDict):
        if name.startswith("kopf."):
            logging.getLogger(name).addFilter(_is_told_sparingly)


def leave_out_successes() -> None:
    """Otherwise the log of somebody else's operator would have a line for each of our events."""
    logging.getLogger(OBJECTS_LOGGER).addFilter(_is_not_about_success)


@contextmanager
def starting() -> Iterator[None]:
    """When kopf starts it warns of how it is run, such as in a thread that gets no signals; here that is on purpose."""
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
