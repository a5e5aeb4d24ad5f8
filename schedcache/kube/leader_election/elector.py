"""The elector: acquires a Lease, renews it, and says from when until when this replica leads.

As client-go's (tools/leaderelection, 1.37), with six differences. Leading ends at the renew deadline by a timer and not with the
request that happens to be under way then. Time counts from before a renewal was sent. A standby looks at the Lease a little more
often than each retry period, so that a release is noticed within it. A Lease that was deleted counts as held until it would have run
out. A candidate with a hindrance leaves a free Lease to others. And where renewals had no answer, leading is only suspended: if the next
one finds the Lease as it was left, nobody else has led in between, and everything held here is still right.
"""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable

import structlog

from schedcache.kube.leader_election.fence import LeaseFence, clock_with_suspend
from schedcache.kube.settings import MOST_IN_A_LEASE, LeaderElectionSettings
from schedcache.kube.times import to_micro_time
from schedcache.ports import (
    ApiError,
    ConflictError,
    LeaderElectionRecord,
    LeaseLock,
    NotFoundError,
    OutcomeUnknownError,
    RefusedError,
    StoredRecord,
)

__all__ = ["LeaderElector", "LeadershipLostError"]

_LOOKS = 0.6, 0.9
"""The least and the longest pause of a standby between two looks, in retry periods."""
_WRITE_TRIES = 3
_RELEASE_SECONDS = 2.0
"""For a release, which is a favour to the next one: the end has to come within Kubernetes' grace period."""
_LATE = 0.01
"""A timer may be early by the clock that is asked afterwards."""
_log = structlog.get_logger(__name__)


class LeadershipLostError(Exception):
    """This replica led and must not go on: somebody else has the Lease, or renewals are refused."""


