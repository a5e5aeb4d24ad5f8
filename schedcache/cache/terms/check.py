"""The term index compared with a recount of all placed pods.

Pods are counted by shape and terms compared with shapes, so that a check costs pods + shapes + terms and what matches, not
pods times terms.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import TypeVar

import numpy as np

from schedcache.cache.columns import Columns, Int64s
from schedcache.cache.terms.files import ShapeFile, TermFile
from schedcache.cache.terms.row_counts import RowCounts
from schedcache.cache.terms.term import Matched, Owned, OwnedTerm, Placed, PodTerm, owned_terms
from schedcache.model import PodShape

K = TypeVar("K", bound=PodTerm | OwnedTerm)
E = TypeVar("E", bound=Matched | Owned)
Remembered = Mapping[PodShape, tuple[Mapping[str, str], tuple[Owned, ...]]]

_NO_ROWS = np.zeros(0, np.int64)


class Recount:
    """Every placed pod, by shape; each method says what differs from it, in short lines."""

    def __init__(self, columns: Columns, files: Mapping[str, ShapeFile[Placed]]) -> None:
        self._size = columns.rows
        self._files = files
        self._placed = {shape: placed for file in files.values() for shape, placed in file.shapes.items()}
        self._rows: dict[PodShape, list[int]] = {}
        """The row of each pod."""
        self._terminating: dict[PodShape, list[int]] = {}
        infos = columns.infos
        for row in columns.row_of.values():
            for pod in infos[row].pods_by_uid.values():
                self._rows.setdefault(pod.shape, []).append(row)
                if pod.terminating:
                    self._terminating.setdefault(pod.shape, []).append(row)
        self._shapes = tuple(dict.fromkeys((*self._rows, *self._placed)))

    def check_shapes(self) -> Iterator[str]:
        """Where the pods of each shape are, and how shapes are filed."""
        for shape in self._shapes:
            placed = self._placed.get(shape)
            if placed is None:
                yield f"pods of {_named(shape)} are not known"
                continue
            if shape not in self._rows:
                yield f"{_named(shape)} is kept without pods"
            yield from _differences("pods of", shape, placed.rows, Counter(self._rows.get(shape)))
            terminating = Counter(self._terminating.get(shape))
            yield from _differences("terminating pods of", shape, placed.terminating, terminating)
        for namespace, file in self._files.items():
            if not file.shapes:
                yield f"namespace {namespace} is kept without a shape"
            strange = [shape for shape in file.shapes if shape.namespace != namespace]
            yield from (f"{_named(shape)} is kept under {namespace}" for shape in strange)
            yield from (f"shapes of {namespace}: {problem}" for problem in file.problems())

    def check_matched(self, kept: Mapping[PodTerm, Matched], file: TermFile[Matched]) -> Iterator[str]:
        """Terms that were asked for, their counts, and which shapes know them."""
        yield from _check_names("asked terms", kept, file)
        refiled, shapes_of = _refiled(kept.values()), {matched: list[PodShape]() for matched in kept.values()}
        for shape in self._shapes:
            found = [matched for matched in refiled.candidates(shape.labels) if matched.term.matches(shape)]
            for matched in found:
                shapes_of[matched].append(shape)
            placed = self._placed.get(shape)
            if placed is not None and not _knows(placed, found):
                yield f"{_named(shape)} does not know the terms that match it"
        yield from self._check_counts(shapes_of)

    def _check_counts(self, shapes_of: Mapping[Matched, Sequence[PodShape]]) -> Iterator[str]:
        by_shapes: dict[tuple[PodShape, ...], list[Matched]] = {}
        for matched, shapes in shapes_of.items():
            by_shapes.setdefault(tuple(shapes), []).append(matched)
        tally, tally_terminating = _tally_of(self._rows, self._size), _tally_of(self._terminating, self._size)
        for alike, together in by_shapes.items():
            every = tally(alike)
            live = every - tally_terminating(alike)
            for matched in together:
                fresh = live if matched.term.ignore_terminating else every
                yield from _count_differences("pods that match", matched.term, matched.counts, fresh)

    def check_owned(self, kept: Mapping[OwnedTerm, Owned], file: TermFile[Owned]) -> Iterator[str]:
        """Terms that placed pods own, and which shapes know that they own them."""
        yield from _check_names("owned terms", kept, file)
        shapes_of: dict[OwnedTerm, list[PodShape]] = {}
        owning: Counter[Owned] = Counter()
        for shape in self._shapes:
            terms, placed = owned_terms(shape), self._placed.get(shape)
            for term in terms:
                shapes_of.setdefault(term, []).append(shape)
            if placed is not None:
                owning.update(placed.owned)
                if [kept.get(term) for term in terms] != list(placed.owned):
                    yield f"{_named(shape)} does not know the terms that it owns"
        yield from (f"{_named(term)} is kept without owners" for term in kept.keys() - shapes_of.keys())
        wrong = [owned for owned in kept.values() if owned.shapes != owning[owned]]
        yield from (f"{_named(owned.term)} has {owning[owned]} shapes, not {owned.shapes}" for owned in wrong)
        tally = _tally_of(self._rows, self._size)
        for term, shapes in shapes_of.items():
            counts = kept[term].counts if term in kept else RowCounts()
            yield from _count_differences("owners of", term, counts, tally(shapes))


def check_remembered(remembered: Remembered, kept: Collection[Owned]) -> Iterator[str]:
    """What the index remembers of shapes that it was asked about."""
    refiled = _refiled(kept)
    for shape, (namespace_labels, found) in remembered.items():
        candidates = refiled.candidates(shape.labels)
        if not _same(found, {owned for owned in candidates if owned.term.matches(shape, namespace_labels)}):
            yield f"what is remembered of {_named(shape)} is out of date"


def _check_names(what: str, kept: Mapping[K, E], file: TermFile[E]) -> Iterator[str]:
    wrong = [(key, entry.term) for key, entry in kept.items() if entry.term != key]
    yield from (f"{what}: {_named(term)} is kept as {_named(key)}" for key, term in wrong)
    selectors = {entry: entry.term.selector for entry in kept.values()}
    yield from (f"{what}: {problem}" for problem in file.problems(selectors))


def _refiled(kept: Collection[E]) -> TermFile[E]:
    file: TermFile[E] = TermFile()
    for entry in kept:
        file.add(entry, entry.term.selector)
    return file


def _knows(placed: Placed, matching: Sequence[Matched]) -> bool:
    live = {matched for matched in matching if matched.term.ignore_terminating}
    return _same(placed.live_terms, live) and _same(placed.terms, set(matching) - live)


def _same(kept: Collection[object], fresh: AbstractSet[object]) -> bool:
    return len(kept) == len(fresh) and set(kept) == fresh


def _tally_of(rows: Mapping[PodShape, Sequence[int]], size: int) -> Callable[[Sequence[PodShape]], Int64s]:
    @cache
    def array(shape: PodShape) -> Int64s:
        return np.array(rows.get(shape, ()), np.int64)

    def tally(shapes: Sequence[PodShape]) -> Int64s:
        """How many pods of these shapes are on each row."""
        return np.bincount(np.concatenate([_NO_ROWS, *map(array, shapes)]), minlength=size)

    return tally


def _count_differences(what: str, term: PodTerm | OwnedTerm, counts: RowCounts, fresh: Int64s) -> Iterator[str]:
    size = max(counts.size, len(fresh))
    fresh = np.pad(fresh, (0, size - len(fresh))) if size > len(fresh) else fresh
    if not np.array_equal(counts.column(size), fresh):
        recounted = {int(row): int(fresh[row]) for row in np.flatnonzero(fresh)}
        yield from _differences(what, term, dict(counts.items()), recounted)


def _differences(
    what: str, whose: PodTerm | OwnedTerm | PodShape, kept: Mapping[int, int], fresh: Mapping[int, int]
) -> Iterator[str]:
    if kept == fresh:
        return
    rows = sorted(row for row in kept.keys() | fresh.keys() if kept.get(row) != fresh.get(row))
    row, more = rows[0], f" ({len(rows) - 1} more rows differ)" if len(rows) > 1 else ""
    yield (
        f"{what} {_named(whose)}: row {row} has {kept.get(row, 'none')}, a recount gives {fresh.get(row, 'none')}{more}"
    )


def _named(whose: PodTerm | OwnedTerm | PodShape) -> str:
    if isinstance(whose, PodShape):
        return f"a shape in {whose.namespace} with labels {whose.labels}"
    asked = ", ".join(f"{r.key} {r.operator} {'|'.join(r.values)}".rstrip() for r in whose.selector.requirements)
    named = f"{asked or 'everything'} in {_where(whose)}"
    if isinstance(whose, OwnedTerm):
        return f"{whose.ownership.value} to {named}"
    return f"{named}, not terminating" if whose.ignore_terminating else named


def _where(term: PodTerm | OwnedTerm) -> str:
    names = term.namespaces
    if names is None:
        return "all namespaces"
    if isinstance(term, OwnedTerm) and term.namespace_selector is not None:
        return "namespaces by label"
    return "|".join(sorted(names)) if len(names) <= 3 else f"{len(names)} namespaces"
