"""Snapshots: built from lists, updated a few nodes at a time, changed in thought, rebuilt when they disagree."""

import pytest

from schedcache.cache import (
    AlreadyAddedError,
    AlreadyCachedError,
    InconsistentSnapshotError,
    NoUIDError,
    PodNotOnNodeError,
    Snapshot,
    SnapshotInUseError,
    UnknownNodeError,
)
from schedcache.testing import make_node, make_pod
from tests.cache.support import make_cache, names, uids, updated


def affinity_pod(name, node, **more):
    return make_pod(name, node, affinity={"podAffinity": {}}, **more)


class TestBuild:
    def test_counts_pods_on_listed_nodes(self):
        pods = [
            make_pod("a", "n1", requests={"cpu": "1"}),
            affinity_pod("b", "n1"),
            make_pod("c", "n2", anti_affinity={"x": "y"}),
            make_pod("waiting", claims=["waits"]),
            make_pod("elsewhere", "n9", claims=["remote"]),
        ]
        snapshot = Snapshot.build(pods, [make_node(name) for name in ("n1", "n2", "n3")])
        assert names(snapshot.node_info_list) == ["n1", "n2", "n3"]
        assert snapshot.get("n1").requested.milli_cpu == 1000
        assert names(snapshot.have_pods_with_affinity_list) == ["n1", "n2"]
        assert names(snapshot.have_pods_with_required_anti_affinity_list) == ["n2"]
        assert set(snapshot.used_pvcs) == {"default/remote"}
        assert (snapshot.is_pvc_used("default/remote"), snapshot.is_pvc_used("default/waits")) == (True, False)
        assert (snapshot.num_nodes, snapshot.columns.rows) == (3, 3)
        assert snapshot.generation >= max(info.generation for info in snapshot.node_info_list)
        with pytest.raises(UnknownNodeError, match="'n9'"):
            snapshot.get("n9")

    def test_counts_images_over_the_listed_nodes(self):
        nodes = [
            make_node("n1", images=[(["a:1", "a@x"], 10)]),
            make_node("n2", images=[(["a:1"], 20)]),
            make_node("n3"),
        ]
        snapshot = Snapshot.build([], nodes)
        states = snapshot.get("n2").image_states
        assert (states["a:1"].size, states["a:1"].num_nodes) == (10, 2)
        assert snapshot.get("n1").image_states["a@x"].num_nodes == 1
        assert snapshot.get("n3").image_states == {}

    def test_of_one_name_twice_takes_the_later_node(self):
        first, second = make_node("n1", images=[(["a"], 1)]), make_node("n1", capacity={"cpu": "9"})
        snapshot = Snapshot.build([], [first, second])
        assert names(snapshot.node_info_list) == ["n1"]
        assert snapshot.get("n1").allocatable.milli_cpu == 9000
        assert snapshot.get("n1").image_states == {}

    def test_names_every_node(self):
        snapshot = Snapshot.build([make_pod("a", "n1"), make_pod("b", "n9")], [make_node("n1")])
        assert snapshot.get("n1").name == "n1"
        assert list(snapshot.columns.row_of) == list(snapshot.node_info_map) == ["n1"]

    def test_counts_the_images_of_a_name_given_twice_once(self):
        nodes = [
            make_node("n1", images=[(["a"], 1)]),
            make_node("n1", images=[(["a"], 2)]),
            make_node("n2", images=[(["a"], 3)]),
        ]
        states = Snapshot.build([], nodes).get("n1").image_states
        assert (states["a"].size, states["a"].num_nodes) == (2, 2)

    def test_follows_zones(self):
        zones = {"n1": "a", "n2": "a", "n3": "b"}
        snapshot = Snapshot.build([], [make_node(name, zone=zone) for name, zone in zones.items()])
        assert names(snapshot.node_info_list) == ["n1", "n3", "n2"]

    @pytest.mark.parametrize(("uid", "error"), [("", NoUIDError), ("u1", AlreadyAddedError)])
    def test_refuses_pods_that_cannot_be_told_apart(self, uid, error):
        with pytest.raises(error, match="default/"):
            Snapshot.build([make_pod("a", "n1", uid=uid), make_pod("b", uid=uid)], [])

    def test_of_nothing(self):
        snapshot = Snapshot.build([], [])
        assert (snapshot.num_nodes, snapshot.node_info_list, snapshot.generation) == (0, [], 0)

    def test_is_frozen(self):
        with pytest.raises(ValueError, match="shared"):
            Snapshot.build([], [make_node("n1")]).get("n1").touch()


