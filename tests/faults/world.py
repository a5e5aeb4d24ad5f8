"""A cluster, a fault and the schedulers that live through it; and the measure of when all is well again."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from schedcache.kube.settings import WriteSettings
from schedcache.testing import ApiStatusError, Cluster, JSONObject, wait_until
from tests.e2e.truth import (
    assert_bound_once,
    assert_no_node_is_overcommitted,
    at_rest,
    believed,
    nodes_in,
    same_sums,
    unfinished,
)
from tests.faults import leases
from tests.faults.process import Launch, Scheduler
from tests.faults.proxy import SwitchingProxy
from tests.faults.rows import Row
from tests.faults.servers import Servers

BINDING = r"/pods/[^/]+/binding$"
PODS = "/api/v1/namespaces/default/pods"
MIB = 2**20
GROWTH_BYTES = 64 * MIB
LOG_BYTES_PER_POD = 2048
LOG_BYTES = 256 * 1024
DESCRIPTORS = (
    32 + 2 * WriteSettings.concurrent_binds + WriteSettings.concurrent_events + WriteSettings.concurrent_patches
)
"""Connections are kept for a minute after a burst, of each kind of request as many as may be under way; binds may be followed by reads."""
CALM_CPU_SHARE = 0.3
SAMPLE_SLACK_SECONDS = 1.5
T = TypeVar("T")


class World:
    """What a test of a fault works with.

    Attributes:
        servers: etcd and the API server, of this test alone where the row says so.
        proxy: between the schedulers and the API server; nothing else goes through it.
        random: seeded by the run's seed, the row and the source.
        began, over: when the fault began and when it was over.
        lifted: where what is left of it ends by itself, such as the start of a server: from when on.
        checked: the invariants that have been looked at, and hold.
        measured: figures for the report.
    """

    def __init__(self, row: Row, source: str, seed: int, cluster: Cluster, proxy: SwitchingProxy, folder: Path) -> None:
        self.row = row
        self.source = source
        self.cluster = cluster
        self.proxy = proxy
        self.random = random.Random(f"{seed} {row.key} {source}")
        self.schedulers: list[Scheduler] = []
        self.began = self.over = self.lifted = 0.0
        self.checked: set[str] = set()
        self.measured: dict[str, float] = {}
        self.healed_after: float | None = None
        self.folder = folder
        self._exits = AsyncExitStack()
        self._pods = 0

    @property
    def servers(self) -> Servers:
        control_plane = self.cluster.control_plane
        assert isinstance(control_plane, Servers)
        return control_plane

    async def close(self) -> None:
        await self._exits.aclose()

    async def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Until the end of the test."""
        return await self._exits.enter_async_context(manager)

    # ---- what is there

    async def start(
        self, *flags: str, launch: Launch | None = None, kubeconfig: Path | None = None, ready: bool = True
    ) -> Scheduler:
        """A scheduler, through the proxy unless `kubeconfig` says otherwise; one replica that elects nobody."""
        given = {flag.partition("=")[0] for flag in flags}
        defaults = {
            "--event-source": self.source,
            "--leader-elect": "false",
            "--kube-api-qps": "200",
            "--kube-api-burst": "200",
        }
        flags = (*(f"{key}={value}" for key, value in defaults.items() if key not in given), *flags)
        log = self.folder / f"scheduler-{len(self.schedulers)}.log"
        made = Scheduler(kubeconfig or self.proxy.kubeconfig, log, *flags, launch=launch)
        self.schedulers.append(await self._exits.enter_async_context(made))
        if ready:
            await made.ready()
        return made

    async def nodes(self, count: int, **fields: Any) -> list[JSONObject]:
        return await self.cluster.make_nodes(count, **fields)

    async def pods(self, count: int, *, name: str | None = None, **fields: Any) -> list[JSONObject]:
        """Pods that fit, unless the test has them labelled `fits=no`."""
        self._pods += count
        fields.setdefault("requests", {"cpu": "100m", "memory": "64Mi"})
        return await self.cluster.make_pods(count, name=name or f"pod-{self._pods}-{{}}", **fields)

    async def bound(self, count: int, timeout: float = 30.0) -> list[JSONObject]:
        return await self.cluster.wait_until_bound(count, timeout=timeout)

    async def delete_pod(self, name: str) -> None:
        await self.cluster.delete(f"{PODS}/{name}", grace_seconds=0)

    async def reconnect(self) -> None:
        """With the certificate authority as it is now."""
        await self.cluster.__aexit__(None, None, None)
        await self.cluster.__aenter__()

    # ---- the fault

    @asynccontextmanager
    async def fault(self) -> AsyncIterator[None]:
        """Holds while the block runs."""
        self.begin()
        try:
            yield
        finally:
            self.proxy.clear()
            self.over = time.monotonic()
            self.lifted = self.lifted or self.over

    def lift(self) -> None:
        """From now on it may be noticed that the fault is gone."""
        self.lifted = time.monotonic()

    def begin(self) -> None:
        self.began = time.monotonic()
        self._cpu = {one: one.usage().cpu_seconds for one in self._running()}

    def _running(self) -> list[Scheduler]:
        return [one for one in self.schedulers if one.running]

    def calm(self) -> None:
        """While the fault held, no scheduler turned in circles. Asked before the fault is over."""
        lasted = time.monotonic() - self.began
        for one, before in self._cpu.items():
            share = (one.usage().cpu_seconds - before) / lasted
            assert share < CALM_CPU_SHARE, f"{share:.0%} of a CPU while nothing could be done"

    def unready(self, within: float, *words: str, scheduler: Scheduler | None = None) -> None:
        """Not ready `within` seconds after the beginning of the fault, and from then on until it was lifted."""
        looked = [one for one in (scheduler or self.schedulers[0]).samples if self.began <= one.time < self.lifted]
        first = next((one for one in looked if one.ready != 200), None)
        assert first is not None, f"ready for all of the {self.lifted - self.began:.0f} s that it lasted"
        after = first.time - self.began
        assert after <= within + SAMPLE_SLACK_SECONDS, f"ready for {after:.1f} s"
        flapped = [one for one in looked if one.time > first.time and one.ready == 200]
        assert not flapped, (
            f"ready again while it lasted, {flapped[0].time - self.began:.1f} s after it began;"
            f" before that {failing(looked[looked.index(flapped[0]) - 1].text)}"
        )
        assert any(all(word in one.text for word in words) for one in looked), failing(looked[-1].text)
        self.measured["unready_after"] = round(after, 1)
        self.checked.add("I8")

    def always_ready(self) -> None:
        """Nobody had to know."""
        missed = [one for one in self.schedulers[-1].samples if one.time >= self.began and one.ready != 200]
        assert not missed, missed[0]
        self.checked.add("I8")

    async def leader_is(self, user: str, within: float = 30.0) -> None:
        """Wait until that identity has written the lease after everybody else; the time since the fault began."""
        try:
            await wait_until(lambda: self._leads(user), within, interval=0.1)
        except TimeoutError:
            raise AssertionError(
                f"{user} does not lead after {within:.0f} s; it was {leases.holders(self.cluster)}"
            ) from None
        if self.began:
            self.measured["taken_over_after"] = round(time.monotonic() - self.began, 1)

    async def _leads(self, user: str) -> bool:
        return leases.holders(self.cluster)[-1:] == [user]

    # ---- the end of it

    async def healed(self, *, within: float | None = None, killed_server: bool = False, since: float = 0.0) -> float:
        """Wait until all invariants hold; the time since the fault was over."""
        within = self.row.within if within is None else within
        self.over = since or self.over
        wrong = "nothing was looked at"
        while wrong:
            try:
                wrong = await self._wrong()
            except (aiohttp.ClientError, ApiStatusError, TimeoutError) as error:
                wrong = f"{type(error).__name__}: {error}"
            elapsed = time.monotonic() - self.over
            if wrong and elapsed > within:
                raise AssertionError(f"not healed {elapsed:.0f} s after the fault: {wrong}")
            if wrong:
                await asyncio.sleep(0.2)
        self.healed_after = round(elapsed, 1)
        self.checked |= {"I3", "I4", "I5"}
        await self._lasting(killed_server)
        return elapsed

    async def _wrong(self) -> str:
        """What does not hold yet; "" if all does."""
        pods = await self.cluster.list_pods()
        waiting = [
            pod["metadata"]["name"]
            for pod in pods
            if pod["spec"]["schedulerName"] == "schedcache"
            and not pod["spec"].get("nodeName")
            and pod["metadata"].get("labels", {}).get("fits") != "no"
        ]
        if waiting:
            return f"I5: {len(waiting)} feasible pods are pending, such as {waiting[0]}"
        truth = await unfinished(self.cluster)
        names = {node["metadata"]["name"] for node in await self.cluster.list_all("/api/v1/nodes")}
        for one in self._running():
            dump = await one.dump()
            if not at_rest(dump):
                return f"I3: assumed {dump.assumed}, in flight {dump.queue.in_flight}"
            if believed(dump) != truth or nodes_in(dump) != names:
                differing = dict(believed(dump).items() ^ truth.items())
                return f"I4: pods {list(differing.values())[:4]}, nodes {sorted(nodes_in(dump) ^ names)[:4]}"
            pending = {uid for uid, (_, _, node) in truth.items() if not node}
            if stray := dump.queue.pods.keys() - pending:
                return f"I3: queued, and not pending: {stray}"
            try:
                same_sums(dump, pods)
            except AssertionError as error:
                return f"I4: sums differ: {error}"
            status, text = await one.probe("/readyz")
            if status != 200:
                return f"I8: not ready: {failing(text)}"
        return ""

    async def _lasting(self, killed_server: bool) -> None:
        """What must have held all along."""
        if "I1" in self.row.invariants:
            await assert_bound_once(self.cluster, server_was_killed=killed_server)
            self.checked.add("I1")
        if "I2" in self.row.invariants:
            await assert_no_node_is_overcommitted(self.cluster)
            for one in self.schedulers:
                assert not one.overcommitted, one.overcommitted[0]
            self.checked.add("I2")
        for one in self.schedulers:
            assert one.generations == sorted(one.generations), f"the generation went back: {one.generations}"
        self.checked.add("I6")
        if "I7" in self.row.invariants:
            await leases.assert_fenced(self.cluster)
            self.checked.add("I7")
        if "I8" in self.row.invariants:
            for one in self.schedulers:
                up = next((n for n, sample in enumerate(one.samples) if sample.live == 200), len(one.samples))
                failed = [sample for sample in one.samples[up:] if sample.live == 500]
                assert not failed, f"/livez failed: {failed[0]}"
            self.checked.add("I8")
        self._bounded()

    def _bounded(self) -> None:
        for one in self._running():
            now, before = one.usage(), one.usage_at_start
            written = one.log.stat().st_size if one.log.exists() else 0
            grown = now.resident - before.resident
            self.measured["grown_mib"] = max(self.measured.get("grown_mib", 0.0), round(grown / MIB, 1))
            if "I9" in self.row.invariants:
                assert grown < GROWTH_BYTES + self._pods * 10 * 1024, f"grown by {grown / MIB:.0f} MiB"
                assert now.descriptors <= before.descriptors + DESCRIPTORS, f"{now.descriptors} descriptors"
                assert written < LOG_BYTES + LOG_BYTES_PER_POD * self._pods, f"{written / 1024:.0f} KiB of log"
        self.checked.add("I9")


def failing(text: str) -> str:
    """The checks that fail, of an answer of `/readyz`."""
    return "; ".join(line for line in text.splitlines() if line.startswith("[-]")) or text
