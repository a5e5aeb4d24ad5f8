"""A scheduler run by a command: until a signal ends it."""

import asyncio

import structlog
from prometheus_client import disable_created_metrics

from schedcache import __version__
from schedcache.app.errors import UsageError
from schedcache.app.program import assembled
from schedcache.app.running import run_until, served
from schedcache.app.settings import Settings
from schedcache.cli.descriptors import raise_limit
from schedcache.cli.log_metrics import LogCollector
from schedcache.cli.log_output import LogOutput
from schedcache.cli.stopping import stop_signals
from schedcache.framework import PluginSetError, RegistryError
from schedcache.kube.extender.client import ExtenderSetupError
from schedcache.kube.http.credentials import CredentialError
from schedcache.kube.http.threads import DaemonThreads

_log = structlog.get_logger(__name__)


def run(settings: Settings, log: LogOutput | None = None) -> int:
    """Run a scheduler until it is told to stop; the exit status. `log`: told of in metrics. Raises UsageError."""
    raise_limit()
    # A second series for each counter and histogram, that nobody reads.
    disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client leaves it untyped
    try:
        return asyncio.run(_run(settings, log))
    except (CredentialError, ExtenderSetupError, PluginSetError, RegistryError) as error:
        raise UsageError(str(error)) from error


async def _run(settings: Settings, log: LogOutput | None) -> int:
    asyncio.get_running_loop().set_default_executor(DaemonThreads())
    try:
        async with assembled(settings) as program:
            if log is not None:
                program.registry.register(LogCollector(log))
            # Until here a signal ends the process at once: credentials may come from a plugin that takes its time.
            stop = stop_signals()
            async with served(program):
                _log.info("starting", version=__version__, observe=settings.observe, event_source=settings.event_source)
                return await run_until(program, stop)
    except ExceptionGroup as errors:
        usage, others = errors.split(UsageError)
        if usage is not None and others is None:
            raise usage.exceptions[0] from None
        raise
