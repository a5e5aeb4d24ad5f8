"""What must be true of a cluster and of what a scheduler believes about it, once nothing is under way."""

from collections import Counter
from typing import Any

from schedcache.dump import Dump
from schedcache.model import Node, Pod
from schedcache.testing import Cluster, wait_until

FINISHED = ("Succeeded", "Failed")


async def unfinished(cluster: Cluster) -> dict[str, tuple[str, str, str]]:
    """UID -> namespace, name and node of every pod that has not finished."""
    return {
        pod["metadata"]["uid"]: (pod["metadata"]["namespace"], pod["metadata"]["name"], pod["spec"].get("nodeName", ""))
        for pod in await cluster.list_pods()
        if pod["status"].get("phase") not in FINISHED
    }


def believed(dump: Dump) -> dict[str, tuple[str, str, str]]:
    """The same, as a scheduler's dump tells it."""
    return {uid: (pod.namespace, pod.name, pod.node) for uid, pod in dump.pods.items()}


def nodes_in(dump: Dump) -> set[str]:
    """The nodes that exist; those that are held for their pods alone left out."""
    return {name for name, node in dump.nodes.items() if node.present}


def at_rest(dump: Dump) -> bool:
    return not dump.assumed and not dump.queue.in_flight and not dump.queue.in_flight_events


def same_sums(dump: Dump, pods: list[dict[str, Any]]) -> None:
    """Every node's sums are those of the pods on it, counted afresh."""
    requested: dict[str, Counter[str]] = {name: Counter() for name in dump.nodes}
    uids: dict[str, list[str]] = {name: [] for name in dump.nodes}
    for item in pods:
        pod = Pod.from_dict(item)
        if pod.node_name and not pod.finished:
            requested[pod.node_name] += Counter(
                milli_cpu=pod.requests.resource.milli_cpu, memory=pod.requests.resource.memory
            )
            uids[pod.node_name].append(pod.uid)
    for name, node in dump.nodes.items():
        told = {"milli_cpu": node.requested.milli_cpu, "memory": node.requested.memory}
        assert told == {key: requested[name][key] for key in told}, name
        assert list(node.pods) == sorted(uids[name]), name


async def assert_dump_is_truth(cluster: Cluster, read_dump: Any, timeout: float = 20.0) -> Dump:
    """The dump comes to equal the API, with nothing assumed and nothing in flight."""
    last: dict[str, Dump] = {}

    async def equal() -> bool:
        last["dump"] = await read_dump()
        if not at_rest(last["dump"]) or believed(last["dump"]) != await unfinished(cluster):
            return False
        return nodes_in(last["dump"]) == {node["metadata"]["name"] for node in await cluster.list_all("/api/v1/nodes")}

    try:
        await wait_until(equal, timeout)
    except TimeoutError:
        dump = last["dump"]
        expected = await unfinished(cluster)
        differing = {
            uid: (believed(dump).get(uid), expected.get(uid)) for uid in believed(dump).keys() | expected.keys()
        }
        differing = {uid: pair for uid, pair in differing.items() if pair[0] != pair[1]}
        raise AssertionError(
            f"not the truth: nodes {sorted(nodes_in(dump))}, assumed {dump.assumed}, "
            f"in flight {dump.queue.in_flight}, differing {differing}"
        ) from None
    same_sums(last["dump"], await cluster.list_pods())
    return last["dump"]


async def assert_no_node_is_overcommitted(cluster: Cluster) -> None:
    used: dict[str, Counter[str]] = {}
    for item in await cluster.list_pods():
        pod = Pod.from_dict(item)
        if pod.node_name and not pod.finished:
            amounts = pod.requests.resource
            used.setdefault(pod.node_name, Counter()).update(cpu=amounts.milli_cpu, memory=amounts.memory, pods=1)
    for item in await cluster.list_all("/api/v1/nodes"):
        node = Node.from_dict(item)
        has = {"cpu": node.allocatable.milli_cpu, "memory": node.allocatable.memory}
        has["pods"] = node.allocatable.allowed_pod_number
        for resource, amount in used.get(node.name, {}).items():
            assert amount <= has[resource], (node.name, resource)


async def assert_bound_once(cluster: Cluster, *, server_was_killed: bool = False) -> None:
    """By the API server's own log: one binding for each pod, to the node that it has.

    A server that was killed may have stored a binding and not have come to log it: then no line is no fault. A request
    whose client was killed is logged with the answer that could not be given any more (504, or none), although it may have
    been carried out: it counts for a pod that has a node and no other binding.
    """
    await cluster.audit.settled(cluster)
    certain = cluster.audit.bindings()
    unanswered: dict[tuple[str, str, str], list[str]] = {}
    for event in cluster.audit.events(resource="pods", subresource="binding"):
        if event.status in (0, 504):
            body = event.body or {}
            key = (event.namespace, event.name, body["metadata"]["uid"])
            unanswered.setdefault(key, []).append(body["target"]["name"])
    for pod in await cluster.list_pods():
        if pod["spec"]["schedulerName"] == "schedcache" and pod["spec"].get("nodeName"):
            metadata, node = pod["metadata"], pod["spec"]["nodeName"]
            key = (metadata["namespace"], metadata["name"], metadata["uid"])
            logged = certain.get(key, unanswered.get(key))
            assert logged == [node] or (server_was_killed and logged is None), key
