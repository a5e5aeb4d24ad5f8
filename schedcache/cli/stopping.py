"""How a command that runs for long is asked to stop."""

import asyncio
import signal

import structlog

from schedcache.cli.signals import STOP_SIGNALS, end_at_once

_log = structlog.get_logger(__name__)


def stop_signals() -> asyncio.Event:
    """Set at the first SIGTERM or SIGINT. A second one ends the process at once, whatever it waits for."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
            # Not by way of the loop, which may be what hangs.
            signal.signal(number, end_at_once)
        _log.info("asked to stop; a second signal ends the process at once")
        stop.set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, asked)
    return stop
