"""What happens in a simulation, as explicit data: made from a seed, and made smaller by leaving actions out."""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tests.seeds.api_server import NODES, PODS

POD_CPU = (100, 250, 400, 500, 750, 1000, 1500)
NODE_CPU = (1000, 2000, 3000, 4000)
OTHER_SCHEDULER = "default-scheduler"
SHAPES: tuple[tuple[tuple[str, ...], bool], ...] = (
    *[(("a",), False)] * 10,
    *[(("a", "b"), False)] * 4,
    (("a",), True),
    *[(("a", "a-2"), True)] * 3,
    (("a", "a-2", "a-3"), True),
    (("a", "a-2", "b"), True),
)
"""Processes, and whether they have leases."""
WATCH_PATHS = (PODS, NODES)
ABOUT = ("bind", "bind", "bind", "read", "list", "watch", "status", "evict", "event", "write", "all", "lease", "lease")
EFFECTS = (
    *("refuse", "lose request", "lose answer", "lose answer", "swallow request", "swallow answer"),
    *("status", "status", "status after", "slow"),
)
"""Of a fault; what each means, `network.Fault` says."""


def scheduler_of(process: str) -> str:
    """The name of the scheduler that a process is a replica of."""
    return process[0]


class PodSpec(NamedTuple):
    """What matters to scheduling of a pod here; cpu in thousandths, memory in MiB."""

    cpu: int
    memory: int
    priority: int = 0
    disk: str = ""
    tolerates: bool = False
    scheduler: str = "a"


class NodeSpec(NamedTuple):
    """As PodSpec, of a node; `pods`: how many it may have."""

    cpu: int
    memory: int
    pods: int
    disk: str = ""
    tainted: bool = False
    cordoned: bool = False


class Action(NamedTuple):
    """Something that happens `at` so many seconds after the start; `Acts` has a method for each `what`."""

    at: float
    what: str
    args: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.at:8.3f}  {self.what}({', '.join(map(str, self.args))})"


@dataclass(frozen=True)
class Scenario:
    """All of a simulation.

    Attributes:
        seed: of everything that the simulation leaves to chance: how long messages take, ties.
        processes: by name; the first letter is the name of the scheduler that each is.
        leases: replicas of one scheduler share a lease.
        offset: what the clock says at the start.
        tick: seconds that pass whenever a process looks at its clock: work takes time, and long work gives way to other work.
        plugins: `few` or `default`.
        validate: the cache checks itself after each change.
        page_limit: objects on a page of a list.
        actions: in the order of their times; those before 0 make what is there from the start.
        length: after so many seconds, all faults are over.
    """

    seed: int
    processes: tuple[str, ...]
    leases: bool
    offset: float
    tick: float
    plugins: str
    validate: bool
    page_limit: int
    actions: tuple[Action, ...]
    length: float

    def keeping(self, numbers: Iterable[int]) -> "Scenario":
        """Only the actions of those numbers."""
        return replace(self, actions=tuple(self.actions[number] for number in sorted(numbers)))

    def __str__(self) -> str:
        leases = " with leases" if self.leases else ""
        settings = f"processes {', '.join(self.processes)}{leases}; {self.plugins} plugins; pages of {self.page_limit}"
        lines = [f"{settings}; a look at the clock takes {self.tick:g} s; faults are over after {self.length} s"]
        return "\n".join([*lines, *map(str, self.actions)])

    def uses(self, what: str) -> bool:
        return any(action.what == what for action in self.actions)


