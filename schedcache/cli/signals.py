"""What SIGTERM and SIGINT do where nothing is under way that a clean end would be for."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def end_at_once(number: int, _frame: FrameType | None = None) -> None:
    """End the process as the signal does by default; as PID 1, which signals do not end by default, with status 128 + n.

    Without unwinding: code that is interrupted in the middle of an import may catch whatever is raised.
    """
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(128 + number)


@contextmanager
def obeyed() -> Iterator[None]:
    """Have the signals end the process at once, for as long as the block lasts and nobody else handles them."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can, and a host program with threads has its own way to stop.
        yield
        return
    # What a shell has a command ignore, as SIGINT in the background of a script, stays ignored.
    heeded = [number for number in STOP_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    former = {number: signal.signal(number, end_at_once) for number in heeded}
    try:
        yield
    finally:
        for number, handler in former.items():
            # None: a handler that was not made in Python, which cannot be put back from here.
            if handler is not None:
                signal.signal(number, handler)
