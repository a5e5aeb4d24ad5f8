"""Which container images lie on how many nodes: one record per image name for the whole cache."""

from collections.abc import Mapping

import msgspec

from schedcache.model import Node


class ImageStateSummary(msgspec.Struct, frozen=True, gc=False):
    """`size` in bytes, as the first node reported it; `num_nodes` nodes have the image."""

    size: int
    num_nodes: int


class ImageState:
    """The live record of one image name."""

    __slots__ = ("name", "nodes", "size", "summary")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.nodes: set[str] = set()
        self.summary = ImageStateSummary(size, 0)

    def renew_summary(self) -> None:
        self.summary = ImageStateSummary(self.size, len(self.nodes))


ImageRefs = tuple[ImageState, ...]
NO_IMAGES: Mapping[str, ImageStateSummary] = {}


class ImageStates:
    """All images of the known nodes. `version` moves whenever the summary of a known node's image does."""

    def __init__(self) -> None:
        self.states: dict[str, ImageState] = {}
        self.version = 0

    def replace_node(self, old: Node | None, new: Node | None, refs: ImageRefs) -> ImageRefs:
        """Count `new` instead of `old`; `refs` are the records of `old`. Returns those of `new`.

        An image that no other node has gets a new record, with the size that `new` reports.
        """
        before = summaries(refs) if old is not None else NO_IMAGES
        if old is not None:
            self._remove(old.name, refs)
        refs = self._add(new) if new is not None else ()
        if before != summaries(refs):
            self.version += 1
        return refs

    def _add(self, node: Node) -> ImageRefs:
        refs: dict[str, ImageState] = {}
        for image in node.images:
            for name in image.names:
                if name not in refs:
                    state = self.states.get(name)
                    if state is None:
                        state = self.states[name] = ImageState(name, image.size)
                    refs[name] = state
        for state in refs.values():
            state.nodes.add(node.name)
            state.renew_summary()
        return tuple(refs.values())

    def _remove(self, node_name: str, refs: ImageRefs) -> None:
        for state in refs:
            state.nodes.discard(node_name)
            state.renew_summary()
            if not state.nodes:
                del self.states[state.name]


def summaries(refs: ImageRefs) -> Mapping[str, ImageStateSummary]:
    """What a node shows of its images at this moment."""
    return {state.name: state.summary for state in refs} if refs else NO_IMAGES
