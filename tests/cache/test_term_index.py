import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedcache.cache import Columns, SchedulerCache, Snapshot, TermIndex
from schedcache.cache.terms import OwnedTerm, Ownership, PodTerm, owned_terms
from schedcache.cache.terms.row_counts import RowCounts
from schedcache.model import LabelSelector, Requirement
from schedcache.testing import make_node, make_pod

WEB = LabelSelector((Requirement("app", "In", ("web",)),))
DB = LabelSelector((Requirement("app", "In", ("db",)),))
HOST = "kubernetes.io/hostname"


def anti(selector, **more):
    return {"labelSelector": selector, "topologyKey": HOST, **more}


def term(selector=WEB, namespaces=("default",), **more):
    return PodTerm(None if namespaces is None else frozenset(namespaces), selector, **more)


def by_node(snapshot, wanted):
    counts = snapshot.term_index.counts(wanted)
    return {name: int(counts[row]) for name, row in snapshot.columns.row_of.items() if counts[row]}


def test_counts_by_namespace_and_selector():
    pods = [
        make_pod("p1", "n1", {"app": "web"}),
        make_pod("p2", "n1", {"app": "web", "tier": "x"}),
        make_pod("p3", "n2", {"app": "web"}, namespace="other"),
        make_pod("p4", "n2", {"app": "db"}),
        make_pod("p5", "n2"),
        make_pod("p6", "", {"app": "web"}),
    ]
    snapshot = Snapshot.build(pods, [make_node("n1"), make_node("n2")])
    assert by_node(snapshot, term()) == {"n1": 2}
    assert by_node(snapshot, term(namespaces=None)) == {"n1": 2, "n2": 1}
    assert by_node(snapshot, term(namespaces=("other", "missing"))) == {"n2": 1}
    assert by_node(snapshot, term(LabelSelector())) == {"n1": 2, "n2": 2}
    assert by_node(snapshot, term(LabelSelector((Requirement("app", "NotIn", ("web",)),)))) == {"n2": 2}
    assert snapshot.term_index.check() == []


def test_terminating_pods_count_for_one_flavour_alone():
    pods = [make_pod("p1", "n1", {"app": "web"}), make_pod("p2", "n1", {"app": "web"}, terminating=True)]
    cache, snapshot = SchedulerCache(), Snapshot()
    cache.add_node(make_node("n1"))
    for pod in pods:
        cache.add_pod(pod)
    cache.update_snapshot(snapshot)
    assert by_node(snapshot, term()) == {"n1": 2}
    assert by_node(snapshot, term(ignore_terminating=True)) == {"n1": 1}
    cache.update_pod(pods[0], make_pod("p1", "n1", {"app": "web"}, terminating=True))
    cache.update_snapshot(snapshot)
    assert by_node(snapshot, term()) == {"n1": 2}
    assert by_node(snapshot, term(ignore_terminating=True)) == {}
    cache.remove_pod(pods[1])
    cache.update_snapshot(snapshot)
    assert by_node(snapshot, term()) == {"n1": 1}
    assert snapshot.term_index.check() == []


def test_nothing_is_kept_before_the_first_question():
    snapshot = Snapshot.build([make_pod("p1", "n1", {"app": "web"})], [make_node("n1")])
    assert not snapshot.term_index.active
    assert len(snapshot.term_index) == 0
    by_node(snapshot, term())
    assert snapshot.term_index.active


def test_assumed_pods_and_changed_nodes_are_followed():
    snapshot = Snapshot.build([], [make_node("n1"), make_node("n2")])
    assert by_node(snapshot, term()) == {}
    pod = make_pod("p1", "n2", {"app": "web"})
    snapshot.assume(pod)
    assert by_node(snapshot, term()) == {"n2": 1}
    snapshot.forget(pod)
    assert by_node(snapshot, term()) == {}


def test_a_pod_that_changes_its_labels_moves_between_terms():
    cache, snapshot = SchedulerCache(), Snapshot()
    cache.add_node(make_node("n1"))
    before, after = make_pod("p1", "n1", {"app": "web"}), make_pod("p1", "n1", {"app": "db"})
    cache.add_pod(before)
    cache.update_snapshot(snapshot)
    assert (by_node(snapshot, term()), by_node(snapshot, term(DB))) == ({"n1": 1}, {})
    cache.update_pod(before, after)
    cache.update_snapshot(snapshot)
    assert (by_node(snapshot, term()), by_node(snapshot, term(DB))) == ({}, {"n1": 1})


