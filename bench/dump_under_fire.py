# noqa: INP001  a script, no package
"""What readers of `/dump` who ask without a pause do to scheduling: 0, 1, 5 and 50 of them, side by side, in turn.

    python -P bench/dump_under_fire.py [--nodes N] [--pods N] [--held N] [--readers N ...] [--slow N] [--tls] [--rounds N] [--json]

The scheduler with its default plugins and the port that `schedcache run` opens; binds take 5 ms and are confirmed by a watch in
memory. Readers run in a process of their own. With --slow, there are as many besides who take 64 KiB in half a second. With --tls
the port is the HTTPS one, with tokens and reviews that take 10 ms.

Each round has, for each number of readers: a burst of pods (pods a second, from the first to the last bind, and milliseconds of CPU
that the loop's thread took for each, which tells more than the former where the machine has other things to do), then as many at a
steady pace (p50 and p99 of the time from a pod's appearance to its bind). Given are medians of the rounds, the least CPU, and the
longest time that the loop's thread computed without a turn for others.
"""

import argparse
import asyncio
import asyncio.events
import gc
import itertools
import json
import random
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import structlog
from msgspec.structs import replace

from schedcache.app.serving import serve
from schedcache.cache import ClusterObjects, SchedulerCache
from schedcache.config import config_from_dict
from schedcache.framework import Extenders
from schedcache.model import Pod
from schedcache.plugins.default_plugins import default_registry
from schedcache.ports import ClusterAuthentication, NoMetrics, UserInfo
from schedcache.scheduling import PodStore, Scheduler, make_profiles
from schedcache.server.access.authentication import Authenticator
from schedcache.server.access.guard import guard
from schedcache.server.access.reviewing import Reviewer
from schedcache.server.dump import dump_route, has_work
from schedcache.server.limits import ServingSettings
from schedcache.server.secure_settings import AccessSettings, TLSSettings
from schedcache.server.share import ProcessorShare
from schedcache.server.tls import TLSContexts
from schedcache.testing import Recorder, make_node, make_pod

BIND_SECONDS = 0.005
REVIEW_SECONDS = 0.01
SLOW_BYTES = 65536
SETTLE_SECONDS = 0.3


