"""What is around the process: clients of its ports, limits, where its log goes."""

import asyncio
import contextlib
import fcntl
import os
import resource
import socket
import statistics
import sys
import time
from pathlib import Path

import pytest

from schedcache.server.limits import ServingSettings
from schedcache.testing import wait_until
from schedcache.testing.processes import SupervisedProcess
from tests.faults.leases import when
from tests.faults.process import Launch
from tests.faults.world import MIB

HOSTILE_CLIENTS, HOSTILE_BYTES = 100, 40 * MIB
DUMP_REQUEST = b"GET /dump HTTP/1.1\r\nHost: localhost\r\n\r\n"
NONSENSE = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x00" * 64,
    b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
)
fault = pytest.mark.fault


@fault("hostile-clients")
@pytest.mark.servers(disable_admission_plugins=("ServiceAccount", "TaintNodesByCondition"))
async def test_a_hundred_who_ask_and_do_not_read(world):
    """A dump is more than the kernel holds for a client, and a hundred of them would be far more than is allowed."""
    await world.nodes(5000, cpu="40")
    scheduler = await world.start()
    await world.pods(500, requests={"cpu": "100m"})
    await world.bound(500, timeout=120)
    size = len(await scheduler.get("/dump"))
    # The kernel doubles what it is asked to hold.
    assert size > 2 * 2 * ServingSettings.send_buffer_bytes
    assert HOSTILE_CLIENTS * size > 4 * HOSTILE_BYTES
    before = scheduler.usage()
    async with world.fault(), contextlib.AsyncExitStack() as exits:
        for _ in range(HOSTILE_CLIENTS):
            with contextlib.suppress(OSError):
                client = exits.enter_context(socket.socket())
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect((scheduler.launch.address, scheduler.port))
                client.send(DUMP_REQUEST)
        peak = before
        for _ in range(20):
            await asyncio.sleep(0.5)
            peak = max(peak, scheduler.usage())
        await world.pods(20)
        await world.bound(520)
    grown = peak.resident - before.resident
    assert grown < HOSTILE_BYTES, f"{grown / MIB:.0f} MiB for those who do not read"
    await world.healed()


@contextlib.contextmanager
def closed(connection):
    """Also when the test fails."""
    try:
        yield connection
    finally:
        connection[1].transport.abort()


@fault("hostile-clients", quick=("reflector",))
async def test_a_head_and_a_thousand_requests_that_are_none(world):
    await world.nodes(3, cpu="4")
    scheduler = await world.start()
    await world.pods(20)
    await world.bound(20)
    written = scheduler.log.stat().st_size
    async with world.fault():
        with closed(await asyncio.open_connection(scheduler.launch.address, scheduler.port)) as (reader, writer):
            writer.write(
                b"HEAD /dump HTTP/1.1\r\nHost: localhost\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            for _ in range(2):
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
                assert head.startswith(b"HTTP/1.1 200"), "the body of an answer that has none"
        for number in range(1000):
            port = (scheduler.port, scheduler.probe_port)[number % 2]
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(scheduler.launch.address, port)
                writer.write(NONSENSE[number % len(NONSENSE)])
                with contextlib.suppress(OSError):
                    await writer.drain()
                writer.close()
        await asyncio.sleep(1)
    assert scheduler.log.stat().st_size - written < 64 * 1024, "a line for each"
    await world.healed()


@fault("few-descriptors")
async def test_a_limit_of_open_files(world):
    await world.nodes(3, cpu="8")
    scheduler = await world.start()
    await world.pods(20)
    await world.bound(20)
    pid, (soft, hard) = scheduler.process.pid, resource.prlimit(scheduler.process.pid, resource.RLIMIT_NOFILE)
    written = scheduler.log.stat().st_size
    async with world.fault():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(40, scheduler.usage().descriptors), hard))
        world.proxy.cut_watches()
        await world.pods(60)
        await asyncio.sleep(30)
        world.calm()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert scheduler.log.stat().st_size - written < 64 * 1024
    await world.healed()


