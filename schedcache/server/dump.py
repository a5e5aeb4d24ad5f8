"""`/dump`: everything that the scheduler holds, from one moment, written in pieces so that nothing waits for it."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec
from aiohttp import web

from schedcache.cache import Dump, NodeInfo, Story
from schedcache.model import Pod, Resource
from schedcache.ports import EventSource
from schedcache.scheduling import Scheduler

API_VERSION = "schedcache/v1"
KIND = "Dump"
_PIECE = 100
"""Nodes or pods between two turns of the event loop: a millisecond or two."""
_QUEUES = (("active", "active"), ("backoff", "backoff"), ("error_backoff", "backoff"), ("in_flight", "in flight"))


class StateDump:
    """What is held at the moment of construction, which takes microseconds a pod; `pieces` renders it at leisure."""

    def __init__(self, scheduler: Scheduler, source: EventSource, told: list[Story] | None = None) -> None:
        state = scheduler.state
        self._cache: Dump = state.cache.dump()
        self._assumed: dict[str, Pod] = {uid: held.pod for uid, held in state.cache.assumed_pods.items()}
        self._pods: list[Pod] = list(state.pods.values())
        self._queue = state.queue.dump()
        self._waiting = {waiting.pod.uid for f in scheduler.frameworks.values() for waiting in f.waiting_pods}
        self._versions = dict(source.resource_versions())
        self._stories = told

    def pieces(self) -> Iterator[bytes]:
        """JSON texts that together are the dump."""
        head: dict[str, Any] = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "generation": self._cache.generation,
            "resourceVersions": self._versions,
            "assumed": sorted(self._cache.assumed_pods),
        }
        if self._stories is not None:
            head["stories"] = self._stories
        yield msgspec.json.encode(head)[:-1] + b',"queue":'
        yield msgspec.json.encode(self._queue)
        yield b',"nodes":'
        yield from _object_pieces((name, node_state(info)) for name, info in self._cache.nodes.items())
        yield b',"pods":'
        yield from _object_pieces(self._pod_states())
        yield b"}"

    def _pod_states(self) -> Iterator[tuple[str, dict[str, Any]]]:
        waiting_in = self._queued_states()
        for pod in self._pods:
            assumed = self._assumed.get(pod.uid)
            if pod.node_name:
                where = "bound"
            elif assumed is not None:
                where = "waiting on permit" if pod.uid in self._waiting else "assumed"
            else:
                where = waiting_in.get(pod.uid, "pending")
            yield pod.uid, _pod_state(pod if assumed is None else assumed, where)

    def _queued_states(self) -> dict[str, str]:
        """UID -> state, for the pods that the queue knows; all others without a node are other schedulers'."""
        queued: Mapping[str, Any] = self._queue["pods"]  # type: ignore[assignment]  # a JSON object by its format
        states = {uid: "gated" if info["gated_by"] else "unschedulable" for uid, info in queued.items()}
        for queue, state in _QUEUES:
            states.update(dict.fromkeys(self._queue[queue], state))  # type: ignore[call-overload]  # a list by its format
        return states


def _pod_state(pod: Pod, state: str) -> dict[str, Any]:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node_name,
        "state": state,
        "schedulerName": pod.scheduler_name,
        "priority": pod.priority,
        "phase": pod.phase,
        "deleting": pod.terminating,
        "nominatedNodeName": pod.nominated_node_name,
        "resourceVersion": pod.resource_version,
    }


def node_state(info: NodeInfo) -> dict[str, Any]:
    """A node with its sums, as JSON values; `present` false = no node object: only its pods are known."""
    return {
        "present": info.node is not None,
        "pods": sorted(pod.uid for pod in info.pods),
        "pods_with_affinity": sorted(pod.uid for pod in info.pods_with_affinity),
        "pods_with_required_anti_affinity": sorted(pod.uid for pod in info.pods_with_required_anti_affinity),
        "used_ports": sorted(info.used_ports),
        "requested": _resource(info.requested),
        "non_zero_requested": {
            "milli_cpu": info.non_zero_requested.milli_cpu,
            "memory": info.non_zero_requested.memory,
        },
        "allocatable": {**_resource(info.allocatable), "allowed_pod_number": info.allocatable.allowed_pod_number},
        "image_states": {
            name: {"size": image.size, "num_nodes": image.num_nodes} for name, image in info.image_states.items()
        },
        "pvc_ref_counts": dict(info.pvc_ref_counts),
    }


def _resource(amounts: Resource) -> dict[str, Any]:
    return {
        "milli_cpu": amounts.milli_cpu,
        "memory": amounts.memory,
        "ephemeral_storage": amounts.ephemeral_storage,
        "scalar": {name: amount for name, amount in amounts.scalar.items() if amount},
    }


def _object_pieces(items: Iterable[tuple[str, Any]]) -> Iterator[bytes]:
    """A JSON object, some members at a time."""
    members = iter(items)
    opening = b"{"
    while some := dict(islice(members, _PIECE)):
        yield opening + msgspec.json.encode(some)[1:-1]
        opening = b","
    yield b"}" if opening == b"," else b"{}"


def stories(scheduler: Scheduler, wanted: str) -> list[Story]:
    """What the cache did lately to one pod (`NAMESPACE/NAME` or UID) or node; to everything for `all`."""
    ring = scheduler.state.cache.stories
    if wanted in ("", "all"):
        return list(ring.of())
    uid = next((pod.uid for pod in scheduler.state.pods.values() if pod.full_name == wanted), wanted)
    return list(ring.of(uid=uid)) or list(ring.of(node=wanted))


def dump_route(scheduler: Scheduler, source: EventSource) -> web.RouteDef:
    """`GET /dump`; with `?stories=all`, `=NAMESPACE/NAME`, `=UID` or `=NODE` the stories too."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        wanted = request.query.get("stories")
        dump = StateDump(scheduler, source, None if wanted is None else stories(scheduler, wanted))
        await response.prepare(request)
        for piece in dump.pieces():
            await response.write(piece)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    return web.get("/dump", handle)
