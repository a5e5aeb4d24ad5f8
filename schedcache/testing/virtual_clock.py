"""Time that passes only when a test says so."""


class VirtualClock:
    """A clock as the core takes it: a callable that gives seconds."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises ValueError for a negative amount: the clock is monotonic."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} seconds")
        self.now += seconds
