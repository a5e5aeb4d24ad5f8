"""Several threads in one cache at once: nothing is lost, nothing is counted twice, no snapshot is torn."""

import contextlib
import random
import threading
from concurrent.futures import ThreadPoolExecutor

from schedcache.cache import AlreadyCachedError, SchedulerCache, Snapshot, Stories, UnknownNodeError
from schedcache.testing import make_node, make_pod

NODES = [f"n{i}" for i in range(8)]
ROUNDS = 150


def schedule(cache, worker):
    """Pods come, are confirmed here or elsewhere, are forgotten or deleted; those with an even number stay."""
    chance = random.Random(worker)
    for i in range(ROUNDS):
        name, node = f"p{worker}-{i}", chance.choice(NODES)
        pod = make_pod(name, node, requests={"cpu": "1"}, claims=[name])
        cache.assume_pod(pod)
        cache.finish_binding(pod)
        assert cache.is_assumed_pod(pod)
        if i % 2:
            chance.choice([cache.forget_pod, cache.remove_pod])(pod)
        else:
            cache.add_pod(make_pod(name, chance.choice(NODES), requests={"cpu": "1"}, claims=[name]))


def churn(cache, worker):
    chance = random.Random(worker)
    for i in range(ROUNDS):
        node = make_node(chance.choice(NODES), resource_version=i, images=[(["a"], 1)])
        try:
            chance.choice([cache.add_node, cache.remove_node])(node)
        except UnknownNodeError:
            cache.update_node(None, node)
    for name in NODES:
        cache.add_node(make_node(name))


def watch(cache, stop):
    """A snapshot's sums and its own pods agree, whatever goes on meanwhile."""
    snapshot, looks = Snapshot(), 0
    while not stop.is_set() or not looks:
        if looks % 2:
            cache.update_snapshot(snapshot)
        else:
            for _ in cache.update_snapshot_in_pieces(snapshot, size=2):
                pass
        columns = snapshot.columns
        for info in snapshot.node_info_list:
            row = columns.row_of[info.name]
            assert columns.pod_count[row] == len(info.pods)
            assert columns.requested[0, row] == info.requested.milli_cpu == 1000 * len(info.pods)
        assert len(snapshot.used_pvcs) == sum(len(info.pods) for info in snapshot.node_info_list)
        dump = cache.dump()
        assert sum(info.requested.milli_cpu for info in dump.nodes.values()) == 1000 * sum(
            len(info.pods) for info in dump.nodes.values()
        )
        looks += 1
    return looks


def stress(cache):
    stop = threading.Event()
    with ThreadPoolExecutor(8) as threads:
        watchers = [threads.submit(watch, cache, stop) for _ in range(2)]
        workers = [threads.submit(schedule, cache, i) for i in range(4)]
        workers += [threads.submit(churn, cache, i) for i in range(2)]
        try:
            for worker in workers:
                worker.result(timeout=120)
        finally:
            stop.set()
        assert all(watcher.result(timeout=60) > 0 for watcher in watchers)
    cache.check()
    assert cache.pod_count() == 4 * ROUNDS // 2
    assert not cache.assumed_pods
    assert sorted(cache.node_tree.list()) == NODES
    assert cache.image_states.states == {}


def test_no_update_is_lost(switching_often):
    stress(SchedulerCache(stories=Stories()))


def test_the_same_finds_a_cache_without_lock(switching_often):
    def is_found():
        cache = SchedulerCache(stories=Stories())
        cache._lock = contextlib.nullcontext()
        try:
            stress(cache)
        except Exception:  # noqa: BLE001  whatever it breaks first
            return True
        return False

    assert any(is_found() for _ in range(20))


def test_one_of_many_wins_an_assumption(switching_often):
    cache, start = SchedulerCache(stories=Stories()), threading.Barrier(4)

    def assume_all():
        start.wait()
        won = 0
        for i in range(ROUNDS):
            try:
                cache.assume_pod(make_pod(f"p{i}", "n1"))
            except AlreadyCachedError:
                continue
            won += 1
        return won

    with ThreadPoolExecutor(4) as threads:
        wins = [threads.submit(assume_all) for _ in range(4)]
        assert sum(win.result(timeout=60) for win in wins) == ROUNDS
    cache.check()
