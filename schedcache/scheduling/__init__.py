"""The loop: events in, decisions made, bindings out.

Promises: a popped pod always comes to an end that the queue hears of: bound, in the queue again, or gone. A pod holds its room from
the moment it is assumed until it is known not to be on its node: where the outcome of a bind is unknown, only a live read or the watch
decides, never time. Whatever fails on the way undoes its reservation first. A fault in one pod's cycle stops no other, and where cache
and events contradict each other everything is read afresh.

May touch: cache, queue and pods of its `SchedulingState`, in one thread and synchronously; the world through `ports`. It opens no
socket and reads no wall clock: clock, sleep and chance are given.

Start with `scheduler`, which puts the parts together, then `schedule_one` (from a popped pod to an assumed one) and `binding_cycle`
(to a bound one); `pod_events` is how the watch gets in, `live_read` and `expiry` how doubt is settled. docs/loop.md tells why.
"""

from schedcache.scheduling.binding_cycle import MAX_BINDING
from schedcache.scheduling.event_handlers import EventHandlers
from schedcache.scheduling.following import make_cache_sink
from schedcache.scheduling.pod_store import PodStore
from schedcache.scheduling.profiles import make_profiles
from schedcache.scheduling.scheduler import Scheduler
from schedcache.scheduling.state import SchedulingState

__all__ = [
    "MAX_BINDING",
    "EventHandlers",
    "PodStore",
    "Scheduler",
    "SchedulingState",
    "make_cache_sink",
    "make_profiles",
]
