"""Profiles and the queue that serves them all."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable

from schedcache.cache import ClusterObjects
from schedcache.config import KubeSchedulerProfile
from schedcache.framework import (
    Extenders,
    Framework,
    Handle,
    NodeLister,
    NodeSampling,
    PluginSetError,
    Registry,
    no_node,
)
from schedcache.ports import Binder, Metrics, NoMetrics, PreemptionExecutor, VolumeWriter
from schedcache.queue import Nominator, PodLister, QueueMetrics, SchedulingQueue, priority_sort
from schedcache.scheduling.measured_framework import MeasuredFramework
from schedcache.scheduling.stand_ins import STAND_IN_HINTS


def make_profiles(  # noqa: PLR0913  what plugins and queue need of the world, all by keyword
    profiles: Iterable[KubeSchedulerProfile],
    registry: Registry,
    *,
    objects: ClusterObjects,
    binder: Binder | None,
    volume_writer: VolumeWriter | None = None,
    node_lister: NodeLister = no_node,
    extenders: Extenders | None = None,
    preemption: PreemptionExecutor | None = None,
    chance: random.Random | None = None,
    percentage_of_nodes_to_score: int = 0,
    pod_lister: PodLister,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    initial_backoff: float = 1.0,
    max_backoff: float = 10.0,
    max_in_unschedulable: float = 300.0,
    metrics: Metrics | None = None,
    queue_metrics: QueueMetrics | None = None,
) -> tuple[dict[str, Framework], SchedulingQueue]:
    """Frameworks by scheduler name, and their queue. Times are seconds; `profiles` have their defaults filled in.

    `binder` None: nothing will be bound; `volume_writer` None: no claim that waits for its first consumer will be;
    `preemption` None: nobody is evicted. `chance` decides where plugins find several nodes equally good.
    `percentage_of_nodes_to_score` is for profiles that have none of their own; 0: all nodes. Raises PluginSetError for a profile that
    does not make sense, for two that sort the queue differently, and for a plugin that registers an event which does not exist.
    """
    nominator = Nominator(pod_lister)
    extenders = extenders or Extenders()
    metrics = metrics or NoMetrics()
    handle = Handle(
        cluster_objects=objects,
        nominator=nominator,
        binder=binder,
        volume_writer=volume_writer,
        node_lister=node_lister,
        extenders=extenders,
        preemption=preemption,
        chance=chance,
        clock=clock,
        sleep=sleep,
        metrics=metrics,
    )
    sampling = NodeSampling(percentage_of_nodes_to_score)
    frameworks: dict[str, Framework] = {
        profile.scheduler_name: MeasuredFramework(profile, registry, handle, sampling, metrics=metrics, clock=clock)
        for profile in profiles
    }
    sorts = {framework.points["queue_sort"][0].name: framework.queue_sort for framework in frameworks.values()}
    if len(sorts) > 1:
        raise PluginSetError(f"profiles share one queue and must sort it alike, they have {', '.join(sorted(sorts))}")
    try:
        queue = SchedulingQueue(
            clock=clock,
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
            max_in_unschedulable=max_in_unschedulable,
            hints={name: [*framework.queueing_hints(), *STAND_IN_HINTS] for name, framework in frameworks.items()},
            pre_enqueue={name: framework.pre_enqueue_plugins() for name, framework in frameworks.items()},
            nominator=nominator,
            metrics=queue_metrics,
            queue_sort=next(iter(sorts.values()), priority_sort),
            queue_sort_plugin=next(iter(sorts), ""),
            slow=extenders.take_part if extenders else None,
        )
    except ValueError as error:
        raise PluginSetError(str(error)) from error
    return frameworks, queue
