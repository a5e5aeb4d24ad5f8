"""Where the demo's pods went, and why the rest waits: told from what the API server holds."""

from collections import Counter
from collections.abc import Iterable, Mapping

from rich.console import Console
from rich.table import Table

from schedcache.cli.demo.workload import BOUND, NAMESPACE, NOT_OURS, WAITS, WORKLOADS, ZONES
from schedcache.model import Node, Pod
from schedcache.testing import Cluster, JSONObject

ZONE_LABEL = "topology.kubernetes.io/zone"
_EXPECTED = {workload.name: workload.expected for workload in WORKLOADS}


def expected_of(pod: JSONObject) -> str:
    """What should become of the pod."""
    return _EXPECTED[pod["metadata"]["labels"]["app"]]


def fate(pod: JSONObject) -> str:
    """What has become of the pod; "" while nothing has been said about it."""
    if pod["spec"].get("nodeName"):
        return BOUND
    if pod["spec"]["schedulerName"] != "schedcache":
        return NOT_OURS
    return WAITS if why(pod) else ""


def why(pod: JSONObject) -> str:
    """The reason that the pod's condition gives for waiting."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or condition.get("reason", ""))
    return ""


async def report(cluster: Cluster, console: Console) -> bool:
    """Print the tables; whether all is as it should be."""
    pods = await cluster.list_pods(NAMESPACE)
    nodes = {node["metadata"]["name"]: node for node in await cluster.list_all("/api/v1/nodes")}
    console.print(_placed(pods, nodes))
    console.print(_waiting(pods))
    strays = [pod for pod in pods if fate(pod) != expected_of(pod)]
    for pod in strays:
        name, found = pod["metadata"]["name"], fate(pod) or "nothing yet"
        console.print(f"[red]{name}: expected {expected_of(pod)}, found {found}[/red]")
    crowded = overcommitted(pods, nodes)
    for name in crowded:
        console.print(f"[red]{name}: its pods request more than the node has[/red]")
    expected = sum(workload.count for workload in WORKLOADS)
    if len(pods) != expected:
        console.print(f"[red]{len(pods)} pods instead of {expected}[/red]")
    return not strays and not crowded and len(pods) == expected


def _placed(pods: Iterable[JSONObject], nodes: Mapping[str, JSONObject]) -> Table:
    zones: dict[str, Counter[str]] = {workload.name: Counter() for workload in WORKLOADS}
    used: dict[str, set[str]] = {workload.name: set() for workload in WORKLOADS}
    for pod in pods:
        node = pod["spec"].get("nodeName")
        app = pod["metadata"]["labels"]["app"]
        if node:
            zones[app][nodes[node]["metadata"]["labels"][ZONE_LABEL]] += 1
            used[app].add(node)
    table = Table(title="Where the pods went", title_justify="left")
    table.add_column("workload")
    for column in ("pods", "bound", *ZONES, "nodes used"):
        table.add_column(column, justify="right")
    for workload in WORKLOADS:
        found = zones[workload.name]
        cells = (workload.count, found.total(), *(found[zone] for zone in ZONES), len(used[workload.name]))
        table.add_row(workload.name, *map(str, cells))
    return table


def _waiting(pods: Iterable[JSONObject]) -> Table:
    reasons: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        if not pod["spec"].get("nodeName"):
            found = fate(pod)
            told = "left to default-scheduler" if found == NOT_OURS else why(pod) or "no reason yet"
            reasons[pod["metadata"]["labels"]["app"], told] += 1
    table = Table(title="Why the others are pending", title_justify="left")
    table.add_column("workload")
    table.add_column("pods", justify="right")
    table.add_column("reason", overflow="fold")
    for (app, told), number in reasons.items():
        table.add_row(app, str(number), told)
    return table


def overcommitted(pods: Iterable[JSONObject], nodes: Mapping[str, JSONObject]) -> list[str]:
    """Names of nodes whose pods request more than they have."""
    requested: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    for item in pods:
        pod = Pod.from_dict(item)
        if pod.node_name:
            amounts = pod.requests.resource
            counted = {"cpu": amounts.milli_cpu, "memory": amounts.memory, "pods": 1, **amounts.scalar}
            requested[pod.node_name].update(counted)
    crowded = []
    for name, item in nodes.items():
        has = Node.from_dict(item).allocatable
        limits = {"cpu": has.milli_cpu, "memory": has.memory, "pods": has.allowed_pod_number, **has.scalar}
        if any(amount > limits.get(resource, 0) for resource, amount in requested[name].items()):
            crowded.append(name)
    return crowded
