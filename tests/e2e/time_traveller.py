"""`schedcache run` on a wall clock that jumps at each SIGUSR1: an hour ahead, then a day back, and so on."""

import itertools
import signal
import sys
import time

_JUMPS = itertools.cycle((3600.0, -86400.0))
_real = time.time
_offset = 0.0


def _jump(_number: int, _frame: object) -> None:
    global _offset  # noqa: PLW0603  a clock is one for the whole process
    _offset += next(_JUMPS)


if __name__ == "__main__":
    time.time = lambda: _real() + _offset  # type: ignore[assignment]  # a wall clock, all the same
    signal.signal(signal.SIGUSR1, _jump)
    # Only now: what is imported takes the clock as a default.
    from schedcache.cli import main

    sys.exit(main())
