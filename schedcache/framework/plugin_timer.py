"""How long each plugin takes, in the attempts that are sampled (kube-scheduler's plugin_execution_duration_seconds, 1.37)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from schedcache.framework.status import Code

Answer = TypeVar("Answer")
Tell = Callable[[str, str, str, float], None]
"""Plugin, extension point, status code's name, seconds."""


class PluginTimer:
    """Times calls of plugins; an attempt has one in its state if it is sampled.

    `clock` in seconds, monotonic.
    """

    __slots__ = ("_clock", "_tell")

    def __init__(self, clock: Callable[[], float], tell: Tell) -> None:
        self._clock = clock
        self._tell = tell

    def call(
        self,
        plugin: str,
        point: str,
        label_of: Callable[[Answer], str],
        method: Callable[..., Answer],
        *arguments: object,
    ) -> Answer:
        """What the method returns or raises. `label_of` turns an answer into a status code's name; an exception counts as Error."""
        started, label = self._clock(), Code.ERROR.label
        try:
            answer = method(*arguments)
            label = label_of(answer)
            return answer
        finally:
            self._tell(plugin, point, label, self._clock() - started)

    async def call_async(
        self,
        plugin: str,
        point: str,
        label_of: Callable[[Answer], str],
        method: Callable[..., Awaitable[Answer]],
        *arguments: object,
    ) -> Answer:
        """As `call`, for coroutines."""
        started, label = self._clock(), Code.ERROR.label
        try:
            answer = await method(*arguments)
            label = label_of(answer)
            return answer
        finally:
            self._tell(plugin, point, label, self._clock() - started)
