"""A process that has too few file descriptors, or none left."""

import asyncio
import contextlib
import os
import resource
import sys
from pathlib import Path

import pytest

from schedcache.testing import wait_until
from tests.e2e.scheduler_process import SchedulerProcess

pytestmark = [pytest.mark.controlplane, pytest.mark.long]

SECONDS = 10
MOST_BYTES = 20_000
MOST_CPU_SECONDS = 2.0
"""A tenth of what an endless loop would use, and ten times what it uses."""
FEW = 14
"""Enough to start and to listen; not for a watch of each kind."""


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_it_is_quiet_and_idle_until_there_are_some_again(cluster, tmp_path, source):
    """While clients connect to both ports, and 20 pods want to be bound."""
    await cluster.make_nodes(2)
    log = tmp_path / "log"
    async with SchedulerProcess(cluster.kubeconfig, log, f"--event-source={source}") as scheduler:
        await scheduler.ready()
        pid = scheduler.process.pid
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))
        written, used = log.stat().st_size, cpu_seconds(pid)
        clients = [await asyncio.open_connection("127.0.0.1", p) for p in (scheduler.port, scheduler.probe_port) * 5]
        await cluster.make_pods(20)
        await asyncio.sleep(SECONDS)
        assert log.stat().st_size - written < MOST_BYTES, scheduler.text()
        assert cpu_seconds(pid) - used < MOST_CPU_SECONDS
        assert "socket.accept() out of system resource" in log.read_text()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        for _, writer in clients:
            writer.close()
        await cluster.wait_until_bound(20, timeout=60)
        await scheduler.ready()


@contextlib.asynccontextmanager
async def started(log, limit, *flags):
    """The process, with this limit of open files (as of the shell's ulimit), once it serves."""
    command = (sys.executable, "-m", "schedcache", "run", "--log-format=json", "--port=0", "--probe-port=0", *flags)
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *command, stdout=output, stderr=output
        )

    async def serves():
        return "starting" in log.read_text()

    try:
        await wait_until(serves, timeout=30)
        yield process
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_from_the_start_too(cluster, tmp_path, source):
    log = tmp_path / "log"
    flags = (f"--kubeconfig={cluster.kubeconfig}", f"--event-source={source}")
    async with started(log, f"-n {FEW}", *flags) as process:
        used = cpu_seconds(process.pid)
        await asyncio.sleep(SECONDS)
        # One may be between two uses at the moment when they are counted.
        assert descriptors(process.pid) >= FEW - 2, "all are in use"
        assert log.stat().st_size < MOST_BYTES, log.read_text()[-5000:]
        assert cpu_seconds(process.pid) - used < MOST_CPU_SECONDS


async def test_it_may_open_as_many_files_as_the_system_allows(cluster, tmp_path):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with started(tmp_path / "log", "-S -n 64", f"--kubeconfig={cluster.kubeconfig}") as process:
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
