"""Times as the API writes them, in UTC."""

from datetime import UTC, datetime


def to_time(seconds: float) -> str:
    """Seconds since the epoch as a metav1.Time, which has whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_micro_time(seconds: float) -> str:
    """Seconds since the epoch as a metav1.MicroTime: always with six digits, as client-go writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
