"""Bugs that kube-scheduler's queue once had, each replayed."""

import asyncio

import pytest
from msgspec.structs import replace

from schedcache.cache import ClusterObjects
from schedcache.config.plugin_args import InterPodAffinityArgs
from schedcache.framework import Handle
from schedcache.model.objects import Namespace
from schedcache.plugins.inter_pod_affinity import InterPodAffinity
from schedcache.queue import EventHint, QueueError, SchedulingQueue
from schedcache.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    UPDATE_NODE_TAINT,
    cluster_event,
    node_update_events,
)
from schedcache.testing import VirtualClock
from tests.queue.support import FIT, Lister, make_node, make_pod, names, pop, reject


def test_deletion_and_creation_merged_into_one_update_is_a_new_pod():
    """kubernetes/kubernetes#85726."""
    queue = SchedulingQueue(clock=VirtualClock())
    old, new = make_pod("web-0", uid="u1"), make_pod("web-0", uid="u2")
    queue.add(old)
    reject(queue, pop(queue))
    queue.add_nominated_pod(old, "n1")

    queue.update(old, new)

    assert [info.pod.uid for info in queue.active_pods()] == ["u2"]
    assert queue.active_pods()[0].attempts == 0
    assert queue.pending_counts() == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert queue.nominated_nodes() == []


@pytest.mark.parametrize("in_flight", [False, True])
def test_a_pod_that_leaves_a_node_wakes_those_who_wait_for_its_room(in_flight):
    """kubernetes/kubernetes#122444."""
    queue = SchedulingQueue(clock=VirtualClock(), hints=[("Fit", "AssignedPod", ("Delete",), None)])
    queue.add(make_pod("waits"))
    info = pop(queue)
    if in_flight:
        queue.move(ASSIGNED_POD_DELETE, make_pod("forgotten", node="n1"))
    reject(queue, info, "Fit")
    if not in_flight:
        assert queue.find("default", "waits")[0] == "unschedulable"
        queue.move(ASSIGNED_POD_DELETE, make_pod("forgotten", node="n1"))
    assert queue.find("default", "waits")[0] == "backoff"


def test_update_in_flight_does_not_queue_a_second_copy():
    """kubernetes/kubernetes#118226."""
    queue = SchedulingQueue(clock=VirtualClock())
    pod = make_pod("p")
    queue.add(pod)
    info = pop(queue)
    queue.update(pod, make_pod("p", labels={"a": "b"}, resource_version=2))
    assert queue.pop_nowait() is None
    assert queue.in_flight_events() == [("pod", info.popped_uid), ("event", "TargetPodUpdatePodLabel")]


def test_a_pod_added_again_while_in_flight_is_not_tried_twice():
    """kubernetes/kubernetes#120662."""
    queue = SchedulingQueue(clock=VirtualClock())
    queue.add(make_pod("p"))
    queue.add(make_pod("q"))
    pop(queue)
    queue.add(make_pod("p", resource_version=2))
    assert pop(queue).pod.name == "q"
    assert queue.pop_nowait() is None


def test_events_do_not_pile_up_behind_pods_that_were_skipped():
    """kubernetes/kubernetes#126962."""
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT])
    queue.add(make_pod("deleting"))
    queue.done(pop(queue).popped_uid)
    for _ in range(1000):
        queue.move(NODE_ADD, None, make_node())
    assert queue.in_flight_events() == []


def test_a_duplicate_does_not_overwrite_the_marker():
    """kubernetes/kubernetes#127016."""
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT])
    pod = make_pod("p")
    queue.add(pod)
    info = pop(queue)
    queue.move(NODE_ADD, None, make_node())
    queue.add(pod)
    assert queue.pop_nowait() is None
    assert [kind for kind, _ in queue.in_flight_events()] == ["pod", "event"]
    queue.done(info.popped_uid)
    assert queue.in_flight_events() == []
    queue.done(info.popped_uid)


def test_recreation_under_the_same_name_during_a_failing_attempt_leaves_nothing_in_flight():
    """kubernetes/kubernetes#138316."""
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT])
    old, new = make_pod("web-0", uid="u1"), make_pod("web-0", uid="u2")
    queue.add(old)
    info = pop(queue)
    queue.delete(old)
    queue.add(new)

    info.pod = new  # what a look-up by name would find
    with pytest.raises(QueueError) as refused:
        reject(queue, info, "Fit")

    assert refused.value.kind == "already_queued"
    assert queue.in_flight() == []
    assert [i.pod.uid for i in queue.active_pods()] == ["u2"]


async def test_a_pod_that_comes_back_at_once_reaches_the_pop_that_waits():
    """kubernetes/kubernetes#139186."""
    queue = SchedulingQueue(clock=VirtualClock(), max_backoff=0)
    queue.add(make_pod("p"))
    info = pop(queue)
    waiting = asyncio.create_task(queue.pop())
    await asyncio.sleep(0)
    reject(queue, info)
    again = await asyncio.wait_for(waiting, 5)
    assert (again.pod.name, again.attempts) == ("p", 2)
    assert queue.in_flight() == [again.popped_uid]


def test_a_pod_deleted_during_its_attempt_keeps_no_nomination():
    """kubernetes/kubernetes#102339."""
    lister = Lister()
    queue = SchedulingQueue(clock=VirtualClock(), pod_lister=lister)
    pod = lister.hold(make_pod("high", priority=100))
    queue.add(pod)
    info = pop(queue)
    lister.drop(pod)
    queue.delete(pod)
    queue.add_nominated_pod(pod, "n1")  # the failing attempt records its result late
    queue.done(info.popped_uid)
    assert queue.nominated_nodes() == []


