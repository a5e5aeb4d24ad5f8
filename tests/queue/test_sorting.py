"""A QueueSort plugin that fails: every pod is tried all the same, in an order that is written down, and it is told once."""

import numpy as np
import pytest
from structlog.testing import capture_logs

from schedcache.queue import SchedulingQueue
from schedcache.queue.events import NODE_ADD
from schedcache.testing import VirtualClock
from tests.queue.support import FIT, make_node, make_pod, names, pop, reject


def queue_sorted_by(sort_key):
    return SchedulingQueue(clock=VirtualClock(), queue_sort=sort_key, queue_sort_plugin="Odd", hints=[FIT])


def by_label(info):
    return int(info.pod.labels["rank"])


def always(_info):
    raise RuntimeError("out of order")


def incomparable(info):
    rank = info.pod.labels.get("rank", "0")
    return int(rank) if int(rank) % 2 else rank


def undecided(info):
    return np.array([int(info.pod.labels.get("rank", "0"))] * 2)


def told_of(logs):
    return [(line["plugin"], line["where"]) for line in logs if line["event"] == "plugin failed in the queue"]


@pytest.mark.parametrize("sort_key", [always, incomparable, undecided, lambda _info: None, lambda _info: object()])
def test_whatever_it_does_each_pod_is_popped_once_in_each_round(sort_key):
    queue = queue_sorted_by(sort_key)
    expected = sorted(f"p{i}" for i in range(40))
    for i in range(40):
        queue.add(make_pod(f"p{i}", labels={"rank": str(i * 7 % 13)}))
    queue.update(make_pod("p3"), make_pod("p3", resource_version=2, labels={"rank": "4"}))
    assert sorted(names(queue.active_pods())) == expected
    infos = [pop(queue) for _ in range(40)]
    assert sorted(names(infos)) == expected
    for info in infos:
        reject(queue, info, "Fit")
    queue.move(NODE_ADD, None, make_node())
    assert queue.pending_counts()["backoff"] == 40
    assert sorted(names(queue.backoff_pods())) == expected
    assert sorted(names([pop(queue) for _ in range(40)])) == expected
    assert queue.pop_nowait() is None


def test_one_that_always_fails_leaves_priority_and_waiting_time_and_is_told_once():
    with capture_logs() as logs:
        queue = queue_sorted_by(always)
        for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 9)):
            queue.add(make_pod(name, priority=priority))
        assert names([pop(queue) for _ in range(4)]) == ["d", "b", "a", "c"]
    assert told_of(logs) == [("Odd", "QueueSort")]


def test_a_pod_that_it_fails_for_comes_after_all_others():
    with capture_logs() as logs:
        queue = queue_sorted_by(by_label)
        queue.add(make_pod("low"))
        queue.add(make_pod("high", priority=9))
        for rank in (3, 1, 2):
            queue.add(make_pod(f"r{rank}", labels={"rank": str(rank)}))
        assert names(queue.active_pods()) == ["r1", "r2", "r3", "high", "low"]
        assert names([pop(queue) for _ in range(5)]) == ["r1", "r2", "r3", "high", "low"]
    assert told_of(logs) == [("Odd", "QueueSort")]


def test_keys_that_do_not_compare_leave_it_to_the_priority():
    with capture_logs() as logs:
        queue = queue_sorted_by(incomparable)
        queue.add(make_pod("text", labels={"rank": "2"}))
        queue.add(make_pod("number", priority=1, labels={"rank": "3"}))
        assert names([pop(queue) for _ in range(2)]) == ["number", "text"]
    assert told_of(logs) == [("Odd", "QueueSort")]


def test_equal_keys_are_served_in_the_order_they_came():
    queue = queue_sorted_by(lambda _info: (1, "same"))
    for i in range(20):
        queue.add(make_pod(f"p{i:02}"))
    assert names([pop(queue) for _ in range(20)]) == [f"p{i:02}" for i in range(20)]
