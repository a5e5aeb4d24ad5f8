"""The node tree, image records and node aggregates by themselves."""

import pytest

from schedcache.cache import NodeTree
from schedcache.cache.image_states import ImageStates, ImageStateSummary, summaries
from schedcache.cache.node_info import claims_of
from schedcache.testing import make_node, make_pod

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
BETA_REGION, BETA_ZONE = "failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"


def tree_of(*zones):
    tree = NodeTree()
    for i, zone in enumerate(zones):
        tree.set(f"n{i}", zone)
    return tree


class TestNodeTree:
    def test_lists_zones_in_turn(self):
        tree = tree_of("", "r1", "z2", "r1z2", "r1z2", "r1z3", "r2z2", "r2z2", "r2z2")
        assert tree.list() == [f"n{i}" for i in (0, 1, 2, 3, 5, 6, 4, 7, 8)]
        assert len(tree) == 9

    def test_remembers_nothing_between_listings(self):
        tree = tree_of("a", "a", "b")
        assert tree.list() == tree.list() == ["n0", "n2", "n1"]
        tree.set("n3", "b")
        tree.set("n4", "c")
        assert tree.list() == ["n0", "n2", "n4", "n1", "n3"]

    def test_has_a_node_once(self):
        tree = tree_of("a", "a")
        tree.set("n0", "a")
        assert tree.list() == ["n0", "n1"]
        assert len(tree) == 2

    def test_moves_a_node_to_the_end_of_its_new_zone(self):
        tree = tree_of("a", "b", "b")
        tree.set("n0", "b")
        assert tree.zones == {"b": ["n1", "n2", "n0"]}
        tree.set("n1", "a")
        assert tree.zones == {"b": ["n2", "n0"], "a": ["n1"]}
        assert tree.list() == ["n2", "n1", "n0"]

    def test_forgets_an_empty_zone(self):
        tree = tree_of("a", "b")
        assert tree.remove("n0") is True
        assert tree.zones == {"b": ["n1"]}
        tree.set("n0", "a")
        assert list(tree.zones) == ["b", "a"]

    def test_does_not_know_what_was_never_there(self):
        tree = tree_of("a")
        assert tree.remove("n9") is False
        assert ("n0" in tree, "n9" in tree) == (True, False)
        assert tree.list() == ["n0"]

    def test_of_nothing(self):
        assert NodeTree().list() == []


@pytest.mark.parametrize(
    ("labels", "key"),
    [
        ({}, ""),
        ({REGION: "r"}, "r:\0:"),
        ({ZONE: "z"}, ":\0:z"),
        ({REGION: "r", ZONE: "z"}, "r:\0:z"),
        ({REGION: "r", ZONE: "z", BETA_REGION: "br", BETA_ZONE: "bz"}, "br:\0:bz"),
        ({ZONE: "z", BETA_ZONE: ""}, ""),
    ],
)
def test_zone_key(labels, key):
    assert make_node("n", labels=labels).zone_key == key


class TestImageStates:
    def test_the_first_node_that_reports_an_image_says_its_size(self):
        images = ImageStates()
        first = images.replace_node(None, make_node("n1", images=[(["a", "a@x"], 10)]), ())
        second = images.replace_node(None, make_node("n2", images=[(["a"], 99)]), ())
        assert summaries(second) == {"a": ImageStateSummary(10, 2)}
        assert summaries(first) == {"a": ImageStateSummary(10, 2), "a@x": ImageStateSummary(10, 1)}

    def test_a_record_goes_with_its_last_node(self):
        images, n1, n2 = ImageStates(), make_node("n1", images=[(["a"], 10)]), make_node("n2", images=[(["a"], 99)])
        first = images.replace_node(None, n1, ())
        second = images.replace_node(None, n2, ())
        assert images.replace_node(n1, None, first) == ()
        assert images.states["a"].nodes == {"n2"}
        third = images.replace_node(n2, n2, second)
        assert summaries(third) == {"a": ImageStateSummary(99, 1)}, "the only node says the size anew"
        images.replace_node(n2, None, third)
        assert images.states == {}

    def test_the_version_moves_exactly_when_a_count_or_size_does(self):
        images, node = ImageStates(), make_node("n1", images=[(["a"], 10)])
        refs = images.replace_node(None, node, ())
        assert images.version == 1
        refs = images.replace_node(node, make_node("n1", images=[(["a"], 10)]), refs)
        images.replace_node(None, make_node("n2"), ())
        assert images.version == 1
        refs = images.replace_node(node, make_node("n1", images=[(["a"], 11)]), refs)
        assert images.version == 2
        assert images.states["a"].version == 2
        images.replace_node(None, make_node("n3", images=[(["b"], 1)]), ())
        assert (images.version, images.states["a"].version) == (3, 2)
        images.replace_node(node, None, refs)
        assert images.version == 3, "nobody shows the image any more"
        assert summaries(refs)["a"].num_nodes == 0

    def test_one_name_in_two_images_counts_once_with_the_first_size(self):
        images = ImageStates()
        refs = images.replace_node(None, make_node("n1", images=[(["a"], 10), (["a", "b"], 20), ([], 30)]), ())
        assert summaries(refs) == {"a": ImageStateSummary(10, 1), "b": ImageStateSummary(20, 1)}


def test_claims_are_named_with_their_namespace_once_a_reference():
    pod = make_pod("a", "n1", namespace="db", claims=["x", "y", "x"])
    assert claims_of(pod) == ["db/x", "db/y", "db/x"]
