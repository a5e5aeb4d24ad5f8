"""Terms filed by label and shapes filed by label: what leads to what, and how little is looked at."""

from typing import ClassVar

import pytest

from schedcache.cache import Snapshot, TermIndex
from schedcache.cache.terms import PodTerm
from schedcache.cache.terms.files import ShapeFile, TermFile
from schedcache.model import LabelSelector, Requirement
from schedcache.testing import make_node, make_pod
from tests.cache.support import make_cache, updated


def asking(*requirements):
    return LabelSelector(tuple(Requirement(key, "In", values) for key, values in requirements))


def test_terms_are_filed_where_only_pods_that_can_match_look():
    file = TermFile()
    web, web_gold = asking(("app", ("web",))), asking(("app", ("web",)), ("tier", ("gold",)))
    several = LabelSelector((Requirement("app", "In", ("db", "db", "web")), Requirement("x", "Exists")))
    unfiled = LabelSelector((Requirement("app", "NotIn", ("web",)),))
    for name, selector in (("web", web), ("gold", web_gold), ("several", several), ("unfiled", unfiled)):
        file.add(name, selector)
    assert sorted(file.candidates({"app": "web"})) == ["several", "unfiled", "web"]
    assert sorted(file.candidates({"tier": "gold"})) == ["gold", "unfiled"]
    assert sorted(file.candidates({})) == ["unfiled"]
    for name in ("web", "several", "gold", "unfiled"):
        file.discard(name)
    assert file._filed_under == {}
    assert file._drawers == {}
    assert list(file.candidates({"app": "web", "tier": "gold"})) == []


class _Watched(LabelSelector, frozen=True):
    """A selector that tells how many shapes were compared with it."""

    looks: ClassVar[list[str]] = []

    def matches(self, labels):
        self.looks.append(labels["app"])
        return super().matches(labels)


@pytest.fixture
def looks():
    _Watched.looks.clear()
    return _Watched.looks


def watched(*requirements, namespaces=("default",)):
    selector = _Watched(asking(*requirements).requirements)
    return PodTerm(None if namespaces is None else frozenset(namespaces), selector)


def apps(number, pods=1, namespaces=("default",)):
    """Pods of so many apps in each namespace, all on one node."""
    placed = []
    for namespace in namespaces:
        for app in range(number):
            labels = {"app": f"a{app}", "tier": "gold", "unit": f"{namespace}{app}"}
            names = [f"{namespace}-{app}-{i}" for i in range(pods)]
            placed += [make_pod(name, "n1", namespace=namespace, labels=labels) for name in names]
    return Snapshot.build(placed, [make_node("n1")])


def test_a_term_looks_only_at_the_shapes_that_can_match_it_when_it_comes_and_when_it_goes(looks):
    snapshot = apps(50, namespaces=("default", "far"))
    index = TermIndex(snapshot.columns, max_terms=1)
    for asked, expected in (
        (watched(("app", ("a7",))), 1),
        (watched(("tier", ("gold",)), ("app", ("a1", "a3"))), 2),
        (watched(("app", ("a9",)), namespaces=None), 2),
        (watched(("app", ("a9",)), ("unit", ("far9",)), namespaces=None), 1),
        (watched(("app", ("missing",))), 0),
        (watched(("missing", ("a9",))), 0),
        (watched(("app", ("a5", "a5"))), 1),
    ):
        assert index.counts(asked).tolist() == [expected]
    assert looks == ["a7"] * 2 + ["a1", "a3"] * 2 + ["a9", "a9"] * 2 + ["a9"] * 2 + ["a5"]
    assert index.check() == []


def test_shapes_that_come_and_go_are_filed_by_the_keys_that_were_asked_about():
    cache = make_cache("n1")
    pods = [make_pod(f"p{i}", "n1", labels={"app": f"a{i}", "tier": "gold"}) for i in range(2)]
    terms = [PodTerm(None, asking(("app", (f"a{i}",)))) for i in range(2)]
    cache.add_pod(pods[0])
    snapshot = updated(cache)
    index = snapshot.term_index = TermIndex(snapshot.columns, max_terms=1)
    assert [index.counts(term).tolist() for term in terms] == [[1], [0]]
    cache.add_pod(pods[1])
    updated(cache, snapshot)
    assert [index.counts(term).tolist() for term in terms] == [[1], [1]]
    cache.remove_pod(pods[0])
    updated(cache, snapshot)
    assert [index.counts(term).tolist() for term in terms] == [[0], [1]]
    assert index._placed["default"]._by_key == {"app": {"a1": index._placed["default"].shapes}}
    cache.remove_pod(pods[1])
    updated(cache, snapshot)
    assert index._placed == {}


def test_a_label_without_text_is_a_label():
    shapes = [make_pod("p", labels=labels).shape for labels in ({"app": ""}, {})]
    file = ShapeFile()
    file.add(shapes[0], 1)
    assert list(file.candidates(asking(("app", ("",))))) == [(shapes[0], 1)]
    file.add(shapes[1], 2)
    assert list(file.candidates(asking(("app", ("",))))) == [(shapes[0], 1)]


def test_keys_that_no_shape_has_any_more_are_not_kept():
    app, run = (make_pod("p", labels=labels).shape for labels in ({"app": "a"}, {"run-1": "x"}))
    file = ShapeFile()
    for shape in (app, run):
        file.add(shape, shape.labels)
    assert [list(file.candidates(asking((key, ("x",))))) for key in ("run-1", "run-2")] == [[(run, run.labels)], []]
    assert list(file._by_key) == ["run-1"]
    file.discard(run)
    assert file._by_key == {}
    assert list(file.candidates(LabelSelector())) == [(app, app.labels)]


def test_a_check_does_not_compare_every_term_with_every_pod(looks):
    index = apps(20, pods=10).term_index
    for app in range(20):
        index.counts(watched(("app", (f"a{app}",))))
    looks.clear()
    assert index.check() == []
    assert sorted(looks) == sorted(f"a{app}" for app in range(20))
