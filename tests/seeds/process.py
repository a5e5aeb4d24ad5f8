"""A scheduler in the simulation: the program as `schedcache run` puts it together, on a simulated network and clock."""

import asyncio
import contextlib
import contextvars
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock, patch

from schedcache.app import program as program_module
from schedcache.app.health import health_of
from schedcache.app.program import Program, assembled
from schedcache.app.settings import Settings
from schedcache.config import KubeSchedulerConfiguration, config_from_dict
from schedcache.kube.leader_election.elector import LeadershipLostError
from schedcache.kube.settings import LeaderElectionSettings, WatchSettings, WriteSettings
from schedcache.kube.watch.pacing import Timing
from schedcache.plugins.default_plugins import installed_registry
from schedcache.ports import NoMetrics
from schedcache.queue.metrics import NoMetrics as NoQueueMetrics
from schedcache.server.share import ProcessorShare
from tests.seeds.network import WORLD, Network, SimulatedTransport
from tests.seeds.scenario import Scenario, scheduler_of
from tests.seeds.virtual_loop import OWNER, VirtualLoop

FEW_PLUGINS = (
    "SchedulingGates",
    "PrioritySort",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "DefaultPreemption",
    "DefaultBinder",
)
SWEEP_SECONDS = 50.0


class _Unmeasured(NoMetrics, NoQueueMetrics):
    """Nobody asks."""


plugins_installed = functools.cache(installed_registry)


def _unlimited_share(has_work: Callable[[], bool], share: float) -> ProcessorShare:
    return ProcessorShare(has_work, share, clock=lambda: asyncio.get_running_loop().time(), timer=lambda: 0.0)


@contextlib.contextmanager
def without_cost() -> Iterator[None]:
    """Leaves out what takes time and changes nothing here: metrics, looking for plugins, collecting garbage.

    Replicas are known to each other by the names that clients have here, and turns of the processor are counted as if they took
    no time: how long they really take is different each time.
    """
    with (
        patch.object(program_module, "installed_registry", plugins_installed),
        patch.object(program_module, "gc", Mock()),
        patch.object(program_module, "new_identity", OWNER.get),
        patch.object(program_module, "ProcessorShare", _unlimited_share),
        patch.object(program_module, "PrometheusMetrics", lambda _registry: _Unmeasured()),
    ):
        yield


@functools.cache
def configuration_of(name: str, plugins: str) -> KubeSchedulerConfiguration:
    profile: dict[str, Any] = {"schedulerName": name}
    if plugins == "few":
        enabled = [{"name": plugin} for plugin in FEW_PLUGINS]
        profile["plugins"] = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    return config_from_dict({"profiles": [profile]}).config


