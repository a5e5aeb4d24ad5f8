"""Binds pods, and reads a pod as it is now."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import quote

import msgspec

from schedcache.kube.http.answers import Answers
from schedcache.kube.http.outcomes import FORBIDDEN, NAMESPACE_TERMINATING
from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import WriteSettings
from schedcache.kube.write.rate import TokenBucket
from schedcache.kube.write.rights import BindRights
from schedcache.model import MalformedObjectError, Pod
from schedcache.ports import ApiError, ConflictError, Fence, FencedError, NotFoundError, UnavailableError

__all__ = ["ApiBinder"]


_encode = msgspec.json.Encoder().encode


def pod_path(namespace: str, name: str) -> str:
    """Of one pod in the API."""
    return f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}"


class ApiBinder:
    """A Binder on the API server.

    Args:
        transport: requests to the server.
        rate: the budget of bind requests, shared with nothing else.
        settings: how many may be under way at once.
        clock: seconds, monotonic.
        read_pod: reads a pod, as the event source does.
        fence: what binds are held against; None lets all through.

    Attributes:
        in_flight: bind requests without an answer yet, including those that wait for their turn.
        binds: whether binds are carried out.
        reads: whether live reads are answered.
        rights: whether we may bind pods.
    """

    def __init__(
        self,
        transport: Transport,
        rate: TokenBucket,
        settings: WriteSettings = WriteSettings(),
        clock: Callable[[], float] = time.monotonic,
        read_pod: Callable[[bytes], Pod] = Pod.from_json,
        fence: Fence | None = None,
    ) -> None:
        self.binds, self.reads = Answers(clock), Answers(clock)
        self.rights = BindRights(transport)
        self._transport = transport
        self._rate = rate
        self._read_pod = read_pod
        self._fence = fence
        self._turn = asyncio.Semaphore(settings.concurrent_binds)
        # UID -> why, of pods whose bind was answered with a conflict, since the last bind that succeeded.
        self._conflicts: dict[str, str] = {}
        self.in_flight = 0

    async def bind(self, pod: Pod, node_name: str) -> None:
        """POST the Binding with the pod's UID as precondition.

        Raises RefusedError (NotFoundError), UnavailableError (FencedError) or OutcomeUnknownError (ConflictError).
        """
        body = _encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                # The UID keeps a new pod of the same name from being bound in the old one's place.
                "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
            }
        )
        self.in_flight += 1
        try:
            await self._rate.acquire("POST")
            async with self._turn:
                # The answer is a Status, never a Binding; all that matters is that it is not a refusal.
                with self._noted_bind(pod):
                    path = f"{pod_path(pod.namespace, pod.name)}/binding"
                    await self._transport.send("POST", path, body, fence=self._fence)
        finally:
            self.in_flight -= 1

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """A live read that skips every cache; None if there is no such pod. Raises RefusedError or UnavailableError."""
        path = pod_path(namespace, name)
        try:
            with self._noted_read():
                answer = await self._transport.get(path)
            pod = self._read_pod(answer)
        except NotFoundError:
            return None
        except MalformedObjectError as error:
            raise UnavailableError(f"GET {path}: the answer cannot be read: {error}", reason="Malformed") from error
        if not pod.uid or (pod.namespace, pod.name) != (namespace, name):
            raise UnavailableError(f"GET {path}: the answer is another object: {answer[:80]!r}", reason="Malformed")
        why = self._conflicts.pop(pod.uid, None)
        if why is not None and not (pod.node_name or pod.terminating or pod.finished):
            # An API server whose etcd takes no more writes calls that a conflict as well.
            self.binds.disproved(why)
        return pod

    @contextmanager
    def _noted_bind(self, pod: Pod) -> Iterator[None]:
        """Note whether the bind inside is carried out."""
        self.binds.asked()
        try:
            yield
        except ApiError as error:
            if isinstance(error, ConflictError | FencedError):
                # A 409 says nothing either way: an API server whose etcd does not answer says so to a bind. A read will show.
                self.binds.undecided()
                if isinstance(error, ConflictError):
                    self._conflicts[pod.uid] = _why(error)
            elif error.may_pass:
                self.binds.failed(_why(error))
            elif isinstance(error, NotFoundError) or error.reason == NAMESPACE_TERMINATING:
                self.binds.answered()
            else:
                if error.reason == FORBIDDEN:
                    self.rights.doubt(pod.namespace)
                self.binds.refused(pod.uid, _why(error))
            raise
        except BaseException:
            self.binds.undecided()
            raise
        self.binds.answered()
        self.rights.proven()
        self._conflicts.clear()

    @contextmanager
    def _noted_read(self) -> Iterator[None]:
        """Note whether the read inside is answered; a refusal is an answer."""
        self.reads.asked()
        try:
            yield
        except ApiError as error:
            if error.may_pass:
                self.reads.failed(_why(error))
            else:
                self.reads.answered()
            raise
        except BaseException:
            self.reads.undecided()
            raise
        self.reads.answered()


def _why(error: ApiError) -> str:
    return f"{error.status or ''} {error.reason}".strip()
