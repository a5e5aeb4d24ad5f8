"""What the recorded answers do not cover: expiry by hand, resets, stories, generations, sharing."""

import msgspec
import pytest

from schedcache import cache as cache_module
from schedcache.cache import (
    AlreadyAddedError,
    AlreadyCachedError,
    CacheError,
    NodeInfo,
    NoNodeNameError,
    NotAssumedError,
    NotExpiredError,
    NoUIDError,
    PodIsAssumedError,
    PodNotFoundError,
    SchedulerCache,
    Snapshot,
    UnknownNodeError,
    WrongNodeError,
)
from schedcache.model import Resource
from schedcache.testing import VirtualClock, make_node, make_pod
from tests.cache.support import make_cache, names, uids, updated


def test_every_error_has_a_kind_of_its_own():
    classes = [c for c in vars(cache_module).values() if isinstance(c, type) and issubclass(c, CacheError)]
    kinds = {c.kind for c in classes}
    assert len(kinds) == len(classes) == 17
    assert kinds >= {
        "no_uid",
        "already_cached",
        "already_added",
        "not_found",
        "is_assumed",
        "wrong_node",
        "not_assumed",
    }
    assert kinds >= {"corruption", "pod_not_on_node", "unknown_node", "inconsistent_snapshot", "not_expired"}


def test_messages_name_the_pod_and_the_reason():
    cache = make_cache("n1")
    assumed, confirmed = make_pod("a", "n1"), make_pod("c", "n1")
    cache.assume_pod(assumed)
    cache.add_pod(confirmed)
    cache.add_pod(make_pod("early", "n8"))
    unknown, nameless = make_pod("u", "n1"), make_pod("x", "n1", uid="")
    refused = [
        (AlreadyCachedError, r"uid-a \(default/a\)", lambda: cache.assume_pod(assumed)),
        (AlreadyAddedError, r"uid-c \(default/c\)", lambda: cache.add_pod(confirmed)),
        (PodNotFoundError, "uid-u", lambda: cache.get_pod(unknown)),
        (PodNotFoundError, "uid-u", lambda: cache.remove_pod(unknown)),
        (PodNotFoundError, "uid-u", lambda: cache.forget_pod(unknown)),
        (PodNotFoundError, "uid-u", lambda: cache.update_pod(unknown, unknown)),
        (PodNotFoundError, "uid-u", lambda: cache.expire_pod(unknown)),
        (PodIsAssumedError, "uid-a", lambda: cache.update_pod(assumed, assumed)),
        (WrongNodeError, "'n1', not on 'n2'", lambda: cache.forget_pod(make_pod("a", "n2"))),
        (NotAssumedError, "uid-c", lambda: cache.forget_pod(confirmed)),
        (NotAssumedError, "uid-c", lambda: cache.expire_pod(confirmed)),
        (NotExpiredError, "uid-a", lambda: cache.expire_pod(assumed)),
        (UnknownNodeError, "'n9' is not in the cache", lambda: cache.remove_node(make_node("n9"))),
        (UnknownNodeError, "'n8' is in the cache only because of its pods", lambda: cache.remove_node(make_node("n8"))),
        *((NoUIDError, "default/x", lambda m=m: getattr(cache, m)(nameless)) for m in (
            "assume_pod", "finish_binding", "forget_pod", "add_pod", "remove_pod", "get_pod", "is_assumed_pod", "expire_pod",
        )),
        (NoUIDError, "default/x", lambda: cache.update_pod(nameless, confirmed)),
    ]  # fmt: skip
    for error, message, call in refused:
        with pytest.raises(error, match=message):
            call()
    assert uids(cache.nodes["n1"]) == ["uid-a", "uid-c"]


