# ruff: noqa: INP001, E402  a script, no package, that sets its path first
"""Whether pods that no extender takes part in notice an extender that is broken: milliseconds from creation to binding.

    python bench/extenders.py [--nodes N ...] [--fault NAME ...] [--pods N] [--rounds N] [--json]

Pods come at a steady rate to two schedulers in one process, in turns: one has no extender, the other one that is asked over HTTP about
every sixth pod, and has the fault. The same pods come to both; only those that the extender is not asked about are timed, from the moment
when they were due. The API server is in memory, the extender a process of its own. `answers` is no fault: it lets all nodes pass.
"""

import sys
from pathlib import Path

# From the root: a script's own folder comes first on the path, and here it has modules named like the standard library's.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import argparse
import asyncio
import json
import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Any

import structlog
from msgspec.structs import replace

from schedcache.app.program import keep_what_was_read
from schedcache.kube.extender.client import ExtenderSettings, HttpExtenders
from schedcache.model import Node, Pod
from schedcache.ports import NoMetrics
from schedcache.testing import MemoryApi, World, make_node, make_pod, pod_manifest

GPU = "example.com/gpu"
TIMEOUT = 2.0
PER_SECOND = 100
ASKED_PER_SECOND = 20
Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Any], Awaitable[None]]


# ---- the extender


async def _hangs(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter, _asked: Any) -> None:
    await reader.read()


async def _resets(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _asked: Any) -> None:
    writer.transport.abort()


async def _ten_megabytes(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _asked: Any) -> None:
    """Without a length: it has to be read to be known as too long."""
    writer.write(b'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{"Error": "')
    for _ in range(10):
        writer.write(b"x" * 1_000_000)
        await writer.drain()
    writer.close()


def _says(body: Callable[[Any], bytes], status: str = "200 OK") -> Answer:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Any) -> None:
        text = body(asked)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text)
        await writer.drain()

    return answer


FAULTS: dict[str, Answer] = {
    "answers": _says(lambda asked: json.dumps({"NodeNames": asked["NodeNames"]}).encode()),
    "hangs": _hangs,
    "resets": _resets,
    "500": _says(lambda _: b"oops", "500 Internal Server Error"),
    "garbage": _says(lambda _: b"<html>"),
    "10MB": _ten_megabytes,
    "unknown": _says(lambda asked: json.dumps({"NodeNames": [*asked["NodeNames"], "nowhere"]}).encode()),
}


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while head := (await reader.readuntil(b"\r\n\r\n")).decode():
            length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
            asked = json.loads(await reader.readexactly(length))
            await FAULTS[head.split("/")[1]](reader, writer, asked)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


def _extender(port: Connection) -> None:
    async def run() -> None:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


# ---- the schedulers


class Api(MemoryApi):
    """Notes when it has bound a pod, by UID."""

    def __init__(self) -> None:
        super().__init__()
        self.bound: dict[str, float] = {}

    async def bind(self, pod: Pod, node_name: str) -> None:
        await super().bind(pod, node_name)
        self.bound[pod.uid] = time.perf_counter()


class Calls(NoMetrics):
    """Counts what came of calls of the extender."""

    def __init__(self) -> None:
        self.results: Counter[str] = Counter()

    def extender_call(self, extender: str, verb: str, result: str, seconds: float) -> None:
        self.results[str(result)] += 1


def _asks_for_gpu(name: str) -> Pod:
    """Of higher priority: it would go first."""
    fields: dict[str, Any] = {"uid": name, "cpu": "10m", "requests": {GPU: 1}, "priority": 10}
    return replace(make_pod(name, **fields), json=json.dumps(pod_manifest(name, **fields)).encode())


class Side:
    """One of the two schedulers; its clock follows the real one."""

    def __init__(self, nodes: list[Node], **options: Any) -> None:
        self.api, self.calls = Api(), Calls()
        self.world = World(api=self.api, metrics=self.calls, **options)
        self.world.cache.validate = self.world.objects.validate = False
        self.world.add(*nodes)
        self.times: list[float] = []

    async def round(self, number: int, pods: int) -> None:
        """Let the pods come one by one, and take those away that are there in the end."""
        clock, start = self.world.clock, time.perf_counter()
        real, virtual = start, clock()
        due = {}
        for i in range(pods):
            at = start + i / PER_SECOND
            await self._until(at, real, virtual)
            uid = f"{number}-{i}"
            due[uid] = at
            self.world.add(make_pod(uid, uid=uid, cpu="10m"))
            if i % (PER_SECOND // ASKED_PER_SECOND) == 0:
                self.world.add(_asks_for_gpu(f"gpu-{uid}"))
        while not due.keys() <= self.api.bound.keys():
            await self._until(time.perf_counter() + 0.005, real, virtual)
        self.times += [(self.api.bound[uid] - at) * 1e3 for uid, at in due.items()]
        self.world.delete(*self.api.pods.values())
        self.api.bound.clear()
        self.api.posts.clear()

    async def _until(self, at: float, real: float, virtual: float) -> None:
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        self.world.clock.advance(max(0.0, virtual + time.perf_counter() - real - self.world.clock()))

    def percentile(self, part: float) -> float:
        return sorted(self.times)[int(len(self.times) * part)]


async def measure(port: int, fault: str, nodes: int, pods: int, rounds: int) -> dict[str, Any]:
    """One fault, with that many pods in each round of each side."""
    settings = ExtenderSettings(
        url_prefix=f"http://127.0.0.1:{port}/{fault}",
        filter_verb="filter",
        timeout_seconds=TIMEOUT,
        node_cache_capable=True,
        managed_resources=frozenset({GPU}),
    )
    everywhere = [make_node(f"node-{i}", f"zone-{i % 3}", cpu=32, capacity={GPU: 8}) for i in range(nodes)]
    async with AsyncExitStack() as stack:
        extenders = await stack.enter_async_context(HttpExtenders([settings]))
        without, beside = Side(everywhere), Side(everywhere, extenders=extenders)
        for side in (without, beside):
            await stack.enter_async_context(side.world)
            await side.round(-1, pods)
            side.times.clear()
        keep_what_was_read()
        for number in range(rounds):
            for side in (without, beside):
                await side.round(number, pods)
    return {
        "fault": fault,
        "nodes": nodes,
        "pods": pods * rounds,
        "without": {"p50": without.percentile(0.5), "p99": without.percentile(0.99)},
        "beside": {"p50": beside.percentile(0.5), "p99": beside.percentile(0.99)},
        "calls": dict(beside.calls.results),
    }


def main() -> int:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000])
    parser.add_argument("--fault", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--pods", type=int, default=50, help="in each round; 100 come in a second")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    extender = spawning.Process(target=_extender, args=(there,), daemon=True)
    extender.start()
    try:
        port = here.recv()
        for nodes in options.nodes:
            for fault in options.fault:
                result = asyncio.run(measure(port, fault, nodes, options.pods, options.rounds))
                without, beside = result["without"], result["beside"]
                line = (
                    f"{nodes:>6} nodes, {fault:8} without: p50 {without['p50']:.2f}, p99 {without['p99']:.2f} ms,"
                    f" beside: p50 {beside['p50']:.2f}, p99 {beside['p99']:.2f} ms, calls {result['calls']}"
                )
                sys.stdout.write((json.dumps(result) if options.json else line) + "\n")
                sys.stdout.flush()
    finally:
        extender.terminate()
        extender.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
