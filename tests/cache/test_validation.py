"""Validation finds every kind of damage, and finds nothing in a sound cache."""

import re

import pytest

from schedcache.cache import CacheCorruptedError, ClusterObjects, SchedulerCache, Snapshot, Stories
from schedcache.cache.checks.validation import check_snapshot
from schedcache.model.objects import Service
from schedcache.testing import make_node, make_pod
from tests.cache.damage import CACHE_DAMAGE, SNAPSHOT_DAMAGE, furnished, row_of_n1
from tests.cache.support import make_cache, updated


def test_a_sound_cache_passes():
    cache, snapshot = furnished()
    cache.check(snapshot)


@pytest.mark.parametrize(("message", "damage"), CACHE_DAMAGE.values(), ids=CACHE_DAMAGE)
def test_damage_to_the_cache_is_found_and_named(message, damage):
    cache, _ = furnished()
    damage(cache)
    with pytest.raises(CacheCorruptedError, match=re.escape(message)):
        cache.check()


@pytest.mark.parametrize(("message", "damage"), SNAPSHOT_DAMAGE.values(), ids=SNAPSHOT_DAMAGE)
def test_damage_to_a_snapshot_is_found_and_named(message, damage):
    cache, snapshot = furnished()
    damage(snapshot)
    with pytest.raises(CacheCorruptedError, match=re.escape(message)):
        cache.check(snapshot)


@pytest.mark.parametrize("damage", [damage for _, damage in SNAPSHOT_DAMAGE.values()], ids=SNAPSHOT_DAMAGE)
def test_a_rebuild_of_the_cache_from_the_same_objects_mends_the_snapshot(damage):
    cache, snapshot = furnished()
    damage(snapshot)
    nodes = [info.node for info in cache.nodes.values() if info.node]
    pods = [state.pod for state in cache.pod_states.values()]
    cache.reset()
    for node in nodes:
        cache.add_node(node)
    for pod in pods:
        cache.add_pod(pod)
    cache.check(updated(cache, snapshot))


def test_a_difference_is_told_once_until_the_cache_is_reset_and_no_call_is_cut_short():
    told = []
    cache = SchedulerCache(validate=True, on_corruption=told.append)
    cache.add_node(make_node("n1"))
    cache.nodes["n1"].requested.milli_cpu = 7
    cache.assume_pod(make_pod("a", "n1", requests={"cpu": "1"}))
    cache.finish_binding(make_pod("a", "n1"))
    cache.update_snapshot(Snapshot())
    assert [error.kind for error in told] == ["corruption"]
    cache.reset(keep_assumed=["uid-a"])
    cache.nodes["n1"].requested.milli_cpu = 7
    cache.add_node(make_node("n1"))
    assert len(told) == 2
    cache.forget_pod(make_pod("a", "n1"))
    assert cache.pod_count() == 0


def test_a_difference_in_a_snapshot_is_told():
    told = []
    cache, snapshot = SchedulerCache(validate=True, on_corruption=told.append), Snapshot()
    cache.add_node(make_node("n1"))
    cache.update_snapshot(snapshot)
    snapshot.columns.host_ports["TCP", 80] = {0: ("0.0.0.0",)}
    cache.update_snapshot(snapshot)
    cache.update_snapshot(snapshot)
    assert [str(error).split(":")[0] for error in told] == ["host ports"]


def test_a_snapshot_is_brought_up_to_date_for_a_check():
    cache = make_cache("n1")
    snapshot = updated(cache)
    cache.add_pod(make_pod("a", "n1"))
    cache.check(snapshot)
    assert list(snapshot.get("n1").pods_by_uid) == ["uid-a"]
    snapshot.assume(make_pod("b", "n1"))
    cache.check(snapshot)
    assert not snapshot.assumed
    cache.add_pod(make_pod("early", "n9"))
    cache.check(snapshot)
    cache.remove_node(make_node("n1"))
    cache.remove_pod(make_pod("a", "n1"))
    cache.check(snapshot)
    assert snapshot.num_nodes == 0


def test_a_check_that_trips_over_damage_has_found_it():
    cache, _ = furnished()
    cache.pod_states["uid-a"].pod = None
    with pytest.raises(CacheCorruptedError, match="the check failed: AttributeError"):
        cache.check()
    objects = ClusterObjects()
    objects.add("Service", Service(name="s", namespace="a"))
    objects._stores["Service"]._indexes.clear()
    with pytest.raises(CacheCorruptedError, match="the check failed: KeyError"):
        objects.check()