class TestExpiry:
    def test_is_strictly_after_the_deadline_of_a_finished_binding(self):
        clock = VirtualClock()
        cache = make_cache("n1", ttl=30, clock=clock)
        pod = make_pod("a", "n1")
        cache.assume_pod(pod)
        assert cache.expired_pods(clock.now + 1000) == []
        assert cache.pod_states["uid-a"].binding_finished is False
        cache.finish_binding(pod)
        assert cache.pod_states["uid-a"].binding_finished is True
        assert cache.expired_pods(clock.now + 30) == []
        assert cache.expired_pods(clock.now + 30.001) == [pod]
        assert cache.is_assumed_pod(pod), "asking changes nothing"

    def test_of_one_pod_looks_at_the_clock(self):
        clock = VirtualClock()
        cache = make_cache("n1", ttl=30, clock=clock)
        pods = [make_pod(name, "n1", requests={"cpu": "1"}) for name in "ab"]
        for pod in pods:
            cache.assume_pod(pod)
            cache.finish_binding(pod)
        clock.advance(30)
        with pytest.raises(NotExpiredError):
            cache.expire_pod(pods[0])
        clock.advance(1)
        cache.expire_pod(pods[0])
        assert cache.nodes["n1"].requested.milli_cpu == 1000
        assert cache.cleanup_expired(clock.now) == [pods[1]]
        assert (cache.pod_count(), cache.assumed_pods) == (0, {})

    def test_never_with_a_time_to_live_of_zero(self):
        clock = VirtualClock()
        cache = make_cache("n1", ttl=0, clock=clock)
        pod = make_pod("a", "n1")
        cache.assume_pod(pod)
        cache.finish_binding(pod)
        assert cache.pod_states["uid-a"].binding_finished
        clock.advance(10**9)
        assert cache.expired_pods(clock.now) == cache.cleanup_expired(clock.now) == []
        with pytest.raises(NotExpiredError):
            cache.expire_pod(pod)

    def test_never_of_a_confirmed_pod(self):
        clock = VirtualClock()
        cache = make_cache("n1", clock=clock)
        pod = make_pod("a", "n1")
        cache.assume_pod(pod)
        cache.finish_binding(pod)
        cache.add_pod(pod)
        cache.finish_binding(pod)
        assert cache.cleanup_expired(clock.now + 10**6) == []
        assert cache.pod_states["uid-a"].deadline is None

    def test_the_default_is_the_seconds_of_kube_scheduler_of_old(self):
        assert SchedulerCache().ttl == 30.0


def test_confirmation_shows_the_new_object():
    cache = make_cache("n1")
    cache.assume_pod(make_pod("a", "n1", anti_affinity={"a": "b"}))
    confirmed = make_pod("a", "n1", resource_version=2, anti_affinity={"a": "b"})
    cache.add_pod(confirmed)
    info = cache.nodes["n1"]
    assert (
        list(info.pods) == list(info.pods_with_affinity) == list(info.pods_with_required_anti_affinity) == [confirmed]
    )


@pytest.mark.parametrize(
    "change",
    [
        {"requests": {"cpu": "2", "example.com/gpu": "1"}},
        {"host_ports": [443]},
        {"claims": ["other"]},
        {"anti_affinity": {"app": "x"}},
        {"labels": {"v": "2"}},
        {},
    ],
    ids=str,
)
def test_an_update_counts_exactly_the_new_object(change):
    before = {"requests": {"cpu": "1"}, "host_ports": [80], "claims": ["data"]}
    cache = make_cache("n1")
    cache.add_pod(make_pod("a", "n1", **before))
    new = make_pod("a", "n1", resource_version=2, **{**before, **change})
    cache.update_pod(make_pod("a", "n1"), new)
    expected = make_cache("n1")
    expected.add_pod(new)
    for field in ("requested", "non_zero_requested", "used_ports", "pvc_ref_counts", "pods_by_uid",
                  "pods_with_affinity_by_uid", "pods_with_required_anti_affinity_by_uid"):  # fmt: skip
        assert getattr(cache.nodes["n1"], field) == getattr(expected.nodes["n1"], field)


def resized(cpu):
    """The pod of one spec, as the kubelet reports its container."""
    reported = {"name": "main", "allocatedResources": {"cpu": cpu}}
    return make_pod("a", "n1", cpu="1", status={"containerStatuses": [reported]})


def test_a_resize_counts_without_a_change_of_the_spec():
    cache = make_cache("n1")
    cache.add_pod(resized("1"))
    cache.update_pod(resized("1"), resized("3"))
    assert cache.nodes["n1"].requested.milli_cpu == 3000
    cache.update_pod(resized("3"), resized("1"))
    assert cache.nodes["n1"].requested.milli_cpu == 1000


