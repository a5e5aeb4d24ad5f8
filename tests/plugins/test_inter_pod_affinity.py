import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedcache.cache import SchedulerCache, Snapshot
from schedcache.config.plugin_args import InterPodAffinityArgs
from schedcache.framework.interface import CycleState
from schedcache.framework.status import Code
from schedcache.model.objects import Namespace
from schedcache.plugins.inter_pod_affinity import InterPodAffinity
from schedcache.testing import make_node, make_pod
from tests.plugins.cluster import HOST, ZONE, handle, hint, reasons, rejected, scores, whole

NOT_NEAR = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match pod affinity rules")
TOO_NEAR = (Code.UNSCHEDULABLE, "node(s) didn't match pod anti-affinity rules")
UNWANTED = (Code.UNSCHEDULABLE, "node(s) didn't satisfy existing pods anti-affinity rules")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB, DB = {"app": "web"}, {"app": "db"}


def namespace(name, **labels):
    return Namespace.from_dict({"metadata": {"name": name, "labels": labels}})


def plugin(*objects, **args):
    return InterPodAffinity(InterPodAffinityArgs(**args), handle(*objects))


def term(app="db", key=ZONE, **more):
    selector = {"matchLabels": {"app": app}} if isinstance(app, str) else app
    return {"topologyKey": key, "labelSelector": selector, **more}


def near(*terms, preferred=()):
    return {"podAffinity": {REQUIRED: list(terms), PREFERRED: weighted(preferred)}}


def away(*terms, preferred=()):
    return {"podAntiAffinity": {REQUIRED: list(terms), PREFERRED: weighted(preferred)}}


def weighted(preferred):
    return [{"weight": weight, "podAffinityTerm": one} for weight, one in preferred]


def incoming(affinity, labels=WEB, **more):
    return make_pod("new", labels=labels, affinity=affinity, **more)


def cluster(*pods, nodes="a1 a2 b1"):
    """Nodes named after their zone."""
    return Snapshot.build(pods, [make_node(name, name[0]) for name in nodes.split()])


def test_affinity_needs_a_partner_in_the_domain():
    snapshot = cluster(make_pod("db", "a1", DB))
    assert rejected(plugin(), incoming(near(term())), snapshot) == {"b1": NOT_NEAR}
    assert rejected(plugin(), incoming(near(term(key=HOST))), snapshot) == {"a2": NOT_NEAR, "b1": NOT_NEAR}


def test_affinity_needs_the_label():
    snapshot = Snapshot.build([make_pod("db", "a1", DB)], [make_node("a1", "a"), make_node("x")])
    assert rejected(plugin(), incoming(near(term())), snapshot) == {"x": NOT_NEAR}


def test_one_partner_must_match_all_terms():
    both = make_pod("both", "b1", {"app": "db", "tier": "gold"})
    apart = [make_pod("db", "a1", DB), make_pod("gold", "a1", {"tier": "gold"})]
    gold = term({"matchLabels": {"tier": "gold"}})
    assert rejected(plugin(), incoming(near(term(), gold)), cluster(*apart)).keys() == {"a1", "a2", "b1"}
    assert rejected(plugin(), incoming(near(term(), gold)), cluster(*apart, both)).keys() == {"a1", "a2"}


def test_the_first_of_a_group_may_go_anywhere_that_has_the_labels():
    nodes = [make_node("a1", "a"), make_node("x")]
    group = incoming(near(term("web")))
    assert rejected(plugin(), group, Snapshot.build([], nodes)) == {"x": NOT_NEAR}
    # A member where no domain is does not make it a group.
    assert rejected(plugin(), group, Snapshot.build([make_pod("p", "x", WEB)], nodes)) == {"x": NOT_NEAR}
    started = Snapshot.build([make_pod("p", "a1", WEB)], [*nodes, make_node("b1", "b")])
    assert rejected(plugin(), group, started) == {"x": NOT_NEAR, "b1": NOT_NEAR}
    assert rejected(plugin(), incoming(near(term("web")), labels=DB), Snapshot.build([], nodes)).keys() == {"a1", "x"}


def test_a_missing_selector_matches_no_pod():
    snapshot = cluster(make_pod("db", "a1", DB))
    assert rejected(plugin(), incoming(near(term(None))), snapshot).keys() == {"a1", "a2", "b1"}
    assert rejected(plugin(), incoming(away(term(None))), snapshot) == {}
    owner = make_pod("o", "a1", affinity=away(term(None)))
    assert rejected(plugin(), incoming({}), cluster(owner)) == {}


