"""The world of memory with plugins enough to fill nodes, and pods that are called by their UIDs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from schedcache import testing
from schedcache.framework import Code, EventHint, Framework, Handle, Status, unschedulable
from schedcache.model import Node, Pod
from schedcache.ports import NoMetrics
from schedcache.testing import make_node

make_pod = partial(testing.make_pod, cpu="100m")


class Fit:
    """CPU alone, row by row."""

    name = "Fit"
    per_node = True

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter(self, state: Any, pod: Pod, node_info: Any) -> Status | None:
        free = node_info.allocatable.milli_cpu - node_info.requested.milli_cpu
        return None if pod.requests.resource.milli_cpu <= free else unschedulable("Insufficient cpu")

    def events_to_register(self) -> list[Any]:
        return [
            EventHint("AssignedPod", ("Delete", "UpdatePodScaleDown")),
            EventHint("TargetPod", ("UpdatePodScaleDown",)),
            EventHint("Node", ("Add", "UpdateNodeAllocatable")),
        ]


class Sort:
    name = "Sort"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def sort_key(self, info: Any) -> Any:
        return (-info.pod.priority, info.timestamp_ns)


class Gates:
    name = "Gates"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return unschedulable("gated") if pod.scheduling_gates else None

    def events_to_register(self) -> list[Any]:
        return [EventHint("TargetPod", ("UpdatePodSchedulingGatesEliminated",))]


class Bind:
    name = "Bind"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._binder = handle.binder

    async def bind(self, state: Any, pod: Pod, node_name: str) -> Status | None:
        await self._binder.bind(pod, node_name)
        return None


class Patience:
    """A Permit plugin that lets pods of odd priority wait; whom it rejected may come again when a node grows."""

    name = "Patience"

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def permit(self, state: Any, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (Status(Code.WAIT), 10.0) if pod.priority % 2 else (None, 0.0)

    def events_to_register(self) -> list[Any]:
        return [EventHint("Node", ("Add", "UpdateNodeAllocatable"))]


def during_attempts(monkeypatch: pytest.MonkeyPatch, act: Callable[[Pod], object]) -> None:
    """Let something happen in every attempt, before the pod is filtered and scored."""
    schedule = Framework.schedule

    def meanwhile(self: Framework, pod: Pod, *rest: Any) -> Any:
        act(pod)
        return schedule(self, pod, *rest)

    monkeypatch.setattr(Framework, "schedule", meanwhile)


def raises(error: Exception) -> Callable[[Pod, str], None]:
    def act(pod: Pod, node: str) -> None:
        raise error

    return act


class Metrics(NoMetrics):
    """Remembers what the tests ask for."""

    def __init__(self) -> None:
        self.doubts: list[str] = []
        self.errors: list[str] = []
        self.attempts: list[str] = []
        self.preemptions: list[str] = []
        self.evaluations: list[tuple[str, float]] = []
        self.calls: list[tuple[str, str, str]] = []

    def extender_call(self, extender: str, verb: str, result: str, seconds: float) -> None:
        self.calls.append((extender, verb, str(result)))

    def bind_doubt(self, outcome: str) -> None:
        self.doubts.append(str(outcome))

    def cache_error(self, kind: str) -> None:
        self.errors.append(kind)

    def schedule_attempt(self, profile: str, result: str, seconds: float) -> None:
        self.attempts.append(result)

    def preemption_evaluated(self, result: str, seconds: float) -> None:
        self.evaluations.append((result, seconds))

    def preemption_done(self, result: str, seconds: float) -> None:
        self.preemptions.append(result)


class Api(testing.MemoryApi):
    """Pods of 100m unless more is said, named like their UIDs."""

    def create(self, uid: str, name: str = "", **fields: Any) -> Pod:
        return self.add(make_pod(name or uid, uid=uid, **fields))


class World(testing.World):
    """The scheduler under test; `extra` plugins come between the filter and the binder."""

    def __init__(self, *, extra: dict[str, Any] | None = None, api: Api | None = None, **more: Any) -> None:
        self.metrics = more.setdefault("metrics", Metrics())
        self.api: Api
        plugins = [Gates, Sort, Fit, *(extra or {}).values(), Bind]
        super().__init__(plugins=plugins, defaults=False, api=api or Api(), **more)

    def add_node(self, name: str, cpu: str = "4") -> Node:
        node = make_node(name, cpu=cpu, resource_version=self.api.version())
        self.add(node)
        return node

    def requested(self, name: str) -> int:
        info = self.cache.dump().nodes.get(name)
        return 0 if info is None else info.requested.milli_cpu
