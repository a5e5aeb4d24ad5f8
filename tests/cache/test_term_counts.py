"""Counts by row and the term index against plain recounts, in the corners: dense counts, terminating pods, idle terms."""

import random
from collections import Counter

import numpy as np
import pytest

from schedcache.cache import TermIndex
from schedcache.cache.terms import Ownership, PodTerm, owned_terms
from schedcache.cache.terms.row_counts import RowCounts
from schedcache.model import LabelSelector, Requirement
from schedcache.testing import make_pod
from tests.cache.support import make_cache, updated

APPS = [LabelSelector((Requirement("app", "In", (name,)),)) for name in ("a", "b")]


class TestRowCounts:
    @pytest.mark.parametrize("rows", [10, 65, 100, 3000, 100_000])
    def test_agree_with_a_counter(self, rows):
        chance, counts, plain = random.Random(rows), RowCounts(), Counter()
        for _ in range(600):
            row = chance.randrange(rows)
            delta = chance.choice([-plain[row], 1, 2]) if plain[row] else 1
            counts.add(row, delta)
            plain[row] += delta
        expected = {row: count for row, count in plain.items() if count}
        assert dict(counts.items()) == expected
        for size in (max(expected) + 1, rows, 2 * rows):
            column = counts.column(size)
            assert column.dtype == np.int32
            assert len(column) == size
            assert {row: int(column[row]) for row in np.flatnonzero(column)} == expected

    def test_become_dense_only_where_rows_lie_close(self):
        close, apart = RowCounts(), RowCounts()
        for i in range(65):
            close.add(i, 1)
            apart.add(i * 1000, 1)
        assert (close._dense is not None, apart._dense is None) == (True, True)
        close.add(5000, 3)
        close.add(5000, 1)
        assert dict(close.items())[5000] == 4
        assert len(close.column(5001)) == 5001
        assert close.column(5001)[64] == 1


class TestTerminating:
    def test_pods_that_come_while_the_index_is_active_are_left_out_of_later_questions(self):
        cache = make_cache("n1", "n2")
        for name in ("early", "earlier"):
            cache.add_pod(make_pod(name, "n2", labels={"app": "a"}, terminating=True))
        snapshot = updated(cache)
        live, every = PodTerm(None, APPS[0], ignore_terminating=True), PodTerm(None, APPS[0])
        assert snapshot.term_index.counts(PodTerm(None, APPS[1])).sum() == 0
        for i in range(2):
            cache.add_pod(make_pod(f"t{i}", "n1", labels={"app": "a"}, terminating=True))
            cache.add_pod(make_pod(f"p{i}", "n1", labels={"app": "a"}))
        updated(cache, snapshot)
        assert snapshot.term_index.counts(live).tolist() == [2, 0]
        assert snapshot.term_index.counts(every).tolist() == [4, 2]
        cache.remove_pod(make_pod("t0", "n1", terminating=True))
        cache.remove_pod(make_pod("early", "n2", terminating=True))
        updated(cache, snapshot)
        assert snapshot.term_index.counts(live).tolist() == [2, 0]
        assert snapshot.term_index.counts(every).tolist() == [3, 1]
        assert snapshot.term_index.check() == []

    def test_a_new_shape_is_counted_by_the_terms_that_were_asked_for_before(self):
        cache = make_cache("n1")
        snapshot = updated(cache)
        live, every = PodTerm(None, APPS[0], ignore_terminating=True), PodTerm(None, APPS[0])
        for term in (live, every):
            assert snapshot.term_index.counts(term).tolist() == [0]
        cache.add_pod(make_pod("t", "n1", labels={"app": "a"}, terminating=True))
        updated(cache, snapshot)
        assert [snapshot.term_index.counts(term).tolist() for term in (live, every)] == [[0], [1]]


