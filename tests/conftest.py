"""Fixtures for every test: one real API server for the whole run, clean for each test."""

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from schedcache.testing import Cluster, ControlPlane, find_binaries

ROOT = Path(__file__).resolve().parents[1]
UNREACHABLE = """
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: nobody, user: {token: none}}]
contexts: [{name: none, context: {cluster: none, user: nobody}}]
current-context: none
"""


def pytest_configure() -> None:
    """Started in the background of a shell, the run ignores SIGINT, and so would every process that a test interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the control plane before the first test, in plain sight: the build takes minutes the first time."""
    if session.config.option.collectonly or not any(_needs_control_plane(item) for item in session.items):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        find_binaries()


def _needs_control_plane(item: pytest.Item) -> bool:
    names = getattr(item, "fixturenames", ())
    return "control_plane" in names or item.get_closest_marker("controlplane") is not None


@pytest.fixture
def switching_often() -> Iterator[None]:
    """Threads take turns every few microseconds instead of milliseconds."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def unreachable_kubeconfig(tmp_path: Path) -> Path:
    """Of a cluster whose API server does not answer."""
    path = tmp_path / "kubeconfig"
    path.write_text(UNREACHABLE)
    return path


@pytest.fixture(scope="session")
def helm_built(pytestconfig: pytest.Config) -> None:
    """Helm is there; the first time, that takes minutes, and no test's time."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        subprocess.run([ROOT / "hack" / "helm", "version", "--short"], stdout=subprocess.DEVNULL, check=True)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver for the whole run."""
    with ControlPlane() as servers:
        yield servers


@pytest.fixture
async def cluster(control_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """The API server as it was when it started, for one test."""
    async with Cluster(control_plane) as handle:
        # Before and not after: whatever state an interrupted test left is gone as well.
        await handle.clean()
        yield handle
