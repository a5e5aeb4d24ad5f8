"""What a scheduler holds, as the structs of a dump: one function per kind, called as the dump is written."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from schedcache.cache import NodeInfo
from schedcache.cache import Story as CacheStory
from schedcache.dump import (
    AllocatableAmounts,
    Amounts,
    ImageState,
    InFlightEntry,
    NodeState,
    NonZeroAmounts,
    QueuedPod,
    QueueState,
    Story,
)
from schedcache.model import Resource
from schedcache.queue import QueuedPodHistory, QueueDump

Held = TypeVar("Held")
Shown = TypeVar("Shown")


class Rendered(Mapping[str, Shown], Generic[Held, Shown]):
    """A mapping whose members are rendered when they are asked for, and not kept."""

    def __init__(self, held: Mapping[str, Held], show: Callable[[Held], Shown]) -> None:
        self._held = held
        self._show = show

    def __getitem__(self, key: str) -> Shown:
        return self._show(self._held[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class Moment:
    """One moment on both clocks, which turns times of the monotonic one into dates."""

    def __init__(self, now: float, wall_now: float) -> None:
        """`now` in seconds of the monotonic clock, `wall_now` in seconds since 1970."""
        self.taken_at = datetime.fromtimestamp(wall_now, UTC)
        self._now = now

    def date(self, seconds: float) -> datetime:
        """Of a time on the monotonic clock, to the microsecond."""
        return self.taken_at + timedelta(seconds=seconds - self._now)

    def date_if_any(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.date(seconds)


def node_state(info: NodeInfo) -> NodeState:
    """A node with its sums."""
    offered, non_zero = info.allocatable, info.non_zero_requested
    return NodeState(
        present=info.node is not None,
        pods=tuple(sorted(info.pods_by_uid)),
        pods_with_affinity=tuple(sorted(info.pods_with_affinity_by_uid)),
        pods_with_required_anti_affinity=tuple(sorted(info.pods_with_required_anti_affinity_by_uid)),
        used_ports=tuple(sorted(info.used_ports)),
        requested=Amounts(
            milli_cpu=info.requested.milli_cpu,
            memory=info.requested.memory,
            ephemeral_storage=info.requested.ephemeral_storage,
            scalar=_scalar(info.requested),
        ),
        non_zero_requested=NonZeroAmounts(milli_cpu=non_zero.milli_cpu, memory=non_zero.memory),
        allocatable=AllocatableAmounts(
            milli_cpu=offered.milli_cpu,
            memory=offered.memory,
            ephemeral_storage=offered.ephemeral_storage,
            scalar=_scalar(offered),
            allowed_pod_number=offered.allowed_pod_number,
        ),
        image_states={
            name: ImageState(size=image.size, num_nodes=image.num_nodes) for name, image in info.image_states.items()
        },
        pvc_ref_counts=info.pvc_ref_counts,
    )


def _scalar(amounts: Resource) -> dict[str, int]:
    return {name: amount for name, amount in amounts.scalar.items() if amount}


def queue_state(queue: QueueDump, moment: Moment) -> QueueState:
    """The queue; its pods are rendered one by one, when they are asked for."""

    def queued_pod(history: QueuedPodHistory) -> QueuedPod:
        return QueuedPod(
            name=history.name,
            attempts=history.attempts,
            unschedulable_count=history.unschedulable_count,
            consecutive_errors=history.consecutive_errors,
            unschedulable_plugins=history.unschedulable_plugins,
            pending_plugins=history.pending_plugins,
            gated_by=history.gated_by,
            timestamp=moment.date(history.timestamp),
            initial_attempt=moment.date_if_any(history.initial_attempt),
            flushed=history.flushed,
            resource_version=history.resource_version,
            backoff_until=moment.date_if_any(history.backoff_until),
        )

    return QueueState(
        active=queue.active,
        backoff=queue.backoff,
        error_backoff=queue.error_backoff,
        unschedulable=queue.unschedulable,
        in_flight=queue.in_flight,
        in_flight_events=tuple([_in_flight_entry(kind, what) for kind, what in queue.in_flight_events]),
        scheduling_cycle=queue.scheduling_cycle,
        nominated=queue.nominated,
        pods=Rendered(queue.pods, queued_pod),
    )


def queue_version(queue: QueueDump) -> int:
    """The same for as long as nothing in the queue has changed."""
    return hash(
        (
            *(queue.active, queue.backoff, queue.error_backoff, queue.unschedulable),
            *(queue.in_flight, queue.in_flight_events, queue.scheduling_cycle),
            tuple(queue.nominated.items()),
            tuple(queue.pods.items()),
        )
    )


def _in_flight_entry(kind: str, what: str) -> InFlightEntry:
    return InFlightEntry(pod=what) if kind == "pod" else InFlightEntry(event=what)


def story_of(story: CacheStory, moment: Moment) -> Story:
    """One transition, with the date of its time."""
    return Story(
        time=moment.date(story.time),
        operation=story.operation,
        uid=story.uid,
        node=story.node,
        generation=story.generation,
        cause=story.cause,
    )
