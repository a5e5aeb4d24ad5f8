"""A program at work: served over HTTP, until it is told to stop."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import NamedTuple

import structlog
from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from schedcache.app.health import health_of
from schedcache.app.program import Program
from schedcache.app.serving import serve
from schedcache.kube.leader_election.elector import LeadershipLostError
from schedcache.server.access.guard import for_local_names, is_loopback
from schedcache.server.comparing import compare_route
from schedcache.server.dump import dump_route, has_work
from schedcache.server.health import Health
from schedcache.server.share import ProcessorShare

LOOPBACK = "127.0.0.1"
_log = structlog.get_logger(__name__)


class Ports(NamedTuple):
    """Where a program answers, as in `Settings`; None: not served."""

    secure_port: int | None
    port: int | None
    probe_port: int | None


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
async def served(program: Program) -> AsyncIterator[Ports]:
    """Answer on the ports that the settings name, for as long as the block lasts. Raises UsageError for one that is taken."""
    settings, health = program.settings, health_of(program)
    secure_port = plain_port = probe_port = None
    async with contextlib.AsyncExitStack() as stack:
        share = processor_share(program)
        routes = main_routes(program, health, share)
        if settings.secure_port is not None:
            # Loaded where it is used: it takes a library for certificates.
            from schedcache.app.securing import served_securely  # noqa: PLC0415

            secure = served_securely(program, routes, settings.secure_port, share)
            secure_port = await stack.enter_async_context(secure)
            _log.info("serving metrics and dump over HTTPS", address=settings.bind_address or "all", port=secure_port)
        if settings.port is not None:
            address = settings.bind_address or LOOPBACK
            plain = serve(
                routes,
                address,
                settings.port,
                "--port",
                settings=settings.serving,
                stats=program.serving,
                share=share,
                guards=[for_local_names] if is_loopback(address) else [],
            )
            plain_port = await stack.enter_async_context(plain)
            _log.info(
                "serving metrics and dump", address=address, port=plain_port, tls=False, open_to=_open_to(address)
            )
            if not is_loopback(address):
                _log.warning(
                    "whoever reaches this address can read everything; --secure-port asks who they are", address=address
                )
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
            probe_port = await stack.enter_async_context(probes)
            _log.info("serving probes", port=probe_port)
        yield Ports(secure_port, plain_port, probe_port)


def _open_to(address: str) -> str:
    return "everybody on this machine" if is_loopback(address) else "everybody who reaches it"


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
