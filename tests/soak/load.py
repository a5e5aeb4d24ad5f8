"""Pods that come and go at a steady rate, and nodes that are replaced by others."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable

import aiohttp

from schedcache.testing import ApiStatusError, Cluster, JSONObject, node_manifest, pod_manifest

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
ZONES = ("a", "b", "c")
NODE_SECONDS = 10.0
"""Between two replacements of a node."""
TICK_SECONDS = 0.1
WAITING_LIMIT = 500
"""Requests under way: while the API server does not answer, no more are begun."""
RETRY_SECONDS = 0.5
NOT_FEASIBLE = "not-feasible"


def pod(number: int) -> JSONObject:
    """The pods of a busy cluster: mostly alike, and each twenty of a job have a label value that is never used again."""
    job = {"job": f"job-{number // 20}"}
    name = f"pod-{number}"
    if number % 50 == 0:
        return pod_manifest(name, labels={NOT_FEASIBLE: "true"}, cpu="1000")
    if number % 10 == 1:
        return pod_manifest(name, labels=job, cpu="100m", anti_affinity=job)
    if number % 10 == 2:
        spread = {
            "maxSkew": 5,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": job},
        }
        return pod_manifest(name, labels=job, cpu="50m", topologySpreadConstraints=[spread])
    return pod_manifest(name, labels=job, cpu="50m", memory="64Mi")


class Load:
    """Creates pods and deletes them some seconds later, until cancelled.

    Attributes:
        counts: of pods created and deleted, nodes replaced, and requests that had no good answer.
    """

    def __init__(
        self, cluster: Cluster, rng: random.Random, *, per_second: float, lifetime: tuple[float, float], nodes: int
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._per_second = per_second
        self._lifetime = lifetime
        self._nodes = nodes
        self._tasks: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self.counts: Counter[str] = Counter()

    async def prepare(self) -> None:
        """The nodes."""
        for number in range(self._nodes):
            await self._cluster.create_node(self._node(number))

    async def run(self) -> None:
        replacing = asyncio.create_task(self._replace_nodes())
        try:
            await self._make_pods()
        finally:
            replacing.cancel()
            await asyncio.gather(replacing, return_exceptions=True)

    async def finish(self) -> None:
        """After `run`: the pods that are left stay, and requests under way end, so that nothing changes any more."""
        self._over.set()
        # All of them end, whatever becomes of one.
        errors = [end for end in await asyncio.gather(*self._tasks, return_exceptions=True) if end is not None]
        if errors:
            raise errors[0]

    async def _make_pods(self) -> None:
        clock = asyncio.get_running_loop().time
        number, due = 0, clock()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if len(self._tasks) - self.counts["alive"] > WAITING_LIMIT:
                due = clock()
                continue
            while due <= clock():
                self._start(self._live(number))
                number += 1
                due += 1 / self._per_second

    def _start(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _live(self, number: int) -> None:
        # Created, as far as anybody knows: an answer that is lost does not say that nothing was done.
        with contextlib.suppress(ApiStatusError, aiohttp.ClientError, TimeoutError):
            await self._cluster.create(PODS, pod(number))
            self.counts["pods created"] += 1
        self.counts["alive"] += 1
        try:
            async with asyncio.timeout(self._rng.uniform(*self._lifetime)):
                await self._over.wait()
        except TimeoutError:
            pass
        else:
            return
        finally:
            self.counts["alive"] -= 1
        await self._delete(f"{PODS}/pod-{number}")
        self.counts["pods deleted"] += 1

    async def _delete(self, path: str) -> None:
        while True:
            try:
                await self._cluster.delete(path, grace_seconds=0)
            except ApiStatusError as error:
                if error.status == 404:
                    return
            except (aiohttp.ClientError, TimeoutError):
                pass
            else:
                return
            self.counts["requests failed"] += 1
            await asyncio.sleep(RETRY_SECONDS)

    async def _replace_nodes(self) -> None:
        oldest = 0
        while True:
            await asyncio.sleep(NODE_SECONDS)
            try:
                await self._cluster.create_node(self._node(oldest + self._nodes))
            except ApiStatusError as error:
                if error.status != 409:
                    continue
                # There already, from a try whose answer was lost.
            except (aiohttp.ClientError, TimeoutError):
                continue
            await self._delete(f"{NODES}/node-{oldest}")
            oldest += 1
            self.counts["nodes replaced"] += 1

    def _node(self, number: int) -> JSONObject:
        return node_manifest(f"node-{number}", ZONES[number % len(ZONES)], cpu="16", memory="64Gi")
