"""The columns of requests against a plain comparison, while specs come and go."""

from hypothesis import given, settings
from hypothesis import strategies as st

from schedcache.model import Resource
from schedcache.queue.pool import Bucket, Rejection, SpecGroup
from schedcache.testing import make_pod

RESOURCES = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi"]
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 3), max_size=4)
STEPS = st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "ask"]), AMOUNTS, st.integers(0, 99)), max_size=80)


def spec_of(bucket: Bucket, requests: dict[str, int]) -> SpecGroup:
    pod = make_pod("p", requests=requests)
    return SpecGroup(bucket, (pod.spec, pod.requests))


def room_of(amounts: dict[str, int]) -> Resource:
    scalar = {name: n for name, n in amounts.items() if name in RESOURCES[3:]}
    return Resource(
        amounts.get("cpu", 0) * 1000, amounts.get("memory", 0), amounts.get("ephemeral-storage", 0), 110, scalar
    )


def is_within(spec: SpecGroup, room: Resource) -> bool:
    asked = spec.key[1].resource
    return (
        asked.milli_cpu <= room.milli_cpu
        and asked.memory <= room.memory
        and asked.ephemeral_storage <= room.ephemeral_storage
        and all(amount <= room.scalar.get(name, 0) for name, amount in asked.scalar.items())
    )


@settings(deadline=None)
@given(STEPS)
def test_within_is_what_a_comparison_one_by_one_says(steps):
    bucket = Bucket(Rejection("s", frozenset({"Fit"}), frozenset(), ""), frozenset({"Fit"}))
    for step, amounts, pick in steps:
        if step == "add":
            spec = spec_of(bucket, amounts)
            if spec.key not in bucket.specs:
                bucket.add(spec)
        elif step == "remove" and bucket.specs:
            bucket.remove(list(bucket.specs.values())[pick % len(bucket.specs)])
        room = room_of(amounts)
        expected = {id(spec) for spec in bucket.specs.values() if is_within(spec, room)}
        assert {id(spec) for spec in bucket.within(room)} == expected
    assert bucket.within(None) == list(bucket.specs.values())


def test_more_specs_than_there_are_slots_at_first():
    bucket = Bucket(Rejection("s", frozenset({"Fit"}), frozenset(), ""), frozenset({"Fit"}))
    assert bucket.within(room_of({})) == []
    for cpu in range(300):
        bucket.add(spec_of(bucket, {"cpu": cpu}))
    assert len(bucket.within(room_of({"cpu": 99}))) == 100


def test_amounts_beyond_64_bits_are_compared_all_the_same():
    bucket = Bucket(Rejection("s", frozenset({"Fit"}), frozenset(), ""), frozenset({"Fit"}))
    bucket.add(spec_of(bucket, {"memory": 2**70}))
    assert bucket.within(room_of({"memory": 2**40})) == []