class TestWhatIf:
    def test_is_seen_in_this_snapshot_alone(self):
        cache = make_cache("n1")
        snapshot, other = updated(cache), updated(cache)
        generation, version = snapshot.generation, snapshot.columns.version
        pod = make_pod("a", "n1", requests={"cpu": "1"}, claims=["data"], anti_affinity={"x": "y"}, host_ports=[80])
        snapshot.assume(pod)
        assert uids(snapshot.get("n1")) == ["uid-a"]
        assert snapshot.columns.requested[0, 0] == 1000
        assert names(snapshot.have_pods_with_affinity_list) == names(snapshot.node_info_list) == ["n1"]
        assert uids(snapshot.node_info_list[0]) == ["uid-a"]
        assert set(snapshot.used_pvcs) == {"default/data"}
        assert snapshot.columns.changed_since(version).tolist() == [0]
        assert snapshot.generation == generation
        assert uids(other.get("n1")) == uids(cache.nodes["n1"]) == []

    def test_ends_with_forget_and_leaves_no_trace(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        before = {name: snapshot.get(name) for name in ("n1", "n2")}
        pods = [make_pod(name, node, claims=["data"]) for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"))]
        for pod in pods:
            snapshot.assume(pod)
        assert all(info.frozen for info in snapshot.node_info_list)
        snapshot.forget(pods[0])
        assert uids(snapshot.get("n1")) == ["uid-b"]
        assert all(info.frozen for info in snapshot.node_info_list)
        assert set(snapshot.used_pvcs) == {"default/data"}
        snapshot.forget(pods[1])
        snapshot.forget(pods[2])
        assert {name: snapshot.get(name) for name in ("n1", "n2")} == before
        assert not snapshot.used_pvcs
        assert snapshot.columns.pod_count.sum() == 0
        for end in (snapshot.forget_all, lambda: snapshot.forget(pods[0])):
            snapshot.assume(pods[0])
            end()
            assert snapshot.get("n1") is before["n1"]

    def test_ends_with_the_next_update(self):
        cache = make_cache("n1", "n2")
        cache.assume_pod(make_pod("x", "n1"))
        snapshot = updated(cache)
        for i, node in enumerate(["n1", "n1", "n2"]):
            snapshot.assume(make_pod(f"s{i}", node))
        cache.assume_pod(make_pod("y", "n1"))
        updated(cache, snapshot)
        assert uids(snapshot.get("n1")) == ["uid-x", "uid-y"]
        assert uids(snapshot.get("n2")) == []
        snapshot.assume(make_pod("s0", "n1"))

    def test_ends_where_its_node_has_gone(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        snapshot.assume(make_pod("a", "n1", claims=["data"]))
        cache.remove_node(make_node("n1"))
        assert names(updated(cache, snapshot).node_info_list) == ["n2"]
        assert not snapshot.used_pvcs

    def test_all_at_once(self):
        snapshot = updated(make_cache("n1"))
        pods = [make_pod(name, "n1") for name in "ab"]
        for pod in pods:
            snapshot.assume(pod)
        snapshot.forget_all()
        assert uids(snapshot.get("n1")) == []
        snapshot.forget_all()
        with pytest.raises(PodNotOnNodeError):
            snapshot.forget(pods[0])

    def test_refuses_what_it_cannot_do(self):
        cache = make_cache("n1")
        cache.add_pod(make_pod("there", "n1"))
        snapshot = updated(cache)
        snapshot.assume(make_pod("a", "n1"))
        for pod, error, message in (
            (make_pod("b", "n9"), UnknownNodeError, "'n9'"),
            (make_pod("b"), UnknownNodeError, "''"),
            (make_pod("b", "n1", uid=""), NoUIDError, "default/b"),
            (make_pod("a", "n1"), AlreadyCachedError, r"uid-a \(default/a\)"),
            (make_pod("there", "n1"), AlreadyCachedError, "uid-there"),
        ):
            with pytest.raises(error, match=message):
                snapshot.assume(pod)
        with pytest.raises(PodNotOnNodeError, match=r"uid-there \(default/there\)"):
            snapshot.forget(make_pod("there", "n1"))
        assert uids(snapshot.get("n1")) == ["uid-a", "uid-there"]


class TestUpdate:
    def test_touches_only_what_changed(self):
        cache = make_cache(*(f"n{i}" for i in range(50)))
        snapshot = updated(cache)
        version = snapshot.columns.version
        cache.add_pod(make_pod("a", "n7"))
        cache.add_pod(make_pod("b", "n9"))
        updated(cache, snapshot)
        assert snapshot.columns.version == version + 2
        assert {snapshot.columns.names[row] for row in snapshot.columns.changed_since(version)} == {"n7", "n9"}
        updated(cache, snapshot)
        assert snapshot.columns.version == version + 2

    def test_in_pieces_shows_the_moment_of_the_first(self):
        cache = make_cache(*(f"n{i}" for i in range(10)))
        cache.add_pod(make_pod("a", "n3"))
        snapshot = Snapshot()
        pieces = cache.update_snapshot_in_pieces(snapshot, size=4)
        next(pieces)
        cache.remove_pod(make_pod("a", "n3"))
        cache.remove_node(make_node("n5"))
        assert sum(1 for _ in pieces) == 2
        assert not snapshot.half_updated
        assert names(snapshot.node_info_list) == [f"n{i}" for i in range(10)]
        assert uids(snapshot.get("n3")) == ["uid-a"]
        for _ in cache.update_snapshot_in_pieces(snapshot, size=4):
            pass
        assert names(snapshot.node_info_list) == [f"n{i}" for i in range(10) if i != 5]
        assert uids(snapshot.get("n3")) == []

    def test_in_pieces_and_not_done_takes_no_pods_and_gives_way_to_another_update(self):
        cache = make_cache("n1", "n2")
        snapshot = Snapshot()
        half = cache.update_snapshot_in_pieces(snapshot, size=1)
        assert not snapshot.half_updated
        next(half)
        assert snapshot.half_updated
        message = "an update of the snapshot in pieces is under way$"
        with pytest.raises(SnapshotInUseError, match="^pod uid-a .*: " + message):
            snapshot.assume(make_pod("a", "n1"))
        with pytest.raises(SnapshotInUseError, match="^" + message):
            cache.check(snapshot)
        cache.update_snapshot(snapshot)
        assert not snapshot.half_updated
        with pytest.raises(SnapshotInUseError, match=r"^another update of the snapshot came between two pieces"):
            next(half)
        snapshot.assume(make_pod("a", "n1"))
        assert names(snapshot.node_info_list) == ["n1", "n2"]

    @pytest.mark.parametrize("pieces", [1, 2, 3])
    def test_left_half_done_takes_everything_anew(self, pieces):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        for name in ("n3", "n4", "n5"):
            cache.add_node(make_node(name))
        cache.remove_node(make_node("n2"))
        half = cache.update_snapshot_in_pieces(snapshot, size=1)
        for _ in range(pieces):
            next(half)
        half.close()
        cache.add_pod(make_pod("a", "n1"))
        assert sorted(names(updated(cache, snapshot).node_info_list)) == ["n1", "n3", "n4", "n5"]
        assert uids(snapshot.get("n1")) == ["uid-a"]

    def test_the_term_index_follows(self):
        cache = make_cache("n1", "n2")
        for name, node in (("a", "n1"), ("b", "n2")):
            cache.add_pod(make_pod(name, node, anti_affinity={"x": "y"}))
        snapshot = updated(cache)
        assert len(snapshot.term_index.owned_by_others(make_pod("c", labels={"x": "y"}).shape, {})) == 1
        cache.remove_node(make_node("n1"))
        cache.remove_pod(make_pod("b", "n2"))
        cache.add_pod(make_pod("d", "n2", anti_affinity={"x": "y"}))
        updated(cache, snapshot)
        assert snapshot.term_index.check() == []
        cache.remove_node(make_node("n2"))
        updated(cache, snapshot)
        assert snapshot.term_index.check() == []
        assert snapshot.term_index.owned_by_others(make_pod("c", labels={"x": "y"}).shape, {}) == ()

    def test_a_disagreement_fails_one_cycle_and_is_mended(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        cache.node_tree.set("never-added", "z")
        cache.validate = False
        cache.add_node(make_node("n3"))
        with pytest.raises(InconsistentSnapshotError, match="the node tree has 4"):
            cache.update_snapshot(snapshot)
        cache.validate = True
        assert sorted(names(snapshot.node_info_list)) == ["n1", "n2", "n3"]
        assert len(cache.node_tree) == 3
        updated(cache, snapshot)
        assert set(snapshot.node_info_map) == {"n1", "n2", "n3"}

    @pytest.mark.parametrize(
        "update", [updated, lambda cache, snapshot: list(cache.update_snapshot_in_pieces(snapshot))]
    )
    def test_a_disagreement_found_in_pieces_is_mended_by_the_next_update(self, update):
        cache = make_cache("n1")
        cache.node_tree.set("never-added", "z")
        snapshot = Snapshot()
        with pytest.raises(InconsistentSnapshotError):
            list(cache.update_snapshot_in_pieces(snapshot))
        update(cache, snapshot)
        assert names(snapshot.node_info_list) == ["n1"]

    def test_that_trips_over_damage_is_made_anew_and_fails_once(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        snapshot.columns.row_of.clear()
        cache.remove_node(make_node("n2"))
        with pytest.raises(InconsistentSnapshotError, match=r"could not be updated: KeyError: 'n2'"):
            cache.update_snapshot(snapshot)
        assert names(snapshot.node_info_list) == ["n1"]
        cache.check(snapshot)

    def test_in_pieces_that_trips_over_damage_fails_and_the_next_one_makes_it_anew(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        snapshot.assume(make_pod("thought", "n1", requests={"x.io/y": "1"}))
        snapshot.columns.resource_index.pop("x.io/y")
        cache.add_pod(make_pod("a", "n2"))
        with pytest.raises(InconsistentSnapshotError, match=r"could not be updated: KeyError: 'x.io/y'"):
            list(cache.update_snapshot_in_pieces(snapshot))
        assert uids(updated(cache, snapshot).get("n1")) == []
        cache.check(snapshot)

    @pytest.mark.parametrize("size", [0, -1])
    def test_in_pieces_needs_a_size(self, size):
        with pytest.raises(ValueError, match="size: expected at least 1 node per piece, got"):
            next(make_cache("n1").update_snapshot_in_pieces(Snapshot(), size))

    def test_of_a_snapshot_that_was_built_keeps_nothing_of_it(self):
        snapshot = Snapshot.build([make_pod("a", "n9", claims=["c"])], [])
        assert not updated(make_cache("n1"), snapshot).used_pvcs

    def test_that_finds_no_nodes_in_a_snapshot_of_some_makes_its_rows_anew(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        snapshot.node_info_map.clear()
        cache.remove_node(make_node("n2"))
        with pytest.raises(InconsistentSnapshotError):
            cache.update_snapshot(snapshot)
        assert list(snapshot.columns.row_of) == ["n1"]
        cache.check(snapshot)

    def test_the_list_of_nodes_stays_the_same_object_while_no_node_comes_or_goes(self):
        cache = make_cache("n1", "n2", "n3")
        snapshot = updated(cache)
        listed = snapshot.node_info_list
        cache.remove_node(make_node("n1"))
        cache.add_node(make_node("n4"))
        updated(cache, snapshot)
        assert names(snapshot.node_info_list) == ["n2", "n3", "n4"]
        assert names(listed) != ["n2", "n3", "n4"]
        listed = snapshot.node_info_list
        cache.add_pod(make_pod("a", "n3"))
        snapshot.assume(make_pod("b", "n2"))
        assert snapshot.node_info_list is listed
        assert [uids(info) for info in listed] == [["uid-b"], [], []]
        assert updated(cache, snapshot).node_info_list is listed
        assert [uids(info) for info in listed] == [[], ["uid-a"], []]

    def test_an_affinity_list_holds_the_newest_nodes(self):
        cache = make_cache("n1", "n2")
        cache.add_pod(affinity_pod("a", "n2"))
        snapshot = updated(cache)
        assert names(snapshot.have_pods_with_affinity_list) == ["n2"]
        assert snapshot.have_pods_with_affinity_list is snapshot.have_pods_with_affinity_list
        cache.add_pod(make_pod("b", "n2"))
        updated(cache, snapshot)
        assert snapshot.have_pods_with_affinity_list == [snapshot.get("n2")]
        cache.remove_pod(affinity_pod("a", "n2"))
        assert updated(cache, snapshot).have_pods_with_affinity_list == []

    def test_the_list_of_nodes_holds_the_newest_nodes(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        assert snapshot.node_info_list is snapshot.node_info_list
        cache.add_pod(make_pod("a", "n2"))
        updated(cache, snapshot)
        assert snapshot.node_info_list == [snapshot.get("n1"), snapshot.get("n2")]

    def test_claims_are_counted_by_node(self):
        cache = make_cache("n1", "n2")
        for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
            cache.add_pod(make_pod(name, node, claims=["data"]))
        snapshot = updated(cache)
        assert snapshot.claim_node_counts == {"default/data": 2}
        assert snapshot.get("n1").pvc_ref_counts == {"default/data": 2}
        cache.remove_pod(make_pod("a", "n1"))
        cache.remove_pod(make_pod("c", "n2"))
        assert updated(cache, snapshot).claim_node_counts == {"default/data": 1}

    def test_generic_ephemeral_volumes_are_no_references(self):
        cache = make_cache("n1")
        cache.add_pod(make_pod("a", "n1", volumes=[{"name": "scratch", "ephemeral": {}}]))
        assert cache.nodes["n1"].pvc_ref_counts == {}
