"""Publishes Kubernetes events in the background, as client-go's events recorder does."""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from schedcache.kube.http.transport import STRATEGIC_MERGE_PATCH, Transport
from schedcache.kube.settings import WriteSettings
from schedcache.kube.times import to_micro_time
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.retrying import send_again
from schedcache.kube.write.sparing import SparingLog
from schedcache.kube.write.urgent import Urgent
from schedcache.kube.write.write_queue import WriteQueue
from schedcache.model import Pod
from schedcache.ports import ApiError, ConflictError, NotFoundError

__all__ = ["ApiEventRecorder"]

LOOK_SECONDS = 60.0
GIVE_WAY_SECONDS = 5.0
"""The longest that a write waits for evictions. With 64 of them at a time, a dozen events a second are written in any case."""
PODS_LIMIT = 10_000
NOTE_BYTES = 1024
INSTANCE_LENGTH = 128
NAME_LENGTH = 253
NORMAL = "Normal"
"""The type of events that tell what went well."""

_encode = msgspec.json.Encoder().encode
Key = tuple[str, str, str, str, str]


class _Series(msgspec.Struct):
    """One event, as often as it was recorded; times in seconds since the epoch.

    Most events are recorded once and remembered for minutes, thousands of them in a busy cluster. So `event`, the object as it is
    sent, is only held until it is written, and made again (`begun` is its time) if it is repeated.
    """

    key: Key
    name: str
    namespace: str
    begun: float
    last_observed: float
    event: dict[str, Any] = {}
    count: int = 1
    written: int = 0
    written_at: float = 0.0


