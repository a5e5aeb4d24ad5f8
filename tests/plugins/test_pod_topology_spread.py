import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedcache.cache import SchedulerCache, Snapshot
from schedcache.config.plugin_args import PodTopologySpreadArgs
from schedcache.framework.interface import CycleState
from schedcache.framework.row_view import RowView
from schedcache.framework.status import Code
from schedcache.model.objects import ReplicaSet, ReplicationController, Service, StatefulSet
from schedcache.model.wire import TopologySpreadConstraintWire
from schedcache.plugins.pod_topology_spread import REASON, REASON_LABEL, PodTopologySpread
from schedcache.testing import make_node, make_pod
from tests.plugins.cluster import HOST, ZONE, handle, hint, reasons, rejected, scores, whole

SKEWED = (Code.UNSCHEDULABLE, REASON)
NO_LABEL = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON_LABEL)
WEB = {"app": "web"}


def plugin(*objects, **args):
    return PodTopologySpread(PodTopologySpreadArgs(**args), handle(*objects))


def spread(key=ZONE, skew=1, *, soft=False, selector="web", **more):
    labels = {"matchLabels": {"app": selector}} if isinstance(selector, str) else selector
    when = "ScheduleAnyway" if soft else "DoNotSchedule"
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": labels, **more}


def incoming(*constraints, labels=WEB, **spec):
    return make_pod("new", labels=labels, topologySpreadConstraints=list(constraints), **spec)


def cluster(placed, nodes="a1 a2 b1"):
    """Nodes named after their zone; web pods as `{node: number}`."""
    names = nodes.split()
    pods = [make_pod(f"{node}-{i}", node, WEB) for node, number in placed.items() for i in range(number)]
    return Snapshot.build(pods, [make_node(name, name[0]) for name in names])


def test_skew_is_measured_from_the_emptiest_domain():
    snapshot = cluster({"a1": 1, "b1": 0})
    assert rejected(plugin(), incoming(spread()), snapshot) == {"a1": SKEWED, "a2": SKEWED}
    assert rejected(plugin(), incoming(spread(skew=2)), snapshot) == {}


def test_a_pod_that_does_not_match_its_own_selector_adds_nothing():
    snapshot = cluster({"a1": 1})
    assert rejected(plugin(), incoming(spread(), labels={}), snapshot) == {}


def test_nodes_without_the_label_are_out_for_good():
    snapshot = Snapshot.build([], [make_node("a1", "a"), make_node("x")])
    assert rejected(plugin(), incoming(spread()), snapshot) == {"x": NO_LABEL}


def test_the_first_constraint_that_fails_gives_the_reason():
    snapshot = Snapshot.build(
        [make_pod("p", "a1", WEB)],
        [make_node("a1", "a"), make_node("b1", "b", labels={"rack": "1"}), make_node("a2", "a", labels={"rack": "1"})],
    )
    by_zone_first = incoming(spread(), spread("rack"))
    # a1 lacks "rack": its pod is not counted, so no zone is ahead of the other.
    assert rejected(plugin(), by_zone_first, snapshot) == {"a1": NO_LABEL}


def test_min_domains_takes_the_least_as_zero():
    snapshot = cluster({"a1": 1, "b1": 1})
    assert rejected(plugin(), incoming(spread(minDomains=2)), snapshot) == {}
    assert rejected(plugin(), incoming(spread(minDomains=3)), snapshot) == {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED}


def test_terminating_pods_and_other_namespaces_do_not_count():
    pods = [make_pod("t", "a1", WEB, terminating=True), make_pod("o", "a1", WEB, namespace="other")]
    snapshot = Snapshot.build(pods, [make_node("a1", "a"), make_node("b1", "b")])
    assert rejected(plugin(), incoming(spread()), snapshot) == {}


def test_an_empty_selector_counts_no_running_pod_but_matches_added_ones():
    snapshot = cluster({"a1": 3})
    pod = incoming(spread(selector={}))
    assert rejected(plugin(), pod, snapshot) == {}
    view = whole(snapshot).hypothetical()
    view.add_pod(0, make_pod("n", "a1", {"any": "thing"}))
    assert rejected(plugin(), pod, snapshot, view) == {view.name(0): SKEWED}


