"""Validation of the stores of the other kinds: every kind of damage is found, named and mended."""

import re
from itertools import count

import pytest

from schedcache.cache import CacheCorruptedError, ClusterObjects, cluster_objects
from schedcache.model.objects import Service
from schedcache.model.storage import ClaimRef, PersistentVolume

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
    "entry missing": (
        "PersistentVolume objects by storage class: expected ",
        lambda o: _index(o, "storage class")["fast"].clear(),
    ),
    "entry of another object": (
        "PersistentVolume objects by storage class: expected ",
        lambda o: _index(o, "storage class")["fast"].update({("", "v1"): volume("v1", "fast")}),
    ),
    "entry under another value": (
        "PersistentVolume objects by claim: expected ",
        lambda o: _index(o, "claim").update({None: _index(o, "claim").pop(("db", "data"))}),
    ),
    "index missing": ("PersistentVolume objects by namespace: expected ", lambda o: _index(o, "namespace").clear()),
    "assumed object gone": (
        "PersistentVolume objects by namespace: expected ",
        lambda o: o._stores[PV].visible.pop(("", "v2")),
    ),
    "assumed on another version": (
        "version that PersistentVolume v2 is assumed on: expected '7', found '1'",
        lambda o: o._stores[PV].base.update({("", "v2"): volume("v2", "fast", "7")}),
    ),
    "assumed under another key": (
        "key of a PersistentVolume that is assumed: expected ('', 'v2'), found ('', 'v1')",
        lambda o: o._stores[PV].base.update({("", "v1"): o._stores[PV].base.pop(("", "v2"))}),
    ),
    "object under another key": (
        "key of a PersistentVolume: expected ('', 'v1'), found ('', 'v9')",
        lambda o: o._stores[PV].visible.update({("", "v9"): o._stores[PV].visible.pop(("", "v1"))}),
    ),
    "object without entry": (
        "PersistentVolume objects by namespace: expected ",
        lambda o: o._stores[PV].visible.update({("", "v3"): volume("v3", "fast")}),
    ),
}


def test_sound_stores_pass():
    stores().check()
    ClusterObjects().check()


@pytest.mark.parametrize(("message", "damage"), OBJECTS_DAMAGE.values(), ids=OBJECTS_DAMAGE)
def test_damage_is_found_and_mended_by_what_is_read_afresh(message, damage):
    objects = stores()
    damage(objects)
    with pytest.raises(CacheCorruptedError, match=re.escape(message)):
        objects.check()
    objects.replace(PV, [volume("v1", "fast"), volume("v2", "fast")])
    objects.check()
    objects.replace(PV, [volume("v1", "fast", "2"), volume("v2", "fast", "2")])
    objects.check()
    assert [v.name for v in objects.indexed(PV, "storage class", "fast")] == ["v1", "v2"]


@pytest.mark.parametrize(
    "call",
    [
        lambda o: o.add(PV, volume("v3", "fast")),
        lambda o: o.update(PV, volume("v1", "slow", "2")),
        lambda o: o.remove(PV, volume("v1", "fast")),
        lambda o: o.assume(PV, volume("v1", "slow")),
        lambda o: o.restore(PV, o.get(PV, "", "v2")),
    ],
    ids=["add", "update", "remove", "assume", "restore"],
)
def test_every_change_validates_its_kind_where_asked_to(call):
    objects = stores(validate=True)
    _index(objects, "claim")["db", "other"] = {}
    objects.add("Service", Service(name="t", namespace="a"))
    with pytest.raises(CacheCorruptedError, match="PersistentVolume objects by claim"):
        call(objects)


def test_nothing_is_validated_otherwise():
    objects = stores()
    _index(objects, "claim")["db", "other"] = {}
    objects.restore(PV, objects.get(PV, "", "v2"))
    objects.replace("Service", [])
    assert not objects.validate


def test_a_replacement_validates_where_asked_to(monkeypatch):
    checked = []
    monkeypatch.setattr(cluster_objects._Store, "check", lambda store: checked.append(store.kind))
    objects = stores()
    objects.validate = True
    objects.replace("Service", [])
    assert checked == ["Service"]


def test_of_a_large_kind_every_change_has_its_object_checked(monkeypatch):
    checked = []
    monkeypatch.setattr(cluster_objects._Store, "check_one", lambda store, key: checked.append((store.kind, *key)))
    objects = stores(clock=count(0, 10).__next__)
    objects.validate = True
    for kind, obj in ((PV, volume("v1", "fast")), ("Service", Service(name="s", namespace="a"))):
        objects.update(kind, obj)
    checked.clear()
    objects.add(PV, volume("v3", "fast"))
    objects.assume(PV, volume("v1", "slow"))
    objects.restore(PV, objects.get(PV, "", "v1"))
    objects.remove(PV, volume("v2", "fast"))
    objects.add("Service", Service(name="s", namespace="b"))
    assert checked == [(PV, "", "v3"), (PV, "", "v1"), (PV, "", "v1"), (PV, "", "v2"), ("Service", "b", "s")]


def test_a_difference_is_told_once_until_the_kind_is_replaced():
    told = []
    objects = stores(validate=True, on_corruption=told.append)
    for _ in range(2):
        _index(objects, "claim")["db", "other"] = {}
        objects.add(PV, volume("v3", "fast"))
        objects.restore(PV, objects.get(PV, "", "v2"))
        objects.replace(PV, [volume("v2", "fast")])
    assert [error.kind for error in told] == ["corruption"] * 2


@pytest.mark.parametrize(
    ("message", "damage"),
    [
        (
            "PersistentVolume v1 by storage class: does not hold",
            lambda store: store._indexes["storage class"]["fast"].update({("", "v1"): volume("v1", "fast")}),
        ),
        ("PersistentVolume v1 by claim: does not hold", lambda store: store._indexes["claim"].clear()),
        (
            "version that PersistentVolume v1 is assumed on: expected '7', found '1'",
            lambda store: store.base.update({("", "v1"): volume("v1", "fast", "7")}),
        ),
        (
            "version that PersistentVolume v1 is assumed on: expected '1', found None",
            lambda store: store.base.update({("", "v1"): store.visible.pop(("", "v1"))}),
        ),
    ],
    ids=["another object", "no entry", "version", "gone"],
)
def test_one_object_can_be_checked_alone(message, damage):
    store = stores()._stores[PV]
    store.check_one(("", "v1"))
    damage(store)
    with pytest.raises(CacheCorruptedError, match=re.escape(message)):
        store.check_one(("", "v1"))
