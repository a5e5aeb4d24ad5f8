"""What a test of the live queue asks of a scheduler in its own process."""

from typing import Any

from schedcache.app.program import Program
from schedcache.queue import QueuedPodInfo
from schedcache.testing import JSONObject, wait_until


def sample(program: Program, name: str, **labels: str) -> float:
    """A metric's value, 0 where it has none yet."""
    return program.registry.get_sample_value(name, labels) or 0.0


def attempts(program: Program) -> int:
    """Searches for a node so far, whatever came of them."""
    return int(sample(program, "scheduler_scheduling_algorithm_duration_seconds_count"))


def queued(program: Program, name: str) -> tuple[str, QueuedPodInfo] | None:
    """Where the pod waits, and its entry."""
    return program.scheduler.state.queue.find("default", name)


async def until_in(program: Program, queue: str, name: str, timeout: float = 20.0) -> QueuedPodInfo:
    """Wait until the pod is in that queue; its entry."""
    found: tuple[str, QueuedPodInfo] | None = None

    async def there() -> bool:
        nonlocal found
        found = queued(program, name)
        return found is not None and found[0] == queue

    await wait_until(there, timeout, interval=0.01)
    assert found is not None
    return found[1]


async def seen(program: Program, kind: str, obj: JSONObject) -> None:
    """Wait until the scheduler has taken in this version of the object, and with it all that came before it."""
    version = int(obj["metadata"]["resourceVersion"])

    async def reached() -> bool:
        return int(program.source.resource_versions()[kind] or 0) >= version

    await wait_until(reached, interval=0.01)


async def condition(cluster: Any, name: str) -> JSONObject:
    """The pod's PodScheduled condition, {} without one."""
    pod = await cluster.get(f"/api/v1/namespaces/default/pods/{name}")
    found = (c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled")
    return next(found, {})
