"""The scheduling queue: which pod is tried next, and when a pod that failed is tried again.

Promises: no pod is lost, and none is tried twice at the same time. A rejected pod wakes only when its rejecting plugins think that
an event may help it, or after five minutes; an event during its attempt counts too. Orders and backoffs are those of
kube-scheduler 1.37, tested against its recorded answers; docs/queue.md says where they differ, and why.

May touch: memory. It has no timers, no thread and no I/O; time is the `clock` it is given, and plugins are asked through the
functions it is given. If they raise, that is logged, and no pod is lost. Every call is synchronous and complete, so for whoever
waits in `pop`, the return to the queue and `done` are one step. The queue is for one thread.

Start reading with `scheduling_queue` (the calls), then `judge` (which pods an event wakes), `hints` and `pool`.

States
    active          to be tried, in the order of QueueSort (priority, then order of arrival)
    backoff         to be tried when its backoff is over; rejected pods earlier, if nothing is active. Pods whose attempt
                    ended in an error are kept separately and are never taken early
    unschedulable   rejected; waits for an event that may help it, at most `max_in_unschedulable` seconds
    gated           held back by a PreEnqueue plugin and not tried at all; kept with the unschedulable ones
    in flight       popped, and not done

What the loop calls
    add, update, delete         for our pods without a node, as they come and go. Not for assumed pods: after `done` the
                                queue no longer knows a pod, and would take an update for a new one
    pop, pop_nowait             the next pod, a QueuedPodInfo that belongs to the caller until the attempt is over
    add_unschedulable           the attempt failed. Before: set `pod` to the newest object (drop the pod and call `done` if
                                it is gone, was replaced or has a node), `unschedulable_plugins` and `pending_plugins` to who
                                rejected it; both empty means an error. `pop` has cleared both sets
    done(info.popped_uid)       every other way out of an attempt; once it is certain that the pod will be bound
    scheduled                   instead of `done` after success: also counts pods that were not woken by an event
    move, move_all              any other change in the cluster, as a ClusterEvent: `events` makes them from updates
    activate                    for plugins that know that a pod should be tried now
    flush_backoff_completed,    when `next_flush_at` says so; the queue has no timers
    flush_unschedulable_leftover
    add_nominated_pod ...       reservations of preemptors; kept by the `Nominator`, which plugins read
    pending_counts, dump, find, oldest_pending_age, unschedulable_reasons   for metrics and people
"""

from schedcache.queue import events
from schedcache.queue.dump import QueuedPodHistory, QueueDump
from schedcache.queue.errors import QueueError
from schedcache.queue.gates import GateFn, PreEnqueue
from schedcache.queue.hints import EventHint, HintFn, Registrations
from schedcache.queue.metrics import NoMetrics, QueueMetrics
from schedcache.queue.nominator import Nominator, PodLister
from schedcache.queue.queued_pod import QueuedPodInfo
from schedcache.queue.scheduling_queue import SchedulingQueue
from schedcache.queue.sorting import priority_sort

__all__ = [
    "EventHint",
    "GateFn",
    "HintFn",
    "NoMetrics",
    "Nominator",
    "PodLister",
    "PreEnqueue",
    "QueueDump",
    "QueueError",
    "QueueMetrics",
    "QueuedPodHistory",
    "QueuedPodInfo",
    "Registrations",
    "SchedulingQueue",
    "events",
    "priority_sort",
]