def test_match_label_keys_narrow_the_selector_to_the_pods_own_values():
    pods = [make_pod("old", "a1", {"app": "web", "rev": "1"}), make_pod("new1", "b1", {"app": "web", "rev": "2"})]
    snapshot = Snapshot.build(pods, [make_node("a1", "a"), make_node("b1", "b")])
    labels = {"app": "web", "rev": "2"}
    by_revision = spread(matchLabelKeys=["rev", "no-such-label"])
    assert rejected(plugin(), incoming(by_revision, labels=labels), snapshot) == {"b1": SKEWED}
    merged = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "rev", "operator": "In", "values": ["2"]}]}
    already = incoming(spread(selector=merged, matchLabelKeys=["rev"]), labels=labels)
    assert len(already.spec.topology_spread[0].selector.requirements) == 2
    assert rejected(plugin(), incoming(spread(selector={}, matchLabelKeys=["rev"]), labels=labels), snapshot) == {
        "b1": SKEWED
    }
    nothing = incoming(spread(selector=None, matchLabelKeys=["rev"]), labels=labels)
    assert rejected(plugin(), nothing, snapshot) == {}


def test_a_missing_selector_matches_nothing():
    assert rejected(plugin(), incoming(spread(selector=None)), cluster({"a1": 3})) == {}


def test_node_affinity_policy_decides_whose_domains_exist():
    nodes = [make_node("a1", "a", labels={"disk": "ssd"}), make_node("b1", "b")]
    snapshot = Snapshot.build([make_pod("p", "a1", WEB)], nodes)
    wanted = {"nodeSelector": {"disk": "ssd"}}
    assert rejected(plugin(), incoming(spread(), **wanted), snapshot) == {}
    ignoring = spread(nodeAffinityPolicy="Ignore")
    assert rejected(plugin(), incoming(ignoring, **wanted), snapshot) == {"a1": SKEWED}


def test_node_taints_policy_decides_whose_domains_exist():
    taint = {"key": "k", "effect": "NoSchedule"}
    nodes = [make_node("a1", "a"), make_node("b1", "b", taints=[taint])]
    snapshot = Snapshot.build([make_pod("p", "a1", WEB)], nodes)
    assert rejected(plugin(), incoming(spread()), snapshot) == {"a1": SKEWED}
    honoring = spread(nodeTaintsPolicy="Honor")
    assert rejected(plugin(), incoming(honoring), snapshot) == {}
    tolerating = {"tolerations": [{"operator": "Exists"}]}
    assert rejected(plugin(), incoming(honoring, **tolerating), snapshot) == {"a1": SKEWED}


def test_changes_of_nodes_are_noticed():
    cache, snapshot, tested, pod = SchedulerCache(), Snapshot(), plugin(), incoming(spread())
    a1, b1 = make_node("a1", "a"), make_node("b1", "b")
    cache.add_node(a1)
    cache.add_node(b1)
    cache.add_pod(make_pod("p", "a1", WEB))
    cache.update_snapshot(snapshot)
    assert rejected(tested, pod, snapshot) == {"a1": SKEWED}
    cache.update_node(b1, moved := make_node("b1", "a"))
    cache.update_snapshot(snapshot)
    assert rejected(tested, pod, snapshot) == {}
    cache.update_node(moved, make_node("b1"))
    cache.update_snapshot(snapshot)
    assert rejected(tested, pod, snapshot) == {"b1": NO_LABEL}


def test_a_refused_selector_is_an_error():
    bad = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}
    status = plugin().pre_filter(CycleState(), incoming(spread(selector=bad)), cluster({}))
    assert status.code is Code.ERROR
    assert "'Near' on 'a'" in status.message
    status = plugin().pre_score(CycleState(), incoming(spread(selector=bad, soft=True)), whole(cluster({})))
    assert status.code is Code.ERROR


