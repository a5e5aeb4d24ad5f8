"""Checks of a part of the cache at a time, for a scheduler that is at work."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from schedcache.cache.checks.validation import check_rows, expect, require
from schedcache.cache.checks.validator import run
from schedcache.cache.errors import CacheCorruptedError
from schedcache.cache.node_entries import NodeEntries
from schedcache.cache.pod_state import PodState
from schedcache.cache.snapshot import Snapshot

Failures = Sequence[tuple[str, CacheCorruptedError]]
"""What was found, by the name of the node or the UID of the pod."""


def batches(names: Iterable[str], size: int) -> Iterator[list[str]]:
    """Of the names that there are now, so that they may change between two batches."""
    left = iter(list(names))
    while batch := list(islice(left, size)):
        yield batch


def failures(check: Callable[[Iterable[str]], None], names: Sequence[str]) -> Failures:
    """One for each name that the check fails for; they are checked together as long as none does."""
    try:
        run(lambda: check(names))
    except CacheCorruptedError as error:
        if len(names) == 1:
            return [(names[0], error)]
        return [found for name in names for found in failures(check, [name])]
    return []


def check_placed(entries: NodeEntries, pod_states: Mapping[str, PodState], uids: Iterable[str]) -> None:
    """Compare pods with their nodes; a pod that is gone by now is left out. Raises CacheCorruptedError."""
    for uid in uids:
        state = pod_states.get(uid)
        if state is not None:
            info = entries.nodes.get(state.pod.node_name)
            counted = info is not None and info.pods_by_uid.get(uid) is state.pod
            require(f"pod {uid} ({state.pod.full_name}) is counted on its node", counted)


def check_shown(entries: NodeEntries, snapshot: Snapshot, names: Iterable[str]) -> None:
    """Compare rows of a snapshot with the nodes that they show, and these with the cache's as far as the snapshot has come.

    A snapshot of which an update in pieces is under way is left out. Raises CacheCorruptedError.
    """
    if snapshot.half_updated:
        return
    columns, rows = snapshot.columns, []
    for name in names:
        info, held = snapshot.node_info_map.get(name), entries.nodes.get(name)
        if info is None:
            continue
        rows.append(columns.row_of[name])
        require(f"{name} shown in its row", columns.infos[rows[-1]] is info)
        if held is not None and held.generation <= snapshot.generation and name not in snapshot.assumed_on:
            expect(f"generation of {name} in the snapshot", held.generation, info.generation)
    check_rows(columns, rows)
