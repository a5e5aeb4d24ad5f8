"""An operator that tells how many more replicas of a Deployment would fit, and what stops the next one.

It asks a scheduler cache that kopf's own events keep in step, and writes the answer to the Deployment's annotations.
"""

# ruff: noqa: INP001  kopf runs files

import asyncio
import json
import logging
import os
import random
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import kopf
from msgspec.structs import replace

from schedcache.cache import ClusterObjects, SchedulerCache, Snapshot
from schedcache.config import config_from_dict
from schedcache.framework import Framework, Handle, SchedulingFailure
from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.transport import Transport
from schedcache.kube.kopf.source import KopfSource
from schedcache.model import MalformedObjectError, Pod
from schedcache.plugins.default_plugins import installed_registry
from schedcache.ports import ApiError, NotFoundError
from schedcache.queue import Nominator
from schedcache.scheduling import PodStore, make_cache_sink
from schedcache.simulation.admission import Admission
from schedcache.simulation.api_defaults import with_api_defaults

ASK = "example.com/ask-room-for"
ROOM = "example.com/room"
STOPPED_BY = "example.com/room-stopped-by"
MOST = 500
LOOK_SECONDS = float(os.environ.get("LOOK_SECONDS", "15"))

Annotations = dict[str, str | None]
log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """A Deployment that asks, or that has an old answer."""

    annotations: Mapping[str, str]
    template: Mapping[str, Any]


class RoomForMore:
    """The cluster as kopf tells of it, the Deployments that ask, and the answers."""

    def __init__(self) -> None:
        self.cache = SchedulerCache()
        self.objects = ClusterObjects()
        self.pods = PodStore()
        self.sink = make_cache_sink(self.cache, self.objects, self.pods)
        self.asked: dict[tuple[str, str], Asked] = {}
        self._snapshot = Snapshot()
        self._nominator = Nominator(self.pods.get)
        [profile] = config_from_dict(None).config.profiles
        handle = Handle(cluster_objects=self.objects, nominator=self._nominator)
        self._framework = Framework(profile, installed_registry(), handle)

    @property
    def kinds(self) -> Sequence[str]:
        """What has to be watched for the answers."""
        return ("Pod", "Node", *sorted(self._framework.kinds()))

    def answers(self, name: str, asked: Asked) -> Annotations:
        """The annotations that the Deployment should have; None: it should not have this one."""
        ask = asked.annotations.get(ASK)
        if ask is None:
            return {ROOM: None, STOPPED_BY: None}
        if not (ask.isascii() and ask.isdigit() and 1 <= int(ask) <= MOST):
            return {ROOM: None, STOPPED_BY: f"{ASK}: expected a whole number from 1 to {MOST}, got {ask!r}"}
        try:
            room, stopped_by = self.room_for(replica_of(name, asked.template), int(ask))
        except MalformedObjectError as error:
            return {ROOM: None, STOPPED_BY: str(error)}
        return {ROOM: str(room), STOPPED_BY: stopped_by or None}

    def room_for(self, pod: Pod, most: int) -> tuple[int, str]:
        """How many copies fit beside what is there, `most` at most, and what stops the next one ("" where none is left)."""
        framework, snapshot = self._framework, self._snapshot
        stopped_by = framework.unsupported(pod) or ", ".join(pod.scheduling_gates and ("it has scheduling gates",))
        if stopped_by:
            return 0, stopped_by
        self._read_nominations()
        # This also takes back what the last question has assumed.
        self.cache.update_snapshot(snapshot)
        rng = random.Random(0)
        for number in range(most):
            copy = replace(pod, name=f"{pod.name}-{number}", uid=f"{pod.uid}-{number}")
            try:
                chosen = framework.schedule(copy, snapshot, self._nominator.nominated_pods_for_node, rng)
            except SchedulingFailure as error:
                return number, error.message()
            snapshot.assume(copy.with_node(chosen.node_name))
        return most, ""

    def _read_nominations(self) -> None:
        """Take over what the pods say now of room that they were promised when others were preempted for them."""
        for name in self._nominator.nominated_nodes():
            for pod in self._nominator.nominated_pods_for_node(name):
                self._nominator.delete(pod)
        for pod in self.pods.values():
            self._nominator.add(pod, None)

    async def answer_all(self, transport: Transport) -> None:
        """Write the answers that have changed."""
        for (namespace, name), asked in list(self.asked.items()):
            # kopf's handlers run in this loop too.
            await asyncio.sleep(0)
            wanted = self.answers(f"{namespace}/{name}", asked)
            if all(asked.annotations.get(key) == value for key, value in wanted.items()):
                continue
            body = json.dumps({"metadata": {"annotations": wanted}}).encode()
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
            try:
                await transport.send("PATCH", path, body, "application/merge-patch+json")
            except NotFoundError:
                # kopf does not tell of a deletion that happened while its watch was interrupted.
                self.asked.pop((namespace, name), None)
            except ApiError as error:
                log.warning("answer for %s/%s not written, trying again: %s", namespace, name, error)

    async def run(self, transport: Transport, source: KopfSource) -> None:
        """Follow the cluster and answer, until cancelled."""
        async with transport, asyncio.TaskGroup() as group:
            group.create_task(source.run())
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                # What is not known to be so is not told.
                if source.has_synced() and not source.outages():
                    await self.answer_all(transport)


def replica_of(name: str, template: Mapping[str, Any]) -> Pod:
    """A pod of the Deployment, as the API server would make it. Raises MalformedObjectError."""
    namespace, _, deployment = name.partition("/")
    metadata = {**(template.get("metadata") or {}), "name": deployment, "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    return Pod.from_dict(with_api_defaults(pod, Admission()))


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, memo: kopf.Memo, **_: Any) -> None:
    """Join this operator's watches before they are opened."""
    settings.posting.enabled = False
    # It needs no right to look at namespaces and custom resources.
    settings.scanning.disabled = True
    memo.room = RoomForMore()
    transport = Transport(load_credentials())
    source = KopfSource(transport, memo.room.sink, memo.room.kinds, registry=kopf.get_default_registry())
    memo.running = asyncio.create_task(memo.room.run(transport, source))
    memo.running.add_done_callback(end_with)


def end_with(running: asyncio.Task[None]) -> None:
    """Without it the operator would look alive and answer nothing."""
    if not running.cancelled():
        log.critical("giving up", exc_info=running.exception())
        os.kill(os.getpid(), signal.SIGTERM)


@kopf.on.cleanup()
async def stop(memo: kopf.Memo, **_: Any) -> None:
    """Close what was opened."""
    if "running" in memo:
        memo.running.cancel()
        await asyncio.wait([memo.running])


@kopf.on.event("apps", "v1", "deployments")
async def deployment(
    type: str,  # noqa: A002  kopf's keyword
    namespace: str | None,
    name: str,
    annotations: Mapping[str, str],
    spec: Mapping[str, Any],
    memo: kopf.Memo,
    **_: Any,
) -> None:
    """Note who asks."""
    key = (namespace or "", name)
    if type == "DELETED" or not annotations.keys() & {ASK, ROOM, STOPPED_BY}:
        memo.room.asked.pop(key, None)
    else:
        memo.room.asked[key] = Asked(dict(annotations), dict(spec["template"]))
