"""Leadership: the Lease that names the replica which schedules, and the fence that keeps all others from writing."""

from typing import Any, NamedTuple, Protocol


class LeaderElectionRecord(NamedTuple):
    """What a Lease says: client-go's record, whose times are for people only.

    Times are RFC 3339 with microseconds, "" for none; `holder_identity` "" means that nobody holds it.
    """

    holder_identity: str
    lease_duration_seconds: int
    acquire_time: str
    renew_time: str
    leader_transitions: int


class StoredRecord(NamedTuple):
    """A record as the API server has it.

    `stored` is for the lock alone: what the next update has to find unchanged.
    """

    record: LeaderElectionRecord
    stored: Any


class LeaseLock(Protocol):
    """Reads and writes one Lease. No call takes longer than its `timeout`, in seconds, whatever the API server does.

    They raise RefusedError (NotFoundError) or UnavailableError where nothing was done, and the writes also OutcomeUnknownError
    (ConflictError) where something may have been: only `get` can tell.
    """

    async def get(self, timeout: float) -> StoredRecord | None:
        """The Lease as it is now, past every cache; None if there is none."""

    async def create(self, record: LeaderElectionRecord, timeout: float) -> StoredRecord:
        """Create it; ConflictError if it exists."""

    async def update(self, found: StoredRecord, record: LeaderElectionRecord, timeout: float) -> StoredRecord:
        """Replace the record; ConflictError if anybody has written the Lease since it was found."""


class Fence(Protocol):
    """What every decisive write is held against, immediately before its first byte is sent, at each attempt."""

    def allow(self, seconds: float) -> float:
        """How long a request that is sent now may take, at most `seconds`. Raises FencedError if it must not be sent."""
