"""Answers on standard output: one that could not be written must not pass for one by its exit status."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

IO_ERROR = 74
"""EX_IOERR of sysexits.h."""
_BROKEN_PIPE = 128 + signal.SIGPIPE


class UnwrittenError(Exception):
    """Standard output did not take the answer; `status` is what the process should end with."""

    def __init__(self, error: OSError) -> None:
        # Who closes a pipe has seen enough: as of a program that the signal ends, which is no trouble to anybody.
        self.status = _BROKEN_PIPE if isinstance(error, BrokenPipeError) else IO_ERROR
        super().__init__(f"the answer could not be written: {error.strerror or error}")


def tell(text: str) -> None:
    """A line on standard error; where it cannot be written, nobody is left to be told."""
    with suppress(OSError):
        print(text, file=sys.stderr)


@contextmanager
def writing() -> Iterator[None]:
    """Raises UnwrittenError for an OSError inside, after which standard output leads nowhere."""
    try:
        yield
    except OSError as error:
        # What is left in its buffer would be tried again, and fail again, when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise UnwrittenError(error) from error