class ApiEventRecorder:
    """An EventRecorder on the API server, group events.k8s.io/v1.

    Repetitions of an event of a pod are merged into a series: the second occurrence is written at once, further ones are
    counted here and written every half hour and when the series ends. Unlike in client-go, an event with another note
    is another event, so that no note is lost, and a Normal one is forgotten once it is written: a pod is bound once.
    Run `run` as a task, and call `drain` before ending it.

    Args:
        transport: requests to the server.
        rate: the budget of these writes; never that of binds.
        profiles: names of the scheduler's profiles. An event's reporting controller is the one named by its pod, or
            the first for a pod of another scheduler.
        settings: how many at once, how many may wait, how they are merged, limited and repeated.
        host: part of the reporting instance.
        wall_clock: seconds since the epoch.
        urgent: what these writes give way to.

    Attributes:
        written: events that were created or whose count was updated.
        merged: events that only raised a count.
        retries: writes that were sent again.
        dropped: by reason (full, limited, refused, failed): events that were not written.
    """

    def __init__(
        self,
        transport: Transport,
        rate: TokenBucket,
        profiles: Sequence[str],
        settings: WriteSettings = WriteSettings(),
        *,
        host: str | None = None,
        wall_clock: Callable[[], float] = time.time,
        urgent: Urgent | None = None,
    ) -> None:
        self._transport = transport
        self._rate = rate
        self._urgent = urgent or Urgent()
        self._profiles = tuple(profiles)
        self._settings = settings
        self._host = host or socket.gethostname()
        self._wall_clock = wall_clock
        self._queue = WriteQueue(self._write, workers=settings.concurrent_events, limit=settings.waiting_events)
        # Oldest first, in both.
        self._series: dict[Key, _Series] = {}
        self._budgets: dict[str, tuple[float, float]] = {}
        self._stamp = 0
        self._told = SparingLog("an event could not be written", settings.repeated_warning_seconds)
        self.written = 0
        self.merged = 0
        self.retries = 0
        self.dropped: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """The number of events that wait to be written."""
        return len(self._queue)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._queue.run(), name="event writers")
            group.create_task(self._look_after_series(), name="event series")

    async def drain(self, timeout: float) -> int:
        """Write everything, for at most `timeout` seconds. Returns how many writes are left."""
        for series in self._series.values():
            if series.count > series.written:
                self._put(series)
        return await self._queue.drain(timeout)

    def event(
        self, regarding: Pod, type_: str, reason: str, action: str, note: str, *, related: Pod | None = None
    ) -> None:
        """Record one event; `type_` is Normal or Warning, `note` is cut to 1,024 bytes as kube-scheduler does.

        `related`: the pod on whose account it happened, whose profile then reports it.
        """
        now = self._wall_clock()
        note = cut_note(note)
        key = (regarding.uid, type_, reason, action, note)
        series = self._series.get(key)
        if series is not None:
            series.count += 1
            series.last_observed = now
            series.event = series.event or self._document(series, regarding, related)
            self.merged += 1
            if series.count == 2:
                self._put(series)
        elif not self._may_record(regarding.uid, now):
            self.dropped["limited"] += 1
        else:
            self._begin(key, regarding, related, now)

    def _begin(self, key: Key, pod: Pod, related: Pod | None, now: float) -> None:
        # Two events of one pod must not have the same name, however coarse the clock is.
        self._stamp = max(self._stamp + 1, int(now * 1e9))
        series = _Series(key, event_name(pod.name, self._stamp), pod.namespace, now, now)
        series.event = self._document(series, pod, related)
        if self._put(series):
            self._series[key] = series
            if len(self._series) > self._settings.event_series_limit:
                self._end(next(iter(self._series.values())))

    def _document(self, series: _Series, pod: Pod, related: Pod | None) -> dict[str, Any]:
        _, type_, reason, action, note = series.key
        reporter = (related or pod).scheduler_name
        controller = reporter if reporter in self._profiles else self._profiles[0]
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": series.namespace},
            "eventTime": to_micro_time(series.begun),
            "reportingController": controller,
            "reportingInstance": f"{controller}-{self._host}"[:INSTANCE_LENGTH],
            "type": type_,
            "reason": reason,
            "action": action,
            "note": note,
            "regarding": _reference(pod),
            **({} if related is None else {"related": _reference(related)}),
        }

    def _put(self, series: _Series) -> bool:
        room = self._queue.put(series.name, series)
        if not room:
            self.dropped["full"] += 1
        return room

    def _may_record(self, uid: str, now: float) -> bool:
        burst = float(self._settings.pod_event_burst)
        tokens, at = self._budgets.pop(uid, (burst, now))
        tokens = min(burst, tokens + (now - at) / self._settings.pod_event_refill_seconds)
        allowed = tokens >= 1
        self._budgets[uid] = (tokens - 1 if allowed else tokens, now)
        if len(self._budgets) > PODS_LIMIT:
            del self._budgets[next(iter(self._budgets))]
        return allowed

    async def _look_after_series(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Write series that are due, and forget events that have not been repeated for long."""
        now = self._wall_clock()
        for series in list(self._series.values()):
            if now - series.last_observed > self._settings.event_series_end_seconds:
                self._end(series)
            elif (
                series.count > series.written and now - series.written_at > self._settings.event_series_refresh_seconds
            ):
                self._put(series)

    def _end(self, series: _Series) -> None:
        del self._series[series.key]
        if series.count > series.written:
            self._put(series)

    async def _write(self, _name: str, series: _Series) -> None:
        count = series.count
        if count <= series.written:
            # The write that was under way when this one was requested has covered it; a series of one is refused.
            return
        await self._urgent.over(GIVE_WAY_SECONDS)
        try:
            self.retries += await send_again(partial(self._send, series), self._settings)
        except ApiError as error:
            self.dropped["failed" if error.may_pass else "refused"] += 1
            # Forgotten, so that the next one like it starts a new series.
            self._series.pop(series.key, None)
            self._told.warning(error, name=f"{series.namespace}/{series.name}")
        else:
            series.written, series.written_at = count, self._wall_clock()
            self.written += 1
            if series.count == 1 and series.key[1] == NORMAL:
                self._series.pop(series.key, None)
            elif series.count == 1:
                series.event = {}

    async def _send(self, series: _Series) -> None:
        if series.written:
            try:
                return await self._patch(series)
            except NotFoundError:
                # The API server forgets events after an hour.
                series.written = 0
        try:
            await self._post(series)
        except ConflictError:
            # An earlier try, which had no answer, succeeded.
            if series.count > 1:
                await self._patch(series)

    async def _post(self, series: _Series) -> None:
        await self._rate.acquire("POST")
        event = series.event | {"series": _count(series)} if series.count > 1 else series.event
        await self._transport.send("POST", _collection(series), _encode(event))

    async def _patch(self, series: _Series) -> None:
        await self._rate.acquire("PATCH")
        patch = _encode({"series": _count(series)})
        await self._transport.send("PATCH", f"{_collection(series)}/{series.name}", patch, STRATEGIC_MERGE_PATCH)


def cut_note(note: str) -> str:
    """At most 1,024 bytes, with " ..." at the end of what was cut."""
    data = note.encode()
    if len(data) <= NOTE_BYTES:
        return note
    suffix = " ..."
    return data[: NOTE_BYTES - len(suffix)].decode(errors="ignore") + suffix


def _reference(pod: Pod) -> dict[str, str]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.resource_version,
    }


def event_name(pod_name: str, stamp: int) -> str:
    """As client-go names events: the object's name and the time in nanoseconds as a hexadecimal number."""
    suffix = f".{stamp:x}"
    # No name may end in a dot or a dash before the suffix.
    return pod_name[: NAME_LENGTH - len(suffix)].rstrip(".-") + suffix


def _collection(series: _Series) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(series.namespace)}/events"


def _count(series: _Series) -> dict[str, Any]:
    return {"count": series.count, "lastObservedTime": to_micro_time(series.last_observed)}