def test_own_anti_affinity():
    snapshot = cluster(make_pod("db", "a1", DB), make_pod("web", "b1", WEB))
    assert rejected(plugin(), incoming(away(term())), snapshot) == {"a1": TOO_NEAR, "a2": TOO_NEAR}
    assert rejected(plugin(), incoming(away(term(key=HOST), term("web"))), snapshot) == {"a1": TOO_NEAR, "b1": TOO_NEAR}
    assert rejected(plugin(), incoming(away(term(key="no-such-label"))), snapshot) == {}


def test_anti_affinity_of_those_in_place():
    snapshot = cluster(make_pod("db", "a1", DB, affinity=away(term("web"))))
    assert rejected(plugin(), incoming({}), snapshot) == {"a1": UNWANTED, "a2": UNWANTED}
    assert rejected(plugin(), incoming({}, labels=DB), snapshot) == {}
    assert rejected(plugin(), incoming({}, namespace="far"), snapshot) == {}


def test_affinity_is_told_before_anti_affinity_before_others():
    snapshot = cluster(
        make_pod("db", "a1", DB), make_pod("owner", "b1", affinity=away(term("web", key=HOST))), nodes="a1 b1 c1"
    )
    pod = incoming({**near(term("cache")), **away(term())})
    assert set(rejected(plugin(), pod, snapshot).values()) == {NOT_NEAR}
    assert rejected(plugin(), incoming(away(term())), snapshot) == {"a1": TOO_NEAR, "b1": UNWANTED}


def test_terminating_pods_count():
    snapshot = cluster(make_pod("db", "a1", DB, terminating=True))
    assert rejected(plugin(), incoming(near(term(key=HOST))), snapshot).keys() == {"a2", "b1"}
    assert rejected(plugin(), incoming(away(term(key=HOST))), snapshot) == {"a1": TOO_NEAR}


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({}, set()),
        ({"namespaces": ["x"]}, {"a1"}),
        ({"namespaces": ["x", "unknown"]}, {"a1", "b1"}),
        ({"namespaceSelector": {"matchLabels": {"team": "data"}}}, {"a2"}),
        ({"namespaceSelector": {"matchLabels": {"team": "data"}}, "namespaces": ["x"]}, {"a1", "a2"}),
        ({"namespaceSelector": {}}, {"a1", "a2", "b1"}),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, {"a1"}),
    ],
)
def test_namespaces_of_own_terms(where, found):
    # `unknown` has no Namespace object: a selector finds it only by matching everything.
    pods = [
        make_pod("p", "a1", DB, namespace="x"),
        make_pod("p", "a2", DB, namespace="y"),
        make_pod("p", "b1", DB, namespace="unknown"),
    ]
    tested = plugin(namespace("x"), namespace("y", team="data"), namespace("default", team="web"))
    pod = incoming(away(term(key=HOST, **where)))
    assert rejected(tested, pod, cluster(*pods)).keys() == found


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ({}, False),
        ({"namespaces": ["y"]}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "data"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "web"}}}, False),
        ({"namespaceSelector": {}}, True),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, False),
    ],
)
def test_namespaces_of_others_terms(where, found):
    owner = make_pod("o", "a1", affinity=away(term("web", **where)))
    tested, pod = plugin(namespace("y", team="data")), incoming({}, namespace="y")
    assert bool(rejected(tested, pod, cluster(owner))) == found


def test_an_unknown_namespace_has_no_labels():
    missing = {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}
    owner = make_pod("o", "a1", affinity=away(term("web", **missing)))
    assert rejected(plugin(), incoming({}, namespace="unknown"), cluster(owner)).keys() == {"a1", "a2"}