class Process:
    """One scheduler, which may be stopped, killed and started again.

    Attributes:
        name: of the process.
        scheduler: the name of the scheduler that it is a replica of.
        client: as the API server knows the present start.
        program: None while it does not run.
        decided: (UID, node) of every pod that any start of it has decided.
        out_of_reach: since when no answer can have reached it, and after how many seconds it must know; None if one can.
        wall_offset: by how much its wall clock is wrong.
    """

    def __init__(self, name: str, scenario: Scenario, loop: VirtualLoop, network: Network, watcher: Any) -> None:
        self.name = name
        self.scheduler = scheduler_of(name)
        self.client = ""
        self.program: Program | None = None
        self.decided: set[tuple[str, str]] = set()
        self.out_of_reach: tuple[float, float] | None = None
        self.wall_offset = 0.0
        self.frozen_until = 0.0
        self.started_at = 0.0
        self.dead_clients: set[str] = set()
        self.health: Any = None
        self._scenario = scenario
        self._loop = loop
        self._network = network
        self._watcher = watcher
        self._starts = 0
        self._task: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def runs(self) -> bool:
        return self.program is not None and self._loop.now >= self.frozen_until

    def start(self) -> None:
        self._starts += 1
        self.client = f"{self.name}#{self._starts}"
        self.started_at = self._loop.now
        context = contextvars.Context()
        context.run(OWNER.set, self.client)
        self._task = self._loop.create_task(self._live(self.client), context=context)
        self._tasks.append(self._task)

    async def _live(self, client: str) -> None:
        rng = random.Random(f"{self._scenario.seed} {client}")
        timing = Timing(clock=self._clock, rng=rng, wall_clock=self._wall_clock)
        settings = self._settings()
        transport = SimulatedTransport(self._network, client, settings.requests, self._clock, rng)
        async with assembled(settings, transport, timing) as program:
            self.program, self.health = program, health_of(program)
            # Hints are asked in the order of a set of strings, until one wakes the pod, and each is timed.
            program.scheduler.state.queue._judge._table._clock = self._loop.time
            self._watcher.watch(self, client, program)
            try:
                await program.run()
            except* LeadershipLostError:
                # As kubelets do.
                self._loop.call_later(1.0, self.start, context=WORLD)
            except* Exception as errors:  # noqa: BLE001  whatever it is, it should not be
                self._watcher.report(f"{client} ended: {errors!r}")
            finally:
                if self.client == client:
                    self.program = None

    def _settings(self) -> Settings:
        scenario = self._scenario
        return Settings(
            configuration=configuration_of(self.scheduler, scenario.plugins),
            leader_election=self._election(),
            validate=scenario.validate,
            # So that it is over while the watch is late, too.
            assumed_pod_ttl=5.0,
            # Nothing but an event may bring a pod back: the rescue after five minutes would hide what was missed.
            max_in_unschedulable=1e6,
            watch=WatchSettings(
                page_limit=scenario.page_limit, metadata_page_limit=100, sweep_interval_seconds=SWEEP_SECONDS
            ),
            writes=WriteSettings(concurrent_events=4, concurrent_patches=4),
        )

    def _election(self) -> LeaderElectionSettings | None:
        if not self._scenario.leases:
            return None
        return LeaderElectionSettings(resource_name=self.scheduler, resource_namespace="kube-system")

    def _clock(self) -> float:
        self._loop.now += self._scenario.tick
        return self._loop.now

    def _wall_clock(self) -> float:
        return 1.8e9 + (self._loop.now - self._scenario.offset) + self.wall_offset

    # ---- what happens to it

    def away(self, seconds: float, known_after: float) -> None:
        """No answer reaches it for so long."""
        if self.out_of_reach is None or self.out_of_reach[1] < known_after:
            self.out_of_reach = self._loop.now, known_after
        self._loop.call_later(seconds, self._back, self.out_of_reach, context=WORLD)

    def _back(self, since: tuple[float, float]) -> None:
        if self.out_of_reach == since:
            self.out_of_reach = None

    def must_know_that_it_is_cut_off(self) -> bool:
        if self.out_of_reach is None:
            return False
        since, known_after = self.out_of_reach
        return self._loop.now - max(since, self.started_at, self.frozen_until) > known_after

    def freeze(self, seconds: float) -> None:
        if self.runs:
            self.frozen_until = self._loop.now + seconds
            self._loop.freeze(self.client)
            self._loop.call_later(seconds, self._loop.thaw, self.client, context=WORLD)

    def kill(self, seconds: float) -> None:
        if not self.runs:
            return
        self._loop.freeze(self.client)
        self.dead_clients.add(self.client)
        for stream in [stream for stream in self._network.streams if stream.client == self.client]:
            stream.close()
        self.program = None
        self._loop.call_later(seconds, self.start, context=WORLD)

    def stop(self, seconds: float) -> None:
        if not self.runs or self.program.stopping:
            return
        task = self._task
        task.cancel()

        def start_again(_task: asyncio.Task[None]) -> None:
            self._loop.call_later(seconds, self.start, context=WORLD)

        task.add_done_callback(start_again, context=WORLD)

    async def end(self) -> None:
        """End all starts of it, also those that were killed."""
        for client in self.dead_clients:
            self._loop.thaw(client)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
