"""Counts of placed pods that match a term, and of those that own one, node by node, kept as pods come and go.

kube-scheduler 1.37 walks over pods for every pod that it spreads or that has (anti-)affinity. Here a placed pod is looked
at when it comes and when it goes, and then only by the terms that can match it; a scheduling decision adds up columns.
Everything goes by shape: which terms match is found out once for all pods of one shape.

Invariants, while the index is active (`check` recounts all but the last)
    A shape is kept as long as a placed pod has it. Its `rows` say how many of its pods each row has, its `terminating` how
    many of these are being deleted.
    A term that is kept is tied to every kept shape that it matches, under `live_terms` if it leaves terminating pods out,
    else under `terms`; and a shape to no term that has been dropped. So one pod's coming or going touches these terms alone.
    A matched term's count of a row is the number of that row's pods that it matches, without terminating ones if it leaves
    them out. An owned term's is the number of those that own it, terminating ones included, each as often as the term is
    written in its spec; it is kept as long as some kept shape owns it.
    What is remembered for a shape (`owned_by_others`) is dropped whole when an owned term comes or goes.
    Every change of a row comes through `apply`, and shapes are compared by identity: that equal ones are one object is the
    promise of `schedcache.model.interning`.
Inactive, it keeps nothing, and the first question counts all pods.
"""

from collections.abc import Iterator, Mapping

from schedcache.cache.columns import Columns
from schedcache.cache.node_info import NodeInfo
from schedcache.cache.terms.check import Recount, check_remembered
from schedcache.cache.terms.files import ShapeFile, TermFile
from schedcache.cache.terms.row_counts import Counts
from schedcache.cache.terms.term import Matched, Owned, OwnedTerm, Placed, PodTerm, owned_terms
from schedcache.model import Pod, PodShape

# Counting a term again takes some 20 us, keeping it up to 6 bytes a row; and all that match a shape go with each of its pods.
_MAX_TERMS = 1024
_MAX_IDLE = 100_000
_MAX_REMEMBERED = 1024


