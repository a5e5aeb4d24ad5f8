"""A scheduler in the test's own process, so that its deadlines can be short and its state can be looked at."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from schedcache.app.program import Program, assembled
from schedcache.app.settings import Settings
from schedcache.dump import Dump, load_dump, pieces
from schedcache.server.dump import take_dump
from schedcache.testing import wait_until


@asynccontextmanager
async def scheduler(kubeconfig: Path, **settings: Any) -> AsyncIterator[Program]:
    """Runs from when it has listed everything until the end of the block."""
    complete = Settings(
        kubeconfig=str(kubeconfig),
        **{"qps": 2000.0, "burst": 2000, "validate": True, **settings},
    )
    async with assembled(complete) as program:
        running = asyncio.create_task(program.run())
        try:

            async def scheduling() -> bool:
                assert not running.done(), running
                return program.scheduler.last_housekeeping is not None

            await wait_until(scheduling)
            yield program
            assert not running.done(), running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


def dump_of(program: Program) -> Any:
    """Reads the dump as `/dump` gives it."""

    async def read() -> Dump:
        return load_dump(b"".join(pieces(take_dump(program.scheduler, program.source))))

    return read


def requested(program: Program, node: str) -> int:
    """Milli-CPU that the cache counts on the node."""
    info = program.scheduler.state.cache.dump().nodes.get(node)
    return 0 if info is None else info.requested.milli_cpu


def assumed(program: Program) -> set[str]:
    """Names of the assumed pods."""
    return {held.pod.name for held in program.scheduler.state.cache.assumed_pods.values()}
