"""Filters whose reasons name the node: as many statuses as nodes, from the plugin to what people are told."""

import time

import numpy as np
import pytest

from schedcache.cache import SchedulerCache, Snapshot
from schedcache.framework import FitError, Status, Verdicts, unresolvable, unschedulable
from schedcache.framework.explanation import explain_rejection
from schedcache.plugins.node_volume_limits import _Tally
from schedcache.testing import make_node
from tests.framework.world import make_framework, make_pod, make_snapshot, plugin, schedule

LOCALITIES = pytest.mark.parametrize("locality", [None, "node"], ids=["asked", "kept"])


class Reason(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Reason.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def naming(name, locality, judge):
    more = {} if locality is None else {"filter_locality": locality}
    return plugin(name, per_node=True, filter=lambda state, pod, info: judge(info.node.name), **more)


def rejected(framework, snapshot, pod=None):
    with pytest.raises(FitError) as caught:
        schedule(framework, make_pod("p") if pod is None else pod, snapshot)
    return caught.value


@pytest.fixture(scope="module")
def large():
    return make_snapshot(*(f"n{i}" for i in range(5_000)))


@pytest.fixture(scope="module")
def huge():
    return make_snapshot(*(f"n{i}" for i in range(40_000)))


@LOCALITIES
def test_a_reason_for_each_of_many_nodes_is_told_in_no_time(large, locality):
    framework = make_framework(naming("Named", locality, lambda name: unschedulable("full", f"{name} is full")))
    started = time.process_time()
    for _ in range(2):
        error = rejected(framework, large)
        assert error.message().count(",") == 5_000
        assert len(error.diagnosis.reason_counts()) == 5_001
        assert dict(error.diagnosis.statuses)["n4999"].reasons == ("full", "n4999 is full")
        told = explain_rejection(framework, make_pod("p"), large, error.diagnosis, error.state)
        assert told[:2] == [
            "5000 of 5000 nodes: full [Named]; evicting pods might help (n0, n1, n2, ...)",
            "1 of 5000 nodes: n0 is full [Named]; evicting pods might help (n0)",
        ]
        assert len(told) == 5_001
    # About 0.2 s; what is quadratic in the nodes takes many times that.
    assert time.process_time() - started < 1.5


@LOCALITIES
def test_statuses_are_found_by_hash_and_not_compared_one_by_one(locality):
    nodes = 1_000
    framework = make_framework(naming("Named", locality, lambda name: unschedulable(Reason(f"{name} is full"))))
    snapshot = make_snapshot(*(f"n{i}" for i in range(nodes)))
    Reason.compared = 0
    error = rejected(framework, snapshot)
    explain_rejection(framework, make_pod("p"), snapshot, error.diagnosis, error.state)
    assert Reason.compared < 10 * nodes


@LOCALITIES
def test_more_reasons_than_16_bits_count_keep_their_nodes(huge, locality):
    first = naming("First", locality, lambda name: unschedulable(f"{name} is full") if int(name[1:]) % 4 else None)
    framework = make_framework(first, naming("Second", locality, lambda name: unresolvable(f"{name} is wrong")))
    for _ in range(2):
        statuses = rejected(framework, huge).diagnosis.statuses
        assert len(statuses) == 40_000
        for name, status in statuses.items():
            found = (status.plugin, *status.reasons)
            assert found == (("First", f"{name} is full") if int(name[1:]) % 4 else ("Second", f"{name} is wrong"))


def test_volume_limits_tell_more_errors_than_16_bits_count():
    tally = _Tally(40_000)
    for i in range(40_000):
        tally.answer(i, unschedulable(f"error {i % 39_000}"))
    codes, table = tally.verdicts()
    assert [table[code].message for code in codes.tolist()] == [f"error {i % 39_000}" for i in range(40_000)]
    assert len(table) == 39_001


def test_what_is_kept_of_nodes_that_come_and_go_does_not_pile_up():
    framework = make_framework(naming("Named", "node", lambda name: unschedulable(f"{name} is full")))
    cache, snapshot, pod = SchedulerCache(), Snapshot(), make_pod("p")
    nodes = [make_node(f"n{i}") for i in range(3_000)]
    for i, node in enumerate(nodes):
        cache.add_node(node)
        if i >= 20:
            cache.remove_node(nodes[i - 20])
        cache.update_snapshot(snapshot)
        if i % 5 == 0:
            there = [n.name for n in nodes[max(0, i - 19) : i + 1]]
            statuses = rejected(framework, snapshot, pod).diagnosis.statuses
            assert {name: status.message for name, status in statuses.items()} == {n: f"{n} is full" for n in there}
            assert len(statuses.verdicts.table) < 400


@LOCALITIES
def test_equal_statuses_count_together_whatever_object_they_are(locality):
    framework = make_framework(naming("Same", locality, lambda name: unschedulable(f"no {len(name)}")))
    statuses = rejected(framework, make_snapshot("n1", "n2", "n3")).diagnosis.statuses
    assert [(status.message, number) for status, number in statuses.counts()] == [("no 2", 3)]
    assert len(statuses.verdicts.table) == 2


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.bool_])
@LOCALITIES
def test_codes_may_be_of_any_type_that_counts(locality, kind):
    def judge(state, pod, view):
        return Verdicts(np.array([name == "n2" for name in view.names()]).astype(kind), (None, unschedulable("no")))

    more = {} if locality is None else {"filter_locality": locality}
    framework = make_framework(plugin("P", filter=judge, **more))
    assert schedule(framework, make_pod("p"), make_snapshot("n1", "n2")).node_name == "n1"
    assert rejected(framework, make_snapshot("n2")).diagnosis.statuses["n2"].message == "no"


@pytest.mark.parametrize("reasons", ["full", ["full"], None])
def test_reasons_that_are_no_tuple_are_no_status(reasons):
    with pytest.raises(TypeError, match="reasons: expected a tuple of strings, got "):
        Status(unschedulable().code, reasons)