def test_a_deleted_node_takes_its_pods_along():
    cache, snapshot = SchedulerCache(), Snapshot()
    node = make_node("n1")
    cache.add_node(node)
    cache.add_pod(make_pod("p1", "n1", {"app": "web"}, affinity=anti_affinity("app", "web")))
    cache.update_snapshot(snapshot)
    web = make_pod("new", "", {"app": "web"}).shape
    assert by_node(snapshot, term()) == {"n1": 1}
    assert len(snapshot.term_index.owned_by_others(web, {})) == 1
    cache.remove_node(node)
    cache.update_snapshot(snapshot)
    assert int(snapshot.term_index.counts(term()).sum()) == 0
    assert snapshot.term_index.owned_by_others(web, {}) == ()
    cache.add_node(make_node("n1"))
    cache.update_snapshot(snapshot)
    assert by_node(snapshot, term()) == {"n1": 1}
    assert snapshot.term_index.check() == []


def test_the_least_recently_used_term_is_dropped():
    snapshot = Snapshot.build([make_pod("p1", "n1", {"app": "web"})], [make_node("n1")])
    index = TermIndex(snapshot.columns, max_terms=2)
    other = term(LabelSelector((Requirement("tier", "Exists"),)))
    for wanted in (term(), term(DB), term(), other):
        index.counts(wanted)
    assert len(index) == 2
    assert list(index._matched) == [term(), other]
    assert index._placed["default"].shapes.popitem()[1].terms == [index._matched[term()]]
    assert index.counts(term()).tolist() == [1]


def test_terms_and_then_the_whole_index_are_dropped_when_unused():
    cache, snapshot = SchedulerCache(), Snapshot()
    snapshot.term_index = index = TermIndex(snapshot.columns, max_idle=3)
    cache.add_node(make_node("n1"))
    cache.update_snapshot(snapshot)
    index.counts(term(DB))
    for number in range(4):
        cache.add_pod(make_pod(f"p{number}", "n1", {"app": "web"}))
        cache.update_snapshot(snapshot)
        index.counts(term())
    assert list(index._matched) == [term()]
    for number in range(4, 8):
        cache.add_pod(make_pod(f"p{number}", "n1", {"app": "web"}))
        cache.update_snapshot(snapshot)
    assert not index.active
    assert index._placed == {}
    assert by_node(snapshot, term()) == {"n1": 8}


def anti_affinity(key, value, **more):
    selector = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti(selector, **more)]}}


def test_owned_terms_lead_from_the_incoming_pod_to_their_owners():
    pods = [
        make_pod("o1", "n1", affinity=anti_affinity("app", "web")),
        make_pod("o2", "n1", {"x": "y"}, affinity=anti_affinity("app", "web")),
        make_pod("o3", "n2", affinity=anti_affinity("app", "web")),
        make_pod("o4", "n2", affinity=anti_affinity("app", "db")),
        make_pod("o5", "n2", namespace="far", affinity=anti_affinity("app", "web")),
    ]
    snapshot = Snapshot.build(pods, [make_node("n1"), make_node("n2")])
    rows = snapshot.columns.row_of
    (owned,) = snapshot.term_index.owned_by_others(make_pod("new", "", {"app": "web"}).shape, {})
    assert owned.term.ownership is Ownership.REQUIRED_ANTI_AFFINITY
    assert dict(owned.counts.items()) == {rows["n1"]: 2, rows["n2"]: 1}
    assert snapshot.term_index.owned_by_others(make_pod("new", "", {"app": "x"}).shape, {}) == ()


def test_namespace_selectors_of_owners_are_asked_about_the_labels_of_the_moment():
    selector = {"matchLabels": {"team": "data"}}
    owner = make_pod("o1", "n1", affinity=anti_affinity("app", "web", namespaceSelector=selector))
    everywhere = make_pod("o2", "n1", affinity=anti_affinity("app", "web", namespaceSelector={}))
    snapshot = Snapshot.build([owner, everywhere], [make_node("n1")])
    incoming = make_pod("new", "", {"app": "web"}, namespace="shop").shape

    def found(labels):
        return {owned.term.namespace_selector.empty for owned in snapshot.term_index.owned_by_others(incoming, labels)}

    assert found({}) == {True}
    assert found({"team": "data"}) == {True, False}
    assert found({"team": "web"}) == {True}


