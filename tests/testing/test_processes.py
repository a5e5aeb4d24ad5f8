import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from schedcache.testing import SupervisedProcess
from schedcache.testing.processes import RunDirectory, exclusive_lock, runs_directory
from tests.testing.process_table import running, state, wait_until_ended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")

PARENT = """
import os, pathlib, sys, threading, time
from schedcache.testing.processes import SupervisedProcess
started = []
def start():
    started.append(SupervisedProcess(["sleep", "600"], pathlib.Path(sys.argv[1])))
# From a thread that ends: the program outlives it.
thread = threading.Thread(target=start)
thread.start(); thread.join()
print(started[0].pid, flush=True)
if sys.argv[2] == "forks":
    # The child holds the lifeline's end as well, and outlives us.
    child = os.fork()
    if child == 0:
        os.close(0); os.close(1); time.sleep(20); os._exit(0)
    print(child, flush=True)
input()
"""


@pytest.fixture
def process(tmp_path):
    started = []

    def start(*command, **options):
        started.append(SupervisedProcess(command, tmp_path / "log", **options))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def parent_of_a_sleep(tmp_path, kind="plain"):
    command = [sys.executable, "-W", "ignore", "-c", PARENT, str(tmp_path / "log"), kind]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_program_ends_with_the_process_that_started_it(tmp_path, number):
    with parent_of_a_sleep(tmp_path) as parent:
        program = int(parent.stdout.readline())
        assert running([program]) == [program]
        parent.send_signal(number)
        assert wait_until_ended([program]) == []


def test_a_program_ends_with_a_process_that_just_ends(tmp_path):
    with parent_of_a_sleep(tmp_path) as parent:
        program = int(parent.stdout.readline())
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert wait_until_ended([program]) == []


def test_a_program_ends_though_a_forked_child_of_its_parent_goes_on(tmp_path):
    with parent_of_a_sleep(tmp_path, "forks") as parent:
        program, child = int(parent.stdout.readline()), int(parent.stdout.readline())
        parent.kill()
        try:
            assert wait_until_ended([program]) == []
            assert running([child]) == [child]
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_program_ends_with_its_killed_launcher(process):
    program = process("sleep", "600")
    pid = program.pid
    os.kill(program._launcher.pid, signal.SIGKILL)
    assert wait_until_ended([pid]) == []
    assert program.wait(5) == -signal.SIGKILL


def test_kill_waits_until_it_is_gone(process):
    program = process("sleep", "600")
    pid = program.pid
    program.kill()
    assert state(pid) == ""
    assert program.poll() == 128 + signal.SIGKILL
    program.kill()


def test_a_stopped_program_is_killed_too(process):
    program = process("sleep", "600")
    program.signal(signal.SIGSTOP)
    while state(program.pid) != "T":
        time.sleep(0.01)
    program.kill()
    assert running([program.pid]) == []


def test_output_environment_and_status(process, tmp_path):
    script = "import os, sys; print(os.environ['WORD'], os.getcwd()); print('to stderr', file=sys.stderr); sys.exit(3)"
    program = process(sys.executable, "-c", script, environment={"WORD": "hello"}, directory=tmp_path)
    assert program.wait(5) == 3
    assert sorted(program.log_tail().splitlines()) == [f"hello {tmp_path}", "to stderr"]
    assert program.log_tail(1) in program.log_tail()
    program.signal(signal.SIGTERM)


def test_a_program_that_ends_by_a_signal(process):
    assert process(sys.executable, "-c", "import os; os.kill(os.getpid(), 15)").wait(5) == 128 + signal.SIGTERM


def test_a_program_that_is_not_there(process):
    program = process("/no/such/program")
    assert program.wait(5) == 127
    assert program.pid == 0
    assert program.log_tail() == "cannot run /no/such/program: No such file or directory"


def test_terminal_signals_do_not_reach_it(process):
    program = process("sleep", "600")
    assert os.getpgid(program.pid) != os.getpgid(0)
    assert os.getsid(program.pid) != os.getsid(0)


def test_a_run_directory_is_private_and_goes():
    run = RunDirectory()
    try:
        assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    finally:
        run.remove()
    assert not run.path.exists()
    run.remove()


def test_a_run_directory_stays_while_a_program_of_it_lives(process):
    run = RunDirectory()
    program = process("sleep", "600", inherited=[run.fileno()])
    assert program.pid
    run._lock.close()  # as if this process had been killed
    RunDirectory().remove()
    assert run.path.exists()
    program.kill()
    RunDirectory().remove()
    assert not run.path.exists()


def test_a_folder_of_somebody_else_is_not_used(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"schedcache-{os.getuid()}").symlink_to(elsewhere)
    with pytest.raises(PermissionError, match="set TMPDIR to a folder of your own"):
        runs_directory()


def test_a_lock_is_waited_for(tmp_path):
    waiting, order = threading.Event(), []

    def second():
        with exclusive_lock(tmp_path / "lock", on_wait=waiting.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with exclusive_lock(tmp_path / "lock", on_wait=lambda: order.append("never")):
        thread.start()
        assert waiting.wait(5)
        order.append("first")
    thread.join(5)
    assert order == ["first", "second"]
