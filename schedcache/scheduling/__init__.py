"""The loop: events in, decisions made, bindings out.

Promises: every attempt ends in a way that the queue learns of: the pod is bound, in the queue again, or gone. A pod keeps its room
from the moment it is assumed until it is known not to be on its node: if the outcome of a bind is unknown, only a live read or the
watch decides, never time. A failure first undoes the reservation. A fault in one pod's cycle stops no other, and if cache and
events contradict each other, everything is read again.

May touch: cache, queue and pods of its `SchedulingState`, in one thread and synchronously; the outside world through `ports`. It
opens no socket and reads no wall clock: clock, sleep and randomness are passed in.

Start with `scheduler`, which puts the parts together, then `schedule_one` (from a popped pod to an assumed one) and `binding_cycle`
(to a bound one); `pod_events` takes what the watch brings, `live_read` and `expiry` settle doubts. docs/loop.md explains why.
"""

from schedcache.scheduling.binding_cycle import MAX_BINDING
from schedcache.scheduling.event_handlers import EventHandlers
from schedcache.scheduling.following import make_cache_sink
from schedcache.scheduling.pod_store import PodStore
from schedcache.scheduling.preemptions import Preemptions
from schedcache.scheduling.profiles import make_profiles
from schedcache.scheduling.scheduler import Scheduler
from schedcache.scheduling.state import SchedulingState

__all__ = [
    "MAX_BINDING",
    "EventHandlers",
    "PodStore",
    "Preemptions",
    "Scheduler",
    "SchedulingState",
    "make_cache_sink",
    "make_profiles",
]