def test_the_terms_of_a_shape():
    weighted = [{"weight": 7, "podAffinityTerm": anti({"matchLabels": {"a": "1"}}, namespaces=["x", "y"])}]
    none = [{"weight": 3, "podAffinityTerm": {"topologyKey": HOST}}]
    required = [anti({"matchLabels": {"b": "2"}}, namespaceSelector={})] * 2
    affinity = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required},
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted + none},
    }
    a, b = LabelSelector((Requirement("a", "In", ("1",)),)), LabelSelector((Requirement("b", "In", ("2",)),))
    twice = OwnedTerm(Ownership.REQUIRED_AFFINITY, HOST, frozenset(), LabelSelector(), b)
    once = OwnedTerm(Ownership.PREFERRED, HOST, frozenset(("x", "y")), None, a, -7)
    assert owned_terms(make_pod("p", affinity=affinity).shape) == (twice, twice, once)
    plain = anti_affinity("a", "1")
    (default,) = owned_terms(make_pod("p", namespace="shop", affinity=plain).shape)
    assert default.namespaces == {"shop"}


def test_a_pod_that_owns_a_term_twice_counts_twice():
    required = [anti({"matchLabels": {"app": "web"}})] * 2
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    snapshot = Snapshot.build([make_pod("o", "n1", affinity=affinity)], [make_node("n1")])
    (owned,) = snapshot.term_index.owned_by_others(make_pod("new", "", {"app": "web"}).shape, {})
    assert sum(count for _, count in owned.counts.items()) == 2
    assert snapshot.term_index.check() == []


def test_a_snapshot_that_is_made_anew_answers_by_its_new_rows():
    cache, snapshot = SchedulerCache(), Snapshot()
    for name in ("n1", "n2"):
        cache.add_node(make_node(name))
    cache.add_pod(make_pod("p", "n2", {"app": "web"}))
    cache.update_snapshot(snapshot)
    assert by_node(snapshot, term()) == {"n2": 1}
    cache.reset()
    cache.add_node(make_node("n2"))
    for name in "ab":
        cache.add_pod(make_pod(name, "n2", {"app": "web"}))
    cache.update_snapshot(snapshot)
    assert by_node(snapshot, term()) == {"n2": 2}


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 3)), max_size=250),
    st.integers(301, 400),
)
def test_row_counts_equal_a_plain_tally(changes, rows):
    counts, tally = RowCounts(), np.zeros(1000, np.int64)
    for row, delta in changes:
        signed = -delta if tally[row] >= delta else delta
        counts.add(row, signed)
        tally[row] += signed
    column = counts.column(rows)
    assert column.tolist() == tally[:rows].tolist()
    assert dict(counts.items()) == {row: int(c) for row, c in enumerate(tally) if c}


@pytest.mark.parametrize("rows", [65, 200, 5000])
def test_row_counts_become_an_array_when_many_rows_have_one(rows):
    counts = RowCounts()
    for row in range(rows):
        counts.add(row, 2)
    assert counts._dense is not None
    assert counts.column(rows + 10).tolist() == [2] * rows + [0] * 10


def test_row_counts_stay_a_dict_when_rows_are_far_apart():
    counts = RowCounts()
    for row in range(100):
        counts.add(row * 100 + 50, 1)
    assert counts._dense is None
    assert counts.column(10_000).nonzero()[0].tolist() == [row * 100 + 50 for row in range(100)]


NAMES = st.sampled_from(["n0", "n1", "n2", "n3"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]), max_size=2)
NAMESPACES = st.sampled_from(["default", "far"])
REQUIREMENTS = st.one_of(
    st.builds(
        Requirement,
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["In", "NotIn"]),
        st.sampled_from([("a",), ("a", "b"), ("c",)]),
    ),
    st.builds(Requirement, st.sampled_from(["app", "tier"]), st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=2).map(tuple))
