"""Queueing hints: which waiting pods may a cluster event help (KEP-4247)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, IntFlag
from typing import Any

import msgspec
from msgspec.structs import replace

from schedcache.model import Pod, Resource
from schedcache.ports import ALL, WILDCARD, ClusterEvent
from schedcache.queue import events
from schedcache.queue.faults import Faults
from schedcache.queue.metrics import QueueMetrics

HintFn = Callable[[Pod, Any, Any], bool]
"""Called with the waiting pod, the object before and the object after the event (None if there is none).

True: the event may make the pod schedulable. Raising counts as True, so that a broken hint loses no pod.
"""

RoomFn = Callable[[Any, Any], Resource | None]
"""Called with the object before and the object after the event."""


class Scope(Enum):
    """What a hint's answer depends on in the waiting pod: the less, the less often it has to be called."""

    POD = "pod"
    SHAPE = "shape"
    """Spec, effective requests, namespace and labels."""
    SPEC = "spec"
    """Spec and effective requests alone."""


class EventHint(msgspec.Struct, frozen=True):
    """An event that may make a pod schedulable that a plugin rejected; plugins return these from `events_to_register`.

    `resource`: a kind, `Pod` for all three kinds of pod events, or `*` for everything. `actions`: upstream's action names;
    `Update` stands for every special update, `All` for everything. `fn` None = always worth another attempt. `by_shape`: the
    answer depends only on the pod's shape, so it is asked for once per shape; `by_spec`: only on its spec and requests, which
    StatefulSet pods share although their labels differ. `room`: the answer is False for every pod that asks for more than
    this amount of anything, which saves many calls if thousands of pods all ask for something different; if it returns None,
    there is no limit this time. `plugin` is filled in by the framework.
    """

    resource: str
    actions: tuple[str, ...]
    fn: HintFn | None = None
    by_shape: bool = False
    by_spec: bool = False
    room: RoomFn | None = None
    plugin: str = ""

    @property
    def scope(self) -> Scope:
        # A constant answer depends on nothing.
        if self.by_spec or self.fn is None:
            return Scope.SPEC
        return Scope.SHAPE if self.by_shape else Scope.POD


Registration = EventHint | tuple[Any, ...]
"""A hint with its plugin's name. A tuple has the name first, and then a hint's fields in their order."""
Registrations = Iterable[Registration] | Mapping[str, Iterable[Registration]]
"""For all scheduler names, or by scheduler name."""


