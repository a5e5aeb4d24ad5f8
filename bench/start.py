# noqa: INP001  a script, no package
"""Seconds from the start of a scheduler to its readiness, on a control plane of its own; kube-scheduler's beside it.

    python bench/start.py [--nodes N] [--pods N] [--runs N] [--source reflector|kopf] [--json]

Each run starts schedcache, waits until `/readyz` answers 200, and sends SIGTERM; then the same with the kube-scheduler of the version
that schedcache follows. Both read the same objects: nodes, and pods that have a node. CPU is user and system time at that moment.
Python's bytecode is cached, as it is in an image; a first start, which writes it, is not counted.
"""

import argparse
import asyncio
import json
import os
import signal
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from schedcache.testing import Cluster, ControlPlane, find_binaries, free_ports, pod_manifest

ZONES = ("a", "b", "c")
LOOK_SECONDS = 0.005
LIMIT_SECONDS = 120.0


async def fill(cluster: Cluster, nodes: int, pods: int) -> None:
    """Nodes of three zones, and pods of a hundred templates on them."""
    await cluster.make_nodes(nodes, zones=ZONES)
    await cluster.create_pods(
        pod_manifest(
            f"pod-{number}",
            f"node-{number % nodes}",
            {"app": f"app-{number % 100}"},
            cpu=f"{number % 100 + 10}m",
            memory="64Mi",
            owner=("ReplicaSet", f"app-{number % 100}"),
        )
        for number in range(pods)
    )


async def start(command: Sequence[str], url: str, log: Path) -> dict[str, float]:
    """Start a program, wait until it is ready, stop it."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(log.parent / "bytecode")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    began = time.perf_counter()
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output, env=environment)
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            while not await is_ready(session, url):
                if process.returncode is not None or time.perf_counter() - began > LIMIT_SECONDS:
                    raise SystemExit(f"{command[0]} has not become ready; the end of its log:\n{tail(log)}")
                await asyncio.sleep(LOOK_SECONDS)
        ready = time.perf_counter() - began
        cpu = cpu_seconds(process.pid)
        asked = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        await process.wait()
        return {"ready": ready, "cpu": cpu, "stop": time.perf_counter() - asked}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    """Whether it says so."""
    try:
        async with session.get(url) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def tail(log: Path) -> str:
    """What it said last."""
    return log.read_text()[-3000:]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(servers: ControlPlane, options: argparse.Namespace) -> dict[str, Any]:
    """All runs, one program after the other."""
    scheduler = find_binaries(["kube-scheduler"])["kube-scheduler"]
    found: dict[str, list[dict[str, float]]] = {"schedcache": [], "kube-scheduler": []}
    async with Cluster(servers) as cluster:
        await fill(cluster, options.nodes, options.pods)
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        for _ in range(1 + options.runs):
            with free_ports(1) as (port,):
                pass
            ours = [sys.executable, "-m", "schedcache", "run", f"--kubeconfig={servers.kubeconfig}"]
            ours += [f"--event-source={options.source}", "--port=0", f"--probe-port={port}"]
            found["schedcache"].append(await start(ours, f"http://127.0.0.1:{port}/readyz", log))
            theirs = [str(scheduler), f"--kubeconfig={servers.kubeconfig}", "--leader-elect=false"]
            theirs += ["--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={directory}"]
            found["kube-scheduler"].append(await start(theirs, f"https://127.0.0.1:{port}/readyz", log))
    del found["schedcache"][0], found["kube-scheduler"][0]
    return {"nodes": options.nodes, "pods": options.pods, "source": options.source, **found}


def main() -> int:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--source", choices=("reflector", "kopf"), default="reflector")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Not as an async one, which starts in a thread: beside bench/queue.py, Python's threads find no module `queue`.
    with ControlPlane(disable_admission_plugins=("ServiceAccount", "TaintNodesByCondition")) as servers:
        result = asyncio.run(measure(servers, options))
    if options.json:
        sys.stdout.write(json.dumps(result) + "\n")
        return 0
    for name in ("schedcache", "kube-scheduler"):
        runs = result[name]
        middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        fastest = min(run["ready"] for run in runs)
        sys.stdout.write(
            f"{name:>14}: ready after {middle['ready']:.2f} s (fastest {fastest:.2f}), CPU {middle['cpu']:.2f} s,"
            f" stopped within {middle['stop']:.2f} s\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
