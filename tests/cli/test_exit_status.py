"""No fault of the program, and no answer that did not arrive, passes for an answer by its exit status."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from schedcache.cli import main
from schedcache.cli.simulate_table import table_text
from schedcache.simulation import WhatIf

CLUSTER = "{kind: Node, metadata: {name: n}, status: {allocatable: {cpu: '4', pods: '9'}}}"
POD = "{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"
FULL = Path("/dev/full")
CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


@pytest.fixture
def commands(tmp_path):
    (tmp_path / "cluster").write_text(CLUSTER)
    (tmp_path / "pod.yaml").write_text(POD)
    (tmp_path / "config").write_text(CONFIG)
    simulate = ["simulate", "--cluster", str(tmp_path / "cluster"), "--pod", str(tmp_path / "pod.yaml")]
    check = ["check-config", str(tmp_path / "config")]
    return {"table": simulate, "json": [*simulate, "-o", "json"], "check-config": check, "version": ["version"]}


@pytest.mark.parametrize(
    "error", [RuntimeError("a fault"), RecursionError("a fault"), OSError("a fault"), ImportError("a fault")]
)
def test_a_fault_ends_with_70_and_its_traceback(commands, error, monkeypatch, capsys):
    def broken(*_, **_options):
        raise error

    monkeypatch.setattr(WhatIf, "ask", broken)
    assert main(commands["table"]) == 70
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback (most recent call last)" in captured.err
    assert "in broken" in captured.err
    assert captured.err.endswith("schedcache: a fault in the program, exit status 70\n")


def test_a_fault_in_the_imports_ends_with_70_too(tmp_path):
    (tmp_path / "yaml.py").write_text("raise RuntimeError('not installed as it should be')")
    found = subprocess.run(
        [sys.executable, "-m", "schedcache", "check-config", "file"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 70
    assert "not installed as it should be" in found.stderr


@pytest.mark.parametrize("command", ["table", "json", "check-config", "version"])
def test_an_answer_that_nobody_reads_ends_as_if_by_the_signal(commands, command):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        found = subprocess.run(
            [sys.executable, "-m", "schedcache", *commands[command]], stdout=closed, stderr=subprocess.PIPE, check=False
        )
    assert found.returncode == 141
    assert b"Traceback" not in found.stderr


@pytest.mark.skipif(not FULL.exists(), reason="a disk that is always full")
@pytest.mark.parametrize("command", ["table", "json", "check-config", "version"])
def test_an_answer_that_cannot_be_written_ends_with_74(commands, command):
    with FULL.open("wb") as full:
        found = subprocess.run(
            [sys.executable, "-m", "schedcache", *commands[command]], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert found.returncode == 74
    assert b"the answer could not be written: No space left on device" in found.stderr
    assert b"Traceback" not in found.stderr


def test_the_table_is_written_as_the_output_can_show_it(commands, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    command = [sys.executable, "-m", "schedcache", *commands["table"]]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = subprocess.run(command, env=ascii_only, capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.isascii()
    assert b"\x1b" not in found.stdout
    report = json.loads(subprocess.run([*command, "-o", "json"], capture_output=True, check=True).stdout)
    assert "\x1b[1m" in table_text(report, Terminal(io.BytesIO()))


def test_who_closes_standard_output_wants_the_status_alone(commands):
    command = [sys.executable, "-m", "schedcache", *commands["table"]]
    assert subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], check=False).returncode == 0
