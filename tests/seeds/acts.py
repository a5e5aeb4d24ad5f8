"""Carries out the actions of a scenario: what people and controllers do to the API server, and what goes wrong."""

from collections.abc import Callable
from typing import Any

from schedcache.kube.settings import WatchSettings
from schedcache.testing import node_manifest, pod_manifest
from tests.seeds.api_server import FINISHED, NODES, PODS, ApiServer, Bound, JSONObject
from tests.seeds.network import WORLD, Fault, Network
from tests.seeds.scenario import OTHER_SCHEDULER, NodeSpec, PodSpec
from tests.seeds.virtual_loop import VirtualLoop

TAINT = {"key": "broken", "effect": "NoSchedule"}
TOLERATION = {"key": "broken", "operator": "Exists", "effect": "NoSchedule"}


def pod_object(name: str, spec: PodSpec, node: str = "") -> JSONObject:
    more: dict[str, Any] = {"nodeSelector": {"disk": spec.disk}} if spec.disk else {}
    if spec.tolerates:
        more["tolerations"] = [TOLERATION]
    return pod_manifest(
        name,
        node,
        {"app": name[0]},
        cpu=f"{spec.cpu}m",
        memory=f"{spec.memory}Mi",
        scheduler_name=spec.scheduler,
        priority=spec.priority,
        phase="Running" if node else "Pending",
        **more,
    )


def node_object(name: str, spec: NodeSpec) -> JSONObject:
    return node_manifest(
        name,
        "z" + name[-1],
        labels={"disk": spec.disk},
        cpu=f"{spec.cpu}m",
        memory=f"{spec.memory}Mi",
        pods=str(spec.pods),
        taints=[TAINT] if spec.tainted else [],
        unschedulable=spec.cordoned,
    )


