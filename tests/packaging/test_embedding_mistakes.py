"""What somebody who embeds the cache gets wrong, and how it shows: the last table of docs/embedding.md, line by line."""

import asyncio
import threading

import pytest

from schedcache.cache import (
    AlreadyAddedError,
    CacheCorruptedError,
    NoUIDError,
    SchedulerCache,
    Snapshot,
    SnapshotInUseError,
)
from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.watch.reflector import Reflector
from schedcache.scheduling import make_cache_sink
from schedcache.testing import make_node, make_pod, wait_until

NODES = tuple(f"n{number}" for number in range(6))


def pod(name, node_name="", **fields):
    return make_pod(name, node_name, cpu="1", **fields)


@pytest.fixture
def cache():
    made = SchedulerCache(clock=lambda: 0.0)
    for name in NODES:
        made.add_node(make_node(name))
    return made


def used(snapshot):
    return [info.requested.milli_cpu for info in snapshot.node_info_list]


def test_an_object_without_uid_is_counted_nowhere(cache):
    nameless = pod("p", "n0", uid="")
    snapshot = Snapshot()
    cache.update_snapshot(snapshot)
    for call in (cache.add_pod, cache.assume_pod, cache.remove_pod, cache.forget_pod, snapshot.assume):
        with pytest.raises(NoUIDError, match="pod default/p has no UID"):
            call(nameless)
    with pytest.raises(NoUIDError):
        cache.update_pod(nameless, nameless)
    with pytest.raises(NoUIDError):
        Snapshot.build([nameless], [make_node("n0")])
    with pytest.raises(CacheCorruptedError) as told:
        make_cache_sink(cache).on_add("Pod", nameless)
    assert told.value.__context__.kind == "no_uid"
    assert cache.pod_count() == 0
    cache.check(snapshot)


def test_what_is_not_forgotten_shows_and_lasts(cache):
    sink, waiting = make_cache_sink(cache), pod("p")
    sink.on_add("Pod", waiting)
    cache.assume_pod(waiting.with_node("n0"))
    assert cache.expired_pods(1e9) == []
    assert cache.cleanup_expired(1e9) == []
    sink.on_rebuild({"Pod": [waiting], "Node": [make_node(name) for name in NODES]})
    assert list(cache.assumed_pods) == [waiting.uid]
    assert cache.dump().nodes["n0"].requested.milli_cpu == 1000
    sink.on_delete("Pod", waiting, missed=False)
    assert not cache.assumed_pods
    assert cache.dump().nodes["n0"].requested.milli_cpu == 0


def test_an_assumption_does_not_outlive_its_pod_over_a_rebuild(cache):
    sink, waiting = make_cache_sink(cache), pod("p")
    sink.on_add("Pod", waiting)
    cache.assume_pod(waiting.with_node("n0"))
    sink.on_rebuild({"Pod": [], "Node": [make_node(name) for name in NODES]})
    assert cache.pod_count() == 0


