"""Who is asked about an event, how often, and what becomes of the answers."""

import pytest
from structlog.testing import capture_logs

from schedcache.queue import EventHint, SchedulingQueue
from schedcache.queue.events import NODE_ADD, NODE_DELETE
from schedcache.testing import VirtualClock
from tests.queue.support import make_node, make_pod, pop, reject


class Metrics:
    def __init__(self):
        self.incoming, self.hints, self.after_flush, self.inflight = [], [], [], {}

    def queue_incoming_pods(self, queue, event):
        self.incoming.append((queue, event))

    def inflight_events(self, event, delta):
        self.inflight[event] = self.inflight.get(event, 0) + delta

    def queueing_hint(self, plugin, event, hint, seconds):
        self.hints.append((plugin, event, hint, seconds))

    def pod_scheduled_after_flush(self, profile):
        self.after_flush.append(profile)


def pool_of(pods, hints, *plugins, pending=(), **options):
    """A queue whose pool holds these pods, out of their backoff."""
    clock = VirtualClock()
    queue = SchedulingQueue(clock=clock, hints=hints, **options)
    for pod in pods:
        queue.add(pod)
    for info in [pop(queue) for _ in pods]:
        reject(queue, info, *plugins, pending=tuple(pending))
    assert queue.pending_counts()["unschedulable"] == len(pods)
    clock.advance(100)
    return queue


def replicas(cpu, count):
    return [make_pod(f"cpu-{cpu}-{number}", cpu=cpu) for number in range(count)]


def test_a_hint_on_the_shape_is_asked_once_a_shape_and_wakes_all_of_it():
    asked = []

    def fits(pod, old, new):
        asked.append(pod.requests.resource.milli_cpu)
        return pod.requests.resource.milli_cpu <= new.allocatable.milli_cpu

    hints = [EventHint("Node", ("Add",), fits, by_shape=True, plugin="Fit")]
    queue = pool_of(replicas("1", 30) + replicas("2", 30) + replicas("3", 30), hints, "Fit")
    queue.move(NODE_ADD, None, make_node(cpu="2"))
    assert sorted(asked) == [1000, 2000, 3000]
    assert queue.pending_counts() == {"active": 60, "backoff": 0, "unschedulable": 30, "gated": 0}
    assert {info.pod.requests.resource.milli_cpu for info in queue.unschedulable_pods()} == {3000}


def test_a_hint_on_the_spec_is_asked_once_for_a_whole_stateful_set():
    asked = []

    def fits(pod, old, new):
        asked.append(pod.name)
        return pod.requests.resource.milli_cpu <= 2000

    hints = [EventHint("Node", ("Add",), fits, by_spec=True, plugin="Fit")]
    sets = [
        make_pod(f"{name}-{n}", cpu=cpu, labels={"apps.kubernetes.io/pod-index": str(n)})
        for name, cpu in (("small", "2"), ("large", "3"))
        for n in range(20)
    ]
    queue = pool_of(sets, hints, "Fit")
    queue.move(NODE_ADD, None, make_node())
    assert len(asked) == 2
    assert queue.pending_counts()["active"] == 20
    assert {info.pod.name.split("-")[0] for info in queue.active_pods()} == {"small"}


def test_spec_shape_and_pod_hints_are_asked_from_the_cheap_to_the_dear():
    asked = {"spec": [], "shape": [], "pod": []}

    def says(scope, label):
        return lambda pod, old, new: asked[scope].append(pod.name) or pod.labels.get("woken-by") == label

    hints = [
        EventHint(
            "Node", ("Add",), lambda pod, old, new: asked["spec"].append(pod.name) or False, by_spec=True, plugin="S"
        ),
        EventHint("Node", ("Add",), says("shape", "shape"), by_shape=True, plugin="H"),
        EventHint("Node", ("Add",), says("pod", "pod"), plugin="P"),
    ]
    pods = [make_pod(f"{by}-{n}", labels={"woken-by": by}) for by in ("shape", "pod", "nobody") for n in range(4)]
    queue = pool_of(pods, hints, "S", "H", "P")
    queue.move(NODE_ADD, None, make_node())
    assert {scope: len(calls) for scope, calls in asked.items()} == {"spec": 1, "shape": 3, "pod": 8}
    assert {info.pod.labels["woken-by"] for info in queue.unschedulable_pods()} == {"nobody"}
    assert queue.pending_counts()["active"] == 8