class Acts:
    """A method for each action; one that makes no sense any more, such as deleting a pod that is gone, does nothing.

    Attributes:
        disturbed: names of nodes that got pods, or lost room, behind the scheduler's back: they may be overcommitted.
        lossy: processes from which an event was kept for so long that a comparison with the server takes it for lost.
        late: UIDs of pods whose binding arrived when its sender had given it up.
        restored_at: when the API server last went back to an older state, -inf for never.
    """

    def __init__(self, loop: VirtualLoop, server: ApiServer, network: Network, processes: Any) -> None:
        self.loop = loop
        self.server = server
        self.network = network
        self.processes = processes
        self.disturbed: set[str] = set()
        self.lossy: set[str] = set()
        self.late: set[str] = set()
        self.restored_at = float("-inf")
        self.outage_until = 0.0
        self.backups: list[tuple[float, Any]] = []
        server.on_bound = self._bound

    def later(self, seconds: float, act: Callable[..., None], *args: Any) -> None:
        self.loop.call_later(seconds, act, *args, context=WORLD)

    # ---- pods

    def create(self, name: str, spec: PodSpec) -> None:
        if self.server.get(PODS, f"default/{name}") is None:
            self.server.create(PODS, pod_object(name, spec))

    def foreign(self, name: str, node: str, spec: PodSpec) -> None:
        """A pod that comes with its node, as those of a DaemonSet once did, or static ones."""
        if self.server.get(PODS, f"default/{name}") is None:
            self.disturbed.add(node)
            self.server.create(PODS, pod_object(name, spec._replace(scheduler=OTHER_SCHEDULER), node))

    def delete(self, name: str) -> None:
        if self.server.get(PODS, f"default/{name}") is not None:
            self.server.begin_deletion(f"default/{name}")

    def remove(self, name: str) -> None:
        """Without a grace period."""
        if self.server.get(PODS, f"default/{name}") is not None:
            self.server.delete(PODS, f"default/{name}")

    def delete_slowly(self, name: str) -> None:
        """With a finalizer: it is terminating for a while, even without a node."""
        self._alter(
            PODS,
            f"default/{name}",
            lambda pod: pod["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z"),
        )

    def recreate(self, name: str, spec: PodSpec) -> None:
        self.remove(name)
        self.create(name, spec)

    def finish(self, name: str) -> None:
        self._alter(PODS, f"default/{name}", lambda pod: pod["status"].update(phase="Succeeded"))

    def relabel(self, name: str, value: str) -> None:
        self._alter(PODS, f"default/{name}", lambda pod: pod["metadata"]["labels"].update(app=value))

    def relabel_all(self, value: str) -> None:
        """A controller that changes all its pods."""
        for pod in self.server.pods():
            self.relabel(pod["metadata"]["name"], value)

    def bind_elsewhere(self, name: str, node: str) -> None:
        """Another scheduler takes the pod for its own."""
        pod = self.server.get(PODS, f"default/{name}")
        waits = pod is not None and not pod["spec"].get("nodeName") and pod["status"].get("phase") not in FINISHED
        if waits and self.server.get(NODES, f"/{node}") is not None:
            self.disturbed.add(node)
            self.server.bind(OTHER_SCHEDULER, f"default/{name}", node)

    def _bound(self, pod: JSONObject, bound: Bound) -> None:
        self.loop.call_later(0.7, self._run, pod["metadata"]["uid"], bound, context=WORLD)

    def _run(self, uid: str, bound: Bound) -> None:
        """What a kubelet does; a binding that a restored backup does not have never was."""
        pod = self.server.get(PODS, bound.name)
        if pod is None or pod["metadata"]["uid"] != uid or pod["spec"].get("nodeName") != bound.node:
            return
        if pod["status"].get("phase") == "Pending":
            self._alter(PODS, bound.name, lambda pod: pod["status"].update(phase="Running"))

    def end_terminating(self) -> None:
        """Kubelets end what is to end."""
        for pod in self.server.pods():
            since = pod["metadata"].get("deletionTimestamp")
            if since is not None:
                self.server.delete(PODS, f"default/{pod['metadata']['name']}")

    # ---- nodes

    def add_node(self, name: str, spec: NodeSpec) -> None:
        if self.server.get(NODES, f"/{name}") is None:
            self.server.create(NODES, node_object(name, spec))

    def remove_node(self, name: str) -> None:
        if self.server.get(NODES, f"/{name}") is not None:
            self.disturbed.add(name)
            self.server.delete(NODES, f"/{name}")

    def recreate_node(self, name: str, spec: NodeSpec) -> None:
        self.remove_node(name)
        self.add_node(name, spec)

    def cordon(self, name: str, cordoned: bool) -> None:
        self._alter(NODES, f"/{name}", lambda node: node["spec"].update(unschedulable=cordoned))

    def taint(self, name: str, tainted: bool) -> None:
        self._alter(NODES, f"/{name}", lambda node: node["spec"].update(taints=[TAINT] if tainted else []))

    def resize_node(self, name: str, cpu: int) -> None:
        self.disturbed.add(name)
        self._alter(NODES, f"/{name}", lambda node: node["status"]["allocatable"].update(cpu=f"{cpu}m"))

    def beat(self, name: str) -> None:
        self._alter(NODES, f"/{name}", lambda node: node["metadata"].setdefault("annotations", {}).update(beat="1"))

    def _alter(self, path: str, key: str, alter: Callable[[JSONObject], Any]) -> None:
        if self.server.get(path, key) is not None:
            self.server.change(path, key, alter)

    # ---- what goes wrong

    def fault(self, process: str, about: str, effect: str, value: float, seconds: float, count: int) -> None:
        self.network.add(Fault(process, about, effect, value, self.loop.now + seconds, count))
        if about in ("watch", "all") and effect in ("slow", "swallow request", "swallow answer"):
            # A watch that is being opened brings nothing, either.
            self.lossy.add(process)

    def streams(self, process: str, path: str, how: str) -> None:
        if self.network.lag.get((process, path)) is not None:
            # What is late then begins its way anew, from a stream that is opened after a pause.
            self.lossy.add(process)
        for stream in self.network.streams_of(process, path):
            match how:
                case "silence":
                    stream.silent = True
                    self.lossy.add(process)
                case "expire":
                    stream.fail_with(410)
                case "drop":
                    stream.to_drop += 1
                    self.lossy.add(process)
                case "repeat":
                    stream.to_repeat += 1
                case _:
                    getattr(stream, how)()

    def lag(self, process: str, path: str, seconds: float, duration: float) -> None:
        self.network.lag[process, path] = seconds
        self._keep_events_from(process, seconds)
        self.later(duration, self.network.lag.pop, (process, path), None)

    def _keep_events_from(self, process: str, seconds: float) -> None:
        if seconds > WatchSettings.sweep_grace_seconds:
            self.lossy.add(process)

    def compact(self) -> None:
        self.server.compact()

    def dark(self, process: str, seconds: float) -> None:
        self.network.go_dark(process, seconds)
        self._keep_events_from(process, seconds)
        self.processes[process].away(seconds, KEEPALIVE_AND_LOST)

    def outage(self, seconds: float) -> None:
        """The API server is away."""
        self.network.add(Fault("", "all", "refuse", 0.0, self.loop.now + seconds, 10**9))
        self.lossy.update(process for process, _ in self.network.lag)
        for stream in self.network.streams_of(""):
            stream.cut()
        for process in self.processes.values():
            process.away(seconds, LOST)

    def freeze(self, process: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later; or the whole machine."""
        self.processes[process].freeze(seconds)

    def kill(self, process: str, seconds: float) -> None:
        """SIGKILL, and another one later."""
        self.processes[process].kill(seconds)

    def stop(self, process: str, seconds: float) -> None:
        """SIGTERM, and another one later."""
        self.processes[process].stop(seconds)

    def turn_wall_clock(self, process: str, seconds: float) -> None:
        self.processes[process].wall_offset += seconds

    def restore(self, age: float) -> None:
        """The API server comes back with the state that it had so many seconds before."""
        before = [backup for at, backup in self.backups if at <= self.loop.now - age]
        if before:
            self.server.restore(before[-1])
            self.restored_at = self.loop.now
            # Until it is noticed, what is known of every node is wrong.
            self.disturbed.update(node["metadata"]["name"] for node in self.server.nodes())
            for stream in self.network.streams_of(""):
                stream.cut()

    def back_up(self) -> None:
        self.backups.append((self.loop.now, self.server.backup()))


LOST = 17.0
"""Seconds without any connection after which no process may be ready: 15 by its settings, and some for looking again."""
KEEPALIVE_AND_LOST = 25.0 + LOST
