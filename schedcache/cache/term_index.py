"""Counts of placed pods that match a term, and of those that own one, node by node, kept as pods come and go.

kube-scheduler 1.37 walks over pods for every pod that it spreads or that has (anti-)affinity. Here a placed pod is looked
at when it comes and when it goes, and then only by the terms that can match it; a scheduling decision adds up columns.
Everything goes by shape: which terms match is found out once for all pods of one shape.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from schedcache.cache.columns import Columns
from schedcache.cache.node_info import NodeInfo
from schedcache.cache.row_counts import Counts, RowCounts
from schedcache.cache.terms import OwnedTerm, PodTerm, TermFile, owned_terms
from schedcache.model import Pod, PodShape

_MAX_TERMS = 1024
_MAX_IDLE = 100_000
_MAX_REMEMBERED = 1024


class _Matched:
    """A term that somebody asked for."""

    __slots__ = ("counts", "term", "used")

    def __init__(self, term: PodTerm) -> None:
        self.term = term
        self.counts = RowCounts()
        self.used = 0


class Owned:
    """A term that placed pods own, with the number of its owners on each row."""

    __slots__ = ("counts", "shapes", "term")

    def __init__(self, term: OwnedTerm) -> None:
        self.term = term
        self.counts = RowCounts()
        self.shapes = 0
        """Shapes in place that own it."""


class _Placed:
    """Where the pods of one shape are, and whose counts they are part of."""

    __slots__ = ("live_terms", "owned", "rows", "terminating", "terms")

    def __init__(self, owned: Sequence[Owned]) -> None:
        self.rows: dict[int, int] = {}
        self.terminating: dict[int, int] = {}
        self.terms: list[_Matched] = []
        self.live_terms: list[_Matched] = []
        """Terms that leave terminating pods out."""
        self.owned = owned


class TermIndex:
    """Belongs to one snapshot and follows its rows.

    Nothing is kept before the first question. At most `max_terms` terms that were asked for stay, the least recently used
    go first; after `max_idle` changed rows without a question everything is dropped.
    """

    def __init__(self, columns: Columns, max_terms: int = _MAX_TERMS, max_idle: int = _MAX_IDLE) -> None:
        self.active = False
        """Whether `apply` has to be told about changes."""
        self._columns = columns
        self._max_terms = max_terms
        self._max_idle = max_idle
        self._clear()

    def _clear(self) -> None:
        self.active = False
        self._changes = 0
        self._last_question = 0
        self._placed: dict[str, dict[PodShape, _Placed]] = {}
        self._matched: dict[PodTerm, _Matched] = {}
        self._matched_file: TermFile[_Matched] = TermFile()
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
        """What differs from counting all pods anew, one line each; empty is good."""
        if not self.active:
            return []
        pods = list(self._pods())
        problems = []
        for matched in self._matched.values():
            fresh = _tally(row for row, pod in pods if _counts_for(matched.term, pod))
            problems += _differences(f"pods that match {matched.term}", dict(matched.counts.items()), fresh)
        expected: dict[OwnedTerm, list[int]] = {}
        for row, pod in pods:
            for term in owned_terms(pod.shape):
                expected.setdefault(term, []).append(row)
        for term in self._owned.keys() | expected.keys():
            counts = dict(self._owned[term].counts.items()) if term in self._owned else {}
            problems += _differences(f"owners of {term}", counts, _tally(expected.get(term, ())))
        return problems + self._check_shapes(pods) + self._check_memory()

    def _check_shapes(self, pods: Iterable[tuple[int, Pod]]) -> list[str]:
        expected: dict[PodShape, list[tuple[int, Pod]]] = {}
        for row, pod in pods:
            expected.setdefault(pod.shape, []).append((row, pod))
        kept = {shape: placed for shapes in self._placed.values() for shape, placed in shapes.items()}
        problems = [f"pods of a shape in {s.namespace} are not known" for s in expected.keys() - kept.keys()]
        for shape, placed in kept.items():
            of_shape, what = expected.get(shape, ()), f"a shape in {shape.namespace} with labels {shape.labels}"
            problems += _differences(f"pods of {what}", placed.rows, _tally(row for row, _ in of_shape))
            terminating = _tally(row for row, pod in of_shape if pod.terminating)
            problems += _differences(f"terminating pods of {what}", placed.terminating, terminating)
            matching = {matched for matched in self._matched.values() if matched.term.matches(shape)}
            if matching != {*placed.terms, *placed.live_terms}:
                problems.append(f"{what} does not know the terms that match it")
            if not matching.issubset(self._matched_file.candidates(shape.labels)):
                problems.append(f"terms that match {what} are misfiled")
            if [owned.term for owned in placed.owned] != list(owned_terms(shape)):
                problems.append(f"{what} does not know the terms that it owns")
        owners = Counter(owned for placed in kept.values() for owned in placed.owned)
        wrong = [owned for owned in self._owned.values() if owned.shapes != owners[owned]]
        return problems + [f"{owned.term} has {owners[owned]} shapes, not {owned.shapes}" for owned in wrong]

    def _check_memory(self) -> list[str]:
        problems = []
        for shape, (namespace_labels, found) in self._remembered.items():
            matching = {owned for owned in self._owned.values() if owned.term.matches(shape, namespace_labels)}
            if matching != set(found):
                problems.append(f"what is remembered of {shape.labels} in {shape.namespace} is out of date")
            if not matching.issubset(self._owned_file.candidates(shape.labels)):
                problems.append(f"owned terms that match {shape.labels} in {shape.namespace} are misfiled")
        return problems

    def _ask(self) -> None:
        if not self.active:
            self.active = True
            self._fill()
        self._last_question = self._changes

    def _fill(self) -> None:
        """Count everything for the first time: as `_count` for each pod, but owners are added up by shape first."""
        by_shape: dict[PodShape, _Placed] = {}
        for row, pod in self._pods():
            shape = pod.shape
            placed = by_shape.get(shape)
            if placed is None:
                self._placed.setdefault(shape.namespace, {})
                placed = by_shape[shape] = self._new_shape(shape)
            placed.rows[row] = placed.rows.get(row, 0) + 1
            if pod.deletion_timestamp:
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
        placed = self._placed.setdefault(shape.namespace, {}).get(shape) or self._new_shape(shape)
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

    def _new_shape(self, shape: PodShape) -> _Placed:
        placed = _Placed(tuple(self._own(term) for term in owned_terms(shape)))
        for owned in placed.owned:
            owned.shapes += 1
        for matched in self._matched_file.candidates(shape.labels):
            if matched.term.matches(shape):
                (placed.live_terms if matched.term.ignore_terminating else placed.terms).append(matched)
        self._placed[shape.namespace][shape] = placed
        return placed

    def _forget_shape(self, shape: PodShape, placed: _Placed) -> None:
        of_namespace = self._placed[shape.namespace]
        del of_namespace[shape]
        if not of_namespace:
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
        return owned

    def _new_term(self, term: PodTerm) -> _Matched:
        matched = _Matched(term)
        self._matched_file.add(matched, term.selector)
        for shape, placed in self._shapes(term.namespaces):
            if not term.matches(shape):
                continue
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

    def _drop(self, matched: _Matched) -> None:
        term = matched.term
        del self._matched[term]
        self._matched_file.discard(matched)
        for shape, placed in self._shapes(term.namespaces):
            if term.matches(shape):
                (placed.live_terms if term.ignore_terminating else placed.terms).remove(matched)

    def _shapes(self, namespaces: Iterable[str] | None) -> Iterator[tuple[PodShape, _Placed]]:
        for namespace in self._placed if namespaces is None else namespaces:
            yield from self._placed.get(namespace, {}).items()


def _bump(counts: dict[int, int], row: int, delta: int) -> None:
    left = counts.get(row, 0) + delta
    if left:
        counts[row] = left
    else:
        counts.pop(row, None)


def _counts_for(term: PodTerm, pod: Pod) -> bool:
    return not (term.ignore_terminating and pod.terminating) and term.matches(pod.shape)


def _tally(rows: Iterable[int]) -> dict[int, int]:
    tally: dict[int, int] = {}
    for row in rows:
        tally[row] = tally.get(row, 0) + 1
    return tally


def _differences(what: str, kept: Mapping[int, int], fresh: Mapping[int, int]) -> list[str]:
    rows = sorted(row for row in kept.keys() | fresh.keys() if kept.get(row, 0) != fresh.get(row, 0))
    return [f"{what}: row {row} has {kept.get(row, 0)}, a recount gives {fresh.get(row, 0)}" for row in rows]
