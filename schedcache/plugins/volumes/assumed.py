"""What is to be written for a pod's claims once its node is chosen (AssumePodVolumes and RevertAssumedPodVolumes, 1.37).

It is assumed first, so that the pods that are scheduled meanwhile see it, and written in PreBind.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from schedcache.cache import ClusterObjects
from schedcache.cache.cluster_objects import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from schedcache.model import (
    BOUND_BY_CONTROLLER_ANNOTATION,
    SELECTED_NODE_ANNOTATION,
    ClaimRef,
    PersistentVolume,
    PersistentVolumeClaim,
)
from schedcache.plugins.volumes.matching import is_bound_to
from schedcache.ports import VolumeWriter


class Binding(msgspec.Struct, eq=False):
    """A volume that there is, for a claim: as assumed, and once `written` as the API server has it."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    written: bool


class Provision(msgspec.Struct, eq=False):
    """A claim whose volume is to be made: as assumed, and once `written` as the API server has it."""

    claim: PersistentVolumeClaim
    written: bool


class AssumedVolumes:
    """What one pod on its way to its node needs of volumes and claims.

    What the API server has already, be it from before a restart of ours, counts as written. What has been written stays assumed until
    the watch shows it.
    """

    def __init__(self, objects: ClusterObjects, node_name: str) -> None:
        self._objects = objects
        self.node_name = node_name
        self.bindings: list[Binding] = []
        self.provisions: list[Provision] = []

    def assume(
        self,
        bindings: Iterable[tuple[PersistentVolumeClaim, PersistentVolume]],
        provisions: Iterable[PersistentVolumeClaim],
    ) -> None:
        """Raises CacheError where the objects are not those of this moment; what has been assumed by then is for `revert`."""
        # A claim that the pod names twice needs only one volume.
        served: set[str] = set()
        for claim, volume in bindings:
            if claim.name not in served:
                served.add(claim.name)
                self._assume_binding(claim, volume)
        for claim in provisions:
            if claim.name not in served:
                served.add(claim.name)
                self._assume_provision(claim)

    def _assume_binding(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        reference = ClaimRef(claim.namespace, claim.name, claim.uid)
        stored: PersistentVolume | None = self._objects.in_api(PERSISTENT_VOLUME, "", volume.name)
        written = stored is not None and stored.claim_ref == reference
        if not written:
            annotations = volume.annotations
            if not is_bound_to(volume, claim):
                annotations = {**annotations, BOUND_BY_CONTROLLER_ANNOTATION: "yes"}
            volume = replace(volume, claim_ref=reference, annotations=annotations)
            self._objects.assume(PERSISTENT_VOLUME, volume)
        self.bindings.append(Binding(claim, volume, written))

    def _assume_provision(self, claim: PersistentVolumeClaim) -> None:
        stored: PersistentVolumeClaim | None = self._objects.in_api(
            PERSISTENT_VOLUME_CLAIM, claim.namespace, claim.name
        )
        written = stored is not None and stored.annotations.get(SELECTED_NODE_ANNOTATION) == self.node_name
        if not written:
            claim = replace(claim, annotations={**claim.annotations, SELECTED_NODE_ANNOTATION: self.node_name})
            self._objects.assume(PERSISTENT_VOLUME_CLAIM, claim)
        self.provisions.append(Provision(claim, written))

    async def write(self, writer: VolumeWriter) -> None:
        """One after the other, as kube-scheduler does. Raises ApiError; what was written before stays."""
        for binding in self.bindings:
            if not binding.written:
                binding.volume = await writer.prebind(binding.volume, binding.claim)
                binding.written = True
        for provision in self.provisions:
            if not provision.written:
                provision.claim = await writer.select_node(provision.claim, self.node_name)
                provision.written = True

    def revert(self) -> None:
        """Take back what has not been written; nothing where that was done."""
        for binding in self.bindings:
            if not binding.written:
                self._objects.restore(PERSISTENT_VOLUME, binding.volume)
        for provision in self.provisions:
            if not provision.written:
                self._objects.restore(PERSISTENT_VOLUME_CLAIM, provision.claim)
