"""The fault proxy, which can be told to ask another API server."""

from typing import Any

from yarl import URL

from schedcache.testing import ControlPlane, FaultProxy


class SwitchingProxy(FaultProxy):
    """As its base; `target` is the URL that requests go to, at first the control plane's."""

    def __init__(self, control_plane: ControlPlane) -> None:
        super().__init__(control_plane)
        self.target = control_plane.server

    def _target(self, path: URL) -> URL:
        return URL(self.target + path.raw_path_qs, encoded=True)

    def hold_watches(self) -> None:
        """Nothing comes over the watches that are open, and none of them ends."""
        for watch in self.watches:
            watch.hold()

    def cut_watches(self, **how: Any) -> None:
        for watch in list(self.watches):
            watch.cut(**how)