@fault("few-descriptors")
async def test_a_limit_from_the_start(world):
    await world.nodes(3, cpu="8")
    limited = Launch(prefix=("bash", "-c", 'ulimit -S -n 40; exec "$@"', "--"))
    scheduler = await world.start(launch=limited, ready=False)

    async def starting():
        return '"event": "starting"' in scheduler.text()

    # It may not be ready before the limit is raised, and what it grows by counts from here on.
    await wait_until(starting, 30)
    scheduler.usage_at_start = scheduler.usage()
    async with world.fault():
        await world.pods(60)
        await asyncio.sleep(30)
        assert scheduler.running, scheduler.text()
        world.calm()
        _, hard = resource.prlimit(scheduler.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(scheduler.process.pid, resource.RLIMIT_NOFILE, (1024, hard))
    assert scheduler.log.stat().st_size < 128 * 1024
    await world.healed()


PIPE_BYTES = 4096


def blocked_pipe(world):
    """A pipe with room for a page, which nobody reads."""
    path = world.folder / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return path, reader


async def read_from(reader, *, more_than):
    """Whether so much comes out of the pipe within a few seconds."""
    found = 0
    for _ in range(50):
        with contextlib.suppress(BlockingIOError):
            found += len(os.read(reader, 2**16))
        if found > more_than:
            return True
        await asyncio.sleep(0.1)
    return False


@fault("log-blocked", quick=("reflector",))
@pytest.mark.parametrize("where", ["full pipe", "full disk", "closed"])
async def test_lines_that_cannot_be_written(world, where):
    await world.nodes(5, cpu="8")
    with contextlib.ExitStack() as exits:
        if where == "full pipe":
            path, reader = blocked_pipe(world)
            exits.callback(os.close, reader)
            prefix = ("bash", "-c", f'exec "$@" >{path} 2>&1', "--")
        elif where == "full disk":
            prefix = ("bash", "-c", 'exec "$@" >/dev/full 2>&1', "--")
        else:
            prefix = ("bash", "-c", 'exec "$@" >&- 2>&-', "--")
        scheduler = await world.start("-v=6", launch=Launch(prefix=prefix))
        async with world.fault():
            await world.pods(200)
            await world.bound(200)
        await world.healed()
        world.always_ready()
        if where == "full pipe":
            # A line that does not fit is not begun, so a full pipe has room left.
            assert await read_from(reader, more_than=PIPE_BYTES), "it was not full"
        assert scheduler.running


ROUNDS = 4
PODS_PER_ROUND = 250
PACE_SECONDS = 0.02
READERS = 50


@fault("dump-under-fire")
@pytest.mark.servers(disable_admission_plugins=("ServiceAccount", "TaintNodesByCondition"))
async def test_pods_are_bound_as_soon_while_many_read_the_dump(world):
    """Rounds with and without readers in turn, so that what else the machine does meets both."""
    await world.nodes(5000, cpu="16")
    scheduler = await world.start("--kube-api-qps=1000", "--kube-api-burst=1000")
    await world.pods(2000)
    await world.bound(2000, timeout=120)
    url = f"http://{scheduler.launch.address}:{scheduler.port}/dump"
    waits: dict[bool, list[float]] = {False: [], True: []}
    async with world.fault():
        for turn in range(2 * ROUNDS):
            under_fire = turn % 2 == 1
            readers = Readers(url, READERS, world.folder) if under_fire else contextlib.nullcontext()
            with readers:
                await asyncio.sleep(1.0)
                waits[under_fire] += await latencies(world, f"turn-{turn}")
    quiet, fire = ((statistics.quantiles(waits[kind], n=100)[98]) for kind in (False, True))
    world.measured |= {"p99_quiet_ms": round(quiet * 1000, 1), "p99_fire_ms": round(fire * 1000, 1)}
    assert fire <= 1.1 * quiet, f"p99 {fire * 1000:.0f} ms under fire, {quiet * 1000:.0f} ms without"
    await world.healed()


async def latencies(world, name):
    """Seconds from each pod's creation to its binding, by the API server's own log."""
    log = world.cluster.audit.from_now()
    before = len(await world.cluster.list_pods(fieldSelector="spec.nodeName!="))
    for number in range(PODS_PER_ROUND):
        began = time.monotonic()
        await world.pods(1, name=f"{name}-{number}")
        await asyncio.sleep(max(0.0, began + PACE_SECONDS - time.monotonic()))
    await world.bound(before + PODS_PER_ROUND, timeout=120)
    await log.settled(world.cluster)
    pods = log.events(resource="pods", verb="create")
    # A pod's name is not yet known to the log when it is created with its name in the body alone.
    bound = {
        event.name: when(event.received) for event in pods if event.subresource == "binding" and event.status == 201
    }
    made = {event.name: when(event.received) for event in pods if not event.subresource and event.status == 201}
    assert made.keys() == bound.keys()
    return [bound[name] - made[name] for name in made]


READER = """
import os, sys, threading, urllib.request
os.nice(10)
def read():
    while True:
        try:
            with urllib.request.urlopen(sys.argv[1], timeout=30) as answer:
                while answer.read(2**16): pass
        except OSError: pass
for _ in range(int(sys.argv[2])): threading.Thread(target=read, daemon=True).start()
threading.Event().wait()
"""


class Readers:
    """Clients that ask for /dump as fast as they are answered, in a process of their own."""

    def __init__(self, url: str, count: int, folder: Path) -> None:
        self._command = [sys.executable, "-c", READER, url, str(count)]
        self._log = folder / "readers.log"

    def __enter__(self):
        self._process = SupervisedProcess(self._command, self._log)
        return self

    def __exit__(self, *_):
        self._process.kill()
