"""The extension points after a node has been chosen: Reserve, Permit, PreBind, Bind, PostBind.

Every method returns None for success, a rejection with the plugin's name, or a status with code Error. Errors of a
bind (those of schedcache.ports) are raised, since only the caller can find out what they mean; an API error in PreBind says
nothing about the pod, and is an error like any other, except for FencedError, which is raised.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from schedcache.framework.interface import CycleState
from schedcache.framework.plugin_calls import call, call_async, checked_status, failed, rejection
from schedcache.framework.status import SKIP, Code, Status
from schedcache.framework.waiting_pods import WaitingPods
from schedcache.model import Pod
from schedcache.ports import ApiError, FencedError

WAITS = "one or more plugins asked to wait and no plugin rejected pod"


class Lifecycle:
    """The plugins of one profile for these points; `waiting_pods` is shared with those who allow and reject."""

    def __init__(self, plugins: Mapping[str, Sequence[Any]], waiting_pods: WaitingPods) -> None:
        self._plugins = plugins
        self.waiting_pods = waiting_pods

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Stops at the first plugin that refuses; the caller then runs `run_unreserve`."""
        for plugin in self._plugins["reserve"]:
            try:
                status = rejection(checked_status(call(plugin, "reserve", state, pod, node_name)))
            except Exception as error:  # noqa: BLE001  plugins are foreign code; the fault becomes the attempt's outcome
                return _error(pod, plugin.name, "reserve", error)
            if status is not None:
                return _outcome(pod, plugin.name, "reserve", status)
        return None

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Call every Reserve plugin, the last one first, even after a fault. Returns the first fault."""
        fault: Status | None = None
        for plugin in reversed(self._plugins["reserve"]):
            try:
                call(plugin, "unreserve", state, pod, node_name)
            except Exception as error:  # noqa: BLE001  one plugin's fault must not keep the others' reservations
                fault = fault or _error(pod, plugin.name, "reserve", error)
        return fault

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Code Wait: the pod is now among `waiting_pods`, and `wait_on_permit` returns the outcome."""
        waits: dict[str, float] = {}
        for plugin in self._plugins["permit"]:
            try:
                answer, wait = call(plugin, "permit", state, pod, node_name)
                status = rejection(checked_status(answer))
            except Exception as error:  # noqa: BLE001  as in run_reserve
                return _error(pod, plugin.name, "permit", error)
            if status is None:
                continue
            if status.code is not Code.WAIT:
                return _outcome(pod, plugin.name, "permit", status)
            waits[plugin.name] = wait
        if not waits:
            return None
        self.waiting_pods.add(pod, waits)
        return Status(Code.WAIT, (WAITS,))

    async def wait_on_permit(self, pod: Pod) -> Status | None:
        """Waits until all Permit plugins have allowed the pod, one has rejected it, or its time is up."""
        return await self.waiting_pods.wait(pod.uid)

    def run_pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """SKIP where no PreBind plugin has anything to do for the pod, None where one has; an error is the attempt's."""
        found: Status | None = SKIP
        for plugin in self._plugins["pre_bind"]:
            if not hasattr(plugin, "pre_bind_pre_flight"):
                found = None
                continue
            try:
                status = rejection(checked_status(call(plugin, "pre_bind_pre_flight", state, pod, node_name)))
            except Exception as error:  # noqa: BLE001  as in run_reserve
                return _error(pod, plugin.name, "pre_bind_pre_flight", error)
            if status is None:
                found = None
            elif status.code is Code.SKIP:
                state.skip_pre_bind.add(plugin.name)
            else:
                return _error(pod, plugin.name, "pre_bind_pre_flight", status.message or status.code.label)
        return found

    async def run_pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """One plugin after the other, up to the first that does not succeed; without those that pre-flight left out.

        Raises FencedError, which is no plugin's fault.
        """
        for plugin in self._plugins["pre_bind"]:
            if plugin.name in state.skip_pre_bind:
                continue
            try:
                status = rejection(checked_status(await call_async(plugin, "pre_bind", state, pod, node_name)))
            except FencedError:
                raise
            except Exception as error:  # noqa: BLE001  as in run_reserve
                return _error(pod, plugin.name, "pre_bind", error)
            if status is not None:
                return _outcome(pod, plugin.name, "pre_bind", status)
        return None

    async def run_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """The first plugin that does not return Skip decides; SKIP if all do. Raises the ApiErrors of schedcache.ports."""
        for plugin in self._plugins["bind"]:
            try:
                status = rejection(checked_status(await call_async(plugin, "bind", state, pod, node_name)))
            except ApiError:
                raise
            except Exception as error:  # noqa: BLE001  as in run_reserve
                return _error(pod, plugin.name, "bind", error)
            if status is None:
                return None
            if status.code is not Code.SKIP:
                return _outcome(pod, plugin.name, "bind", status)
        return SKIP

    def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Call all plugins. Returns the first fault."""
        fault: Status | None = None
        for plugin in self._plugins["post_bind"]:
            try:
                call(plugin, "post_bind", state, pod, node_name)
            except Exception as error:  # noqa: BLE001  one plugin's fault must not silence the others
                fault = fault or _error(pod, plugin.name, "post_bind", error)
        return fault


def _outcome(pod: Pod, plugin: str, point: str, status: Status) -> Status:
    if status.rejected:
        return Status(status.code, status.reasons, plugin)
    return _error(pod, plugin, point, status.message)


def _error(pod: Pod, plugin: str, point: str, error: object) -> Status:
    return Status(Code.ERROR, (str(failed(pod, plugin, point, error)),), plugin)