def test_a_pod_that_comes_in_another_namespace_takes_its_claims_along():
    """No API server does that; a made-up cluster may. The UID is what the cache goes by."""
    cache = make_cache("n1")
    cache.add_pod(make_pod("a", "n1", uid="u", namespace="x", claims=["data"]))
    moved = make_pod("a", "n1", uid="u", namespace="y", claims=["data"])
    cache.update_pod(moved, moved)
    assert cache.nodes["n1"].pvc_ref_counts == {"y/data": 1}
    cache.remove_pod(moved)
    assert cache.nodes["n1"].pvc_ref_counts == {}


@pytest.mark.parametrize("ttl", [-1, float("nan"), float("inf")])
def test_a_time_to_live_is_a_number_of_seconds(ttl):
    with pytest.raises(AttributeError):
        SchedulerCache().ttl = ttl
    with pytest.raises(ValueError, match="ttl: expected seconds, or 0 for no limit, got"):
        SchedulerCache(ttl)


@pytest.mark.parametrize("method", ["add_node", "update_node"])
def test_a_node_without_name_is_refused(method):
    cache = make_cache()
    nameless = msgspec.structs.replace(make_node("n1"), name="")
    with pytest.raises(NoNodeNameError, match=r"^the node has no name$"):
        cache.add_node(nameless) if method == "add_node" else cache.update_node(None, nameless)
    assert (cache.node_count(), len(cache.node_tree)) == (0, 0)


def test_a_node_is_looked_up_as_the_api_has_it():
    cache, node = make_cache(), make_node("n1")
    cache.add_pod(make_pod("a", "n1"))
    assert cache.get_node("n1") is cache.get_node("n2") is None
    cache.add_node(node)
    assert cache.get_node("n1") is node
    cache.remove_node(node)
    assert cache.get_node("n1") is None


def test_pods_that_ask_for_none_of_a_resource_come_and_go():
    cache = make_cache("n1")
    pods = [make_pod(name, "n1", requests={"x.io/y": "0"}) for name in ("a", "b")]
    for pod in pods:
        cache.add_pod(pod)
    for pod in pods:
        cache.remove_pod(pod)
        assert cache.nodes["n1"].requested == Resource()
    assert cache.nodes["n1"].requested.scalar == {}


class TestReset:
    def test_forgets_everything_but_the_named_assumptions(self):
        clock = VirtualClock()
        cache = make_cache("n1", "n2", clock=clock)
        kept, dropped = make_pod("kept", "n1", requests={"cpu": "1"}), make_pod("dropped", "n1")
        for pod in (kept, dropped):
            cache.assume_pod(pod)
        cache.finish_binding(kept)
        cache.add_pod(make_pod("confirmed", "n2"))
        cache.reset(keep_assumed=["uid-kept", "uid-confirmed", "uid-unknown"])
        assert list(cache.pod_states) == list(cache.assumed_pods) == ["uid-kept"]
        assert list(cache.nodes) == ["n1"]
        assert len(cache.node_tree) == 0
        assert cache.expired_pods(clock.now + 31) == [kept]

    def test_snapshots_see_the_change_even_where_the_names_are_the_same(self):
        cache = make_cache("n1", "n2", "n3")
        cache.add_pod(make_pod("a", "n1", requests={"cpu": "1"}, claims=["data"]))
        snapshot = updated(cache)
        generation = snapshot.generation
        cache.reset()
        for name in ("n3", "n1", "n4"):
            cache.add_node(make_node(name))
        updated(cache, snapshot)
        assert names(snapshot.node_info_list) == ["n3", "n1", "n4"]
        assert snapshot.get("n1").requested.milli_cpu == 0
        assert not snapshot.used_pvcs
        assert snapshot.generation > generation

    def test_to_nothing_empties_snapshots(self):
        cache = make_cache("n1")
        snapshot = updated(cache)
        cache.reset()
        assert updated(cache, snapshot).node_info_list == []
        with pytest.raises(UnknownNodeError):
            snapshot.get("n1")

    def test_an_old_snapshot_keeps_what_it_showed(self):
        cache = make_cache("n1")
        cache.add_pod(make_pod("a", "n1"))
        snapshot = updated(cache)
        cache.reset()
        assert uids(snapshot.get("n1")) == ["uid-a"]


def test_a_snapshot_that_was_built_can_follow_a_cache():
    cache = make_cache("n1")
    for _ in range(2):
        built = Snapshot.build([make_pod("x", "n7")], [make_node("n7")])
        updated(cache, built)
        assert names(built.node_info_list) == ["n1"]
        assert not built.used_pvcs
        cache.reset()
        cache.add_node(make_node("n1"))


