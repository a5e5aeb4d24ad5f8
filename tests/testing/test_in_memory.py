"""What tests without a cluster are made of: builders, virtual time, and a package that is quick to import."""

import asyncio
import inspect
import subprocess
import sys

import pytest

from schedcache import testing
from schedcache.framework import unresolvable
from schedcache.model import MalformedObjectError
from schedcache.ports import RefusedError
from schedcache.testing import VirtualClock, World, as_stored, make_node, make_pod, node_manifest, pod_manifest


class TestBuilders:
    def test_a_pod_has_what_it_is_given_where_it_belongs(self):
        pod = make_pod(
            "web-0",
            "n1",
            {"app": "web"},
            namespace="shop",
            cpu="500m",
            memory="1Gi",
            requests={"example.com/gpu": 1},
            claims=["data"],
            host_ports=[80],
            owner=("ReplicaSet", "web"),
            terminating=True,
            nominated="n2",
            priority=7,
            nodeSelector={"disk": "ssd"},
        )
        assert (pod.full_name, pod.uid, pod.resource_version) == ("shop/web-0", "uid-shop/web-0", "1")
        assert (pod.node_name, pod.nominated_node_name, pod.phase, pod.terminating) == ("n1", "n2", "Running", True)
        assert (pod.labels, pod.priority, pod.scheduler_name) == ({"app": "web"}, 7, "schedcache")
        asked = pod.requests.resource
        assert (asked.milli_cpu, asked.memory, asked.scalar) == (500, 2**30, {"example.com/gpu": 1})
        assert pod.spec.node_selector == {"disk": "ssd"}
        assert [volume.claim_name for volume in pod.volumes] == ["data"]

    def test_a_node_has_room_unless_it_is_said_to_have_none(self):
        node = make_node("n1", "a", cpu=8, capacity={"example.com/gpu": 2}, unschedulable=True, images=[(["i"], 5)])
        assert node.labels == {"kubernetes.io/hostname": "n1", "topology.kubernetes.io/zone": "a"}
        room = node.allocatable
        assert (room.milli_cpu, room.memory, room.allowed_pod_number) == (8000, 32 * 2**30, 110)
        assert (room.scalar, node.unschedulable) == ({"example.com/gpu": 2}, True)

    def test_manifests_leave_to_the_api_server_what_is_its_own(self):
        pod, node = pod_manifest("p"), node_manifest("n")
        assert "status" not in pod
        for manifest in (pod, node):
            assert not {"uid", "resourceVersion"} & manifest["metadata"].keys()
        assert as_stored(pod)["metadata"]["uid"] == "uid-p"
        assert as_stored(pod)["status"] == {"phase": "Pending"}
        assert (
            as_stored(pod_manifest("p", uid="", resource_version=9))["metadata"].items()
            >= {
                "uid": "",
                "resourceVersion": "9",
            }.items()
        )

    @pytest.mark.parametrize(("make", "manifest"), [(make_pod, pod_manifest), (make_node, node_manifest)])
    def test_objects_and_manifests_take_the_same(self, make, manifest):
        assert inspect.signature(make).parameters == inspect.signature(manifest).parameters

    @pytest.mark.parametrize("make", [make_pod, make_node])
    def test_a_misspelt_argument_is_no_field_of_spec(self, make):
        with pytest.raises(TypeError, match=f"{make.__name__}.* got lables"):
            make("x", lables={"a": "b"})
        with pytest.raises(TypeError, match="no argument is called 'spec'"):
            make("x", spec={"priority": 1})

    def test_a_malformed_field_is_named(self):
        with pytest.raises(MalformedObjectError, match=r"requests\.cpu"):
            make_pod("p", cpu="many")


class TestVirtualClock:
    async def test_sleepers_wake_in_turn_each_at_its_instant(self):
        clock, woken = VirtualClock(100.0), []

        async def sleeper(*pauses):
            for pause in pauses:
                await clock.sleep(pause)
                woken.append(clock.now)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(sleeper(5, 1))
            tasks.create_task(sleeper(2))
            await testing.settle()
            await clock.elapse(5.5)
            assert (woken, clock()) == ([102.0, 105.0], 105.5)
            clock.advance(10)
        assert woken == [102.0, 105.0, 115.5]

    def test_it_is_monotonic(self):
        with pytest.raises(ValueError, match="cannot go back by 1 seconds"):
            VirtualClock().advance(-1)


