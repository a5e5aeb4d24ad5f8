"""Go's duration texts (`1m30s`), as the configuration file has them."""

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")


def seconds(text: str) -> float:
    """Seconds. Raises ValueError for anything that Go's time.ParseDuration refuses."""
    sign, body = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    if body == "0":
        return 0.0
    parts = list(_PART.finditer(body))
    if not parts or "".join(p[0] for p in parts) != body:
        raise ValueError(f"{text!r} is not a duration; expected numbers with units, such as 15s or 1m30s")
    return sign * sum(float(p[1]) * _UNITS[p[2]] for p in parts)


def go_duration(value: float) -> str:
    """Seconds as Go prints them: `1m30s`, `1.5s`, `10ms`."""
    if value == 0:
        return "0s"
    if abs(value) < 1:
        unit, size = next((u, s) for u, s in (("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)) if abs(value) >= s or u == "ns")
        return f"{round(value / size, 6):g}{unit}"
    sign, rest = ("-", -value) if value < 0 else ("", value)
    minutes, left = divmod(rest, 60)
    hours, minutes = divmod(int(minutes), 60)
    text = f"{round(left, 9):.9f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text