def test_namespaces_are_resolved_anew_when_their_labels_change():
    stores = handle(namespace("x"))
    tested = InterPodAffinity(InterPodAffinityArgs(), stores)
    data = {"namespaceSelector": {"matchLabels": {"team": "data"}}}
    pod = incoming(away(term(key=HOST, **data)))
    snapshot = cluster(make_pod("p", "a1", DB, namespace="x"), make_pod("o", "b1", affinity=away(term("web", **data))))
    other = incoming({}, namespace="x")
    assert rejected(tested, pod, snapshot) == {}
    assert rejected(tested, other, snapshot) == {}
    stores.cluster_objects.update("Namespace", namespace("x", team="data"))
    assert rejected(tested, pod, snapshot) == {"a1": TOO_NEAR}
    assert rejected(tested, other, snapshot) == {"b1": UNWANTED}
    stores.cluster_objects.remove("Namespace", namespace("x"))
    assert rejected(tested, pod, snapshot) == {}


def test_a_refused_selector_rejects_the_pod():
    bad = term({"matchExpressions": [{"key": "a", "operator": "Near"}]})
    for affinity in (near(bad), away(preferred=[(1, bad)]), near(term(namespaceSelector=bad["labelSelector"]))):
        status = plugin().pre_filter(CycleState(), incoming(affinity), cluster())
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert "'Near' on 'a'" in status.message


def test_nothing_to_check_is_skipped():
    snapshot = cluster(make_pod("db", "a1", DB, affinity=away(preferred=[(1, term())])))
    assert plugin().pre_filter(CycleState(), incoming({}), snapshot).code is Code.SKIP
    assert plugin().pre_filter(CycleState(), incoming(near(preferred=[(1, term())])), snapshot).code is Code.SKIP


def test_own_preferences_rank():
    snapshot = cluster(make_pod("d1", "a1", DB), make_pod("d2", "b1", DB), make_pod("d3", "b1", DB))
    wanted = incoming(near(preferred=[(10, term(key=HOST))]))
    assert scores(plugin(), wanted, snapshot) == {"a1": 50, "a2": 0, "b1": 100}
    avoided = incoming(away(preferred=[(10, term(key=HOST))]))
    assert scores(plugin(), avoided, snapshot) == {"a1": 50, "a2": 100, "b1": 0}
    both = incoming({**near(preferred=[(10, term())]), **away(preferred=[(15, term(key=HOST))])})
    # a1: 10 - 15, a2: 10, b1: 20 - 30
    assert scores(plugin(), both, snapshot) == {"a1": 25, "a2": 100, "b1": 0}


def test_preferences_of_those_in_place_rank():
    snapshot = cluster(
        make_pod("w", "a1", affinity=near(preferred=[(4, term("web", key=HOST))])),
        make_pod("v", "b1", affinity=away(preferred=[(4, term("web"))])),
    )
    assert scores(plugin(), incoming({}), snapshot) == {"a1": 100, "a2": 50, "b1": 0}
    assert scores(plugin(), incoming({}, labels=DB), snapshot) is None
    assert scores(plugin(ignore_preferred_terms_of_existing_pods=True), incoming({}), snapshot) is None
    own = incoming(near(preferred=[(1, term("nobody"))]))
    tested = plugin(ignore_preferred_terms_of_existing_pods=True)
    assert scores(tested, own, snapshot) == {"a1": 100, "a2": 50, "b1": 0}


def test_required_affinity_of_those_in_place_ranks():
    snapshot = cluster(
        make_pod("w", "a1", affinity=near(term("web"))),
        make_pod("v", "b1", affinity=near(preferred=[(2, term("web"))])),
    )
    assert scores(plugin(), incoming({}), snapshot) == {"a1": 0, "a2": 0, "b1": 100}
    assert scores(plugin(hard_pod_affinity_weight=5), incoming({}), snapshot) == {"a1": 100, "a2": 100, "b1": 0}
    assert scores(plugin(hard_pod_affinity_weight=0), incoming({}), snapshot) == {"a1": 0, "a2": 0, "b1": 100}


def test_equal_sums_all_score_nothing():
    snapshot = cluster(make_pod("d1", "a1", DB), make_pod("d2", "b1", DB))
    assert scores(plugin(), incoming(near(preferred=[(10, term())])), snapshot) == {"a1": 0, "a2": 0, "b1": 0}


def test_normalizing_follows_the_order_of_float_operations():
    raw = np.array([0, 29, 100, 57], np.int64)
    assert plugin().normalize_score(CycleState(), incoming({}), raw).tolist() == [0, 28, 100, 56]


