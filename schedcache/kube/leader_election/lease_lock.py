"""A Lease on the API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from schedcache.kube.http.outcomes import failure
from schedcache.kube.http.transport import Transport
from schedcache.model.decode import DECODE_ERRORS
from schedcache.ports import LeaderElectionRecord, NotFoundError, OutcomeUnknownError, StoredRecord, UnavailableError

__all__ = ["ApiLeaseLock"]

_encode = msgspec.json.Encoder().encode


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class ApiLeaseLock:
    """A LeaseLock on a coordination.k8s.io/v1 Lease.

    An update sends the whole object as it was found, with its resourceVersion as precondition, as client-go does.

    Args:
        transport: requests to the server.
        namespace: of the Lease.
        name: of the Lease.
    """

    def __init__(self, transport: Transport, namespace: str, name: str) -> None:
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace)}/leases"
        self._path = f"{self._collection}/{quote(name)}"

    async def get(self, timeout: float) -> StoredRecord | None:
        """The Lease as it is now; None if there is none."""
        try:
            async with self._within("GET", self._path, timeout):
                return _read(await self._transport.get(self._path, timeout=timeout))
        except NotFoundError:
            return None

    async def create(self, record: LeaderElectionRecord, timeout: float) -> StoredRecord:
        """Create the Lease; ConflictError if it exists."""
        metadata = {"namespace": self._namespace, "name": self._name}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": _spec_of(record),
        }
        async with self._within("POST", self._collection, timeout):
            return _read(await self._transport.send("POST", self._collection, _encode(body)))

    async def update(self, found: StoredRecord, record: LeaderElectionRecord, timeout: float) -> StoredRecord:
        """Replace the record; ConflictError if anybody has written the Lease since it was found."""
        lease = found.stored
        body = {**lease, "spec": {**(lease.get("spec") or {}), **_spec_of(record)}}
        async with self._within("PUT", self._path, timeout):
            return _read(await self._transport.send("PUT", self._path, _encode(body)))

    @asynccontextmanager
    async def _within(self, method: str, path: str, timeout: float) -> AsyncIterator[None]:
        """All of it within that time: the transport's own limit starts anew when it is throttled."""
        try:
            async with asyncio.timeout(timeout):
                yield
        except TimeoutError as error:
            raise failure(method, path, TimeoutError(f"no answer within {timeout:g} s")) from error
        except DECODE_ERRORS as error:
            unreadable = UnavailableError if method == "GET" else OutcomeUnknownError
            raise unreadable(f"{method} {path}: the answer cannot be read: {error}", reason="Malformed") from error


def _spec_of(record: LeaderElectionRecord) -> dict[str, Any]:
    return {
        "holderIdentity": record.holder_identity,
        "leaseDurationSeconds": record.lease_duration_seconds,
        "acquireTime": record.acquire_time or None,
        "renewTime": record.renew_time or None,
        "leaseTransitions": record.leader_transitions,
    }


def _read(answer: bytes) -> StoredRecord:
    """Raises one of DECODE_ERRORS."""
    lease = msgspec.json.decode(answer, type=dict[str, Any])
    spec = msgspec.convert(lease.get("spec") or {}, _Spec)
    record = LeaderElectionRecord(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time or "",
        spec.renew_time or "",
        spec.lease_transitions or 0,
    )
    return StoredRecord(record, lease)
