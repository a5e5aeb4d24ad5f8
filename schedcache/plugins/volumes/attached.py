"""Which CSI volumes pods make their node attach (the counting of NodeVolumeLimits in kube-scheduler 1.37)."""

from collections.abc import Iterable, Mapping

from schedcache.cache import ClusterObjects
from schedcache.cache.cluster_objects import NODE, PERSISTENT_VOLUME
from schedcache.model import PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, Volume, VolumeAttachment
from schedcache.plugins.volumes.csi_translation import (
    DRIVER_OF_PLUGIN,
    IN_TREE_PLUGINS,
    MIGRATABLE,
    CSIVolume,
    TranslationError,
    translate_inline,
    translate_volume,
)
from schedcache.plugins.volumes.pod_claims import claim_of, not_found_text, ownership_fault

VOLUME_ATTACHMENT = "VolumeAttachment"
Attached = Mapping[str, str]
"""Name of a volume that no other has (driver and handle) -> its driver."""

# No driver can give a volume such a handle, so a volume still to be provisioned differs from all that exist.
_UNPROVISIONED = "\0unprovisioned"


class MissingClaimError(LookupError):
    """A pod that is to be placed names a claim that does not exist."""


class VolumeUseError(ValueError):
    """A volume of a pod cannot be counted; kube-scheduler gives up the attempt then."""


class VolumeUse:
    """Looks up what the volumes of pods are."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    def of_new_pod(self, pod: Pod, *, csi_node: bool) -> dict[str, str]:
        """What the pod would attach. `csi_node`: the node has a CSINode, without which in-tree volumes are not CSI's.

        Raises MissingClaimError and VolumeUseError.
        """
        found: dict[str, str] = {}
        self._add(pod, found, csi_node=csi_node, required=True)
        return found

    def of_pods(self, pods: Iterable[Pod], *, csi_node: bool) -> dict[str, str]:
        """What the pods of a node have attached; claims that are gone do not count. Raises VolumeUseError."""
        found: dict[str, str] = {}
        for pod in pods:
            if pod.volumes:
                self._add(pod, found, csi_node=csi_node, required=False)
        return found

    def of_attachments(self, node_name: str) -> dict[str, str]:
        """What VolumeAttachments say is attached to the node, whoever uses it."""
        found: dict[str, str] = {}
        attachments: Iterable[VolumeAttachment] = self._objects.indexed(VOLUME_ATTACHMENT, NODE, node_name)
        for attachment in attachments:
            if attachment.attacher and attachment.persistent_volume_name is not None:
                volume = self._volume(attachment.persistent_volume_name)
                if volume is not None and volume.source_kind == "csi":
                    driver = attachment.attacher
                    found[CSIVolume(driver, volume.csi_volume_handle).unique_name] = driver
        return found

    def _add(self, pod: Pod, found: dict[str, str], *, csi_node: bool, required: bool) -> None:
        for volume in pod.volumes:
            if volume.source_kind:
                csi = self._inline(volume) if csi_node else None
            else:
                csi = self._claimed(pod, volume, csi_node=csi_node, required=required)
            if csi is not None and csi.driver and csi.handle:
                found[csi.unique_name] = csi.driver

    @staticmethod
    def _inline(volume: Volume) -> CSIVolume | None:
        if volume.source_kind not in IN_TREE_PLUGINS:
            return None
        try:
            return translate_inline(volume)
        except TranslationError as error:
            raise VolumeUseError(f"converting volume({volume.name}) from inline to csi: {error}") from error

    def _claimed(self, pod: Pod, volume: Volume, *, csi_node: bool, required: bool) -> CSIVolume | None:
        if not volume.claim_name:
            raise VolumeUseError("PersistentVolumeClaim had no name")
        claim = claim_of(self._objects, pod, volume)
        if claim is None:
            if not required:
                return None
            name = volume.claim_name
            missing = not_found_text("PersistentVolumeClaim", name)
            raise MissingClaimError(f"looking up PVC {pod.namespace}/{name}: {missing}")
        if volume.ephemeral and (fault := ownership_fault(pod, claim)):
            raise VolumeUseError(fault)
        bound = self._volume(claim.volume_name) if claim.volume_name else None
        if bound is None:
            return self._to_be_provisioned(claim, csi_node=csi_node)
        return self._bound(bound, csi_node=csi_node)

    @staticmethod
    def _bound(volume: PersistentVolume, *, csi_node: bool) -> CSIVolume | None:
        if volume.source_kind == "csi":
            return CSIVolume(volume.csi_driver, volume.csi_volume_handle)
        if not csi_node or volume.source_kind not in IN_TREE_PLUGINS:
            return None
        try:
            return translate_volume(volume)
        except TranslationError:
            # As in kube-scheduler, a bound volume that cannot be read is not counted.
            return None

    def _to_be_provisioned(self, claim: PersistentVolumeClaim, *, csi_node: bool) -> CSIVolume | None:
        """By the claim's storage class; without one the claim must be bound before its pod runs, and counts then."""
        storage_class: StorageClass | None = self._objects.get("StorageClass", "", claim.storage_class_name or "")
        if storage_class is None:
            return None
        driver = storage_class.provisioner
        if driver in MIGRATABLE:
            driver = DRIVER_OF_PLUGIN.get(driver, "") if csi_node else ""
        return CSIVolume(driver, f"{_UNPROVISIONED}/{claim.full_name}")

    def _volume(self, name: str) -> PersistentVolume | None:
        found: PersistentVolume | None = self._objects.get(PERSISTENT_VOLUME, "", name)
        return found
