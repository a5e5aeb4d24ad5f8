"""Validation finds every kind of damage, and finds nothing in a sound cache."""

import pytest

from schedcache.cache import CacheCorruptedError, ClusterObjects, SchedulerCache, Snapshot, validator
from schedcache.cache.image_states import ImageStateSummary
from schedcache.model import Resource
from schedcache.model.objects import Service
from schedcache.model.storage import ClaimRef, PersistentVolume
from tests.cache.support import make_cache, make_node, make_pod, updated


def furnished():
    """A cache with a bit of everything, and its snapshot, both sound."""
    cache = make_cache()
    cache.add_node(make_node("n1", zone="a", images=[(["i"], 5)], labels={"disk": "ssd"}))
    cache.add_node(make_node("n2", zone="b", images=[(["i"], 5)], taints=[{"key": "k", "effect": "NoSchedule"}]))
    cache.add_node(make_node("gone"))
    cache.add_pod(
        make_pod(
            "a", "n1", requests={"cpu": "1", "x.io/y": "1"}, host_ports=[80], claims=["c"], anti_affinity={"x": "y"}
        )
    )
    cache.assume_pod(make_pod("b", "n2"))
    cache.add_pod(make_pod("early", "n9"))
    snapshot = updated(cache)
    snapshot.columns.label_ids("disk")
    cache.remove_node(make_node("gone"))
    updated(cache, snapshot)
    assert snapshot.have_pods_with_affinity_list
    return cache, snapshot


def test_a_sound_cache_passes():
    cache, snapshot = furnished()
    cache.check(snapshot)


def _info(cache):
    info = cache.nodes["n1"] = cache.nodes["n1"].copy()
    return info


CACHE_DAMAGE = {
    "requested": lambda c: setattr(_info(c).requested, "memory", 1),
    "requested scalar": lambda c: _info(c).requested.scalar.update({"x.io/y": 2}),
    "non-zero requested": lambda c: setattr(_info(c).non_zero_requested, "milli_cpu", 1),
    "ports": lambda c: _info(c).used_ports.update({("0.0.0.0", "TCP", 80): 2}),
    "claims": lambda c: _info(c).pvc_ref_counts.clear(),
    "pods": lambda c: _info(c).pods_by_uid.update({"x": make_pod("x", "n1")}),
    "another object of a pod": lambda c: _info(c).pods_by_uid.update({"uid-a": make_pod("a", "n1")}),
    "affinity pods": lambda c: _info(c).pods_with_affinity_by_uid.clear(),
    "anti-affinity pods": lambda c: _info(c).pods_with_required_anti_affinity_by_uid.clear(),
    "allocatable": lambda c: setattr(_info(c), "allocatable", Resource(1)),
    "node object": lambda c: setattr(_info(c), "node", make_node("other")),
    "name": lambda c: setattr(_info(c), "name", "n7"),
    "ghost without pods": lambda c: c.nodes.__setitem__("n9", type(_info(c))("n9")),
    "entry missing": lambda c: c.nodes.pop("n9"),
    "order of the list": lambda c: c.nodes.move_to_end("n1", last=False),
    "tree lacks a node": lambda c: c.node_tree.remove("n1"),
    "tree has a node too many": lambda c: c.node_tree.set("n9", ""),
    "zone in the tree": lambda c: c.node_tree.set("n1", "elsewhere"),
    "size of the tree": lambda c: c.node_tree._zone_of.update({"x": "a"}),
    "pod state missing": lambda c: c.pod_states.pop("uid-a"),
    "pod state under another UID": lambda c: c.pod_states.update({"x": c.pod_states.pop("uid-a")}),
    "deadline of a confirmed pod": lambda c: setattr(c.pod_states["uid-a"], "deadline", 1.0),
    "deadline before the binding has finished": lambda c: setattr(c.pod_states["uid-b"], "deadline", 1.0),
    "assumed pod not cached": lambda c: c.assumed_pods.update({"x": c.pod_states["uid-a"]}),
    "image count": lambda c: c.image_states.states["i"].nodes.add("n9"),
    "image summary": lambda c: setattr(c.image_states.states["i"], "summary", c.image_states.states["i"].summary.__class__(5, 1)),
    "image size": lambda c: setattr(c.image_states.states["i"], "size", 6),
    "image too many": lambda c: c.image_states.states.update({"j": c.image_states.states["i"]}),
    "images shown": lambda c: setattr(c.nodes["n1"], "image_states", {"i": ImageStateSummary(5, 1)}),
    "image record of a node": lambda c: setattr(_info(c), "image_refs", ()),
    "image record replaced": lambda c: c.image_states.states.update({"i": _clone(c.image_states.states["i"])}),
}  # fmt: skip


def _clone(state):
    clone = type(state)(state.name, state.size)
    clone.nodes, clone.summary = set(state.nodes), state.summary
    return clone


@pytest.mark.parametrize("damage", CACHE_DAMAGE.values(), ids=CACHE_DAMAGE)
def test_damage_to_the_cache_is_found(damage):
    cache, _ = furnished()
    damage(cache)
    with pytest.raises(CacheCorruptedError):
        cache.check()