def test_only_soft_constraints_rank():
    snapshot = cluster({"a1": 2, "b1": 0})
    assert scores(plugin(), incoming(spread()), snapshot) is None
    assert scores(plugin(), incoming(spread(soft=True)), snapshot) == {"a1": 0, "a2": 0, "b1": 100}
    assert rejected(plugin(), incoming(spread(soft=True)), snapshot) == {}


def test_ranking_by_host_counts_the_node_alone():
    snapshot = cluster({"a1": 2, "a2": 1})
    # ln(3 + 2) * 2 = 3.2, ln(5) * 1 = 1.6, 0: rounded 3, 2, 0
    assert scores(plugin(), incoming(spread(HOST, soft=True)), snapshot) == {"a1": 0, "a2": 33, "b1": 100}


def test_nodes_that_lack_a_key_score_nothing_and_do_not_set_the_scale():
    nodes = [make_node("a1", "a"), make_node("b1", "b"), make_node("x")]
    pods = [make_pod(f"p{i}", "a1", WEB) for i in range(2)] + [make_pod("q", "b1", WEB)]
    snapshot = Snapshot.build(pods, nodes)
    # ln(2 + 2) * 2 = 2.8, * 1 = 1.4: rounded 3, 1
    assert scores(plugin(), incoming(spread(soft=True)), snapshot) == {"a1": 33, "b1": 100, "x": 0}
    assert scores(plugin(), incoming(spread(soft=True)), snapshot, {"x"}) == {"x": 0}


def test_pods_on_infeasible_nodes_count_in_feasible_domains():
    snapshot = cluster({"a1": 2, "b1": 0})
    assert scores(plugin(), incoming(spread(soft=True)), snapshot, {"a2", "b1"}) == {"a2": 0, "b1": 100}


def made(kind, name, spec):
    return kind.from_dict({"metadata": {"name": name}, "spec": spec})


def test_pods_of_a_service_are_spread_by_default():
    service = made(Service, "s", {"selector": WEB})
    snapshot = cluster({"a1": 6}, "a1 a2 b1 x")
    got = scores(plugin(service), make_pod("new", labels=WEB), snapshot)
    # Hosts weigh ln(4 + 2), zones ln(3 + 2): a1 6 * 1.79 + 2 + 6 * 1.61 + 4 = 26.4; a2 2 + 6 * 1.61 + 4 = 15.7; others 6
    assert got == {"a1": 23, "a2": 61, "b1": 100, "x": 100}
    assert scores(plugin(service), make_pod("new", labels={"app": "db"}), snapshot) is None
    assert scores(plugin(), make_pod("new", labels=WEB), snapshot) is None


def test_defaults_do_not_apply_to_pods_with_any_constraint_of_their_own():
    service = made(Service, "s", {"selector": WEB})
    assert scores(plugin(service), incoming(spread()), cluster({"a1": 6})) is None


def test_by_default_nodes_without_zone_take_part():
    service = made(Service, "s", {"selector": WEB})
    snapshot = Snapshot.build([make_pod("p", "a1", WEB)], [make_node("a1", "a"), make_node("x")])
    # a1: 1 * ln(2 + 2) + 2 for its host, 1 * ln(2 + 2) + 4 for its zone: 8.77, so 9; x: 2 for its host alone
    assert scores(plugin(service), make_pod("new", labels=WEB), snapshot) == {"a1": 22, "x": 100}


def test_by_default_a_missing_label_and_an_empty_one_are_one_domain():
    service = made(Service, "s", {"selector": WEB})
    nodes = [make_node("e", ""), make_node("x")]
    snapshot = Snapshot.build([make_pod("p", "x", WEB)], nodes)
    # e: 2 for its host, 1 * ln(1 + 2) + 4 for its zone: 7.1, so 7; x: 1 * ln(2 + 2) + 2: 3.4, so 3
    assert scores(plugin(service), make_pod("new", labels=WEB), snapshot) == {"e": 42, "x": 100}


