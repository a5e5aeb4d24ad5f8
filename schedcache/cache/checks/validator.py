"""When the checks run, and what happens if they find a difference."""

from collections import Counter
from collections.abc import Callable

from schedcache.cache.errors import CacheCorruptedError

_SECONDS_PER_CALL = 0.005
_MOST_CALLS = 1_000

Check = Callable[[], None]
"""Raises CacheCorruptedError if it finds a difference."""


def run(check: Check) -> None:
    """Run a check; if it fails in any way, the data is damaged. Raises CacheCorruptedError."""
    try:
        check()
    except CacheCorruptedError:
        raise
    except Exception as error:  # damage may make a check fail in any way
        raise CacheCorruptedError(f"the check failed: {type(error).__name__}: {error}") from error


class Validator:
    """Runs checks after each call, as thoroughly as time allows.

    If a full check takes up to 5 ms, it runs after each call. If it takes longer, so many calls of that kind go by before the next
    one that it comes to 5 ms per call (1,000 at the most), and after those only what they changed is checked. `clock` gives
    seconds, monotonic; if it stands still during a check, everything is checked each time.

    `report` None: a difference is raised from the call, which has done its work by then. Otherwise it is reported once, and
    nothing more is checked until `start_over`, since a rebuild is to follow.
    """

    def __init__(self, clock: Callable[[], float], report: Callable[[CacheCorruptedError], None] | None = None) -> None:
        self._clock = clock
        self._report = report
        self._reported = False
        self._calls_left: Counter[str] = Counter()

    def after(self, call: str, everything: Check, changed: Check | None = None) -> None:
        """A call of this kind was made; `changed` checks only what it changed. Raises CacheCorruptedError."""
        if self._reported:
            return
        try:
            if not self._calls_left[call]:
                started = self._clock()
                run(everything)
                calls = int((self._clock() - started) / _SECONDS_PER_CALL)
                self._calls_left[call] = max(0, min(calls, _MOST_CALLS))
            else:
                self._calls_left[call] -= 1
                if changed is not None:
                    run(changed)
        except CacheCorruptedError as error:
            if self._report is None:
                raise
            self._reported = True
            self._report(error)

    def start_over(self) -> None:
        """Everything is being rebuilt: check again from now on."""
        self._reported = False
        self._calls_left.clear()
