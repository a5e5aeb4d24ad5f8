"""The cache as one would write it without a thought for speed: dicts, and every sum made anew when asked for."""

from collections import Counter
from typing import Any

from schedcache.model import Node, Pod


class NaiveCache:
    """Each method gives the kind of the error, or None. Times are a number that the caller holds."""

    def __init__(self, ttl: float) -> None:
        self.ttl = ttl
        self.pods: dict[str, Pod] = {}
        self.assumed: set[str] = set()
        self.deadlines: dict[str, float] = {}
        self.nodes: dict[str, Node] = {}
        self.recent_first: list[str] = []

    def assume_pod(self, pod: Pod) -> str | None:
        if not pod.uid:
            return "no_uid"
        if pod.uid in self.pods:
            return "already_cached"
        if not pod.node_name:
            return "no_node_name"
        self.assumed.add(pod.uid)
        self._put(pod)
        return None

    def finish_binding(self, pod: Pod, now: float) -> str | None:
        if not pod.uid:
            return "no_uid"
        if pod.uid in self.assumed and self.ttl:
            self.deadlines[pod.uid] = now + self.ttl
        return None

    def forget_pod(self, pod: Pod) -> str | None:
        kind = self._unknown(pod)
        if kind is None and self.pods[pod.uid].node_name != pod.node_name:
            kind = "wrong_node"
        if kind is None and pod.uid not in self.assumed:
            kind = "not_assumed"
        if kind is None:
            self._take(pod.uid)
        return kind

    def add_pod(self, pod: Pod) -> str | None:
        if not pod.uid:
            return "no_uid"
        if pod.uid in self.pods and pod.uid not in self.assumed:
            return "already_added"
        if not pod.node_name:
            return "no_node_name"
        if pod.uid in self.pods:
            self._take(pod.uid)
        self._put(pod)
        return None

    def update_pod(self, old: Pod, new: Pod) -> str | None:
        if not old.uid or not new.uid:
            return "no_uid"
        kind = self._unknown(old)
        if kind is not None:
            return kind
        if old.uid in self.assumed:
            return "is_assumed"
        if old.uid != new.uid:
            if new.uid in self.pods and new.uid not in self.assumed:
                return "already_added"
            self._take(old.uid)
            return self.add_pod(new) if new.node_name else None
        if new.node_name != self.pods[old.uid].node_name:
            return "corruption"
        self._take(old.uid)
        self._put(new)
        return None

    def remove_pod(self, pod: Pod) -> str | None:
        kind = self._unknown(pod)
        if kind is None and pod.node_name not in ("", self.pods[pod.uid].node_name):
            kind = "corruption"
        if kind is None:
            self._take(pod.uid)
        return kind

    def expired(self, now: float) -> set[str]:
        return {uid for uid, deadline in self.deadlines.items() if now > deadline}

    def expire_pod(self, pod: Pod, now: float) -> str | None:
        kind = self._unknown(pod)
        if kind is None and pod.uid not in self.assumed:
            kind = "not_assumed"
        if kind is None and pod.uid not in self.expired(now):
            kind = "not_expired"
        if kind is None:
            self._take(pod.uid)
        return kind

    def set_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self._touch(node.name)

    def remove_node(self, name: str) -> str | None:
        if name not in self.recent_first:
            return "unknown_node"
        known = self.nodes.pop(name, None)
        self._touch(name)
        return None if known is not None else "unknown_node"

    def reset(self, keep: list[str]) -> None:
        kept = {uid: self.pods[uid] for uid in keep if uid in self.assumed}
        deadlines = {uid: deadline for uid, deadline in self.deadlines.items() if uid in kept}
        self.pods, self.nodes, self.recent_first = {}, {}, []
        self.assumed, self.deadlines = set(kept), deadlines
        for pod in kept.values():
            self._put(pod)

    def view(self, name: str) -> dict[str, Any]:
        """What the node is to show, added up."""
        pods = self.on(name)
        requested: Counter[str] = Counter()
        for pod in pods:
            amounts = pod.requests.resource
            requested.update(cpu=amounts.milli_cpu, memory=amounts.memory, disk=amounts.ephemeral_storage)
            requested.update(amounts.scalar)
        ports = Counter(port for pod in pods for port in pod.spec.host_ports)
        claims = Counter(f"{p.namespace}/{v.claim_name}" for p in pods for v in p.volumes if v.claim_name)
        return {
            "node": self.nodes.get(name),
            "pods": {id(pod) for pod in pods},
            "affinity": {p.uid for p in pods if p.spec.has_pod_affinity},
            "anti-affinity": {p.uid for p in pods if p.spec.pod_anti_affinity},
            "requested": {key: amount for key, amount in requested.items() if amount},
            "non-zero": (
                sum(p.requests.non_zero_milli_cpu for p in pods),
                sum(p.requests.non_zero_memory for p in pods),
            ),
            "ports": dict(ports),
            "claims": dict(claims),
        }

    def on(self, name: str) -> list[Pod]:
        return [pod for pod in self.pods.values() if pod.node_name == name]

    def used_pvcs(self) -> set[str]:
        return {claim for name in self.nodes for claim in self.view(name)["claims"]}

    def _unknown(self, pod: Pod) -> str | None:
        if not pod.uid:
            return "no_uid"
        return None if pod.uid in self.pods else "not_found"

    def _put(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._touch(pod.node_name)

    def _take(self, uid: str) -> None:
        pod = self.pods.pop(uid)
        self.assumed.discard(uid)
        self.deadlines.pop(uid, None)
        self._touch(pod.node_name)

    def _touch(self, name: str) -> None:
        if name in self.recent_first:
            self.recent_first.remove(name)
        if name in self.nodes or self.on(name):
            self.recent_first.insert(0, name)
