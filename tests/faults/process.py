"""`schedcache run` as a process that is looked at all the time: its probes, its dump, its memory."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple, Self

import aiohttp

from schedcache.dump import Dump, load_dump
from schedcache.testing import wait_until
from schedcache.testing.control_plane import free_ports
from schedcache.testing.processes import SupervisedProcess
from tests.e2e.figures import Figures

PROBE_SECONDS = 0.2
DUMP_SECONDS = 1.0
START_SECONDS = 60.0
STOP_SECONDS = 35.0
PAGE = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """One look at the probes; a status of 0: no answer within a second."""

    time: float
    ready: int
    text: str
    live: int


class Usage(NamedTuple):
    """What a process has of the machine."""

    resident: int
    descriptors: int
    cpu_seconds: float


@dataclass
class Launch:
    """How the process is started.

    Attributes:
        prefix: a command that runs the rest of its arguments.
        environment: further variables.
        address: where its ports are to be reached.
        module: what Python runs in place of schedcache.
        log: where its output goes; None: a file of the scheduler.
    """

    prefix: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    module: str = "schedcache"
    log: Path | None = None


class Scheduler:
    """A scheduler, as an async context manager. What it says is in `samples`; it is killed at the end if it still runs."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str, launch: Launch | None = None) -> None:
        self.launch = launch or Launch()
        self.log = log
        with free_ports(2) as (self.port, self.probe_port):
            pass
        self._command = [
            *self.launch.prefix,
            *(sys.executable, "-m", self.launch.module, "run", f"--kubeconfig={kubeconfig}", "--log-format=json"),
            *(
                f"--bind-address={self.launch.address}",
                f"--port={self.port}",
                f"--probe-port={self.probe_port}",
                *flags,
            ),
        ]
        self.samples: list[Sample] = []
        self.generations: list[int] = []
        self.overcommitted: list[str] = []
        self.shrunk: set[str] = set()
        self.frozen = False

    async def __aenter__(self) -> Self:
        self.process = SupervisedProcess(
            self._command, self.launch.log or self.log, environment={**os.environ, **self.launch.environment}
        )
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10.0))
        self._watching = [asyncio.create_task(self._probe()), asyncio.create_task(self._look())]
        self.usage_at_start = Usage(0, 0, 0.0)
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        for task in self._watching:
            task.cancel()
        ends = await asyncio.gather(*self._watching, return_exceptions=True)
        await self._session.close()
        self.process.kill()
        # One that ended early has seen nothing since, and that nothing was wrong would only mean that nobody looked.
        crashed = [end for end in ends if isinstance(end, Exception)]
        if crashed and error is None:
            raise crashed[0]

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    async def ready(self, timeout: float = START_SECONDS) -> None:
        async def is_ready() -> bool:
            assert self.running, self.text()
            return (await self.probe("/readyz"))[0] == 200

        await wait_until(is_ready, timeout, interval=PROBE_SECONDS)
        self.usage_at_start = self.usage()

    async def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, STOP_SECONDS)

    def kill(self) -> None:
        self.process.signal(signal.SIGKILL)
        self.process.wait(10)

    def freeze(self) -> None:
        self.frozen = True
        self.process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.signal(signal.SIGCONT)
        self.frozen = False

    def usage(self) -> Usage:
        folder = Path(f"/proc/{self.process.pid}")
        times = (folder / "stat").read_text().rpartition(")")[2].split()
        return Usage(
            int((folder / "statm").read_text().split()[1]) * PAGE,
            len(list((folder / "fd").iterdir())),
            (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"),
        )

    async def probe(self, path: str) -> tuple[int, str]:
        """Of the probe port; 0 if there is no answer within a second."""
        with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with (
                asyncio.timeout(1.0),
                self._session.get(f"http://{self.launch.address}:{self.probe_port}{path}") as response,
            ):
                return response.status, await response.text()
        return 0, "no answer"

    async def get(self, path: str) -> str:
        """Of the main port."""
        status, text = await self._ask(path)
        assert status == HTTPStatus.OK, text
        return text

    async def _ask(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"http://{self.launch.address}:{self.port}{path}") as response:
            return response.status, await response.text()

    async def dump(self) -> Dump:
        return load_dump(await self.get("/dump"))

    async def figures(self) -> Figures:
        return Figures(await self.get("/metrics"))

    def text(self) -> str:
        return self.log.read_text(errors="replace")[-5000:]

    async def _probe(self) -> None:
        while True:
            began = time.monotonic()
            (ready, text), (live, _) = await asyncio.gather(self.probe("/readyz"), self.probe("/livez"))
            if not self.frozen:
                self.samples.append(Sample(began, ready, text, live))
            await asyncio.sleep(max(0.0, began + PROBE_SECONDS - time.monotonic()))

    async def _look(self) -> None:
        """No node is ever given more than it has, and the generation never goes back."""
        while True:
            await asyncio.sleep(DUMP_SECONDS)
            if self.frozen or not self.running:
                continue
            with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                status, text = await self._ask("/dump")
                if status == HTTPStatus.SERVICE_UNAVAILABLE:
                    # Somebody has it give more dumps than it is made for.
                    continue
                assert status == HTTPStatus.OK, text
                found = load_dump(text)
                self.generations.append(found.generation)
                for name, node in found.nodes.items():
                    has, asked = node.allocatable, node.requested
                    over = asked.milli_cpu > has.milli_cpu or asked.memory > has.memory
                    if node.present and name not in self.shrunk and (over or len(node.pods) > has.allowed_pod_number):
                        self.overcommitted.append(f"{name}: {asked} of {has}")