def test_a_clean_up_is_validated_when_it_is_done():
    cache, _ = furnished()
    cache.assume_pod(make_pod("c", "n2"))
    for name in "bc":
        cache.finish_binding(make_pod(name, "n2"))
    cache.pod_states["uid-early"].deadline = 7.0
    with pytest.raises(CacheCorruptedError, match="deadline of confirmed pod uid-early"):
        cache.cleanup_expired(cache._clock() + 31)
    assert not cache.assumed_pods


def test_pods_assumed_in_a_snapshot_do_not_outlive_its_update():
    cache, snapshot = furnished()
    snapshot.forget_all = lambda: None
    snapshot._assumed["uid-thought"] = make_pod("thought", "n2")
    with pytest.raises(
        CacheCorruptedError, match=r"^pods assumed in the snapshot alone: expected {}, found {'uid-thought'"
    ):
        cache.update_snapshot(snapshot)


def test_an_updated_snapshot_is_as_new_as_the_newest_node():
    cache, snapshot = furnished()
    snapshot.generation = 1
    with pytest.raises(CacheCorruptedError, match=r"^the snapshot is of generation \d+ or later: does not hold$"):
        check_snapshot(cache._entries, snapshot)


def test_an_update_in_pieces_is_validated_where_asked_to():
    cache, snapshot = furnished()
    snapshot.columns.pod_count[row_of_n1(snapshot)] = 9
    with pytest.raises(CacheCorruptedError, match="pod_count"):
        list(cache.update_snapshot_in_pieces(snapshot))
    cache.validate = False
    list(cache.update_snapshot_in_pieces(snapshot))


def test_a_message_tells_the_nodes_that_differ_and_no_others():
    cache = make_cache(*(f"n{i}" for i in range(300)))
    snapshot = updated(cache)
    snapshot.columns.pod_count[7] = 5
    with pytest.raises(CacheCorruptedError, match=r"^pod_count: expected \{'n7': 0\}, found \{'n7': 5\}$"):
        cache.check(snapshot)
    snapshot.columns.pod_count[:] = 5
    snapshot.columns.infos[0] = cache.nodes["n1"]
    with pytest.raises(CacheCorruptedError) as error:
        cache.check(snapshot)
    assert len(str(error.value)) < 1000


def test_a_message_says_what_was_expected_and_found():
    cache, _ = furnished()
    cache.pod_states["uid-a"].deadline = 7.0
    with pytest.raises(CacheCorruptedError, match=r"deadline of confirmed pod uid-a: expected None, found 7\.0"):
        cache.check()


