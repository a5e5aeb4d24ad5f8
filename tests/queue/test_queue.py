"""Order, bounds and introspection."""

import msgspec
import pytest

from schedcache.queue import SchedulingQueue
from schedcache.queue.backoff import Backoff
from schedcache.queue.events import NODE_ADD
from schedcache.queue.heap import KeyedHeap
from schedcache.testing import VirtualClock
from tests.queue.support import FIT, make_node, make_pod, names, pop, reject


def test_pods_of_one_instant_are_served_in_the_order_they_came():
    queue = SchedulingQueue(clock=VirtualClock())
    for number in range(50):
        queue.add(make_pod(f"p{number:02}"))
    assert names([pop(queue) for _ in range(50)]) == [f"p{number:02}" for number in range(50)]


def test_another_queue_sort():
    queue = SchedulingQueue(clock=VirtualClock(), queue_sort=lambda info: info.pod.labels.get("team", ""), hints=[FIT])
    for name, team in (("a", "z"), ("b", "m"), ("c", "a"), ("d", "a")):
        queue.add(make_pod(name, labels={"team": team}))
    assert names(queue.active_pods()) == ["c", "d", "b", "a"]
    infos = [pop(queue) for _ in range(4)]
    queue.move(NODE_ADD, None, make_node())
    for info in infos:
        reject(queue, info, "Fit")
    assert names([pop(queue) for _ in range(4)]) == ["c", "d", "b", "a"]


def test_an_update_in_the_active_queue_renews_the_order():
    queue = SchedulingQueue(clock=VirtualClock())
    queue.add(make_pod("a"))
    queue.add(make_pod("b"))
    queue.update(make_pod("b"), make_pod("b", priority=1, resource_version=2))
    assert names(queue.active_pods()) == ["b", "a"]
    assert pop(queue).pod.resource_version == "2"


def test_a_new_uid_under_a_name_in_backoff_starts_afresh():
    queue = SchedulingQueue(clock=VirtualClock())
    queue.add(make_pod("p", uid="u1"))
    reject(queue, pop(queue))
    queue.add(make_pod("p", uid="u2"))
    assert queue.pending_counts() == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert pop(queue).pod.uid == "u2"


def test_deleting_a_predecessor_leaves_the_successor_alone():
    queue = SchedulingQueue(clock=VirtualClock())
    queue.add(make_pod("p", uid="u2"))
    queue.delete(make_pod("p", uid="u1"))
    assert names(queue.active_pods()) == ["p"]


@pytest.mark.parametrize("name", ["initial_backoff", "max_backoff", "max_in_unschedulable"])
def test_negative_times_are_refused(name):
    with pytest.raises(ValueError, match=f"{name}: expected seconds, 0 or more, got -1"):
        SchedulingQueue(**{name: -1})


def test_backoff_doubles_to_its_maximum_however_often_a_pod_fails():
    backoff = Backoff(1_000, 10_000, windows=False)
    assert [backoff.duration(n) for n in (1, 2, 3, 4, 5, 6, 10**9)] == [
        1_000,
        2_000,
        4_000,
        8_000,
        10_000,
        10_000,
        10_000,
    ]
    assert Backoff(20_000, 10_000, windows=False).duration(1) == 10_000


def test_removed_and_resorted_entries_do_not_pile_up():
    heap = KeyedHeap()
    clock = VirtualClock()
    queue = SchedulingQueue(clock=clock)
    for number in range(10):
        queue.add(make_pod(f"p{number}"))
    for info in queue.active_pods():
        for key in range(10_000):
            heap.put(info, -key)
    assert len(heap) == 10
    assert len(heap._heap) < 100
    assert heap.pop().pod.name == "p0"


def test_a_long_attempt_keeps_only_what_it_needs():
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT])
    queue.add(make_pod("old"))
    old = pop(queue)
    for number in range(2000):
        queue.add(make_pod(f"p{number}"))
        queue.move(NODE_ADD, None, make_node())
        queue.done(pop(queue).popped_uid)
    assert len(queue.in_flight_events()) == 2001
    queue.done(old.popped_uid)
    assert queue.in_flight_events() == []
    assert not queue._in_flight._markers


def test_dump_find_counts_and_ages():
    clock = VirtualClock()
    queue = SchedulingQueue(
        clock=clock, hints=[FIT], pre_enqueue=[("SchedulingGates", lambda pod: bool(pod.scheduling_gates))]
    )
    assert queue.oldest_pending_age() == 0.0
    queue.add(make_pod("gated", schedulingGates=[{"name": "x"}]))
    clock.advance(1)
    for name in ("flying", "erring", "stuck", "waits"):
        queue.add(make_pod(name))
    flying, erring, stuck = (pop(queue) for _ in range(3))
    reject(queue, erring)
    reject(queue, stuck, "Fit", pending=("Gang",))
    queue.add_nominated_pod(flying.pod, "n1")
    clock.advance(2)

    assert queue.pending_counts() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 1}
    assert queue.oldest_pending_age() == 3.0
    assert {name: queue.find("default", name)[0] for name in ("gated", "erring", "stuck", "waits")} == {
        "gated": "gated", "erring": "backoff", "stuck": "unschedulable", "waits": "active",
    }  # fmt: skip
    assert queue.find("default", "flying") is None
    assert queue.nominated_pods_for_node("n1") == [flying.pod]
    profile = "schedcache"
    assert queue.unschedulable_reasons() == {("Fit", profile): 1, ("Gang", profile): 1, ("SchedulingGates", profile): 1}
    dump = queue.dump()
    assert dump.active == ("uid-waits",)
    assert dump.error_backoff == ("uid-erring",)
    assert dump.unschedulable == ("uid-gated", "uid-stuck")
    assert dump.in_flight == ("uid-flying",)
    assert dump.nominated == {"n1": ("uid-flying",)}
    assert dump.pods["uid-stuck"].pending_plugins == ("Gang",)
    assert dump.pods["uid-erring"].backoff_until == 1002.0
    assert dump.pods["uid-gated"].initial_attempt is None


def test_a_dump_stays_as_it_was():
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT])
    queue.add(make_pod("a"))
    reject(queue, pop(queue), "Fit")
    dump = queue.dump()
    before = msgspec.to_builtins(dump)
    queue.move(NODE_ADD, None, make_node())
    queue.add_nominated_pod(make_pod("a"), "n1")
    queue.add(make_pod("b"))
    reject(queue, pop(queue), "Fit", pending=("Gang",))
    assert msgspec.to_builtins(dump) == before