def test_neither_a_bound_pod_nor_a_predecessor_of_the_same_name_is_nominated():
    """kubernetes/kubernetes#85677."""
    lister = Lister()
    queue = SchedulingQueue(clock=VirtualClock(), pod_lister=lister)
    lister.hold(make_pod("bound", node="n2"))
    queue.add_nominated_pod(make_pod("bound"), "n1")
    lister.hold(make_pod("web-0", uid="u2"))
    queue.add_nominated_pod(make_pod("web-0", uid="u1"), "n1")
    assert queue.nominated_nodes() == []


def test_a_node_whose_taint_goes_later_wakes_the_pod_that_ignored_its_arrival():
    """kubernetes/kubernetes#109437."""
    hints = [("TaintToleration", "Node", ("Add", "UpdateNodeTaint"), lambda pod, old, new: not new.taints)]
    queue = SchedulingQueue(clock=VirtualClock(), hints=hints)
    queue.add(make_pod("p"))
    reject(queue, pop(queue), "TaintToleration")
    tainted = make_node(taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])
    queue.move(NODE_ADD, None, tainted)
    assert queue.find("default", "p")[0] == "unschedulable"
    clean = make_node()
    for event in node_update_events(tainted, clean):
        queue.move(event, tainted, clean)
    assert queue.find("default", "p")[0] == "backoff"


def test_gated_pods_are_not_looked_at_for_events_of_others():
    """kubernetes/kubernetes#124384."""
    asked = []
    hints = [
        EventHint("TargetPod", ("UpdatePodSchedulingGatesEliminated",), plugin="Gate"),
        EventHint("AssignedPod", ("Delete",), lambda pod, old, new: asked.append("hint") or True, plugin="Fit"),
    ]
    queue = SchedulingQueue(
        clock=VirtualClock(), hints=hints, pre_enqueue=[("Gate", lambda pod: asked.append("gate") or True)]
    )
    for number in range(100):
        queue.add(make_pod(f"gated-{number}"))
    asked.clear()
    for _ in range(50):
        queue.move(ASSIGNED_POD_DELETE, make_pod("gone", node="n1"))
    assert asked == []


def ready(heartbeat):
    return {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat}]}


def test_heartbeats_wake_nobody_and_the_small_pod_gets_its_turn():
    """kubernetes/kubernetes#106546."""
    clock = VirtualClock()
    queue = SchedulingQueue(clock=clock, hints=[FIT])
    for number in range(50):
        queue.add(make_pod(f"hi-{number:02}", cpu="64", priority=1000))
    queue.add(make_pod("low", cpu="1"))
    tried = []
    node = make_node(status=ready("2026-01-05T08:00:00Z"))
    for second in range(1, 60):
        info = queue.pop_nowait()
        if info is not None:
            tried.append(info.pod.name)
            reject(queue, info, "Fit")
        clock.advance(1)
        late = f"2026-01-05T08:00:{second:02}Z"
        beaten = make_node(status=ready(late))
        for event in node_update_events(node, beaten):
            queue.move(event, node, beaten)
        queue.flush_backoff_completed()
    assert tried == [f"hi-{number:02}" for number in range(50)] + ["low"]


def test_pods_that_activate_themselves_on_failure_do_not_starve_the_others():
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT])
    for number in range(10):
        queue.add(make_pod(f"wait-{number}", priority=1000))
    queue.add(make_pod("low"))
    tried = []
    while "low" not in tried:
        info = pop(queue)
        tried.append(info.pod.name)
        queue.activate([info.pod])
        reject(queue, info, "Elsewhere")
    assert len(tried) == 11
    assert all(info.attempts == 1 for info in queue.backoff_pods())


def test_a_failure_while_binding_is_retried_whatever_the_hints_say():
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT])
    queue.add(make_pod("p"))
    info = pop(queue)
    queue.done(info.popped_uid)  # it could be bound, so it was thought
    reject(queue, info, "VolumeBinding")
    assert names(queue.backoff_pods()) == ["p"]


def test_an_event_nobody_registered_costs_nothing_and_is_not_kept():
    queue = SchedulingQueue(clock=VirtualClock(), hints=[FIT])
    queue.add(make_pod("p"))
    pop(queue)
    queue.move(cluster_event("Node", UPDATE_NODE_TAINT), make_node(), make_node())
    assert [kind for kind, _ in queue.in_flight_events()] == ["pod"]


@pytest.mark.parametrize(("namespace", "wakes"), [("d1", True), ("x1", False)])
def test_a_pod_that_waits_for_a_partner_in_selected_namespaces(namespace, wakes):
    """kubernetes/kubernetes#141954."""
    objects = ClusterObjects()
    for name, labels in (("d1", {"team": "data"}), ("x1", {})):
        objects.add("Namespace", Namespace(name=name, uid=name, labels=labels))
    plugin = InterPodAffinity(InterPodAffinityArgs(), Handle(cluster_objects=objects, nominator=None))
    hints = [replace(event, plugin=plugin.name) for event in plugin.events_to_register()]
    clock = VirtualClock()
    queue = SchedulingQueue(clock=clock, hints=hints)
    term = {
        "labelSelector": {"matchLabels": {"app": "db"}},
        "topologyKey": "kubernetes.io/hostname",
        "namespaceSelector": {"matchLabels": {"team": "data"}},
    }
    together = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    queue.add(make_pod("w", affinity=together))
    reject(queue, pop(queue), plugin.name)
    queue.move(ASSIGNED_POD_ADD, None, make_pod("db", "n1", {"app": "db"}, namespace=namespace))
    assert queue.find("default", "w")[0] == ("backoff" if wakes else "unschedulable")
