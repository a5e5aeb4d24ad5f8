"""What the example operator answers, without a server; tests/e2e has the same with one."""

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import kopf
import pytest

from schedcache.ports import NotFoundError, OutcomeUnknownError
from schedcache.testing import make_node, make_pod

FILE = Path(__file__).parents[2] / "examples" / "kopf-operator" / "room_for_more.py"
CPU = "0/2 nodes are available: 2 Insufficient cpu."


@pytest.fixture(scope="module")
def example():
    """The file as kopf loads it; its handlers go to a registry of its own."""
    former = kopf.get_default_registry()
    kopf.set_default_registry(kopf.OperatorRegistry())
    try:
        spec = importlib.util.spec_from_file_location("room_for_more", FILE)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        kopf.set_default_registry(former)
    return module


@pytest.fixture
def room(example):
    made = example.RoomForMore()
    for name in ("a", "b"):
        made.sink.on_add("Node", make_node(name))
    return made


def template(requests=None, **spec):
    container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": requests or {"cpu": "1"}}}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}


def answer(example, room, ask="100", **fields):
    asked = example.Asked({example.ASK: ask}, template(**fields))
    found = room.answers("default/web", asked)
    return found[example.ROOM], found[example.STOPPED_BY]


def test_it_is_typed():
    command = [sys.executable, "-m", "mypy", "--strict", str(FILE)]
    done = subprocess.run(command, cwd=FILE.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_asking_changes_nothing(example, room):
    before = room.cache.dump()
    assert [answer(example, room) for _ in range(3)] == [("8", CPU)] * 3
    assert room.cache.dump() == before


def test_the_number_asked_for_is_the_most(example, room):
    assert answer(example, room, "8") == ("8", None)
    assert answer(example, room, "9") == ("8", CPU)


@pytest.mark.parametrize("ask", ["0", "501", "-1", "1.5", "", "²", "many"])
def test_what_is_no_number_of_replicas_is_said_to_be_none(example, room, ask):
    found, why = answer(example, room, ask)
    assert found is None
    assert why == f"example.com/ask-room-for: expected a whole number from 1 to 500, got {ask!r}"


def test_room_that_is_promised_to_a_preempting_pod_is_not_given_away(example, room):
    promised = make_pod("urgent", cpu="3", nominated="a", priority=1000)
    room.sink.on_add("Pod", promised)
    assert answer(example, room) == ("5", CPU)
    room.sink.on_delete("Pod", promised, missed=False)
    assert answer(example, room) == ("8", CPU)


def test_replicas_count_for_one_another(example, room):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    found, why = answer(example, room, affinity=affinity)
    assert (found, why) == ("2", "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.")


def test_pods_that_are_not_tried_have_no_room(example, room):
    assert answer(example, room, schedulingGates=[{"name": "wait"}]) == ("0", "it has scheduling gates")
    assert answer(example, room, resourceClaims=[{"name": "gpu"}])[0] == "0"


def test_a_template_that_cannot_be_read_is_said_to_be_so(example, room):
    found, why = answer(example, room, requests={"cpu": "lots"})
    assert found is None
    assert "spec.containers[0].resources.requests.cpu" in why


def test_without_nodes_there_is_no_room(example):
    assert answer(example, example.RoomForMore()) == ("0", "no nodes available to schedule pods")


class Transport:
    """Refuses as it is told."""

    def __init__(self, error):
        self.error = error
        self.sent = 0

    async def send(self, method, path, body, content_type):
        self.sent += 1
        raise self.error


async def test_a_deployment_that_is_gone_is_dropped_and_any_other_refusal_tried_again(example, room):
    room.asked["default", "web"] = example.Asked({example.ASK: "3"}, template())
    doubtful, gone = Transport(OutcomeUnknownError("no answer")), Transport(NotFoundError("gone"))
    await room.answer_all(doubtful)
    await room.answer_all(doubtful)
    assert doubtful.sent == 2
    await room.answer_all(gone)
    await room.answer_all(gone)
    assert gone.sent == 1


async def test_an_operator_that_cannot_answer_any_more_ends(example, monkeypatch, caplog):
    killed = []
    monkeypatch.setattr(os, "kill", lambda *what: killed.append(what))

    async def fails():
        raise RuntimeError("a fault")

    async def waits():
        await asyncio.Event().wait()

    for work in (fails, waits):
        task = asyncio.create_task(work())
        task.add_done_callback(example.end_with)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
    assert killed == [(os.getpid(), signal.SIGTERM)], "for its fault, not for its being stopped"
    assert "a fault" in caplog.text
