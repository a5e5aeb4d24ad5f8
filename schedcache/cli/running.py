"""A program at work: served over HTTP, stopped by signals, with what its health depends on."""

import argparse
import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator

import structlog
from aiohttp import web
from prometheus_client import disable_created_metrics
from prometheus_client.aiohttp import make_aiohttp_handler

from schedcache import __version__
from schedcache.cli.errors import UsageError
from schedcache.cli.program import Program, assembled
from schedcache.cli.serving import serve
from schedcache.cli.settings import Settings
from schedcache.cli.signals import STOP_SIGNALS, end_at_once
from schedcache.framework import PluginSetError, RegistryError
from schedcache.kube.http.credentials import CredentialError
from schedcache.kube.http.threads import DaemonThreads
from schedcache.kube.watch.kinds import KINDS
from schedcache.server.dump import dump_route
from schedcache.server.health import Health

LOST_SECONDS = 15.0
"""Longer than the first three tries to connect again take (11.2 s): when one API server of several goes, or the only one is
restarted in some seconds, nobody has to know. Shorter than anything that may be called work."""
STALE_SECONDS = 75.0
"""A watch brings something at least every minute, a bookmark if nothing else."""
STALLED_SECONDS = 10.0
"""The housekeeping of a loop that lives runs every second."""
_log = structlog.get_logger(__name__)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run a scheduler until it is told to stop; the exit status. Raises UsageError."""
    # A second series for each counter and histogram, that nobody reads.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client leaves it untyped
    try:
        return asyncio.run(_run(options, settings))
    except (CredentialError, PluginSetError, RegistryError) as error:
        raise UsageError(str(error)) from error


async def _run(options: argparse.Namespace, settings: Settings) -> int:
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    try:
        async with assembled(settings) as program:
            # Until here a signal ends the process at once: credentials may come from a plugin that takes its time.
            stop = stop_signals()
            async with _served(options, program):
                _log.info("starting", version=__version__, observe=settings.observe, event_source=settings.event_source)
                return await run_until(program, stop)
    except ExceptionGroup as errors:
        usage, others = errors.split(UsageError)
        if usage is not None and others is None:
            raise usage.exceptions[0] from None
        raise


def stop_signals() -> asyncio.Event:
    """Set at the first SIGTERM or SIGINT. A second one ends the process at once, whatever it waits for."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
            # Not by way of the loop, which may be what hangs.
            signal.signal(number, end_at_once)
        stop.set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, asked)
    return stop


async def run_until(program: Program, stop: asyncio.Event) -> int:
    """Run the program until `stop` is set (0), or until one of its tasks fails (1)."""
    running = asyncio.create_task(program.run(), name="program")
    stopped = asyncio.create_task(stop.wait(), name="stop signal")
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    asked = stop.is_set()
    if asked:
        _log.info("stopping; a second signal ends it at once")
    stopped.cancel()
    running.cancel()
    (error, _) = await asyncio.gather(running, stopped, return_exceptions=True)
    if asked and (error is None or isinstance(error, asyncio.CancelledError)):
        _log.info("stopped")
        return 0
    _log.critical("ended by itself", exc_info=error if isinstance(error, BaseException) else None)
    return 1


@contextlib.asynccontextmanager
async def _served(options: argparse.Namespace, program: Program) -> AsyncIterator[None]:
    health = health_of(program)
    async with contextlib.AsyncExitStack() as stack:
        routes = main_routes(program, health)
        port = await stack.enter_async_context(serve(routes, options.bind_address, options.port, "--port"))
        _log.info("serving metrics and dump", address=options.bind_address, port=port)
        if options.probe_port is not None:
            probes = serve(health.routes(), None, options.probe_port, "--probe-port")
            _log.info("serving probes", port=await stack.enter_async_context(probes))
        yield


def main_routes(program: Program, health: Health) -> list[web.RouteDef]:
    """Everything that is answered on the main port."""
    metrics = web.get("/metrics", make_aiohttp_handler(program.registry))
    return [metrics, dump_route(program.scheduler, program.source), *health.routes()]


def health_of(program: Program) -> Health:
    """Alive: every task runs and the loop turns. Ready: all kinds are listed and heard of, and nothing is stopping."""
    scheduler, source = program.scheduler, program.source

    def tasks() -> str:
        failed = program.failed_task()
        return f"{failed} has ended" if failed and not program.stopping else ""

    def loop() -> str:
        last = scheduler.last_housekeeping
        age = 0.0 if last is None or program.stopping else scheduler.state.clock() - last
        return f"stalled for {age:.0f} s" if age > STALLED_SECONDS else ""

    def synced() -> str:
        missing = [plural(kind) for kind in source.ages() if kind not in scheduler.handlers.synced_kinds]
        return f"not listed yet: {', '.join(missing)}" if missing else "" if source.has_synced() else "not synced"

    def watches() -> str:
        outages = source.outages()
        lost = [
            f"{plural(kind)} ({outage.seconds:.0f} s, {outage.why})"
            for kind, outage in outages.items()
            if outage.seconds > LOST_SECONDS
        ]
        stale = [
            f"{plural(kind)} ({age:.0f} s)"
            for kind, age in source.ages().items()
            if age > STALE_SECONDS and kind not in outages
        ]
        told = {"no connection for": lost, "nothing heard of": stale}
        return "; ".join(f"{what} {', '.join(kinds)}" for what, kinds in told.items() if kinds)

    def cache() -> str:
        return "found wrong, to be read afresh" if source.rebuild_wanted() else ""

    def binding() -> str:
        # An API server that has lost its etcd keeps watches open and carries nothing out.
        outages = {
            "bind": program.binder.binds.outage(),
            "read of a pod that may be bound": program.binder.reads.outage(),
        }
        return "; ".join(
            f"no {what} was answered for {outage.seconds:.0f} s ({outage.why})"
            for what, outage in outages.items()
            if outage is not None and outage.seconds > LOST_SECONDS
        )

    def credentials() -> str:
        # Watches that are open stay so for minutes after the token has expired.
        return "the API server refuses them (401)" if program.transport.unauthorized else ""

    def scheduling() -> str:
        return "" if scheduler.last_housekeeping is not None else "not begun"

    def shutdown() -> str:
        return "stopping" if program.stopping else ""

    return Health(
        livez=[("tasks", tasks), ("scheduling-loop", loop)],
        readyz=[
            ("informer-sync", synced),
            ("watches", watches),
            ("cache", cache),
            ("binding", binding),
            ("credentials", credentials),
            ("scheduling", scheduling),
            ("shutdown", shutdown),
        ],
    )


def plural(kind: str) -> str:
    """As people call the kind, and as the API's paths do."""
    return KINDS[kind].plural
