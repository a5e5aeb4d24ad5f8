import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import aiohttp
import pytest

from schedcache.testing import ControlPlane, ControlPlaneError, control_plane, find_binaries
from schedcache.testing.processes import RunDirectory, runs_directory
from tests.testing.process_table import running, wait_until_ended

pytestmark = pytest.mark.controlplane

KILLED_WHILE_RUNNING = """
import os, signal, threading
from schedcache.testing import ControlPlane
servers = ControlPlane()
# From a thread that ends: the servers outlive it.
thread = threading.Thread(target=servers.start)
thread.start(); thread.join()
print(servers.directory, servers._etcd.pid, servers._api_server.pid, flush=True)
input()
os.kill(os.getpid(), signal.SIGKILL)
"""


def servers_of(control_plane):
    return [control_plane._etcd.pid, control_plane._api_server.pid]


def test_a_parent_killed_by_sigkill_leaves_no_server_and_no_file_behind():
    command = [sys.executable, "-c", KILLED_WHILE_RUNNING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        directory, *pids = parent.stdout.readline().split()
        pids = [int(pid) for pid in pids]
        assert running(pids) == pids
        parent.communicate("\n", timeout=10)
    assert parent.returncode == -signal.SIGKILL
    assert wait_until_ended(pids) == []
    assert Path(directory).exists()
    deadline = time.monotonic() + 5  # the launchers themselves are about to end, and hold the directory
    while Path(directory).exists() and time.monotonic() < deadline:
        RunDirectory().remove()
    assert not Path(directory).exists(), "the next run removes what a dead one left"


async def test_a_cancelled_start_stops_what_it_started():
    servers = ControlPlane()

    async def run() -> None:
        async with servers:
            raise AssertionError("started")

    task = asyncio.create_task(run())
    while servers._api_server is None:  # noqa: ASYNC110 - a thread sets it
        await asyncio.sleep(0.01)
    pids = servers_of(servers)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert running(pids) == []
    assert not servers.directory.exists()


def test_a_startup_failure_shows_the_servers_last_lines():
    servers = ControlPlane(api_server_arguments=["--no-such-flag"])
    with pytest.raises(
        ControlPlaneError, match=r"kube-apiserver ended with status 1(.|\n)*unknown flag: --no-such-flag"
    ):
        servers.start()
    assert not servers.directory.exists()


def test_a_program_that_cannot_run_is_named(tmp_path):
    binaries = {**find_binaries(), "etcd": tmp_path / "etcd"}
    with pytest.raises(ControlPlaneError, match=r"etcd ended with status 127(.|\n)*cannot run .*No such file"):
        ControlPlane(binaries=binaries).start()


def test_a_lost_race_for_a_port_is_run_again_and_the_end_leaves_nothing_behind(monkeypatch):
    free, given = control_plane.free_ports, []

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]

        @contextlib.contextmanager
        def last_one_taken_at_first(count):
            with free(count) as ports:
                given.append([*ports[:-1], taken] if not given else ports)
                yield given[-1]

        monkeypatch.setattr(control_plane, "free_ports", last_one_taken_at_first)
        with ControlPlane() as servers:
            assert len(given) == 2
            assert servers.server == f"https://127.0.0.1:{given[1][-1]}"
            assert servers.directory.parent == runs_directory()
            assert servers.kubeconfig.stat().st_mode & 0o077 == 0
            pids = servers_of(servers)
            assert running(pids) == pids
    assert running(pids) == []
    assert not servers.directory.exists()
    servers.stop()


async def test_the_api_server_restarts_with_its_objects(cluster):
    servers = cluster.control_plane
    await cluster.make_nodes(2)
    servers.stop_api_server()
    try:
        with pytest.raises(aiohttp.ClientConnectorError):
            await cluster.list_all("/api/v1/nodes")
    finally:
        await asyncio.to_thread(servers.start_api_server)
    assert len(await cluster.list_all("/api/v1/nodes")) == 2
    with pytest.raises(RuntimeError, match="is for after stop_api_server"):
        servers.start_api_server()
