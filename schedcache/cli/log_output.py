"""Where log lines go: a queue of limited size, and a thread that writes.

Whoever logs never waits for a reader and never meets an error. A pipe that nobody reads, a full disk and a closed descriptor are
tried again every second; lines for which the queue has no room meanwhile are dropped and counted, and once writing
works again one line says how many were.
"""

import io
import os
import select
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

MOST_BYTES = 2**20
"""Of lines that wait: some 5,000."""
RETRY_SECONDS = 1.0
_LARGEST_WRITE = 2**16
_ENCODING = "utf-8"


class LogOutput:
    """A file descriptor that is written to by a thread of its own, in the order of the calls.

    Attributes:
        dropped: lines that were dropped so far.
        describe_dropped: the line that tells of a number of them.
        housekeeping: called between writes; answers in how many seconds it wants to be called again, None for no need.
    """

    def __init__(self, descriptor: int, most_bytes: int = MOST_BYTES) -> None:
        """Nothing starts before the first write. The descriptor's flags are not changed: others may share it."""
        self.dropped = 0
        self.describe_dropped: Callable[[int], str] = "{} lines of the log were dropped\n".format
        self.housekeeping: Callable[[], float | None] = lambda: None
        self._descriptor = descriptor
        self._most_bytes = most_bytes
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        self._untold = 0
        self._idle = True
        self._failing = False
        # Reentrant: a signal handler may log in the middle of a write.
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None

    def write(self, text: str) -> None:
        """Have it written, unless too much waits already."""
        line = text.encode(_ENCODING, "backslashreplace")
        with self._changed:
            if self._bytes + len(line) > self._most_bytes:
                number = text.count("\n")
                self.dropped += number
                self._untold += number
                return
            self._tell_dropped()
            self._lines.append(line)
            self._bytes += len(line)
            if self._idle:
                self._idle = False
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                    self._thread.start()
                self._changed.notify_all()

    def flush(self, seconds: float = 1.0) -> bool:
        """Wait until everything is written; False if it is not, since nothing can be written now or the time is up."""
        with self._changed:
            return self._changed.wait_for(lambda: self._idle or self._failing, seconds) and self._idle

    def _run(self) -> None:
        while True:
            wanted = self._keep_house()
            with self._changed:
                # What was dropped had come after all that waited.
                self._tell_dropped()
                if not self._lines:
                    self._idle = True
                    self._changed.notify_all()
                    self._changed.wait(wanted)
                    continue
                batch = b"".join(self._lines)
                self._lines.clear()
            self._write_out(batch)

    def _tell_dropped(self) -> None:
        if self._untold:
            told = self.describe_dropped(self._untold).encode(_ENCODING, "backslashreplace")
            self._lines.append(told)
            self._bytes += len(told)
            self._untold = 0

    def _keep_house(self) -> float | None:
        try:
            return self.housekeeping()
        except Exception:  # noqa: BLE001  whatever it was: without this thread nobody would ever hear of anything again
            self.write(traceback.format_exc())
            return RETRY_SECONDS

    def _write_out(self, batch: bytes) -> None:
        """However long it takes. What is being written counts as waiting."""
        rest = memoryview(batch)
        while rest:
            try:
                written = os.write(self._descriptor, rest[:_LARGEST_WRITE])
            except BlockingIOError:
                # Somebody who shares it does not want to wait.
                select.select([], [self._descriptor], [], RETRY_SECONDS)
                continue
            except OSError:
                self._note(failing=True)
                time.sleep(RETRY_SECONDS)
                continue
            rest = rest[written:]
            with self._changed:
                self._bytes -= written
        self._note(failing=False)

    def _note(self, *, failing: bool) -> None:
        with self._changed:
            if self._failing is not failing:
                self._failing = failing
                self._changed.notify_all()


class LogStream(io.TextIOBase):
    """A LogOutput in the place of `sys.stderr` and `sys.stdout`: for tracebacks, and whatever else is printed."""

    encoding = _ENCODING

    def __init__(self, output: LogOutput, descriptor: int) -> None:
        self._output = output
        self._descriptor = descriptor

    def write(self, text: str) -> int:
        self._output.write(text)
        return len(text)

    def flush(self) -> None:
        """Nobody waits for the writing."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor
