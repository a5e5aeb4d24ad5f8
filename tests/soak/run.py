"""A soak: a scheduler under load and random faults for a long time, watched from outside."""

import asyncio
import contextlib
import random
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from schedcache.testing import Cluster, FakeKubelet, FaultProxy, wait_until
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_dump_is_truth, assert_no_node_is_overcommitted
from tests.soak.bindings import Bindings
from tests.soak.chaos import OUTAGE, Chaos
from tests.soak.load import NOT_FEASIBLE, Load
from tests.soak.samples import BOUNDS, Sample, Trend, sample_for_ever, trend

HEAL_SECONDS = 90.0
"""Within that time after the last fault, every feasible pod has a node, and the cache equals the API."""
AUDIT_SECONDS = 5.0
SHORTEST_WARM_UP_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class SoakSettings:
    """What is run. `pause`: seconds from one fault to the next; `lifetime`: of pods, in seconds."""

    seed: int
    seconds: float = 1800.0
    source: str = "reflector"
    per_second: float = 50.0
    lifetime: tuple[float, float] = (5.0, 25.0)
    nodes: int = 50
    pause: tuple[float, float] = (4.0, 12.0)
    flags: tuple[str, ...] = ()


@dataclass
class Report:
    """What came of it; `problems` is empty if all is well, and `healed_seconds` None if it never was after the last fault."""

    settings: SoakSettings
    trends: dict[str, Trend] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    healed_seconds: float | None = None
    problems: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def as_json(self) -> Mapping[str, Any]:
        return {
            **asdict(self),
            "trends": {name: {**asdict(one), "flat": one.flat} for name, one in self.trends.items()},
            "samples": [{"at": round(one.at, 1), "quiet": one.quiet, **one.gauges} for one in self.samples],
        }


async def soak(cluster: Cluster, settings: SoakSettings, log: Path) -> Report:
    """Run it on a control plane without objects. Everything random comes from the seed, except what the machine does."""
    report = Report(settings)
    rng = random.Random(settings.seed)
    load = Load(
        cluster,
        random.Random(rng.random()),
        per_second=settings.per_second,
        lifetime=settings.lifetime,
        nodes=settings.nodes,
    )
    await load.prepare()
    bindings = Bindings(cluster.control_plane.audit.path)
    async with (
        FaultProxy(cluster.control_plane) as proxy,
        FakeKubelet(cluster),
        SchedulerProcess(proxy.kubeconfig, log, f"--event-source={settings.source}", *settings.flags) as scheduler,
    ):
        await scheduler.ready()
        port = int(proxy.url.rpartition(":")[2])
        chaos = Chaos(proxy, cluster.control_plane, random.Random(rng.random()), settings.pause)
        try:
            async with _running(load.run()):
                # After the first outage as many connections are open as ever will be, and then as many pods live.
                await chaos.inject(OUTAGE)
                await asyncio.sleep(min(settings.lifetime[1], max(SHORTEST_WARM_UP_SECONDS, settings.seconds / 10)))
                async with (
                    _running(
                        sample_for_ever(scheduler, port, lambda: chaos.quiet, report.samples), _read_for_ever(bindings)
                    ),
                    _running(chaos.run()),
                ):
                    await asyncio.sleep(settings.seconds)
        finally:
            await load.finish()
        await _judge_the_end(cluster, scheduler, report)
        await cluster.audit.settled(cluster)
        bindings.read()
        if twice := bindings.twice():
            report.problems.append(f"{len(twice)} pods were bound more than once: {', '.join(twice[:5])}")
    report.faults = dict(chaos.counts)
    report.counts = {name: number for name, number in load.counts.items() if name != "alive"}
    report.counts["pods bound"] = len(bindings.succeeded)
    report.counts |= {f"binds answered {status}": number for status, number in sorted(bindings.answers.items())}
    _judge_growth(report)
    return report


async def _judge_the_end(cluster: Cluster, scheduler: SchedulerProcess, report: Report) -> None:
    started, known = time.monotonic(), len(report.problems)
    waiting: list[str] = []

    async def all_bound() -> bool:
        waiting[:] = [
            pod["metadata"]["uid"]
            for pod in await cluster.list_pods(fieldSelector="spec.nodeName=")
            if NOT_FEASIBLE not in pod["metadata"].get("labels", {})
        ]
        return not waiting

    try:
        await wait_until(all_bound, HEAL_SECONDS)
    except TimeoutError:
        dump = await scheduler.dump()
        states = {
            uid: f"{dump.pods[uid].name} {dump.pods[uid].state} {dump.queue.pods.get(uid)}"
            if uid in dump.pods
            else "unknown"
            for uid in waiting
        }
        report.problems.append(f"{len(waiting)} feasible pods have no node: {'; '.join(list(states.values())[:5])}")
    try:
        await assert_dump_is_truth(cluster, scheduler.dump, timeout=HEAL_SECONDS)
        await assert_no_node_is_overcommitted(cluster)
    except AssertionError as error:
        report.problems.append(f"the cache differs from the API: {str(error)[:2000]}")
    if len(report.problems) == known:
        report.healed_seconds = round(time.monotonic() - started, 1)


def _judge_growth(report: Report) -> None:
    for name, bound in BOUNDS.items():
        try:
            found = report.trends[name] = trend(report.samples, name, report.settings.seconds, bound)
        except ValueError as error:
            report.problems.append(str(error))
            continue
        if not found.flat:
            report.problems.append(
                f"{name} grows: {found.second:.1f} in the second third, {found.last:.1f} in the last, drift"
                f" {found.drift:+.1f}, bound {found.bound:.1f}"
            )


async def _read_for_ever(bindings: Bindings) -> None:
    while True:
        await asyncio.sleep(AUDIT_SECONDS)
        await asyncio.to_thread(bindings.read)


@contextlib.asynccontextmanager
async def _running(*works: Any) -> Any:
    """For as long as the block lasts; one that ends by itself has failed, and ends the block."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
            yield
            for task in tasks:
                task.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
