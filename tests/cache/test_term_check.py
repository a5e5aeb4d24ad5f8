"""Every kind of damage to a term index is found by its check, which says what differs in a short line."""

import pytest

from schedcache.cache import TermIndex
from schedcache.cache.terms import Owned, OwnedTerm, Ownership, PodTerm
from schedcache.cache.terms.files import ShapeFile
from schedcache.cache.terms.term import Placed
from schedcache.model import LabelSelector, Requirement
from schedcache.testing import make_pod
from tests.cache.support import make_cache, updated

IN_A, IN_B = (Requirement("app", "In", (name,)) for name in ("a", "b"))
A, B = LabelSelector((IN_A,)), LabelSelector((IN_B,))
EVERY_A, LIVE_A = PodTerm(None, A), PodTerm(None, A, ignore_terminating=True)
ALL = PodTerm(None, LabelSelector())
FAR_B = PodTerm(frozenset({"far"}), B)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ASKED = make_pod("asked", labels={"app": "x"}).shape


@pytest.fixture
def index():
    """Pods a (two, one of them terminating) and b (in another namespace), which own a term each, and four terms asked for."""
    cache = make_cache("n1", "n2")
    everything = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}}
    cache.add_pod(make_pod("a1", "n1", labels={"app": "a"}, anti_affinity={"app": "x"}))
    cache.add_pod(make_pod("a2", "n1", labels={"app": "a"}, anti_affinity={"app": "x"}, terminating=True))
    affinity = {"podAntiAffinity": {REQUIRED: [everything]}}
    cache.add_pod(make_pod("b", "n2", namespace="far", labels={"app": "b"}, affinity=affinity))
    snapshot = updated(cache)
    found = snapshot.term_index
    for term in (EVERY_A, LIVE_A, ALL, FAR_B):
        found.counts(term)
    assert len(found.owned_by_others(ASKED, {})) == 2
    assert found.check() == []
    assert (snapshot.columns.row_of["n1"], snapshot.columns.row_of["n2"]) == (0, 1)
    return found


def placed(index) -> Placed:
    return next(iter(index._placed["default"].shapes.values()))


def far(index) -> Placed:
    return next(iter(index._placed["far"].shapes.values()))


def owned(index, number) -> Owned:
    """0: the one of a, on app=x. 1: the one of b, on everything."""
    return list(index._owned.values())[number]


def swap(kept, one, other):
    kept[one], kept[other] = kept[other], kept[one]


def move(index):
    matched = index._matched[EVERY_A]
    placed(index).terms.remove(matched)
    placed(index).live_terms.append(matched)


def replace(index):
    """Another object for a term that is owned; the shape keeps the old one."""
    old = owned(index, 0)
    new = index._owned[old.term] = Owned(old.term)
    new.counts, new.shapes = old.counts, old.shapes
    index._owned_file.discard(old)
    index._owned_file.add(new, new.term.selector)
    index._remembered.clear()


def add_owned(index):
    """A term that nobody owns."""
    term = OwnedTerm(Ownership.PREFERRED, "zone", frozenset({"default"}), None, B)
    index._owned[term] = nobodys = Owned(term)
    index._owned_file.add(nobodys, B)


def file_again(index, term, requirement):
    file, matched = index._matched_file, index._matched[term]
    file.discard(matched)
    file._put(matched, requirement)


def by_app(index, namespace="default"):
    return index._placed[namespace]._by_key["app"]


FILED = {
    "no drawer": (lambda f, _: f._drawers.clear(), "misfiled under app="),
    "an item missing from a drawer": (lambda f, i: f._drawers[pair(f)].pop(i), "misfiled under app="),
    "a strange item in a drawer": (lambda f, _: f._drawers[pair(f)].update({"strange": None}), "misfiled under app="),
    "a drawer of no term": (
        lambda f, _: f._drawers.update({("k", "v"): {"strange": None}}),
        "misfiled under k=v: 1, expected 0",
    ),
    "an empty drawer": (lambda f, _: f._drawers.update({("k", "v"): {}}), "misfiled under k=v: 0, expected 0"),
    "no catch-all": (lambda f, _: f._catch_all.clear(), "0 under no label, expected 1"),
    "an item under no label as well": (lambda f, i: f._catch_all.update({i: None}), "2 under no label, expected 1"),
    "an item not filed": (lambda f, i: f._filed_under.pop(i), "1 not filed, 0 filed that do not exist"),
    "a strange item filed": (
        lambda f, _: f._filed_under.update(strange=IN_A),
        "0 not filed, 1 filed that do not exist",
    ),
    "a requirement of others": (
        lambda f, i: f._filed_under.update({i: Requirement("k", "In", ("v",))}),
        "filed under Requirement(key='k'",
    ),
    "none though it has one": (lambda f, i: f._filed_under.update({i: None}), "filed under None"),
    "one though it has none": (
        lambda f, _: f._filed_under.update({next(iter(f._catch_all)): IN_A}),
        "filed under Requirement(key='app'",
    ),
    "an item discarded": (lambda f, i: f.discard(i), "1 not filed"),
}


