"""Errors of plugins inside the queue: logged once for each kind of error, not for each pod."""

import traceback

import structlog

from schedcache.model import Pod
from schedcache.model.error_text import error_text

_log = structlog.get_logger(__name__)


class Faults:
    """Logs the first error of each plugin, place and type; otherwise a broken plugin would log a line per pod and event."""

    def __init__(self) -> None:
        self._reported: set[tuple[str, str, type[Exception]]] = set()

    def report(self, plugin: str, where: str, pod: Pod | None, error: Exception) -> None:
        key = (plugin, where, type(error))
        if key not in self._reported:
            self._reported.add(key)
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{at.filename}:{at.lineno}"
            _log.error(
                "plugin failed in the queue",
                plugin=plugin,
                where=where,
                pod=pod and pod.full_name,
                error=f"{type(error).__name__}: {error_text(error)}",
                at=place,
            )
