"""Health that is claimed is had."""

import aiohttp
import pytest
from aiohttp import web

from schedcache.server.health import Health


@pytest.fixture
async def answers():
    """Asks a server with one live and one ready check, whose answers the test sets."""
    state = {"loop": "", "watches": "", "standing": ""}
    health = Health(
        [("loop", lambda: state["loop"])], [("watches", lambda: state["watches"])], standing=lambda: state["standing"]
    )
    application = web.Application()
    application.add_routes(health.routes())
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    async def ask(path):
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
            async with session.get(url) as response:
                return response.status, await response.text()

    yield state, ask
    await runner.cleanup()


async def test_all_is_well(answers):
    _, ask = answers
    assert await ask("/livez") == (200, "ok")
    assert await ask("/readyz") == (200, "ok")
    assert await ask("/readyz?verbose") == (200, "[+]loop ok\n[+]watches ok\nreadyz check passed\n")


async def test_a_stale_watch_is_named_and_is_no_reason_to_restart(answers):
    state, ask = answers
    state["watches"] = "nothing heard of nodes (600 s)"
    status, text = await ask("/readyz")
    assert status == 500
    assert "[-]watches failed: nothing heard of nodes (600 s)" in text
    assert await ask("/livez") == (200, "ok")


async def test_a_loop_that_is_not_alive_is_not_ready_either(answers):
    state, ask = answers
    state["loop"] = "scheduling loop has ended"
    assert (await ask("/livez"))[0] == 500
    assert (await ask("/readyz"))[0] == 500


async def test_a_standby_is_ready_and_says_that_it_is_one(answers):
    state, ask = answers
    state["standing"] = "standby, the leader is other"
    assert await ask("/readyz") == (200, "ok: standby, the leader is other")
    assert (await ask("/readyz?verbose"))[1].endswith("\nreadyz check passed: standby, the leader is other\n")
    assert await ask("/livez") == (200, "ok")
    state["watches"] = "lost"
    status, text = await ask("/readyz")
    assert (status, text.splitlines()[-1]) == (500, "readyz check failed: standby, the leader is other")
