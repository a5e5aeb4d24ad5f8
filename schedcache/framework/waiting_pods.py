"""Pods that Permit plugins keep waiting (kube-scheduler's waitingPodsMap)."""

import asyncio
from collections.abc import Iterator, Mapping

from schedcache.config.duration import go_duration
from schedcache.framework.status import Code, Status
from schedcache.model import Pod

MAX_WAIT = 15 * 60.0
"""Seconds; no plugin can make a pod wait longer."""


class WaitingPod:
    """A pod that has its node, and waits until every plugin that asked for time allows it; one rejection is enough."""

    def __init__(self, pod: Pod, waits: Mapping[str, float]) -> None:
        self.pod = pod
        self._pending = dict(waits)
        self._outcome: Status | None = None
        self._decided = asyncio.Event()

    def pending_plugins(self) -> list[str]:
        """Plugins that have not allowed it yet."""
        return sorted(self._pending)

    def allow(self, plugin: str) -> None:
        """The plugin needs no more time."""
        self._pending.pop(plugin, None)
        if not self._pending:
            self._decided.set()

    def reject(self, plugin: str, message: str) -> bool:
        """The pod may not be bound; False if it is already decided."""
        return self._stop(Code.UNSCHEDULABLE, plugin, message)

    def preempt(self, plugin: str, message: str) -> bool:
        """The pod has to make way; nothing is wrong with it, so it is tried again. False if it is already decided."""
        return self._stop(Code.ERROR, plugin, message)

    def _stop(self, code: Code, plugin: str, message: str) -> bool:
        if self._decided.is_set():
            return False
        self._outcome = Status(code, (message,), plugin)
        self._decided.set()
        return True

    async def wait(self) -> Status | None:
        """None if allowed, otherwise the rejection; the plugin with the shortest time rejects when that is over."""
        plugin, limit = min(self._pending.items(), key=lambda item: item[1], default=("", 0.0))
        try:
            async with asyncio.timeout(None if self._decided.is_set() else limit):
                await self._decided.wait()
        except TimeoutError:
            # An allowance may have come in the same turn of the loop as the end of the time.
            self.reject(plugin, f"rejected due to timeout after waiting {go_duration(limit)} at plugin {plugin}")
        return self._outcome


class WaitingPods:
    """The waiting pods of all profiles, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, pod: Pod, waits: Mapping[str, float]) -> None:
        """Let a pod wait; seconds by plugin."""
        self._pods[pod.uid] = WaitingPod(pod, {name: min(wait, MAX_WAIT) for name, wait in waits.items()})

    async def wait(self, uid: str) -> Status | None:
        """Wait until the pod is decided, and forget it. None: allowed, or it did not have to wait."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return None
        try:
            return await waiting.wait()
        finally:
            self._pods.pop(uid, None)