def test_two_threads_that_feed_the_same_leave_it_whole(cache):
    snapshots, refused = [Snapshot(), Snapshot()], []
    start = threading.Barrier(2)

    def feed(snapshot):
        start.wait()
        for number in range(300):
            mine = pod(f"p{number}", NODES[number % 6])
            try:
                cache.add_pod(mine)
            except AlreadyAddedError:
                refused.append(mine.uid)
            cache.update_snapshot(snapshot)

    threads = [threading.Thread(target=feed, args=(snapshot,)) for snapshot in snapshots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.pod_count() == len(refused) == len(set(refused)) == 300
    for snapshot in snapshots:
        cache.update_snapshot(snapshot)
        assert used(snapshot) == [50_000] * 6
        cache.check(snapshot)


def half_updated(cache, snapshot):
    """An update in pieces of which four of six rows are missing."""
    cache.update_snapshot(snapshot)
    for number, name in enumerate(NODES):
        cache.add_pod(pod(f"p{number}", name))
    pieces = cache.update_snapshot_in_pieces(snapshot, 2)
    next(pieces)
    next(pieces)
    return pieces


def test_a_snapshot_that_is_half_updated_is_a_mixture_and_says_so(cache):
    snapshot = Snapshot()
    pieces = half_updated(cache, snapshot)
    assert used(snapshot) == [1000, 1000, 0, 0, 0, 0]
    assert snapshot.half_updated
    with pytest.raises(SnapshotInUseError):
        cache.check(snapshot)
    with pytest.raises(SnapshotInUseError):
        snapshot.assume(pod("thought", "n0"))
    for _ in pieces:
        pass
    assert used(snapshot) == [1000] * 6
    assert not snapshot.half_updated
    cache.check(snapshot)


def test_what_happens_between_the_pieces_is_not_in_them(cache):
    snapshot = Snapshot()
    pieces = half_updated(cache, snapshot)
    cache.add_pod(pod("later", "n5"))
    cache.remove_node(make_node("n4"))
    for _ in pieces:
        pass
    assert used(snapshot) == [1000] * 6
    cache.update_snapshot(snapshot)
    assert used(snapshot) == [1000, 1000, 1000, 1000, 2000]


def test_an_update_takes_the_place_of_one_that_was_left(cache):
    snapshot = Snapshot()
    half_updated(cache, snapshot)
    cache.update_snapshot(snapshot)
    assert used(snapshot) == [1000] * 6
    cache.check(snapshot)


@pytest.mark.parametrize("node_goes", [False, True])
def test_an_iterator_taken_up_again_too_late_is_refused(cache, node_goes):
    snapshot = Snapshot()
    pieces = half_updated(cache, snapshot)
    cache.add_pod(pod("later", "n5"))
    if node_goes:
        cache.remove_node(make_node("n4"))
    cache.update_snapshot(snapshot)
    with pytest.raises(SnapshotInUseError, match="another update"):
        list(pieces)
    assert snapshot.get("n5").requested.milli_cpu == 2000
    assert ("n4" in snapshot.node_info_map) is not node_goes
    cache.check(snapshot)


def test_of_two_updates_in_pieces_the_later_one_counts(cache):
    snapshot = Snapshot()
    cache.update_snapshot(snapshot)
    cache.add_pod(pod("p", "n5"))
    first = cache.update_snapshot_in_pieces(snapshot, 1)
    next(first)
    second = cache.update_snapshot_in_pieces(snapshot, 1)
    next(second)
    with pytest.raises(SnapshotInUseError):
        next(first)
    list(second)
    assert used(snapshot) == [0, 0, 0, 0, 0, 1000]
    cache.check(snapshot)


def test_what_a_snapshot_shows_does_not_change(cache):
    snapshot = Snapshot()
    cache.update_snapshot(snapshot)
    with pytest.raises(ValueError, match="change a copy"):
        snapshot.get("n0").add_pod(pod("p", "n0"))
    mine = snapshot.get("n0").copy()
    mine.add_pod(pod("p", "n0"))
    assert snapshot.get("n0").requested.milli_cpu == 0
    cache.check(snapshot)


def test_a_snapshot_of_another_cache_or_of_before_a_reset_takes_everything_anew(cache):
    snapshot, other = Snapshot(), SchedulerCache()
    cache.update_snapshot(snapshot)
    other.add_node(make_node("alone"))
    other.update_snapshot(snapshot)
    assert list(snapshot.node_info_map) == ["alone"]
    other.reset()
    other.update_snapshot(snapshot)
    assert snapshot.num_nodes == 0
    cache.update_snapshot(snapshot)
    assert sorted(snapshot.node_info_map) == sorted(NODES)
    cache.check(snapshot)


def test_what_is_assumed_in_a_snapshot_ends_with_the_next_update_or_not_at_all(cache):
    kept, built = Snapshot(), Snapshot.build([], [make_node("n0")])
    cache.update_snapshot(kept)
    for snapshot in (kept, built):
        snapshot.assume(pod("p", "n0"))
        assert snapshot.get("n0").requested.milli_cpu == 1000
    cache.update_snapshot(kept)
    assert kept.get("n0").requested.milli_cpu == 0
    assert built.get("n0").requested.milli_cpu == 1000
    kept.assume(pod("p", "n0"))


class NoWay:
    """A Transport that nobody uses, since nothing runs."""


async def test_a_source_that_does_not_run_says_that_it_knows_nothing(cache):
    source = Reflector(NoWay(), make_cache_sink(cache))
    assert not source.has_synced()
    assert source.ages() == {"Pod": float("inf"), "Node": float("inf")}
    assert {outage.why for outage in source.outages().values()} == {"none yet"}


@pytest.mark.controlplane
async def test_a_source_that_has_ended_names_every_kind(cluster):
    async with Transport(load_credentials(cluster.kubeconfig)) as transport:
        source = Reflector(transport, make_cache_sink(SchedulerCache()))
        running = asyncio.create_task(source.run())

        async def follows():
            return source.has_synced() and not source.outages()

        await wait_until(follows, 20)
        running.cancel()
        await asyncio.wait([running])
        assert source.outages().keys() == {"Pod", "Node"}
