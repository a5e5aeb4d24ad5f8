"""What an observer has in the place of its writing side."""

from schedcache.model import Pod, PodCondition


class Nobody:
    """An EventRecorder and StatusWriter that write nothing."""

    def event(
        self, regarding: Pod, type_: str, reason: str, action: str, note: str, *, related: Pod | None = None
    ) -> None:
        """Nothing is recorded."""

    def patch_status(self, pod: Pod, condition: PodCondition | None, nominated_node_name: str | None = None) -> None:
        """Nothing is written."""

    def forget(self, uid: str) -> None:
        """Nothing waits."""
