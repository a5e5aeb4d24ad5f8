"""What a process holds, second by second, and whether that stays the same."""

import asyncio
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.e2e.scheduler_process import SchedulerProcess

FEW = 3


class Bound(NamedTuple):
    """The most by which a gauge may grow from the second third to the last: a share of the second, and an amount."""

    share: float
    amount: float


BOUNDS: Mapping[str, Bound] = {
    "rss MiB": Bound(0.02, 3.0),
    # Without files: how much of these counts for one process depends on which others have them open.
    "anonymous MiB": Bound(0.02, 3.0),
    "tasks": Bound(0.05, 10.0),
    "file descriptors": Bound(0.05, 5.0),
    # As many requests are under way at a time as there happen to be, each on a connection that is kept for a minute.
    "connections": Bound(0.0, 128.0),
    "threads": Bound(0.0, 2.0),
    # The first time that something happens, it has a histogram's worth of them; for each pod, it would be thousands.
    "metric series": Bound(0.0, 150.0),
    "pods queued": Bound(0.1, 20.0),
    "pods cached": Bound(0.1, 50.0),
    "nodes cached": Bound(0.0, 2.0),
}
"""What is sampled, and how flat each has to be."""


class Sample(NamedTuple):
    """Seconds since the start of the run, whether no fault is near, and the gauges by name."""

    at: float
    quiet: bool
    gauges: Mapping[str, float]


@dataclass(frozen=True)
class Trend:
    """How a gauge went from the second third of a run to the last, in quiet times.

    Attributes:
        second, last: medians.
        most: the largest value of the whole run, faults included.
        drift: the growth from the middle of one third to that of the other by the median of slopes (Theil and Sen), which a
            step up and a step down again cannot hide.
        bound: the most by which it may grow.
    """

    second: float
    last: float
    most: float
    drift: float
    bound: float

    @property
    def flat(self) -> bool:
        """Neither measure of growth is above the bound."""
        return max(self.last - self.second, self.drift) <= self.bound


def trend(samples: Sequence[Sample], name: str, seconds: float, bound: Bound) -> Trend:
    """Of one gauge. ValueError: a third has no sample at all."""
    third = seconds / 3
    second = _points([one for one in samples if third <= one.at < 2 * third], name)
    last = _points([one for one in samples if one.at >= 2 * third], name)
    middle = statistics.median(value for _, value in second)
    return Trend(
        middle,
        statistics.median(value for _, value in last),
        max(sample.gauges[name] for sample in samples),
        theil_sen([*second, *last]) * third,
        bound.share * middle + bound.amount,
    )


def _points(samples: Sequence[Sample], name: str) -> list[tuple[float, float]]:
    """Time and value of the quiet samples; of all if there are few quiet ones, as on a machine that is too slow for the load."""
    quiet = [one for one in samples if one.quiet]
    found = quiet if len(quiet) >= FEW else samples
    if not found:
        raise ValueError(f"{name}: a third of the run has no sample")
    return [(one.at, one.gauges[name]) for one in found]


def theil_sen(points: Sequence[tuple[float, float]], most: int = 300) -> float:
    """The median of the slopes between all pairs of points, of at most so many points."""
    points = points[:: -(-len(points) // most) or 1]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(points)
        for later in points[number + 1 :]
        if later[0] > earlier[0]
    ]
    return statistics.median(slopes) if slopes else 0.0


async def sample_for_ever(
    scheduler: SchedulerProcess, port: int, quiet: Callable[[], bool], samples: list[Sample], interval: float = 1.0
) -> None:
    """Append a sample every second until cancelled; `port` is that of its API server."""
    clock = asyncio.get_running_loop().time
    started = clock()
    while True:
        was_quiet = quiet()
        gauges = process_gauges(scheduler.process.pid, port) | metric_gauges((await scheduler.get("/metrics"))[1])
        samples.append(Sample(clock() - started, was_quiet and quiet(), gauges))
        await asyncio.sleep(interval - (clock() - started) % interval)


def process_gauges(pid: int, port: int) -> dict[str, float]:
    """Of a process, as Linux's /proc has them; connections to the port are told apart from other file descriptors."""
    connections = connections_to(port, Path(f"/proc/{pid}/net/tcp").read_text())
    proc = Path(f"/proc/{pid}")
    memory = _fields(proc / "smaps_rollup")
    return {
        "rss MiB": memory["Rss"] / 1024,
        "anonymous MiB": memory["Anonymous"] / 1024,
        "file descriptors": len(list((proc / "fd").iterdir())) - connections,
        "connections": connections,
        "threads": _fields(proc / "status")["Threads"],
    }


def connections_to(port: int, table: str) -> int:
    """How many established TCP connections to that port on loopback are in a table of Linux's /proc/net/tcp."""
    remote = f"0100007F:{port:04X}"
    return sum(fields[2:4] == [remote, "01"] for fields in map(str.split, table.splitlines()))


def metric_gauges(text: str) -> dict[str, float]:
    """What `/metrics` says."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]

    def total(prefix: str) -> float:
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))

    return {
        "metric series": len(lines),
        # As many pods are being bound at a time as there happen to be.
        "tasks": total("scheduler_event_loop_tasks ") - total('scheduler_goroutines{operation="binding"}'),
        "pods queued": total("scheduler_pending_pods{"),
        "pods cached": total('scheduler_cache_size{type="pods"}'),
        "nodes cached": total('scheduler_cache_size{type="nodes"}'),
    }


def _fields(path: Path) -> dict[str, int]:
    found = {}
    for line in path.read_text().splitlines():
        name, _, value = line.partition(":")
        number = value.split()
        if number and number[0].isdigit():
            found[name] = int(number[0])
    return found