class LeaderElector:
    """One candidate for one Lease. `run` it, `stand` when ready to lead, and `release` at the end.

    Args:
        lock: the Lease.
        settings: its timings.
        identity: of this candidate, never used before or by another.
        on_started_leading: called when leading begins.
        on_stopped_leading: called when it ends or is suspended.
        clock: seconds, monotonic, time in which the machine was suspended included.
        wall_clock: seconds since the epoch; only written, never compared.
        sleep: waits that many seconds.
        rng: jitter.

    Attributes:
        fence: what decisive writes are held against.
        leading: whether this replica leads.
        record: the Lease as last seen, None before that.
    """

    def __init__(  # noqa: PLR0913  what a simulation puts its own in the place of, all by keyword
        self,
        lock: LeaseLock,
        settings: LeaderElectionSettings,
        *,
        identity: str,
        on_started_leading: Callable[[], None],
        on_stopped_leading: Callable[[], None],
        clock: Callable[[], float] = clock_with_suspend,
        wall_clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.identity = identity
        self.fence = LeaseFence(settings.lease_duration_seconds, settings.renew_deadline_seconds, clock)
        self.leading = False
        self.record: LeaderElectionRecord | None = None
        self._lock = lock
        self._on_started, self._on_stopped = on_started_leading, on_stopped_leading
        self._clock, self._wall_clock, self._sleep = clock, wall_clock, sleep
        self._rng = rng or random.Random()
        self._timeout = settings.renew_deadline_seconds / 2
        self._stored: StoredRecord | None = None
        """The Lease as last found; None also where there was none."""
        self._seen_at = self._renewed_at = -math.inf
        """When the record was first seen as it is; when our last renewal was sent."""
        self._answered_at = clock()
        self._error: ApiError | None = None
        self._has_led = False
        self._hindrance: Callable[[], str] = lambda: ""
        self._left_to_others = ""
        self._standing = asyncio.Event()
        self._led = asyncio.Event()

    @property
    def leader(self) -> str:
        """Who holds the Lease as last seen, run out or not; "" for nobody."""
        return "" if self.record is None else self.record.holder_identity

    def seconds_to_expiry(self) -> float:
        """Until the Lease as last seen runs out, 0 if it has: for its holder as that counts, for others as they do."""
        ours = self._renewed_at + self.settings.lease_duration_seconds
        return max(0.0, (ours if self._is_mine() else self._runs_out_at()) - self._clock())

    def silence(self) -> tuple[float, str]:
        """For how many seconds no look at the Lease and no renewal has succeeded, and why the last one did not."""
        return self._clock() - self._answered_at, "" if self._error is None else str(self._error)

    def suspended(self) -> bool:
        """Whether this replica has led, and would again if it could renew the Lease."""
        return self._has_led and not self.leading

    def stand(self, hindrance: Callable[[], str] = lambda: "") -> None:
        """Be a candidate from now on: until then the Lease is only looked at.

        `hindrance` says why the Lease should be left to others at the moment, "" for no reason. Whoever has it keeps it.
        """
        self._hindrance = hindrance
        self._standing.set()

    async def run(self) -> None:
        """Acquire and renew until cancelled. Raises LeadershipLostError; whatever else it meets, it tries again."""
        work = [asyncio.ensure_future(self._keep_trying()), asyncio.ensure_future(self._keep_the_deadline())]
        try:
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except LeadershipLostError:
            self.stop()
            raise
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    def stop(self) -> None:
        """After `run`: stop leading. The Lease stays as it is, and runs out."""
        self.fence.close()
        self._suspend()

    async def release(self) -> None:
        """After `run`: stop leading, and let the next one lead at once. Everything that the fence let through must have ended."""
        self.stop()
        until = self._clock() + _RELEASE_SECONDS
        while (left := until - self._clock()) > 0 and self._is_mine() and self._stored is not None:
            now = to_micro_time(self._wall_clock())
            # client-go writes one second, too: null is not allowed, and 0 is no duration.
            free = LeaderElectionRecord("", 1, now, now, self._stored.record.leader_transitions)
            try:
                self._take_note(await self._lock.update(self._stored, free, min(left, self._timeout)))
            except ApiError as error:
                if not isinstance(error, ConflictError):
                    self._not_released(error)
                    return
                if not await self._looked(min(left, self._timeout)):
                    return
            else:
                _log.info("lease released", lease=self.settings.resource_name)
                return

    def _not_released(self, error: ApiError) -> None:
        _log.warning(
            "lease not released, others will wait until it runs out",
            lease=self.settings.resource_name,
            error=str(error),
        )

    async def _looked(self, timeout: float) -> bool:
        try:
            self._take_note(await self._lock.get(timeout))
        except ApiError as error:
            self._not_released(error)
            return False
        return True

    async def _keep_trying(self) -> None:
        while True:
            try:
                await self._try()
            except ApiError as error:
                self._failed(error)
            else:
                self._error, self._answered_at = None, self._clock()
            await self._rest(self.settings.retry_period_seconds if self._is_mine() else self._look_pause())

    async def _try(self) -> None:
        """Look unless the Lease is ours as far as known, then write if it is ours or free."""
        if not self._is_mine():
            await self._look()
        for tries in range(1, _WRITE_TRIES + 1):
            if not self._may_take():
                return
            try:
                await self._write()
            except (OutcomeUnknownError, NotFoundError):
                if tries == _WRITE_TRIES:
                    raise
            else:
                return
            # Somebody else has written it, or it was deleted, or we have written it and were not told.
            await self._look()

    async def _look(self) -> None:
        self._take_note(await self._lock.get(self._timeout))
        if self._has_led and self._stored is not None and not self._is_mine():
            raise LeadershipLostError(f"the lease is held by {self.leader or 'nobody'}, who was not this replica")

    def _take_note(self, stored: StoredRecord | None) -> None:
        before = self.leader
        self._stored = stored
        if stored is None or stored.record == self.record:
            return
        self.record, self._seen_at = stored.record, self._clock()
        if self.leader not in (before, self.identity):
            _log.info("new leader", lease=self.settings.resource_name, leader=self.leader or "nobody")

    def _is_mine(self) -> bool:
        return self.leader == self.identity

    def _runs_out_at(self) -> float:
        """By when the holder must have stopped, counted from when its last renewal was seen here, as only our clock is known."""
        if self.record is None or not self.record.holder_identity:
            return -math.inf
        seconds = self.record.lease_duration_seconds
        return self._seen_at + (seconds if seconds > 0 else self.settings.lease_duration_seconds)

    def _may_take(self) -> bool:
        if self._is_mine():
            return True
        if not self._standing.is_set() or self._clock() < self._runs_out_at():
            self._left_to_others = ""
            return False
        told, self._left_to_others = self._left_to_others, self._hindrance()
        if self._left_to_others and not told:
            _log.warning("lease free, left to others", lease=self.settings.resource_name, reason=self._left_to_others)
        return not self._left_to_others

    async def _write(self) -> None:
        """Acquire or renew."""
        now = to_micro_time(self._wall_clock())
        before, mine = self.record, self._is_mine()
        record = LeaderElectionRecord(
            holder_identity=self.identity,
            # Rounded up: by no means may others count fewer seconds than the fence does.
            lease_duration_seconds=math.ceil(self.settings.lease_duration_seconds),
            acquire_time=before.acquire_time if before is not None and mine else now,
            renew_time=now,
            # Somebody may have written the largest number there is, and one more would be refused for ever.
            leader_transitions=0 if before is None else min(before.leader_transitions + (not mine), MOST_IN_A_LEASE),
        )
        sent_at = self._clock()
        if self._stored is None:
            stored = await self._lock.create(record, self._timeout)
        else:
            stored = await self._lock.update(self._stored, record, self._timeout)
        self._take_note(stored)
        self._renewed_at = sent_at
        self.fence.renewed(sent_at)
        if not self.leading and self._clock() < self._deadline():
            self._start()

    def _deadline(self) -> float:
        return self._renewed_at + self.settings.renew_deadline_seconds

    def _start(self) -> None:
        _log.info(
            "leading again, nobody else has meanwhile" if self._has_led else "leading",
            lease=self.settings.resource_name,
            identity=self.identity,
        )
        self.leading = self._has_led = True
        self._led.set()
        self._on_started()

    def _suspend(self) -> None:
        self._led.clear()
        if self.leading:
            self.leading = False
            self._on_stopped()

    async def _keep_the_deadline(self) -> None:
        """Apart from the requests: one may be under way when the time is up."""
        while True:
            await self._led.wait()
            left = self._deadline() - self._clock()
            if left > 0:
                await self._sleep(left)
                continue
            self._suspend()
            _log.warning(
                "leading suspended: the lease could not be renewed in time",
                lease=self.settings.resource_name,
                error=self.silence()[1],
            )
            self._end_if_refused()

    def _failed(self, error: ApiError) -> None:
        if self._error is None:
            _log.warning("lease could not be read or renewed", lease=self.settings.resource_name, error=str(error))
        self._error = error
        self._end_if_refused()

    def _end_if_refused(self) -> None:
        """Whoever is refused for that long has lost a right: that does not pass by itself, and somebody has to see it."""
        error = self._error
        if self.suspended() and isinstance(error, RefusedError) and not error.may_pass:
            raise LeadershipLostError(f"renewing the lease is refused: {error}")

    def _look_pause(self) -> float:
        """No longer than until the Lease can be taken."""
        pause = self.settings.retry_period_seconds * self._rng.uniform(*_LOOKS)
        left = self._runs_out_at() - self._clock()
        return min(pause, left + _LATE) if left > 0 else pause

    async def _rest(self, seconds: float) -> None:
        """The pause ends when this replica becomes a candidate."""
        if self._standing.is_set():
            await self._sleep(seconds)
            return
        waits = [asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(self._standing.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
