"""The pods of every node as numpy columns, the most important first: what preemption asks of all nodes at once."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import numpy as np
import numpy.typing as npt

from schedcache.cache.columns import Columns
from schedcache.cache.node_info import NodeInfo
from schedcache.model import Pod, PodRequests, PodShape

Int64s = npt.NDArray[np.int64]
Kinds = npt.NDArray[np.int32]

NO_POD = 0
"""The kind of a slot that holds no pod: of the highest priority of all, asking for nothing."""
NOT_STARTED = 2**62
"""The start of a pod without start time: later than any."""
_LIMIT = 2**62
_FIRST_KINDS = 64
_ALL_AT_ONCE = 2**62
_NON_ZERO = ("non-zero cpu", "non-zero memory")

_Kind = tuple[PodShape, PodRequests]


class PodTable:
    """Belongs to one snapshot and follows its rows: `kinds[row, slot]` and `starts[row, slot]`, `NO_POD` beyond the last pod.

    Slots go by importance: priority first (higher), then start (earlier), as kube-scheduler 1.37 orders victims, then
    namespace and name, so that the order never depends on that of events. Starts are in microseconds. A kind is a shape with
    what its pods request; what is the same for all pods of a kind is in arrays by kind: `priority`, `amounts(resource)`.

    Nothing is kept before the first `refresh`, and `kinds`, `starts` and `priority` are good until the next one.
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._version = -1
        self.kinds: Kinds = np.zeros((0, 0), np.int32)
        self.starts: Int64s = np.zeros((0, 0), np.int64)
        self.priority: Int64s = np.full(_FIRST_KINDS, _LIMIT, np.int64)
        self._kind_of: dict[_Kind, int] = {}
        self._by_kind: list[_Kind | None] = [None]
        self._uses = [1]
        self._free: list[int] = []
        self._amounts: dict[str, Int64s] = {}

    def refresh(self) -> "PodTable":
        """Look again at the rows that changed since the last time."""
        for _ in self.refresh_in_pieces(_ALL_AT_ONCE):
            pass
        return self

    def refresh_in_pieces(self, size: int) -> Iterator[None]:
        """The same, pausing after every `size` pods. The snapshot may not change before the last piece is done.

        If it is abandoned before that, the next refresh starts over.
        """
        columns = self._columns
        if self._version == columns.version:
            return
        self._widen(len(columns.generation), int(columns.pod_count.max(initial=0)))
        infos, left = columns.infos, size
        for row in self._due().tolist():
            self._write(row, infos[row])
            left -= len(infos[row].pods) + 1
            if left <= 0:
                yield
                left = size
        self._version = columns.version

    def behind(self) -> int:
        """How many pods a refresh would look at; it takes a few microseconds for each."""
        return 0 if self._version == self._columns.version else int(self._columns.pod_count[self._due()].sum())

    def _due(self) -> npt.NDArray[np.intp]:
        return self._columns.order if self._version < 0 else self._columns.changed_since(self._version)

    def pods(self, row: int) -> list[Pod]:
        """The pods of a row, by slot."""
        return _ranked(self._columns.infos[row])

    def shape(self, kind: int) -> PodShape | None:
        """The shape of a kind; None for `NO_POD`."""
        found = self._by_kind[kind]
        return found[0] if found is not None else None

    def amounts(self, resource: str) -> Int64s:
        """By kind, what one pod requests: milli-CPU, bytes or whole units."""
        return self._column(resource)

    def non_zero_amounts(self, index: int) -> Int64s:
        """By kind, milli-CPU (0) or bytes (1), with what containers that name no request count for in scores."""
        return self._column(_NON_ZERO[index])

    def check(self) -> list[str]:
        """What differs from a table made anew, one line each; empty is good. Rows that changed since `refresh` are left out."""
        columns, found, uses = self._columns, [], Counter({NO_POD: 1})
        for row, name in enumerate(columns.names[: len(self.kinds)]):
            kinds = self.kinds[row][self.kinds[row] != NO_POD].tolist()
            uses.update(kinds)
            if name and columns.generation[row] <= self._version:
                pods = _ranked(columns.infos[row])
                shown = list(zip([self._by_kind[kind] for kind in kinds], self.starts[row].tolist(), strict=False))
                if shown != [((pod.shape, pod.requests), started(pod)) for pod in pods]:
                    found.append(f"node {name}: {len(kinds)} pods that are not its {len(pods)}")
        if dict(uses) != {kind: number for kind, number in enumerate(self._uses) if number}:
            found.append("kinds are not counted as often as they are used")
        found += [f"{what} of pods such as those in {key[0].namespace}" for what, key in self._wrong_amounts()]
        return found

    def _wrong_amounts(self) -> Iterator[tuple[str, _Kind]]:
        for kind, key in enumerate(self._by_kind):
            if key is not None:
                if self.priority[kind] != key[0].spec.priority:
                    yield "priority", key
                yield from ((n, key) for n, column in self._amounts.items() if column[kind] != _amount(key[1], n))

    def _column(self, name: str) -> Int64s:
        column = self._amounts.get(name)
        if column is None:
            column = self._amounts[name] = np.zeros(len(self.priority), np.int64)
            for kind, found in enumerate(self._by_kind):
                if found is not None:
                    column[kind] = _amount(found[1], name)
        return column

    def _write(self, row: int, info: NodeInfo) -> None:
        pods = _ranked(info)
        number = len(pods)
        # Those that come are counted first: a kind that stays must not be given up for a moment.
        kinds = [self._use(pod) for pod in pods]
        before = self.kinds[row]
        for kind in before[before != NO_POD].tolist():
            self._release(kind)
        self.kinds[row, :number] = kinds
        self.kinds[row, number:] = NO_POD
        self.starts[row, :number] = [started(pod) for pod in pods]

    def _use(self, pod: Pod) -> int:
        key = pod.shape, pod.requests
        kind = self._kind_of.get(key)
        if kind is None:
            kind = self._kind_of[key] = self._new_kind(key)
        self._uses[kind] += 1
        return kind

    def _new_kind(self, key: _Kind) -> int:
        if self._free:
            kind = self._free.pop()
            self._by_kind[kind] = key
        else:
            kind = len(self._by_kind)
            self._by_kind.append(key)
            self._uses.append(0)
            if kind == len(self.priority):
                self._grow_kinds()
        shape, requests = key
        self.priority[kind] = shape.spec.priority
        for name, column in self._amounts.items():
            column[kind] = _amount(requests, name)
        return kind

    def _release(self, kind: int) -> None:
        self._uses[kind] -= 1
        if not self._uses[kind]:
            key = self._by_kind[kind]
            if key is not None:
                del self._kind_of[key]
            self._by_kind[kind] = None
            self.priority[kind] = _LIMIT
            self._free.append(kind)

    def _grow_kinds(self) -> None:
        size = len(self.priority)
        self.priority = np.concatenate([self.priority, np.full(size, _LIMIT, np.int64)])
        more = np.zeros(size, np.int64)
        self._amounts = {name: np.concatenate([column, more]) for name, column in self._amounts.items()}

    def _widen(self, rows: int, width: int) -> None:
        old_rows, old_width = self.kinds.shape
        if rows <= old_rows and width <= old_width:
            return
        rows, width = max(rows, old_rows), max(width, old_width)
        kinds, starts = np.zeros((rows, width), np.int32), np.zeros((rows, width), np.int64)
        kinds[:old_rows, :old_width], starts[:old_rows, :old_width] = self.kinds, self.starts
        self.kinds, self.starts = kinds, starts


def started(pod: Pod) -> int:
    """When the pod started, in microseconds; a pod that has not, or whose start time is no time, started last of all."""
    if not pod.start_time:
        return NOT_STARTED
    try:
        return round(datetime.fromisoformat(pod.start_time).timestamp() * 1_000_000)
    except ValueError:
        return NOT_STARTED


def _ranked(info: NodeInfo) -> list[Pod]:
    return sorted(info.pods, key=_importance)


def _importance(pod: Pod) -> tuple[int, int, str, str]:
    shape = pod.shape
    return -shape.spec.priority, started(pod), shape.namespace, pod.name


def _amount(requests: PodRequests, name: str) -> int:
    if name in _NON_ZERO:
        amount = requests.non_zero_memory if _NON_ZERO.index(name) else requests.non_zero_milli_cpu
    else:
        amount = dict(requests.resource.amounts()).get(name, 0)
    return max(-_LIMIT, min(amount, _LIMIT))
