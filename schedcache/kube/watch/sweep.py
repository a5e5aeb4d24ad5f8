"""Compares what is held of a kind with what the API server has, by UID and resourceVersion alone."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import SourceSettings
from schedcache.kube.watch.decoder import Identity, decode_metadata_page
from schedcache.kube.watch.store import ObjectStore
from schedcache.model import compare_resource_versions

METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class Findings(NamedTuple):
    """What a comparison found.

    Attributes:
        gone: UIDs that were held before the list was requested and are not in it: deleted for good, since a UID is never
            used again and the list is a quorum read.
        behind: UID -> the resourceVersion held ("" for none) of objects that the server has in another one, which may
            still be on its way to us.
        listed: how many objects the server has.
        resource_version: of the list.
        rolled_back: the server has an older state than what was held before the list was requested: of the kind, or of an object.
        names: UID -> the name, with its namespace, of each that is behind.
        versions: UID -> the resourceVersion that the server has of each.
        bytes: read from the server.
    """

    gone: list[str]
    behind: dict[str, str]
    listed: int
    resource_version: str
    rolled_back: bool
    names: Mapping[str, str]
    versions: Mapping[str, str]
    bytes: int


def is_behind(version: str, known: str) -> bool:
    """Whether a resourceVersion that the server answers with is from before one that it answered with earlier.

    That cannot be, as lists are quorum reads, unless its state was replaced by an older one.
    """
    return bool(version and known) and compare_resource_versions(version, known) == -1


async def compare(transport: Transport, store: ObjectStore, settings: SourceSettings, known: str) -> Findings:
    """List the kind's metadata and compare; `known` is the latest resourceVersion that was seen of the kind.

    Raises RefusedError, UnavailableError or BrokenStreamError.
    """
    held_before = {obj.uid: obj.resource_version for obj in store.objects()}
    listed, resource_version, size = await _list_metadata(transport, store, settings)
    behind = {}
    for uid, (_, _, _, version) in listed.items():
        held = store.get(uid)
        if held is None or held.resource_version != version:
            behind[uid] = held.resource_version if held is not None else ""
    # A server that has caught up with the versions known still shows that it was set back by objects that were changed meanwhile.
    rolled_back = is_behind(resource_version, known) or any(
        is_behind(listed[uid].resource_version, held_before.get(uid, "")) for uid in behind
    )
    for uid in [uid for uid in behind if store.unreadable_version(uid) == listed[uid].resource_version]:
        # Received, but not readable: reading it again would not change that.
        del behind[uid]
    store.stats.sweeps += 1
    gone = [uid for uid in held_before if uid not in listed and uid in store]
    found = {uid: listed[uid] for uid in behind}
    names = {uid: "/".join(filter(None, (one.namespace, one.name))) for uid, one in found.items()}
    versions = {uid: one.resource_version for uid, one in found.items()}
    return Findings(gone, behind, len(listed), resource_version, rolled_back, names, versions, size)


async def lasting_differences(
    transport: Transport,
    store: ObjectStore,
    settings: SourceSettings,
    known: str,
    pause: Callable[[str], Awaitable[object]],
) -> Findings:
    """Compare, and if anything differs, compare again after a pause: a difference that stays is not just an event on its way.

    `pause` is given the version of the first list, and lasts until the watch has come that far, or brings nothing.

    Raises RefusedError, UnavailableError or BrokenStreamError.
    """
    first = await compare(transport, store, settings, known)
    if first.rolled_back or not (first.gone or first.behind):
        return first
    await pause(first.resource_version)
    again = await compare(transport, store, settings, known)
    behind = {uid: version for uid, version in first.behind.items() if again.behind.get(uid) == version}
    gone = [uid for uid in first.gone if uid in store]
    return again._replace(gone=gone, behind=behind, bytes=first.bytes + again.bytes)


async def _list_metadata(
    transport: Transport, store: ObjectStore, settings: SourceSettings
) -> tuple[dict[str, Identity], str, int]:
    """(identities by UID, resourceVersion, bytes read)."""
    kind = store.kind
    params = {"limit": str(settings.metadata_page_limit)}
    if kind.field_selector:
        params["fieldSelector"] = kind.field_selector
    listed: dict[str, Identity] = {}
    size = 0
    while True:
        timeout = settings.page_timeout_seconds
        body = await transport.get(kind.path, params, accept=METADATA_LIST, timeout=timeout)
        identities, resource_version, more = decode_metadata_page(body)
        size += len(body)
        listed.update((identity.uid, identity) for identity in identities)
        if not more:
            return listed, resource_version, size
        params["continue"] = more
