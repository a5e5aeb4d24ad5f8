"""The demo: a control plane, nodes, pods, a scheduler in this process, and a report."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from schedcache.app.health import health_of
from schedcache.app.program import Program, assembled
from schedcache.app.running import main_routes
from schedcache.app.serving import serve
from schedcache.app.settings import Settings
from schedcache.cli.demo.report import expected_of, fate, report
from schedcache.cli.demo.workload import NAMESPACE, NODES, WORKLOADS, ZONES, demo_nodes
from schedcache.cli.stopping import stop_signals
from schedcache.testing import Cluster, ControlPlane, find_binaries, in_parallel

PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 0.1
_QPS, _BURST = 1000.0, 1000


def run_demo(options: argparse.Namespace) -> int:
    """0: everything is where it should be; 1: it is not."""
    console = Console()
    find_binaries()  # in plain sight: a build takes minutes, and shows its progress
    return asyncio.run(_demo(options, console))


async def _demo(options: argparse.Namespace, console: Console) -> int:
    stop = stop_signals()
    async with AsyncExitStack() as stack:
        with console.status("starting etcd and kube-apiserver"):
            control_plane = await stack.enter_async_context(ControlPlane())
        cluster = await stack.enter_async_context(Cluster(control_plane))
        program = await stack.enter_async_context(assembled(_settings(control_plane)))
        routes = main_routes(program, health_of(program))
        port = await stack.enter_async_context(serve(routes, options.bind_address, options.port, "--port"))
        await _fill(cluster, console)
        async with _running(program):
            await _watch(cluster, console, stop)
            good = await report(cluster, console)
            console.print(f"\nEverything it knows: [bold]http://{options.bind_address}:{port}/dump[/bold]")
            if not options.exit and not stop.is_set():
                console.print(
                    f"The cluster: KUBECONFIG={control_plane.kubeconfig}\nPress Ctrl-C to end the demo.", soft_wrap=True
                )
                await stop.wait()
    return 0 if good else 1


def _settings(control_plane: ControlPlane) -> Settings:
    return Settings(kubeconfig=str(control_plane.kubeconfig), qps=_QPS, burst=_BURST)


@asynccontextmanager
async def _running(program: Program) -> AsyncIterator[None]:
    """The scheduler at work, for as long as the block lasts; an error that ends it is raised at the block's end."""
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(program.run(), name="program")
        yield
        running.cancel()


async def _fill(cluster: Cluster, console: Console) -> None:
    with console.status(f"creating {NODES} nodes in {len(ZONES)} zones"):
        await cluster.create_namespace(NAMESPACE)
        await in_parallel(partial(cluster.create_node, node) for node in demo_nodes())
    manifests = [pod for workload in WORKLOADS for pod in workload.manifests()]
    with console.status(f"creating {len(manifests)} pods"):
        await cluster.create_pods(manifests)


async def _watch(cluster: Cluster, console: Console, stop: asyncio.Event) -> None:
    """Show the pods find their nodes, until all have what is expected of them, or patience is at an end."""
    total = sum(workload.count for workload in WORKLOADS)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    with Progress(*columns, console=console) as progress:
        shown = progress.add_task("scheduling", total=total)
        while not stop.is_set() and asyncio.get_running_loop().time() < deadline:
            pods = await cluster.list_pods(NAMESPACE)
            done = sum(fate(pod) == expected_of(pod) for pod in pods)
            progress.update(shown, completed=done)
            if done == total:
                return
            await asyncio.sleep(_LOOK_SECONDS)
