"""Times inside the queue: integer nanoseconds on the caller's monotonic clock, so that sums and comparisons are exact."""

SECOND = 1_000_000_000


def to_ns(seconds: float) -> int:
    """Nanoseconds from seconds."""
    return round(seconds * SECOND)


def to_seconds(ns: int) -> float:
    """Seconds from nanoseconds."""
    return ns / SECOND