class Strategy(IntEnum):
    """What to do with a pod; the greater value wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class _Action(IntFlag):
    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_NODE_PREEMPTION_POLICY = 256
    UPDATE_POD_LABEL = 512
    UPDATE_POD_SCALE_DOWN = 1024
    UPDATE_POD_SCALE_UP = 2048
    UPDATE_POD_TOLERATION = 4096
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 8192
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 16384


_EVERYTHING = ~_Action(0)
_ACTIONS: dict[str, _Action] = {a.name.title().replace("_", ""): a for a in _Action if a.name}
_ACTIONS |= {events.UPDATE: _EVERYTHING & ~(_Action.ADD | _Action.DELETE), ALL: _EVERYTHING}
_POD_KINDS = frozenset({events.ASSIGNED_POD, events.UNSCHEDULED_POD, events.TARGET_POD})


def _mask(actions: Iterable[str]) -> _Action:
    mask = _Action(0)
    for action in actions:
        if action not in _ACTIONS:
            raise ValueError(f"action {action!r} of a cluster event: expected one of {', '.join(_ACTIONS)}")
        mask |= _ACTIONS[action]
    return mask


def _matches(hint: EventHint, event: ClusterEvent) -> bool:
    """Whether the event is what the hint asks for, or more specific."""
    asked, came = hint.resource, event.resource
    if asked not in (WILDCARD, came) and not (asked == events.POD and came in _POD_KINDS):
        return False
    mask = _mask(event.actions)
    return mask & _mask(hint.actions) == mask


ByPlugin = Mapping[str, Sequence[EventHint]]


@dataclass(frozen=True, slots=True)
class EventHints:
    """Everything registered for one event; `plugins` are those of all profiles."""

    plugins: frozenset[str]
    by_profile: Mapping[str, ByPlugin]
    for_all: ByPlugin | None
    """Set if the registrations are the same for all scheduler names."""

    def of_profile(self, scheduler_name: str) -> ByPlugin | None:
        """The hints by plugin; None = nothing was ever registered for that scheduler name."""
        return self.by_profile.get(scheduler_name) if self.for_all is None else self.for_all


class HintTable:
    """All registrations by event, and the calls of the hints."""

    def __init__(
        self, registrations: Registrations, clock: Callable[[], float], metrics: QueueMetrics, faults: Faults
    ) -> None:
        self._flat = not isinstance(registrations, Mapping)
        by_profile = registrations if isinstance(registrations, Mapping) else {"": registrations}
        self._hints = {name: [_registered(given) for given in some] for name, some in by_profile.items()}
        self._clock = clock
        self._metrics = metrics
        self._faults = faults
        self._matched: dict[tuple[str, tuple[str, ...]], EventHints] = {}

    def matching(self, event: ClusterEvent) -> EventHints:
        """What is registered for the event. Raises ValueError for an action that does not exist."""
        key = (event.resource, event.actions)
        found = self._matched.get(key)
        if found is None:
            found = self._matched[key] = self._match(event)
        return found

    def _match(self, event: ClusterEvent) -> EventHints:
        by_profile: dict[str, dict[str, list[EventHint]]] = {}
        for name, hints in self._hints.items():
            by_plugin = by_profile[name] = {}
            for hint in hints:
                if _matches(hint, event):
                    by_plugin.setdefault(hint.plugin, []).append(hint)
        plugins = frozenset(plugin for by_plugin in by_profile.values() for plugin in by_plugin)
        return EventHints(plugins, by_profile, by_profile[""] if self._flat else None)

    def says_queue(self, hint: EventHint, event: ClusterEvent, pod: Pod, old: object, new: object) -> bool:
        """One hint's answer; True if it fails."""
        started = self._clock()
        try:
            answer = "Queue" if hint.fn is None or hint.fn(pod, old, new) else "QueueSkip"
        except Exception as error:  # noqa: BLE001  plugins are foreign code; whatever they raise, the pod must not be lost
            answer = "Error"
            self._faults.report(hint.plugin, f"queueing hint for {event.label}", pod, error)
        self._metrics.queueing_hint(hint.plugin, event.label, answer, self._clock() - started)
        return answer != "QueueSkip"

    def room(self, hints: Sequence[EventHint], event: ClusterEvent, old: object, new: object) -> Resource | None:
        """The most that a pod may ask for, for any of the hints to say yes; None = no limit, or more than one."""
        if len(hints) != 1 or hints[0].room is None:
            return None
        try:
            room = hints[0].room(old, new)
            if room is None or isinstance(room, Resource):
                return room
            raise TypeError(f"answered {room!r}, expected a Resource or None")  # noqa: TRY301  reported like what it raises itself
        except Exception as error:  # noqa: BLE001  plugins are foreign code; without a limit every pod is asked about
            self._faults.report(hints[0].plugin, f"room for {event.label}", None, error)
            return None


def _registered(given: Registration) -> EventHint:
    if isinstance(given, EventHint):
        hint = given
    else:
        plugin, *fields = given
        hint = replace(EventHint(*fields), plugin=plugin)
    if not hint.plugin:
        raise ValueError(f"hint for events of {hint.resource!r}: the plugin is not named")
    try:
        _mask(hint.actions)
    except ValueError as error:
        raise ValueError(f"plugin {hint.plugin!r}: {error}") from None
    return hint
