"""An API server in memory: objects with resourceVersions, their history, pages, watches, and every write that a scheduler makes.

It is the truth that the simulation's invariants go by. Requests are carried out at once and one at a time; everything that can
happen on the way is the network's business.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

JSONObject = dict[str, Any]
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/leases"
BOOKMARK_SECONDS = 60.0
FINISHED = ("Succeeded", "Failed")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Answer(NamedTuple):
    """Of a request, as HTTP has it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class Bound(NamedTuple):
    """A binding that was carried out."""

    at: float
    client: str
    uid: str
    name: str
    node: str


class Change(NamedTuple):
    """An entry of the history; `old` None: created, `new` None: deleted, in the version given."""

    version: int
    old: JSONObject | None
    new: JSONObject | None


class RefusalError(Exception):
    """A Status other than Success."""

    def __init__(self, status: int, reason: str, message: str = "") -> None:
        self.answer = Answer(status, status_body(status, reason, message))
        super().__init__(f"{status} {reason} {message}")


def status_body(code: int, reason: str, message: str = "") -> bytes:
    return _encode({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})


def version_of(obj: JSONObject) -> int:
    return int(obj["metadata"]["resourceVersion"])


def key_of(obj: JSONObject) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def unfinished(obj: JSONObject | None) -> bool:
    return obj is not None and obj.get("status", {}).get("phase") not in FINISHED


class Watch:
    """What a watch is told: lines, in the order of the versions."""

    def __init__(self, path: str, selects: Callable[[JSONObject | None], bool], tell: Callable[[bytes], None]) -> None:
        self.path = path
        self.selects = selects
        self.tell = tell

    def note(self, change: Change) -> None:
        before = change.old if self.selects(change.old) else None
        after = change.new if self.selects(change.new) else None
        if after is not None:
            self.tell(_line("ADDED" if before is None else "MODIFIED", after))
        elif before is not None:
            gone = change.new or _with_version(before, change.version)
            self.tell(_line("DELETED", gone))


def _line(kind: str, obj: JSONObject) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), _encode(obj))


def _with_version(obj: JSONObject, version: int) -> JSONObject:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


