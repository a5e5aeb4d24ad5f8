"""Scripts through the real handlers, queue, plugins and cycles: users' reports, and the driver's own rules."""

from functools import partial
from pathlib import Path

import pytest

from schedcache.scheduling.binding_cycle import SENDINGS
from schedcache.testing import as_stored, node_manifest, pod_manifest
from schedcache.testing.replay import EXPECTATIONS, ReplayError, read_script, replay
from schedcache.testing.replay_world import ReplayWorld

SCRIPTS = sorted((Path(__file__).parent / "replays").glob("*.json"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
async def test_reports_of_users(path):
    steps = read_script(path)
    assert any("expect" in step for step in steps)
    world = await replay(steps)
    assert world.rebuilds == []


pod = partial(pod_manifest, scheduler_name="default-scheduler")


def watched(obj, change="ADDED"):
    return {"watch": {"type": change, "object": as_stored(obj)}}


def expect(**what):
    return {"expect": what}


NODE = watched(node_manifest("n1", capacity={"cpu": "4"}))


def pending(name, cpu="1", **more):
    return watched(pod(name, requests={"cpu": cpu}, **more))


async def test_gpus_that_vanished_under_a_running_pod_hide_nothing_else():
    """volcano-sh/volcano#2999."""
    gpu = "nvidia.com/gpu"
    node = node_manifest("g1", capacity={"cpu": "8", "memory": "32Gi", gpu: "0"})
    trainer = pod("trainer", "g1", requests={"cpu": "2", "memory": "8Gi", gpu: "4"})
    world = await replay(
        [
            watched(node),
            watched(trainer),
            pending(
                "next-train",
                labels={"a": "b"},
                containers=[{"name": "c", "resources": {"requests": {gpu: "1"}}}],
            ),
            expect(verdict={"default/next-train": {"g1": "^Insufficient nvidia.com/gpu$"}}, snapshotNodes=["g1"]),
            pending("gpu-reporter", "50m"),
            expect(bound=["default/gpu-reporter"], requested={"g1": {"cpu": "2050m", gpu: "4"}}),
        ]
    )
    assert world.recorder.reasons("uid-next-train")[0] == "FailedScheduling"
    assert world.notes("default/next-train")[0].startswith("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")


async def test_the_peak_of_init_containers_is_held_for_life():
    """volcano-sh/volcano#1333."""
    init = {"name": "warm", "resources": {"requests": {"cpu": "7", "memory": "1Gi"}}}
    await replay(
        [
            watched(node_manifest("n1", capacity={"cpu": "8"})),
            watched(pod("sleepy", "n1", requests={"cpu": "100m"}, initContainers=[init])),
            pending("echo", "6"),
            expect(verdict={"default/echo": {"n1": "^Insufficient cpu$"}}, requested={"n1": {"cpu": "7", "pods": "1"}}),
        ]
    )


async def test_room_of_a_bound_pod_is_not_given_away_while_its_event_is_late():
    """kubernetes/kubernetes#106361: the deadline passes, but the API server says that the pod is bound."""
    world = await replay(
        [
            NODE,
            pending("a", "4"),
            expect(bound=["default/a"], state={"default/a": "assumed"}),
            {"clock": 600},
            expect(state={"default/a": "added"}),
            pending("b"),
            expect(verdict={"default/b": {"n1": "^Insufficient cpu$"}}, posts={"default/a": 1}),
            watched(pod("a", "n1", requests={"cpu": "4"}, resource_version=9), "MODIFIED"),
            expect(requested={"n1": {"cpu": "4"}}, cachedPods=["default/a"]),
        ]
    )
    assert world.rebuilds == []


async def test_a_failed_bind_gives_its_room_back_and_is_tried_again():
    await replay(
        [
            NODE,
            pending("a", "4"),
            {"bind": "default/a", "answer": {"code": 403}},
            expect(
                state={"default/a": "backoff"}, requeued=["default/a"], requested={"n1": {"cpu": "0"}}, boundCount=0
            ),
            {"clock": 3},
            expect(bound=["default/a"], posts={"default/a": 2}, requeued=[]),
        ]
    )


async def test_a_bind_whose_answer_is_lost_keeps_its_room_and_is_sent_again():
    await replay(
        [
            NODE,
            pending("a", "4"),
            {"bindAnswers": {"default/a": [0]}},
            expect(posts={"default/a": 2}, requested={"n1": {"cpu": "4"}}, bound=["default/a"]),
            expect(attemptsAtMost={"default/a": 1}),
        ]
    )


async def test_a_bind_that_is_never_answered_is_given_up_and_tried_again():
    await replay(
        [
            NODE,
            pending("a", "4"),
            {"bindAnswers": {"default/a": [0] * SENDINGS}},
            expect(posts={"default/a": SENDINGS}, requested={"n1": {"cpu": "0"}}, inQueue={"default/a": ["backoff"]}),
            {"clock": 3},
            expect(bound=["default/a"], attemptsAtMost={"default/a": 2}),
        ]
    )


async def test_a_list_replaces_what_was_known():
    await replay(
        [
            {"list": "nodes", "items": [as_stored(node_manifest("n1")), as_stored(node_manifest("n2"))]},
            {
                "list": "pods",
                "items": [
                    as_stored(pod("a", "n1")),
                    as_stored(pod("gated", schedulingGates=[{"name": "g"}])),
                ],
            },
            expect(
                cachedNodes=["n1", "n2"], cachedPods=["default/a"], gated=["default/gated"], queued=["default/gated"]
            ),
            {"list": "nodes", "items": [as_stored(node_manifest("n2"))]},
            {"list": "pods", "items": []},
            expect(cachedNodes=["n2"], cachedPods=[], queued=[], snapshotNodes=["n2"]),
        ]
    )


async def test_pods_are_tried_by_priority_and_a_deleted_one_not_at_all():
    await replay(
        [
            NODE,
            pending("low", priority=1),
            pending("gone", priority=5),
            pending("high", priority=9),
            watched(pod("gone"), "DELETED"),
            expect(order=["default/high", "default/low"], boundWithin={"default/low": 2}),
        ]
    )


async def test_activation_tries_a_pod_again_without_an_event():
    await replay(
        [
            NODE,
            pending("big", "9"),
            expect(unschedulable=["default/big"], order=["default/big"]),
            {"activate": "default/big", "times": 2},
            expect(order=["default/big"] * 3, boundCount=0),
        ]
    )


async def test_leftovers_are_flushed_in_virtual_time():
    await replay([NODE, pending("big", "9"), {"clock": 400}, expect(order=["default/big"] * 2)])


class TestFaults:
    @pytest.mark.parametrize(
        ("step", "message"),
        [
            ({"killTask": "nodes"}, "none of killTask is a step"),
            (
                {"watch": {"type": "ERROR", "object": {"kind": "Status"}}},
                "a ERROR event of a Status is the watch's own business",
            ),
            (watched(node_manifest("n1"), "BOOKMARK"), "a BOOKMARK event of a Node"),
            ({"list": "leases", "items": []}, "'leases' is not listed"),
            (expect(lease="mine"), "'lease' is nothing that a replay of events can see"),
            (expect(cachedNodes=["n9"]), r"cachedNodes: expected \['n9'\], found \['n1'\]"),
            (expect(requested={"n1": {"cpu": "1"}, "n9": {"cpu": "1"}}), "'no such node'"),
            (expect(oneOf=[{"boundCount": 1}, {"cachedNodes": []}]), r"none of: boundCount: .* \| cachedNodes: "),
            (expect(boundWithin={"default/a": 3}), "'not bound'"),
            ({"assume": "default/b", "node": "n1"}, "the next pod in turn is default/a"),
            ({"assume": "default/a", "node": "n7"}, "the cycle chose ''"),
            ({"onFailure": {"activate": "others"}, "pods": "*"}, "the one thing to do on failure"),
        ],
    )
    async def test_are_told_with_the_step(self, step, message):
        with pytest.raises(ReplayError, match=r"^step 2 \{.*" + message):
            await replay([NODE, pending("a", "9"), step])

    async def test_of_an_empty_queue(self):
        with pytest.raises(ReplayError, match="the next pod in turn is None"):
            await replay([{"assume": "default/a", "node": "n1"}])

    async def test_one_of_several_is_enough(self):
        await replay([NODE, expect(oneOf=[{"boundCount": 1}, {"cachedNodes": ["n1"]}])])

    def test_of_a_file_that_is_no_script(self, tmp_path):
        path = tmp_path / "other.json"
        path.write_text('{"kind": "List"}')
        with pytest.raises(ReplayError, match="expected"):
            read_script(path)


async def test_expectations_see_more_than_what_is_asked_for():
    world = await replay([NODE, pending("a"), {"clock": 1}])
    assert EXPECTATIONS["requested"](world, {"n1": {"cpu": "1", "memory": "5"}}) == {"n1": {"cpu": "1", "memory": "0"}}
    assert EXPECTATIONS["cachedLabels"](world, {"default/a": {}}) == {"default/a": {}}
    assert EXPECTATIONS["boundWithin"](world, {"default/a": 0}) == {"default/a": 1}
    assert EXPECTATIONS["attemptsAtMost"](world, {"default/a": 0}) == {"default/a": 1}


async def test_a_world_takes_a_configuration():
    profile = {"schedulerName": "mine"}
    world = ReplayWorld(
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    )
    world.tell("ADDED", as_stored(node_manifest("n1")))
    world.tell("ADDED", as_stored(pod("theirs")))
    world.tell("ADDED", as_stored(pod("ours", scheduler_name="mine")))
    await world.settle()
    await world.close()
    assert world.attempts == world.api.bound == ["default/ours"]
