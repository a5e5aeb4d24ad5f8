"""`schedcache run` as a process, and what it answers."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Self

import aiohttp

from schedcache.dump import Dump, load_dump
from schedcache.testing import wait_until

START_SECONDS = 30.0
STOP_SECONDS = 35.0


class SchedulerProcess:
    """A scheduler on free ports, as an async context manager; stopped with SIGTERM at the end, which must succeed."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str, module: str = "schedcache") -> None:
        self._command = [
            *(sys.executable, "-m", module, "run", f"--kubeconfig={kubeconfig}", "--log-format=json"),
            *("--port=0", "--probe-port=0", "--kube-api-qps=2000", "--kube-api-burst=2000"),
            # Flags may turn it on: a Lease that a process left behind would have the next one wait.
            *("--leader-elect=false", *flags),
        ]
        self._log = log
        self.port = self.probe_port = 0

    async def __aenter__(self) -> Self:
        environment = {**os.environ, "PYTHONWARNINGS": "default"}
        with self._log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *self._command, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        try:
            await self._started()
        except BaseException:
            # It is in a session of its own, so nothing else would end it.
            await self._ended()
            raise
        return self

    async def _started(self) -> None:
        async with asyncio.timeout(START_SECONDS):
            while not (self.port and self.probe_port):
                assert self.process.returncode is None, self.text()
                await asyncio.sleep(0.05)
                for line in self.lines():
                    if line["event"] == "serving metrics and dump":
                        self.port = line["port"]
                    elif line["event"] == "serving probes":
                        self.probe_port = line["port"]

    async def _ended(self) -> None:
        if self.process.returncode is None:
            await self.kill()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if self.process.returncode is not None:
            return
        try:
            status = await self.stop()
        finally:
            await self._ended()
        if error is None:
            assert status == 0, self.text()

    async def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(STOP_SECONDS):
            return await self.process.wait()

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    def text(self) -> str:
        return self._log.read_text()[-5000:]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]

    def complaints(self) -> list[dict[str, Any]]:
        """What it logged as an error."""
        return [line for line in self.lines() if line["level"] in ("error", "critical")]

    async def get(self, path: str, *, probe: bool = False) -> tuple[int, str]:
        port = self.probe_port if probe else self.port
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
            return response.status, await response.text()

    async def dump(self) -> Dump:
        status, text = await self.get("/dump")
        assert status == 200
        return load_dump(text)

    async def ready(self) -> None:
        async def is_ready() -> bool:
            return (await self.get("/readyz", probe=True))[0] == 200

        await wait_until(is_ready, START_SECONDS)
