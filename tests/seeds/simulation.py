"""Runs a scenario: real schedulers, a simulated world, and the invariants looking on."""

import asyncio
import hashlib
import random
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from tests.seeds.acts import Acts
from tests.seeds.api_server import PODS, ApiServer
from tests.seeds.invariants import Invariants
from tests.seeds.network import WORLD, Network
from tests.seeds.process import SWEEP_SECONDS, Process, without_cost
from tests.seeds.scenario import Scenario
from tests.seeds.virtual_loop import StuckError, VirtualLoop

REST_SECONDS = 240.0
"""After the last fault, everything must be at rest within this time: the longest silence of a watch (70 s), the longest backoff twice
(60 s), a sweep (50 s and 5 s), and some."""
SHOWN_SECONDS = 60.0 + 2 * SWEEP_SECONDS + 10.0
"""After so long, everything has been compared with a restored API server, also by a process that was stopped."""
LOOK_SECONDS = 2.0
_KILLED = "Task was destroyed but it is pending"


@dataclass
class Result:
    """How a simulation ended.

    Attributes:
        violation: the first invariant that was broken and how, "" for none.
        trace: what happened, in order.
        digest: of the trace.
        healed_after: virtual seconds from the last fault until everything was at rest.
        turns: of the event loop.
    """

    violation: str
    trace: list[str]
    digest: str
    healed_after: float
    turns: int


def simulate(scenario: Scenario) -> Result:
    """Run a scenario to its end, or to the first violation."""
    return _Simulation(scenario).run()


class _Simulation:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        rng = random.Random(f"chance {scenario.seed}")
        self.trace: list[str] = []
        self.loop = VirtualLoop(rng, scenario.offset)
        self.server = ApiServer(self.loop.time)
        self.network = Network(self.loop, self.server, rng, self.trace)
        self.processes: dict[str, Process] = {}
        self.acts = Acts(self.loop, self.server, self.network, self.processes)
        self.invariants = Invariants(self.loop, self.server, self.acts, self.processes)
        self.network.given_up = self._given_up
        for name in scenario.processes:
            self.processes[name] = Process(name, scenario, self.loop, self.network, self.invariants)
        self.healed_after = 0.0

    def run(self) -> Result:
        self.loop.set_exception_handler(self._exception)
        chance = random.getstate()
        # The jitter of a few pauses comes from the module's own.
        random.seed(f"module {self.scenario.seed}")
        with _errors_into(self.invariants), without_cost():
            asyncio.set_event_loop(self.loop)
            try:
                self.loop.run_until_complete(self._main())
            except StuckError as error:
                self.invariants.report(f"I9: {error}")
            finally:
                try:
                    self._end()
                except StuckError as error:
                    self.invariants.report(f"I9: while it is ended: {error}")
                random.setstate(chance)
        digest = hashlib.sha256("\n".join(self.trace).encode()).hexdigest()
        return Result(self.invariants.broken, self.trace, digest, self.healed_after, self.loop.turns)

    async def _main(self) -> None:
        scenario, loop = self.scenario, self.loop
        for action in scenario.actions:
            if action.at < 0:
                self._act(action)
            else:
                loop.call_at(scenario.offset + action.at, self._act, action, context=WORLD)
        for process in self.processes.values():
            process.start()
        loop.call_soon(self._each_second, context=WORLD)
        await self._pass(scenario.length)
        self.network.note("all faults are over")
        self.network.heal()
        for process in self.processes.values():
            process.out_of_reach = None
        healed = loop.time()
        problems = self.invariants.problems()
        while problems and loop.time() - healed < REST_SECONDS and not self.invariants.broken:
            await self._pass(LOOK_SECONDS)
            problems = self.invariants.problems()
        self.healed_after = loop.time() - healed
        if problems:
            self.invariants.report(f"{problems[0]}, {REST_SECONDS:.0f} s after the last fault; all: {problems}")
        if not self.invariants.broken:
            self.invariants.final()

    async def _pass(self, seconds: float) -> None:
        end = self.loop.time() + seconds
        while (left := end - self.loop.time()) > 0 and not self.invariants.broken:  # noqa: ASYNC110  time is virtual
            await asyncio.sleep(min(left, LOOK_SECONDS))

    def _act(self, action: Any) -> None:
        self.network.note(f"act {action.what}{action.args}")
        getattr(self.acts, action.what)(*action.args)

    def _each_second(self) -> None:
        if self.network.ended:
            return
        self.acts.end_terminating()
        if self.scenario.uses("restore"):
            self.acts.back_up()
        self.invariants.each_second()
        self.loop.call_later(1.0, self._each_second, context=WORLD)

    def _given_up(self, _client: str, path: str) -> None:
        """A binding arrives whose sender has given it up: nobody can know in time that it will be carried out."""
        self.network.note(f"late: {path}")
        self.acts.disturbed.update(node["metadata"]["name"] for node in self.server.nodes())
        pod = self.server.get(PODS, f"default/{path.split('/')[-2]}")
        if pod is not None:
            self.acts.late.add(pod["metadata"]["uid"])

    def _exception(self, _loop: Any, context: dict[str, Any]) -> None:
        if _KILLED not in context.get("message", ""):
            self.invariants.report(f"a callback failed: {context}")

    def _end(self) -> None:
        """End the processes; what they do then is of no interest."""
        broken = self.invariants.broken
        self.network.ended = True
        for process in self.processes.values():
            self.loop.run_until_complete(process.end())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        self.loop.close()
        self.invariants.broken = broken


@contextmanager
def _errors_into(invariants: Invariants) -> Iterator[None]:
    """No scenario is a reason for a scheduler to log an error with a traceback, or that cache and events contradict each other.

    But if the API server was restored and has gone on before anybody looked, a pod that has lost its node, or has another one, shows that
    first. And if only a read of a pod had brought what the backup does not have, the comparison shows it.
    """

    def catch(_logger: Any, method: str, event: dict[str, Any]) -> Any:
        # Others are what the scenario causes, such as not being allowed to list.
        contradicted = event["event"].startswith(("drift found", "cache error")) and not invariants.set_back(
            SHOWN_SECONDS
        )
        if event.get("exc_info") or contradicted:
            about = traceback.format_exc() if event.pop("exc_info", None) is True else ""
            invariants.report(f"an error was logged: {event} {about}")
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[catch], wrapper_class=structlog.make_filtering_bound_logger(40))
    try:
        yield
    finally:
        structlog.configure(**before)
