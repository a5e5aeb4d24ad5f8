"""Stores of the kinds beside Pod and Node: indexes, generations, and assumed volumes and claims."""

import pytest

from schedcache.cache import CacheError, ClusterObjects, StaleObjectError, UnknownObjectError
from schedcache.cache.cluster_objects import CLAIM, NAMESPACE, NODE, STORAGE_CLASS
from schedcache.model.objects import Namespace, Service
from schedcache.model.storage import (
    ClaimRef,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    VolumeAttachment,
)

PV, PVC = "PersistentVolume", "PersistentVolumeClaim"


def volume(name, version="1", uid=None, **more):
    return PersistentVolume(name=name, uid=uid or f"uid-{name}", resource_version=version, **more)


def claim(name, version="1", **more):
    return PersistentVolumeClaim(name=name, namespace="db", uid=f"uid-{name}", resource_version=version, **more)


@pytest.fixture
def objects():
    return ClusterObjects(validate=True)


def test_a_kind_that_was_never_fed_is_empty(objects):
    assert list(objects.list("Service")) == []
    assert objects.get("Service", "a", "b") is None
    assert objects.generation("Service") == 0
    assert list(objects.assumed("Service")) == []


def test_objects_are_found_by_kind_namespace_and_name(objects):
    first, second = Service(name="s", namespace="a"), Service(name="s", namespace="b")
    namespace = Namespace(name="a")
    for kind, obj in (("Service", first), ("Service", second), ("Namespace", namespace)):
        objects.add(kind, obj)
    assert objects.get("Service", "a", "s") is first
    assert objects.get("Namespace", "", "a") is namespace
    assert objects.get("Namespace", "a", "a") is None
    assert list(objects.list("Service")) == [first, second]
    assert list(objects.indexed("Service", NAMESPACE, "b")) == [second]
    assert list(objects.indexed("Service", NAMESPACE, "c")) == []


def test_generations_rise_with_each_change_of_their_kind(objects):
    objects.add(PV, volume("v"))
    objects.add("Namespace", Namespace(name="a"))
    assert (objects.generation(PV), objects.generation("Namespace")) == (1, 1)
    objects.update(PV, volume("v", "2"))
    objects.remove(PV, volume("v", "2"))
    assert (objects.generation(PV), objects.generation("Namespace")) == (3, 1)
    objects.remove(PV, volume("v", "2"))
    assert objects.generation(PV) == 3


def test_indexes_follow_changes(objects):
    ref = ClaimRef("db", "data")
    objects.add(PV, volume("v1", storage_class_name="fast"))
    objects.add(PV, volume("v2", storage_class_name="fast", claim_ref=ref))
    assert [v.name for v in objects.indexed(PV, STORAGE_CLASS, "fast")] == ["v1", "v2"]
    assert [v.name for v in objects.indexed(PV, CLAIM, ("db", "data"))] == ["v2"]
    assert [v.name for v in objects.indexed(PV, CLAIM, None)] == ["v1"]
    objects.update(PV, volume("v1", "2", storage_class_name="slow", claim_ref=ref))
    assert [v.name for v in objects.indexed(PV, STORAGE_CLASS, "fast")] == ["v2"]
    assert [v.name for v in objects.indexed(PV, STORAGE_CLASS, "slow")] == ["v1"]
    assert [v.name for v in objects.indexed(PV, CLAIM, ("db", "data"))] == ["v2", "v1"]
    objects.remove(PV, volume("v2"))
    assert list(objects.indexed(PV, STORAGE_CLASS, "fast")) == []
    objects.add("CSIStorageCapacity", CSIStorageCapacity(name="c", namespace="k", storage_class_name="fast"))
    objects.add("VolumeAttachment", VolumeAttachment(name="a", node_name="n1"))
    assert [c.name for c in objects.indexed("CSIStorageCapacity", STORAGE_CLASS, "fast")] == ["c"]
    assert [a.name for a in objects.indexed("VolumeAttachment", NODE, "n1")] == ["a"]
    with pytest.raises(KeyError):
        objects.indexed("Service", NODE, "n1")


def test_a_late_deletion_of_an_earlier_object_does_not_take_its_successor(objects):
    objects.add(PV, volume("v", uid="new"))
    objects.remove(PV, volume("v", uid="old"))
    assert objects.get(PV, "", "v").uid == "new"
    objects.remove(PV, PersistentVolume(name="v"))
    assert objects.get(PV, "", "v") is None


