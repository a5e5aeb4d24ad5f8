"""A program at work: served over HTTP, until it is told to stop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog
from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from schedcache.app.health import health_of
from schedcache.app.program import Program
from schedcache.app.serving import serve
from schedcache.kube.leader_election.elector import LeadershipLostError
from schedcache.server.comparing import compare_route
from schedcache.server.dump import dump_route, has_work
from schedcache.server.health import Health
from schedcache.server.share import ProcessorShare

_log = structlog.get_logger(__name__)


async def run_until(program: Program, stop: asyncio.Event) -> int:
    """Run the program until `stop` is set (0), until one of its tasks fails, or until it has led and must not go on (1)."""
    running = asyncio.create_task(program.run(), name="program")
    stopped = asyncio.create_task(stop.wait(), name="stop signal")
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    asked = stop.is_set()
    if asked:
        _log.info("stopping")
    stopped.cancel()
    running.cancel()
    (error, _) = await asyncio.gather(running, stopped, return_exceptions=True)
    if asked and (error is None or isinstance(error, asyncio.CancelledError)):
        _log.info("stopped")
        return 0
    if (lost := _lost(error)) is not None:
        _log.error("leadership lost, ending", reason=str(lost))
        return 1
    _log.critical("ended unexpectedly", exc_info=error if isinstance(error, BaseException) else None)
    return 1


def _lost(error: BaseException | None) -> LeadershipLostError | None:
    """The reason if nothing else has happened."""
    if not isinstance(error, BaseExceptionGroup):
        return None
    found, others = error.split(LeadershipLostError)
    if found is None or others is not None:
        return None
    return next(each for each in found.exceptions if isinstance(each, LeadershipLostError))


@contextlib.asynccontextmanager
async def served(program: Program) -> AsyncIterator[None]:
    """Answer on the ports that the settings name, for as long as the block lasts. Raises UsageError for one that is taken."""
    settings, health = program.settings, health_of(program)
    async with contextlib.AsyncExitStack() as stack:
        if settings.port is not None:
            share = processor_share(program)
            routes = main_routes(program, health, share)
            port = await stack.enter_async_context(
                serve(
                    routes,
                    settings.bind_address,
                    settings.port,
                    "--port",
                    settings=settings.serving,
                    stats=program.serving,
                    share=share,
                )
            )
            _log.info("serving metrics and dump", address=settings.bind_address, port=port)
        if settings.probe_port is not None:
            probes = serve(
                health.routes(),
                None,
                settings.probe_port,
                "--probe-port",
                settings=settings.serving,
                stats=program.serving,
                name="probes",
                share=processor_share(program),
            )
            _log.info("serving probes", port=await stack.enter_async_context(probes))
        yield


def processor_share(program: Program) -> ProcessorShare:
    """What the answers of one port may take of the processor while pods are being scheduled."""
    return ProcessorShare(lambda: has_work(program.scheduler), program.settings.serving.busy_share)


def main_routes(program: Program, health: Health, share: ProcessorShare | None = None) -> list[web.RouteDef]:
    """Everything that is answered on the main port, within the share."""
    share = share or processor_share(program)
    scrape = make_aiohttp_handler(program.registry)

    async def metrics(request: web.Request) -> web.StreamResponse:
        async with share:
            return await scrape(request)

    dump = dump_route(
        program.scheduler, program.source, share=share, settings=program.settings.serving, stats=program.serving
    )
    return [web.get("/metrics", metrics), dump, compare_route(program.comparer), *health.routes()]