def _row(s):
    return s.columns.row_of["n1"]


def _column(name, value=99):
    return lambda s: getattr(s.columns, name).__setitem__((..., _row(s)), value)


SNAPSHOT_DAMAGE = {
    **{name: _column(name) for name in (
        "allocatable", "requested", "non_zero_requested", "pod_count", "allowed_pods", "affinity_pods",
        "required_anti_affinity_pods",
    )},
    "unschedulable": _column("unschedulable", True),
    "taints": lambda s: s.columns.taint_set.__setitem__(_row(s), s.columns.taint_set[s.columns.row_of["n2"]]),
    "label": lambda s: s.columns.label_ids("disk").__setitem__(_row(s), -1),
    "host ports": lambda s: s.columns.host_ports.clear(),
    "order": lambda s: setattr(s.columns, "order", s.columns.order[:1]),
    "order twice": lambda s: setattr(s.columns, "order", s.columns.order[[0, 0]]),
    "map": lambda s: s.node_info_map.pop("n1"),
    "row": lambda s: s.columns.row_of.pop("n1"),
    "object in the row": lambda s: s.columns.infos.__setitem__(_row(s), s.get("n1").copy()),
    "old object": lambda s: s.node_info_map.__setitem__("n1", s.get("n2")),
    "thawed object": lambda s: setattr(s.get("n1"), "frozen", False),
    "stale list": lambda s: setattr(s, "_list", s.node_info_list[:1]),
    "claims": lambda s: s._claims.update({"default/c": 2}),
    "affinity list": lambda s: s._derived["affinity"][1].clear(),
    "anti-affinity list": lambda s: (s.have_pods_with_required_anti_affinity_list, s._derived["anti-affinity"][1].clear()),
    "unschedulable free row": lambda s: s.columns.unschedulable.__setitem__(s.columns._free[0], True),
    "non-zero requests of a free row": lambda s: s.columns.non_zero_requested.__setitem__((0, s.columns._free[0]), 1),
    "taints of a free row": lambda s: s.columns.taint_set.__setitem__(s.columns._free[0], 0),
    "taint set twice": lambda s: s.columns.taint_sets.append(s.columns.taint_sets[0]),
    "label value twice": lambda s: s.columns.label_values("disk").append("ssd"),
    "free row in use": lambda s: s.columns.pod_count.__setitem__(s.columns._free[0], 1),
    "label of a free row": lambda s: s.columns.label_ids("disk").__setitem__(s.columns._free[0], 0),
    "version": lambda s: setattr(s.columns, "version", 1),
    "resource": lambda s: s.columns.resource_index.pop("x.io/y"),
    "no taints": lambda s: s.columns.taint_set.__setitem__(s.columns.row_of["n2"], -1),
    "free row twice": lambda s: s.columns._free.append(_row(s)),
    "free row forgotten": lambda s: s.columns._free.clear(),
    "generation of a row": _column("generation", 1),
    "generation of a node object": _column("node_generation"),
    "no record of writes": lambda s: s.columns._log.clear(),
    "record of writes": lambda s: s.columns._log.__setitem__(-1, _row(s)),
    "generation of the snapshot": lambda s: setattr(s, "generation", 1),
}  # fmt: skip


@pytest.mark.parametrize("damage", SNAPSHOT_DAMAGE.values(), ids=SNAPSHOT_DAMAGE)
def test_damage_to_a_snapshot_is_found(damage):
    cache, snapshot = furnished()
    damage(snapshot)
    with pytest.raises(CacheCorruptedError):
        cache.check(snapshot)


@pytest.mark.parametrize("damage", SNAPSHOT_DAMAGE.values(), ids=SNAPSHOT_DAMAGE)
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
    snapshot.columns.pod_count[_row(snapshot)] = 9
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


class TestLargeClusters:
    @pytest.fixture
    def cache(self, monkeypatch):
        """Four nodes and pods, one of them damaged, where only one of them may be checked in a call."""
        monkeypatch.setattr(validator, "_CHECKED_PER_CALL", 1)
        cache = make_cache()
        cache.validate = False
        for name, pod in (("n1", "a"), ("n2", "b")):
            cache.add_node(make_node(name))
            cache.add_pod(make_pod(pod, name))
        cache.validate = True
        return cache

    def test_check_everything_every_so_many_calls(self, cache):
        cache.pod_states["uid-b"].deadline = 7.0
        for _ in range(3):
            cache.update_node(None, make_node("n1"))
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

    def test_check_nothing_of_a_node_that_has_gone(self, cache):
        cache.assume_pod(make_pod("c", "n9"))
        cache.forget_pod(make_pod("c", "n9"))
        assert "n9" not in cache.nodes

    def test_check_a_snapshot_every_so_many_updates(self, cache):
        snapshot = updated(cache)
        snapshot.columns.pod_count[:] = 9
        for _ in range(2):
            cache.update_snapshot(snapshot)
        with pytest.raises(CacheCorruptedError, match="pod_count"):
            cache.update_snapshot(snapshot)


