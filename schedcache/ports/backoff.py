"""Exponential backoff: the only implementation, for all retries of requests. It does not sleep and reads no clock.

The queue's backoff of pods follows another rule (`schedcache.queue.backoff`): whole nanoseconds, by the number of failures and
without jitter, since kube-scheduler's order of pods depends on it.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """Growing pauses. Iteration starts at the first one and never ends.

    Attributes:
        first: seconds of the first pause, before jitter.
        limit: seconds of the longest one, after jitter.
        factor: ratio of each pause to the one before, before jitter.
        jitter: each pause is stretched by a random factor of 1 to 1 + `jitter`.
    """

    first: float
    limit: float
    factor: float = 2.0
    jitter: float = 0.0

    def __iter__(self) -> Iterator[float]:
        return self.pauses()

    def pauses(self, rng: random.Random | None = None) -> Iterator[float]:
        """The pauses, in seconds; `rng` is the source of their jitter."""
        uniform = (rng or random).uniform
        pause = self.first
        while True:
            yield min(self.limit, pause * uniform(1.0, 1.0 + self.jitter))
            pause = min(self.limit, pause * self.factor)