class Api:
    """Binds, and tells the scheduler of them."""

    scheduler: Scheduler

    def __init__(self) -> None:
        self.versions = itertools.count(1_000_000)
        self.bound: dict[str, float] = {}
        self.pods: dict[str, Pod] = {}

    def create(self, pod: Pod) -> None:
        """A pod appears."""
        self.pods[pod.uid] = pod
        self.scheduler.handlers.on_add("Pod", pod)

    def clear(self) -> None:
        """All pods that were created go again."""
        for pod in self.pods.values():
            self.scheduler.handlers.on_delete("Pod", pod, missed=False)
        self.pods.clear()
        self.bound.clear()

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Takes a while, and succeeds."""
        await asyncio.sleep(BIND_SECONDS)
        new = replace(pod, node_name=node_name, resource_version=str(next(self.versions)))
        old, self.pods[pod.uid] = self.pods[pod.uid], new
        self.bound[pod.uid] = time.perf_counter()
        self.scheduler.handlers.on_update("Pod", old, new)

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """No bind is ever in doubt here."""
        raise NotImplementedError


class Source:
    """What a dump asks of an event source."""

    @staticmethod
    def resource_versions() -> dict[str, str]:
        """Of no meaning here."""
        return {"Pod": "1", "Node": "1"}


def make_scheduler(nodes: int, held: int) -> tuple[Scheduler, Api]:
    """With that many nodes, and pods on them."""
    api, recorder, rng = Api(), Recorder(), random.Random(0)  # the same every time
    config = config_from_dict({"profiles": [{"schedulerName": "schedcache"}]}).config
    cache, objects, pods = SchedulerCache(), ClusterObjects(), PodStore()
    frameworks, queue = make_profiles(
        config.profiles,
        default_registry(),
        objects=objects,
        binder=api,
        volume_writer=None,
        node_lister=cache.get_node,
        extenders=Extenders((), metrics=NoMetrics()),
        pod_lister=pods.get,
        clock=time.monotonic,
        metrics=NoMetrics(),
    )
    scheduler = Scheduler(
        cache=cache,
        queue=queue,
        pods=pods,
        objects=objects,
        frameworks=frameworks,
        binder=api,
        status_writer=recorder,
        recorder=recorder,
        metrics=NoMetrics(),
        clock=time.monotonic,
        sleep=asyncio.sleep,
        rng=rng,
        max_binding=128,
        request_rebuild=sys.exit,
    )
    api.scheduler = scheduler
    for i in range(nodes):
        scheduler.handlers.on_add("Node", make_node(f"node-{i}", f"zone-{i % 3}", cpu="32", memory="256Gi"))
    for i in range(held):
        pod = make_pod(f"held-{i}", uid=f"held-{i:032}", node=f"node-{i % nodes}", cpu="100m", memory="128Mi")
        scheduler.handlers.on_add("Pod", pod)
    return scheduler, api


class LoopWatch:
    """The longest callback of the loop, in CPU seconds of its thread: what others do on the machine does not count."""

    def __init__(self) -> None:
        self.longest = 0.0
        run, timer = asyncio.events.Handle._run, time.thread_time  # noqa: SLF001  nothing public sees every callback

        def timed(handle: asyncio.Handle) -> None:
            began = timer()
            run(handle)  # type: ignore[arg-type]
            self.longest = max(self.longest, timer() - began)

        asyncio.events.Handle._run = timed  # type: ignore[method-assign]  # noqa: SLF001


class Reviews:
    """An API server that lets everybody in."""

    async def review_token(self, token: str) -> UserInfo | None:
        """It takes a while."""
        await asyncio.sleep(REVIEW_SECONDS)
        return UserInfo(token)

    async def review_access(self, user: UserInfo, verb: str, path: str) -> bool:
        """Likewise."""
        await asyncio.sleep(REVIEW_SECONDS)
        return True


def secured() -> dict[str, Any]:
    """What makes a port the HTTPS one."""
    settings = AccessSettings()
    reviewer = Reviewer(Reviews(), settings)
    guards = [guard(Authenticator(reviewer, ClusterAuthentication), reviewer, settings)]
    return {"tls": TLSContexts(TLSSettings(), str), "guards": guards}


async def read_slowly_or_not(port: int, readers: int, slow: int, *, tls: bool) -> None:
    """So many readers, each of which asks again as soon as it has its answer, and others who take their time; ended by a signal."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if tls else None
    if context is not None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE

    async def read(number: int, pause: float) -> None:
        request = f"GET /dump HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer t-{number}\r\nConnection: close\r\n\r\n"
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=SLOW_BYTES)
                writer.write(request.encode())
                answered = (await reader.read(SLOW_BYTES)).startswith(b"HTTP/1.1 200")
                while await reader.read(SLOW_BYTES):  # noqa: ASYNC110  the pause is what this is about
                    await asyncio.sleep(pause)
                writer.close()
            except OSError:
                answered = False
            if not answered:
                # Refused or cut off, and told to try again after that time.
                await asyncio.sleep(1)

    await asyncio.gather(*(read(i, 0) for i in range(readers)), *(read(readers + i, 0.5) for i in range(slow)))


