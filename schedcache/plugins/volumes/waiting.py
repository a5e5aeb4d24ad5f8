"""Waiting until a pod's claims are bound (kube-scheduler's BindPodVolumes, 1.37): by the volume controller, once provisioners are done.

kube-scheduler looks each second. Here a change to one of the pod's claims or volumes makes it look at once; the second is left for
what is no such change: the node's labels, or that it is gone.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from schedcache.cache import ClusterObjects
from schedcache.cache.cluster_objects import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from schedcache.framework import Handle
from schedcache.model import (
    SELECTED_NODE_ANNOTATION,
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    compare_resource_versions,
)
from schedcache.plugins.volumes.assumed import AssumedVolumes, Binding
from schedcache.plugins.volumes.csi_nodes import CSI_NODE, migrated_plugins
from schedcache.plugins.volumes.csi_translation import IN_TREE_PLUGINS, TranslationError, translate_volume
from schedcache.plugins.volumes.places import includes, place_of_terms

LOOK_SECONDS = 1.0
# Few enough that others have their turn within some milliseconds.
_LOOKS_A_TURN = 200

_Key = tuple[str, str, str]


class VolumeBindingError(Exception):
    """The claims will not be bound as decided: the pod has to be scheduled again."""


class VolumeWaiting:
    """Looks at the objects as the API has them, not as assumed: others may have assumed something else by now."""

    def __init__(self, handle: Handle, timeout: float) -> None:
        """`timeout`: seconds that the binding of one pod's claims may take, from when it has been asked for."""
        self._objects = handle.cluster_objects
        self._node_lister = handle.node_lister
        self._clock = handle.clock
        self._timeout = timeout
        self._changes = _Changes(handle.cluster_objects, handle.sleep)

    async def until_bound(self, volumes: AssumedVolumes) -> None:
        """Raises VolumeBindingError when it will not happen, or has not in time, to within a second."""
        deadline = self._clock() + self._timeout
        with self._changes.of(_keys(volumes)) as changed:
            while not self.are_bound(volumes):
                if self._clock() >= deadline:
                    raise VolumeBindingError("context deadline exceeded")
                await changed.wait()
                changed.clear()

    def are_bound(self, volumes: AssumedVolumes) -> bool:
        """Raises VolumeBindingError when they will never be, not so that the node reaches the volumes."""
        node = self._node_lister(volumes.node_name)
        if node is None:
            raise VolumeBindingError(f'failed to get node "{volumes.node_name}": node "{volumes.node_name}" not found')
        return all(self._is_bound(binding, node) for binding in volumes.bindings) and all(
            self._is_provisioned(provision.claim, node) for provision in volumes.provisions
        )

    def _is_bound(self, binding: Binding, node: Node) -> bool:
        decided = binding.volume
        volume: PersistentVolume | None = self._objects.in_api(PERSISTENT_VOLUME, "", decided.name)
        if volume is None or volume.uid != decided.uid:
            raise VolumeBindingError(f'failed to check binding: persistentvolumes "{decided.name}" not found')
        claim = self._same_claim(binding.claim, "failed to check binding")
        if _is_older(volume, decided):
            return False
        self._check_reach(volume, node)
        if volume.claim_ref is None or not volume.claim_ref.uid:
            raise VolumeBindingError(f'ClaimRef got reset for pv "{volume.name}"')
        if volume.claim_ref != decided.claim_ref:
            raise VolumeBindingError(f'pv "{volume.name}" was given to another claim')
        if claim.volume_name not in ("", volume.name):
            raise VolumeBindingError(
                f'PVC "{claim.name}" was bound to pv "{claim.volume_name}" and not to "{volume.name}"'
            )
        return claim.fully_bound

    def _is_provisioned(self, decided: PersistentVolumeClaim, node: Node) -> bool:
        claim = self._same_claim(decided, "failed to check provisioning pvc")
        if _is_older(claim, decided):
            return False
        if claim.annotations.get(SELECTED_NODE_ANNOTATION) != node.name:
            # How a provisioner tells that it cannot make the volume for this node.
            raise VolumeBindingError(f'provisioning failed for PVC "{claim.name}"')
        if claim.volume_name:
            volume: PersistentVolume | None = self._objects.in_api(PERSISTENT_VOLUME, "", claim.volume_name)
            if volume is None:
                # Its event may be late. If it is really gone, the controller marks the claim as lost.
                return False
            self._check_reach(volume, node)
        return claim.fully_bound

    def _same_claim(self, decided: PersistentVolumeClaim, doing: str) -> PersistentVolumeClaim:
        claim: PersistentVolumeClaim | None = self._objects.in_api(
            PERSISTENT_VOLUME_CLAIM, decided.namespace, decided.name
        )
        if claim is None or claim.uid != decided.uid:
            raise VolumeBindingError(f'{doing}: persistentvolumeclaims "{decided.full_name}" not found')
        return claim

    def _check_reach(self, volume: PersistentVolume, node: Node) -> None:
        """The node's labels, or the volume's affinity, may be others than at the decision."""
        affinity = volume.node_affinity
        plugin = IN_TREE_PLUGINS.get(volume.source_kind)
        if plugin is not None:
            csi_node: CSINode | None = self._objects.get(CSI_NODE, "", node.name)
            if csi_node is not None and plugin in migrated_plugins(csi_node):
                try:
                    affinity = translate_volume(volume).node_affinity
                except TranslationError as error:
                    raise VolumeBindingError(f"failed to translate pv to csi: {error}") from error
        if not includes(place_of_terms(affinity), node.labels):
            raise VolumeBindingError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{node.name}": no matching NodeSelectorTerms'
            )