def pair(file):
    return next(iter(file._drawers))


@pytest.mark.parametrize("which", ["asked terms", "owned terms"])
@pytest.mark.parametrize(("damage", "told"), FILED.values(), ids=FILED)
def test_damage_to_a_file_of_terms(index, which, damage, told):
    file = index._matched_file if which == "asked terms" else index._owned_file
    damage(file, next(iter(file._drawers[pair(file)])))
    assert any(line.startswith(f"{which}: ") and told in line for line in index.check())


def test_terms_all_refiled_under_a_requirement_of_nobody(index):
    """The file is sound in itself."""
    file_again(index, EVERY_A, IN_B)
    assert index.check() == [
        "asked terms: filed under Requirement(key='app', operator='In', values=('b',)), which its selector does not ask for"
    ]


A_IN_DEFAULT = "a shape in default with labels {'app': 'a'}"
TO_X = "required anti-affinity to app In x in default"
TO_ALL = "required anti-affinity to everything in namespaces by label"
KNOWN = f"{A_IN_DEFAULT} does not know the terms that match it"
DAMAGE = {
    "count": (
        lambda i: i._matched[EVERY_A].counts.add(0, 1),
        ["pods that match app In a in all namespaces: row 0 has 3, a recount gives 2"],
    ),
    "counts on several rows": (
        lambda i: [i._matched[LIVE_A].counts.add(row, 3) for row in range(2)],
        [
            "pods that match app In a in all namespaces, not terminating: row 0 has 4, a recount gives 1 (1 more rows differ)"
        ],
    ),
    "count beyond all rows": (
        lambda i: i._matched[FAR_B].counts.add(900, 3),
        ["pods that match app In b in far: row 900 has 3, a recount gives none"],
    ),
    "count beyond all rows, of many": (
        lambda i: [i._matched[FAR_B].counts.add(row, 3) for row in range(100, 200)],
        ["pods that match app In b in far: row 100 has 3, a recount gives none (99 more rows differ)"],
    ),
    "count of owners": (
        lambda i: owned(i, 0).counts.add(0, -2),
        [f"owners of {TO_X}: row 0 has none, a recount gives 2"],
    ),
    "terms swapped": (
        lambda i: swap(i._matched, EVERY_A, FAR_B),
        [
            "asked terms: app In b in far is kept as app In a in all namespaces",
            "asked terms: app In a in all namespaces is kept as app In b in far",
        ],
    ),
    "flavours swapped": (
        lambda i: swap(i._matched, EVERY_A, LIVE_A),
        [
            "asked terms: app In a in all namespaces, not terminating is kept as app In a in all namespaces",
            "asked terms: app In a in all namespaces is kept as app In a in all namespaces, not terminating",
        ],
    ),
    "a term of the other flavour": (move, [KNOWN]),
    "a term twice": (lambda i: placed(i).terms.append(i._matched[EVERY_A]), [KNOWN]),
    "a live term twice": (lambda i: placed(i).live_terms.append(i._matched[LIVE_A]), [KNOWN]),
    "a term not known": (lambda i: placed(i).terms.remove(i._matched[EVERY_A]), [KNOWN]),
    "a term that does not match": (lambda i: placed(i).terms.append(i._matched[FAR_B]), [KNOWN]),
    "another term": (lambda i: placed(i).terms.__setitem__(0, i._matched[FAR_B]), [KNOWN]),
    "a term that is not kept": (
        lambda i: i._matched.pop(FAR_B),
        [
            "asked terms: 0 not filed, 1 filed that do not exist",
            "a shape in far with labels {'app': 'b'} does not know the terms that match it",
        ],
    ),
    "rows of a shape": (
        lambda i: placed(i).rows.update({1: 7}),
        [f"pods of {A_IN_DEFAULT}: row 1 has 7, a recount gives none"],
    ),
    "a row with no pods": (
        lambda i: placed(i).rows.update({1: 0}),
        [f"pods of {A_IN_DEFAULT}: row 1 has 0, a recount gives none"],
    ),
    "terminating pods": (
        lambda i: placed(i).terminating.clear(),
        [f"terminating pods of {A_IN_DEFAULT}: row 0 has none, a recount gives 1"],
    ),
    "what a shape owns": (
        lambda i: setattr(placed(i), "owned", ()),
        [
            f"{A_IN_DEFAULT} does not know the terms that it owns",
            f"{TO_X} has 0 shapes, not 1",
        ],
    ),
    "another object for what a shape owns": (
        replace,
        [
            f"{A_IN_DEFAULT} does not know the terms that it owns",
            f"{TO_X} has 0 shapes, not 1",
        ],
    ),
    "number of owning shapes": (
        lambda i: setattr(owned(i, 0), "shapes", 5),
        [f"{TO_X} has 1 shapes, not 5"],
    ),
    "an owned term of nobody": (add_owned, ["preferred to app In b in default is kept without owners"]),
    "owned terms swapped": (
        lambda i: swap(i._owned, *i._owned),
        [
            f"owned terms: {TO_ALL} is kept as {TO_X}",
            f"owned terms: {TO_X} is kept as {TO_ALL}",
        ],
    ),
    "an owned term not known": (
        lambda i: i._owned.pop(owned(i, 0).term),
        [
            "owned terms: 0 not filed, 1 filed that do not exist",
            f"owners of {TO_X}: row 0 has none, a recount gives 2",
        ],
    ),
    "remembered too little": (
        lambda i: i._remembered.update({ASKED: ({}, ())}),
        ["what is remembered of a shape in default with labels {'app': 'x'} is out of date"],
    ),
    "remembered twice": (
        lambda i: i._remembered.update({ASKED: ({}, i._remembered[ASKED][1] * 2)}),
        ["what is remembered of a shape in default with labels {'app': 'x'} is out of date"],
    ),
    "a namespace without a shape": (
        lambda i: i._placed.update(empty=ShapeFile()),
        ["namespace empty is kept without a shape"],
    ),
    "a namespace under another's name": (
        lambda i: i._placed.update(near=i._placed.pop("far")),
        ["a shape in far with labels {'app': 'b'} is kept under near"],
    ),
    "shapes not known": (
        lambda i: i._placed.clear(),
        [f"pods of {A_IN_DEFAULT} are not known", "pods of a shape in far with labels {'app': 'b'} are not known"],
    ),
    "a shape of nobody": (
        lambda i: i._placed["default"].add(ASKED, Placed((owned(i, 1),))),
        [
            "a shape in default with labels {'app': 'x'} is kept without pods",
            "a shape in default with labels {'app': 'x'} does not know the terms that match it",
        ],
    ),
    "a shape missing from its drawer": (
        lambda i: by_app(i)["a"].clear(),
        ["shapes of default: misfiled under app=a: 0, expected 1"],
    ),
    "a shape with what is not its own": (
        lambda i: by_app(i)["a"].update(dict.fromkeys(by_app(i)["a"], far(i))),
        ["shapes of default: misfiled under app=a: 1, expected 1"],
    ),
    "a shape in a strange drawer": (
        lambda i: by_app(i).update(b=by_app(i)["a"]),
        ["shapes of default: misfiled under app=b: 1, expected 0"],
    ),
    "an empty drawer of shapes": (
        lambda i: by_app(i).update(b={}),
        ["shapes of default: misfiled under app=b: 0, expected 0"],
    ),
    "a key that no shape has": (
        lambda i: i._placed["default"]._by_key.update(k={}),
        ["shapes of default: filed by k, which no shape has"],
    ),
}


