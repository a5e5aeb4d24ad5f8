"""The process of a scheduler that tests start does not outlive them."""

import asyncio
import signal

import pytest

from tests.e2e import scheduler_process
from tests.e2e.scheduler_process import SchedulerProcess


async def test_one_that_does_not_start_in_time_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler_process, "START_SECONDS", 0.05)
    scheduler = SchedulerProcess(tmp_path / "none", tmp_path / "log")
    with pytest.raises(TimeoutError):
        await scheduler.__aenter__()
    assert scheduler.process.returncode == -signal.SIGKILL


async def test_one_that_does_not_stop_in_time_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(scheduler_process, "STOP_SECONDS", 0.05)
    scheduler = SchedulerProcess(tmp_path / "none", tmp_path / "log")
    deaf = "trap '' TERM; echo deaf; exec sleep 60"
    scheduler.process = await asyncio.create_subprocess_exec("sh", "-c", deaf, stdout=asyncio.subprocess.PIPE)
    assert scheduler.process.stdout is not None
    await scheduler.process.stdout.readline()
    with pytest.raises(TimeoutError):
        await scheduler.__aexit__(None, None, None)
    assert scheduler.process.returncode == -signal.SIGKILL
