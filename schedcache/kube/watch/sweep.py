"""Compares what is held of a kind with what the API server has, by UID and resourceVersion alone."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from schedcache.kube.http.transport import Transport
from schedcache.kube.settings import SourceSettings
from schedcache.kube.watch.decoder import decode_metadata_page
from schedcache.kube.watch.store import ObjectStore

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
    """

    gone: list[str]
    behind: dict[str, str]
    listed: int
    resource_version: str


async def compare(transport: Transport, store: ObjectStore, settings: SourceSettings) -> Findings:
    """List the kind's metadata and compare. Raises RefusedError, UnavailableError or BrokenStreamError."""
    held_before = list(store.uids())
    listed, resource_version = await _list_metadata(transport, store, settings)
    behind = {}
    for uid, version in listed.items():
        held = store.get(uid)
        if held is None or held.resource_version != version:
            behind[uid] = held.resource_version if held is not None else ""
    for uid in [uid for uid in behind if store.unreadable_version(uid) == listed[uid]]:
        # Received, but not readable: reading it again would not change that.
        del behind[uid]
    store.stats.sweeps += 1
    return Findings([uid for uid in held_before if uid not in listed], behind, len(listed), resource_version)


async def lasting_differences(
    transport: Transport, store: ObjectStore, settings: SourceSettings, pause: Callable[[], Awaitable[object]]
) -> Findings:
    """Compare, and if anything differs, compare again after a pause: a difference that stays is not just an event on its way.

    Raises RefusedError, UnavailableError or BrokenStreamError.
    """
    first = await compare(transport, store, settings)
    if not first.gone and not first.behind:
        return first
    await pause()
    again = await compare(transport, store, settings)
    behind = {uid: version for uid, version in first.behind.items() if again.behind.get(uid) == version}
    return Findings([uid for uid in first.gone if uid in store], behind, again.listed, again.resource_version)


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
