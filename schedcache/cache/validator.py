"""When what is kept up to date step by step is recomputed, and what becomes of a difference."""

from collections import Counter
from collections.abc import Callable

from schedcache.cache.errors import CacheCorruptedError

_CHECKED_PER_CALL = 5_000

Check = Callable[[], None]
"""Raises CacheCorruptedError where it finds a difference."""


class Validator:
    """Has checks made after each call, as thoroughly as the amount of what is kept allows.

    Up to 5,000 objects everything is checked each time. Beyond that every n-th call of a kind checks everything and those
    between only what they changed, so that a call costs tens of milliseconds on average, however large the cluster.

    `report` None: a difference is raised from the call, which has done its work by then. Otherwise it is reported once, and
    nothing more is checked until `start_over`: who was told will rebuild.
    """

    def __init__(self, report: Callable[[CacheCorruptedError], None] | None = None) -> None:
        self._report = report
        self._reported = False
        self._unchecked: Counter[str] = Counter()

    def after(self, call: str, objects: int, everything: Check, changed: Check | None = None) -> None:
        """A call of this kind was made where so many objects are kept. Raises CacheCorruptedError.

        `changed` checks what the call changed alone.
        """
        if self._reported:
            return
        self._unchecked[call] += 1
        check = changed
        if self._unchecked[call] * _CHECKED_PER_CALL >= objects:
            self._unchecked[call] = 0
            check = everything
        if check is None:
            return
        try:
            check()
        except CacheCorruptedError as error:
            if self._report is None:
                raise
            self._reported = True
            self._report(error)

    def start_over(self) -> None:
        """All is being rebuilt."""
        self._reported = False