def read_for_ever(port: int, readers: int) -> None:
    """So many readers without TLS, in the least time that there is; ended by a signal."""
    selector, buffer = selectors.DefaultSelector(), bytearray(1 << 18)

    def ask() -> None:
        link = socket.create_connection(("127.0.0.1", port))
        link.sendall(b"GET /dump HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
        link.settimeout(0)
        selector.register(link, selectors.EVENT_READ)

    for _ in range(readers):
        ask()
    while True:
        for key, _ in selector.select():
            link: Any = key.fileobj
            try:
                ended = not link.recv_into(buffer)
            except ConnectionResetError:
                ended = True
            if ended:
                selector.unregister(link)
                link.close()
                ask()


@asynccontextmanager
async def reading(port: int, readers: int, slow: int, *, tls: bool) -> AsyncIterator[None]:
    """For as long as the block lasts."""
    if not readers:
        yield
        return
    command = [sys.executable, "-P", __file__, "--port", str(port), "--readers", str(readers), "--slow", str(slow)]
    command += ["--tls"] if tls else []
    process = subprocess.Popen(command)  # noqa: ASYNC220, S603  it only starts
    try:
        await asyncio.sleep(SETTLE_SECONDS + 1)
        yield
    finally:
        process.kill()
        process.wait()


async def burst(api: Api, pods: int, run: str) -> tuple[float, float]:
    """(pods a second, CPU milliseconds a pod)."""
    began, began_cpu = time.perf_counter(), time.thread_time()
    for i in range(pods):
        api.create(make_pod(f"{run}-{i}", uid=f"{run}-{i:030}", cpu="100m", memory="128Mi"))
    while len(api.bound) < pods:  # noqa: ASYNC110  a look now and then costs less than being told of each
        await asyncio.sleep(0.01)
    seconds, cpu = max(api.bound.values()) - began, time.thread_time() - began_cpu
    api.clear()
    return pods / seconds, 1000 * cpu / pods


async def trickle(api: Api, pods: int, pace: float, run: str) -> tuple[float, float]:
    """(p50, p99) in milliseconds, of pods that appear at that pace."""
    began, due = {}, time.perf_counter()
    for i in range(pods):
        due += 1 / pace
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        pod = make_pod(f"{run}-{i}", uid=f"{run}-{i:030}", cpu="100m", memory="128Mi")
        # From when it was due, since whatever delays this task delays the pod.
        began[pod.uid] = due
        api.create(pod)
    while len(api.bound) < pods:  # noqa: ASYNC110  as above
        await asyncio.sleep(0.01)
    took = sorted(1000 * (api.bound[uid] - at) for uid, at in began.items())
    api.clear()
    return took[len(took) // 2], took[len(took) * 99 // 100]


async def measure(options: argparse.Namespace) -> list[dict[str, float]]:
    """One row for each number of readers."""
    pods, numbers = options.pods, options.readers
    scheduler, api = make_scheduler(options.nodes, options.held)
    share = ProcessorShare(lambda: has_work(scheduler), ServingSettings().busy_share)
    route = dump_route(scheduler, Source(), share=share)  # type: ignore[arg-type]
    found: dict[int, list[tuple[float, ...]]] = {number: [] for number in numbers}
    watch = LoopWatch()
    running = asyncio.create_task(scheduler.run())
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    more = secured() if options.tls else {}
    async with serve([route], "127.0.0.1", 0, "--port", share=share, **more) as port:
        await burst(api, pods, "first")
        for number in range(options.rounds):
            for readers in numbers:
                async with reading(port, readers, options.slow, tls=options.tls):
                    watch.longest = 0.0
                    rate, cpu = await burst(api, pods, f"b{number}-{readers}")
                    p50, p99 = await trickle(api, pods, options.pace, f"t{number}-{readers}")
                    found[readers].append((rate, cpu, p50, p99, 1000 * watch.longest))
                await asyncio.sleep(SETTLE_SECONDS)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    rows = []
    for readers, results in found.items():
        rate, _, p50, p99, _ = (statistics.median(column) for column in zip(*results, strict=True))
        cpu = min(result[1] for result in results)
        longest = max(result[-1] for result in results)
        row = {"readers": readers, "pods/s": rate, "CPU ms/pod": cpu, "p50 ms": p50, "p99 ms": p99}
        rows.append(row | {"longest ms": longest})
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--held", type=int, default=20_000, help="pods that are on nodes already")
    parser.add_argument("--pods", type=int, default=1000, help="of a burst")
    parser.add_argument("--pace", type=float, default=200.0, help="pods a second")
    parser.add_argument("--readers", type=int, nargs="*", default=[0, 1, 5, 50])
    parser.add_argument("--slow", type=int, default=0, help="readers besides, who take their time")
    parser.add_argument("--tls", action="store_true", help="over HTTPS, with reviews")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.port and (options.tls or options.slow):
        asyncio.run(read_slowly_or_not(options.port, options.readers[0], options.slow, tls=options.tls))
    if options.port:
        read_for_ever(options.port, options.readers[0])
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(30))
    rows = asyncio.run(measure(options))
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=1) + "\n")
        return
    sys.stdout.write("  ".join(f"{name:>10}" for name in rows[0]) + "\n")
    for row in rows:
        sys.stdout.write("  ".join(f"{value:10.3f}" for value in row.values()) + "\n")


if __name__ == "__main__":
    main()
