"""The volume that a claim gets: reserved for it, or the smallest free one that suits it.

The rule is FindMatchingVolume of k8s.io/component-helpers/storage/volume 0.37, asked about all nodes at once.
"""

from collections.abc import Sequence

import numpy as np

from schedcache.framework import RowView
from schedcache.model import PersistentVolume, PersistentVolumeClaim
from schedcache.plugins.volumes.places import Place, Ranks, first_reaching, place_of_terms, reaches

_AVAILABLE = "Available"


class VolumeMatching:
    """Chooses among volumes, which are named by their index in the list given."""

    def __init__(self, volumes: Sequence[PersistentVolume]) -> None:
        self._volumes = volumes
        self._places: dict[int, Place] = {}

    def best(self, claim: PersistentVolumeClaim, taken: Sequence[Ranks], view: RowView) -> Ranks:
        """The index of the claim's volume on each row, -1 where there is none. Raises ValueError for an unsound selector.

        `taken`: for each claim served before, which volume it gets on which row.
        """
        if claim.selector is not None and (problem := claim.selector.problem()):
            raise ValueError(f"error creating internal label selector for claim: {claim.full_name}: {problem}")
        candidates = [i for i, volume in enumerate(self._volumes) if _could_hold(volume, claim)]
        reserved = [i for i in candidates if is_bound_to(self._volumes[i], claim)]
        free = [i for i in candidates if self._volumes[i].claim_ref is None and _suits(self._volumes[i], claim)]
        best = self._smallest(free, taken, view)
        # A volume reserved for the claim is the only one for it, whether or not the node reaches it; the first in order of
        # names is the one that counts.
        for i in sorted(reserved, key=lambda i: self._volumes[i].name, reverse=True):
            gone = np.zeros(len(view), np.bool_)
            for other in taken:
                gone |= other == i
            there = reaches(self._place(i), view)
            best = np.where(gone, best, np.where(there, i, -1)).astype(np.int32)
        return best

    def _smallest(self, free: Sequence[int], taken: Sequence[Ranks], view: RowView) -> Ranks:
        volumes = self._volumes
        # Names decide between equal sizes, so that the answer does not depend on the order of lists.
        ranked = sorted(free, key=lambda i: (volumes[i].capacity, volumes[i].name))
        # The entries after the last stand for -1: no volume, no rank.
        rank_of = np.full(len(volumes) + 1, -1, np.int32)
        rank_of[ranked] = np.arange(len(ranked), dtype=np.int32)
        places = [self._place(i) for i in ranked]
        found = first_reaching(places, view, [rank_of[other] for other in taken])
        return np.array([*ranked, -1], np.int32)[found]

    def _place(self, i: int) -> Place:
        """From where the volume can be reached; several claims of a pod ask about the same volumes."""
        if i not in self._places:
            self._places[i] = place_of_terms(self._volumes[i].node_affinity)
        return self._places[i]


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether the volume is bound to the claim or reserved for it, by name alone if it has no UID."""
    ref = volume.claim_ref
    if ref is None or (ref.namespace, ref.name) != (claim.namespace, claim.name):
        return False
    return ref.uid in ("", claim.uid)


def _could_hold(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """What must hold of a reserved volume, too."""
    return (
        volume.storage_class_name == (claim.storage_class_name or "")
        and volume.capacity >= claim.requested
        and (volume.claim_ref is None or is_bound_to(volume, claim))
        and volume.volume_mode == claim.volume_mode
        and (volume.volume_attributes_class_name or "") == (claim.volume_attributes_class_name or "")
        and not volume.deletion_timestamp
    )


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """What must hold of a free volume beside that."""
    return (
        volume.phase == _AVAILABLE
        and set(claim.access_modes).issubset(volume.access_modes)
        and (claim.selector is None or claim.selector.matches(volume.labels))
    )
