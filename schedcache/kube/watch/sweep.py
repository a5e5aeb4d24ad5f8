"""Compares what is held of a kind with what the API server has, by UID and resourceVersion alone."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import SourceSettings
from schedcache.kube.watch.decoder import decode_metadata_page
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
    """

    gone: list[str]
    behind: dict[str, str]
    listed: int
    resource_version: str
    rolled_back: bool


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
    listed, resource_version = await _list_metadata(transport, store, settings)
    behind = {}
    for uid, version in listed.items():
        held = store.get(uid)
        if held is None or held.resource_version != version:
            behind[uid] = held.resource_version if held is not None else ""
    # A server that has caught up with the versions known still shows that it was set back by objects that were changed meanwhile.
    rolled_back = is_behind(resource_version, known) or any(
        is_behind(listed[uid], held_before.get(uid, "")) for uid in behind
    )
    for uid in [uid for uid in behind if store.unreadable_version(uid) == listed[uid]]:
        # Received, but not readable: reading it again would not change that.
        del behind[uid]
    store.stats.sweeps += 1
    gone = [uid for uid in held_before if uid not in listed]
    return Findings(gone, behind, len(listed), resource_version, rolled_back)


async def lasting_differences(
    transport: Transport,
    store: ObjectStore,
    settings: SourceSettings,
    known: str,
    pause: Callable[[], Awaitable[object]],
) -> Findings:
    """Compare, and if anything differs, compare again after a pause: a difference that stays is not just an event on its way.

    Raises RefusedError, UnavailableError or BrokenStreamError.
    """
    first = await compare(transport, store, settings, known)
    if first.rolled_back or not (first.gone or first.behind):
        return first
    await pause()
    again = await compare(transport, store, settings, known)
    behind = {uid: version for uid, version in first.behind.items() if again.behind.get(uid) == version}
    gone = [uid for uid in first.gone if uid in store]
    return Findings(gone, behind, again.listed, again.resource_version, again.rolled_back)


async def _list_metadata(
    transport: Transport, store: ObjectStore, settings: SourceSettings
) -> tuple[dict[str, str], str]:
    kind = store.kind
    params = {"limit": str(settings.metadata_page_limit)}
    if kind.field_selector:
        params["fieldSelector"] = kind.field_selector
    listed: dict[str, str] = {}
    while True:
        timeout = settings.page_timeout_seconds
        body = await transport.get(kind.path, params, accept=METADATA_LIST, timeout=timeout)
        identities, resource_version, more = decode_metadata_page(body)
        listed.update((identity.uid, identity.resource_version) for identity in identities)
        if not more:
            return listed, resource_version
        params["continue"] = more
