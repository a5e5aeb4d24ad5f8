"""A signal to stop is obeyed from the first moment on, whatever the process is at."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from schedcache.cli import main
from schedcache.cli.signals import STOP_SIGNALS, end_at_once
from schedcache.testing import wait_until

PROMPT_SECONDS = 5.0
RUN = (sys.executable, "-m", "schedcache", "run", "--port=0", "--log-format=json")
CONTAINER = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
"""The command that follows is PID 1, as in a container."""
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")


def handles(pid, number):
    """Whether the process has a handler for the signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) & 1 << (number - 1))


def wait_for(condition):
    deadline = time.monotonic() + 20
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return found


def interrupt_imports(pid, number):
    """Signal the process as soon as it listens, which is before it has loaded any library."""
    wait_for(lambda: handles(pid, number))
    assert "numpy" not in Path(f"/proc/{pid}/maps").read_text()
    os.kill(pid, number)


@needs_proc
@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_during_the_imports_it_ends_the_process_at_once(number):
    with subprocess.Popen([*RUN, "--kubeconfig=/no/such/file"], stderr=subprocess.PIPE, text=True) as process:
        if number == signal.SIGINT:
            # The interpreter has a handler of its own for this one, which would print a traceback.
            wait_for(lambda: handles(process.pid, signal.SIGTERM))
        interrupt_imports(process.pid, number)
        _, errors = process.communicate(timeout=PROMPT_SECONDS)
    assert (process.returncode, errors) == (-number, "")


def can_be_pid_1():
    return (
        shutil.which(CONTAINER[0]) is not None
        and subprocess.run([*CONTAINER, "true"], check=False, capture_output=True).returncode == 0
    )


@needs_proc
@pytest.mark.skipif(not can_be_pid_1(), reason="needs the right to make a PID namespace")
def test_during_the_imports_it_ends_pid_1_as_well():
    """The kernel drops a signal to PID 1 that has no handler: the pod would stay until its grace period is over."""
    command = [*CONTAINER, *RUN, "--kubeconfig=/no/such/file"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        interrupt_imports(int(wait_for(children.read_text)), signal.SIGTERM)
        _, errors = process.communicate(timeout=PROMPT_SECONDS)
    assert (process.returncode, errors) == (128 + signal.SIGTERM, "")


def test_a_command_leaves_the_handlers_as_they_were(capsys):
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    assert main(["version"]) == 0
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before != [end_at_once] * 2


@needs_proc
def test_what_a_shell_has_it_ignore_stays_ignored():
    """As SIGINT for what a script runs in the background: the Ctrl-C is meant for the script."""
    command = [*RUN, "--kubeconfig=/no/such/file"]
    with subprocess.Popen(["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command], stderr=subprocess.PIPE) as process:
        wait_for(lambda: handles(process.pid, signal.SIGTERM))
        assert not handles(process.pid, signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 2


PLUGIN = """#!/bin/sh
# Answers while the credentials are read at the start, which is twice, and not when kopf logs in.
echo asked >> "$0.asked"
[ "$(wc -l < "$0.asked")" -gt 2 ] && exec sleep 30
cat <<END
{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
 "status": {"token": "t", "expirationTimestamp": "2001-01-01T00:00:00Z"}}
END
"""


async def test_a_credential_plugin_that_hangs_does_not_keep_it_from_stopping(tmp_path, unreachable_kubeconfig):
    """Neither the event loop nor the interpreter waits for the thread it was called from."""
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN)
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    user = f"{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: {plugin}, interactiveMode: Never}}}}"
    unreachable_kubeconfig.write_text(unreachable_kubeconfig.read_text().replace("{token: none}", user))
    process = await asyncio.create_subprocess_exec(
        *RUN,
        f"--kubeconfig={unreachable_kubeconfig}",
        "--event-source=kopf",
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )

    async def hangs():
        asked = tmp_path / "plugin.asked"
        return asked.exists() and asked.read_text().count("asked") == 3

    try:
        await wait_until(hangs)
        process.terminate()
        async with asyncio.timeout(PROMPT_SECONDS):
            _, errors = await process.communicate()
        assert process.returncode == 0, errors
        assert b"Traceback" not in errors
    finally:
        # The plugin outlives us: it is in the group that was made for this.
        os.killpg(process.pid, signal.SIGKILL)
