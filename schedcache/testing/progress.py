"""How far something that takes minutes has come, for people who wait for it."""

import time
from typing import TextIO

LINE_INTERVAL_SECONDS = 15.0
TERMINAL_INTERVAL_SECONDS = 0.5


class ProgressReport:
    """One line kept up to date on a terminal; elsewhere a line now and then.

    Args:
        stream: where to write.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._started = self._shown = time.monotonic()
        self._open_line = False

    def start(self, text: str) -> None:
        """Begin a piece of work; times count from here."""
        self._started = self._shown = time.monotonic()
        self.line(text)

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self.finish()
        self._write(f"{text}\n")

    def show(self, text: str) -> None:
        """Show a state that the next one replaces; may be called as often as one likes."""
        now = time.monotonic()
        if now - self._shown < (TERMINAL_INTERVAL_SECONDS if self._terminal else LINE_INTERVAL_SECONDS):
            return
        self._shown = now
        state = f"{text} ({self.elapsed()})"
        self._write(f"\r\x1b[K{state}" if self._terminal else f"{state}\n")
        self._open_line = self._terminal

    def finish(self) -> None:
        """Take the replaceable line away."""
        if self._open_line:
            self._write("\r\x1b[K")
            self._open_line = False

    def elapsed(self) -> str:
        """Minutes and seconds since :meth:`start`."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}:{seconds:02d}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
