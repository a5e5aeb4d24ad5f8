"""Candidates for one Lease in virtual time, on an API server of a few lines, with latency, lost answers and clocks of their own."""

import asyncio
import itertools
import random
from dataclasses import dataclass, field

from schedcache.kube.leader_election.elector import LeaderElector, LeadershipLostError
from schedcache.kube.settings import LeaderElectionSettings
from schedcache.ports import (
    ConflictError,
    LeaderElectionRecord,
    NotFoundError,
    OutcomeUnknownError,
    StoredRecord,
    UnavailableError,
)
from schedcache.testing.virtual_clock import VirtualClock, settle

SETTINGS = LeaderElectionSettings(resource_name="schedcache", resource_namespace="kube-system")


class FakeLease:
    """The Lease as etcd has it.

    Attributes:
        history: (time, record or None) of each write, in order.
        writes: (verb, identity) of each write that was carried out.
    """

    def __init__(self, clock):
        self.clock = clock
        self.record = None
        self.version = 0
        self.history = []

    def put(self, record):
        self.version += 1
        self.record = record
        self.history.append((self.clock(), record))

    def stored(self):
        return None if self.record is None else StoredRecord(self.record, self.version)


@dataclass
class Link:
    """One candidate's way to the server: `request` and `answer` are delays in seconds, None for never; `refuse` an error instead."""

    request: float | None = 0.0
    answer: float | None = 0.0
    refuse: type | None = None
    calls: list = field(default_factory=list)


class FakeLock:
    """A LeaseLock whose calls end within their time-out, while what they asked for may still be on its way."""

    def __init__(self, lease, clock, link):
        self.lease, self.clock, self.link = lease, clock, link
        self.late = set()

    async def get(self, timeout):
        return await self._call("get", timeout, self.lease.stored, UnavailableError)

    async def create(self, record, timeout):
        def do():
            if self.lease.record is not None:
                raise ConflictError("exists", status=409)
            self.lease.put(record)
            return self.lease.stored()

        return await self._call("create", timeout, do, OutcomeUnknownError)

    async def update(self, found, record, timeout):
        def do():
            if self.lease.record is None:
                raise NotFoundError("gone", status=404)
            if self.lease.version != found.stored:
                raise ConflictError("changed", status=409)
            self.lease.put(record)
            return self.lease.stored()

        return await self._call("update", timeout, do, OutcomeUnknownError)

    async def _call(self, verb, timeout, do, lost):
        link = self.link
        link.calls.append(verb)
        if link.refuse is not None:
            raise link.refuse(verb, status=403)
        task = asyncio.ensure_future(self._served(do, link.request, link.answer))
        self.late.add(task)
        task.add_done_callback(self.late.discard)
        limit = asyncio.ensure_future(self.clock.sleep(timeout))
        await asyncio.wait((task, limit), return_when=asyncio.FIRST_COMPLETED)
        limit.cancel()
        if not task.done():
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise lost(f"{verb}: no answer")
        return task.result()

    async def _served(self, do, request, answer):
        await self.clock.sleep(1e9 if request is None else request) if request != 0 else None
        try:
            return do()
        finally:
            await self.clock.sleep(1e9 if answer is None else answer) if answer != 0 else None


class ShiftedClock:
    """A monotonic clock with an origin and a rate of its own."""

    def __init__(self, clock, origin, rate=1.0):
        self.clock, self.origin, self.rate = clock, origin, rate

    def __call__(self):
        return self.origin + self.clock() * self.rate

    async def sleep(self, seconds):
        await self.clock.sleep(seconds / self.rate)


class Candidate:
    """An elector with all that it needs.

    Attributes:
        spans: (from, to or None) in which it led.
        sent: (sent, latest end) of the writes that its fence let through, in the world's time.
    """

    def __init__(self, world, name, settings=SETTINGS, rate=1.0):
        self.world, self.name, self.rate = world, name, rate
        self.link = Link()
        self.wall = 1.8e9
        self.clock = ShiftedClock(world.clock, 1000.0 * len(world.candidates), rate)
        self.elector = LeaderElector(
            FakeLock(world.lease, world.clock, self.link),
            settings,
            identity=name,
            on_started_leading=self.started,
            on_stopped_leading=self.stopped,
            clock=self.clock,
            wall_clock=lambda: self.wall + world.clock(),
            sleep=self.clock.sleep,
            rng=random.Random(len(world.candidates)),
        )
        self.spans = []
        self.sent = []
        self.task = None
        world.candidates.append(self)

    def started(self):
        self.spans.append([self.world.clock(), None])

    def stopped(self):
        self.spans[-1][1] = self.world.clock()

    def start(self):
        self.elector.stand()
        self.task = asyncio.ensure_future(self.elector.run())
        return self

    @property
    def lost(self):
        return self.task.done() and isinstance(self.task.exception(), LeadershipLostError)

    async def stop(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def write(self, seconds=15.0):
        """Send what only the leader may; whether the fence let it."""
        try:
            allowed = self.elector.fence.allow(seconds)
        except UnavailableError:
            return False
        now = self.world.clock()
        self.sent.append((now, now + allowed / self.rate))
        return True


class LeaseWorld:
    """`async with`: at its end all candidates are stopped."""

    def __init__(self):
        self.clock = VirtualClock()
        self.lease = FakeLease(self.clock)
        self.candidates = []
        self._names = (f"candidate-{number}" for number in itertools.count())

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for candidate in self.candidates:
            if candidate.task is not None:
                await candidate.stop()
                for task in candidate.elector._lock.late:
                    task.cancel()

    async def elapse(self, seconds):
        """Let time pass, after what has begun has reached its first wait."""
        await settle()
        await self.clock.elapse(seconds)

    def candidate(self, settings=SETTINGS, rate=1.0):
        return Candidate(self, next(self._names), settings, rate)

    def leaders(self):
        return [candidate.name for candidate in self.candidates if candidate.elector.leading]

    def hold(self, holder, seconds=15):
        """Somebody else's record."""
        self.lease.put(LeaderElectionRecord(holder, seconds, "then", f"{self.clock()}", 7))
