"""Arguments that a correct event source never hands over, and the answers that keep the cache right all the same."""

import pytest

from schedcache.cache import (
    AlreadyAddedError,
    CacheCorruptedError,
    NoNodeNameError,
    NoUIDError,
    PodNotFoundError,
    PodNotOnNodeError,
    Snapshot,
)
from schedcache.testing import VirtualClock, make_node, make_pod
from tests.cache.support import make_cache, names, uids, updated


def test_the_last_pod_of_a_ghost_cannot_be_taken_twice():
    cache = make_cache("n1")
    pod = make_pod("a", "n1")
    cache.add_pod(pod)
    cache.remove_node(make_node("n1"))
    cache.remove_pod(pod)
    with pytest.raises(PodNotFoundError):
        cache.remove_pod(pod)
    assert cache.node_count() == 0


def test_an_aggregate_without_the_pod_says_so_and_stays():
    info = Snapshot.build([make_pod("a", "n1")], [make_node("n1")]).get("n1").copy()
    with pytest.raises(PodNotOnNodeError, match="uid-b"):
        info.remove_pod(make_pod("b", "n1"))
    assert uids(info) == ["uid-a"]


def test_the_old_object_of_an_update_does_not_decide_what_is_taken_back():
    cache = make_cache("n1", "n2")
    cache.add_pod(make_pod("a", "n1", requests={"cpu": "1"}))
    cache.add_pod(make_pod("b", "n2"))
    cache.remove_node(make_node("n2"))
    for wrong in ("n2", "n9", ""):
        cache.update_pod(make_pod("a", wrong), make_pod("a", "n1", requests={"cpu": "2"}))
        assert cache.nodes["n1"].requested.milli_cpu == 2000
        assert uids(cache.nodes["n1"]) == ["uid-a"]
        assert uids(cache.nodes["n2"]) == ["uid-b"]
    assert cache.pod_count() == 2


@pytest.mark.parametrize("known", [True, False])
def test_a_node_with_a_zone_can_be_updated_without_its_old_object(known):
    cache = make_cache()
    if known:
        cache.add_node(make_node("n1", zone="z1"))
    cache.update_node(None, make_node("n1", zone="z2"))
    assert cache.node_tree.zones == {":\0:z2": ["n1"]}
    assert names(updated(cache).node_info_list) == ["n1"]


def test_adding_a_node_again_with_another_zone_moves_it():
    cache = make_cache()
    cache.add_node(make_node("n1", zone="z1"))
    snapshot = updated(cache)
    cache.add_node(make_node("n1", zone="z2"))
    assert cache.node_tree.zones == {":\0:z2": ["n1"]}
    assert names(updated(cache, snapshot).node_info_list) == ["n1"]
    cache.remove_node(make_node("n1", zone="z1"))
    assert updated(cache, snapshot).node_info_list == []


def test_removing_a_node_gives_up_the_images_it_was_counted_with():
    cache = make_cache()
    for name in ("n1", "n2"):
        cache.add_node(make_node(name, images=[(["a:1"], 100)]))
    cache.remove_node(make_node("n1"))
    assert cache.dump().nodes["n2"].image_states["a:1"].num_nodes == 1
    cache.remove_node(make_node("n2", images=[(["b:1"], 100)]))
    assert cache.image_states.states == {}


def test_image_counts_of_a_snapshot_are_as_old_as_the_nodes_own_change():
    cache = make_cache()
    cache.add_node(make_node("n1", images=[(["a:1"], 100)]))
    snapshot = updated(cache)
    cache.add_node(make_node("n2", images=[(["a:1"], 100)]))
    updated(cache, snapshot)
    assert snapshot.get("n1").image_states["a:1"].num_nodes == 1
    assert snapshot.get("n2").image_states["a:1"].num_nodes == 2
    assert updated(cache).get("n1").image_states["a:1"].num_nodes == 2
    assert snapshot.get("n1").image_states["a:1"].num_nodes == 1
    cache.add_pod(make_pod("a", "n1"))
    assert updated(cache, snapshot).get("n1").image_states["a:1"].num_nodes == 2


