"""What a command does not use it does not load: the kubernetes client alone is 20 MB, and aiohttp or kopf are half a second."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from schedcache.testing import node_manifest, pod_manifest
from tests.dump.support import EXAMPLE

HEAVY = {
    *(
        "aiohttp",
        "httptools",
        "kopf",
        "kubernetes",
        "msgspec",
        "numpy",
        "prometheus_client",
        "pydantic",
        "requests",
        "rich",
    ),
    *("asyncio", "structlog", "yaml", "schedcache.simulation", "schedcache.testing"),
}
RUN = """
import sys
from schedcache.cli import main
status = main(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    print(*sys.modules, file=file)
sys.exit(status)
"""
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
NODE = node_manifest("n")
POD = pod_manifest("p", scheduler_name="default-scheduler")
LOGS = {"structlog", "rich", "asyncio"}
"""structlog takes rich wherever it is installed, for tracebacks."""
CORE = {"msgspec", "numpy", "yaml"} | LOGS
LIVE = CORE | {"aiohttp", "httptools", "kubernetes", "prometheus_client", "pydantic", "requests"}
"""pydantic and requests come with the kubernetes client."""


@pytest.fixture
def files(tmp_path):
    for name, content in (("config", CONFIG), ("node", NODE), ("pod", POD), ("bad", {**CONFIG, "parallelism": -1})):
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "dump").write_bytes(EXAMPLE)
    return tmp_path


def loaded(files):
    return {name for name in (files / "modules").read_text().split() if name in HEAVY}


def command(files, *arguments):
    return [sys.executable, "-c", textwrap.dedent(RUN), str(files / "modules"), *arguments]


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["version"], 0, set()),
        (["check-config", "config"], 0, CORE),
        (["check-config", "bad"], 2, {"msgspec", "yaml"} | LOGS),
        (["simulate", "--cluster", "node", "--pod", "pod"], 0, CORE | {"schedcache.simulation"}),
        (["simulate", "--cluster", "node", "--pod", "pod", "-o", "json"], 0, CORE | {"schedcache.simulation"}),
        (["dump", "--file", "dump"], 0, {"msgspec", "rich"}),
        (["run", "--config", "bad"], 2, {"msgspec", "yaml"} | LOGS),
        (["run", "--leader-elect-retry-period=x"], 2, {"msgspec", "yaml"} | LOGS),
    ],
)
def test_a_command_loads_what_it_uses(files, arguments, status, expected):
    done = subprocess.run(command(files, *arguments), cwd=files, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert loaded(files) == expected


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], *([name, "--help"] for name in ("run", "demo", "simulate", "dump"))]
)
def test_help_loads_nothing(files, arguments):
    """argparse ends the process by itself."""
    script = RUN.replace(
        "status = main(sys.argv[2:])", "try: main(sys.argv[2:])\nexcept SystemExit as end: status = end.code"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(files / "modules"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert loaded(files) == set()


@pytest.mark.parametrize(("source", "more"), [("reflector", set()), ("kopf", {"kopf"})])
def test_a_scheduler_loads_the_event_source_that_it_uses_and_nothing_of_simulations_and_tests(
    files, source, more, unreachable_kubeconfig
):
    """That nobody answers keeps no scheduler from running."""
    arguments = [
        "run",
        f"--kubeconfig={unreachable_kubeconfig}",
        "--port=0",
        "--log-format=json",
        f"--event-source={source}",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with subprocess.Popen(command(files, *arguments), stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert any(
                "list or watch failed, trying again" in line or "a sweep failed" in line for line in process.stderr
            )
        finally:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert loaded(files) == LIVE | more