def _is_older(
    held: PersistentVolume | PersistentVolumeClaim, written: PersistentVolume | PersistentVolumeClaim
) -> bool:
    """Whether the watch has yet to show what was written."""
    return compare_resource_versions(held.resource_version, written.resource_version) == -1


class _Changes:
    """Wakes those who wait for a change of certain objects, and all of them each second.

    One timer does for all: thousands may wait, and for minutes.
    """

    def __init__(self, objects: ClusterObjects, sleep: Callable[[float], Awaitable[object]]) -> None:
        self._sleep = sleep
        self._waiting: defaultdict[_Key, set[asyncio.Event]] = defaultdict(set)
        self._all: set[asyncio.Event] = set()
        self._ticking: asyncio.Task[None] | None = None
        for kind in (PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM):
            objects.listen(kind, partial(self._changed, kind))

    def _changed(self, kind: str, namespace: str, name: str) -> None:
        for event in self._waiting.get((kind, namespace, name), ()):
            event.set()

    @contextmanager
    def of(self, keys: Iterable[_Key]) -> Iterator[asyncio.Event]:
        """An event that each change of one of these objects sets, and each second."""
        event, keys = asyncio.Event(), list(keys)
        for key in keys:
            self._waiting[key].add(event)
        self._all.add(event)
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick())
        try:
            yield event
        finally:
            for key in keys:
                self._waiting[key].discard(event)
                if not self._waiting[key]:
                    del self._waiting[key]
            self._all.discard(event)
            if not self._all and self._ticking is not None:
                self._ticking.cancel()
                self._ticking = None

    async def _tick(self) -> None:
        while True:
            await self._sleep(LOOK_SECONDS)
            for number, event in enumerate(list(self._all)):
                if number % _LOOKS_A_TURN == 0:
                    await asyncio.sleep(0)
                event.set()


def _keys(volumes: AssumedVolumes) -> Iterator[_Key]:
    for binding in volumes.bindings:
        yield PERSISTENT_VOLUME, "", binding.volume.name
        yield PERSISTENT_VOLUME_CLAIM, binding.claim.namespace, binding.claim.name
    for provision in volumes.provisions:
        yield PERSISTENT_VOLUME_CLAIM, provision.claim.namespace, provision.claim.name
