"""A kubelet without containers: runs and ends pods as far as the API server can tell."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import aiohttp

from schedcache.testing.api_client import STRATEGIC_MERGE_PATCH, ApiClient, ApiStatusError
from schedcache.testing.builders import JSONObject
from schedcache.testing.cluster import pod_path

PODS = "/api/v1/pods"
ON_A_NODE = "spec.nodeName!="
FINISHED = frozenset({"Succeeded", "Failed"})
RECONNECT_SECONDS = 0.2
CONCURRENT_WRITES = 16


def now() -> str:
    """The time as Kubernetes writes it, in whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def never(_pod: JSONObject) -> float | None:
    """Pods run until something ends them."""
    return None


class FakeKubelet:
    """The kubelet of every node of a cluster, as an async context manager.

    Sets pods that got a node Running, ends them after a time or on request, and completes the deletion of pods that are
    deleted with a grace period. It admits every pod: see :meth:`finish` for one that a kubelet would reject.

    Args:
        client: its identity; it must be open for as long as the kubelet runs.
        run_for: seconds from Running to Succeeded of a pod; ``None``: until something ends it, which is the default.
        termination_seconds: from the deletion of a pod to its end, at most its grace period.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        run_for: Callable[[JSONObject], float | None] = never,
        termination_seconds: float = 0.0,
    ) -> None:
        self._client = client
        self._run_for = run_for
        self._termination_seconds = termination_seconds
        self._writes = asyncio.Semaphore(CONCURRENT_WRITES)
        self._pods: set[str] = set()
        # What is under way, by UID; a pod's deletion replaces its run.
        self._running: dict[str, asyncio.Task[None]] = {}
        self._deleting: dict[str, asyncio.Task[None]] = {}
        self._follower: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._follower = asyncio.create_task(self._follow())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = [task for task in (self._follower, *self._running.values(), *self._deleting.values()) if task]
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        if failures and error is None:
            raise failures[0]

    async def finish(
        self, namespace: str, name: str, phase: str = "Succeeded", reason: str | None = None
    ) -> JSONObject:
        """End a pod; it is kept, as finished pods are.

        Args:
            namespace: of the pod.
            name: of the pod.
            phase: ``Succeeded`` or ``Failed``.
            reason: ``status.reason``; a kubelet without room for the pod says ``OutOfcpu``.

        Returns:
            The pod.
        """
        if phase not in FINISHED:
            raise ValueError(f"phase: expected one of {', '.join(sorted(FINISHED))}, not {phase!r}")
        pod = {"metadata": {"namespace": namespace, "name": name}}
        return await self._set_status(pod, _finished_status(phase, reason))

    async def _follow(self) -> None:
        """List, then watch; over again whenever the API server ends it."""
        while True:
            try:
                pods, version = await self._client.list_with_version(PODS, fieldSelector=ON_A_NODE)
                self._forget_all_but({pod["metadata"]["uid"] for pod in pods})
                for pod in pods:
                    self._see(pod)
                async for kind, pod in self._client.watch(PODS, version, fieldSelector=ON_A_NODE):
                    if kind == "DELETED":
                        self._forget(pod["metadata"]["uid"])
                    else:
                        self._see(pod)
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(RECONNECT_SECONDS)
            except ApiStatusError as error:
                if not _is_passing(error):
                    raise
                await asyncio.sleep(RECONNECT_SECONDS)

    def _see(self, pod: JSONObject) -> None:
        uid = pod["metadata"]["uid"]
        self._pods.add(uid)
        if pod["metadata"].get("deletionTimestamp"):
            if uid not in self._deleting:
                self._cancel_run(uid)
                self._deleting[uid] = asyncio.create_task(self._complete_deletion(pod))
        elif pod["status"]["phase"] in FINISHED:
            self._cancel_run(uid)
        elif uid not in self._running:
            self._running[uid] = asyncio.create_task(self._run(pod))

    def _forget_all_but(self, uids: set[str]) -> None:
        for uid in self._pods - uids:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        self._pods.discard(uid)
        self._cancel_run(uid)
        self._deleting.pop(uid, None)

    def _cancel_run(self, uid: str) -> None:
        task = self._running.pop(uid, None)
        if task is not None:
            task.cancel()

    async def _run(self, pod: JSONObject) -> None:
        if pod["status"]["phase"] == "Pending":
            await self._persist(lambda: self._set_status(pod, _running_status()))
        seconds = self._run_for(pod)
        if seconds is not None:
            await asyncio.sleep(seconds)
            await self._persist(lambda: self._set_status(pod, _finished_status("Succeeded", None)))

    async def _complete_deletion(self, pod: JSONObject) -> None:
        metadata = pod["metadata"]
        await asyncio.sleep(min(self._termination_seconds, metadata.get("deletionGracePeriodSeconds") or 0))
        await self._persist(lambda: self._client.delete(pod_path(pod), grace_seconds=0, uid=metadata["uid"]))

    async def _persist(self, write: Callable[[], Awaitable[JSONObject]]) -> None:
        """Write until the API server takes it, or says that the pod has gone meanwhile."""
        while True:
            try:
                async with self._writes:
                    await write()
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(RECONNECT_SECONDS)
            except ApiStatusError as error:
                if _is_gone(error):
                    return
                if not _is_passing(error):
                    raise
                await asyncio.sleep(RECONNECT_SECONDS)
            else:
                return

    async def _set_status(self, pod: JSONObject, status: JSONObject) -> JSONObject:
        metadata = pod["metadata"]
        # The UID makes the API server refuse, with 422, to write to another pod of the same name.
        only_this = {"metadata": {"uid": metadata["uid"]}} if "uid" in metadata else {}
        path, body = f"{pod_path(pod)}/status", {**only_this, "status": status}
        return await self._client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)


def _is_gone(error: ApiStatusError) -> bool:
    """Whether the pod no longer exists, though another may have its name."""
    return error.status in (404, 409) or (error.status == 422 and "metadata.uid" in error.message)


def _is_passing(error: ApiStatusError) -> bool:
    """Whether to try again: an API server that is busy, starting, or has forgotten where we were."""
    return error.status >= 500 or error.status in (410, 429)


def _conditions(status: str, *kinds: str) -> list[JSONObject]:
    return [{"type": kind, "status": status, "lastTransitionTime": now()} for kind in kinds]


def _running_status() -> JSONObject:
    # No podIP: no network is behind it.
    ready = _conditions("True", "Initialized", "ContainersReady", "Ready")
    return {"phase": "Running", "startTime": now(), "conditions": ready}


def _finished_status(phase: str, reason: str | None) -> JSONObject:
    status: JSONObject = {"phase": phase, "conditions": _conditions("False", "ContainersReady", "Ready")}
    return status if reason is None else {**status, "reason": reason}
