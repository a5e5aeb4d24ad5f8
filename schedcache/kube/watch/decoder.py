"""Turns the bytes of a list or a watch into objects: page by page, line by line, each object separately."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from schedcache.kube.watch.kinds import HeldObject, Kind
from schedcache.model import MalformedObjectError
from schedcache.model.decode import DECODE_ERRORS

Source = msgspec.Raw | bytes | Mapping[str, Any]
"""An object as JSON, or as Python values."""


class Identity(NamedTuple):
    """Which object it is; empty strings for what cannot be read."""

    uid: str
    namespace: str
    name: str
    resource_version: str


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    uid: str | None = None
    namespace: str | None = None
    name: str | None = None
    resource_version: str | None = None


class _Identified(msgspec.Struct, gc=False):
    metadata: _Metadata | None = None


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Partial(msgspec.Struct):
    metadata: _ListMetadata
    items: list[_Identified] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: msgspec.Raw = msgspec.Raw()


class _Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: float | None = None


class Page(NamedTuple):
    """One answer to a list request.

    Attributes:
        items: the objects, not decoded.
        resource_version: of the whole list, not of any item.
        next: token for the next page, "" on the last one.
    """

    items: list[msgspec.Raw]
    resource_version: str
    next: str


class StatusError(Exception):
    """An ERROR event: the watch is over. `code` is an HTTP status, `retry_after` seconds or None."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None) -> None:
        self.code = code
        self.reason = reason
        self.retry_after = retry_after
        super().__init__(f"{code} {reason}: {message}")


class BrokenStreamError(Exception):
    """A line or a page that is not a valid answer, such as one cut short."""


_decode_list = msgspec.json.Decoder(_List).decode
_decode_partial = msgspec.json.Decoder(_Partial).decode
_decode_event = msgspec.json.Decoder(_Event).decode
_decode_identified = msgspec.json.Decoder(_Identified).decode
_decode_status = msgspec.json.Decoder(_Status).decode
_decode_details = msgspec.json.Decoder(_Details).decode


def decode_page(body: bytes) -> Page:
    """Split a list's page into its items. Raises BrokenStreamError."""
    try:
        found = _decode_list(body)
    except DECODE_ERRORS as error:
        raise BrokenStreamError(f"not a list: {error}: {body[:80]!r}") from None
    if not found.metadata.resource_version:
        raise BrokenStreamError("the list has no resourceVersion")
    return Page(found.items or [], found.metadata.resource_version, found.metadata.continue_ or "")


def decode_metadata_page(body: bytes) -> tuple[list[Identity], str, str]:
    """(identities, resourceVersion, token for the next page) of a list of metadata. Raises BrokenStreamError."""
    try:
        found = _decode_partial(body)
    except DECODE_ERRORS as error:
        raise BrokenStreamError(f"not a list of metadata: {error}: {body[:80]!r}") from None
    return (
        [_identity(item) for item in found.items or ()],
        found.metadata.resource_version,
        found.metadata.continue_ or "",
    )


def decode_event(line: bytes) -> tuple[str, msgspec.Raw]:
    """(type, object) of a watch event. Raises BrokenStreamError, and StatusError for an ERROR event."""
    try:
        event = _decode_event(line)
    except DECODE_ERRORS as error:
        raise BrokenStreamError(f"not a watch event: {error}: {line[:80]!r}") from None
    if event.type == "ERROR":
        raise _status_error(event.object)
    return event.type, event.object


def identify(found: Source) -> Identity:
    """Just enough of an object to say which one it is; empty strings if even that cannot be read."""
    try:
        if isinstance(found, Mapping):
            return _identity(msgspec.convert(found, _Identified))
        return _identity(_decode_identified(found))
    except DECODE_ERRORS:
        return Identity("", "", "", "")


def decode_object(kind: Kind, found: Source) -> HeldObject:
    """One object. Raises MalformedObjectError, also if it lacks the identity that every stored object has."""
    try:
        obj = kind.from_dict(found) if isinstance(found, Mapping) else kind.from_json(found)
    except MalformedObjectError:
        raise
    except Exception as error:
        # An unforeseen object must not stop the others, nor end the watch again and again.
        raise MalformedObjectError(kind.name, identify(found).name, "", f"reading it failed: {error!r}") from error
    if not obj.uid:
        raise MalformedObjectError(kind.name, obj.name, "metadata.uid", "expected a UID, found none")
    return obj


def _identity(found: _Identified) -> Identity:
    meta = found.metadata or _Metadata()
    return Identity(meta.uid or "", meta.namespace or "", meta.name or "", meta.resource_version or "")


def _status_error(raw: msgspec.Raw) -> StatusError:
    try:
        status = _decode_status(raw)
    except DECODE_ERRORS:
        return StatusError(0, "Unreadable", bytes(raw)[:200].decode(errors="replace"), None)
    return StatusError(status.code or 0, status.reason or "", status.message or "", _retry_after(status.details))


def _retry_after(details: msgspec.Raw) -> float | None:
    try:
        return _decode_details(details).retry_after_seconds
    except DECODE_ERRORS:
        return None


class LineSplitter:
    """Cuts a stream of bytes into lines of any length; each byte is copied at most twice."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their line breaks; empty ones are left out."""
        first, *lines = chunk.split(b"\n")
        if not lines:
            self._rest.append(first)
            return []
        last = lines.pop()
        self._rest.append(first)
        whole = [b"".join(self._rest), *lines]
        self._rest = [last] if last else []
        return [line for line in whole if line]
