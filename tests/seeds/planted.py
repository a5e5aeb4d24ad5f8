"""Bugs planted on purpose: each one that a scheduler might have, and that the simulation has to find."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from schedcache.cache import SchedulerCache
from schedcache.kube.leader_election.elector import LeaderElector
from schedcache.kube.leader_election.fence import LeaseFence
from schedcache.kube.watch import edges, kind_watch, probe, reflector, sweep
from schedcache.kube.watch.decoder import LineSplitter
from schedcache.kube.watch.edges import Edge, Ending, Pause
from schedcache.kube.watch.pacing import BackoffManager
from schedcache.kube.watch.store import ObjectStore
from schedcache.kube.write import binder
from schedcache.ports import FencedError
from schedcache.queue import Nominator
from schedcache.scheduling import binding_cycle, differences, expiry, failure, pod_events
from schedcache.scheduling.pod_store import PodStore
from schedcache.scheduling.schedule_one import SchedulingCycle
from schedcache.scheduling.state import SchedulingState

Patch = tuple[Any, str, Any]
"""Owner, attribute, what it is replaced by."""


class Bug(NamedTuple):
    """What is wrong, in a few words, and how to make it so."""

    text: str
    patches: Callable[[], list[Patch]]


def _no_uid() -> list[Patch]:
    def without_uid(found: Any) -> bytes:
        return json.dumps({**found, "metadata": {k: v for k, v in found["metadata"].items() if k != "uid"}}).encode()

    return [(binder, "_encode", without_uid)]


def _lost_deletions() -> list[Patch]:
    replace = ObjectStore.replace

    def keep(self: Any, listing: Any) -> Iterator[None]:
        listing.objects = {**self._objects, **listing.objects}
        return replace(self, listing)

    return [(ObjectStore, "replace", keep)]


def _never_confirmed() -> list[Patch]:
    add = SchedulerCache.add_pod

    def ignore_assumed(self: Any, pod: Any, cause: str = "") -> None:
        if pod.uid not in self.assumed_pods:
            add(self, pod, cause)

    return [(SchedulerCache, "add_pod", ignore_assumed)]


def _unknown_is_failure() -> list[Patch]:
    async def fail(self: Any, d: Any, error: Any) -> None:
        self._fail(d, failure.Failure.of_error(error))

    return [(binding_cycle.BindingCycles, "_resolve", fail)]


def _not_forgotten() -> list[Patch]:
    return [(SchedulingState, "forget", lambda _self, _assumed: False)]


def _never_done() -> list[Patch]:
    def without_a_word(self: Any, info: Any) -> Any:
        return None if self._is_settled(info.pod) else self._frameworks[info.pod.scheduler_name]

    return [(SchedulingCycle, "_framework_for", without_a_word)]


def _ghost_nomination() -> list[Patch]:
    return [(Nominator, "delete", lambda _self, _pod: None)]


def _older_states() -> list[Patch]:
    compare = pod_events.compare_resource_versions
    return [(pod_events, "compare_resource_versions", lambda new, held: 0 if compare(new, held) == 0 else 1)]


def _expired_is_closed() -> list[Patch]:
    changed = {**edges.EDGES, Ending.EXPIRED: Edge(relist=False, pause=Pause.BACKOFF)}
    return [(kind_watch, "EDGES", changed)]


def _expiry_by_time() -> list[Patch]:
    async def drop(self: Any) -> bool:
        for pod in self._state.cache.cleanup_expired(self._state.clock()):
            self._state.room_freed(pod)
        return True

    return [(expiry.AssumedPodExpiry, "run_once", drop)]


def _out_of_order() -> list[Patch]:
    feed = LineSplitter.feed
    return [(LineSplitter, "feed", lambda self, chunk: feed(self, chunk)[::-1])]


def _nobody_woken() -> list[Patch]:
    return [(SchedulingState, "room_freed", lambda _self, _pod, _check=None: None)]


def _by_name() -> list[Patch]:
    return [(PodStore, "held", lambda self, pod: self._pods.get((pod.shape.namespace, pod.name)))]


def _old_snapshot() -> list[Patch]:
    update = SchedulerCache.update_snapshot

    def sometimes(self: Any, snapshot: Any) -> None:
        if not snapshot.generation or self._entries.generation % 3:
            update(self, snapshot)

    return [(SchedulerCache, "update_snapshot", sometimes)]


def _blind_health() -> list[Patch]:
    def ages(self: Any) -> Mapping[str, float]:
        return dict.fromkeys(self.stats.kinds, 0.0)

    return [
        (reflector.Reflector, "outages", lambda _self: {}),
        (reflector.Reflector, "unanswered", lambda _self: None),
        (reflector.Reflector, "ages", ages),
    ]


def _no_pause() -> list[Patch]:
    return [(BackoffManager, "pause", lambda _self: 0.0)]


def _no_fence() -> list[Patch]:
    return [(LeaseFence, "allow", lambda _self, seconds: seconds)]


def _no_deadline() -> list[Patch]:
    def for_ever(self: Any, seconds: float) -> float:
        if self._renewed_at == float("-inf"):
            raise FencedError("not leading", reason="NotLeading")
        return seconds

    return [(LeaderElector, "_deadline", lambda _self: float("inf")), (LeaseFence, "allow", for_ever)]


def _restore_unnoticed() -> list[Patch]:
    # Nor the comparison within the process, which would have everything read again as well, after a while.
    unseen = [(module, "is_behind", lambda _version, _known: False) for module in (kind_watch, probe, sweep)]
    return [*unseen, (differences, "compare_resource_versions", lambda _known, _held: 0)]


BUGS: Mapping[str, Bug] = {
    "no-uid": Bug("a Binding without the pod's UID binds a new pod of the same name", _no_uid),
    "lost-deletions": Bug("a list does not delete what it no longer has", _lost_deletions),
    "never-confirmed": Bug("an assumed pod stays assumed when the watch shows it bound", _never_confirmed),
    "unknown-is-failure": Bug("a bind without an answer counts as failed, and nobody asks", _unknown_is_failure),
    "not-forgotten": Bug("a pod whose bind has failed keeps its room", _not_forgotten),
    "never-done": Bug("an attempt of a pod that is being deleted is never over for the queue", _never_done),
    "ghost-nomination": Bug("a pod that is gone or bound stays nominated", _ghost_nomination),
    "older-states": Bug("an older state of a pod replaces a newer one", _older_states),
    "expired-is-closed": Bug("after 410, the watch is resumed from the version that has expired", _expired_is_closed),
    "expiry-by-time": Bug("an assumed pod is dropped after a time, and nobody asks", _expiry_by_time),
    "out-of-order": Bug("events that arrive together are applied in the wrong order", _out_of_order),
    "nobody-woken": Bug("waiting pods do not learn that a pod has left its node", _nobody_woken),
    "by-name": Bug("a new pod of the same name is taken for the old one", _by_name),
    "old-snapshot": Bug("a pod is decided on the snapshot of the one before", _old_snapshot),
    "blind-health": Bug("readiness does not notice that no watch is open and nothing is answered", _blind_health),
    "no-fence": Bug("what a process had begun to send before it was stopped is sent after the lease", _no_fence),
    "no-deadline": Bug("a leader that cannot renew its lease goes on leading", _no_deadline),
    "restore-unnoticed": Bug("nobody notices that a version of the API server went down", _restore_unnoticed),
    "no-pause": Bug("what fails is tried again at once", _no_pause),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """While the block lasts, the bug of that name is in the code; "" for none."""
    with ExitStack() as stack:
        for owner, attribute, instead in BUGS[name].patches() if name else ():
            stack.enter_context(patch.object(owner, attribute, instead))
        yield
