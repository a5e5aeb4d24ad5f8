"""What reached the API server: its audit log, parsed, with queries.

The API server writes the log itself, so it proves what a scheduler really did: that each pod was bound exactly once, that
no request was refused, that an observer wrote nothing.
"""

import asyncio
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from schedcache.testing.api_client import ApiClient

POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # A binding's body names the node and the pod's UID.
        {"level": "Request", "resources": [{"group": "", "resources": ["pods/binding"]}]},
        # That of a Lease names its holder.
        {"level": "Request", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "Metadata"},
    ],
}
"""Metadata of every request, and the bodies of bindings and Leases."""

READ_VERBS = frozenset({"get", "list", "watch"})
REVIEW_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})


class AuditEvent(msgspec.Struct, frozen=True):
    """One answered request.

    Attributes:
        user: name of the client, such as ``system:serviceaccount:kube-system:schedcache``.
        verb: the API's verb: get, list, watch, create, update, patch, delete, deletecollection.
        status: HTTP status code, 0 if the API server gave none (a connection that broke before the answer).
        stage: ResponseComplete; ResponseStarted for the beginning of a watch; Panic.
        group: API group of the resource, "" for the core group.
        resource: plural name, "" for paths that are not a resource (``/readyz``).
        uri: path and query.
        user_agent: as the client sent it.
        received: when the request arrived, RFC 3339 with microseconds.
        completed: when the API server was done with it, likewise.
        body: the request's body for bindings and Leases, else ``None``.
    """

    user: str
    verb: str
    status: int
    stage: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uri: str
    user_agent: str
    received: str
    completed: str
    body: dict[str, Any] | None = None

    @property
    def writes(self) -> bool:
        """Whether the request could change the cluster. Reviews (may I ...?) are created but never stored."""
        if self.group in REVIEW_GROUPS:
            return False
        return self.verb not in READ_VERBS and self.resource != ""


class _User(msgspec.Struct):
    username: str = ""


class _ObjectReference(msgspec.Struct, rename="camel"):
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _Record(msgspec.Struct, rename="camel"):
    """A line of the log; audit.k8s.io/v1 Event."""

    verb: str
    stage: str
    user: _User
    request_received_timestamp: str
    stage_timestamp: str
    request_uri: str = msgspec.field(name="requestURI")
    user_agent: str = ""
    object_ref: _ObjectReference = msgspec.field(default_factory=_ObjectReference)
    response_status: _Status = msgspec.field(default_factory=_Status)
    request_object: dict[str, Any] | None = None

    def event(self) -> AuditEvent:
        about = self.object_ref
        return AuditEvent(
            user=self.user.username,
            verb=self.verb,
            status=self.response_status.code,
            stage=self.stage,
            group=about.api_group,
            resource=about.resource,
            subresource=about.subresource,
            namespace=about.namespace,
            name=about.name,
            uri=self.request_uri,
            user_agent=self.user_agent,
            received=self.request_received_timestamp,
            completed=self.stage_timestamp,
            body=self.request_object,
        )


_decode = msgspec.json.Decoder(_Record).decode


def parse_audit_log(data: bytes) -> list[AuditEvent]:
    """Parse the complete lines of an audit log; an unfinished last line is ignored.

    Raises:
        msgspec.ValidationError: a line is not an audit event; the message names the field.
    """
    whole = data[: data.rfind(b"\n") + 1]
    return [_decode(line).event() for line in whole.splitlines()]


class AuditLog:
    """The requests that reached an API server since some moment.

    Args:
        path: the log file.
        start: byte in the file at which to begin.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path = path
        self._start = start

    def from_now(self) -> "AuditLog":
        """A log that begins at the current end of this one."""
        return AuditLog(self.path, self.path.stat().st_size if self.path.exists() else 0)

    def events(self, **fields: str | int) -> list[AuditEvent]:
        """Events in the order written, only those whose attributes equal ``fields``.

        A watch appears twice: when it starts (``stage="ResponseStarted"``) and when it ends.
        """
        unknown = fields.keys() - set(AuditEvent.__struct_fields__)
        if unknown:
            raise TypeError(f"an audit event has no {', '.join(sorted(unknown))}")
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self._start)
            events = parse_audit_log(file.read())
        return [event for event in events if all(getattr(event, key) == value for key, value in fields.items())]

    async def settled(self, client: "ApiClient") -> None:
        """Wait until everything that was answered before this call is in the log.

        The API server writes a request's line after its response, so this sends a request and waits for its line.
        """
        marker = f"/version?audit={uuid.uuid4()}"
        await client.request("GET", marker)
        async with asyncio.timeout(10):
            while not self.events(uri=marker):  # noqa: ASYNC110 - the API server writes the file
                await asyncio.sleep(0.01)

    def bindings(self) -> dict[tuple[str, str, str], list[str]]:
        """(namespace, name, UID) of each pod -> the nodes it was bound to by requests that succeeded.

        A correct scheduler has one node for each. The UID is "" if the binding had none.
        """
        found: dict[tuple[str, str, str], list[str]] = {}
        for event in self.events(resource="pods", subresource="binding", status=201):
            body = event.body or {}
            key = (event.namespace, event.name, body.get("metadata", {}).get("uid") or "")
            found.setdefault(key, []).append(body.get("target", {}).get("name", ""))
        return found

    def refused(self, user: str | None = None) -> list[AuditEvent]:
        """Requests answered 401 or 403."""
        return [event for event in _of_user(self.events(), user) if event.status in (401, 403)]

    def writes(self, user: str | None = None) -> list[AuditEvent]:
        """Requests that could change the cluster, refused ones included."""
        return [event for event in _of_user(self.events(), user) if event.writes]


def _of_user(events: Iterable[AuditEvent], user: str | None) -> Iterable[AuditEvent]:
    return (event for event in events if user is None or event.user == user)