class TestAssumed:
    def test_is_shown_until_taken_back(self, objects):
        base, changed = volume("v", storage_class_name="fast"), volume("v", claim_ref=ClaimRef("db", "data"))
        objects.add(PV, base)
        generation = objects.generation(PV)
        objects.assume(PV, changed)
        assert objects.get(PV, "", "v") is changed
        assert objects.in_api(PV, "", "v") is base
        assert list(objects.list(PV)) == list(objects.assumed(PV)) == [changed]
        assert list(objects.indexed(PV, CLAIM, ("db", "data"))) == [changed]
        assert objects.generation(PV) == generation + 1
        objects.restore(PV, changed)
        assert objects.get(PV, "", "v") is objects.in_api(PV, "", "v") is base
        assert list(objects.assumed(PV)) == []
        objects.restore(PV, changed)
        assert objects.generation(PV) == generation + 2

    def test_twice_goes_back_to_the_api(self, objects):
        base = claim("c")
        objects.add(PVC, base)
        first, second = (claim("c", volume_name=name) for name in ("v1", "v2"))
        objects.assume(PVC, first)
        objects.assume(PVC, second)
        objects.restore(PVC, first)
        assert objects.get(PVC, "db", "c") is second
        objects.restore(PVC, second)
        assert objects.get(PVC, "db", "c") is base

    def test_ends_with_a_newer_version_and_outlives_a_repeated_one(self, objects):
        objects.add(PVC, claim("c"))
        assumed = claim("c", volume_name="v")
        objects.assume(PVC, assumed)
        objects.update(PVC, claim("c"))
        assert objects.get(PVC, "db", "c") is assumed
        newer = claim("c", "2")
        objects.update(PVC, newer)
        assert objects.get(PVC, "db", "c") is newer
        assert list(objects.assumed(PVC)) == []
        objects.restore(PVC, assumed)
        assert objects.get(PVC, "db", "c") is newer

    def test_ends_with_the_object(self, objects):
        objects.add(PV, volume("v"))
        objects.assume(PV, volume("v", phase="Bound"))
        objects.remove(PV, volume("v", "9"))
        assert objects.get(PV, "", "v") is objects.in_api(PV, "", "v") is None
        assert list(objects.assumed(PV)) == []

    def test_is_no_reason_to_keep_an_object_that_has_gone(self, objects):
        objects.add(PV, volume("v", uid="u1"))
        objects.assume(PV, volume("v", uid="made up"))
        objects.remove(PV, volume("v", uid="made up"))
        assert objects.get(PV, "", "v") is not None
        objects.remove(PV, volume("v", uid="u1"))
        assert objects.get(PV, "", "v") is None

    def test_needs_the_newest_version(self, objects):
        objects.add(PV, volume("v", "2"))
        with pytest.raises(StaleObjectError, match="'2', not '1'") as error:
            objects.assume(PV, volume("v", "1"))
        with pytest.raises(UnknownObjectError, match="PersistentVolume w"):
            objects.assume(PV, volume("w"))
        with pytest.raises(
            ValueError, match=r"Namespace cannot be assumed, only one of PersistentVolume, PersistentVolumeClaim$"
        ):
            objects.assume("Namespace", Namespace(name="a"))
        assert isinstance(error.value, CacheError)
        assert list(objects.assumed(PV)) == []


class TestReplace:
    def test_leaves_exactly_what_was_read(self, objects):
        kept, gone = volume("kept"), volume("gone")
        for obj in (kept, gone):
            objects.add(PV, obj)
        new = volume("new")
        objects.replace(PV, [kept, new])
        assert list(objects.list(PV)) == [kept, new]
        generation = objects.generation(PV)
        objects.replace(PV, [kept, new])
        assert list(objects.list(PV)) == [kept, new]
        assert objects.generation(PV) > generation, "who keeps results of damaged indexes must notice"
        generation = objects.generation(PV)
        objects.replace(PV, [])
        assert list(objects.list(PV)) == list(objects.indexed(PV, STORAGE_CLASS, "")) == []
        assert objects.generation(PV) > generation

    def test_keeps_an_assumption_on_the_version_that_was_read(self, objects):
        for name in ("same", "newer", "gone"):
            objects.add(PV, volume(name))
            objects.assume(PV, volume(name, phase="Bound"))
        objects.replace(PV, [volume("same"), volume("newer", "2")])
        assert [v.name for v in objects.assumed(PV)] == ["same"]
        assert objects.get(PV, "", "same").phase == "Bound"
        assert objects.in_api(PV, "", "same").phase == ""
        assert objects.get(PV, "", "newer").phase == ""
        assert objects.get(PV, "", "gone") is None


class TestListeners:
    def test_are_told_of_each_change_of_their_kind(self, objects):
        told = []
        objects.listen(PVC, lambda namespace, name: told.append((namespace, name)))
        objects.add(PV, volume("v"))
        objects.add(PVC, claim("c"))
        objects.update(PVC, claim("c", "2"))
        assumed = claim("c", "2", volume_name="v")
        objects.assume(PVC, assumed)
        objects.update(PVC, claim("c", "2"))
        objects.restore(PVC, assumed)
        objects.remove(PVC, claim("c", "2"))
        assert told == [("db", "c")] * 5

    def test_are_told_of_all_that_a_replacement_may_have_changed_and_stay(self, objects):
        told = []
        objects.add(PVC, claim("gone"))
        objects.listen(PVC, lambda namespace, name: told.append(name))
        objects.replace(PVC, [claim("new")])
        assert sorted(told) == ["gone", "new"]
        objects.update(PVC, claim("new", "2"))
        assert sorted(told) == ["gone", "new", "new"]
