"""`schedcache demo`: what it shows, and that it leaves nothing behind."""

import asyncio
import re
import signal
import sys

import aiohttp
import pytest

from schedcache.cli.demo.workload import BOUND, WORKLOADS
from schedcache.dump import load_dump

pytestmark = [pytest.mark.controlplane, pytest.mark.slow]


async def start(*flags):
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "schedcache", "demo", *flags),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def test_it_ends_with_0_when_all_is_as_it_should_be(control_plane):
    demo = await start("--exit")
    async with asyncio.timeout(120):
        output, errors = await demo.communicate()
    assert demo.returncode == 0, (output.decode(), errors.decode())
    text = output.decode()
    assert "Where the pods went" in text
    assert "Why the others are pending" in text
    for workload in WORKLOADS:
        row = re.search(rf"│ {workload.name} +│ +{workload.count} │ +(\d+) │", text)
        assert row is not None, workload.name
        assert int(row[1]) == (workload.count if workload.expected == BOUND else 0)
    assert "57 Insufficient cpu" in text
    assert errors == b""


async def test_it_stays_and_answers_until_ctrl_c(control_plane):
    demo = await start()
    text = ""
    async with asyncio.timeout(120):
        while "Press Ctrl-C to end the demo" not in text:
            line = await demo.stdout.readline()
            assert line, (text, (await demo.stderr.read()).decode())
            text += line.decode()
        url = re.search(r"http://[\d.:]+/dump", text)[0]
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            dump = load_dump(await response.read())
        assert len(dump.nodes) == 60
        assert len(dump.pods) == sum(workload.count for workload in WORKLOADS)
        assert dump.assumed == ()
        demo.send_signal(signal.SIGINT)
        assert await demo.wait() == 0
