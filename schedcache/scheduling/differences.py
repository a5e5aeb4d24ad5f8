"""Compares what an event source has handed on with what a scheduler works with, and the cache with a computation from scratch."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any

from schedcache.model import Node, Pod, compare_resource_versions
from schedcache.ports import Cause, Difference, EventSource
from schedcache.scheduling.scheduler import Scheduler

POD, NODE = "Pod", "Node"
_AT_ONCE = 500
Differences = list[Difference]


def differences_within(scheduler: Scheduler, source: EventSource) -> Iterator[Differences]:
    """What differs, found in pieces of a millisecond or two, between which anything may change.

    Source and scheduler change together, so they agree at any one moment. In between, an object may go or come: each piece looks afresh.
    """
    for kind in source.resource_versions():
        yield from _in_pieces(source.held(kind), partial(_missing, scheduler, source, kind))
        yield from _in_pieces(_known(scheduler, kind), partial(_left_over, source, kind))
    for found in scheduler.state.cache.check_in_pieces(scheduler.snapshots):
        yield [_drift(scheduler, name, str(error)) for name, error in found]


def _in_pieces(these: Iterable[Any], check: Callable[[Any], Difference | None]) -> Iterator[Differences]:
    left = iter(list(these))
    while batch := list(islice(left, _AT_ONCE)):
        yield [found for one in batch if (found := check(one)) is not None]


def _missing(scheduler: Scheduler, source: EventSource, kind: str, uid: str) -> Difference | None:
    """What was handed on and is not there, or in another state; a read of the pod itself may be ahead of the watch.

    But not for ever: a pod whose newer state, or end, the watch does not bring was set back by a restored backup.
    """
    obj: Any = source.held(kind).get(uid)
    if obj is None or (kind == POD and obj.finished):
        return None
    state = scheduler.state
    if kind == POD:
        known: Any = state.pods.held(obj)
        if known is not None and known.node_name and state.cached(known) is None:
            return _difference(kind, Cause.NOT_HANDED_ON, obj, "not counted", "counted on its node")
    elif kind == NODE:
        known = state.cache.get_node(obj.name)
    else:
        known = scheduler.handlers.objects.in_api(kind, obj.namespace, obj.name)
    ahead = kind == POD and scheduler.live_reader.may_be_ahead(uid)
    if known is None or known.uid != uid:
        return None if ahead else _difference(kind, Cause.NOT_HANDED_ON, obj, "", obj.resource_version)
    order = compare_resource_versions(known.resource_version, obj.resource_version)
    if order == -1 or (order == 1 and not ahead):
        cause = Cause.NEWER_VERSION if order == 1 else Cause.NOT_HANDED_ON
        return _difference(kind, cause, obj, known.resource_version, obj.resource_version)
    return None


def _known(scheduler: Scheduler, kind: str) -> Iterable[Pod | Node | Any]:
    state = scheduler.state
    if kind == POD:
        confirmed = (s.pod for uid, s in state.cache.pod_states.items() if uid not in state.cache.assumed_pods)
        return [*state.pods.values(), *(pod for pod in confirmed if state.pods.held(pod) is None)]
    if kind == NODE:
        return [info.node for info in state.cache.nodes.values() if info.node is not None]
    return scheduler.handlers.objects.list(kind)


def _left_over(source: EventSource, kind: str, obj: Any) -> Difference | None:
    if obj.uid in source.held(kind):
        return None
    return _difference(kind, Cause.NOT_HANDED_ON, obj, obj.resource_version, "")


def _difference(kind: str, cause: Cause, obj: Any, held: str, expected: str) -> Difference:
    namespace = getattr(obj, "namespace", "")
    return Difference(kind, cause, f"{namespace}/{obj.name}" if namespace else obj.name, obj.uid, held, expected)


def _drift(scheduler: Scheduler, name: str, found: str) -> Difference:
    """Of a node by its name, or a pod by its UID."""
    state = scheduler.state.cache.pod_states.get(name)
    if state is not None:
        return Difference(POD, Cause.CACHE_DRIFT, state.pod.full_name, name, found, "")
    node = scheduler.state.cache.get_node(name)
    return Difference(NODE, Cause.CACHE_DRIFT, name, "" if node is None else node.uid, found, "")