class TestPackage:
    def test_no_control_plane_is_loaded_before_it_is_asked_for(self):
        code = "import schedcache.testing, sys; print(*{'aiohttp', 'numpy', 'yaml'} & set(sys.modules))"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert found.stdout.strip() == ""

    def test_every_public_name_is_there_and_no_other(self):
        assert all(getattr(testing, name) is not None for name in testing.__all__)
        assert testing._LATER.keys() <= set(testing.__all__)
        with pytest.raises(AttributeError, match="no attribute 'Clutser'"):
            _ = testing.Clutser


class Maintenance:
    """A plugin as people write them."""

    name = "Maintenance"
    per_node = True

    def __init__(self, args, handle):
        pass

    def filter(self, state, pod, node_info):
        planned = "maintenance" in node_info.node.annotations
        return unresolvable("node(s) were about to be serviced") if planned else None


class TestWorld:
    async def test_it_schedules_with_default_plugins_and_further_ones(self):
        async with World(plugins=[Maintenance]) as world:
            world.add(make_node("a", cpu="1"), make_node("b", cpu="8", annotations={"maintenance": "planned"}))
            world.add(make_pod("web-0", cpu="800m"), make_pod("web-1", cpu="800m", namespace="shop"))
            await world.settle()
            assert (world.node_of("web-0"), world.node_of("shop/web-1")) == ("a", "")
            assert world.notes("shop/web-1")[0].startswith(
                "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were about to be serviced."
            )
            assert world.verdict(world.pod("shop/web-1")) == {
                "a": ("Insufficient cpu",),
                "b": ("node(s) were about to be serviced",),
            }
            world.api.delete(world.pod("web-0").uid)
            await world.advance(2)
            assert world.node_of("shop/web-1") == "a"
            world.check_at_rest()

    async def test_a_profile_can_have_the_given_plugins_alone(self):
        async with World(plugins=[Maintenance], defaults=False) as world:
            world.add(make_node("a", cpu="1"), make_pod("big", cpu="64"))
            await world.settle()
            assert world.node_of("big") == "a"

    async def test_a_configuration_names_the_plugins_it_wants(self):
        profiles = [{"schedulerName": "mine"}, {"schedulerName": "careful", **enabled("Maintenance")}]
        async with World({"profiles": profiles}, plugins=[Maintenance]) as world:
            world.add(make_node("b", annotations={"maintenance": "planned"}))
            world.add(make_pod("p", scheduler_name="mine"), make_pod("q", scheduler_name="careful"), make_pod("r"))
            await world.settle()
            assert {name: world.node_of(name) for name in "pqr"} == {"p": "b", "q": "", "r": ""}

    async def test_what_a_watch_tells_of_a_node_wakes_who_waits_for_it(self):
        async with World(plugins=[Maintenance]) as world:
            planned = make_node("a", annotations={"maintenance": "planned"})
            world.add(planned, make_pod("p"), make_pod("q"))
            await world.settle()
            assert [world.node_of(name) for name in "pq"] == ["", ""]
            world.delete(world.pod("q"))
            world.update(planned, over := make_node("a"))
            await world.advance(2)
            assert world.node_of("p") == "a"
            world.delete(world.pod("p"), over)
            assert world.cache.node_count() == 0
            assert world.api.pods == {}

    async def test_binds_fail_when_a_test_says_so(self):
        async with World() as world:
            world.add(make_node("a"), make_node("b", unschedulable=True))

            def refuse(pod, node):
                raise RefusedError("forbidden", status=403)

            world.api.before_bind.append(refuse)
            world.add(make_pod("p"))
            await world.settle()
            assert world.node_of("p") == ""
            await world.advance(2)
            assert world.node_of("p") == "a"
            assert world.api.posts == [("uid-p", "a")] * 2

    async def test_who_only_observes_schedules_nothing(self):
        async with World(observe=True) as world:
            world.add(make_node("a"), make_pod("p"), make_pod("q", "a", cpu="1"))
            await world.settle()
            assert world.node_of("p") == ""
            assert world.snapshot().get("a").requested.milli_cpu == 1000


def enabled(plugin):
    return {"plugins": {"multiPoint": {"enabled": [{"name": plugin}]}}}