class ApiServer:
    """Objects by the path of their collection and by `namespace/name`.

    Attributes:
        version: resourceVersion of the last change.
        compacted: the history up to this version is gone.
        bound: every binding that was carried out, in order.
        on_bound: called with each pod that got its node.
        on_bound_again: called with client and UID when a pod that has a node is to be bound.
        revived_by_restore: UIDs of pods that were gone before the server was restored, and are there again.
        leases_renewed: name of a lease -> when it was last written.
        unbound_by_restore: UIDs of pods that had a node before the server was restored, and none after it.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.version = 1000
        self.compacted = 1000
        self.objects: dict[str, dict[str, JSONObject]] = {PODS: {}, NODES: {}}
        self._history: dict[str, list[Change]] = {}
        self._watches: list[Watch] = []
        self._pages: dict[str, tuple[int, list[JSONObject]]] = {}
        self._events: set[str] = set()
        self._uids = Counter()
        self.bound: list[Bound] = []
        self.on_bound: Callable[[JSONObject, Bound], None] = lambda _pod, _bound: None
        self.on_bound_again: Callable[[str, str], None] = lambda _client, _uid: None
        self.unbound_by_restore: set[str] = set()
        # (UID, version) of every state that an object has had, whether a backup has it or not.
        self._given_out: set[tuple[str, int]] = set()
        self.revived_by_restore: set[str] = set()
        self.leases_renewed: dict[str, float] = {}

    # ---- as people, kubelets and controllers use it

    def pods(self) -> list[JSONObject]:
        return list(self.objects[PODS].values())

    def nodes(self) -> list[JSONObject]:
        return list(self.objects[NODES].values())

    def get(self, path: str, key: str) -> JSONObject | None:
        return self.objects.get(path, {}).get(key)

    def create(self, path: str, obj: JSONObject) -> JSONObject:
        """Returns it as stored; the name must be free."""
        key = key_of(obj)
        if key in self.objects.setdefault(path, {}):
            raise RefusalError(409, "AlreadyExists", key)
        self._uids[path, key] += 1
        uid = f"uid-{obj['metadata']['name']}-{self._uids[path, key]}"
        return self._store(path, None, {**obj, "metadata": {"uid": uid, **obj["metadata"]}})

    def change(self, path: str, key: str, alter: Callable[[JSONObject], None]) -> JSONObject:
        """`alter` changes a copy of the object, which is then stored."""
        old = self.objects[path][key]
        new = _decode(_encode(old))
        alter(new)
        return self._store(path, old, new)

    def delete(self, path: str, key: str) -> JSONObject:
        """At once, whatever its grace period is."""
        old = self.objects[path].pop(key)
        self.version += 1
        self._publish(path, Change(self.version, old, None))
        return old

    def compact(self) -> None:
        """Forget the history, and with it the pages of lists that are not read to their end."""
        self.compacted = self.version
        self._history.clear()
        self._pages.clear()

    def backup(self) -> tuple[int, dict[str, dict[str, JSONObject]]]:
        return self.version, {path: dict(held) for path, held in self.objects.items()}

    def restore(self, backup: tuple[int, dict[str, dict[str, JSONObject]]]) -> None:
        """Go back to an older state; versions that were given out are given out again.

        But not to the same object: what its UID and version do not tell apart, no client can. In a real cluster it would take a
        backup so young that the server has caught up with it before anybody asks, and then a change of the same object with the
        same number among all changes.
        """
        before = {pod["metadata"]["uid"] for pod in self.pods()}
        self.version = backup[0]
        self.objects = {path: dict(found) for path, found in backup[1].items()}
        self.revived_by_restore |= {pod["metadata"]["uid"] for pod in self.pods()} - before
        without_node = {pod["metadata"]["uid"] for pod in self.pods() if not pod["spec"].get("nodeName")}
        self.unbound_by_restore |= without_node & {bound.uid for bound in self.bound}
        self.compact()
        self._watches.clear()

    def _store(self, path: str, old: JSONObject | None, new: JSONObject) -> JSONObject:
        self.version += 1
        uid = new["metadata"]["uid"]
        while (uid, self.version) in self._given_out:
            self.version += 1
        self._given_out.add((uid, self.version))
        new["metadata"]["resourceVersion"] = str(self.version)
        self.objects.setdefault(path, {})[key_of(new)] = new
        self._publish(path, Change(self.version, old, new))
        return new

    def _publish(self, path: str, change: Change) -> None:
        self._history.setdefault(path, []).append(change)
        for watch in list(self._watches):
            if watch.path == path:
                watch.note(change)

    # ---- watches

    def watch(self, path: str, query: Mapping[str, str], tell: Callable[[bytes], None]) -> Watch | None:
        """Tell of every change after the version, and of those to come. None: the history does not go back so far."""
        since = int(query["resourceVersion"])
        if since < self.compacted:
            return None
        watch = Watch(path, unfinished if query.get("fieldSelector") else _exists, tell)
        for change in self._history.get(path, ()):
            if change.version > since:
                watch.note(change)
        if since <= self.version:
            self._watches.append(watch)
        # A version that was never given out: the server says nothing, for ever.
        return watch

    def end_watch(self, watch: Watch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)

    def bookmark(self) -> bytes:
        return b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}\n' % self.version

    # ---- requests

    def carry_out(self, client: str, method: str, path: str, query: Mapping[str, str], body: bytes) -> Answer:
        """One request other than a watch."""
        try:
            return self._carry_out(client, method, path, query, json.loads(body) if body else {})
        except RefusalError as refusal:
            return refusal.answer

    def _carry_out(self, client: str, method: str, path: str, query: Mapping[str, str], body: JSONObject) -> Answer:
        parts = path.strip("/").split("/")
        if "events" in parts:
            return self._event(method, path, body)
        if "leases" in parts:
            return self._lease(method, parts, body)
        if parts[:3] == ["api", "v1", "namespaces"] and len(parts) > 4:
            key = f"{parts[3]}/{parts[5]}"
            match method, parts[6:]:
                case "GET", []:
                    return Answer(200, _encode(self._pod(key)))
                case "POST", ["binding"]:
                    return self._bind(client, key, body)
                case "PATCH", ["status"]:
                    return self._patch_status(key, body)
                case "DELETE", []:
                    return self._delete_pod(key, body)
        if method == "GET":
            return self._list(path, query)
        raise RefusalError(405, "MethodNotAllowed", f"{method} {path}")

    def _pod(self, key: str) -> JSONObject:
        pod = self.objects[PODS].get(key)
        if pod is None:
            raise RefusalError(404, "NotFound", f"pods {key} not found")
        return pod

    def _list(self, path: str, query: Mapping[str, str]) -> Answer:
        if token := query.get("continue"):
            if token not in self._pages:
                raise RefusalError(410, "Expired", "The provided continue parameter is too old")
            version, left = self._pages.pop(token)
        else:
            selects = unfinished if query.get("fieldSelector") else _exists
            version = self.version
            left = [obj for _, obj in sorted(self.objects.get(path, {}).items()) if selects(obj)]
        limit = int(query.get("limit", len(left) or 1))
        page, left = left[:limit], left[limit:]
        metadata = {"resourceVersion": str(version)}
        if left:
            metadata["continue"] = token = f"{path}@{version}+{len(left)}/{len(self._pages)}"
            self._pages[token] = version, left
        return Answer(200, _encode({"kind": "List", "metadata": metadata, "items": page}))

    def _bind(self, client: str, key: str, body: JSONObject) -> Answer:
        pod = self._pod(key)
        uid, node = pod["metadata"]["uid"], body["target"]["name"]
        if body["metadata"].get("uid", uid) != uid:
            raise RefusalError(409, "Conflict", "the UID in the precondition is another")
        if pod["metadata"].get("deletionTimestamp"):
            raise RefusalError(409, "Conflict", "the pod is being deleted")
        if pod["spec"].get("nodeName"):
            self.on_bound_again(client, uid)
            raise RefusalError(409, "Conflict", f"the pod is already assigned to node {pod['spec']['nodeName']}")
        self.bind(client, key, node)
        return Answer(201, b'{"kind":"Status","status":"Success"}')

    def bind(self, client: str, key: str, node: str) -> None:
        """Give a pod its node."""

        def assign(pod: JSONObject) -> None:
            pod["spec"]["nodeName"] = node
            pod["status"].pop("nominatedNodeName", None)

        pod = self.change(PODS, key, assign)
        bound = Bound(self._clock(), client, pod["metadata"]["uid"], key, node)
        self.bound.append(bound)
        self.on_bound(pod, bound)

    def _patch_status(self, key: str, body: JSONObject) -> Answer:
        pod = self._pod(key)
        if body["metadata"].get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            raise RefusalError(422, "Invalid", "metadata.uid: Invalid value: field is immutable")

        def patch(pod: JSONObject) -> None:
            status = pod["status"]
            told = body["status"]
            conditions = {found["type"]: found for found in status.get("conditions", ())}
            for condition in told.get("conditions", ()):
                kept = conditions.get(condition["type"], {})
                conditions[condition["type"]] = {k: v for k, v in (kept | condition).items() if v is not None}
            status["conditions"] = list(conditions.values())
            if "nominatedNodeName" in told:
                status["nominatedNodeName"] = told["nominatedNodeName"]
                if not told["nominatedNodeName"]:
                    del status["nominatedNodeName"]

        return Answer(200, _encode(self.change(PODS, key, patch)))

    def _delete_pod(self, key: str, body: JSONObject) -> Answer:
        pod = self._pod(key)
        wanted = body.get("preconditions", {}).get("uid", pod["metadata"]["uid"])
        if wanted != pod["metadata"]["uid"]:
            raise RefusalError(409, "Conflict", "the UID in the precondition is another")
        self.begin_deletion(key)
        return Answer(200, b"{}")

    def begin_deletion(self, key: str) -> None:
        """A pod on a node is terminating until its kubelet has ended it; another one is gone at once."""
        pod = self.objects[PODS][key]
        if not pod["spec"].get("nodeName") or not unfinished(pod):
            self.delete(PODS, key)
        elif not pod["metadata"].get("deletionTimestamp"):

            def end(pod: JSONObject) -> None:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

            self.change(PODS, key, end)

    def _event(self, method: str, path: str, body: JSONObject) -> Answer:
        name = body["metadata"]["name"] if method == "POST" else path.rpartition("/")[2]
        if method == "POST" and name in self._events:
            raise RefusalError(409, "AlreadyExists", name)
        if method == "PATCH" and name not in self._events:
            raise RefusalError(404, "NotFound", name)
        self._events.add(name)
        return Answer(201, b"{}")

    def _lease(self, method: str, parts: list[str], body: JSONObject) -> Answer:
        namespace = parts[parts.index("namespaces") + 1]
        name = body["metadata"]["name"] if method == "POST" else parts[-1]
        key = f"{namespace}/{name}"
        held = self.objects.setdefault(LEASES, {}).get(key)
        if method == "POST":
            body["metadata"].setdefault("namespace", namespace)
            self.leases_renewed[name] = self._clock()
            return Answer(201, _encode(self.create(LEASES, body)))
        if held is None:
            raise RefusalError(404, "NotFound", f"leases {key} not found")
        if method == "GET":
            return Answer(200, _encode(held))
        if body.get("metadata", {}).get("resourceVersion", str(version_of(held))) != str(version_of(held)):
            raise RefusalError(409, "Conflict", "the object has been modified")

        def renew(lease: JSONObject) -> None:
            lease["spec"] = {**lease.get("spec", {}), **body["spec"]} if method == "PATCH" else body["spec"]

        self.leases_renewed[name] = self._clock()
        return Answer(200, _encode(self.change(LEASES, key, renew)))

    def waiting_pods(self, scheduler_name: str) -> Iterator[JSONObject]:
        """Those that the scheduler of that name is to find a node for."""
        for pod in self.pods():
            spec, metadata = pod["spec"], pod["metadata"]
            waits = not spec.get("nodeName") and not metadata.get("deletionTimestamp") and unfinished(pod)
            if waits and spec["schedulerName"] == scheduler_name:
                yield pod


def _exists(obj: JSONObject | None) -> bool:
    return obj is not None
