"""Reports from users of other schedulers, replayed on the cache and its columns."""

import pytest

from schedcache.cache import AlreadyAddedError, PodNotFoundError, Snapshot
from schedcache.testing import make_node, make_pod
from tests.cache.support import make_cache, names, uids, updated


def free_cpu(snapshot, name):
    row = snapshot.columns.row_of[name]
    return int(snapshot.columns.allocatable[0, row] - snapshot.columns.requested[0, row])


def test_a_node_whose_gpus_vanished_under_a_running_pod_still_offers_the_rest():
    """volcano-sh/volcano#2999: the node was hidden for as long as more was used than there is."""
    cache = make_cache()
    cache.add_node(make_node("g1", capacity={"cpu": "8", "nvidia.com/gpu": "4"}))
    cache.add_pod(make_pod("trainer", "g1", requests={"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": "4"}))
    snapshot = updated(cache)
    cache.update_node(None, make_node("g1", capacity={"cpu": "8", "nvidia.com/gpu": "0"}))
    columns = updated(cache, snapshot).columns
    gpu, row = columns.resource_index["nvidia.com/gpu"], columns.row_of["g1"]
    assert names(snapshot.node_info_list) == ["g1"]
    assert free_cpu(snapshot, "g1") == 6000
    assert columns.allocatable[gpu, row] - columns.requested[gpu, row] == -4


def test_pods_that_came_before_their_node_count_once_it_is_there():
    """volcano-sh/volcano#1417: they were lost, and the node overfilled."""
    cache = make_cache()
    for name in "ab":
        cache.add_pod(make_pod(name, "n1", requests={"cpu": "2"}))
    snapshot = updated(cache)
    assert snapshot.node_info_list == []
    cache.add_node(make_node("n1", capacity={"cpu": "4"}))
    assert free_cpu(updated(cache, snapshot), "n1") == 0


def test_a_pod_seen_twice_is_counted_once_and_its_newer_version_shown():
    """apache/yunikorn-k8shim#279: once by recovery and once by the stream."""
    cache = make_cache("n1")
    pod = make_pod("a", "n1", resource_version=9, requests={"cpu": "1"})
    cache.add_pod(pod)
    with pytest.raises(AlreadyAddedError):
        cache.add_pod(pod)
    newer = make_pod("a", "n1", resource_version=12, requests={"cpu": "1"}, labels={"v": "2"})
    cache.update_pod(pod, newer)
    assert cache.nodes["n1"].requested.milli_cpu == 1000
    assert cache.get_pod(pod).labels == {"v": "2"}


def test_a_placed_pod_holds_the_peak_of_its_init_containers_for_life():
    """volcano-sh/volcano#1333, kubernetes/kubernetes#124282: that is the agreed rule."""
    init = {"name": "warm", "resources": {"requests": {"cpu": "7", "memory": "1Gi"}}}
    cache = make_cache()
    cache.add_node(make_node("n1", capacity={"cpu": "8"}))
    cache.add_pod(make_pod("sleepy", "n1", requests={"cpu": "100m", "memory": "64Mi"}, initContainers=[init]))
    assert cache.nodes["n1"].requested.milli_cpu == 7000
    assert cache.nodes["n1"].requested.memory == 1024**3
    assert free_cpu(updated(cache), "n1") == 1000


def test_totals_of_a_node_follow_the_rule_that_the_filter_follows():
    """kubernetes/kubernetes#119406: sidecars and overhead were left out of what users saw."""

    def part(name, cpu, **more):
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    init = [part("side", "500m", restartPolicy="Always"), part("once", "200m")]
    cache = make_cache("n1")
    cache.add_pod(make_pod("a", "n1", requests={"cpu": "1"}, initContainers=init))
    cache.add_pod(make_pod("b", "n1", requests={"cpu": "250m"}, overhead={"cpu": "250m", "memory": "128Mi"}))
    cache.add_pod(make_pod("c", "n1"))
    info = cache.nodes["n1"]
    assert (info.requested.milli_cpu, info.requested.memory, len(info.pods)) == (2000, 128 * 1024**2, 3)


