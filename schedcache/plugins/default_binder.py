"""DefaultBinder: binds through the API."""

from typing import Any

from schedcache.framework import Code, CycleState, Handle, Status
from schedcache.model import Pod


class DefaultBinder:
    """POSTs the Binding; the API's refusals are raised as they are (schedcache.ports)."""

    name = "DefaultBinder"

    def __init__(self, _args: Any, handle: Handle) -> None:
        self._binder = handle.binder

    async def bind(self, _state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self._binder is None:
            return Status(Code.ERROR, ("this scheduler has no connection to an API server to bind with",))
        await self._binder.bind(pod, node_name)
        return None