def test_pods_added_or_removed_count_in_their_own_row_alone():
    snapshot = cluster(make_pod("db", "a1", DB), nodes="a1 b1 c1")
    pod, state, tested = incoming(away(term(), term("cache", key=HOST))), CycleState(), plugin()
    assert tested.pre_filter(state, pod, snapshot) is None
    view = whole(snapshot).hypothetical()
    at = {name: i for i, name in enumerate(view.names())}
    (victim,) = snapshot.get("a1").pods
    view.remove_pod(at["a1"], victim)
    view.add_pod(at["b1"], make_pod("n", "b1", {"app": "cache"}))
    view.add_pod(at["c1"], make_pod("o", "c1", affinity=away(term("web", key=HOST))))
    assert reasons(view, tested.filter(state, pod, view)) == {"b1": TOO_NEAR, "c1": UNWANTED}


def test_a_nominated_pods_own_anti_affinity_is_ignored_where_prefilter_was_skipped():
    snapshot = cluster()
    view = whole(snapshot).hypothetical()
    view.add_pod(0, make_pod("n", "a1", affinity=away(term("web"))))
    assert rejected(plugin(), incoming({}), snapshot, view) == {}


def test_hints_for_assigned_pods():
    tested = plugin(namespace("y", team="data"))
    registered = hint(tested, "AssignedPod")
    assert registered.actions == ("Add", "UpdatePodLabel", "Delete")
    asked = registered.fn
    wants, avoids, indifferent = incoming(near(term())), incoming(away(term())), incoming({})
    db, web = make_pod("p", "n", DB), make_pod("p", "n", WEB)
    assert asked(wants, None, db)
    assert not asked(wants, None, web)
    assert not asked(wants, db, None)
    assert not asked(avoids, None, db)
    assert asked(avoids, db, None)
    assert not asked(avoids, web, None)
    assert asked(wants, web, db)
    assert not asked(wants, db, web)
    assert asked(avoids, db, web)
    assert not asked(avoids, web, db)
    assert asked(indifferent, make_pod("p", "n", affinity=away(term("web"))), None)
    assert not asked(indifferent, make_pod("p", "n", affinity=away(term("db"))), None)
    assert not asked(wants, None, make_pod("p", "", DB))
    assert asked(wants, None, make_pod("p", "", DB, nominated="n"))


def test_a_partner_in_a_selected_namespace_wakes_the_pod():
    data = {"namespaceSelector": {"matchLabels": {"team": "data"}}}
    asked = hint(plugin(namespace("d1", team="data"), namespace("x1")), "AssignedPod").fn
    wants, avoids = incoming(near(term(**data))), incoming(away(term(**data)))
    inside, outside = make_pod("p", "n", DB, namespace="d1"), make_pod("p", "n", DB, namespace="x1")
    assert asked(wants, None, inside)
    assert not asked(wants, None, outside)
    assert asked(avoids, inside, None)
    assert not asked(avoids, outside, None)
    repelling = make_pod("p", "n", namespace="x1", affinity=away(term("web", **data)))
    assert asked(incoming({}, namespace="d1"), repelling, None)
    assert not asked(incoming({}, namespace="x1"), make_pod("p", "n", affinity=away(term("web", **data))), None)


def test_hints_for_nodes():
    asked = hint(plugin(), "Node").fn
    wants, avoids = incoming(near(term())), incoming(away(term()))
    in_a, in_b, outside = make_node("n", "a"), make_node("n", "b"), make_node("n")
    assert asked(wants, None, in_a)
    assert not asked(wants, None, outside)
    assert asked(wants, outside, in_a)
    assert asked(wants, in_a, in_b)
    assert not asked(wants, in_a, outside)
    assert asked(avoids, None, outside)
    assert asked(avoids, in_a, outside)
    assert asked(avoids, in_a, in_b)
    assert not asked(avoids, outside, in_a)
    assert not asked(avoids, in_a, make_node("n", "a", labels={"other": "x"}))


def test_hints_for_namespaces():
    registered = hint(plugin(), "Namespace")
    assert registered.actions == ("Add", "Update", "Delete")
    asked = registered.fn
    data = {"namespaceSelector": {"matchLabels": {"team": "data"}}}
    wants, avoids, local = incoming(near(term(**data))), incoming(away(term(**data))), incoming(near(term()))
    plain, selected = namespace("x"), namespace("x", team="data")
    for waiting in (wants, avoids):
        assert asked(waiting, None, selected)
        assert asked(waiting, plain, selected)
        assert asked(waiting, selected, plain)
        assert asked(waiting, selected, None)
        assert not asked(waiting, None, plain)
        assert not asked(waiting, selected, namespace("x", team="data"))
        assert not asked(waiting, selected, namespace("x", team="data", more="y"))
    assert not asked(local, plain, selected)
    assert asked(local, namespace("default"), namespace("default", team="data"))


