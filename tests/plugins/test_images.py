"""ImageLocality follows nodes that come, go, and pull images."""

import pytest

from schedcache.cache import SchedulerCache, Snapshot
from schedcache.framework import CycleState, RowView
from schedcache.plugins.image_locality import ImageLocality
from schedcache.testing import make_node
from tests.framework.world import make_pod
from tests.plugins.cluster import handle

GIB = 2**30


def node(name, *images):
    return make_node(name, images=[([image], GIB) for image in images])


def scores(plugin, snapshot, pod):
    view = RowView(snapshot, snapshot.columns.order)
    found = plugin.score(CycleState(), pod, view).tolist()
    return dict(zip(view.names(), found, strict=True))


def test_scores_follow_the_cluster():
    cache, snapshot, plugin = SchedulerCache(), Snapshot(), ImageLocality(None, handle())
    pod = make_pod("p", containers=[{"name": "c", "image": "registry.example/app:1"}])
    nodes = {name: node(name) for name in ("n1", "n2")}
    for each in nodes.values():
        cache.add_node(each)
    cache.update_snapshot(snapshot)
    assert scores(plugin, snapshot, pod) == {"n1": 0, "n2": 0}
    pulled = node("n1", "registry.example/app:1")
    cache.update_node(nodes["n1"], pulled)
    cache.update_snapshot(snapshot)
    half = scores(plugin, snapshot, pod)
    assert half == {"n1": 50, "n2": 0}
    cache.update_node(pulled, nodes["n1"])
    cache.update_snapshot(snapshot)
    assert scores(plugin, snapshot, pod) == {"n1": 0, "n2": 0}
    cache.remove_node(nodes["n2"])
    cache.update_node(nodes["n1"], pulled)
    cache.update_snapshot(snapshot)
    assert scores(plugin, snapshot, pod) == {"n1": 100}
    assert len(plugin._holders[snapshot.columns].rows) == 1


@pytest.mark.parametrize(("image", "expected"), [("app", 100), ("app:latest", 100), ("app:2", 0), ("host:5000/app", 0)])
def test_a_name_without_tag_means_latest(image, expected):
    cache, snapshot = SchedulerCache(), Snapshot()
    cache.add_node(node("n1", "app:latest"))
    cache.update_snapshot(snapshot)
    pod = make_pod("p", containers=[{"name": "c", "image": image}])
    assert scores(ImageLocality(None, handle()), snapshot, pod) == {"n1": expected}