@pytest.mark.parametrize(
    ("objects", "owner", "selector"),
    [
        ([], None, {}),
        ([made(Service, "s", {})], None, {}),
        ([made(Service, "s", {"selector": {}})], None, {}),
        ([made(Service, "s", {"selector": {"app": "db"}})], None, {}),
        ([Service.from_dict({"metadata": {"name": "s", "namespace": "x"}, "spec": {"selector": WEB}})], None, {}),
        (
            [made(Service, "s", {"selector": WEB}), made(Service, "t", {"selector": {"tier": "x"}})],
            None,
            {"app": "web", "tier": "x"},
        ),
        ([made(ReplicaSet, "o", {"selector": {"matchLabels": WEB}})], ("ReplicaSet", "o"), {"app": "web"}),
        ([made(ReplicaSet, "o", {})], ("ReplicaSet", "o"), {}),
        ([made(StatefulSet, "o", {"selector": {"matchLabels": WEB}})], ("ReplicaSet", "o"), {}),
        ([made(StatefulSet, "o", {"selector": {"matchLabels": WEB}})], ("StatefulSet", "o"), {"app": "web"}),
        (
            [made(ReplicationController, "o", {"selector": {"tier": "x"}}), made(Service, "s", {"selector": WEB})],
            ("ReplicationController", "o"),
            {"app": "web", "tier": "x"},
        ),
    ],
)
def test_the_default_selector(objects, owner, selector):
    pod = make_pod("new", labels={"app": "web", "tier": "x"}, owner=owner)
    found = plugin(*objects)._source.default_selector(pod)
    assert {r.key: r.values[0] for r in found.requirements} == selector


def test_default_selectors_follow_the_services():
    objects = handle(made(Service, "s", {"selector": WEB}))
    tested, pod = PodTopologySpread(PodTopologySpreadArgs(), objects), make_pod("new", labels=WEB)
    assert not tested._source.default_selector(pod).empty
    objects.cluster_objects.replace("Service", ())
    assert tested._source.default_selector(pod).empty


