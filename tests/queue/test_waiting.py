"""Waiting for a pod, and knowing when to flush."""

import asyncio

import pytest

from schedcache.queue import SchedulingQueue
from schedcache.queue.events import NODE_ADD
from schedcache.testing import VirtualClock
from tests.queue.support import FIT, make_node, make_pod, names, pop, reject


async def _waiting_pops(queue, count):
    tasks = [asyncio.create_task(queue.pop()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


async def test_each_waiter_gets_one_pod_the_first_waiter_the_first_pod():
    queue = SchedulingQueue(clock=VirtualClock())
    tasks = await _waiting_pops(queue, 3)
    queue.add(make_pod("a"))
    queue.add(make_pod("b", priority=5))
    done = await asyncio.gather(*tasks[:2])
    assert [info.pod.name for info in done] == ["b", "a"]
    assert not tasks[2].done()
    queue.add(make_pod("c"))
    assert (await tasks[2]).pod.name == "c"


async def test_an_operation_is_complete_before_a_waiter_sees_it():
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT], max_backoff=0)
    for number in range(3):
        queue.add(make_pod(f"p{number}", priority=number))
    for info in [pop(queue) for _ in range(3)]:
        reject(queue, info, "Fit")
    (task,) = await _waiting_pops(queue, 1)
    queue.move(NODE_ADD, None, make_node())
    assert (await task).pod.name == "p2"


async def test_a_waiter_takes_from_the_backoff_queue_only_where_that_is_switched_on():
    for early in (True, False):
        clock = VirtualClock()
        queue = SchedulingQueue(clock=clock, pop_from_backoff=early, hints=[FIT])
        queue.add(make_pod("p"))
        info = pop(queue)
        (task,) = await _waiting_pops(queue, 1)
        queue.move(NODE_ADD, None, make_node())
        reject(queue, info, "Fit")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert task.done() is early
        if not early:
            clock.advance(1.001)
            queue.flush_backoff_completed()
        assert (await task).pod.name == "p"


async def test_a_cancelled_wait_loses_no_pod_and_no_turn():
    queue = SchedulingQueue(clock=VirtualClock())
    first, second = await _waiting_pops(queue, 2)
    queue.add(make_pod("p"))  # wakes the first, which is cancelled before it runs
    first.cancel()
    assert (await asyncio.wait_for(second, 5)).pod.name == "p"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_wait_cancelled_before_any_pod_leaves_nothing_behind():
    queue = SchedulingQueue(clock=VirtualClock())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.pop(), 0.01)
    assert not queue._waiters._futures
    queue.add(make_pod("p"))
    assert names(queue.active_pods()) == ["p"]
    assert (await queue.pop()).pod.name == "p"


async def test_an_error_in_backoff_is_not_popped_early_and_wakes_nobody_for_nothing():
    clock = VirtualClock()
    queue = SchedulingQueue(clock=clock)
    queue.add(make_pod("p"))
    info = pop(queue)
    (task,) = await _waiting_pops(queue, 1)
    reject(queue, info)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    clock.now = queue.next_flush_at()
    queue.flush_backoff_completed()
    assert (await task).attempts == 2


@pytest.mark.parametrize("early", [True, False])
def test_next_flush_is_the_first_instant_at_which_a_flush_moves_something(early):
    clock = VirtualClock(1000.25)
    queue = SchedulingQueue(clock=clock, pop_from_backoff=early, hints=[FIT], max_in_unschedulable=60)
    assert queue.next_flush_at() is None
    for name in ("error", "rejected", "stuck"):
        queue.add(make_pod(name))
    error, rejected, stuck = (pop(queue) for _ in range(3))
    reject(queue, stuck, "Fit")
    assert queue.next_flush_at() == pytest.approx(1060.25, abs=1e-6)
    reject(queue, error)
    queue.move(NODE_ADD, None, make_node())
    reject(queue, rejected, "Fit")

    moved = []
    while (instant := queue.next_flush_at()) is not None:
        clock.now = instant - 1e-6
        before = queue.pending_counts()
        queue.flush_backoff_completed()
        queue.flush_unschedulable_leftover()
        assert queue.pending_counts() == before
        clock.now = instant
        queue.flush_backoff_completed()
        queue.flush_unschedulable_leftover()
        assert queue.pending_counts() != before
        moved.append((round(instant, 3), queue.pending_counts()["active"]))
    # The event of NODE_ADD woke `stuck` as well. With windows the backoff that ends at 1001.25 counts until 1002.
    assert moved == ([(1002.0, 3)] if early else [(1001.25, 3)])


def test_a_pod_is_flushed_from_the_pool_after_the_limit_and_again_after_the_next():
    clock = VirtualClock()
    queue = SchedulingQueue(
        clock=clock, pre_enqueue=[("Gate", lambda pod: bool(pod.scheduling_gates))], max_in_unschedulable=300
    )
    queue.add(make_pod("gated", schedulingGates=[{"name": "wait"}]))
    for attempt in range(1, 4):
        assert queue.next_flush_at() == pytest.approx(1000 + attempt * 300, abs=1e-6)
        clock.now = queue.next_flush_at()
        queue.flush_unschedulable_leftover()
        assert queue.pending_counts()["gated"] == 1
