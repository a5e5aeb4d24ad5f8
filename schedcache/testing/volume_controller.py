"""A volume controller and a provisioner without storage: what happens to claims and volumes, as far as the API server can tell."""

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

import aiohttp

from schedcache.testing.api_client import ApiClient, ApiStatusError
from schedcache.testing.builders import JSONObject

VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
LOOK_SECONDS = 0.2
RECONNECT_SECONDS = 0.2

_Key = tuple[str, str]


def nobody(_claim: JSONObject) -> bool:
    """No claim is held back."""
    return False


def never(_claim: JSONObject, _node_name: str) -> bool:
    """No node is refused."""
    return False


class FakeVolumeController:
    """kube-controller-manager's part in volumes, and every provisioner, as an async context manager.

    New volumes become Available. A volume that is reserved for a claim is bound to it; a claim with a selected node gets a CSI volume
    that only this node reaches, if its class has a provisioner. A volume that was reserved by a component for a claim that has another
    by now is free again. Claims of immediate classes are left alone; what is deleted goes, whoever uses it.

    Args:
        client: its identity; it must be open for as long as the controller runs.
        refuses: called with claim and node name: whether provisioning fails there. The selected node is then removed, as provisioners do.
        holds: called with the claim, repeatedly: whether nothing is done for it for the time being.

    Attributes:
        provisioned: claim and node name of each volume that was made.
        refused: the same of each that was not.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        refuses: Callable[[JSONObject, str], bool] = never,
        holds: Callable[[JSONObject], bool] = nobody,
    ) -> None:
        self._client = client
        self._refuses = refuses
        self._holds = holds
        self._volumes: dict[_Key, JSONObject] = {}
        self._claims: dict[_Key, JSONObject] = {}
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.provisioned: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [
            asyncio.create_task(self._follow(VOLUMES, self._volumes)),
            asyncio.create_task(self._follow(CLAIMS, self._claims)),
            asyncio.create_task(self._control()),
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        failures = [result for result in results if isinstance(result, Exception)]
        if failures and error is None:
            raise failures[0]

    async def _follow(self, path: str, held: dict[_Key, JSONObject]) -> None:
        """List, then watch; over again whenever the API server ends it."""
        while True:
            try:
                items, version = await self._client.list_with_version(path)
                held.clear()
                held.update((_key(item), item) for item in items)
                self._changed.set()
                async for kind, item in self._client.watch(path, version):
                    if kind == "DELETED":
                        held.pop(_key(item), None)
                    else:
                        held[_key(item)] = item
                    self._changed.set()
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(RECONNECT_SECONDS)
            except ApiStatusError as error:
                if error.status < 500 and error.status not in (410, 429):
                    raise
                await asyncio.sleep(RECONNECT_SECONDS)

    async def _control(self) -> None:
        while True:
            for volume in list(self._volumes.values()):
                await self._persist(self._see_volume, volume)
            for claim in list(self._claims.values()):
                await self._persist(self._see_claim, claim)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                # `holds` may answer otherwise by now.
                pass
            self._changed.clear()

    async def _persist(self, see: Callable[[JSONObject], object], obj: JSONObject) -> None:
        try:
            await see(obj)  # type: ignore[misc]  # one of the two coroutine functions below
        except ApiStatusError as error:
            # It has changed, or gone: the watch brings what is to be done then.
            if error.status not in (404, 409, 422):
                raise
        except (aiohttp.ClientError, TimeoutError):
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _see_volume(self, volume: JSONObject) -> None:
        if await self._gone(VOLUMES, volume):
            return
        path, ref = f"{VOLUMES}/{volume['metadata']['name']}", volume["spec"].get("claimRef")
        if ref is None:
            await self._set_phase(path, volume, "Available")
            return
        claim = self._claims.get((ref["namespace"], ref["name"]))
        if claim is None or ref.get("uid", claim["metadata"]["uid"]) != claim["metadata"]["uid"]:
            if volume.get("status", {}).get("phase") == "Bound":
                await self._set_phase(path, volume, "Released")
            return
        chosen = claim["spec"].get("volumeName")
        if chosen == volume["metadata"]["name"] or not chosen:
            if not self._holds(claim):
                await self._bind(path, volume, claim)
        elif BOUND_BY_CONTROLLER in volume["metadata"].get("annotations", {}):
            await self._update(path, volume, annotations={BOUND_BY_CONTROLLER: None}, spec={"claimRef": None})

    async def _bind(self, path: str, volume: JSONObject, claim: JSONObject) -> None:
        if not volume["spec"]["claimRef"].get("uid"):
            await self._update(path, volume, spec={"claimRef": {"uid": claim["metadata"]["uid"]}})
            return
        await self._set_phase(path, volume, "Bound")
        claim_path = _claim_path(claim)
        if BIND_COMPLETED not in claim["metadata"].get("annotations", {}):
            done = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
            claim = await self._update(
                claim_path, claim, annotations=done, spec={"volumeName": volume["metadata"]["name"]}
            )
        if claim["status"].get("phase") != "Bound":
            spec = volume["spec"]
            status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]}
            await self._client.patch(f"{claim_path}/status", {"status": status})

    async def _see_claim(self, claim: JSONObject) -> None:
        if await self._gone(_claim_path(claim), claim):
            return
        node_name = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
        if node_name is None or claim["spec"].get("volumeName") or self._holds(claim):
            return
        if any(_is_for(volume, claim) for volume in self._volumes.values()):
            return
        storage_class = await self._client.get(f"{CLASSES}/{claim['spec']['storageClassName']}")
        if storage_class["provisioner"] == NO_PROVISIONER:
            return
        about = (claim["metadata"]["name"], node_name)
        if self._refuses(claim, node_name):
            await self._update(_claim_path(claim), claim, annotations={SELECTED_NODE: None})
            self.refused.append(about)
        else:
            volume = await self._client.create(VOLUMES, _volume_for(claim, node_name, storage_class["provisioner"]))
            self._volumes.setdefault(_key(volume), volume)
            self.provisioned.append(about)

    async def _gone(self, path: str, obj: JSONObject) -> bool:
        """Whether it is being deleted; nobody is asked whether it is in use."""
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata:
            return False
        if metadata.get("finalizers"):
            where = path if path.endswith(f"/{metadata['name']}") else f"{path}/{metadata['name']}"
            await self._client.patch(where, {"metadata": {"finalizers": None}})
        return True

    async def _set_phase(self, path: str, volume: JSONObject, phase: str) -> None:
        if volume.get("status", {}).get("phase") != phase:
            await self._client.patch(f"{path}/status", {"status": {"phase": phase}})

    async def _update(
        self, path: str, obj: JSONObject, *, annotations: Mapping[str, str | None] | None = None, **parts: JSONObject
    ) -> JSONObject:
        """Change it, if it is still what is held here."""
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"], "annotations": annotations or {}}
        return await self._client.patch(path, {"metadata": metadata, **parts})


def _key(obj: JSONObject) -> _Key:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _claim_path(claim: JSONObject) -> str:
    metadata = claim["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/persistentvolumeclaims/{metadata['name']}"


def _is_for(volume: JSONObject, claim: JSONObject) -> bool:
    ref = volume["spec"].get("claimRef")
    return ref is not None and ref.get("uid") == claim["metadata"]["uid"]


def _volume_for(claim: JSONObject, node_name: str, provisioner: str) -> JSONObject:
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    only_there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    return {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": provisioner}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": spec["storageClassName"],
            "persistentVolumeReclaimPolicy": "Delete",
            "csi": {"driver": provisioner, "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [only_there]}]}},
        },
    }