class TermIndex:
    """Belongs to one snapshot and follows its rows.

    Nothing is kept before the first question. At most `max_terms` terms that were asked for stay, the least recently used
    go first; after `max_idle` changed rows without a question everything is dropped.
    """

    def __init__(self, columns: Columns, max_terms: int = _MAX_TERMS, max_idle: int = _MAX_IDLE) -> None:
        self.active = False
        """Whether `apply` has to be called for changes."""
        self._columns = columns
        self._max_terms = max_terms
        self._max_idle = max_idle
        self._clear()

    def _clear(self) -> None:
        self.active = False
        self._changes = 0
        self._last_question = 0
        self._placed: dict[str, ShapeFile[Placed]] = {}
        self._matched: dict[PodTerm, Matched] = {}
        self._matched_file: TermFile[Matched] = TermFile()
        self._owned: dict[OwnedTerm, Owned] = {}
        self._owned_file: TermFile[Owned] = TermFile()
        self._remembered: dict[PodShape, tuple[Mapping[str, str], tuple[Owned, ...]]] = {}

    def __len__(self) -> int:
        """Terms that are kept, both those asked for and those owned."""
        return len(self._matched) + len(self._owned)

    def apply(self, row: int, old: NodeInfo | None, new: NodeInfo | None) -> None:
        """A row shows `new` instead of `old`; None: no node. To be called for every change while `active`."""
        self._changes += 1
        before = old.pods_by_uid.values() if old is not None else ()
        after = new.pods_by_uid.values() if new is not None else ()
        gone, come = set(before), set(after)
        # Those that come go first: a pod whose status changed must not take its shape's entry away for a moment.
        for pod in come - gone:
            self._count(row, pod, 1)
        for pod in gone - come:
            self._count(row, pod, -1)
        if self._changes - self._last_question > self._max_idle:
            self._clear()

    def counts(self, term: PodTerm) -> Counts:
        """How many placed pods match the term, for each row below `columns.rows`; for reading only."""
        self._ask()
        matched = self._matched.pop(term, None)
        if matched is None:
            if len(self._matched) >= self._max_terms:
                self._drop(next(iter(self._matched.values())))
            matched = self._new_term(term)
        self._matched[term] = matched
        matched.used = self._changes
        self._drop_idle()
        return matched.counts.column(self._columns.rows)

    def owned_by_others(self, shape: PodShape, namespace_labels: Mapping[str, str]) -> tuple[Owned, ...]:
        """The owned terms that are about pods of the shape; `namespace_labels` are those of its namespace ({}: unknown)."""
        self._ask()
        known = self._remembered.get(shape)
        if known is not None and known[0] == namespace_labels:
            return known[1]
        candidates = self._owned_file.candidates(shape.labels)
        found = tuple(owned for owned in candidates if owned.term.matches(shape, namespace_labels))
        if len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered.clear()
        self._remembered[shape] = namespace_labels, found
        return found

    def check(self) -> list[str]:
        """What differs from a recount of all pods, one line each; empty if nothing does."""
        if not self.active:
            kept = (self._placed, self._matched, self._owned, self._remembered)
            files = self._matched_file.problems({}) + self._owned_file.problems({})
            return ["something is kept although the index is inactive"] if any(kept) or files else []
        recount = Recount(self._columns, self._placed)
        return [
            *recount.check_shapes(),
            *recount.check_matched(self._matched, self._matched_file),
            *recount.check_owned(self._owned, self._owned_file),
            *check_remembered(self._remembered, self._owned.values()),
        ]

    def _ask(self) -> None:
        if not self.active:
            self.active = True
            self._fill()
        self._last_question = self._changes

    def _fill(self) -> None:
        """Count everything for the first time: as `_count` for each pod, but owners are added up by shape first."""
        by_shape: dict[PodShape, Placed] = {}
        for row, pod in self._pods():
            shape = pod.shape
            placed = by_shape.get(shape)
            if placed is None:
                placed = by_shape[shape] = self._new_shape(shape)
            placed.rows[row] = placed.rows.get(row, 0) + 1
            if pod.terminating:
                placed.terminating[row] = placed.terminating.get(row, 0) + 1
        for placed in by_shape.values():
            for owned in placed.owned:
                for row, count in placed.rows.items():
                    owned.counts.add(row, count)

    def _pods(self) -> Iterator[tuple[int, Pod]]:
        infos = self._columns.infos
        for row in self._columns.row_of.values():
            for pod in infos[row].pods_by_uid.values():
                yield row, pod

    def _count(self, row: int, pod: Pod, delta: int) -> None:
        shape = pod.shape
        of_namespace = self._placed.get(shape.namespace)
        placed = of_namespace.shapes.get(shape) if of_namespace is not None else None
        if placed is None:
            placed = self._new_shape(shape)
        _bump(placed.rows, row, delta)
        for matched in placed.terms:
            matched.counts.add(row, delta)
        if pod.terminating:
            _bump(placed.terminating, row, delta)
        else:
            for matched in placed.live_terms:
                matched.counts.add(row, delta)
        for owned in placed.owned:
            owned.counts.add(row, delta)
        if not placed.rows:
            self._forget_shape(shape, placed)

    def _new_shape(self, shape: PodShape) -> Placed:
        placed = Placed([self._own(term) for term in owned_terms(shape)])
        for matched in self._matched_file.candidates(shape.labels):
            if matched.term.matches(shape):
                (placed.live_terms if matched.term.ignore_terminating else placed.terms).append(matched)
        of_namespace = self._placed.get(shape.namespace)
        if of_namespace is None:
            of_namespace = self._placed[shape.namespace] = ShapeFile()
        of_namespace.add(shape, placed)
        return placed

    def _forget_shape(self, shape: PodShape, placed: Placed) -> None:
        of_namespace = self._placed[shape.namespace]
        of_namespace.discard(shape)
        if not of_namespace.shapes:
            del self._placed[shape.namespace]
        for owned in placed.owned:
            owned.shapes -= 1
            if not owned.shapes:
                del self._owned[owned.term]
                self._owned_file.discard(owned)
                self._remembered.clear()

    def _own(self, term: OwnedTerm) -> Owned:
        owned = self._owned.get(term)
        if owned is None:
            owned = self._owned[term] = Owned(term)
            self._owned_file.add(owned, term.selector)
            self._remembered.clear()
        owned.shapes += 1
        return owned

    def _new_term(self, term: PodTerm) -> Matched:
        matched = Matched(term)
        self._matched_file.add(matched, term.selector)
        for placed in self._matching(term):
            for row, count in placed.rows.items():
                matched.counts.add(row, count)
            if term.ignore_terminating:
                for row, count in placed.terminating.items():
                    matched.counts.add(row, -count)
                placed.live_terms.append(matched)
            else:
                placed.terms.append(matched)
        return matched

    def _drop_idle(self) -> None:
        oldest = next(iter(self._matched.values()))
        if self._changes - oldest.used > self._max_idle:
            self._drop(oldest)

    def _drop(self, matched: Matched) -> None:
        term = matched.term
        del self._matched[term]
        self._matched_file.discard(matched)
        for placed in self._matching(term):
            (placed.live_terms if term.ignore_terminating else placed.terms).remove(matched)

    def _matching(self, term: PodTerm) -> Iterator[Placed]:
        for namespace in self._placed if term.namespaces is None else term.namespaces:
            of_namespace = self._placed.get(namespace)
            if of_namespace is not None:
                for shape, placed in of_namespace.candidates(term.selector):
                    if term.selector.matches(shape.labels):
                        yield placed


def _bump(counts: dict[int, int], row: int, delta: int) -> None:
    left = counts.get(row, 0) + delta
    if left:
        counts[row] = left
    else:
        counts.pop(row, None)