def test_constraints_of_the_profile():
    hard = TopologySpreadConstraintWire(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
    service = made(Service, "s", {"selector": WEB})
    tested = plugin(service, default_constraints=[hard], defaulting_type="List")
    assert rejected(tested, make_pod("new", labels=WEB), cluster({"a1": 1})) == {"a1": SKEWED, "a2": SKEWED}
    assert scores(tested, make_pod("new", labels=WEB), cluster({"a1": 1})) is None
    soft = TopologySpreadConstraintWire(max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway")
    tested = plugin(service, default_constraints=[soft], defaulting_type="List")
    nodes = [make_node("a1", "a"), make_node("x")]
    assert scores(tested, make_pod("new", labels=WEB), Snapshot.build([], nodes)) == {"a1": 100, "x": 0}


def test_pods_added_or_removed_count_in_their_own_row_alone():
    snapshot = cluster({"a1": 1, "b1": 1}, "a1 b1 c1")
    pod, state, tested = incoming(spread()), CycleState(), plugin()
    assert tested.pre_filter(state, pod, snapshot) is None
    view = whole(snapshot).hypothetical()
    at = {name: i for i, name in enumerate(view.names())}
    assert reasons(view, tested.filter(state, pod, view)) == {"a1": SKEWED, "b1": SKEWED}
    (victim,) = snapshot.get("a1").pods
    view.remove_pod(at["a1"], victim)
    view.add_pod(at["c1"], make_pod("n", "c1", WEB))
    assert reasons(view, tested.filter(state, pod, view)) == {"b1": SKEWED}
    view.add_pod(at["a1"], victim)
    assert reasons(view, tested.filter(state, pod, view)) == {"a1": SKEWED, "b1": SKEWED}


def test_hints_for_assigned_pods():
    tested, waiting = plugin(), incoming(spread())
    registered = hint(tested, "AssignedPod")
    assert registered.actions == ("Add", "UpdatePodLabel", "Delete")
    assert registered.by_shape
    asked = registered.fn
    web, db = make_pod("p", "n", WEB), make_pod("p", "n", {"app": "db"})
    assert asked(waiting, None, web)
    assert asked(waiting, web, None)
    assert not asked(waiting, None, db)
    assert not asked(waiting, db, None)
    assert asked(waiting, web, db)
    assert not asked(waiting, web, make_pod("p", "n", {**WEB, "more": "x"}))
    assert not asked(waiting, None, make_pod("p", "n", WEB, namespace="other"))
    assert not asked(waiting, None, make_pod("p", "", WEB))
    assert asked(waiting, None, make_pod("p", "", WEB, nominated="n"))


def test_hints_for_the_pod_itself():
    tested = plugin()
    asked = hint(tested, "TargetPod").fn
    honoring, ignoring = incoming(spread(nodeTaintsPolicy="Honor")), incoming(spread())
    tolerating = {"tolerations": [{"operator": "Exists"}]}
    assert asked(honoring, honoring, incoming(spread(nodeTaintsPolicy="Honor"), **tolerating))
    assert not asked(ignoring, ignoring, incoming(spread(), **tolerating))
    assert asked(ignoring, ignoring, incoming(spread(), labels={}))


def test_hints_for_nodes():
    asked, waiting = hint(plugin(), "Node").fn, incoming(spread())
    in_a, in_b, outside = make_node("n", "a"), make_node("n", "b"), make_node("n")
    tainted = make_node("n", "a", taints=[{"key": "k", "effect": "NoSchedule"}])
    assert asked(waiting, None, in_a)
    assert not asked(waiting, None, outside)
    assert asked(waiting, in_a, None)
    assert not asked(waiting, outside, None)
    assert asked(waiting, outside, in_a)
    assert asked(waiting, in_a, outside)
    assert asked(waiting, in_a, in_b)
    assert asked(waiting, in_a, tainted)
    assert not asked(waiting, in_a, make_node("n", "a", labels={"other": "x"}))


def test_hints_depend_on_more_than_the_shape_when_defaults_are_hard():
    hard = TopologySpreadConstraintWire(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
    tested = plugin(default_constraints=[hard], defaulting_type="List")
    assert not hint(tested, "AssignedPod").by_shape


LABELS = st.sampled_from([{}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "x"}])
SELECTORS = st.sampled_from(
    [
        None,
        {},
        {"matchLabels": {"app": "web"}},
        {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
    ]
)
NODES = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([{}, {"disk": "ssd"}]), st.booleans()),
    min_size=1,
    max_size=7,
)
PLACED = st.lists(st.tuples(st.integers(0, 6), LABELS, st.booleans(), st.sampled_from(["default", "far"])), max_size=14)
CONSTRAINTS = st.lists(
    st.builds(
        lambda key, skew, selector, minimum, affinity, taints: spread(
            key,
            skew,
            selector=selector,
            minDomains=minimum,
            nodeAffinityPolicy=affinity,
            nodeTaintsPolicy=taints,
        ),
        st.sampled_from([ZONE, HOST, "disk"]),
        st.integers(1, 3),
        SELECTORS,
        st.sampled_from([None, 1, 3]),
        st.sampled_from(["Honor", "Ignore"]),
        st.sampled_from(["Honor", "Ignore"]),
    ),
    min_size=1,
    max_size=3,
)
TAINT = {"key": "k", "effect": "NoSchedule"}


def build(nodes, placed):
    made = [
        make_node(f"n{i}", zone, taints=[TAINT] * tainted, labels=labels)
        for i, (zone, labels, tainted) in enumerate(nodes)
    ]
    pods = [
        make_pod(f"p{i}", f"n{node % len(nodes)}", labels, terminating=dying, namespace=namespace)
        for i, (node, labels, dying, namespace) in enumerate(placed)
    ]
    return made, pods


def expected(pod, nodes, pods, deltas):
    """The rule for one node at a time, straight from its description; deltas: (pod, node name, +1 or -1)."""
    constraints = pod.spec.topology_spread
    verdicts = {}
    for node in nodes:
        verdicts[node.name] = None
        for constraint in constraints:
            if constraint.topology_key not in node.labels:
                verdicts[node.name] = NO_LABEL
                break
            counts = domain_counts(pod, constraint, constraints, nodes, pods, [d for d in deltas if d[1] == node.name])
            least = 0 if len(counts) < (constraint.min_domains or 1) else min(counts.values())
            own = constraint.selector is not None and constraint.selector.matches(pod.labels)
            if counts.get(node.labels[constraint.topology_key], 0) + own - least > constraint.max_skew:
                verdicts[node.name] = SKEWED
                break
    return {name: verdict for name, verdict in verdicts.items() if verdict is not None}


def domain_counts(pod, constraint, constraints, nodes, pods, deltas):
    counts = {}
    selector, key = constraint.selector, constraint.topology_key
    for node in nodes:
        fits = all(node.labels.get(k) == v for k, v in pod.spec.node_selector.items())
        tolerated = not node.taints or bool(pod.spec.tolerations)
        if (
            any(c.topology_key not in node.labels for c in constraints)
            or (constraint.node_affinity_policy == "Honor" and not fits)
            or (constraint.node_taints_policy == "Honor" and not tolerated)
        ):
            continue
        value = node.labels[key]
        counts.setdefault(value, 0)
        if selector is None:
            continue
        counts[value] += sum(
            p.node_name == node.name
            and not p.terminating
            and p.namespace == pod.namespace
            and not selector.empty
            and selector.matches(p.labels)
            for p in pods
        )
        counts[value] += sum(
            sign
            for p, name, sign in deltas
            if name == node.name and p.namespace == pod.namespace and selector.matches(p.labels)
        )
    return counts


@settings(max_examples=300, deadline=None)
@given(NODES, PLACED, CONSTRAINTS, LABELS, st.booleans(), st.booleans(), st.data())
def test_columns_equal_one_row_at_a_time(nodes, placed, constraints, labels, selecting, tolerating, data):
    made, pods = build(nodes, placed)
    snapshot = Snapshot.build(pods, made)
    pod = incoming(
        *constraints,
        labels=labels,
        nodeSelector={"disk": "ssd"} if selecting else {},
        tolerations=[{"operator": "Exists"}] if tolerating else [],
    )
    tested, state = plugin(), CycleState()
    assert tested.pre_filter(state, pod, snapshot) is None
    view, deltas = whole(snapshot).hypothetical(), []
    for i, name in enumerate(view.names()):
        for victim in (
            data.draw(st.sets(st.sampled_from(list(snapshot.get(name).pods)))) if snapshot.get(name).pods else ()
        ):
            view.remove_pod(i, victim)
            deltas.append((victim, name, -1))
        for extra in data.draw(st.lists(LABELS, max_size=2)):
            added = make_pod(f"x{i}-{len(deltas)}", name, extra)
            view.add_pod(i, added)
            deltas.append((added, name, 1))
    want = expected(pod, made, pods, deltas)
    assert reasons(view, tested.filter(state, pod, view)) == want
    for i, name in enumerate(view.names()):
        single = view.take(np.array([i], np.intp))
        assert reasons(single, tested.filter(state, pod, single)) == {n: v for n, v in want.items() if n == name}
    plain = RowView(snapshot, snapshot.columns.order)
    assert reasons(plain, tested.filter(state, pod, plain)) == expected(pod, made, pods, [])


@settings(max_examples=100, deadline=None)
@given(NODES, PLACED, st.integers(0, 6), LABELS)
def test_a_pod_added_in_thought_counts_as_one_that_is_there(nodes, placed, where, labels):
    made, pods = build(nodes, placed)
    name = f"n{where % len(nodes)}"
    guest = make_pod("guest", name, labels)
    pod = incoming(spread(), spread(HOST, 2))
    before, after = Snapshot.build(pods, made), Snapshot.build([*pods, guest], made)
    view = whole(before).hypothetical()
    view.add_pod(view.names().index(name), guest)
    assert rejected(plugin(), pod, before, view).get(name) == rejected(plugin(), pod, after).get(name)
