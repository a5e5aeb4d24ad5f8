"""kube-scheduler 1.37.2's own answers to sequences of queue operations, recorded from it, step by step.

`hand.jsonl` has one subject a case, `random.jsonl.gz` long seeded sequences. `config.hints[].fn`: `queue` always, `skip` never,
`error` fails, `names_pod` where label `for` of the event's object is the pod's name. A step without `state` is not compared.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schedcache.model import Node, Pod
from schedcache.queue import QueuedPodInfo, QueueDump, QueueError, SchedulingQueue
from schedcache.testing import VirtualClock
from tests.queue.support import Lister

VECTORS = Path(__file__).parent / "vectors"
GATES = {
    "SchedulingGates": lambda pod: bool(pod.scheduling_gates),
    "Hold": lambda pod: pod.labels.get("hold") == "true",
}


def cases() -> list[Any]:
    hand = (VECTORS / "hand.jsonl").read_text(encoding="utf-8")
    with gzip.open(VECTORS / "random.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in hand.splitlines() + file.read().splitlines() if line]


def _fails(pod: Pod, old: Any, new: Any) -> bool:
    raise RuntimeError("this hint always fails")


def _names_pod(pod: Pod, old: Any, new: Any) -> bool:
    subject = old if new is None else new
    return subject is not None and subject.labels.get("for") == pod.name


HINTS = {
    "queue": lambda pod, old, new: True,
    "skip": lambda pod, old, new: False,
    "error": _fails,
    "names_pod": _names_pod,
}


class Replay:
    """A queue and what a scheduler keeps beside it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.clock = VirtualClock()
        self.lister = Lister()
        self.popped: dict[str, QueuedPodInfo] = {}
        self.queue = SchedulingQueue(
            clock=self.clock,
            initial_backoff=config["initial_backoff_ms"] / 1000,
            max_backoff=config["max_backoff_ms"] / 1000,
            max_in_unschedulable=config["max_in_unschedulable_ms"] / 1000,
            pop_from_backoff=config["pop_from_backoff"],
            hints=[(h["plugin"], h["resource"], tuple(h["actions"]), HINTS[h["fn"]]) for h in config["hints"]],
            pre_enqueue=[(name, GATES[name]) for name in config["pre_enqueue"]],
            pod_lister=self.lister,
        )

    def do(self, step: dict[str, Any]) -> Any:
        self.clock.now = step["at_ms"] / 1000
        return getattr(self, f"do_{step['op']}")(step)

    def held(self, pod: dict[str, Any]) -> Pod:
        return self.lister.hold(Pod.from_dict(pod))

    def do_lister(self, step):
        pod = self.held(step["pod"])
        if not step["present"]:
            self.lister.drop(pod)

    def do_add(self, step):
        self.queue.add(self.held(step["pod"]))

    def do_update(self, step):
        self.queue.update(Pod.from_dict(step["old"]), self.held(step["new"]))

    def do_delete(self, step):
        pod = self.held(step["pod"])
        self.lister.drop(pod)
        self.queue.delete(pod)

    def do_pop(self, step):
        info = self.queue.pop_nowait()
        if info is None:
            return None
        self.popped[info.pod.uid] = info
        return {"uid": info.pod.uid, "attempts": info.attempts, "resource_version": info.pod.resource_version}

    def do_add_unschedulable(self, step):
        info = self.popped[step["uid"]]
        info.unschedulable_plugins = set(step["unschedulable_plugins"])
        info.pending_plugins = set(step["pending_plugins"])
        if "pod" in step:
            info.pod = Pod.from_dict(step["pod"])
        self.queue.add_unschedulable(info)

    def do_done(self, step):
        self.queue.done(step["uid"])

    def do_move(self, step):
        event, only = step["event"], step.get("pre_check_only")
        old, new = (_object(step[key]) for key in ("old", "new"))
        check = None if only is None else (lambda pod: pod.uid in only)
        label = event.get("label")
        self.queue.move_all(event["resource"], tuple(event["actions"]), old, new, label=label, pre_check=check)

    def do_activate(self, step):
        self.queue.activate([Pod.from_dict(pod) for pod in step["pods"]])

    def do_flush_backoff(self, step):
        self.queue.flush_backoff_completed()

    def do_flush_unschedulable(self, step):
        self.queue.flush_unschedulable_leftover()

    def do_nominate(self, step):
        self.queue.add_nominated_pod(Pod.from_dict(step["pod"]), step["node"])

    def do_delete_nominated(self, step):
        self.queue.delete_nominated_pod(Pod.from_dict(step["pod"]))

    def do_update_nominated(self, step):
        self.queue.update_nominated_pod(Pod.from_dict(step["old"]), Pod.from_dict(step["new"]))

    def do_nominated_for_node(self, step):
        return [pod.uid for pod in self.queue.nominated_pods_for_node(step["node"])]


def _object(obj: dict[str, Any] | None) -> Any:
    return None if obj is None else (Node if obj.get("kind") == "Node" else Pod).from_dict(obj)


def as_recorded(dump: QueueDump) -> dict[str, Any]:
    """A dump in the form of the recorded states, which have times in milliseconds."""
    state = msgspec.json.decode(msgspec.json.encode(dump))
    state["in_flight_events"] = [{kind: what} for kind, what in dump.in_flight_events]
    for history in state["pods"].values():
        for field in ("timestamp", "initial_attempt", "backoff_until"):
            seconds = history.pop(field)
            history[f"{field}_ms"] = None if seconds is None else round(seconds * 1000)
    for uid in dump.active + dump.unschedulable:
        assert state["pods"][uid].pop("backoff_until_ms") is None
    return state


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_answers_are_those_of_kube_scheduler(case):
    replay = Replay(case["config"])
    for number, step in enumerate(case["steps"]):
        error = result = None
        try:
            result = replay.do(step)
        except QueueError as refused:
            error = refused.kind
        want, where = step["want"], f"step {number}, {step['op']}: {case['about']}"
        assert error == want["error"], where
        if "result" in want:
            assert result == want["result"], where
        if "state" in want:
            # The dump is what people and tools see, so the dump is compared.
            assert as_recorded(replay.queue.dump()) == want["state"], where


def test_every_vector_is_there():
    found = cases()
    assert len(found) == 196
    assert sum(len(case["steps"]) for case in found) == 6813