class TestBounds:
    def test_the_oldest_term_goes_first_and_is_counted_anew_when_asked_for_again(self):
        cache = make_cache("n1")
        for name in ("a", "b"):
            for i in range(2):
                cache.add_pod(make_pod(f"{name}{i}", "n1", labels={"app": name}, namespace=name))
        snapshot = updated(cache)
        index = snapshot.term_index = TermIndex(snapshot.columns, max_terms=2)
        terms = [
            PodTerm(frozenset({n}), s, ignore_terminating=i)
            for i in (False, True)
            for n, s in zip("ab", APPS, strict=True)
        ]
        for term in terms * 2:
            assert index.counts(term).tolist() == [2]
            assert len(index) <= 2
        cache.add_pod(make_pod("a9", "n1", labels={"app": "a"}, namespace="a"))
        updated(cache, snapshot)
        assert index.counts(terms[2]).tolist() == [3]
        assert index.counts(terms[0]).tolist() == [3]
        assert index.check() == []

    def test_what_nobody_asks_for_is_dropped_after_a_while(self):
        cache = make_cache("n1")
        snapshot = updated(cache)
        index = snapshot.term_index = TermIndex(snapshot.columns, max_idle=3)
        old, busy = PodTerm(None, APPS[0]), PodTerm(None, APPS[1])
        index.counts(old)
        for i in range(5):
            cache.add_pod(make_pod(f"p{i}", "n1", labels={"app": "a"}))
            updated(cache, snapshot)
            index.counts(busy)
        assert len(index) == 1
        assert index.counts(old).tolist() == [5]
        for i in range(3):
            cache.remove_pod(make_pod(f"p{i}", "n1"))
            updated(cache, snapshot)
        assert index.active
        cache.remove_pod(make_pod("p3", "n1"))
        updated(cache, snapshot)
        assert not index.active
        assert len(index) == 0
        assert index.counts(old).tolist() == [1]


class TestOwnedTerms:
    def test_go_with_the_last_shape_that_owns_them(self):
        cache = make_cache("n1", "n2")
        snapshot = updated(cache)
        asked = make_pod("asked", labels={"app": "x"}).shape
        assert snapshot.term_index.owned_by_others(asked, {}) == ()
        owners = [make_pod(f"o{i}", f"n{i + 1}", labels={"n": str(i)}, anti_affinity={"app": "x"}) for i in range(2)]
        for owner in owners:
            cache.add_pod(owner)
        updated(cache, snapshot)
        (owned,) = snapshot.term_index.owned_by_others(asked, {})
        assert owned.term.ownership is Ownership.REQUIRED_ANTI_AFFINITY
        assert owned.term.weight == 0
        assert (owned.counts.column(2).tolist(), owned.shapes, len(snapshot.term_index)) == ([1, 1], 2, 1)
        cache.remove_pod(owners[0])
        updated(cache, snapshot)
        (owned,) = snapshot.term_index.owned_by_others(asked, {})
        assert (owned.counts.column(2).tolist(), owned.shapes) == ([0, 1], 1)
        cache.remove_pod(owners[1])
        updated(cache, snapshot)
        assert snapshot.term_index.owned_by_others(asked, {}) == ()
        assert len(snapshot.term_index) == 0

    def test_are_found_once_for_a_shape_and_again_when_its_namespace_changes(self):
        term = {"topologyKey": "z", "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "data"}}}
        spec = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        cache = make_cache("n1")
        cache.add_pod(make_pod("o", "n1", **spec))
        index = updated(cache).term_index
        shape = make_pod("asked", namespace="ns").shape
        first = index.owned_by_others(shape, {"team": "data"})
        assert len(first) == 1
        assert index.owned_by_others(shape, {"team": "data"}) is first
        assert index.owned_by_others(shape, {"team": "web"}) == ()
        assert len(index.owned_by_others(shape, {"team": "data"})) == 1

    def test_of_a_shape_are_made_once(self):
        shape = make_pod("o", anti_affinity={"app": "x"}).shape
        assert owned_terms(shape) is owned_terms(shape)
        assert owned_terms(make_pod("plain").shape) == ()
