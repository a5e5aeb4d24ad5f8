"""Pod events, routed to cache and queue in kube-scheduler's order (eventhandlers.go, 1.37)."""

from collections.abc import Callable, Sequence

from schedcache.cache import AlreadyAddedError
from schedcache.model import Pod, compare_resource_versions
from schedcache.queue.events import ASSIGNED_POD_ADD, pod_update_events
from schedcache.scheduling.state import SchedulingState, at_most_priority_of

_ENDED_KEPT = 10_000
"""The source tells of each end in its time, unless it never knew the pod."""


class PodEvents:
    """Takes changes of pods. The cache comes first and the queue second, so that a woken pod sees the change.

    Objects that were read live come here too, so one place decides what a pod's state means. The new object is compared with
    the one held here, not with the old one in the event, since only the former shows what has been done.
    """

    def __init__(
        self,
        state: SchedulingState,
        *,
        reject_waiting: Callable[[str, str], bool],
        abandon: Callable[[str], bool],
        deletion_seen: Callable[[str], Sequence[Pod]],
    ) -> None:
        """`reject_waiting(uid, why)` ends a pod's wait on Permit; False if it does not wait.

        `abandon(uid)` keeps a running binding cycle from binding, and ends its PreBind; False if there is none.
        `deletion_seen(uid)` is called when a pod turns out to be terminating or gone, before anybody is woken by that. It
        returns the preemptors that waited for that.
        """
        self._state = state
        self._reject_waiting = reject_waiting
        self._abandon = abandon
        self._deletion_seen = deletion_seen
        self._ended: dict[str, None] = {}
        """UIDs of pods whose end was read live and has not come from the source yet, oldest first."""

    def add(self, pod: Pod) -> None:
        """A pod that is new, or that the source takes for new."""
        held = self._state.pods.get(pod.shape.namespace, pod.name)
        if held is not None:
            if held.uid == pod.uid:
                self._changed(held, pod)
                return
            # Its predecessor's deletion was missed (kubernetes/kubernetes#85726).
            self.delete(held)
        if pod.finished:
            self._ended.pop(pod.uid, None)
            return
        if pod.uid in self._ended:
            # From before its end: the source is behind what was read.
            return
        self._state.pods.put(pod)
        if pod.node_name:
            self._add_assigned(pod)
        elif self._state.is_ours(pod):
            self._state.queue.add(pod)

    def update(self, new: Pod) -> None:
        """A pod in another version."""
        held = self._state.pods.held(new)
        if held is None:
            self.add(new)
        else:
            self._changed(held, new)

    def end(self, pod: Pod) -> None:
        """A pod that is finished or gone, as was read live; the source may still tell of it as it was."""
        self.delete(pod)
        self._ended[pod.uid] = None
        if len(self._ended) > _ENDED_KEPT:
            del self._ended[next(iter(self._ended))]

    def delete(self, pod: Pod) -> None:
        """A pod that is gone, in its last known state, which may lack its node after a gap."""
        state = self._state
        self._ended.pop(pod.uid, None)
        state.status_writer.forget(pod.uid)
        if state.pods.held(pod) is not None:
            # Only then: the queue goes by names, and this one may be a successor's by now.
            state.pods.discard(pod)
            state.queue.delete(pod)
        let_go = self._deletion_seen(pod.uid)
        cached = state.cached(pod)
        if cached is None:
            # A victim whose bind had failed before has left its room already, when the preemptors were still held back.
            state.queue.activate(let_go)
            if pod.nominated_node_name and state.is_ours(pod):
                state.room_freed(pod, at_most_priority_of(pod))
        elif state.cache.is_assumed_pod(cached):
            self._assumed_pod_deleted(cached)
        else:
            state.cache.remove_pod(pod)
            state.room_freed(cached)

    def replace(self, pods: Sequence[Pod]) -> None:
        """All pods, read again, for a cache that holds only the pods that are being bound and still have no node."""
        state = self._state
        # A restored backup may bring them back.
        self._ended.clear()
        present = {pod.uid for pod in pods}
        for pod in [pod for pod in state.pods.values() if pod.uid not in present]:
            self._end_binding(pod.uid, "the pod is gone")
            state.status_writer.forget(pod.uid)
            state.pods.discard(pod)
            state.queue.delete(pod)
            self._deletion_seen(pod.uid)
        for pod in pods:
            held = state.pods.held(pod)
            state.pods.put(pod)
            if pod.terminating:
                self._deletion_seen(pod.uid)
            if pod.node_name:
                state.cache.add_pod(pod)
                if held is not None and not held.node_name:
                    self._end_binding(pod.uid, "the pod was bound by another component")
                    state.queue.delete(held)
                continue
            if pod.terminating:
                # Its assumption was not kept.
                self._end_binding(pod.uid, "the pod was deleted")
            elif held is not None and compare_resource_versions(pod.resource_version, held.resource_version) == -1:
                # What its binding has written is lost as well, and would be waited for.
                self._end_binding(pod.uid, "the API server was set back to an earlier state")
            if held is not None:
                self._update_unassigned(held, pod)
            elif state.is_ours(pod):
                state.queue.add(pod)

    def _changed(self, held: Pod, new: Pod) -> None:
        # The same state must not queue the pod again (kubernetes/kubernetes#96071). An old state comes from a lagging API
        # server, or from the watch after a live read. If it is unknown which is newer, the last to arrive wins.
        if compare_resource_versions(new.resource_version, held.resource_version) in (0, -1):
            return
        if new.finished:
            self.delete(new)
            return
        self._state.pods.put(new)
        if held.node_name:
            self._update_assigned(held, new)
        elif new.node_name:
            self._bound(held, new)
        else:
            self._update_unassigned(held, new)

    def _add_assigned(self, pod: Pod) -> None:
        cache = self._state.cache
        try:
            cache.add_pod(pod)
        except AlreadyAddedError:
            cache.update_pod(cache.get_pod(pod), pod)
        self._state.queue.move(ASSIGNED_POD_ADD, None, pod)

    def _update_assigned(self, held: Pod, new: Pod) -> None:
        state = self._state
        state.cache.update_pod(held, new)
        if new.terminating:
            self._deletion_seen(new.uid)
        for event in pod_update_events(held, new):
            state.queue.move(event, held, new)

    def _bound(self, held: Pod, new: Pod) -> None:
        """The pod got its node: usually from us, and this confirms it; or from somebody else, whatever we know of it."""
        state = self._state
        assumed = state.cached(new)
        self._add_assigned(new)
        if not state.is_ours(held):
            return
        state.queue.delete(held)
        state.status_writer.forget(new.uid)
        # Our own bind comes after Permit and PreBind: who is still there was bound by another component, even if to the same node.
        self._end_binding(new.uid, "the pod was bound by another component")
        if assumed is not None and assumed.node_name != new.node_name:
            state.room_freed(assumed)
        elif held.nominated_node_name not in ("", new.node_name):
            # Nothing else wakes the pods that made way for it (kubernetes/kubernetes#134859).
            state.room_freed(held, at_most_priority_of(held))

    def _update_unassigned(self, held: Pod, new: Pod) -> None:
        state = self._state
        was_ours, is_ours = state.is_ours(held), state.is_ours(new)
        if not was_ours and not is_ours:
            return
        cached = state.cached(new)
        if cached is not None:
            if state.cache.is_assumed_pod(cached):
                self._update_assumed(held, new, cached, is_ours=is_ours)
        elif not was_ours:
            state.queue.add(new)
        elif not is_ours:
            state.queue.delete(held)
        else:
            state.queue.update(held, new)
            if held.nominated_node_name not in ("", new.nominated_node_name):
                state.room_freed(held, at_most_priority_of(held))

    def _update_assumed(self, held: Pod, new: Pod, cached: Pod, *, is_ours: bool) -> None:
        if new.terminating and not held.terminating:
            self._assumed_pod_deleted(cached)
        elif not is_ours:
            self._end_binding(new.uid, "the pod has another scheduler now")
        elif new.requests is not held.requests:
            # A pod that grew must count in full at once: the decision was made on the smaller one
            # (kubernetes/kubernetes#126891).
            resized = new.with_node(cached.node_name)
            self._state.cache.forget_pod(cached)
            self._state.cache.assume_pod(resized)
            if not self._abandon(new.uid):
                self._state.cache.finish_binding(new)
            for event in pod_update_events(cached, resized):
                self._state.queue.move(event, cached, resized)

    def _assumed_pod_deleted(self, assumed: Pod) -> None:
        """Free the node at once (kubernetes/kubernetes#134217); a bind on its way will fail, and has nothing left to undo."""
        if not self._reject_waiting(assumed.uid, "the pod was deleted"):
            self._abandon(assumed.uid)
            self._state.forget(assumed)
        self._state.room_freed(assumed)

    def _end_binding(self, uid: str, why: str) -> None:
        """Stop the pod's binding cycle if it waits; a bind request that was sent cannot be taken back."""
        if not self._reject_waiting(uid, why):
            self._abandon(uid)