TERMS = st.builds(
    PodTerm,
    st.one_of(st.none(), st.frozensets(NAMESPACES, max_size=2)),
    SELECTORS,
    st.booleans(),
)
AFFINITIES = st.one_of(
    st.none(),
    st.builds(anti_affinity, st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"])),
    st.builds(
        anti_affinity,
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["a", "b"]),
        namespaceSelector=st.sampled_from([{}, {"matchLabels": {"team": "data"}}]),
    ),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("node"), NAMES),
        st.tuples(st.just("no node"), NAMES),
        st.tuples(
            st.just("pod"),
            st.sampled_from([f"p{i}" for i in range(8)]),
            NAMES,
            LABELS,
            NAMESPACES,
            st.booleans(),
            AFFINITIES,
        ),
        st.tuples(st.just("no pod"), st.sampled_from([f"p{i}" for i in range(8)])),
        st.tuples(st.just("ask"), TERMS),
        st.tuples(st.just("owners"), LABELS, NAMESPACES, st.sampled_from([{}, {"team": "data"}])),
    ),
    max_size=30,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_the_index_equals_a_recount_after_any_history(steps):
    cache, snapshot = SchedulerCache(), Snapshot()
    snapshot.term_index = TermIndex(snapshot.columns, max_terms=3)
    nodes, pods = {}, {}
    for step in steps:
        match step:
            case ("node", name):
                node = make_node(name, labels={"zone": str(len(nodes))})
                if name in nodes:
                    cache.update_node(nodes[name], node)
                else:
                    cache.add_node(node)
                nodes[name] = node
            case ("no node", name) if name in nodes:
                cache.remove_node(nodes.pop(name))
            case ("pod", uid, node, labels, namespace, terminating, affinity):
                if uid in pods:
                    node, namespace = pods[uid].node_name, pods[uid].namespace
                pod = make_pod(
                    uid, node, labels, uid=uid, namespace=namespace, terminating=terminating, affinity=affinity
                )
                if uid in pods:
                    cache.update_pod(pods[uid], pod)
                else:
                    cache.add_pod(pod)
                pods[uid] = pod
            case ("no pod", uid) if uid in pods:
                cache.remove_pod(pods.pop(uid))
            case ("ask", wanted):
                cache.update_snapshot(snapshot)
                assert by_node(snapshot, wanted) == counted(pods, nodes, wanted)
            case ("owners", labels, namespace, namespace_labels):
                cache.update_snapshot(snapshot)
                incoming = make_pod("new", "", labels, namespace=namespace).shape
                found = snapshot.term_index.owned_by_others(incoming, namespace_labels)
                assert owners(found, snapshot) == expected_owners(pods, nodes, incoming, namespace_labels)
        cache.update_snapshot(snapshot)
        assert snapshot.term_index.check() == []


def counted(pods, nodes, wanted):
    tally = {}
    for pod in pods.values():
        in_namespace = wanted.namespaces is None or pod.namespace in wanted.namespaces
        alive = not (wanted.ignore_terminating and pod.terminating)
        if pod.node_name in nodes and alive and in_namespace and wanted.selector.matches(pod.labels):
            tally[pod.node_name] = tally.get(pod.node_name, 0) + 1
    return tally


def owners(found, snapshot):
    return {(owned.term, snapshot.columns.names[row]): count for owned in found for row, count in owned.counts.items()}


def expected_owners(pods, nodes, incoming, namespace_labels):
    tally = {}
    for pod in pods.values():
        for owned in owned_terms(pod.shape) if pod.node_name in nodes else ():
            if owned.matches(incoming, namespace_labels):
                tally[owned, pod.node_name] = tally.get((owned, pod.node_name), 0) + 1
    return tally


def test_the_topology_version_moves_with_labels_taints_and_nodes_alone():
    cache, snapshot = SchedulerCache(), Snapshot()

    def moved(change, *args):
        before = snapshot.columns.topology_version
        change(*args)
        cache.update_snapshot(snapshot)
        assert snapshot.columns.topology_version >= before
        return snapshot.columns.topology_version > before

    plain, labelled = make_node("n1"), make_node("n1", labels={"zone": "a"})
    taints = [{"key": "k", "effect": "NoSchedule"}]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    tainted = make_node("n1", labels={"zone": "a"}, taints=taints)
    beating = make_node("n1", labels={"zone": "a"}, taints=taints, cpu="9", status=ready)
    assert moved(cache.add_node, plain)
    assert not moved(cache.add_pod, make_pod("p", "n1"))
    assert moved(cache.update_node, plain, labelled)
    assert moved(cache.update_node, labelled, tainted)
    assert not moved(cache.update_node, tainted, beating)
    assert moved(cache.remove_node, beating)
    assert moved(cache.add_node, tainted)
    assert moved(cache.remove_node, tainted)


def test_columns_without_nodes():
    columns = Columns()
    assert TermIndex(columns).counts(term()).tolist() == []
    assert TermIndex(columns).owned_by_others(make_pod("p").shape, {}) == ()
