import pytest

from schedcache.model import LabelSelector, MalformedObjectError, Requirement
from schedcache.model.objects import (
    ClusterObject,
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from tests.model.support import both

KINDS: list[type[ClusterObject]] = [
    Namespace,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
]
WEB = LabelSelector((Requirement("app", "In", ("web",)),))


@pytest.mark.parametrize("kind", KINDS)
def test_identity_is_read(kind):
    meta = {"name": "x", "namespace": "shop", "uid": "u1", "resourceVersion": "7"}
    found = both(kind, {"metadata": meta})
    assert (found.name, found.uid, found.resource_version) == ("x", "u1", "7")
    assert found.full_name == ("x" if kind is Namespace else "shop/x")


@pytest.mark.parametrize("kind", KINDS)
def test_null_is_allowed_wherever_kubernetes_writes_it(kind):
    null = {"metadata": {"name": "x", "labels": None, "ownerReferences": None}, "spec": None, "status": None}
    assert both(kind, null).name == "x"
    assert both(kind, {"metadata": {"name": "x"}, "spec": {"selector": None}}).name == "x"


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_names_kind_object_and_field(kind):
    with pytest.raises(MalformedObjectError) as caught:
        kind.from_dict({"metadata": {"name": "x", "labels": ["no", "map"]}})
    assert (caught.value.kind, caught.value.name, caught.value.field) == (kind.__name__, "x", "metadata.labels")
    with pytest.raises(MalformedObjectError):
        kind.from_json(b"{")


def test_namespace_labels():
    assert both(Namespace, {"metadata": {"name": "x", "labels": {"a": "1", "b": None}}}).labels == {"a": "1", "b": ""}


@pytest.mark.parametrize("kind", [Service, ReplicationController])
@pytest.mark.parametrize(
    ("spec", "selector"),
    [({}, None), ({"selector": None}, None), ({"selector": {}}, {}), ({"selector": {"app": "web"}}, {"app": "web"})],
)
def test_no_selector_and_the_empty_one_differ(kind, spec, selector):
    assert both(kind, {"metadata": {"name": "x"}, "spec": spec}).selector == selector


@pytest.mark.parametrize("kind", [ReplicaSet, StatefulSet, PodDisruptionBudget])
@pytest.mark.parametrize(
    ("spec", "selector"),
    [({}, None), ({"selector": {}}, LabelSelector()), ({"selector": {"matchLabels": {"app": "web"}}}, WEB)],
)
def test_set_based_selectors(kind, spec, selector):
    assert both(kind, {"metadata": {"name": "x"}, "spec": spec}).selector == selector


def test_disruption_budget():
    status = {"disruptionsAllowed": 2, "disruptedPods": {"web-1": "2026-01-01T00:00:00Z", "web-2": None}}
    found = both(PodDisruptionBudget, {"metadata": {"name": "x"}, "status": status})
    assert found.disruptions_allowed == 2
    assert found.disrupted_pods == {"web-1", "web-2"}
    nothing_said = both(PodDisruptionBudget, {"metadata": {"name": "x"}, "status": {"disruptedPods": None}})
    assert (nothing_said.disruptions_allowed, nothing_said.disrupted_pods) == (0, frozenset())
