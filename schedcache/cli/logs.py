"""Logging: ours, kopf's, aiohttp's and the client's records, in one form, to standard error."""

import logging
import sys
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_DECISIONS = 2
"""The verbosity from which each decision is logged, as kube-scheduler does."""
_LIBRARIES = 4
_EVERYTHING = 6


def configure_logging(
    log_format: str = "auto", verbosity: int = 0, *, quiet: bool = False, stream: TextIO | None = None
) -> None:
    """Set logging up for the whole process.

    Args:
        log_format: `console`, `json`, or `auto`: console on a terminal, JSON otherwise.
        verbosity: kube-scheduler's `-v`: from 2 on each decision, from 4 on what libraries say, from 6 on everything.
        quiet: warnings and errors only.
        stream: written to; standard error by default.
    """
    stream = stream or sys.stderr
    console = log_format == "console" or (log_format == "auto" and stream.isatty())
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render = _renderers(console=console, colors=stream.isatty())
    # Ours do not go through the standard library: a line costs a quarter of what it costs there.
    structlog.configure(
        processors=[*shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(_own_level(verbosity, quiet=quiet)),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _add_object, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_foreign_level(verbosity))
    logging.captureWarnings(capture=True)


def _own_level(verbosity: int, *, quiet: bool) -> int:
    if verbosity >= _DECISIONS:
        return logging.DEBUG
    return logging.WARNING if quiet else logging.INFO


def _foreign_level(verbosity: int) -> int:
    if verbosity >= _EVERYTHING:
        return logging.DEBUG
    return logging.INFO if verbosity >= _LIBRARIES else logging.WARNING


def _renderers(*, console: bool, colors: bool) -> list[Processor]:
    if console:
        return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]
    # Without local variables: they are long, and may hold what nobody should read.
    tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
    return [structlog.processors.ExceptionRenderer(tracebacks), structlog.processors.JSONRenderer()]


def _add_object(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """What kopf says about an object names it (`k8s_ref`); the rest of its extras are whole settings and stay out."""
    reference: dict[str, Any] | None = getattr(event.get("_record"), "k8s_ref", None)
    if reference is not None:
        event["object"] = f"{reference.get('kind')} {reference.get('namespace')}/{reference.get('name')}"
    return event