def test_nothing_is_validated_otherwise():
    cache, _ = furnished()
    cache.validate = False
    cache.pod_states["uid-early"].deadline = 7.0
    cache.assume_pod(make_pod("x", "n1"))
    cache.reset()


PV = "PersistentVolume"


def volume(name, storage_class, version="1"):
    ref = ClaimRef("db", "data")
    return PersistentVolume(
        name=name, uid=f"uid-{name}", resource_version=version, storage_class_name=storage_class, claim_ref=ref
    )


def stores(**options):
    """Volumes, one of them assumed, and a kind without indexes of its own."""
    objects = ClusterObjects(**options)
    for name in ("v1", "v2"):
        objects.add(PV, volume(name, "fast"))
    objects.assume(PV, volume("v2", "slow"))
    objects.add("Service", Service(name="s", namespace="a"))
    return objects


def _index(objects, name):
    return objects._stores[PV]._indexes[name]


OBJECTS_DAMAGE = {
    "entry missing": lambda o: _index(o, "storage class")["fast"].clear(),
    "entry of another object": lambda o: _index(o, "storage class")["fast"].update({("", "v1"): volume("v1", "fast")}),
    "entry under another value": lambda o: _index(o, "claim").update({None: _index(o, "claim").pop(("db", "data"))}),
    "index missing": lambda o: _index(o, "namespace").clear(),
    "assumed object gone": lambda o: o._stores[PV].visible.pop(("", "v2")),
    "assumed on another version": lambda o: o._stores[PV].base.update({("", "v2"): volume("v2", "fast", "7")}),
    "assumed under another key": lambda o: o._stores[PV].base.update({("", "v1"): o._stores[PV].base.pop(("", "v2"))}),
    "object under another key": lambda o: o._stores[PV].visible.update({("", "v9"): o._stores[PV].visible.pop(("", "v1"))}),
    "object without entry": lambda o: o._stores[PV].visible.update({("", "v3"): volume("v3", "fast")}),
}  # fmt: skip


class TestClusterObjects:
    def test_that_are_sound_pass(self):
        stores().check()
        ClusterObjects().check()

    @pytest.mark.parametrize("damage", OBJECTS_DAMAGE.values(), ids=OBJECTS_DAMAGE)
    def test_damage_is_found_and_mended_by_what_is_read_afresh(self, damage):
        objects = stores()
        damage(objects)
        with pytest.raises(CacheCorruptedError, match=r"PersistentVolume"):
            objects.check()
        objects.replace(PV, [volume("v1", "fast"), volume("v2", "fast", "2")])
        objects.check()
        assert [v.name for v in objects.indexed(PV, "storage class", "fast")] == ["v1", "v2"]

    @pytest.mark.parametrize(
        "call",
        [
            lambda o: o.add(PV, volume("v3", "fast")),
            lambda o: o.update(PV, volume("v1", "slow", "2")),
            lambda o: o.remove(PV, volume("v1", "fast")),
            lambda o: o.assume(PV, volume("v1", "slow")),
            lambda o: o.restore(PV, "", "v2"),
        ],
        ids=["add", "update", "remove", "assume", "restore"],
    )
    def test_every_change_validates_its_kind_where_asked_to(self, call):
        objects = stores(validate=True)
        _index(objects, "claim")["db", "other"] = {}
        objects.add("Service", Service(name="t", namespace="a"))
        with pytest.raises(CacheCorruptedError, match="PersistentVolume objects by claim"):
            call(objects)
        objects.validate = False
        call(stores())

    def test_a_replacement_validates_where_asked_to(self):
        class Unsteady(Service):
            """Its namespace is another one each time it is asked for."""

            @property
            def namespace(self):
                return str(next(counter))

        counter = iter(range(100))
        with pytest.raises(CacheCorruptedError, match="Service"):
            stores(validate=True).replace("Service", [Unsteady(name="s")])

    def test_a_difference_is_told_once_until_the_kind_is_replaced(self):
        told = []
        objects = stores(validate=True, on_corruption=told.append)
        for _ in range(2):
            _index(objects, "claim")["db", "other"] = {}
            objects.add(PV, volume("v3", "fast"))
            objects.restore(PV, "", "v2")
            objects.replace(PV, [volume("v2", "fast")])
        assert [error.kind for error in told] == ["corruption"] * 2

    def test_of_a_large_kind_the_changed_object_is_checked_each_time_and_all_every_so_often(self, monkeypatch):
        monkeypatch.setattr(validator, "_CHECKED_PER_CALL", 1)
        objects = stores()
        objects.validate = True
        _index(objects, "claim")["db", "other"] = {}
        objects.restore(PV, "", "v2")
        with pytest.raises(CacheCorruptedError, match="objects by claim"):
            objects.assume(PV, volume("v2", "slow"))
        del _index(objects, "claim")["db", "other"]
        objects._stores[PV].base["", "v1"] = volume("v1", "fast", "7")
        with pytest.raises(CacheCorruptedError, match="version that PersistentVolume v1 is assumed on"):
            objects._done(objects._stores[PV], ("", "v1"))
