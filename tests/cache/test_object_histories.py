"""Random histories of the stores of the other kinds against a naive model, validation on."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from schedcache.cache import CacheError, ClusterObjects
from schedcache.cache.cluster_objects import CLAIM, NAMESPACE, STORAGE_CLASS
from schedcache.model.storage import ClaimRef, PersistentVolume
from tests.cache.support import run_histories

PV = "PersistentVolume"
CLASSES = ["fast", "slow"]
CLAIMS = [None, ClaimRef("db", "data"), ClaimRef("db", "logs")]

names = st.sampled_from(["v1", "v2", "v3"])


@st.composite
def volumes(draw: st.DrawFn) -> PersistentVolume:
    return PersistentVolume(
        name=draw(names),
        uid=draw(st.sampled_from(["", "u1", "u2"])),
        resource_version=draw(st.sampled_from(["1", "2", "3"])),
        storage_class_name=draw(st.sampled_from(CLASSES)),
        claim_ref=draw(st.sampled_from(CLAIMS)),
    )


class ObjectsMachine(RuleBasedStateMachine):
    """`api` and `assumed` are the model: volumes by name."""

    steps = 0

    @initialize()
    def start(self) -> None:
        self.objects = ClusterObjects(validate=True)
        self.api: dict[str, PersistentVolume] = {}
        self.assumed: dict[str, PersistentVolume] = {}
        self.generation = 0

    @rule(volume=volumes(), update=st.booleans())
    def set(self, volume: PersistentVolume, update: bool) -> None:
        (self.objects.update if update else self.objects.add)(PV, volume)
        if volume.name in self.assumed and version(self.api[volume.name]) == version(volume):
            return
        self.api[volume.name] = volume
        self.assumed.pop(volume.name, None)

    @rule(volume=volumes())
    def remove(self, volume: PersistentVolume) -> None:
        self.objects.remove(PV, volume)
        held = self.api.get(volume.name)
        if held is not None and volume.uid in ("", held.uid):
            del self.api[volume.name]
            self.assumed.pop(volume.name, None)

    @rule(listed=st.lists(volumes(), max_size=3, unique_by=lambda volume: volume.name))
    def replace(self, listed: list[PersistentVolume]) -> None:
        self.objects.replace(PV, listed)
        before, self.api = self.api, {volume.name: volume for volume in listed}
        for name in list(self.assumed):
            if name not in self.api or version(self.api[name]) != version(before[name]):
                del self.assumed[name]

    @rule(volume=volumes(), newest=st.booleans())
    def assume(self, volume: PersistentVolume, newest: bool) -> None:
        held = self.api.get(volume.name)
        if held is not None and newest:
            volume = PersistentVolume(
                name=held.name, uid=held.uid, resource_version=held.resource_version, claim_ref=volume.claim_ref
            )
        expected = "unknown_object" if held is None else None
        if held is not None and held.resource_version != volume.resource_version:
            expected = "stale_object"
        kind = None
        try:
            self.objects.assume(PV, volume)
        except CacheError as error:
            kind = error.kind
        assert kind == expected
        if kind is None:
            self.assumed[volume.name] = volume

    @rule(name=names, volume=volumes())
    def restore(self, name: str, volume: PersistentVolume) -> None:
        told = []
        self.objects.on_restored = lambda kind, assumed, held: told.append((kind, assumed, held))
        self.objects.restore(PV, volume)
        assert not told
        if name in self.assumed:
            assumed = self.assumed.pop(name)
            self.objects.restore(PV, assumed)
            assert told == [(PV, assumed, self.api[name])]

    @invariant()
    def equals_the_model(self) -> None:
        type(self).steps += 1
        shown = self.api | self.assumed
        assert same(self.objects.list(PV), shown.values())
        assert same(self.objects.assumed(PV), self.assumed.values())
        for name in ("v1", "v2", "v3"):
            assert self.objects.get(PV, "", name) is shown.get(name)
            assert self.objects.in_api(PV, "", name) is self.api.get(name)
        assert same(self.objects.indexed(PV, NAMESPACE, ""), shown.values())
        for value in ("", *CLASSES):
            expected = [v for v in shown.values() if v.storage_class_name == value]
            assert same(self.objects.indexed(PV, STORAGE_CLASS, value), expected)
        for ref in CLAIMS:
            at = None if ref is None else (ref.namespace, ref.name)
            assert same(self.objects.indexed(PV, CLAIM, at), [v for v in shown.values() if v.claim_ref == ref])
        generation = self.objects.generation(PV)
        assert generation >= self.generation
        self.generation = generation
        self.objects.check()


def version(volume: PersistentVolume) -> tuple[str, str]:
    return volume.uid, volume.resource_version


def same(found: Any, expected: Any) -> bool:
    return sorted(map(id, found)) == sorted(map(id, expected))


def test_random_histories_equal_the_model():
    ObjectsMachine.steps = 0
    run_histories(ObjectsMachine, 60)
    assert ObjectsMachine.steps > 1_000
