"""What must never happen (docs/design.md, I1 to I9), checked against what the API server has carried out."""

from collections import defaultdict
from contextlib import suppress
from typing import Any

from schedcache.app.program import Program
from schedcache.cache import Snapshot
from schedcache.ports import FencedError
from tests.seeds.acts import TAINT, Acts
from tests.seeds.api_server import LEASES, NODES, PODS, ApiServer, Bound, JSONObject, unfinished
from tests.seeds.network import process_of
from tests.seeds.process import Process
from tests.seeds.virtual_loop import VirtualLoop

MOST_REQUESTS_PER_SECOND = 200
"""Of one process: about three for each pod that there may be, and those of a start."""


RESTORED_LEASE_SECONDS = 15.0
"""Within the duration of a lease after a restore, its holder has asked about it, or does not lead any more."""


class ViolationError(AssertionError):
    """An invariant does not hold; the message begins with its number."""


def cpu_of(obj: JSONObject) -> int:
    return int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"].removesuffix("m"))


def memory_of(obj: JSONObject) -> int:
    return int(obj["spec"]["containers"][0]["resources"]["requests"]["memory"].removesuffix("Mi"))


def room_of(node: JSONObject) -> tuple[int, int, int]:
    """cpu in thousandths, memory in MiB, pods."""
    found = node["status"]["allocatable"]
    return int(found["cpu"].removesuffix("m")), int(found["memory"].removesuffix("Mi")), int(found["pods"])


def used_by(pods: list[JSONObject]) -> tuple[int, int, int]:
    return sum(map(cpu_of, pods)), sum(map(memory_of, pods)), len(pods)


def fits(used: tuple[int, int, int], room: tuple[int, int, int]) -> bool:
    return all(u <= r for u, r in zip(used, room, strict=True))


def suits(pod: JSONObject, node: JSONObject) -> bool:
    """Whether the pod may be on the node, room aside."""
    if node["spec"].get("unschedulable"):
        return False
    if node["spec"].get("taints") == [TAINT] and not pod["spec"].get("tolerations"):
        return False
    wanted = pod["spec"].get("nodeSelector", {})
    return all(node["metadata"]["labels"].get(key) == value for key, value in wanted.items())


