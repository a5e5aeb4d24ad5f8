"""The cache's nodes: one entry per name, the most recently changed first, and indexes by zone and by image."""

from collections import OrderedDict

from schedcache.cache.errors import NoNodeNameError, PodNotOnNodeError
from schedcache.cache.image_states import ImageStates, summaries
from schedcache.cache.node_info import NodeInfo, next_generation
from schedcache.cache.node_tree import NodeTree
from schedcache.cache.snapshot import Snapshot, SnapshotChanges
from schedcache.model import Node, Pod


class NodeEntries:
    """Entries change in place until somebody reads them, and are copied on the next change after that.

    Every change moves its entry to the head of `nodes` with a new generation, so that generations fall along the list. A call
    that raises has changed nothing. Belongs to one cache, which does the locking.
    """

    def __init__(self) -> None:
        self.nodes: OrderedDict[str, NodeInfo] = OrderedDict()
        """A doubly linked list by name."""
        self.tree = NodeTree()
        self.images = ImageStates()
        self._epoch = object()
        self._gone_at = next_generation()

    @property
    def generation(self) -> int:
        """Rises with every change, disappearances of entries included."""
        return max(self._newest(), self._gone_at)

    def holder(self, pod: Pod) -> NodeInfo:
        """The entry that counts a cached pod. Raises PodNotOnNodeError."""
        info = self.nodes.get(pod.node_name)
        if info is None or pod.uid not in info.pods_by_uid:
            why = "has no entry" if info is None else "does not count it"
            raise PodNotOnNodeError(f"pod {pod.uid} ({pod.full_name}) is cached on node {pod.node_name!r}, which {why}")
        return info

    def place(self, pod: Pod) -> NodeInfo:
        """Count a pod on its node. Raises NoNodeNameError."""
        _require_node_name(pod)
        info = self._entry(pod.node_name)
        info.add_pod(pod)
        return self._changed(info)

    def unplace(self, pod: Pod) -> NodeInfo:
        """Count a cached pod no more. Raises PodNotOnNodeError."""
        info = self._thawed(self.holder(pod))
        info.remove_pod(pod)
        return self._changed(info)

    def replace(self, old: Pod, new: Pod) -> NodeInfo:
        """Count `new` in the place of the cached `old`, wherever it is. Raises NoNodeNameError, PodNotOnNodeError."""
        info = self.holder(old)
        if old.node_name != new.node_name or (info.node is None and len(info.pods_by_uid) == 1):
            # A ghost's entry ends with its last pod, even when that comes back at once, as in kube-scheduler.
            _require_node_name(new)
            self.unplace(old)
            return self.place(new)
        info = self._thawed(info)
        info.replace_pod(old, new)
        return self._changed(info)

    def set_node(self, node: Node) -> NodeInfo:
        """Take over a node object, known or not. Raises NoNodeNameError."""
        if not node.name:
            raise NoNodeNameError("the node has no name")
        info = self._entry(node.name)
        refs = self.images.replace_node(info.node, node, info.image_refs)
        info.set_node(node, refs)
        self.tree.set(node.name, node.zone_key)
        return self._changed(info)

    def remove_node(self, info: NodeInfo) -> NodeInfo:
        """Give up the node object of an entry, if it has one; pods stay. Either way it is the most recently changed one."""
        info = self._thawed(info)
        known = info.node
        if known is None:
            info.touch()
        else:
            info.set_node(None, ())
            self.tree.remove(info.name)
            self.images.replace_node(known, None, info.image_refs)
        return self._changed(info)

    def frozen(self) -> dict[str, NodeInfo]:
        """All entries, as others may see them."""
        return {info.name: self._frozen(info) for info in list(self.nodes.values())}

    def changes(self, snapshot: Snapshot) -> SnapshotChanges:
        """What a snapshot lacks. Takes time in proportion to that, and to all nodes only if one came or went."""
        following = snapshot.epoch is self._epoch
        since = snapshot.generation if following else -1
        held = snapshot.node_info_map
        changed: list[NodeInfo] = []
        new_nodes = 0
        for info in self.nodes.values():
            if info.generation <= since:
                break
            if info.node is not None:
                changed.append(info)
                new_nodes += info.name not in held
        gone: list[str] = []
        if following and len(held) + new_nodes > len(self.tree):
            gone = [name for name in held if name not in self.tree]
        return SnapshotChanges(
            anew=not following,
            infos=[self._frozen(info) for info in reversed(changed)],
            removed=gone,
            order=self.tree.list() if new_nodes or gone or not following else None,
            num_nodes=len(self.tree),
            generation=max(self._newest(), snapshot.generation),
            epoch=self._epoch,
        )

    def refile(self) -> None:
        """Rebuild the node tree from the nodes."""
        self.tree = NodeTree()
        for info in reversed(self.nodes.values()):
            if info.node is not None:
                self.tree.set(info.name, info.node.zone_key)

    def _newest(self) -> int:
        return next(iter(self.nodes.values())).generation if self.nodes else 0

    def _entry(self, name: str) -> NodeInfo:
        info = self.nodes.get(name)
        if info is None:
            info = self.nodes[name] = NodeInfo(name)
        return self._thawed(info)

    def _thawed(self, info: NodeInfo) -> NodeInfo:
        """The entry to change in place: a copy if others look at the present one."""
        if info.frozen:
            info = self.nodes[info.name] = info.copy()
        return info

    def _changed(self, info: NodeInfo) -> NodeInfo:
        """To the head of the list; an entry without node and pods goes."""
        if info.node is None and not info.pods_by_uid:
            del self.nodes[info.name]
            self._gone_at = next_generation()
        else:
            self.nodes.move_to_end(info.name, last=False)
        return info

    def _frozen(self, info: NodeInfo) -> NodeInfo:
        """The entry as others may see it: never changed again, its image counts those of now."""
        version = self.images.version
        # A ghost's records may have been given up, which is no change for those who are known.
        ghost = info.node is None and bool(info.image_refs)
        if info.images_version != version or ghost:
            if ghost or info.images_version < 0 or any(s.version > info.images_version for s in info.image_refs):
                shown = summaries(info.image_refs)
                if info.frozen and shown != info.image_states:
                    info = self.nodes[info.name] = info.copy()
                info.image_states = shown
            info.images_version = version
        info.frozen = True
        return info


def _require_node_name(pod: Pod) -> None:
    if not pod.node_name:
        raise NoNodeNameError(f"pod {pod.uid} ({pod.full_name}) has no node name")