def test_hint_for_the_pod_itself():
    registered = hint(plugin(), "TargetPod")
    assert registered.actions == ("UpdatePodLabel",)
    assert registered.fn is None


def test_changes_of_the_cluster_are_followed():
    cache, snapshot, tested = SchedulerCache(), Snapshot(), plugin()
    for name in ("a1", "b1"):
        cache.add_node(make_node(name, name[0]))
    cache.update_snapshot(snapshot)
    pod = incoming(away(term("web")))
    placed = []
    for node in ("a1", "b1"):
        cache.add_pod(make_pod(f"p-{node}", node, WEB, affinity=away(term("web"))))
        cache.update_snapshot(snapshot)
        placed.append(node)
        assert rejected(tested, pod, snapshot) == dict.fromkeys(placed, TOO_NEAR)


APPS = st.sampled_from(["web", "db"])
LABELS = st.sampled_from([{}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "x"}])
NAMESPACES = st.sampled_from(["default", "data", "unknown"])
WHERE = st.sampled_from(
    [
        {},
        {"namespaces": ["data", "default"]},
        {"namespaceSelector": {}},
        {"namespaceSelector": {"matchLabels": {"team": "data"}}},
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}},
    ]
)
SELECTORS = st.sampled_from(
    [
        None,
        {},
        "web",
        "db",
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
        {"matchLabels": {"tier": "x"}},
    ]
)
TERMS = st.builds(
    lambda app, key, where: term(app, key, **where), SELECTORS, st.sampled_from([ZONE, HOST, "disk"]), WHERE
)
AFFINITY = st.builds(
    lambda together, apart, wanted, avoided: {
        **near(*together, preferred=wanted),
        **away(*apart, preferred=avoided),
    },
    st.lists(TERMS, max_size=2),
    st.lists(TERMS, max_size=2),
    st.lists(st.tuples(st.integers(1, 9), TERMS), max_size=2),
    st.lists(st.tuples(st.integers(1, 9), TERMS), max_size=2),
)
NODES = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([{}, {"disk": "ssd"}])), min_size=1, max_size=6
)
PODS = st.lists(st.tuples(st.integers(0, 5), LABELS, NAMESPACES, st.one_of(st.just({}), AFFINITY)), max_size=10)
KNOWN = {"default": {}, "data": {"team": "data"}}


def in_scope(one, owner_namespace, other, *, own):
    """Whether the term is about pods of the other's namespace. Own terms see Namespace objects alone, others' labels."""
    names, selector = one.namespaces, one.namespace_selector
    if not names and selector is None:
        return other.namespace == owner_namespace
    if other.namespace in names:
        return True
    if selector is None:
        return False
    if own and not selector.empty and other.namespace not in KNOWN:
        return False
    return selector.matches(KNOWN.get(other.namespace, {}))


def matches(one, owner, other, *, own):
    return (
        one.selector is not None
        and in_scope(one, owner.namespace, other, own=own)
        and one.selector.matches(other.labels)
    )


def expected(pod, nodes, placed):
    """The rule for one node at a time, straight from its description; placed: (pod, the labels of its node)."""
    together, apart = pod.spec.pod_affinity, pod.spec.pod_anti_affinity
    verdicts = {}
    for node in nodes:
        labels = node.labels

        def same(key, theirs, labels=labels):
            return key in labels and labels[key] == theirs.get(key)

        partners = [theirs for other, theirs in placed if all(matches(t, pod, other, own=True) for t in together)]
        first = not any(t.topology_key in theirs for theirs in partners for t in together)
        first = first and all(matches(t, pod, pod, own=True) for t in together)
        keyed = all(t.topology_key in labels for t in together)
        found = all(any(same(t.topology_key, theirs) for theirs in partners) for t in together)
        if together and not (keyed and (found or first)):
            verdicts[node.name] = NOT_NEAR
        elif any(matches(t, pod, o, own=True) and same(t.topology_key, theirs) for t in apart for o, theirs in placed):
            verdicts[node.name] = TOO_NEAR
        elif any(
            matches(t, o, pod, own=False) and same(t.topology_key, theirs)
            for o, theirs in placed
            for t in o.spec.pod_anti_affinity
        ):
            verdicts[node.name] = UNWANTED
    return verdicts


