"""Whether we may bind pods at all: asked when a bind is forbidden, and from then on until we may."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from schedcache.kube.http.transport import Transport
from schedcache.model.decode import DECODE_ERRORS
from schedcache.ports import ApiError

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
"""Every user who is authenticated may ask there what he may do (the role system:basic-user); nothing is stored."""
NAMESPACES = "/api/v1/namespaces"
ASK_SECONDS = 5.0

log = structlog.get_logger()


class _Verdict(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    status: _Verdict


class _List(msgspec.Struct):
    items: list[msgspec.Raw]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Review).decode
_decode_list = msgspec.json.Decoder(_List).decode


class BindRights:
    """A 403 may be about one pod, such as a webhook's, or about us; only the API server can tell which.

    Args:
        transport: requests to the server.
        sleep: waits that many seconds.

    Attributes:
        denied_in: the namespace in which we may not bind pods, "" as far as we know of none.
    """

    def __init__(self, transport: Transport, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self.denied_in = ""
        self._transport = transport
        self._sleep = sleep
        self._doubted = ""
        self._asked_for = asyncio.Event()

    def doubt(self, namespace: str) -> None:
        """A bind was forbidden there."""
        if not self.denied_in:
            self._doubted = namespace
            self._asked_for.set()

    def proven(self) -> None:
        """A bind has succeeded, so what was found before may be out of date."""
        if self.denied_in:
            self._asked_for.set()

    async def run(self) -> None:
        """Ask whenever there is doubt, until cancelled. At most one question in five seconds."""
        while True:
            await self._asked_for.wait()
            self._asked_for.clear()
            namespace = self.denied_in or self._doubted
            allowed = await self._may_bind(namespace)
            if allowed is False and await self._is_gone(namespace):
                # With everything in it: rights there concern nobody any more, and are never granted again.
                self.denied_in = ""
            elif allowed is False and not self.denied_in:
                log.error("not allowed to bind pods: the verb create on pods/binding is needed", namespace=namespace)
                self.denied_in = namespace
            elif allowed and self.denied_in:
                log.info("allowed to bind pods again", namespace=namespace)
                self.denied_in = ""
            await self._sleep(ASK_SECONDS)
            if self.denied_in:
                # Whether or not there is a pod to try it with.
                self._asked_for.set()

    async def _is_gone(self, namespace: str) -> bool:
        """Whether the API server says that there is no such namespace; it need not let us know."""
        try:
            # A list, which we may make for plugins anyway; reading one object would need a right of its own.
            found = await self._transport.get(NAMESPACES, {"fieldSelector": f"metadata.name={namespace}"})
            return not _decode_list(found).items
        except (ApiError, *DECODE_ERRORS):
            return False

    async def _may_bind(self, namespace: str) -> bool | None:
        """None if there was no answer that says so."""
        wanted = {"namespace": namespace, "verb": "create", "resource": "pods", "subresource": "binding"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": wanted},
        }
        try:
            return _decode(await self._transport.send("POST", REVIEWS, _encode(review))).status.allowed
        except (ApiError, *DECODE_ERRORS):
            return None
