"""A node that a filter fails at: the decision stands, and what was wrong is said."""

import pytest

from schedcache.simulation import simulate
from schedcache.testing import node_manifest, pod_manifest

TOLD = (
    'running "NodeVolumeLimits" filter plugin: converting volume(v) from inline to csi: kind(Shared) is not supported '
    "in csi migration"
)
DISK = {"name": "v", "azureDisk": {"diskName": "d", "diskURI": "/d", "kind": "Shared"}}


def csi_node(name):
    return {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": []}}


@pytest.mark.parametrize(("odd", "named"), [("a", "node a"), ("ab", "node a and 1 more")])
def test_the_pod_goes_elsewhere_with_a_warning(odd, named):
    objects = [*map(node_manifest, "abc"), *map(csi_node, odd)]
    found = simulate(objects=objects, pod=pod_manifest("p", volumes=[DISK]))
    assert "c" in found["selected"]
    assert found["rejected"] == {n: {"plugin": "NodeVolumeLimits", "code": "Error", "reasons": [TOLD]} for n in odd}
    assert f"left out, as it could not be looked at: {named}: {TOLD}" in found["warnings"]


def test_where_no_node_is_left_the_attempt_ends_with_the_error():
    found = simulate(objects=[node_manifest("a"), csi_node("a")], pod=pod_manifest("p", volumes=[DISK]))
    assert (found["selected"], found["message"], found["explanation"]) == ([], TOLD, [TOLD])
    assert not [line for line in found["warnings"] if line.startswith("left out")]
