"""All nodes at once give what each node alone gives, for random volumes, claims and labels."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from schedcache.cache import Snapshot
from schedcache.framework.interface import CycleState
from schedcache.framework.status import Status
from schedcache.model import Requirement
from schedcache.plugins.node_volume_limits import NodeVolumeLimits
from schedcache.plugins.volume_binding import VolumeBinding
from schedcache.plugins.volume_restrictions import VolumeRestrictions
from schedcache.plugins.volume_zone import VolumeZone
from schedcache.plugins.volumes.matching import is_bound_to
from schedcache.plugins.volumes.places import first_reaching
from schedcache.testing import make_node
from tests.plugins.cluster import HOST, ZONE, handle, reasons, whole
from tests.plugins.volumes import (
    DRIVER,
    attachment,
    claim,
    csi_driver,
    csi_node,
    csi_volume,
    expression,
    pod_with,
    room,
    storage_class,
    term,
    volume,
)

NAMES = ["a", "b", "c", "d"]
ZONES = ["z1", "z2", None]
CLAIMS = ["c1", "c2", "c3"]
PLUGINS = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)


def subset(values, least=1):
    return st.lists(st.sampled_from(values), min_size=least, max_size=len(values), unique=True)


requirements = st.one_of(
    subset(NAMES).map(lambda v: Requirement(HOST, "In", tuple(sorted(v)))),
    subset(["z1", "z2"]).map(lambda v: Requirement(ZONE, "In", tuple(sorted(v)))),
    st.sampled_from(
        [Requirement(ZONE, "Exists"), Requirement(ZONE, "DoesNotExist"), Requirement(HOST, "NotIn", ("a",))]
    ),
)
places = st.none() | st.lists(st.lists(requirements, min_size=1, max_size=2).map(tuple), max_size=2).map(tuple)


def nodes(zones):
    return [make_node(name, zone) for name, zone in zip(NAMES, zones, strict=True)]


def includes(place, node):
    return place is None or any(all(r.matches(node.labels) for r in conjunction) for conjunction in place)


@given(
    found=st.lists(places, max_size=8),
    zones=st.tuples(*[st.sampled_from(ZONES)] * 4),
    excluded=st.lists(st.tuples(*[st.integers(-1, 7)] * 4), max_size=2),
)
@settings(deadline=None)
def test_the_first_place_that_includes_a_node_and_is_not_excluded_there(found, zones, excluded):
    snapshot = Snapshot.build([], nodes(zones))
    view = whole(snapshot)
    got = first_reaching(found, view, [np.array(e, np.int32) for e in excluded]).tolist()
    for position, name in enumerate(view.names()):
        node = snapshot.get(name).node
        taken = {e[position] for e in excluded}
        fitting = (i for i, place in enumerate(found) if i not in taken and includes(place, node))
        assert got[position] == next(fitting, -1)


@st.composite
def volumes(draw, name):
    terms = draw(st.none() | st.lists(subset(NAMES).map(lambda v: term(expression(HOST, *v))), min_size=1, max_size=2))
    owner = draw(st.none() | st.none() | st.tuples(st.sampled_from(CLAIMS), st.sampled_from(["", "uid-c1", "else"])))
    return volume(
        name,
        draw(st.integers(1, 6)),
        terms=terms,
        claim=owner,
        phase=draw(st.sampled_from(["Available"] * 4 + ["Released"])),
        storageClassName=draw(st.sampled_from(["s", "s", "t"])),
        labels=draw(st.sampled_from([{}, {"disk": "ssd"}])),
    )


@st.composite
def unbound_claims(draw, name):
    spec = {"storageClassName": draw(st.sampled_from(["s", "s", "t"]))}
    if draw(st.booleans()):
        spec["selector"] = {"matchLabels": {"disk": "ssd"}}
    return claim(name, draw(st.integers(1, 5)), **spec)


def matched(claims, there, node):
    """FindMatchingVolume of component-helpers, claim by claim and volume by volume, for one node."""
    taken, found = set(), {}
    for wanted in sorted(claims, key=lambda c: c.requested):
        best = None
        for v in sorted(there, key=lambda v: v.name):
            if v.name in taken or v.storage_class_name != wanted.storage_class_name:
                continue
            if (v.claim_ref is not None and not is_bound_to(v, wanted)) or v.capacity < wanted.requested:
                continue
            reached = v.node_affinity is None or any(t.matches(node.labels, "") for t in v.node_affinity)
            if is_bound_to(v, wanted):
                best = v if reached else None
                break
            if v.phase != "Available" or not reached:
                continue
            if wanted.selector is not None and not wanted.selector.matches(v.labels):
                continue
            if best is None or v.capacity < best.capacity:
                best = v
        found[wanted.name] = best.name if best else None
        taken |= {best.name} if best else set()
    return found


@given(data=st.data(), count=st.integers(0, 8))
@settings(max_examples=100, deadline=None)
def test_each_node_gets_the_volumes_it_would_get_alone(data, count):
    there = [data.draw(volumes(f"v{i}")) for i in range(count)]
    claims = [data.draw(unbound_claims(name)) for name in CLAIMS[: data.draw(st.integers(1, 3))]]
    classes = [storage_class("s"), storage_class("t")]
    plugin, state = VolumeBinding(None, handle(*there, *claims, *classes)), CycleState()
    snapshot = Snapshot.build([], nodes(["z1"] * 4))
    pod, view = pod_with("p", *(c.name for c in claims)), whole(snapshot)
    assert plugin.pre_filter(state, pod, snapshot) is None
    assert reasons(view, plugin.filter(state, pod, view)) == {}
    for name, row in zip(view.names(), view.rows.tolist(), strict=True):
        bindings, provisions = state["VolumeBinding"].volumes.on(row)
        got = {c.name: v.name for c, v in bindings} | dict.fromkeys(c.name for c in provisions)
        assert got == matched(claims, there, snapshot.get(name).node)


@st.composite
def worlds(draw):
    """A cluster with pods that use volumes, and a pod that wants some."""
    objects = [storage_class("s", topologies=draw(st.sampled_from([[], [[(ZONE, ["z1"])]]])))]
    objects.append(csi_driver(storageCapacity=draw(st.booleans()), preventPodSchedulingIfMissing=draw(st.booleans())))
    objects += [
        room(f"r{z}", f"{draw(st.integers(1, 6))}Gi", topology={"matchLabels": {ZONE: z}}) for z in ("z1", "z2")
    ]
    for name in NAMES:
        if draw(st.booleans()):
            objects.append(csi_node(name, draw(st.sampled_from([[], [(DRIVER, 1)], [(DRIVER, 2)], [(DRIVER, None)]]))))
    for name in CLAIMS:
        if draw(st.booleans()):
            objects.append(claim(name, draw(st.integers(1, 5))))
        else:
            modes = draw(st.sampled_from([["ReadWriteOnce"], ["ReadWriteOncePod"]]))
            labels = draw(st.sampled_from([{}, {ZONE: "z1"}]))
            on = draw(st.none() | subset(NAMES))
            objects += [
                claim(name, bound_to=f"v{name}", accessModes=modes),
                csi_volume(f"v{name}", labels=labels, on=on),
            ]
    objects += [draw(volumes(f"f{i}")) for i in range(draw(st.integers(0, 3)))]
    objects += [attachment(f"va{n}", n, f"v{draw(st.sampled_from(CLAIMS))}") for n in draw(subset(NAMES, 0))]
    disk = st.sampled_from([[], [{"gcePersistentDisk": {"pdName": "x"}}], [{"iscsi": {"iqn": "i"}}]])
    users = [
        pod_with(f"q{i}", *draw(subset(CLAIMS, 0)), node=draw(st.sampled_from(NAMES)), inline=draw(disk))
        for i in range(draw(st.integers(0, 5)))
    ]
    zones = draw(st.tuples(*[st.sampled_from(ZONES)] * 4))
    return objects, nodes(zones), users, pod_with("p", *draw(subset(CLAIMS)), inline=draw(disk))


def verdicts(plugin, state, pod, view):
    return reasons(view, plugin.filter(state, pod, view))


@given(world=worlds())
@settings(max_examples=100, deadline=None)
def test_columns_say_what_row_by_row_says(world):
    objects, there, users, pod = world
    given_handle, snapshot = handle(*objects), Snapshot.build(users, there)
    for made in PLUGINS:
        plugin, state, alone = made(None, given_handle), CycleState(), CycleState()
        answer = plugin.pre_filter(state, pod, snapshot)
        if isinstance(answer, Status):
            continue
        plugin.pre_filter(alone, pod, snapshot)
        view = whole(snapshot)
        at_once = verdicts(plugin, state, pod, view)
        one_by_one = {}
        for position in range(len(view)):
            one_by_one |= verdicts(plugin, alone, pod, view.take(np.array([position])))
        assert at_once == one_by_one
        if made is VolumeBinding and len(at_once) < len(view):
            passed = view.take(np.array([i for i, name in enumerate(view.names()) if name not in at_once]))
            assert plugin.score(state, pod, passed).tolist() == plugin.score(alone, pod, passed).tolist()


@given(world=worlds(), data=st.data())
@settings(max_examples=100, deadline=None)
def test_pods_moved_in_thought_count_as_if_they_had_moved(world, data):
    objects, there, users, pod = world
    given_handle, snapshot = handle(*objects), Snapshot.build(users, there)
    leaving = data.draw(subset(users, 0)) if users else []
    coming = pod_with("guest", *data.draw(subset(CLAIMS, 0)), node="b", inline=[{"gcePersistentDisk": {"pdName": "x"}}])
    after = Snapshot.build([*(u for u in users if u not in leaving), coming], there)
    for made in (NodeVolumeLimits, VolumeRestrictions):
        plugin, state = made(None, given_handle), CycleState()
        if plugin.pre_filter(state, pod, snapshot) is not None:
            continue
        if made is VolumeRestrictions:
            # Which claims are in use anywhere is decided before any pod is moved; disks alone are the node's.
            state["VolumeRestrictions"].in_use = 0
            state["VolumeRestrictions"].names = frozenset()
        view = whole(snapshot).hypothetical()
        for user in leaving:
            view.remove_pod(view.names().index(user.node_name), user)
        view.add_pod(view.names().index("b"), coming)
        assert verdicts(plugin, state, pod, view) == verdicts(plugin, state, pod, whole(after))


@given(claims=st.lists(st.sampled_from(CLAIMS), max_size=3))
@settings(deadline=None)
def test_rows_that_moved_are_all_that_is_counted_again(claims):
    """Counting after each change equals counting afresh."""
    objects = [o for name in CLAIMS for o in (claim(name, bound_to=f"v{name}"), csi_volume(f"v{name}"))]
    given_handle = handle(*objects, *(csi_node(name, [(DRIVER, 2)]) for name in NAMES))
    plugin, snapshot = NodeVolumeLimits(None, given_handle), Snapshot.build([], nodes(["z1"] * 4))
    pod = pod_with("p", "c1", "c2")
    for i, name in enumerate(claims):
        snapshot.assume(pod_with(f"q{i}", name, node=NAMES[i % 2]))
        fresh = NodeVolumeLimits(None, given_handle)
        view = whole(snapshot)
        assert verdicts(plugin, CycleState(), pod, view) == verdicts(fresh, CycleState(), pod, view)