class Invariants:
    """Looks on, and raises or reports the first violation.

    Attributes:
        broken: the first violation, "" for none.
        logged: what processes logged as errors.
    """

    def __init__(self, loop: VirtualLoop, server: ApiServer, acts: Acts, processes: dict[str, Process]) -> None:
        self.loop = loop
        self.server = server
        self.acts = acts
        self.processes = processes
        self.broken = ""
        self.logged: list[str] = []
        self._bound_before = server.on_bound
        self._sent_before = 0
        server.on_bound_again = self._bound_again
        acts.network.arrives = self._arrives
        server.on_bound = self._bound

    def report(self, text: str) -> None:
        self.broken = self.broken or text

    # ---- at every decision

    def watch(self, process: Process, client: str, program: Program) -> None:
        """Look over the shoulder of a scheduler that has just been put together."""
        scheduler, cache = program.scheduler, program.scheduler.state.cache
        assume, update, run = cache.assume_pod, cache.update_snapshot, scheduler.cycle.run
        seen = [-1, 0]

        def update_snapshot(snapshot: Snapshot) -> None:
            update(snapshot)
            if snapshot.generation < seen[0]:
                self.report(f"I6: {client}: the generation fell from {seen[0]} to {snapshot.generation}")
            seen[:] = snapshot.generation, cache._entries.generation
            known = scheduler.handlers._nodes
            if snapshot.node_info_map.keys() != known.keys():
                self.report(f"I6: {client}: a snapshot of {sorted(snapshot.node_info_map)}, but nodes {sorted(known)}")

        def assume_pod(pod: Any, cause: str = "") -> None:
            if cycles and cache._entries.generation != seen[1]:
                self.report(f"I6: {client}: the cluster changed between snapshot and decision of {pod.full_name}")
            assume(pod, cause)
            seen[1] = cache._entries.generation
            process.decided.add((pod.uid, pod.node_name))
            if cycles:
                self._check_own_view(client, pod.node_name, cache)

        cycles: list[Any] = []

        def run_cycle(info: Any) -> Any:
            cycles.append(info)
            try:
                return run(info)
            finally:
                cycles.pop()

        cache.assume_pod, cache.update_snapshot, scheduler.cycle.run = assume_pod, update_snapshot, run_cycle

    def _check_own_view(self, client: str, name: str, cache: Any) -> None:
        info = cache.nodes[name]
        pods = list(info.pods_by_uid.values())
        used = sum(pod.requests.resource.milli_cpu for pod in pods), len(pods)
        room = info.node.allocatable.milli_cpu, info.node.allocatable.allowed_pod_number
        if used[0] > room[0] or used[1] > room[1]:
            self.report(f"I2: {client} overcommits {name} in its own view: {used} of {room}")

    # ---- at every binding

    def _bound(self, pod: JSONObject, bound: Bound) -> None:
        self._bound_before(pod, bound)
        process = self.processes.get(process_of(bound.client))
        if process is None:
            return
        if (bound.uid, bound.node) not in process.decided:
            self.report(f"I1: {bound.client} bound {bound.uid} to {bound.node}, which it never decided")
        if bound.client in process.dead_clients:
            # Sent before it was killed; its successor could not know.
            self.acts.disturbed.add(bound.node)
        times = [b for b in self.server.bound if b.uid == bound.uid]
        if len(times) > 1 and bound.uid not in self.server.unbound_by_restore:
            self.report(f"I1: {bound.uid} was bound {len(times)} times: {times}")
        self._check_room(bound)

    def _bound_again(self, client: str, uid: str) -> None:
        """A bind of a pod that the same process has bound before: it had no answer, and did not ask."""
        again = [b for b in self.server.bound if b.client == client and b.uid == uid]
        # Of a pod that has finished, and was read, the watch may still bring how it was before; the API server then refuses the bind.
        if (
            again
            and uid not in self.acts.late | self.server.unbound_by_restore
            and unfinished(self.server.get(PODS, again[0].name))
        ):
            self.report(f"I1: {client} binds {uid} again")

    def _arrives(self, client: str, what: str) -> None:
        """Of a scheduler with a lease, nothing may arrive that decides something once the lease can be somebody else's.

        A restored backup may have no lease, or one of somebody who held it before. Its holder cannot know before it renews it the
        next time, while whoever the backup says it is may renew it at once.
        """
        process = self.processes.get(process_of(client))
        if process is None or process.program is None or what not in ("bind", "evict"):
            return
        if process.program.elector is None or self.set_back(RESTORED_LEASE_SECONDS):
            return
        if client in process.dead_clients:
            # It would have given the request up in time.
            return
        lease = self.server.get(LEASES, f"kube-system/{process.scheduler}")
        holder = lease["spec"]["holderIdentity"] if lease is not None else None
        age = self.loop.now - self.server.leases_renewed.get(process.scheduler, 0.0)
        if holder != client or age > lease["spec"]["leaseDurationSeconds"]:
            self.report(f"I7: a {what} of {client} arrives, and the lease is {holder}'s, renewed {age:.3f} s ago")

    def set_back(self, seconds: float) -> bool:
        """Whether the API server was restored from an older state within so many seconds before."""
        return self.loop.now - self.acts.restored_at < seconds

    def _check_leaders(self) -> None:
        """By their own clocks, as a process may not have had the time to notice."""
        if self.set_back(RESTORED_LEASE_SECONDS):
            return
        leaders: dict[str, list[str]] = defaultdict(list)
        for process in self.processes.values():
            elector = process.program.elector if process.runs else None
            if elector is not None and elector.leading:
                with suppress(FencedError):
                    elector.fence.allow(1.0)
                    leaders[process.scheduler].append(process.client)
        if several := [found for found in leaders.values() if len(found) > 1]:
            self.report(f"I7: several replicas lead: {several}")

    def _check_room(self, bound: Bound) -> None:
        """Only where no other scheduler writes to the nodes can a scheduler answer for them."""
        node = self.server.get(NODES, f"/{bound.node}")
        if len(self.processes) > 1 or bound.node in self.acts.disturbed or node is None:
            return
        used, room = used_by(self._pods_on(bound.node)), room_of(node)
        if not fits(used, room):
            self.report(f"I2: {bound.client} bound {bound.name} to {bound.node}, which is full: {used} of {room}")

    def _pods_on(self, node: str) -> list[JSONObject]:
        return [pod for pod in self.server.pods() if pod["spec"].get("nodeName") == node and unfinished(pod)]

    # ---- every second

    def each_second(self) -> None:
        for process in self.processes.values():
            if not process.runs:
                continue
            program = process.program
            assert program is not None
            if self.loop.now - max(process.frozen_until, process.started_at) > 3.0:
                lame = {name: why for name, why in process.health.live().items() if why}
                if lame and not program.stopping:
                    self.report(f"I8: {process.client} is not alive: {lame}")
            ready = not any(process.health.ready().values())
            if ready and not program.source.has_synced():
                self.report(f"I8: {process.client} is ready before it has synced")
            if ready and process.must_know_that_it_is_cut_off():
                self.report(f"I8: {process.client} is ready, and cut off since {process.out_of_reach}")
            self._check_own_pods(process)
        self._check_leaders()
        self._check_effort()

    def _check_own_pods(self, process: Process) -> None:
        """What it has bound itself, it has to count, seen or not, until it is gone.

        A restored backup may undo the binding; or the end, which has been seen, while the binding is being sent.
        """
        excused = self.acts.late | self.server.revived_by_restore
        states = process.program.scheduler.state.cache.pod_states
        for bound in self.server.bound:
            if bound.client != process.client or bound.uid in excused or bound.at <= self.acts.restored_at:
                continue
            pod = self.server.get(PODS, bound.name)
            if pod is None or pod["metadata"]["uid"] != bound.uid or not unfinished(pod):
                continue
            state = states.get(bound.uid)
            if pod["spec"].get("nodeName") == bound.node and (state is None or state.pod.node_name != bound.node):
                self.report(f"I2: {process.client} has bound {bound.uid} to {bound.node}, and does not count it there")

    def _check_effort(self) -> None:
        """A loop that asks again and again at once."""
        sent = self.acts.network.sent - self._sent_before
        if sent > MOST_REQUESTS_PER_SECOND * len(self.processes):
            self.report(f"I9: {sent} requests in a second")
        self._sent_before += sent

    # ---- at rest

    def problems(self) -> list[str]:
        """What keeps the world from being at rest."""
        found: list[str] = []
        for process in self.processes.values():
            if not process.runs or not process.program.source.has_synced():
                return [f"I5: {process.client} does not run, or has not synced"]
            found += [f"{problem} ({process.client})" for problem in self._problems_of(process)]
        return found

    def _problems_of(self, process: Process) -> list[str]:
        program = process.program
        scheduler, state = program.scheduler, program.scheduler.state
        found = self._differences(state, scheduler.handlers)
        dump = state.queue.dump()
        leaks = {
            "assumed": sorted(state.cache.assumed_pods),
            "in flight": list(dump.in_flight),
            "events kept for pods in flight": [e for kind, e in dump.in_flight_events if kind == "event"],
            "bindings": len(scheduler.bindings),
            "waiting writes": sum(writer.waiting for writer in program._writers),
            "binds without an answer": program.binder.in_flight,
        }
        found += [f"I3: {what}: {left}" for what, left in leaks.items() if left]
        waiting = {pod["metadata"]["uid"] for pod in self.server.waiting_pods(process.scheduler)}
        if dump.pods.keys() != waiting:
            found.append(f"I3: the queue holds {sorted(dump.pods)}, waiting are {sorted(waiting)}")
        everywhere = {p["metadata"]["uid"] for p in self.server.pods() if not p["spec"].get("nodeName")}
        if ghosts := {uid for uids in dump.nominated.values() for uid in uids} - everywhere:
            found.append(f"I3: nominated, and not waiting: {sorted(ghosts)}")
        found += [f"I5: {name} is pending, and fits" for name in self._pending_for_nothing(process.scheduler)]
        if unready := {name: why for name, why in process.health.ready().items() if why}:
            found.append(f"I8: not ready: {unready}")
        return found + self._excess(process, program)

    def _excess(self, process: Process, program: Program) -> list[str]:
        found = []
        streams = [stream for stream in self.acts.network.streams if stream.client == process.client]
        kinds = len(program.source.ages())
        if len(streams) != kinds:
            found.append(f"I9: {len(streams)} watches for {kinds} kinds")
        for name, stats in program.source.stats.kinds.items():
            if stats.repaired and process.name not in self.acts.lossy and self.acts.restored_at < 0:
                self.report(f"I4: the watch of {name} lost events: {dict(stats.repaired)} ({process.client})")
            if stats.crashes or stats.sink_errors:
                self.report(f"I4: the watch of {name} crashed ({process.client})")
        return found

    def _differences(self, state: Any, handlers: Any) -> list[str]:
        """Between what a scheduler holds and what the API server has."""
        found = []
        truth = {n["metadata"]["name"]: _identity(n) for n in self.server.nodes()}
        held = {node.name: (node.uid, node.resource_version) for node in handlers._nodes.values()}
        if truth != held:
            found.append(f"I4: nodes: {_differing(truth, held)}")
        pods = [pod for pod in self.server.pods() if unfinished(pod)]
        truth = {pod["metadata"]["name"]: _identity(pod) for pod in pods}
        held = {pod.name: (pod.uid, pod.resource_version) for pod in state.pods.values()}
        if truth != held:
            found.append(f"I4: pods: {_differing(truth, held)}")
        by_node: dict[str, list[JSONObject]] = defaultdict(list)
        for pod in pods:
            if pod["spec"].get("nodeName"):
                by_node[pod["spec"]["nodeName"]].append(pod)
        room = {name: used_by(on) for name, on in by_node.items()}
        counted = {
            name: (info.requested.milli_cpu, info.requested.memory // 1024**2, len(info.pods_by_uid))
            for name, info in state.cache.nodes.items()
            if info.pods_by_uid or info.requested.milli_cpu
        }
        if room != counted:
            found.append(f"I4: room taken: {_differing(room, counted)}")
        known = {name for name, info in state.cache.nodes.items() if info.node is not None}
        if known != {node["metadata"]["name"] for node in self.server.nodes()}:
            found.append(f"I4: cached nodes: {sorted(known)}")
        return found

    def _pending_for_nothing(self, scheduler_name: str) -> list[str]:
        found = []
        for pod in self.server.waiting_pods(scheduler_name):
            for node in self.server.nodes():
                if not suits(pod, node):
                    continue
                priority = pod["spec"]["priority"]
                # Those of lower priority can be preempted.
                staying = [p for p in self._pods_on(node["metadata"]["name"]) if p["spec"]["priority"] >= priority]
                if fits(used_by([*staying, pod]), room_of(node)):
                    found.append(f"{pod['metadata']['name']} ({node['metadata']['name']})")
                    break
        return found

    def final(self) -> None:
        """Recompute everything that the caches keep up to date step by step."""
        for process in self.processes.values():
            process.program.scheduler.state.cache.check(Snapshot())


def _identity(obj: JSONObject) -> tuple[str, str]:
    return obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]


def _differing(truth: dict[str, Any], held: dict[str, Any]) -> str:
    names = sorted(name for name in truth.keys() | held.keys() if truth.get(name) != held.get(name))
    return "; ".join(f"{name}: the API has {truth.get(name)}, held is {held.get(name)}" for name in names[:4])