def expected_scores(pod, nodes, placed, hard_weight):
    sums = []
    spec = pod.spec
    for node in nodes:
        total = 0
        for other, theirs in placed:

            def worth(one, weight, labels=node.labels, theirs=theirs):
                key = one.topology_key
                return weight if key in labels and labels[key] == theirs.get(key) else 0

            for sign, own in ((1, spec.preferred_pod_affinity), (-1, spec.preferred_pod_anti_affinity)):
                total += sum(worth(w.term, sign * w.weight) for w in own if matches(w.term, pod, other, own=True))
            o = other.spec
            for sign, theirs_ in ((1, o.preferred_pod_affinity), (-1, o.preferred_pod_anti_affinity)):
                total += sum(worth(w.term, sign * w.weight) for w in theirs_ if matches(w.term, other, pod, own=False))
            total += sum(worth(t, hard_weight) for t in o.pod_affinity if matches(t, other, pod, own=False))
        sums.append(total)
    low, high = min(sums), max(sums)
    scaled = [0 if low == high else int(100.0 * ((total - low) / (high - low))) for total in sums]
    return dict(zip((n.name for n in nodes), scaled, strict=True))


def build(nodes, placed, prefix="p"):
    made = [make_node(f"n{i}", zone, labels=labels) for i, (zone, labels) in enumerate(nodes)]
    pods = [
        make_pod(f"{prefix}{i}", f"n{node % len(nodes)}", labels, namespace=ns, affinity=affinity)
        for i, (node, labels, ns, affinity) in enumerate(placed)
    ]
    return made, pods, [namespace(name, **labels) for name, labels in KNOWN.items()]


@settings(max_examples=400, deadline=None)
@given(NODES, PODS, AFFINITY, LABELS, NAMESPACES, st.integers(0, 3))
def test_columns_equal_one_row_at_a_time(nodes, placed, affinity, labels, where, hard_weight):
    made, pods, namespaces = build(nodes, placed)
    by_name = {n.name: n.labels for n in made}
    located = [(p, by_name[p.node_name]) for p in pods]
    snapshot, pod = Snapshot.build(pods, made), incoming(affinity, labels, namespace=where)
    tested = plugin(*namespaces, hard_pod_affinity_weight=hard_weight)
    assert rejected(tested, pod, snapshot) == expected(pod, made, located)
    got = scores(tested, pod, snapshot)
    assert (got or dict.fromkeys(by_name, 0)) == expected_scores(pod, made, located, hard_weight)


@settings(max_examples=300, deadline=None)
@given(NODES, PODS, PODS, AFFINITY, LABELS, NAMESPACES)
def test_pods_added_or_removed_in_thought_are_as_good_as_done(nodes, placed, guests, affinity, labels, where):
    made, pods, namespaces = build(nodes, placed)
    _, added, _ = build(nodes, guests, "guest")
    snapshot, pod = Snapshot.build(pods, made), incoming(affinity, labels, namespace=where)
    tested, state = plugin(*namespaces), CycleState()
    if tested.pre_filter(state, pod, snapshot) is not None:
        return
    view = whole(snapshot).hypothetical()
    changed = [(p.node_name, p, -1) for p in pods[::2]] + [(p.node_name, p, 1) for p in added]
    for name, other, sign in changed:
        position = view.names().index(name)
        (view.add_pod if sign > 0 else view.remove_pod)(position, other)
    got = reasons(view, tested.filter(state, pod, view))
    for i, name in enumerate(view.names()):
        gone = {p.uid for node, p, sign in changed if node == name and sign < 0}
        here = [p for p in pods if p.uid not in gone] + [p for node, p, sign in changed if node == name and sign > 0]
        by_name = {n.name: n.labels for n in made}
        want = expected(pod, made, [(p, by_name[p.node_name]) for p in here])
        assert got.get(name) == want.get(name)
        single = view.take(np.array([i], np.intp))
        assert reasons(single, tested.filter(state, pod, single)).get(name) == want.get(name)