def make_scenario(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    processes, leases = rng.choice(SHAPES)
    length = round(rng.uniform(8.0, 40.0), 3)
    there = [Action(-1.0, "add_node", (f"n{i}", _node(rng))) for i in range(rng.choice((1, 2, 2, 3, 3, 4, 5)))]
    names = [f"p{i}" for i in range(rng.randint(5, 16))]
    specs = {name: _pod(rng, processes) for name in names}
    early = rng.randint(2, len(names))
    there += [Action(-1.0, "create", (name, specs[name])) for name in names[:early]]
    actions = [Action(_moment(rng, length), "create", (name, specs[name])) for name in names[early:]]
    actions += [_deed(rng, length, names, processes) for _ in range(rng.randint(0, 10))]
    actions += [_replacement(rng, action, processes) for action in actions if rng.random() < 0.1]
    for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 6, 8))):
        actions += _trouble(rng, length, processes)
    if rng.random() < 0.25:
        actions += _restored(rng, length)
    return Scenario(
        seed=seed,
        processes=processes,
        leases=leases,
        offset=rng.uniform(1e6, 1e9),
        tick=rng.choice((0.0, 0.0, 1e-5, 1e-4, 1e-3)),
        plugins=rng.choice(("few", "few", "few", "default")),
        validate=rng.random() < 0.15,
        page_limit=rng.choice((2, 3, 5, 500)),
        actions=tuple(sorted(there + actions, key=lambda action: action.at)),
        length=length,
    )


def _moment(rng: random.Random, length: float) -> float:
    """Often in the first seconds, when most is going on."""
    return round(rng.uniform(0.0, 3.0) if rng.random() < 0.4 else rng.uniform(0.0, length), 3)


def _pod(rng: random.Random, processes: tuple[str, ...]) -> PodSpec:
    return PodSpec(
        cpu=rng.choice(POD_CPU),
        memory=rng.choice((64, 256, 512)),
        priority=rng.choice((0, 0, 0, 0, 5, 10)),
        disk=rng.choice(("", "", "", "ssd")),
        tolerates=rng.random() < 0.2,
        scheduler=scheduler_of(rng.choice(processes)),
    )


def _node(rng: random.Random) -> NodeSpec:
    return NodeSpec(
        cpu=rng.choice(NODE_CPU),
        memory=rng.choice((2048, 4096)),
        pods=rng.choice((3, 5, 110, 110)),
        disk=rng.choice(("ssd", "hdd")),
        tainted=rng.random() < 0.15,
        cordoned=rng.random() < 0.1,
    )


def _replacement(rng: random.Random, action: Action, processes: tuple[str, ...]) -> Action:
    """Something happens to a pod in the moment when it is being decided or bound."""
    at = round(action.at + rng.choice((0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0)), 3)
    name = action.args[0]
    return rng.choice(
        (
            Action(at, "recreate", (name, _pod(rng, processes))),
            Action(at, "delete", (name,)),
            Action(at, "delete_slowly", (name,)),
            Action(at, "relabel", (name, "changed")),
        )
    )


def _deed(rng: random.Random, length: float, names: list[str], processes: tuple[str, ...]) -> Action:
    """What people, controllers, kubelets and other schedulers do."""
    pod, node = rng.choice(names), f"n{rng.randrange(6)}"
    new_pod, new_node = _pod(rng, processes), _node(rng)
    deeds: list[tuple[int, str, tuple[Any, ...]]] = [
        (4, "delete", (pod,)),
        (2, "remove", (pod,)),
        (2, "delete_slowly", (pod,)),
        (5, "recreate", (pod, new_pod)),
        (3, "finish", (pod,)),
        (2, "relabel", (pod, f"v{rng.randrange(9)}")),
        (1, "bind_elsewhere", (pod, node)),
        (1, "foreign", (f"f{rng.randrange(5)}", node, new_pod)),
        (2, "add_node", (node, new_node)),
        (1, "remove_node", (node,)),
        (2, "recreate_node", (node, new_node)),
        (2, "cordon", (node, rng.random() < 0.5)),
        (2, "taint", (node, rng.random() < 0.5)),
        (2, "resize_node", (node, rng.choice(NODE_CPU))),
        (1, "beat", (node,)),
    ]
    _, what, args = rng.choices(deeds, [weight for weight, _, _ in deeds])[0]
    return Action(_moment(rng, length), what, args)


