"""Durations as Go writes them (`1m30s`), in configurations, flags and messages."""

import re
from decimal import Decimal
from functools import total_ordering

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LARGEST = 2**63 - 1


@total_ordering
class Duration:
    """A span of time in whole nanoseconds, like Go's time.Duration; zero is false, and `str` writes it as Go does."""

    __slots__ = ("nanoseconds",)

    def __init__(self, nanoseconds: int = 0) -> None:
        self.nanoseconds = nanoseconds

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Raises ValueError for anything that Go's time.ParseDuration refuses."""
        sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        if body == "0":
            return cls()
        parts = list(_PART.finditer(body))
        if not parts or "".join(p[0] for p in parts) != body:
            raise ValueError(f"{text!r} is not a duration; expected numbers with units, such as 15s or 1m30s")
        total = sum(int(Decimal(p[1]) * _NANOSECONDS[p[2]]) for p in parts)
        if total > _LARGEST:
            raise ValueError(f"{text!r} is too long for a duration; the longest is {cls(_LARGEST)}")
        return cls(sign * total)

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 10**9

    def __str__(self) -> str:
        total = abs(self.nanoseconds)
        sign = "-" if self.nanoseconds < 0 else ""
        if total < 10**9:
            unit = next((u for u in ("ms", "µs") if total >= _NANOSECONDS[u]), "ns")
            return sign + (_number(total, _NANOSECONDS[unit]) + unit if total else "0s")
        minutes, rest = divmod(total, _NANOSECONDS["m"])
        hours, minutes = divmod(minutes, 60)
        larger = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
        return f"{sign}{larger}{_number(rest, 10**9)}s"

    def __repr__(self) -> str:
        return f"Duration.parse({str(self)!r})"

    def __bool__(self) -> bool:
        return bool(self.nanoseconds)

    def __eq__(self, other: object) -> bool:
        return self.nanoseconds == other.nanoseconds if isinstance(other, Duration) else NotImplemented

    def __lt__(self, other: "Duration") -> bool:
        return self.nanoseconds < other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)


def go_duration(value: float) -> str:
    """Seconds as Go prints them: `1m30s`, `1.5s`, `10ms`."""
    return str(Duration(round(value * 10**9)))


def _number(amount: int, unit: int) -> str:
    whole, part = divmod(amount, unit)
    return f"{whole}.{part:0{len(str(unit)) - 1}}".rstrip("0").rstrip(".")
