"""Caches and what a node shows, for the tests of the cache."""

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from schedcache.cache import NodeInfo, SchedulerCache, Snapshot, Stories
from schedcache.testing import VirtualClock, make_node


def make_cache(*nodes: str, ttl: float = 30.0, clock: VirtualClock | None = None) -> SchedulerCache:
    """A cache that checks itself after every call, with these nodes."""
    cache = SchedulerCache(ttl, clock or VirtualClock(), validate=True, stories=Stories())
    for name in nodes:
        cache.add_node(make_node(name))
    return cache


def updated(cache: SchedulerCache, snapshot: Snapshot | None = None) -> Snapshot:
    snapshot = snapshot or Snapshot()
    cache.update_snapshot(snapshot)
    return snapshot


def run_histories(machine: type[RuleBasedStateMachine], histories: int) -> None:
    """Random histories of 50 steps each, the same ones every time."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


def names(infos: list[NodeInfo]) -> list[str]:
    return [info.name for info in infos]


def uids(info: NodeInfo) -> list[str]:
    return sorted(info.pods_by_uid)