def _trouble(rng: random.Random, length: float, processes: tuple[str, ...]) -> list[Action]:
    """What goes wrong."""
    at, process, path = _moment(rng, length), rng.choice(processes), rng.choice(WATCH_PATHS)
    short, long = round(rng.expovariate(0.5), 3), round(rng.uniform(5.0, 60.0), 3)
    seconds, late = rng.choice((short, short, long)), round(rng.uniform(0.1, 8.0), 3)
    code = rng.choice((403, 429, 429, 500, 503, 504))
    troubles: list[tuple[int, list[Action]]] = [
        (8, [_fault(rng, at, process, seconds, code)]),
        (6, [Action(at, "streams", (process, path, rng.choice(("finish", "cut", "silence", "expire", "garble"))))]),
        (3, [Action(at, "streams", (process, path, rng.choice(("drop", "repeat"))))]),
        (3, [Action(at, "lag", (process, path, late, seconds))]),
        (4, _late_and_unanswered(rng, at, process, seconds, late)),
        (3, [_bind_fault(rng, at, process, seconds), Action(at, "streams", (process, PODS, "silence"))]),
        (2, [Action(at, "compact", ())]),
        (3, [Action(at, "compact", ()), Action(at, "streams", (process, path, "cut"))]),
        (2, [Action(at, "dark", (process, seconds))]),
        (2, [Action(at, "outage", (seconds,))]),
        (2, [Action(at, "freeze", (process, seconds))]),
        (2, _stopped_while_it_waits(rng, at, process, long)),
        (2, [Action(at, "kill", (process, short))]),
        (1, [Action(at, "stop", (process, short))]),
        (1, [Action(at, "turn_wall_clock", (process, rng.choice((-3600.0, 3600.0))))]),
    ]
    return rng.choices(troubles, [weight for weight, _ in troubles])[0][1]


def _restored(rng: random.Random, length: float) -> list[Action]:
    """An older state of the API server comes back, often after it was away."""
    at, age = _moment(rng, length), round(rng.uniform(0.5, 10.0), 3)
    if rng.random() < 0.5:
        return [Action(at, "restore", (age,))]
    seconds = round(rng.expovariate(0.3), 3)
    return [Action(at, "outage", (seconds,)), Action(round(at + rng.uniform(0.0, seconds), 3), "restore", (age,))]


def _late_and_unanswered(rng: random.Random, at: float, process: str, seconds: float, late: float) -> list[Action]:
    """What is read of a pod is newer than what the watch brings for a while."""
    changed = Action(round(at + rng.choice((0.0, 0.01, 0.5)), 3), "relabel_all", ("changed",))
    lag = Action(at, "lag", (process, PODS, late, round(seconds + 5.0, 3)))
    return [lag, _bind_fault(rng, at, process, seconds), *([changed] if rng.random() < 0.5 else [])]


def _stopped_while_it_waits(rng: random.Random, at: float, process: str, seconds: float) -> list[Action]:
    """The process is stopped while it waits to send a bind again, for longer perhaps than its lease lasts."""
    throttled = Action(at, "fault", (process, "bind", "status", 429.0, 5.0, rng.randint(1, 5)))
    return [throttled, Action(round(at + rng.uniform(0.0, 1.0), 3), "freeze", (process, seconds))]


def _bind_fault(rng: random.Random, at: float, process: str, seconds: float) -> Action:
    effect = rng.choice(("lose answer", "lose answer", "swallow answer", "status after", "lose request", "slow"))
    value = round(rng.uniform(0.05, 6.0), 3) if effect == "slow" else 500.0
    return Action(at, "fault", (process, "bind", effect, value, seconds, rng.choice((1, 2, 5, 1000))))


def _fault(rng: random.Random, at: float, process: str, seconds: float, code: int) -> Action:
    what = rng.choice(ABOUT)
    effect = rng.choice(EFFECTS)
    value = float(code)
    if effect == "slow":
        value = round(rng.uniform(0.05, 40.0), 3)
    elif effect == "status after":
        # A 4xx promises that nothing was done.
        value = float(max(code, 500))
    return Action(at, "fault", (process, what, effect, value, seconds, rng.choice((1, 1, 2, 3, 10, 1000))))
