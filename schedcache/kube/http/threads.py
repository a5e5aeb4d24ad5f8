"""Blocking calls outside an event loop that may end before they do."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """A thread for each call, which nobody waits for at the end; for `loop.set_default_executor`.

    An event loop waits for its executor before it closes, and the interpreter for every pool before it ends. A credential
    plugin or a name server that does not answer could keep a process from stopping for minutes.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run the call in a thread of its own."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  whoever waits for the call is told
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=call, name=f"call of {getattr(fn, '__name__', fn)}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing to wait for."""