@pytest.mark.parametrize(("damage", "told"), DAMAGE.values(), ids=DAMAGE)
def test_damage_before_it_shows_in_an_answer(index, damage, told):
    damage(index)
    found = index.check()
    assert [line for line in told if line not in found] == []
    assert all(len(line) < 150 and "\n" not in line for line in found)


def test_what_is_kept_before_the_first_question(index):
    assert TermIndex(index._columns).check() == []
    index.active = False
    assert index.check() == ["something is kept although the index is inactive"]
    index._clear()
    assert index.check() == []
    index._placed["far"] = ShapeFile()
    assert index.check() == ["something is kept although the index is inactive"]
    index._clear()
    index._owned_file.add("strange", B)
    assert index.check() == ["something is kept although the index is inactive"]


def test_all_that_is_wrong_is_told(index):
    for term in (EVERY_A, ALL):
        index._matched[term].counts.add(1, 5)
    placed(index).rows[1] = placed(index).terminating[1] = 3
    assert len(index.check()) == 4


def test_a_term_of_many_namespaces_is_told_in_short(index):
    term = PodTerm(frozenset(f"team-{i}" for i in range(500)), A)
    index.counts(term)
    index._matched[term].counts.add(1, 1)
    assert index.check() == ["pods that match app In a in 500 namespaces: row 1 has 1, a recount gives none"]


def test_a_term_is_told_with_all_it_asks_for(index):
    asked = (Requirement("app", "In", ("a", "b")), Requirement("tier", "Exists", ()))
    for count, told in ((3, "team-0|team-1|team-2"), (4, "4 namespaces")):
        term = PodTerm(frozenset(f"team-{i}" for i in range(count)), LabelSelector(asked))
        index.counts(term)
        index._matched[term].counts.add(1, 1)
        expected = f"pods that match app In a|b, tier Exists in {told}: row 1 has 1, a recount gives none"
        assert index.check() == [expected]
        index._matched[term].counts.add(1, -1)


def test_what_is_remembered_goes_by_the_labels_of_the_namespace():
    cache = make_cache("n1")
    about_teams = {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "x"}}}
    cache.add_pod(make_pod("p", "n1", affinity={"podAntiAffinity": {REQUIRED: [about_teams]}}))
    index = updated(cache).term_index
    shape = make_pod("q", namespace="other").shape
    assert len(index.owned_by_others(shape, {"team": "x"})) == 1
    assert index.check() == []
    assert index.owned_by_others(shape, {"team": "y"}) == ()
    assert index.check() == []