def test_a_limit_spares_the_asking_and_changes_no_answer():
    asked = []

    def fits(pod, old, new):
        asked.append(pod.name)
        return pod.requests.resource.milli_cpu <= new.allocatable.milli_cpu

    limited = EventHint("Node", ("Add",), fits, by_spec=True, room=lambda old, new: new.allocatable, plugin="Fit")
    pods = [make_pod(f"cpu-{cpu}", cpu=str(cpu)) for cpu in range(1, 101)]
    queue = pool_of(pods, [limited], "Fit")
    queue.move(NODE_ADD, None, make_node(cpu="7"))
    assert sorted(asked) == sorted(f"cpu-{cpu}" for cpu in range(1, 8))
    assert queue.pending_counts() == {"active": 7, "backoff": 0, "unschedulable": 93, "gated": 0}


def test_a_limit_holds_only_where_nobody_else_may_say_yes():
    limited = EventHint(
        "Node", ("Add",), lambda p, o, n: False, by_spec=True, room=lambda o, n: n.allocatable, plugin="Fit"
    )
    other = EventHint("Node", ("Add",), None, by_spec=True, plugin="Taint")
    queue = pool_of([make_pod("p", cpu="50")], [limited, other], "Fit", "Taint")
    queue.move(NODE_ADD, None, make_node(cpu="1"))
    assert queue.pending_counts()["active"] == 1


@pytest.mark.parametrize("answer", [AttributeError("allocatable"), 5, "much"])
def test_a_limit_that_fails_or_is_none_leaves_every_pod_to_the_hint(answer):
    def fails(old, new):
        if isinstance(answer, Exception):
            raise answer
        return answer

    queue = pool_of([make_pod("p")], [EventHint("Node", ("Add",), None, room=fails, plugin="Fit")], "Fit")
    with capture_logs() as told:
        queue.move(NODE_ADD, None, make_node())
    assert queue.pending_counts()["active"] == 1
    assert told[0]["where"] == "room for NodeAdd"


def test_a_hint_on_the_pod_is_asked_for_each_pod():
    asked = []

    def odd(pod, old, new):
        asked.append(pod.name)
        return pod.name[-1] in "13579"

    queue = pool_of(replicas("1", 10), [("Named", "Node", ("Add",), odd)], "Named")
    queue.move(NODE_ADD, None, make_node())
    assert len(asked) == 10
    assert queue.pending_counts()["active"] == 5


def test_shape_and_pod_hints_together_and_the_pod_is_not_asked_where_the_shape_says_yes():
    asked = []
    hints = [
        EventHint("Node", ("Add",), lambda pod, old, new: pod.labels.get("easy") == "yes", by_shape=True, plugin="Fit"),
        EventHint(
            "Node", ("Add",), lambda pod, old, new: asked.append(pod.name) or pod.name == "hard-1", plugin="Named"
        ),
    ]
    easy = [make_pod(f"easy-{n}", labels={"easy": "yes"}) for n in range(5)]
    hard = [make_pod(f"hard-{n}") for n in range(5)]
    queue = pool_of(easy + hard, hints, "Fit", "Named")
    queue.move(NODE_ADD, None, make_node())
    assert sorted(asked) == [pod.name for pod in hard]
    assert {info.pod.name for info in queue.active_pods()} == {*(pod.name for pod in easy), "hard-1"}


