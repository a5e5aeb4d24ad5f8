"""Evicting the victims of a preemption."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import msgspec

from schedcache.kube.http.transport import JSON, STRATEGIC_MERGE_PATCH, Transport
from schedcache.kube.settings import WriteSettings
from schedcache.kube.write.binder import pod_path
from schedcache.kube.write.pod_status import condition_patch, is_another, status_patch
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.retrying import send_again
from schedcache.kube.write.urgent import Urgent
from schedcache.model import Pod, PodCondition
from schedcache.ports import ApiError, ConflictError, Fence, NotFoundError

_encode = msgspec.json.Encoder().encode


class ApiEvictor:
    """An Evictor on the API server: patches of pods/status, and deletions with the UID as precondition.

    Args:
        transport: the way to the server.
        rate: the budget of these requests, shared with nothing but the nominations that they wait for.
        settings: how many at once, how often they are repeated.
        wall_clock: seconds since the epoch.
        urgent: what other writes give way to; evictions are that.
        fence: what all of them are held against; None lets all through.

    Attributes:
        retries: requests that were sent again.
    """

    def __init__(
        self,
        transport: Transport,
        rate: TokenBucket,
        settings: WriteSettings = WriteSettings(),
        wall_clock: Callable[[], float] = time.time,
        urgent: Urgent | None = None,
        fence: Fence | None = None,
    ) -> None:
        self._transport = transport
        self._fence = fence
        self._rate = rate
        self._urgent = urgent or Urgent()
        self._wall_clock = wall_clock
        self._turn = asyncio.Semaphore(settings.concurrent_evictions)
        self._settings = settings
        self.retries = 0

    async def evict(self, victim: Pod, condition: PodCondition) -> bool:
        """Set the condition, then delete the pod; False where it was gone before. Raises ApiError."""
        with self._urgent:
            try:
                if not victim.says(condition):
                    await self._mark(victim, condition)
                body = _encode({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": victim.uid}})
                return await self._delete(victim, body)
            except NotFoundError:
                return False

    async def _mark(self, victim: Pod, condition: PodCondition) -> None:
        path, body = status_patch(victim, {"conditions": [condition_patch(condition, self._wall_clock())]})
        send = partial(self._request, "PATCH", path, body, STRATEGIC_MERGE_PATCH)
        try:
            self.retries += await send_again(send, self._settings)
        except ApiError as error:
            # Another pod of that name: the deletion, whose precondition is the UID, will find out.
            if not is_another(error):
                raise

    async def _delete(self, victim: Pod, body: bytes) -> bool:
        path = pod_path(victim.namespace, victim.name)
        sent = 0

        async def send() -> None:
            nonlocal sent
            sent += 1
            await self._request("DELETE", path, body, JSON)

        try:
            await send_again(send, self._settings)
        except ConflictError:
            return False
        except NotFoundError:
            # The answer to the first request may have got lost.
            return sent > 1
        finally:
            self.retries += sent - 1
        return True

    async def _request(self, method: str, path: str, body: bytes, content_type: str) -> None:
        await self._rate.acquire(method)
        async with self._turn:
            await self._transport.send(method, path, body, content_type, fence=self._fence)
