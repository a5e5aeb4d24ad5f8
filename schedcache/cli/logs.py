"""Logging: ours, kopf's, aiohttp's and the client's records, in one form, to standard error.

Whoever logs never waits: a thread writes (`schedcache.cli.log_output`). What repeats is counted (`schedcache.cli.repeats`).
"""

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from schedcache.cli.log_output import LogOutput, LogStream
from schedcache.cli.repeats import Repeats

_DECISIONS = 2
"""The verbosity from which each decision is logged, as kube-scheduler does."""
_LIBRARIES = 4
_EVERYTHING = 6
_COUNTED = frozenset({"warning", "error"})
"""Levels of which repeats are counted. What is critical ends the program, and less is only told when it is asked for."""
_FLUSH_SECONDS = 1.0


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
    _Logging(stream or sys.stderr, log_format).configure(verbosity, quiet=quiet)


@contextlib.contextmanager
def logging_to_stderr(
    log_format: str = "auto", verbosity: int = 0, *, quiet: bool = False, capture: bool = False
) -> Iterator[LogOutput | None]:
    """As `configure_logging`, for as long as the block lasts, with a thread that writes; yields its output.

    At the end, it has a second to write what waits. If that does not help, standard error is left as it is inside, where
    nothing blocks: last words are then lost, and do not keep the process from ending. None: standard error is not a file, as in some
    tests, and is written to as it is.

    Args:
        log_format: as of `configure_logging`.
        verbosity: as of `configure_logging`.
        quiet: as of `configure_logging`.
        capture: what is printed to standard output, as by plugins, goes the same way.
    """
    former = sys.stdout, sys.stderr
    try:
        descriptor = sys.stderr.fileno()
    except OSError:
        configure_logging(log_format, verbosity, quiet=quiet)
        yield None
        return
    output = LogOutput(descriptor)
    stream = cast("TextIO", LogStream(output, descriptor))
    sys.stderr = stream
    if capture:
        sys.stdout = stream
    setup = _Logging(stream, log_format)
    output.describe_dropped, output.housekeeping = setup.describe_dropped, setup.repeats.tell_due
    setup.configure(verbosity, quiet=quiet)
    hooks = threading.excepthook, sys.unraisablehook
    threading.excepthook, sys.unraisablehook = _thread_failed, _cannot_be_raised
    try:
        yield output
    finally:
        threading.excepthook, sys.unraisablehook = hooks
        setup.repeats.tell_all()
        if output.flush(_FLUSH_SECONDS):
            sys.stdout, sys.stderr = former


class _Logging:
    """What one configuration is made of: the form of lines, and the count of those that repeat."""

    def __init__(self, stream: TextIO, log_format: str) -> None:
        self._stream = stream
        console = log_format == "console" or (log_format == "auto" and stream.isatty())
        self._stamp: list[Processor] = [
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ]
        self._render = _renderers(console=console, colors=stream.isatty())
        self.repeats: Repeats[EventDict] = Repeats(self._tell_repeated)

    def configure(self, verbosity: int, *, quiet: bool) -> None:
        # Ours do not go through the standard library: a line costs a quarter of what it costs there.
        structlog.configure(
            processors=[*self._stamp, self._count_repeats, *self._render],
            wrapper_class=structlog.make_filtering_bound_logger(_own_level(verbosity, quiet=quiet)),
            logger_factory=structlog.WriteLoggerFactory(self._stream),
            cache_logger_on_first_use=True,
        )
        handler = logging.StreamHandler(self._stream)
        handler.addFilter(self._is_no_repeat)
        handler.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=[structlog.stdlib.add_logger_name, _add_object, *self._stamp],
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *self._render],
            )
        )
        root = logging.getLogger()
        root.handlers[:] = [handler]
        root.setLevel(_foreign_level(verbosity))
        logging.captureWarnings(capture=True)

    def describe_dropped(self, number: int) -> str:
        """The line for lines that could not be written."""
        return self._line("warning", {"event": "lines of the log were dropped", "dropped": number})

    def _count_repeats(self, _logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if event["level"] in _COUNTED:
            bare = {key: value for key, value in event.items() if key not in ("timestamp", "exc_info")}
            if error := _error_text(event.get("exc_info")):
                bare.setdefault("error", error)
            if not self.repeats.admits(event["event"], hash(repr((error, bare))), bare):
                raise structlog.DropEvent
        return event

    def _is_no_repeat(self, record: logging.LogRecord) -> bool:
        level = record.levelname.lower()
        if level not in _COUNTED:
            return True
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001  whatever a wrong call of a library's raises; the handler reports it
            return True
        bare = _add_object(None, level, {"event": message, "level": level, "logger": record.name, "_record": record})
        del bare["_record"]
        if error := _error_text(record.exc_info):
            bare["error"] = error
        return self.repeats.admits((record.pathname, record.lineno), hash(repr(bare)), bare)

    def _tell_repeated(self, event: EventDict, number: int) -> None:
        level = event["level"]
        try:
            line = self._line(level, {**event, "repeated": number})
        except Exception:  # noqa: BLE001  of what it was told with; whoever logs next, or the thread that writes, has no part in that
            line = self._line(level, {"event": str(event["event"]), "repeated": number})
        self._stream.write(line)

    def _line(self, level: str, event: EventDict) -> str:
        line: Any = event
        for processor in (*self._stamp, *self._render):
            line = processor(None, level, line)
        return f"{line}\n"


def _thread_failed(failure: threading.ExceptHookArgs) -> None:
    name = failure.thread.name if failure.thread is not None else ""
    logging.getLogger("threading").error("a thread ended by an exception: %s", name, exc_info=failure.exc_value)


def _cannot_be_raised(failure: "sys.UnraisableHookArgs") -> None:
    text = failure.err_msg or "exception ignored in"
    logging.getLogger("python").error("%s %r", text, failure.object, exc_info=failure.exc_value)


def _error_text(exc_info: Any) -> str:
    if exc_info is True:
        exc_info = sys.exc_info()
    error = exc_info[1] if isinstance(exc_info, tuple) else exc_info
    if not isinstance(error, BaseException):
        return ""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001  a plugin's error may have any __str__, and is logged all the same
        return type(error).__name__


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