def test_a_pending_plugin_behind_an_unschedulable_one_still_decides():
    hints = [
        EventHint("Node", ("Add",), None, by_shape=True, plugin="Fit"),
        EventHint("Node", ("Add",), lambda pod, old, new: pod.name == "b", plugin="Gang"),
    ]
    clock = VirtualClock()
    queue = SchedulingQueue(clock=clock, hints=hints)
    for name in ("a", "b"):
        queue.add(make_pod(name))
    for info in [pop(queue), pop(queue)]:
        reject(queue, info, "Fit", pending=("Gang",))
    queue.move(NODE_ADD, None, make_node())
    assert [info.pod.name for info in queue.active_pods()] == ["b"]
    assert [info.pod.name for info in queue.backoff_pods()] == ["a"]


def test_only_plugins_that_rejected_the_pod_are_asked():
    hints = [("Other", "Node", ("Add",), lambda pod, old, new: True), ("Fit", "Node", ("Delete",), None)]
    queue = pool_of([make_pod("p")], hints, "Fit")
    queue.move(NODE_ADD, None, make_node())
    assert queue.pending_counts()["unschedulable"] == 1
    queue.move(NODE_DELETE, make_node(), None)
    assert queue.pending_counts()["active"] == 1


def test_a_failing_hint_wakes_the_pod_and_is_told_of_once():
    def fails(pod, old, new):
        raise KeyError("zone")

    metrics = Metrics()
    queue = pool_of(replicas("1", 5), [("Zones", "Node", ("Add",), fails)], "Zones", metrics=metrics)
    with capture_logs() as told:
        queue.move(NODE_ADD, None, make_node())
    assert queue.pending_counts()["active"] == 5
    assert [entry[:3] for entry in metrics.hints] == [("Zones", "NodeAdd", "Error")] * 5
    assert len(told) == 1
    assert (told[0]["plugin"], told[0]["error"]) == ("Zones", "KeyError: 'zone'")
    assert "test_hints.py:" in told[0]["at"]


def test_a_failing_gate_stays_shut():
    def fails(pod):
        raise KeyError("quota")

    queue = SchedulingQueue(clock=VirtualClock(), pre_enqueue=[("Quota", fails)])
    queue.add(make_pod("p"))
    assert queue.pending_counts()["gated"] == 1


def test_a_gate_that_opens_without_an_event_is_asked_on_demand():
    held, asked = {"p"}, []
    gate = [("Evictions", lambda pod: asked.append(pod.name) or pod.name in held)]
    queue = SchedulingQueue(clock=VirtualClock(), hints=[("Fit", "AssignedPod", ("Delete",), None)], pre_enqueue=gate)
    pod = make_pod("p")
    queue.add(pod)
    queue.ask_gates(make_pod("unknown"))
    queue.ask_gates(pod)
    assert queue.pending_counts()["gated"] == 1
    held.clear()
    queue.ask_gates(pod)
    assert queue.pending_counts() == {"active": 0, "backoff": 0, "unschedulable": 1, "gated": 0}
    asked.clear()
    queue.ask_gates(pod)
    assert asked == [], "no gate holds it any more"
    queue.activate([pod])
    assert pop(queue).pod is pod


def test_registrations_by_scheduler_name():
    clock = VirtualClock()
    hints = {"one": [("Fit", "Node", ("Add",), None)], "two": [("Fit", "Node", ("Delete",), None)]}
    gates = {"two": [("Hold", lambda pod: pod.name == "held")]}
    queue = SchedulingQueue(clock=clock, hints=hints, pre_enqueue=gates)
    for name, scheduler in (("a", "one"), ("b", "two"), ("c", "three"), ("held", "two"), ("held", "one")):
        queue.add(make_pod(name, uid=f"{name}-{scheduler}", scheduler_name=scheduler))
    assert queue.find("default", "held")[0] == "active"
    queue.delete(make_pod("held", uid="held-one"))
    queue.add(make_pod("held", uid="held-two", scheduler_name="two"))
    assert queue.find("default", "held")[0] == "gated"
    for info in [pop(queue) for _ in range(3)]:
        reject(queue, info, "Fit")
    queue.move(NODE_ADD, None, make_node())
    # A profile that nothing is known about must not lose its pods: they are retried upon every event.
    assert sorted(info.pod.name for info in queue.backoff_pods()) == ["a", "c"]
    queue.move(NODE_DELETE, make_node(), None)
    assert queue.find("default", "b")[0] == "backoff"


