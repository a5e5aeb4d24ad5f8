"""On how many nodes each container image is: one record per image name for the whole cache."""

from collections.abc import Mapping

import msgspec

from schedcache.model import Node


class ImageStateSummary(msgspec.Struct, frozen=True, gc=False):
    """`size` in bytes, as the first node reported it; `num_nodes` nodes have the image."""

    size: int
    num_nodes: int


class ImageState:
    """The live record of one image name. `version` is that of all images when its summary last changed."""

    __slots__ = ("name", "nodes", "size", "summary", "version")

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        self.size = size
        self.nodes: set[str] = set()
        self.summary = ImageStateSummary(size, 0)
        self.version = 0


ImageRefs = tuple[ImageState, ...]
NO_IMAGES: Mapping[str, ImageStateSummary] = {}


class ImageStates:
    """All images of the known nodes. `version` changes whenever a summary of a known node's image does."""

    def __init__(self) -> None:
        self.states: dict[str, ImageState] = {}
        self.version = 0

    def replace_node(self, old: Node | None, new: Node | None, refs: ImageRefs) -> ImageRefs:
        """Count `new` instead of `old`; `refs` are the records of `old`. Returns those of `new`.

        An image that no other node has gets a new record, with the size that `new` reports.
        """
        before = refs if old is not None else ()
        shown = summaries(before)
        if old is not None:
            self._remove(old.name, before)
        after = self._add(new) if new is not None else ()
        moved = [state for state in dict.fromkeys((*before, *after)) if _renewed(state, shown)]
        if moved:
            self.version += 1
            for state in moved:
                state.version = self.version
        return after

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
        return tuple(refs.values())

    def _remove(self, node_name: str, refs: ImageRefs) -> None:
        for state in refs:
            state.nodes.discard(node_name)
            if not state.nodes:
                del self.states[state.name]


def _renewed(state: ImageState, shown: Mapping[str, ImageStateSummary]) -> bool:
    """Bring a record's summary up to date. Returns whether known nodes show another one now; `shown`: what the changed one did."""
    if state.summary.num_nodes != len(state.nodes):
        state.summary = ImageStateSummary(state.size, len(state.nodes))
    return bool(state.nodes) and state.summary != shown.get(state.name)


def summaries(refs: ImageRefs) -> Mapping[str, ImageStateSummary]:
    """The summaries of a node's images at this moment."""
    return {state.name: state.summary for state in refs} if refs else NO_IMAGES
