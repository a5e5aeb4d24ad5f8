"""Small clusters for tests of single plugins."""

import numpy as np

from schedcache.cache import ClusterObjects
from schedcache.framework.handle import Handle
from schedcache.framework.interface import CycleState
from schedcache.framework.row_view import RowView
from schedcache.framework.status import Code
from schedcache.queue import Nominator

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def handle(*objects):
    stores = ClusterObjects()
    for obj in objects:
        stores.add(type(obj).__name__, obj)
    return Handle(cluster_objects=stores, nominator=Nominator())


def whole(snapshot):
    return RowView(snapshot, snapshot.columns.order)


def reasons(view, verdicts):
    """Node name -> the reasons it is rejected for; nodes that pass are left out."""
    found = {}
    for name, code in zip(view.names(), verdicts.codes.tolist(), strict=True):
        status = verdicts.table[code]
        if status is not None:
            found[name] = (status.code, *status.reasons)
    return found


def rejected(plugin, pod, snapshot, view=None):
    """What the filter says of each node that it rejects; SKIP where PreFilter has nothing to check."""
    state = CycleState()
    status = plugin.pre_filter(state, pod, snapshot)
    if status is not None:
        assert status.code is Code.SKIP, status
        return {}
    view = whole(snapshot) if view is None else view
    return reasons(view, plugin.filter(state, pod, view))


def scores(plugin, pod, snapshot, feasible=None):
    """Node name -> normalized score; None where PreScore has nothing to rank by."""
    view, state = whole(snapshot), CycleState()
    if feasible is not None:
        view = view.take(np.array([i for i, name in enumerate(view.names()) if name in feasible], np.intp))
    status = plugin.pre_score(state, pod, view)
    if status is not None:
        assert status.code is Code.SKIP, status
        return None
    normalized = plugin.normalize_score(state, pod, plugin.score(state, pod, view))
    return dict(zip(view.names(), normalized.tolist(), strict=True))


def hint(plugin, resource):
    (found,) = [h for h in plugin.events_to_register() if h.resource == resource]
    return found
