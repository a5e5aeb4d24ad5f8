"""Reserving volumes, and asking for new ones: what PreBind of VolumeBinding writes."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from schedcache.kube.http.transport import STRATEGIC_MERGE_PATCH, Transport
from schedcache.kube.write.rate import TokenBucket
from schedcache.model import (
    BOUND_BY_CONTROLLER_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    MalformedObjectError,
    PersistentVolume,
    PersistentVolumeClaim,
)
from schedcache.ports import Fence, OutcomeUnknownError

__all__ = ["ApiVolumeWriter"]

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim)

_encode = msgspec.json.Encoder().encode


class ApiVolumeWriter:
    """A VolumeWriter on the API server.

    kube-scheduler 1.37 replaces the whole object; a patch with the same precondition writes the same fields, and needs neither the
    rest of the object nor the right to change it all.

    Args:
        transport: requests to the server.
        rate: the budget of these writes; never that of binds.
        fence: what they are held against; None lets all through.
    """

    def __init__(self, transport: Transport, rate: TokenBucket, fence: Fence | None = None) -> None:
        self._transport = transport
        self._rate = rate
        self._fence = fence
        self._under_way: set[asyncio.Task[bytes]] = set()

    async def settle(self, longest: float) -> int:
        """Wait until what was sent is answered, also for callers who gave up. Returns how many are not after `longest` seconds."""
        if not self._under_way:
            return 0
        _, late = await asyncio.wait(self._under_way, timeout=longest)
        return len(late)

    async def prebind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Reserve the volume for the claim; its annotation bound-by-controller is written where `volume` has it."""
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        by_controller = volume.annotations.get(BOUND_BY_CONTROLLER_ANNOTATION)
        annotations = {} if by_controller is None else {BOUND_BY_CONTROLLER_ANNOTATION: by_controller}
        path = f"/api/v1/persistentvolumes/{quote(volume.name)}"
        return await self._patch(path, volume, annotations, PersistentVolume.from_json, spec={"claimRef": reference})

    async def select_node(self, claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
        """Ask for the claim's volume to be provisioned so that the node reaches it."""
        path = f"/api/v1/namespaces/{quote(claim.namespace)}/persistentvolumeclaims/{quote(claim.name)}"
        return await self._patch(path, claim, {SELECTED_NODE_ANNOTATION: node_name}, PersistentVolumeClaim.from_json)

    async def _patch(
        self, path: str, obj: T, annotations: dict[str, str], read: Callable[[bytes], T], **parts: Any
    ) -> T:
        metadata = {"uid": obj.uid, "resourceVersion": obj.resource_version, "annotations": annotations}
        await self._rate.acquire("PATCH")
        body = _encode({"metadata": metadata, **parts})
        answer = await self._sent(path, body)
        try:
            return read(answer)
        except MalformedObjectError as error:
            raise OutcomeUnknownError(
                f"PATCH {path}: the answer cannot be read: {error}", reason="Malformed"
            ) from error

    async def _sent(self, path: str, body: bytes) -> bytes:
        """The answer. A caller who gives up leaves the request to itself: taken back in the middle, nobody would know what became of it."""
        sending = asyncio.create_task(
            self._transport.send("PATCH", path, body, STRATEGIC_MERGE_PATCH, fence=self._fence)
        )
        self._under_way.add(sending)
        sending.add_done_callback(self._over)
        return await asyncio.shield(sending)

    def _over(self, sending: asyncio.Task[bytes]) -> None:
        self._under_way.discard(sending)
        if not sending.cancelled():
            sending.exception()  # the caller's, if he is still there
