"""Whoever watches a scheduler during a fault goes on watching, or the test is red."""

import asyncio

import pytest
from aiohttp import web

from tests.faults import process
from tests.faults.process import Scheduler


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(process, "DUMP_SECONDS", 0.02)
    # What is asked is a server of the test's.
    monkeypatch.setattr(Scheduler, "running", True)


async def watched(tmp_path, answer):
    """How often the dump was asked for in half a second."""
    asked = 0

    async def handle(_request):
        nonlocal asked
        asked += 1
        return answer()

    scheduler = Scheduler(tmp_path / "none", tmp_path / "log")
    application = web.Application()
    application.router.add_get("/dump", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", scheduler.port).start()
    try:
        async with scheduler:
            await asyncio.sleep(0.5)
    finally:
        await runner.cleanup()
    return asked


async def test_a_dump_that_is_refused_is_asked_for_again(quick, tmp_path):
    assert await watched(tmp_path, lambda: web.Response(status=503)) > 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(lambda: web.Response(status=500, text="no dump"), AssertionError, id="500"),
        pytest.param(lambda: web.Response(text="{}"), Exception, id="not a dump"),
    ],
)
async def test_a_dump_that_says_nothing_is_a_failure(answer, error, quick, tmp_path):
    with pytest.raises(error):
        await watched(tmp_path, answer)