def test_pods_with_resized_requests_are_not_judged_by_their_shape():
    reported = {"name": "main", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "3"}}}
    grown = make_pod("resized", cpu="1", status={"containerStatuses": [reported]})
    assert grown.requests.resource.milli_cpu == 3000
    hints = [
        EventHint("Node", ("Add",), lambda p, o, n: p.requests.resource.milli_cpu <= 2000, by_shape=True, plugin="Fit")
    ]
    queue = pool_of([make_pod("plain"), grown], hints, "Fit")
    queue.move(NODE_ADD, None, make_node())
    assert [info.pod.name for info in queue.unschedulable_pods()] == ["resized"]


@pytest.mark.parametrize("given", [("Fit", "Node", ("Grow",), None), ("Fit", "Node", ("Add", "update"), None)])
def test_an_action_that_does_not_exist_is_refused_with_the_ones_that_do(given):
    with pytest.raises(ValueError, match=r"expected one of .*UpdateNodeAllocatable"):
        SchedulingQueue(hints=[given])


def test_an_event_with_an_action_that_does_not_exist_is_refused():
    queue = SchedulingQueue(hints=[("Fit", "Node", ("Add",), None)])
    with pytest.raises(ValueError, match="'Grow'"):
        queue.move_all("Node", ("Grow",))


def test_metrics_of_a_pod_that_only_the_time_limit_woke():
    clock, metrics = VirtualClock(), Metrics()
    queue = SchedulingQueue(clock=clock, metrics=metrics, hints=[("Fit", "Node", ("Add",), lambda p, o, n: False)])
    queue.add(make_pod("p"))
    info = pop(queue)
    queue.move(NODE_ADD, None, make_node())
    assert metrics.inflight == {"PodPopped": 1, "NodeAdd": 1}
    reject(queue, info, "Fit")
    assert metrics.inflight == {"PodPopped": 0, "NodeAdd": 0}
    clock.advance(301)
    queue.flush_unschedulable_leftover()
    info = pop(queue)
    assert info.flushed
    queue.scheduled(info)
    assert metrics.after_flush == ["schedcache"]
    assert metrics.incoming == [
        ("active", "UnscheduledPodAdd"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("active", "UnschedulableTimeout"),
    ]
    assert queue.in_flight() == []
    assert [entry[2] for entry in metrics.hints] == ["QueueSkip"]


def test_metrics_of_the_way_through_the_backoff_queue():
    clock, metrics = VirtualClock(), Metrics()
    queue = SchedulingQueue(clock=clock, metrics=metrics, hints=[("Fit", "Node", ("Add",), None)])
    for name in ("a", "b"):
        queue.add(make_pod(name))
    for info in [pop(queue), pop(queue)]:
        reject(queue, info, "Fit")
    metrics.incoming.clear()
    queue.move(NODE_ADD, None, make_node())
    queue.scheduled(pop(queue))
    clock.advance(10)
    queue.flush_backoff_completed()
    assert metrics.incoming == [
        ("backoff", "NodeAdd"), ("backoff", "NodeAdd"), ("active", "PopFromBackoffQ"), ("active", "BackoffComplete"),
    ]  # fmt: skip
    assert metrics.after_flush == []


def test_a_hint_of_nobody_is_refused():
    with pytest.raises(ValueError, match="hint for events of 'Node': the plugin is not named"):
        SchedulingQueue(hints=[EventHint("Node", ("Add",))])
