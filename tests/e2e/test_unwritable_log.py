"""A log that cannot be written: nobody reads the pipe, the disk is full, the descriptors are closed. Pods are bound all the same."""

import asyncio
import contextlib
import os
import socket
import sys
import time

import aiohttp
import pytest

from schedcache.testing import wait_until

pytestmark = pytest.mark.controlplane

PODS = 20
CLOSED = ("sh", "-c", 'exec "$@" >&- 2>&-', "sh")
CLOSED_WITH_INPUT = ("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")


def free_ports(number):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [s.getsockname()[1] for s in sockets]


def full_pipe(stack):
    read, write = os.pipe()
    stack.callback(os.close, read)
    stack.callback(os.close, write)
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 4096)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x")
    os.set_blocking(write, True)
    return write


def nobody(stack):
    read, write = os.pipe()
    os.close(read)
    stack.callback(os.close, write)
    return write


def full_disk(stack):
    descriptor = os.open("/dev/full", os.O_WRONLY)
    stack.callback(os.close, descriptor)
    return descriptor


OUTPUTS = {
    "a pipe that nobody reads": (full_pipe, ()),
    "a pipe that is closed at the other end": (nobody, ()),
    "a full disk": (full_disk, ()),
    "closed": (full_disk, CLOSED),
    "closed with standard input": (full_disk, CLOSED_WITH_INPUT),
}


@pytest.mark.parametrize(("output", "shell"), OUTPUTS.values(), ids=OUTPUTS)
@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_pods_are_bound_and_it_is_alive(cluster, output, shell, source):
    await cluster.make_nodes(2)
    port, probes = free_ports(2)
    with contextlib.ExitStack() as stack:
        written = output(stack)
        process = await asyncio.create_subprocess_exec(
            *(*shell, sys.executable, "-m", "schedcache", "run", f"--kubeconfig={cluster.kubeconfig}", "-v=6"),
            *(f"--port={port}", f"--probe-port={probes}", f"--event-source={source}", "--log-format=json"),
            stdout=written,
            stderr=written,
        )
        try:
            async with aiohttp.ClientSession() as session:

                async def get(path, of=probes):
                    async with session.get(f"http://127.0.0.1:{of}{path}", timeout=aiohttp.ClientTimeout(5)) as answer:
                        return answer.status, await answer.text()

                async def ready():
                    assert process.returncode is None
                    try:
                        return (await get("/readyz"))[0] == 200
                    except aiohttp.ClientError:
                        return False

                await wait_until(ready, timeout=30)
                await cluster.make_pods(PODS)
                await cluster.wait_until_bound(PODS, timeout=20)
                for _ in range(10):
                    assert await get("/livez") == (200, "ok")
                assert "scheduler_log_lines_dropped_total 0.0" in (await get("/metrics", port))[1], (
                    "there is room for these"
                )
            began = time.monotonic()
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 30) == 0
            assert time.monotonic() - began < 10
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
