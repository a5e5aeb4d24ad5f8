"""The loop: events in, decisions made, bindings out. No I/O, no wall clock: the world comes in through ports."""

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
