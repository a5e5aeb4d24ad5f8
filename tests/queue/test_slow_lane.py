"""Pods whose attempts take their time are tried one at a time, without holding up those behind them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedcache.model import Pod
from schedcache.queue import SchedulingQueue
from schedcache.queue.events import NODE_ADD
from schedcache.testing import VirtualClock
from tests.queue.support import FIT, make_node, make_pod, names, pop, reject


def is_slow(pod: Pod) -> bool:
    return "slow" in pod.labels


def slow(name: str, **fields: object) -> Pod:
    return make_pod(name, labels={"slow": ""}, **fields)


def with_lanes(**settings: object) -> SchedulingQueue:
    return SchedulingQueue(clock=VirtualClock(), slow=is_slow, **settings)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.sampled_from(["keep", "delete", "raise"]))))
def test_while_the_lane_is_open_the_order_is_that_of_a_queue_without(pods):
    plain, laned = SchedulingQueue(clock=VirtualClock()), with_lanes()
    for number, (priority, marked, fate) in enumerate(pods):
        pod = (slow if marked else make_pod)(f"p{number}", priority=priority)
        for queue in (plain, laned):
            queue.add(pod)
            if fate == "delete":
                queue.delete(pod)
            elif fate == "raise":
                queue.update(pod, make_pod(f"p{number}", priority=9, resource_version=2))
    assert names(laned.active_pods()) == names(plain.active_pods())
    assert laned.pending_counts() == plain.pending_counts()
    taken = [[info.pod.name for info in iter(queue.pop_nowait, None)] for queue in (plain, laned)]
    assert taken[0] == taken[1]


def test_while_it_is_shut_slow_pods_are_passed_by_and_stay_visible():
    queue = with_lanes()
    for pod in (slow("s1", priority=9), make_pod("a"), slow("s2"), make_pod("b")):
        queue.add(pod)
    queue.open_slow_lane(is_open=False)
    assert names([pop(queue), pop(queue)]) == ["a", "b"]
    assert queue.pop_nowait() is None
    assert names(queue.active_pods()) == ["s1", "s2"]
    assert queue.find("default", "s2")[0] == "active"
    queue.delete(slow("s1", priority=9))
    queue.open_slow_lane(is_open=True)
    assert pop(queue).pod.name == "s2"


def test_a_pod_that_becomes_slow_or_quick_changes_lanes():
    queue = with_lanes()
    queue.add(make_pod("p"))
    queue.update(make_pod("p"), slow("p", resource_version=2))
    queue.open_slow_lane(is_open=False)
    assert queue.pop_nowait() is None
    queue.update(slow("p", resource_version=2), make_pod("p", resource_version=3))
    assert len(queue.active_pods()) == 1
    assert pop(queue).pod.resource_version == "3"


def test_it_is_shut_to_pods_that_would_be_taken_out_of_their_backoff_too():
    queue = with_lanes(hints=[FIT])
    for pod in (slow("s"), make_pod("a")):
        queue.add(pod)
        reject(queue, pop(queue), "Fit")
    queue.move(NODE_ADD, None, make_node())
    assert names(queue.backoff_pods()) == ["s", "a"]
    queue.open_slow_lane(is_open=False)
    assert queue.pop_nowait() is None
    queue.open_slow_lane(is_open=True)
    assert names([pop(queue), pop(queue)]) == ["s", "a"]


async def test_opening_it_wakes_who_waits_for_a_pod():
    queue = with_lanes()
    queue.open_slow_lane(is_open=False)
    queue.add(slow("s"))
    waiting = asyncio.create_task(queue.pop())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.open_slow_lane(is_open=True)
    assert (await asyncio.wait_for(waiting, 1)).pod.name == "s"


def test_a_queue_without_slow_pods_has_no_lane():
    with pytest.raises(ValueError, match="no pods are slow"):
        SchedulingQueue(clock=VirtualClock()).open_slow_lane(is_open=True)
