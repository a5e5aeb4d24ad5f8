"""Random faults between a scheduler and its API server, one after another, from a seed."""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress

from schedcache.testing import Answer, ControlPlane, Delay, FaultProxy, LoseResponse, Reset
from schedcache.testing.faults import Fault, error_event

BINDING = r"/binding$"
OUTAGE = "API server killed and restarted"
STOPPED_SECONDS = (2.0, 6.0)
HEALED_SECONDS = 5.0
"""After a fault is over, samples count as quiet again after so long: watches come back, what waited is worked off."""


class Chaos:
    """Faults until cancelled; afterwards everything works again.

    Attributes:
        counts: how often each fault was injected.
    """

    def __init__(
        self, proxy: FaultProxy, control_plane: ControlPlane, rng: random.Random, pause: tuple[float, float]
    ) -> None:
        self._proxy = proxy
        self._control_plane = control_plane
        self._rng = rng
        self._pause = pause
        self._quiet_from = 0.0
        self.counts: Counter[str] = Counter()
        self._faults: dict[str, Callable[[], Awaitable[None]]] = {
            "reset connections": lambda: self._rule(Reset()),
            "lost answers to binds": lambda: self._rule(LoseResponse(), BINDING, "POST"),
            "binds answered 429": lambda: self._rule(Answer(429, retry_after=1), BINDING, "POST"),
            "writes answered 500": lambda: self._rule(Answer(500), method="POST"),
            "everything answered 503": lambda: self._rule(Answer(503)),
            "lists answered 500": self._no_lists,
            "latency": lambda: self._rule(Delay(self._rng.uniform(0.1, 0.8))),
            "watches expired (410)": self._expire_watches,
            "watches cut": lambda: self._cut_watches(reset=False),
            "watches reset": lambda: self._cut_watches(reset=True),
            "silent watches": self._hold_watches,
            "API server stopped (SIGSTOP)": self._stop_server,
            OUTAGE: self._restart_server,
        }

    @property
    def quiet(self) -> bool:
        """No fault is under way, nor was one a moment ago."""
        return asyncio.get_running_loop().time() >= self._quiet_from

    async def run(self) -> None:
        names = list(self._faults)
        while True:
            await asyncio.sleep(self._rng.uniform(*self._pause))
            # Each in its turn, in a new order each time: a minute has nearly all, an hour has each as often.
            if not names:
                names = list(self._faults)
            await self.inject(names.pop(self._rng.randrange(len(names))))

    async def inject(self, name: str) -> None:
        """One fault, from its beginning to its end."""
        self.counts[name] += 1
        self._quiet_from = float("inf")
        try:
            await self._faults[name]()
        finally:
            self._proxy.clear()
            self._quiet_from = asyncio.get_running_loop().time() + HEALED_SECONDS

    def _seconds(self) -> float:
        return self._rng.uniform(0.5, 3.0)

    async def _rule(self, fault: Fault, path: str = "", method: str | None = None) -> None:
        self._proxy.add(fault, path=path, method=method)
        await asyncio.sleep(self._seconds())

    async def _no_lists(self) -> None:
        self._proxy.add(Answer(500), method="GET", watch=False)
        await self._expire_watches()
        await asyncio.sleep(self._seconds())

    async def _expire_watches(self) -> None:
        for watch in list(self._proxy.watches):
            # One that ends meanwhile needs no more.
            with suppress(ConnectionError):
                await watch.inject(error_event(410))

    async def _cut_watches(self, *, reset: bool) -> None:
        for watch in list(self._proxy.watches):
            watch.cut(reset=reset)

    async def _hold_watches(self) -> None:
        for watch in list(self._proxy.watches):
            watch.hold()
        await asyncio.sleep(self._rng.uniform(2.0, 10.0))

    async def _stop_server(self) -> None:
        self._signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self._rng.uniform(*STOPPED_SECONDS))
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        server = self._control_plane._api_server
        assert server is not None
        server.signal(number)

    async def _restart_server(self) -> None:
        self._control_plane.stop_api_server()
        starting = asyncio.create_task(self._start_again())
        try:
            await asyncio.shield(starting)
        finally:
            # Whoever stops this finds a server that runs.
            await starting

    async def _start_again(self) -> None:
        await asyncio.sleep(self._seconds())
        await asyncio.to_thread(self._control_plane.start_api_server)
