"""Pods taken off many rows at once count exactly as those taken off one by one."""

import random

import numpy as np
import pytest

from schedcache.framework.row_view import HypotheticalView
from tests.framework.world import make_pod, make_snapshot


class Worth(dict):
    def __missing__(self, shape):
        self[shape] = found = int(shape.labels.get("worth", "0"))
        return found


def world(seed):
    rng = random.Random(seed)
    names = [f"n{i}" for i in range(6)]
    pods = [
        make_pod(
            f"p{i}",
            cpu=rng.choice(["1", "100m", None]),
            node=rng.choice(names),
            labels={"worth": rng.choice("012")},
            priority=rng.randrange(3),
        )
        for i in range(25)
    ]
    return rng, make_snapshot(*names, pods=pods)


def one_by_one(snapshot, rows, off):
    view = HypotheticalView(snapshot, rows)
    for position, row in enumerate(rows.tolist()):
        for slot, pod in enumerate(snapshot.pod_table.pods(row)):
            if off[position, slot]:
                view.remove_pod(position, pod)
    return view


def answers(view):
    worth = Worth()
    return {
        "cpu": view.requested("cpu").tolist(),
        "memory": view.non_zero_requested("memory").tolist(),
        "count": view.pod_count().tolist(),
        "changed": view.changed,
        "removed": [{p.name for p in view.removed(i)} for i in range(len(view))],
        "pods": [{p.name for p in view.pods(i)} for i in range(len(view))],
        "worth": view.moved_worth(worth).tolist(),
    }


@pytest.mark.parametrize("seed", range(20))
def test_every_answer_is_that_of_pods_taken_off_one_by_one(seed):
    rng, snapshot = world(seed)
    rows = snapshot.columns.order[1:]
    table = snapshot.pod_table
    # NumPy's integers would make the slots beyond the last pod look like pods.
    first = (table.kinds[rows] != 0) & (np.array([[rng.random() < 0.7 for _ in table.kinds[row]] for row in rows]))
    off, view = first.copy(), HypotheticalView.with_pods_off(snapshot, rows, table, first.copy())
    worth = Worth()
    for _ in range(12):
        positions = np.array([i for i in range(len(rows)) if off[i].any() and rng.random() < 0.7], np.intp)
        slots = np.array([rng.choice(np.flatnonzero(off[i]).tolist()) for i in positions.tolist()], np.intp)
        if rng.random() < 0.5:
            view.moved_worth(worth), view.requested("cpu")
        view.lifted.put_back(positions, slots)
        off[positions, slots] = False
        part = np.array(sorted(rng.sample(range(len(rows)), 3)), np.intp)
        taken = view.take(part)
        if rng.random() < 0.5:
            # A part asked later must not answer for what the whole has become.
            again = positions[:1]
            view.lifted.take_off(again, slots[:1])
            assert answers(taken) == answers(one_by_one(snapshot, rows[part], off[part]))
            off[again, slots[:1]] = True
        else:
            assert answers(taken) == answers(one_by_one(snapshot, rows[part], off[part]))
        assert answers(view) == answers(one_by_one(snapshot, rows, off))
        assert view.moved_worth(worth).tolist() == answers(view)["worth"]


def test_amounts_beyond_64_bits_together_are_added_up_all_the_same():
    pods = [make_pod(f"p{i}", node="n1", memory="3Ei") for i in range(3)]
    snapshot = make_snapshot("n1", pods=pods)
    view = HypotheticalView.with_pods_off(
        snapshot, snapshot.columns.order, snapshot.pod_table, np.ones((1, 3), np.bool_)
    )
    view.lifted.put_back(np.array([0]), np.array([0]))
    left = view.requested("memory").tolist()
    assert left == [snapshot.columns.requested[1, 0] - 2**62]
    view.lifted.put_back(np.array([0]), np.array([1]))
    assert view.requested("memory").tolist() == [snapshot.columns.requested[1, 0] - 3 * 2**60]


def test_pods_put_on_many_rows_count_as_those_put_on_one_by_one():
    snapshot = make_snapshot("n1", "n2", "n3")
    guests = {0: [make_pod("a"), make_pod("b")], 2: [make_pod("c", cpu="100m"), make_pod("d", cpu="8Ei")]}
    at_once, singly = (
        HypotheticalView(snapshot, snapshot.columns.order),
        HypotheticalView(snapshot, snapshot.columns.order),
    )
    at_once.add_pods(guests)
    for position, pods in guests.items():
        for pod in pods:
            singly.add_pod(position, pod)
    assert answers(at_once) == answers(singly)
