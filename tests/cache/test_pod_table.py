"""The table of pods follows its snapshot: at every moment it is what one made afresh would be."""

import random

from schedcache.cache import Snapshot
from schedcache.cache.pod_table import NO_POD, NOT_STARTED, started
from schedcache.cache.scheduler_cache import SchedulerCache
from schedcache.model import Node, Pod


def make_pod(number, rng, node_name):
    return Pod.from_dict(
        {
            "metadata": {
                "name": f"p{number}",
                "namespace": rng.choice("ab"),
                "uid": f"u{number}",
                "labels": {"n": str(number % 9)},
            },
            "spec": {
                "nodeName": node_name,
                "priority": rng.choice([0, 5, -5]),
                "containers": [
                    {"name": "c", "resources": {"requests": {"cpu": rng.choice(["1", "2"]), "x.io/y": "3"}}}
                ],
            },
            "status": {"startTime": rng.choice(["", "2026-01-05T08:00:00Z", "2026-01-05T08:00:01Z"])},
        }
    )


def shown(snapshot):
    """Node name -> what the table says of each of its pods."""
    table, columns = snapshot.pod_table, snapshot.columns
    found = {}
    for name, row in columns.row_of.items():
        kinds = [kind for kind in table.kinds[row].tolist() if kind != NO_POD]
        cpu, others = table.amounts("cpu"), table.amounts("x.io/y")
        found[name] = [
            (
                table.shape(k),
                int(table.priority[k]),
                int(cpu[k]),
                int(others[k]),
                int(table.non_zero_amounts(1)[k]),
                start,
            )
            for k, start in zip(kinds, table.starts[row].tolist(), strict=False)
        ]
    return found


def expected(snapshot):
    def important_first(pod):
        return -pod.priority, pod.start_time or "9", pod.namespace, pod.name

    return {
        info.name: [
            (p.shape, p.priority, p.requests.resource.milli_cpu, 3, p.requests.non_zero_memory, started(p))
            for p in sorted(info.pods, key=important_first)
        ]
        for info in snapshot.node_info_list
    }


def test_it_follows_pods_and_nodes_that_come_and_go():
    rng = random.Random(1)
    cache, snapshot, pods = SchedulerCache(), Snapshot(), {}
    for number in range(3000):
        name = f"n{rng.randrange(90)}"
        act = rng.random()
        if act < 0.1:
            cache.add_node(Node.from_dict({"metadata": {"name": name}}))
        elif act < 0.13 and name in snapshot.node_info_map:
            cache.remove_node(snapshot.get(name).node)
        elif act < 0.6 or not pods:
            pods[number] = make_pod(number, rng, name)
            cache.add_pod(pods[number])
        else:
            cache.remove_pod(pods.pop(rng.choice(list(pods))))
        if rng.random() < 0.1:
            cache.update_snapshot(snapshot)
            assert shown(snapshot) == expected(snapshot)
            assert snapshot.check_pod_table() == []
            assert all(
                snapshot.pod_table.pods(row) == sorted(snapshot.pod_table.pods(row), key=lambda p: -p.priority)
                for row in snapshot.columns.order.tolist()
            )
    assert len(snapshot.node_info_list) > 20


def test_it_is_made_in_pieces_and_one_that_is_given_up_does_no_harm():
    rng = random.Random(2)
    cache, snapshot = SchedulerCache(), Snapshot()
    for number in range(200):
        cache.add_pod(make_pod(number, rng, f"n{number % 20}"))
    for number in range(20):
        cache.add_node(Node.from_dict({"metadata": {"name": f"n{number}"}}))
    cache.update_snapshot(snapshot)
    assert snapshot.pod_table_behind == 200
    pieces = snapshot.pod_table_in_pieces(30)
    next(pieces)
    cache.add_pod(make_pod(200, rng, "n0"))
    cache.update_snapshot(snapshot)
    assert snapshot.pod_table_behind == 201
    # Each node has ten pods, and counts for one more.
    assert 6 <= sum(1 for _ in snapshot.pod_table_in_pieces(30)) <= 8
    assert snapshot.pod_table_behind == 0
    assert snapshot.check_pod_table() == []
    assert shown(snapshot) == expected(snapshot)
    cache.remove_pod(make_pod(200, rng, "n0"))
    cache.update_snapshot(snapshot)
    assert snapshot.pod_table_behind == 10
    assert shown(snapshot) == expected(snapshot)


def test_kinds_of_pods_that_are_gone_make_room_for_others():
    cache, snapshot = SchedulerCache(), Snapshot()
    cache.add_node(Node.from_dict({"metadata": {"name": "n"}}))
    for number in range(1000):
        pod = Pod.from_dict(
            {
                "metadata": {"name": f"p{number}", "uid": f"u{number}", "labels": {"job": str(number)}},
                "spec": {"nodeName": "n"},
            }
        )
        cache.add_pod(pod)
        cache.update_snapshot(snapshot)
        assert snapshot.pod_table.pods(0) == [pod]
        cache.remove_pod(pod)
    assert len(snapshot.pod_table.priority) == 64


def test_a_pod_that_has_not_started_or_says_nonsense_started_last():
    def pod(start):
        return Pod.from_dict({"metadata": {"name": "p"}, "status": {"startTime": start}})

    assert started(pod("")) == started(pod("soon")) == NOT_STARTED
    assert started(pod("2026-01-05T08:00:01Z")) - started(pod("2026-01-05T08:00:00Z")) == 1_000_000
