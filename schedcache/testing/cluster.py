"""A test's handle on a control plane: an admin client with what tests need from a cluster, and a way to clean up."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Self

from schedcache.testing.api_client import ApiClient, ApiStatusError, Resource, in_parallel, wait_until
from schedcache.testing.builders import JSONObject, node_manifest, pod_manifest
from schedcache.testing.control_plane import ControlPlane
from schedcache.testing.manifests import apply_manifest

METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TOKEN_SECONDS = 3600
NOT_READY_TAINT = "node.kubernetes.io/not-ready"

# What the API server itself keeps writing; a test that touches these deletes them itself.
KEPT_BY_THE_SERVER = frozenset({"apiservices", "endpoints", "endpointslices", "ipaddresses", "servicecidrs"})


class Cluster(ApiClient):
    """An admin's client of a control plane, within one event loop.

    The first one opened on a control plane notes what exists; :meth:`clean` returns to that state, so one API server serves
    many tests.

    Attributes:
        control_plane: the servers behind it.
        audit: the requests since this handle was opened.

    Args:
        control_plane: a running control plane.
        user_agent: as it appears in the audit log.
    """

    def __init__(self, control_plane: ControlPlane, user_agent: str = "schedcache-testing") -> None:
        super().__init__(control_plane.server, control_plane.ca_file, control_plane.admin_token, user_agent)
        self.control_plane = control_plane
        self.audit = control_plane.audit.from_now()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        if self.control_plane.initial_uids is None:
            self.control_plane.initial_uids = frozenset(
                item["metadata"]["uid"] for _, items in await self._everything() for item in items
            )
        return self

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.control_plane.kubeconfig

    def client_of(self, token: str, user_agent: str = "schedcache-testing") -> ApiClient:
        """A client with another identity, for use with ``async with``."""
        return ApiClient(self.server, self.control_plane.ca_file, token, user_agent)

    async def make_nodes(
        self,
        count: int,
        *,
        name: str = "node-{}",
        zones: Sequence[str] = (),
        manifest: Callable[..., JSONObject] = node_manifest,
        **fields: object,
    ) -> list[JSONObject]:
        """Create Ready nodes; 1,000 take about three seconds.

        The taint ``not-ready`` that admission puts on a new node is removed, as a node controller would.

        Args:
            count: how many.
            name: pattern of their names, given the number from 0.
            zones: assigned in turn.
            manifest: makes the Node, called as ``manifest(name, zone=..., **fields)``.
            fields: such as ``capacity`` and ``labels`` of :func:`~schedcache.testing.builders.node_manifest`.

        Returns:
            The nodes as stored.
        """
        manifests = [
            manifest(name.format(number), zone=zones[number % len(zones)] if zones else None, **fields)
            for number in range(count)
        ]
        return await in_parallel(partial(self.create_node, manifest) for manifest in manifests)

    async def create_node(self, manifest: JSONObject) -> JSONObject:
        """Create one node from a manifest with status, and remove the taint ``not-ready`` if it was added."""
        node = await self.create("/api/v1/nodes", manifest)
        taints = node["spec"].get("taints", [])
        wanted = [taint for taint in taints if taint["key"] != NOT_READY_TAINT]
        if len(wanted) == len(taints):
            return node
        return await self.patch(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": wanted or None}})

    async def make_pods(
        self,
        count: int,
        *,
        name: str = "pod-{}",
        manifest: Callable[..., JSONObject] = pod_manifest,
        **fields: object,
    ) -> list[JSONObject]:
        """Create pods, several at a time, in no certain order; 1,000 take about 1.5 seconds.

        Args:
            count: how many.
            name: pattern of their names, given the number from 0.
            manifest: makes the Pod, called as ``manifest(name, **fields)``.
            fields: such as ``namespace``, ``cpu``, ``requests`` and fields of ``spec``; see
                :func:`~schedcache.testing.builders.pod_manifest`.

        Returns:
            The pods as stored.
        """
        return await self.create_pods(manifest(name.format(number), **fields) for number in range(count))

    async def create_pods(self, manifests: Iterable[JSONObject]) -> list[JSONObject]:
        """Create pods from manifests, several at a time."""
        return await in_parallel(
            partial(self.create, f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods", manifest)
            for manifest in manifests
        )

    async def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> JSONObject:
        """Create a namespace."""
        return await self.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": dict(labels or {})}})

    async def list_pods(self, namespace: str | None = None, **params: str) -> list[JSONObject]:
        """Pods of one namespace, or of all; ``params`` such as ``labelSelector``."""
        return await self.list_all(f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods", **params)

    async def bind(self, pod: JSONObject, node: str) -> JSONObject:
        """Bind a pod as a scheduler would."""
        metadata = pod["metadata"]
        binding = {
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self.create(f"{pod_path(pod)}/binding", binding)

    async def wait_until_bound(self, count: int, *, timeout: float = 60.0, **params: str) -> list[JSONObject]:
        """Wait until at least ``count`` pods have a node. Returns these pods.

        Raises:
            TimeoutError: fewer had within ``timeout`` seconds.
        """
        bound: list[JSONObject] = []

        async def enough() -> bool:
            bound[:] = await self.list_pods(**{"fieldSelector": "spec.nodeName!=", **params})
            return len(bound) >= count

        try:
            await wait_until(enough, timeout)
        except TimeoutError:
            raise TimeoutError(f"{len(bound)} of {count} pods were bound within {timeout:g} s") from None
        return bound

    async def apply_manifest(self, manifest: Path | Iterable[JSONObject]) -> list[JSONObject]:
        """Create the objects of a manifest; see :func:`schedcache.testing.manifests.apply_manifest`."""
        return await apply_manifest(self, manifest)

    async def service_account_token(self, namespace: str, name: str) -> str:
        """A token of a ServiceAccount, valid for an hour, from the TokenRequest API.

        Raises:
            ApiStatusError: 404: there is no such ServiceAccount.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = await self.create(path, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
        return str(answer["status"]["token"])

    async def clean(self) -> None:
        """Delete everything that did not exist when the first handle on this control plane was opened.

        Finalizers are removed, since there is no controller to do so; pods get no grace period.

        Raises:
            TimeoutError: something was left after 120 s: a busy machine takes long for thousands of objects.
        """

        async def is_clean() -> bool:
            leftovers = [
                (resource, item)
                for resource, items in await self._everything()
                for item in items
                if item["metadata"]["uid"] not in (self.control_plane.initial_uids or ())
            ]
            # Namespaces last: what is in them stays stored, out of reach, once their finalizer is gone.
            contents = [one for one in leftovers if one[0].plural != "namespaces"]
            await in_parallel(partial(self._remove, *one) for one in contents or leftovers)
            return not leftovers

        await wait_until(is_clean, timeout=120.0, interval=0.0)

    async def _everything(self) -> list[tuple[Resource, list[JSONObject]]]:
        """Metadata of all objects, each once."""
        kinds: dict[tuple[str, str], Resource] = {}
        for resource in await self.resources():
            if {"list", "delete"} <= resource.verbs and resource.plural not in KEPT_BY_THE_SERVER:
                kinds.setdefault((resource.group, resource.plural), resource)
        # The same objects under an older group.
        kinds.pop(("events.k8s.io", "events"), None)
        return await in_parallel(partial(self._metadata, resource) for resource in kinds.values())

    async def _metadata(self, resource: Resource) -> tuple[Resource, list[JSONObject]]:
        answer = await self.request("GET", resource.path(), accept=METADATA_LIST)
        return resource, answer["items"] or []

    async def _remove(self, resource: Resource, item: JSONObject) -> None:
        metadata = item["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"])
        try:
            if metadata.get("finalizers"):
                await self.patch(path, {"metadata": {"finalizers": None}})
            await self.delete(path, grace_seconds=0, uid=metadata["uid"])
            if resource.plural == "namespaces":
                await self._finalize_namespace(path)
        except ApiStatusError as error:
            # 404: gone meanwhile. 409: another incarnation, or changed meanwhile: the next round sees it.
            if error.status not in (404, 409):
                raise

    async def _finalize_namespace(self, path: str) -> None:
        """What the namespace controller does once a namespace is empty."""
        namespace = await self.get(path)
        namespace["spec"] = {"finalizers": []}
        await self.replace(f"{path}/finalize", namespace)


def pod_path(pod: JSONObject) -> str:
    """Path of a pod."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