def test_a_ghost_shows_records_that_were_given_up_as_empty():
    """As in kube-scheduler: the other node's update makes a record of its own, and leaves the ghost the old one."""
    cache, image = make_cache(), [(["a:1"], 100)]
    for name in ("n1", "n2"):
        cache.add_node(make_node(name, images=image))
    cache.add_pod(make_pod("p", "n1"))
    cache.remove_node(make_node("n1"))
    ghost = cache.dump().nodes["n1"]
    assert ghost.image_states["a:1"].num_nodes == 1
    cache.update_node(None, make_node("n2", images=image, resource_version=2))
    assert cache.dump().nodes["n1"].image_states["a:1"].num_nodes == 0
    assert cache.dump().nodes["n2"].image_states["a:1"].num_nodes == 1
    assert ghost.image_states["a:1"].num_nodes == 1
    assert cache.dump().nodes["n1"] is cache.dump().nodes["n1"] is cache.nodes["n1"]


def test_a_claim_is_used_while_a_listed_node_uses_it():
    cache = make_cache("n1", "n2")
    shared = [make_pod(name, node, claims=["data"]) for name, node in (("a", "n1"), ("b", "n2"))]
    for pod in shared:
        cache.add_pod(pod)
    early, late = updated(cache), Snapshot()
    cache.remove_node(make_node("n1"))
    assert set(updated(cache, early).used_pvcs) == {"default/data"}
    cache.remove_pod(shared[0])
    assert set(updated(cache, early).used_pvcs) == {"default/data"}
    assert set(updated(cache, late).used_pvcs) == {"default/data"}
    cache.add_pod(make_pod("c", "n9", claims=["other"]))
    cache.remove_pod(shared[1])
    for snapshot in (early, late):
        assert set(updated(cache, snapshot).used_pvcs) == set()


class TestAnUpdateFromOneUIDToAnother:
    def test_on_one_node(self):
        cache = make_cache("n1")
        cache.add_pod(make_pod("web", "n1", uid="u1", requests={"cpu": "1"}))
        new = make_pod("web", "n1", uid="u2", requests={"cpu": "2"})
        cache.update_pod(make_pod("web", "n1", uid="u1"), new)
        assert cache.get_pod(new) is new
        assert uids(cache.nodes["n1"]) == ["u2"]
        assert cache.nodes["n1"].requested.milli_cpu == 2000
        with pytest.raises(PodNotFoundError):
            cache.get_pod(make_pod("web", "n1", uid="u1"))

    def test_to_another_node(self):
        cache = make_cache("n1", "n2")
        cache.add_pod(make_pod("web", "n1", uid="u1"))
        cache.update_pod(make_pod("web", "n1", uid="u1"), make_pod("web", "n2", uid="u2"))
        assert (uids(cache.nodes["n1"]), uids(cache.nodes["n2"])) == ([], ["u2"])

    def test_unassigned_is_the_deletion_alone(self):
        cache = make_cache("n1")
        cache.add_pod(make_pod("web", "n1", uid="u1"))
        cache.update_pod(make_pod("web", "n1", uid="u1"), make_pod("web", uid="u2", resource_version=5))
        assert cache.pod_count() == 0
        (story,) = [s for s in cache.stories.of(uid="u1") if s.operation != "add_pod"]
        assert (story.operation, story.node, story.cause) == ("remove_pod", "n1", "5")
        assert uids(cache.nodes["n1"]) == []

    @pytest.mark.parametrize("assumed_on", ["n1", "n2"])
    def test_confirms_an_assumption(self, assumed_on):
        cache = make_cache("n1", "n2")
        cache.add_pod(make_pod("web", "n1", uid="u1"))
        new = make_pod("web", "n2", uid="u2")
        cache.assume_pod(make_pod("web", assumed_on, uid="u2"))
        cache.update_pod(make_pod("web", "n1", uid="u1"), new)
        assert (uids(cache.nodes["n1"]), uids(cache.nodes["n2"])) == ([], ["u2"])
        assert not cache.is_assumed_pod(new)
        assert cache.get_pod(new) is new

    def test_to_a_pod_confirmed_already_is_refused(self):
        cache = make_cache("n1")
        for uid in ("u1", "u2"):
            cache.add_pod(make_pod("web", "n1", uid=uid))
        with pytest.raises(AlreadyAddedError, match=r"u2 \(default/web\)"):
            cache.update_pod(make_pod("web", "n1", uid="u1"), make_pod("web", "n1", uid="u2"))
        assert uids(cache.nodes["n1"]) == ["u1", "u2"]

    def test_to_no_uid_is_refused(self):
        cache = make_cache("n1")
        cache.add_pod(make_pod("web", "n1", uid="u1"))
        with pytest.raises(NoUIDError):
            cache.update_pod(make_pod("web", "n1", uid="u1"), make_pod("web", "n1", uid=""))
        assert uids(cache.nodes["n1"]) == ["u1"]


