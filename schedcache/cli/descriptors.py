"""File descriptors: how many there may be, and the three that every process should have."""

import os
import resource
import sys


def raise_limit() -> None:
    """Allow as many open files as the system does: the soft limit is often 1,024, for the sake of programs that use select(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            # macOS calls its limit infinite, and refuses that number.
            return


def occupy_standard_descriptors() -> None:
    """Open those of 0, 1 and 2 that are closed, or the next socket would get the number, and whatever is printed.

    What is written to them is lost: who closes standard output wants the exit status alone.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    # Python has no object for what was closed when it started, and print() with None for a file prints to standard output.
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  for as long as the process lasts
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  as above