def test_a_bind_whose_confirmation_is_late_keeps_its_room():
    """kubernetes/kubernetes#106361: released on time alone, a second pod took it."""
    cache = make_cache(ttl=0)
    cache.add_node(make_node("n1", capacity={"cpu": "1"}))
    pod = make_pod("a", "n1", requests={"cpu": "1"})
    cache.assume_pod(pod)
    cache.finish_binding(pod)
    assert cache.cleanup_expired(now=1e9) == []
    assert free_cpu(updated(cache), "n1") == 0
    cache.add_pod(pod)
    assert not cache.is_assumed_pod(pod)


def test_a_node_removed_before_its_pods_makes_no_cycle_fail():
    """kubernetes/kubernetes#95124: leftovers were looked for by the size of the wrong map."""
    cache = make_cache("n0", "n1")
    pod = make_pod("a", "n1")
    cache.add_pod(pod)
    snapshot = updated(cache)
    cache.remove_node(make_node("n1"))
    assert names(updated(cache, snapshot).node_info_list) == ["n0"]
    cache.remove_pod(pod)
    assert names(updated(cache, snapshot).node_info_list) == ["n0"]


def test_a_node_that_comes_back_carries_what_still_runs_on_it():
    """kubernetes/kubernetes#93938: it looked empty."""
    cache = make_cache("n1")
    pod = make_pod("a", "n1", requests={"cpu": "1"})
    cache.add_pod(pod)
    snapshot = updated(cache)
    cache.remove_node(make_node("n1"))
    cache.add_node(make_node("n1", capacity={"cpu": "2"}))
    assert free_cpu(updated(cache, snapshot), "n1") == 1000
    cache.remove_pod(pod)
    assert free_cpu(updated(cache, snapshot), "n1") == 2000


def test_a_node_deleted_and_made_again_is_seen_as_new():
    """kubernetes/kubernetes#63262: a counter of its own for each node met its old value."""
    cache = make_cache()
    cache.add_node(make_node("n1", capacity={"cpu": "1"}))
    snapshot = updated(cache)
    cache.remove_node(make_node("n1"))
    cache.add_node(make_node("n1", capacity={"cpu": "2"}))
    assert free_cpu(updated(cache, snapshot), "n1") == 2000


def test_pods_of_one_name_are_told_apart():
    """kubernetes/kubernetes#60966: a StatefulSet's next pod was refused while the last one was still known."""
    cache = make_cache("n1")
    old, new = make_pod("web-0", "n1", uid="u1"), make_pod("web-0", "n1", uid="u2")
    cache.assume_pod(old)
    cache.assume_pod(new)
    cache.forget_pod(old)
    assert uids(cache.nodes["n1"]) == ["u2"]


def test_a_pod_deleted_while_assumed_frees_its_room_once():
    """kubernetes/kubernetes#134217: it held its node until preempted again and again."""
    cache = make_cache("n1")
    pod = make_pod("a", "n1", requests={"cpu": "1"})
    cache.assume_pod(pod)
    cache.remove_pod(make_pod("a"))
    with pytest.raises(PodNotFoundError):
        cache.forget_pod(pod)
    assert free_cpu(updated(cache), "n1") == 4000


def test_a_new_node_does_not_push_another_out_of_the_list():
    """kubernetes/kubernetes#91601: a listing went on where the last one had stopped."""
    cache = make_cache()
    for name in ("n2", "n3"):
        cache.add_node(make_node(name, zone="a"))
    snapshot = updated(cache)
    cache.add_node(make_node("n4", zone="a"))
    cache.add_node(make_node("n0", zone="b"))
    assert names(updated(cache, snapshot).node_info_list) == ["n2", "n0", "n3", "n4"]


def test_claims_of_many_pods_cost_nothing_at_the_next_update():
    """kubernetes/kubernetes#138426: every cycle made the set of used claims anew."""
    cache = make_cache("n1", "n2")
    cache.validate = False
    for i in range(500):
        cache.add_pod(make_pod(f"p{i}", "n1", claims=[f"c{i}"]))
    snapshot = updated(cache, Snapshot())
    counts = snapshot.claim_node_counts
    cache.add_pod(make_pod("last", "n2", claims=["c0"]))
    updated(cache, snapshot)
    assert snapshot.claim_node_counts is counts
    assert (len(snapshot.used_pvcs), counts["default/c0"]) == (500, 2)