def test_generations_of_two_caches_never_meet():
    first, second = make_cache("n1"), make_cache("n1")
    assert first.nodes["n1"].generation != second.nodes["n1"].generation
    snapshot = updated(first)
    second.add_pod(make_pod("a", "n1"))
    assert uids(updated(second, snapshot).get("n1")) == ["uid-a"]
    assert uids(updated(first, snapshot).get("n1")) == []


def test_a_dump_does_not_change_any_more():
    cache = make_cache("n1")
    pod = make_pod("a", "n1")
    cache.assume_pod(pod)
    dump = cache.dump()
    cache.forget_pod(pod)
    cache.remove_node(make_node("n1"))
    assert uids(dump.nodes["n1"]) == ["uid-a"]
    assert dump.assumed_pods == {"uid-a"}
    assert dump.generation == dump.nodes["n1"].generation


def test_the_generation_of_a_dump_rises_with_every_change():
    cache = make_cache("n1", "n2")
    pod = make_pod("a", "n9")
    seen = [cache.dump().generation]
    for change in (
        lambda: cache.assume_pod(pod),
        lambda: cache.forget_pod(pod),
        lambda: cache.remove_node(make_node("n2")),
        lambda: cache.update_node(None, make_node("n1")),
        cache.reset,
    ):
        change()
        seen.append(cache.dump().generation)
    assert seen == sorted(set(seen))
    assert cache.dump().generation == seen[-1]


def test_one_generation_of_a_node_is_one_object_for_everybody():
    cache = make_cache("n1", "n2")
    first, second = updated(cache), updated(cache)
    dump = cache.dump()
    assert first.get("n1") is second.get("n1") is dump.nodes["n1"] is cache.nodes["n1"]
    cache.add_pod(make_pod("a", "n1"))
    updated(cache, first)
    assert first.get("n1") is not second.get("n1")
    assert first.get("n2") is second.get("n2")


def test_a_change_of_images_elsewhere_copies_no_node():
    cache = make_cache()
    cache.add_node(make_node("n1", images=[(["a"], 1)]))
    before = cache.dump().nodes["n1"]
    cache.add_node(make_node("n2", images=[(["b"], 1)]))
    assert cache.dump().nodes["n1"] is before
    cache.add_node(make_node("n3", images=[(["a"], 1)]))
    assert cache.dump().nodes["n1"] is not before
    assert before.image_states["a"].num_nodes == 1


def test_every_entry_has_a_generation_of_its_own():
    first, second = NodeInfo("n1"), NodeInfo("n1")
    assert second.generation > first.generation > 0


def test_what_is_shared_cannot_be_changed():
    info = updated(make_cache("n1")).get("n1")
    for change in (lambda: info.add_pod(make_pod("a", "n1")), lambda: info.set_node(None, ()), info.touch):
        with pytest.raises(ValueError, match="shared"):
            change()
    assert (uids(info), info.node is None) == ([], False)
    copy = info.copy()
    copy.add_pod(make_pod("a", "n1", requests={"cpu": "1", "x.io/y": "1"}, host_ports=[1], claims=["c"]))
    assert (info.requested.milli_cpu, info.requested.scalar, info.used_ports, info.pvc_ref_counts) == (0, {}, {}, {})
    assert info.non_zero_requested.milli_cpu == 0
    assert (copy.generation > info.generation, copy.image_states) == (True, info.image_states)


def test_a_node_without_allocatable_for_what_runs_on_it_stays():
    cache = make_cache()
    cache.add_node(make_node("g1", capacity={"nvidia.com/gpu": "4"}))
    cache.add_pod(make_pod("trainer", "g1", requests={"nvidia.com/gpu": "4"}))
    snapshot = updated(cache)
    cache.update_node(None, make_node("g1", capacity={"nvidia.com/gpu": "0"}))
    columns = updated(cache, snapshot).columns
    gpu, row = columns.resource_index["nvidia.com/gpu"], columns.row_of["g1"]
    assert names(snapshot.node_info_list) == ["g1"]
    assert columns.allocatable[gpu, row] - columns.requested[gpu, row] == -4
    assert columns.allocatable[0, row] - columns.requested[0, row] == 4000


def test_repr_names_the_node():
    assert repr(make_cache("n1").nodes["n1"]).startswith("NodeInfo('n1', pods=0, generation=")
