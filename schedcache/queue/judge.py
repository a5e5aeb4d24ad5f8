"""What an event means for a waiting pod: leave it, retry it after its backoff, or retry it at once (kube-scheduler 1.37)."""

from collections.abc import Callable, Collection, Iterable, Iterator

from schedcache.model import Pod
from schedcache.ports import ClusterEvent
from schedcache.queue.events import is_wildcard
from schedcache.queue.hints import EventHint, HintTable, Scope, Strategy
from schedcache.queue.in_flight import RecordedEvent
from schedcache.queue.pool import Bucket, Group
from schedcache.queue.queued_pod import QueuedPodInfo

PreCheck = Callable[[Pod], bool]
"""The caller's own test of whether an event applies to a pod."""
Woken = tuple[QueuedPodInfo, Strategy]


class Judge:
    """Asks the hints of the plugins that rejected a pod, and no others."""

    def __init__(self, table: HintTable) -> None:
        self._table = table

    def of_interest(self, event: ClusterEvent) -> bool:
        """Whether any plugin of any profile has registered for the event, as all have for a wildcard."""
        return is_wildcard(event) or bool(self._table.matching(event).plugins)

    def after_attempt(self, info: QueuedPodInfo, since: Iterable[RecordedEvent] | None) -> Strategy:
        """For a pod whose attempt failed: the best answer to the events since its pop; None = it was done before it failed.

        After an error, or a failure while binding, the pod is retried after backoff, since no event can be expected to help.
        """
        if since is None or info.failed_with_error:
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        for change in since:
            best = max(best, self.worth_requeuing(info, change))
            if best is _best_possible(info.pending_plugins):
                break
        return best

    def worth_requeuing(self, info: QueuedPodInfo, change: RecordedEvent) -> Strategy:
        """For one pod, wherever it is."""
        if info.failed_with_error:
            return Strategy.AFTER_BACKOFF
        if is_wildcard(change.event):
            return Strategy.AFTER_BACKOFF if _is_meant_for(info.pod, change.new) else Strategy.SKIP
        by_plugin = self._table.matching(change.event).of_profile(info.pod.scheduler_name)
        if by_plugin is None:
            return Strategy.AFTER_BACKOFF
        rejectors = info.unschedulable_plugins | info.pending_plugins
        hints = [hint for plugin in rejectors for hint in by_plugin.get(plugin, ())]
        return self._ask(hints, info.pod, change, info.pending_plugins)

    def woken(self, buckets: Iterable[Bucket], change: RecordedEvent, pre_check: PreCheck | None) -> list[Woken]:
        """The pods in the pool that the event may help, and how."""
        wildcard = is_wildcard(change.event)
        matching = self._table.matching(change.event)
        woken: list[Woken] = []
        for bucket in buckets:
            gate = bucket.rejection.gated_by
            if gate and not wildcard and gate not in matching.plugins:
                continue  # the gate would still hold it
            by_plugin = None if wildcard else matching.of_profile(bucket.rejection.scheduler_name)
            if by_plugin is None:
                woken += self._one_by_one(bucket, change, pre_check)
                continue
            hints = [hint for plugin in bucket.plugins for hint in by_plugin.get(plugin, ())]
            if hints:
                woken += self._of_bucket(bucket, hints, change, pre_check)
        return woken

    def _one_by_one(self, bucket: Bucket, change: RecordedEvent, pre_check: PreCheck | None) -> list[Woken]:
        infos = [info for spec in bucket.specs.values() for info in _admitted(spec.shapes.values(), pre_check)]
        verdicts = [(info, self.worth_requeuing(info, change)) for info in infos]
        return [verdict for verdict in verdicts if verdict[1]]

    def _of_bucket(
        self, bucket: Bucket, hints: list[EventHint], change: RecordedEvent, pre_check: PreCheck | None
    ) -> list[Woken]:
        """Ask as rarely as the hints allow: once per spec, then once per shape, then for each pod."""
        by_scope: dict[Scope, list[EventHint]] = {scope: [] for scope in Scope}
        for hint in hints:
            by_scope[hint.scope].append(hint)
        of_spec, of_shape, of_pod = by_scope[Scope.SPEC], by_scope[Scope.SHAPE], by_scope[Scope.POD]
        pending = bucket.rejection.pending
        best = _best_possible(pending)
        woken: list[Woken] = []
        for spec in bucket.within(self._table.room(hints, *change)):
            verdict = self._ask(of_spec, spec.specimen(), change, pending) if of_spec else Strategy.SKIP
            if verdict is best or not (of_shape or of_pod):
                if verdict:
                    woken += [(info, verdict) for info in _admitted(spec.shapes.values(), pre_check)]
                continue
            for group in spec.shapes.values():
                woken += self._of_group(group, verdict, of_shape, of_pod, change, pre_check)
        return woken

    def _of_group(
        self,
        group: Group,
        verdict: Strategy,
        of_shape: list[EventHint],
        of_pod: list[EventHint],
        change: RecordedEvent,
        pre_check: PreCheck | None,
    ) -> list[Woken]:
        pending = group.spec.bucket.rejection.pending
        if of_shape:
            verdict = max(verdict, self._ask(of_shape, group.specimen(), change, pending))
        if not of_pod or verdict is _best_possible(pending):
            return [(info, verdict) for info in _admitted((group,), pre_check)] if verdict else []
        verdicts = [
            (info, max(verdict, self._ask(of_pod, info.pod, change, pending)))
            for info in _admitted((group,), pre_check)
        ]
        return [verdict for verdict in verdicts if verdict[1]]

    def _ask(self, hints: Iterable[EventHint], pod: Pod, change: RecordedEvent, pending: Collection[str]) -> Strategy:
        event, old, new = change
        best, possible = Strategy.SKIP, _best_possible(pending)
        for hint in hints:
            answer = Strategy.IMMEDIATELY if hint.plugin in pending else Strategy.AFTER_BACKOFF
            if answer > best and self._table.says_queue(hint, event, pod, old, new):
                best = answer
                if best is possible:
                    break
        return best


def _admitted(groups: Iterable[Group], pre_check: PreCheck | None) -> Iterator[QueuedPodInfo]:
    infos = (info for group in groups for info in group.infos.values())
    return infos if pre_check is None else (info for info in infos if pre_check(info.pod))


def _best_possible(pending: Collection[str]) -> Strategy:
    return Strategy.IMMEDIATELY if pending else Strategy.AFTER_BACKOFF


def _is_meant_for(pod: Pod, target: object) -> bool:
    """A wildcard event with a new object is only for that pod."""
    return target is None or (isinstance(target, Pod) and target.uid == pod.uid)