def test_no_error_inside_is_swallowed():
    cache = make_cache("n1", "n2")
    cache.assume_pod(make_pod("a", "n1"))
    cache.validate = False
    del cache.nodes["n1"].pods_by_uid["uid-a"]
    with pytest.raises(PodNotOnNodeError):
        cache.add_pod(make_pod("a", "n2"))
    assert uids(cache.nodes["n2"]) == []


@pytest.mark.parametrize("method", ["forget_pod", "remove_pod", "add_pod", "finish_binding"])
def test_an_entry_that_is_missing_is_told_and_not_made_up(method):
    cache = make_cache("n1")
    pod = make_pod("a", "n1")
    cache.assume_pod(pod)
    cache.validate = False
    del cache.nodes["n1"]
    with pytest.raises(PodNotOnNodeError, match=r"uid-a \(default/a\) is cached on node 'n1', which has no entry$"):
        getattr(cache, method)(pod)
    assert "n1" not in cache.nodes


def test_a_known_node_that_is_updated_before_it_was_added_is_listed():
    cache = make_cache()
    cache.add_pod(make_pod("a", "n1"))
    cache.update_node(make_node("n1"), make_node("n1"))
    assert names(updated(cache).node_info_list) == ["n1"]


def test_a_ghost_that_is_updated_is_a_node_again():
    cache = make_cache("n1", "n2")
    cache.add_pod(make_pod("a", "n1"))
    snapshot = updated(cache)
    cache.remove_node(make_node("n1"))
    assert names(updated(cache, snapshot).node_info_list) == ["n2"]
    cache.update_node(make_node("n1"), make_node("n1"))
    assert names(updated(cache, snapshot).node_info_list) == ["n2", "n1"]
    assert uids(snapshot.get("n1")) == ["uid-a"]


@pytest.mark.parametrize("zone", ["", "z2"])
def test_a_node_is_removed_whatever_zone_the_argument_names(zone):
    cache = make_cache()
    cache.add_node(make_node("n1", zone="z1"))
    cache.add_node(make_node("n2", zone="z1"))
    snapshot = updated(cache)
    cache.remove_node(make_node("n1", zone=zone))
    assert names(updated(cache, snapshot).node_info_list) == ["n2"]
    assert cache.node_tree.list() == ["n2"]


def test_a_stale_old_object_does_not_hide_a_change_of_zone():
    cache = make_cache()
    cache.add_node(make_node("n1", zone="z1"))
    cache.update_node(make_node("n1", zone="z2"), make_node("n1", zone="z2"))
    assert cache.node_tree.zones == {":\0:z2": ["n1"]}
    cache.remove_node(make_node("n1", zone="z2"))
    assert cache.node_count() == 0


def test_forgetting_takes_back_what_was_counted_not_what_the_argument_says():
    cache = make_cache("n1")
    cache.assume_pod(make_pod("a", "n1", anti_affinity={"app": "x"}, requests={"cpu": "1"}, host_ports=[80]))
    cache.forget_pod(make_pod("a", "n1"))
    info = cache.nodes["n1"]
    assert (uids(info), info.requested.milli_cpu, info.used_ports) == ([], 0, {})
    assert not info.pods_with_affinity
    assert not info.pods_with_required_anti_affinity