CALLS = {
    "assume_pod": lambda c: c.assume_pod(make_pod("x", "n1")),
    "finish_binding": lambda c: c.finish_binding(make_pod("b", "n2")),
    "forget_pod": lambda c: c.forget_pod(make_pod("b", "n2")),
    "add_pod": lambda c: c.add_pod(make_pod("b", "n2")),
    "update_pod": lambda c: c.update_pod(make_pod("a", "n1"), make_pod("a", "n1")),
    "remove_pod": lambda c: c.remove_pod(make_pod("a", "n1")),
    "add_node": lambda c: c.add_node(make_node("n4")),
    "update_node": lambda c: c.update_node(None, make_node("n1")),
    "remove_node": lambda c: c.remove_node(make_node("n2")),
    "refused remove_node": lambda c: c.remove_node(make_node("n9")),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_validates_where_asked_to(call):
    cache, _ = furnished()
    cache.pod_states["uid-early"].deadline = 7.0
    with pytest.raises(CacheCorruptedError, match="deadline"):
        call(cache)


def test_a_snapshot_is_validated_where_asked_to():
    cache, snapshot = furnished()
    snapshot.columns.pod_count[row_of_n1(snapshot)] = 9
    with pytest.raises(CacheCorruptedError, match="pod_count"):
        cache.update_snapshot(snapshot)
    cache.validate = False
    cache.update_snapshot(snapshot)


def test_a_reset_is_validated_where_asked_to():
    cache, _ = furnished()
    cache.assumed_pods["uid-b"].pod = make_pod("other", "n2")
    with pytest.raises(CacheCorruptedError, match="UID"):
        cache.reset(["uid-b"])


def _move(cache, name, claimed):
    """The pod of the node says that it is on another one, and so does its state."""
    pod = make_pod("a", claimed)
    cache.nodes[name].pods_by_uid["uid-a"] = pod
    cache.pod_states["uid-a"].pod = pod


class Slow:
    """A clock by which each look at it takes time, so that a check of everything takes the time of three calls."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        self.now += 0.0085
        return self.now


class TestLargeClusters:
    @pytest.fixture
    def cache(self):
        """Two nodes and pods, where a check of everything has just taken the time of three calls."""
        cache = SchedulerCache(clock=Slow(), stories=Stories())
        for name, pod in (("n1", "a"), ("n2", "b")):
            cache.add_node(make_node(name))
            cache.add_pod(make_pod(pod, name))
        cache.validate = True
        cache.update_node(None, make_node("n1"))
        return cache

    def test_check_everything_every_so_many_calls(self, cache):
        cache.pod_states["uid-b"].deadline = 7.0
        for _ in range(3):
            cache.update_node(None, make_node("n1"))
        for _ in range(2):
            with pytest.raises(CacheCorruptedError, match="deadline"):
                cache.update_node(None, make_node("n1"))

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda cache: setattr(cache.nodes["n1"].requested, "memory", 5), "requested of node n1: expected"),
            (
                lambda cache: setattr(cache.pod_states["uid-a"], "pod", make_pod("a", "n1")),
                "uid-a on node n1 is the cached one",
            ),
            (lambda cache: cache.pod_states.pop("uid-a"), "pod uid-a on node n1 is the cached one"),
            (lambda cache: _move(cache, "n1", "n2"), "node of pod uid-a: expected 'n1', found 'n2'"),
            (lambda cache: cache.node_tree.remove("n2"), "n2 in the node tree: expected True, found False"),
        ],
        ids=["sum", "pod", "state", "node name", "tree"],
    )
    def test_check_the_changed_node_each_time(self, cache, damage, message):
        damage(cache)
        changed = "n2" if "n2" not in cache.node_tree else "n1"
        with pytest.raises(CacheCorruptedError, match=message):
            cache.assume_pod(make_pod("c", changed))

    def test_check_the_node_of_a_removal_that_is_refused(self, cache):
        cache.assume_pod(make_pod("c", "n9"))
        cache.nodes["n9"].requested.memory = 5
        with pytest.raises(CacheCorruptedError, match="requested of node n9: expected"):
            cache.remove_node(make_node("n9"))

    def test_check_nothing_of_a_node_that_has_gone(self, cache):
        cache.assume_pod(make_pod("c", "n9"))
        cache.forget_pod(make_pod("c", "n9"))
        assert "n9" not in cache.nodes

    def test_check_the_node_that_a_confirmation_leaves(self, cache):
        cache.assume_pod(make_pod("c", "n1"))
        cache.nodes["n1"].requested.memory = 5
        with pytest.raises(CacheCorruptedError, match="requested of node n1: expected"):
            cache.add_pod(make_pod("c", "n2"))

    @pytest.mark.parametrize("damaged", ["n1", "n2"])
    def test_check_the_nodes_of_a_pod_and_its_successor(self, cache, damaged):
        cache.assume_pod(make_pod("c", "n2"))
        cache.nodes[damaged].requested.memory = 5
        with pytest.raises(CacheCorruptedError, match=f"requested of node {damaged}: expected"):
            cache.update_pod(make_pod("a", "n1"), make_pod("a", "n3", uid="uid-c"))
        assert cache.get_pod(make_pod("a", uid="uid-c")).node_name == "n3", "the call has done its work"

    def test_check_a_snapshot_every_so_many_updates(self, cache):
        cache._clock.now = 0.0
        snapshot = updated(cache)
        snapshot.columns.pod_count[:] = 9
        cache.update_snapshot(snapshot)
        with pytest.raises(CacheCorruptedError, match="pod_count"):
            cache.update_snapshot(snapshot)


def test_nothing_is_validated_otherwise():
    assert SchedulerCache().validate is False
    cache, _ = furnished()
    cache.validate = False
    cache.pod_states["uid-early"].deadline = 7.0
    cache.assume_pod(make_pod("x", "n1"))
    cache.finish_binding(make_pod("x", "n1"))
    assert len(cache.cleanup_expired(cache._clock() + 31)) == 1
    cache.reset()
