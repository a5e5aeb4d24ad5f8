"""Lines are written by a thread: in order, without anybody waiting for it, and without errors."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from schedcache.cli import log_output
from schedcache.cli.log_output import LogOutput, LogStream

PROMPT_SECONDS = 2.0
LINE = "x" * 99 + "\n"


@pytest.fixture
def pipe():
    read, write = os.pipe()
    open_ones = {read, write}

    def close(descriptor):
        open_ones.discard(descriptor)
        os.close(descriptor)

    yield read, write, close
    for descriptor in open_ones:
        os.close(descriptor)


def read_until(descriptor, text):
    found = b""
    deadline = time.monotonic() + 10
    while text not in found:
        assert time.monotonic() < deadline
        found += os.read(descriptor, 2**16)
    return found.decode()


def test_lines_come_out_in_order(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        output = LogOutput(file.fileno())
        for number in range(10_000):
            output.write(f"{number}\n")
        assert output.flush()
    assert path.read_text().splitlines() == [str(number) for number in range(10_000)]
    assert output.dropped == 0


def test_lines_of_several_threads_stay_whole(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        output = LogOutput(file.fileno())
        threads = [
            threading.Thread(target=lambda i=i: [output.write(f"{i} {n}\n") for n in range(500)]) for i in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert output.flush()
    lines = path.read_text().splitlines()
    for i in range(4):
        assert [line for line in lines if line.startswith(f"{i} ")] == [f"{i} {n}" for n in range(500)]


def test_what_has_no_room_is_dropped_and_counted_where_it_is_missing(pipe):
    read, write, _ = pipe
    output = LogOutput(write, most_bytes=200_000)
    began = time.monotonic()
    for _ in range(5000):
        output.write(LINE)
    assert time.monotonic() - began < PROMPT_SECONDS, "nobody reads the pipe"
    assert not output.flush(0.2)
    dropped = output.dropped
    assert 2000 < dropped < 5000
    reader = threading.Thread(target=lambda: found.append(read_until(read, b"again\n")))
    found = []
    reader.start()
    assert output.flush(5)
    output.write("again\n")
    reader.join()
    lines = found[0].splitlines()
    notices = [line for line in lines if line.endswith(" lines of the log were dropped")]
    assert sum(int(line.split()[0]) for line in notices) == dropped
    assert lines.count(LINE[:-1]) == 5000 - dropped
    assert lines[-2:] == [notices[-1], "again"]


def test_a_line_that_comes_after_dropped_ones_is_told_of_them_first(pipe):
    """They were missing before it, though the thread had taken all that waited before they were dropped."""
    read, write, _ = pipe
    output = LogOutput(write, most_bytes=2 * len(LINE))
    output.dropped = output._untold = 3
    output.write("again\n")
    assert output.flush(5)
    assert read_until(read, b"again\n").splitlines() == ["3 lines of the log were dropped", "again"]


def test_dropped_lines_are_told_of_though_nothing_else_comes(pipe):
    read, write, _ = pipe
    output = LogOutput(write, most_bytes=100)
    output.write("first\n")
    assert output.flush(5)
    output.write("x" * 200 + "\n")
    output.housekeeping = lambda: 0.05
    output.write("second\n")
    assert output.flush(5)
    assert read_until(read, b"second\n").splitlines() == ["first", "1 lines of the log were dropped", "second"]


def test_a_fault_in_the_housekeeping_does_not_end_the_thread_that_writes(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        output = LogOutput(file.fileno())
        faults = [None, ValueError("odd")]

        def housekeeping():
            if faults and (fault := faults.pop(0)) is not None:
                raise fault

        output.housekeeping = housekeeping
        output.write("before\n")
        assert output.flush()
        output.write("after\n")
        assert output.flush()
    lines = path.read_text().splitlines()
    assert {lines[0], "after", "ValueError: odd"} <= {"before", *lines}


def test_after_an_error_it_tries_again(monkeypatch, tmp_path):
    """As when there is room on the disk again."""
    monkeypatch.setattr(log_output, "RETRY_SECONDS", 0.05)
    full = os.open("/dev/full", os.O_WRONLY)
    output = LogOutput(full)
    output.write("first\n")
    output.write("second\n")
    began = time.monotonic()
    assert not output.flush(5), "it cannot be written now, and the caller need not wait"
    assert time.monotonic() - began < PROMPT_SECONDS
    path = tmp_path / "log"
    with path.open("wb") as file:
        os.dup2(file.fileno(), full)
    deadline = time.monotonic() + 10
    while path.read_text() != "first\nsecond\n":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert output.flush()
    os.close(full)


def test_a_descriptor_that_does_not_wait_is_waited_for(pipe):
    read, write, _ = pipe
    os.set_blocking(write, False)
    output = LogOutput(write)
    for _ in range(3000):
        output.write(LINE)
    output.write("end\n")
    assert read_until(read, b"end\n") == LINE * 3000 + "end\n"


@pytest.mark.parametrize("problem", ["closed at the other end", "closed"])
def test_nobody_who_writes_meets_an_error(pipe, problem):
    read, write, close = pipe
    output = LogOutput(write)
    close(read)
    if problem == "closed":
        close(write)
    for _ in range(100):
        output.write(LINE)
    assert not output.flush(1)


def test_text_that_is_no_unicode_is_escaped(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        output = LogOutput(file.fileno())
        print("a \udcff name", file=LogStream(output, file.fileno()))
        assert output.flush()
    assert path.read_text() == "a \\udcff name\n"


PROGRAM = """
import logging, sys, threading
import structlog
from schedcache.cli.descriptors import occupy_standard_descriptors
from schedcache.cli.logs import logging_to_stderr
occupy_standard_descriptors()
with logging_to_stderr("json", capture=True) as output:
    structlog.get_logger().info("ours")
    logging.getLogger("other").warning("theirs")
    print("printed")
    threading.Thread(target=lambda: 1 / 0).start()
    for _ in range(20_000):
        structlog.get_logger().info("many", text="x" * 1000)
    raise RuntimeError("uncaught")
"""


@pytest.mark.parametrize("target", ["pipe", "full", "closed"])
def test_a_process_ends_whatever_became_of_its_log(pipe, target):
    _, write, _ = pipe
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(Path("/dev/full").open("wb")) if target == "full" else write
        shell = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh"] if target == "closed" else []
        began = time.monotonic()
        found = subprocess.run(
            [*shell, sys.executable, "-c", PROGRAM], stdout=errors, stderr=errors, check=False, timeout=30
        )
    assert found.returncode == 1
    assert time.monotonic() - began < 15


def test_everything_that_is_said_goes_one_way(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        found = subprocess.run([sys.executable, "-c", PROGRAM], stdout=file, stderr=file, check=False, timeout=30)
    assert found.returncode == 1
    lines = path.read_text().splitlines()
    assert '"event": "ours"' in lines[0]
    assert '"event": "theirs"' in lines[1]
    assert lines[2] == "printed"
    assert any("a thread ended by an exception" in line and "ZeroDivisionError" in line for line in lines[3:])
    assert any('"dropped": ' in line for line in lines) or sum("many" in line for line in lines) == 20_000
    assert lines[-1] == "RuntimeError: uncaught"