def test_a_port_is_free_when_its_last_pod_has_gone():
    cache = make_cache("n1")
    pods = [make_pod(name, "n1", host_ports=[80, port]) for name, port in (("a", 81), ("b", 82))]
    for pod in pods:
        cache.add_pod(pod)
    cache.remove_pod(pods[0])
    assert cache.nodes["n1"].used_ports == {("0.0.0.0", "TCP", 80): 1, ("0.0.0.0", "TCP", 82): 1}
    assert set(updated(cache).columns.host_ports) == {("TCP", 80), ("TCP", 82)}
    cache.remove_pod(pods[1])
    assert cache.nodes["n1"].used_ports == {}
    assert updated(cache).columns.host_ports == {}


@pytest.mark.parametrize("method", ["assume_pod", "add_pod"])
def test_a_pod_without_node_is_on_no_node(method):
    cache = make_cache("n1")
    with pytest.raises(NoNodeNameError, match="default/a"):
        getattr(cache, method)(make_pod("a"))
    assert (cache.node_count(), cache.pod_count()) == (1, 0)


def test_a_confirmation_without_node_changes_nothing():
    cache = make_cache("n1")
    assumed = make_pod("a", "n1")
    cache.assume_pod(assumed)
    with pytest.raises(NoNodeNameError):
        cache.add_pod(make_pod("a"))
    assert cache.is_assumed_pod(assumed)
    assert uids(cache.nodes["n1"]) == ["uid-a"]


@pytest.mark.parametrize("node", ["n2", ""])
def test_an_update_to_another_node_is_a_corruption_and_changes_nothing(node):
    cache = make_cache("n1", "n2")
    pod = make_pod("a", "n1")
    cache.add_pod(pod)
    with pytest.raises(
        CacheCorruptedError, match=rf"default/a\) is cached on 'n1' but its update is on '{node}'"
    ) as error:
        cache.update_pod(pod, make_pod("a", node))
    assert error.value.kind == "corruption"
    assert cache.get_pod(pod) is pod
    assert uids(cache.nodes["n1"]) == ["uid-a"]


def test_a_deletion_on_another_node_is_a_corruption_a_tombstone_without_node_is_not():
    cache = make_cache("n1", "n2")
    cache.add_pod(make_pod("a", "n1"))
    with pytest.raises(CacheCorruptedError, match=r"default/a\) is cached on 'n1' but was deleted on 'n2'"):
        cache.remove_pod(make_pod("a", "n2"))
    assert cache.pod_count() == 1
    cache.remove_pod(make_pod("a"))
    assert cache.pod_count() == 0


def _lost(cache, name="a"):
    """The node's aggregate lacks the pod that the cache has on it."""
    info = cache.nodes["n1"] = cache.nodes["n1"].copy()
    info.remove_pod(make_pod(name, "n1"))


class TestAContradictionInside:
    """A node that does not count its pod is told before anything is changed."""

    @pytest.fixture
    def cache(self):
        cache = make_cache("n1", clock=VirtualClock())
        cache.assume_pod(make_pod("a", "n1"))
        cache.validate = False
        return cache

    def test_finishes_no_binding(self, cache):
        _lost(cache)
        with pytest.raises(PodNotOnNodeError, match=r"uid-a .*'n1', which does not count it"):
            cache.finish_binding(make_pod("a", "n1"))
        assert not cache.pod_states["uid-a"].binding_finished

    def test_removes_no_predecessor(self, cache):
        cache.add_pod(make_pod("web", "n2", uid="u1"))
        _lost(cache)
        with pytest.raises(PodNotOnNodeError):
            cache.update_pod(make_pod("web", "n2", uid="u1"), make_pod("web", "n1", uid="uid-a"))
        assert uids(cache.nodes["n2"]) == ["u1"]

    def test_cleans_up_nothing(self, cache):
        cache.assume_pod(make_pod("b", "n1"))
        for name in "ba":
            cache.finish_binding(make_pod(name, "n1"))
        _lost(cache, "b")
        with pytest.raises(PodNotOnNodeError):
            cache.cleanup_expired(cache._clock.now + 31)
        assert list(cache.pod_states) == ["uid-a", "uid-b"]
