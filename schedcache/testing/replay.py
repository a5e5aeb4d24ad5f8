"""Replays scripts of what happens in a cluster through the real event handlers, queue, plugins and cycles.

A script is a list of steps, each an object with one of these keys:

- `watch` {type, object}: a watch event. `list` (plural), `items`: an answer to a list request, which replaces what was known.
- `clock` n: n seconds pass. `every` n, `for` m, `heartbeat` node: m seconds, a change of nothing but the version each n.
- `repeatLast` n: n more objects like the last one watched, under running names.
- `assume` pod, `node`: a cycle that must choose the node; its binding has not begun when the next step comes.
- `bind` pod, `answer` {code}: the next bind of the pod gets this answer. `bindAnswers` {pod: [code, ...]}: in turn.
- `onFailure` {activate: self}, `pods` glob: a plugin that rejects these pods activates them each time.
- `activate` pod, `times` n.
- `expect`: what must hold now; see `EXPECTATIONS`. Before it, the scheduler works off its queue, unless it only asks in which
  queue pods are.

Scripts about the watch's transport or about leases cannot be replayed here: their steps are refused by name.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from schedcache.cache import PodNotFoundError
from schedcache.kube.watch.kinds import KINDS
from schedcache.model import Pod, parse_quantity
from schedcache.model.quantity import to_milli, to_units
from schedcache.testing.replay_world import ReplayWorld

Step = Mapping[str, Any]
_MILLI = frozenset({"cpu"})


class ReplayError(AssertionError):
    """A step cannot be carried out, or an expectation does not hold; the message has the number of the step."""


def read_script(path: Path) -> list[Step]:
    """The steps of a file `{"kind": "Replay", "steps": [...]}`. Raises ReplayError for any other file."""
    script = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(script, dict) or script.get("kind") != "Replay" or not isinstance(script.get("steps"), list):
        raise ReplayError(f'{path}: expected {{"kind": "Replay", "steps": [...]}}')
    return list(script["steps"])


async def replay(steps: Iterable[Step], config: Mapping[str, Any] | None = None) -> ReplayWorld:
    """Carry out the steps. Returns the world as they leave it. Raises ReplayError."""
    world = ReplayWorld(config)
    replayer = _Replayer(world)
    try:
        for number, step in enumerate(steps):
            try:
                await replayer.carry_out(step)
            except ReplayError as error:
                raise ReplayError(f"step {number} {json.dumps(step)[:200]}: {error}") from None
        await world.settle()
    finally:
        await world.close()
    return world


class _Replayer:
    """Carries out steps, one after the other."""

    def __init__(self, world: ReplayWorld) -> None:
        self.world = world
        self._last: Mapping[str, Any] = {}
        self._versions = 10**6
        self._steps: Mapping[str, Callable[[Step], Awaitable[None]]] = {
            "watch": self._watch,
            "list": self._list,
            "clock": self._clock,
            "heartbeat": self._heartbeat,
            "repeatLast": self._repeat_last,
            "assume": self._assume,
            "bind": self._bind,
            "bindAnswers": self._bind_answers,
            "onFailure": self._on_failure,
            "activate": self._activate,
            "expect": self._expect,
        }

    async def carry_out(self, step: Step) -> None:
        for key, act in self._steps.items():
            if key in step:
                await act(step)
                return
        raise ReplayError(f"none of {', '.join(step)} is a step that a replay of events can carry out")

    async def _watch(self, step: Step) -> None:
        change, obj = step["watch"]["type"], step["watch"]["object"]
        if obj.get("kind") not in KINDS or change not in ("ADDED", "MODIFIED", "DELETED"):
            raise ReplayError(f"a {change} event of a {obj.get('kind')} is the watch's own business")
        self._last = obj
        self.world.tell(change, obj)

    async def _list(self, step: Step) -> None:
        kind = next((kind.name for kind in KINDS.values() if kind.plural == step["list"]), None)
        if kind is None:
            raise ReplayError(f"{step['list']!r} is not listed")
        self.world.tell_list(kind, step["items"])

    async def _clock(self, step: Step) -> None:
        await self.world.settle()
        await self.world.advance(step["clock"])

    async def _heartbeat(self, step: Step) -> None:
        await self.world.settle()
        node = self.world.last_told("Node", step["heartbeat"])
        for _ in range(int(step["for"] / step["every"])):
            self.world.tell("MODIFIED", self._renewed(node))
            await self.world.advance(step["every"])

    async def _repeat_last(self, step: Step) -> None:
        name = self._last["metadata"]["name"]
        stem, number = re.fullmatch(r"(.*?)(\d+)", name).groups()  # type: ignore[union-attr]  # scripts number what they repeat
        for i in range(int(number) + 1, int(number) + 1 + step["repeatLast"]):
            metadata = {"name": f"{stem}{i:0{len(number)}}", "uid": f"{self._last['metadata']['uid']}-{i}"}
            self.world.tell("ADDED", self._renewed({**self._last, "metadata": {**self._last["metadata"], **metadata}}))

    async def _assume(self, step: Step) -> None:
        info = self.world.queue.pop_nowait()
        if info is None or info.pod.full_name != step["assume"]:
            raise ReplayError(f"the next pod in turn is {info.pod.full_name if info else None}")
        node = self.world.attempt(info)
        if node != step["node"]:
            raise ReplayError(f"the cycle chose {node!r}")

    async def _bind(self, step: Step) -> None:
        self.world.api.answers.setdefault(step["bind"], []).append(step["answer"]["code"])
        await self.world.settle()

    async def _bind_answers(self, step: Step) -> None:
        for pod, codes in step["bindAnswers"].items():
            self.world.api.answers.setdefault(pod, []).extend(codes)

    async def _on_failure(self, step: Step) -> None:
        if step["onFailure"] != {"activate": "self"}:
            raise ReplayError("the one thing to do on failure is to activate the pod itself")

        def activate(pod: Pod) -> None:
            # For a pod that is bound after all this has no consequence.
            if fnmatchcase(pod.name, step["pods"]):
                self.world.queue.activate([pod])

        self.world.in_cycle.append(activate)

    async def _activate(self, step: Step) -> None:
        for _ in range(step.get("times", 1)):
            self.world.queue.activate([self.world.pod(step["activate"])])
            await self.world.settle()

    async def _expect(self, step: Step) -> None:
        if step["expect"].keys() != {"inQueue"}:
            await self.world.settle()
        problems = self._problems(step["expect"])
        if problems:
            raise ReplayError("; ".join(problems))

    def _problems(self, expected: Mapping[str, Any]) -> list[str]:
        problems: list[str] = []
        for key, want in expected.items():
            if key == "oneOf":
                found = [self._problems(alternative) for alternative in want]
                if all(found):
                    problems.append("none of: " + " | ".join("; ".join(each) for each in found))
            elif key not in EXPECTATIONS:
                raise ReplayError(f"{key!r} is nothing that a replay of events can see")
            else:
                got = EXPECTATIONS[key](self.world, want)
                if got != want:
                    problems.append(f"{key}: expected {want!r}, found {got!r}")
        return problems

    def _renewed(self, obj: Mapping[str, Any]) -> Mapping[str, Any]:
        self._versions += 1
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._versions)}}


def _requested(world: ReplayWorld, want: Mapping[str, Mapping[str, str]]) -> Any:
    """Amounts compare as quantities: what is equal is shown as it was written."""
    return {name: {r: _amount(world, name, r, text) for r, text in amounts.items()} for name, amounts in want.items()}


def _amount(world: ReplayWorld, node: str, resource: str, written: str) -> str:
    info = world.cache.dump().nodes.get(node)
    if info is None:
        return "no such node"
    columns = {"cpu": info.requested.milli_cpu, "memory": info.requested.memory, "pods": len(info.pods)}
    found = columns.get(resource, info.requested.scalar.get(resource, 0))
    nanos = parse_quantity(written)
    wanted = to_milli(nanos) if resource in _MILLI else to_units(nanos)
    return written if found == wanted else f"{found}m" if resource in _MILLI else str(found)


def _verdict(world: ReplayWorld, want: Mapping[str, Mapping[str, str]]) -> Any:
    """`fit`, or a regular expression that one of the reasons must match."""
    verdicts: dict[str, dict[str, str]] = {}
    for pod, nodes in want.items():
        reasons = world.verdict(world.pod(pod))
        verdicts[pod] = {name: _as_wanted(reasons.get(name), text) for name, text in nodes.items()}
    return verdicts


def _as_wanted(reasons: Sequence[str] | None, want: str) -> str:
    if reasons is None:
        return "fit"
    return want if any(re.search(want, reason) for reason in reasons) else ", ".join(reasons)


def _queued(world: ReplayWorld) -> dict[str, str]:
    dump = world.queue.dump()
    names = {uid: pod.name for uid, pod in dump.pods.items()}
    gated = {uid for uid, pod in dump.pods.items() if pod.gated_by}
    queues = {"active": dump.active, "backoff": dump.backoff + dump.error_backoff}
    found = {names[uid]: queue for queue, uids in queues.items() for uid in uids}
    return found | {names[uid]: "gated" if uid in gated else "unschedulable" for uid in dump.unschedulable}


def _in_queue(world: ReplayWorld, want: Mapping[str, Sequence[str]]) -> Any:
    queued = _queued(world)
    return {pod: names if queued.get(pod) in names else [queued.get(pod, "none")] for pod, names in want.items()}


def _state(world: ReplayWorld, pod: str) -> str:
    found = world.pod(pod)
    try:
        cached = world.cache.get_pod(found)
    except PodNotFoundError:
        return _queued(world).get(pod, "none")
    return "assumed" if world.cache.is_assumed_pod(cached) else "added"


def _bound_within(world: ReplayWorld, want: Mapping[str, int]) -> Any:
    """How many attempts there had been in all when the pod was tried for the last time, if it was bound then."""

    def attempts(pod: str, most: int) -> int | str:
        if pod not in world.api.bound:
            return "not bound"
        last = len(world.attempts) - world.attempts[::-1].index(pod)
        return max(most, last)

    return {pod: attempts(pod, most) for pod, most in want.items()}


def _attempts_at_most(world: ReplayWorld, want: Mapping[str, int]) -> Any:
    return {pod: max(most, world.attempts.count(pod)) for pod, most in want.items()}


def _cached_pods(world: ReplayWorld) -> list[str]:
    return sorted(pod.full_name for info in world.cache.dump().nodes.values() for pod in info.pods)


def _requeued(world: ReplayWorld) -> list[str]:
    return sorted(pod for pod in _queued(world) if pod in world.attempts)


EXPECTATIONS: Mapping[str, Callable[[ReplayWorld, Any], Any]] = {
    "requested": _requested,
    "verdict": _verdict,
    "inQueue": _in_queue,
    "boundWithin": _bound_within,
    "attemptsAtMost": _attempts_at_most,
    "snapshotNodes": lambda world, _: sorted(info.name for info in world.snapshot().node_info_list),
    "cachedPods": lambda world, _: _cached_pods(world),
    "cachedNodes": lambda world, _: sorted(world.cache.dump().nodes),
    "cachedLabels": lambda world, want: {p: dict(world.cache.get_pod(world.pod(p)).labels) for p in want},
    "queued": lambda world, _: sorted(_queued(world)),
    "unschedulable": lambda world, _: sorted(p for p, queue in _queued(world).items() if queue == "unschedulable"),
    "gated": lambda world, _: sorted(p for p, queue in _queued(world).items() if queue == "gated"),
    "requeued": lambda world, _: _requeued(world),
    "order": lambda world, _: world.attempts,
    "state": lambda world, want: {pod: _state(world, pod) for pod in want},
    "bound": lambda world, _: sorted(world.api.bound),
    "boundCount": lambda world, _: len(world.api.bound),
    "posts": lambda world, _: dict(world.api.asked),
    "writes": lambda world, want: world.api.writes[-len(want) :] if want else world.api.writes,
    "noWrites": lambda world, want: [write for write in want if write not in world.api.writes],
}
"""What an `expect` may ask for -> what is so, in the form of what was asked. Lists are sorted."""
