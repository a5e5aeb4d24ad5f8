"""A scheduler as a process, with clients on its ports that do what they should not: it costs nothing that lasts."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from schedcache.testing import wait_until
from tests.e2e.scheduler_process import SchedulerProcess

pytestmark = pytest.mark.controlplane

BAD = [
    b"\x16\x03\x01\x00\xc8\x01\x00",
    b"nonsense\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
]
DUMP = b"GET /dump?stories HTTP/1.1\r\nHost: localhost\r\n\r\n"
MIB = 1 << 20


def descriptors(process):
    return len(list(Path(f"/proc/{process.process.pid}/fd").iterdir()))


def memory(process):
    """Resident bytes."""
    fields = Path(f"/proc/{process.process.pid}/status").read_text()
    return int(fields.split("VmRSS:")[1].split()[0]) * 1024


async def test_bad_requests_are_neither_logged_nor_kept(cluster, tmp_path):
    async with SchedulerProcess(cluster.control_plane.kubeconfig, tmp_path / "log") as process:
        await process.ready()
        before, told = descriptors(process), len(process.lines())
        for port in (process.port, process.probe_port):
            for number in range(1000):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(BAD[number % len(BAD)])
                with contextlib.suppress(ConnectionError):
                    await reader.readline()
                writer.transport.abort()
        _, metrics = await process.get("/metrics")
        assert 'scheduler_http_bad_requests_total{port="probes"} ' in metrics
        assert process.complaints() == []
        assert len(process.lines()) - told < 10

        async def closed():
            return descriptors(process) <= before + 2

        await wait_until(closed, 10)
        await process.ready()


async def test_readers_that_do_not_read_cost_little_and_probes_are_answered(cluster, tmp_path):
    await cluster.make_nodes(300)
    async with SchedulerProcess(cluster.control_plane.kubeconfig, tmp_path / "log") as process:
        await process.ready()
        await process.dump()
        before, held = descriptors(process), memory(process)
        size = len((await process.get("/dump?stories"))[1])
        writers = []
        for _ in range(150):
            _, writer = await asyncio.open_connection("127.0.0.1", process.port, limit=1024)
            writer.transport.pause_reading()
            writer.write(DUMP)
            writers.append(writer)
        for _ in range(10):
            async with asyncio.timeout(3):
                assert (await process.get("/livez"))[0] == 200
                assert (await process.get("/readyz", probe=True))[0] == 200
            await asyncio.sleep(0.1)
        assert memory(process) - held < 20 * MIB + 3 * size
        assert descriptors(process) < before + 110
        for writer in writers:
            writer.transport.abort()

        async def closed():
            return descriptors(process) <= before + 2

        await wait_until(closed, 20)
        assert process.complaints() == []
