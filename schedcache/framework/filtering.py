"""Running filters over many rows: each plugin sees the rows that passed all before it, and the first failure counts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schedcache.framework.diagnosis import Ids
from schedcache.framework.interface import CycleState, FilterPlugin, Verdicts
from schedcache.framework.kept import KeptFilters, KeptResults
from schedcache.framework.plugin_calls import call_filter, failure_text
from schedcache.framework.row_view import Rows, RowView
from schedcache.framework.status import Code, Status
from schedcache.model import Pod


class _Step(NamedTuple):
    """What one plugin said to the positions that were still in (None: all)."""

    plugin: str
    positions: Rows | None
    codes: Any
    table: Sequence[Status | None]

    @property
    def faulty(self) -> bool:
        return any(status is not None and not status.rejected for status in self.table)


class _KeptStep(NamedTuple):
    """Neighbouring row-local plugins at once."""

    kept: KeptFilters
    positions: Rows | None

    @property
    def faulty(self) -> bool:
        return self.kept.faulty


class FilterOutcome:
    """Who passed (`feasible`: positions in `view`, ascending), and on demand who failed why.

    `faulty`: some plugin answered with a status that is no rejection, which may be the one that counts for a position.
    """

    def __init__(
        self, view: RowView, feasible: Rows, steps: Sequence[_Step | _KeptStep] = (), *, faulty: bool = False
    ) -> None:
        self.view = view
        self.feasible = feasible
        self._steps = steps
        self.faulty = faulty

    def statuses(self) -> tuple[Ids, list[Status | None]]:
        """For each position the index of its first failure in the table, 0 = passed. Ask before the snapshot moves on."""
        ids = np.zeros(len(self.view), np.intp)
        table: list[Status | None] = [None]
        for step in self._steps:
            for plugin, codes, statuses in _verdicts_of(step, self.view):
                _attribute(ids, step.positions, codes, len(table) - 1)
                table += [_named(status, plugin) for status in statuses[1:]]
        return ids, table


class _Group:
    """Neighbouring row-local plugins, or a single one that is not; `asked`: how often."""

    __slots__ = ("asked", "local", "plugins")

    def __init__(self, plugins: tuple[FilterPlugin, ...]) -> None:
        self.plugins = plugins
        self.local = _is_local(plugins[0])
        self.asked = 0


class FilterChain:
    """The filters of a profile, in order."""

    def __init__(self, plugins: Sequence[FilterPlugin]) -> None:
        self.plugins = tuple(plugins)
        self._groups: dict[frozenset[str], list[_Group]] = {}

    def run(self, state: CycleState, pod: Pod, view: RowView, kept: KeptResults | None = None) -> FilterOutcome:
        """Filter the rows of the view. `kept` holds row-local results; leave it out when the view has pods added or removed.

        Raises PluginError when a plugin raises anything. One that answers with an error has not passed the row; see `faulty`.
        """
        positions: Rows | None = None
        steps: list[_Step | _KeptStep] = []
        for group in self._active(state):
            if positions is not None and not len(positions):
                break
            group.asked += 1
            if kept is not None and group.local:
                positions = self._run_kept(group.plugins, state, pod, view, positions, steps, kept)
                continue
            for plugin in group.plugins:
                positions = self._run_one(plugin, state, pod, view, positions, steps)
        feasible = np.arange(len(view)) if positions is None else positions
        faulty = any(step.faulty for step in steps)
        return FilterOutcome(view, feasible, steps, faulty=faulty)

    def run_each(
        self, state: CycleState, pod: Pod, view: RowView, kept: KeptResults | None = None
    ) -> list[tuple[FilterPlugin, Verdicts]]:
        """What every filter says of every row, whatever the others say. Raises PluginError."""
        found: list[tuple[FilterPlugin, Verdicts]] = []
        for group in self._active(state):
            if kept is not None and group.local:
                results = kept.filters(group.plugins, state, pod, view.snapshot)
                found += [
                    (plugin, Verdicts(results.codes[i][view.rows], results.tables[i]))
                    for i, plugin in enumerate(group.plugins)
                ]
            else:
                found += [(plugin, call_filter(plugin, state, pod, view)) for plugin in group.plugins]
        return found

    def evaluations(self) -> dict[str, int]:
        """Plugin -> how often `run` asked it about nodes, many at a time, or its kept answers."""
        counts = {plugin.name: 0 for plugin in self.plugins}
        for groups in self._groups.values():
            for group in groups:
                for plugin in group.plugins:
                    counts[plugin.name] += group.asked
        return counts

    def _active(self, state: CycleState) -> list[_Group]:
        """The plugins that are not skipped, neighbouring row-local ones together."""
        skipped = frozenset(state.skip_filter)
        groups = self._groups.get(skipped)
        if groups is None:
            found: list[list[FilterPlugin]] = []
            for plugin in self.plugins:
                if plugin.name in skipped:
                    continue
                if found and _is_local(plugin) and _is_local(found[-1][0]):
                    found[-1].append(plugin)
                else:
                    found.append([plugin])
            groups = self._groups[skipped] = [_Group(tuple(group)) for group in found]
        return groups

    @staticmethod
    def _run_kept(
        group: tuple[FilterPlugin, ...],
        state: CycleState,
        pod: Pod,
        view: RowView,
        positions: Rows | None,
        steps: list[_Step | _KeptStep],
        results: KeptResults,
    ) -> Rows | None:
        kept = results.filters(group, state, pod, view.snapshot)
        rows = view.rows if positions is None else view.rows[positions]
        passes = kept.passes[rows]
        if np.count_nonzero(passes) == len(passes):
            return positions
        steps.append(_KeptStep(kept, positions))
        return np.flatnonzero(passes) if positions is None else positions[passes]

    @staticmethod
    def _run_one(
        plugin: FilterPlugin,
        state: CycleState,
        pod: Pod,
        view: RowView,
        positions: Rows | None,
        steps: list[_Step | _KeptStep],
    ) -> Rows | None:
        part = view if positions is None else view.take(positions)
        codes, table = call_filter(plugin, state, pod, part)
        if len(table) == 1:
            return positions
        passes = codes == 0
        if np.count_nonzero(passes) == len(passes):
            return positions
        steps.append(_Step(plugin.name, positions, codes, table))
        return np.flatnonzero(passes) if positions is None else positions[passes]


def passing(size: int) -> Verdicts:
    """Everything passes."""
    return Verdicts(np.zeros(size, np.int16), (None,))


def one_reason(rejected: Any, status: Status) -> Verdicts:
    """Rows where the boolean array is true have the status, the others pass."""
    if not np.count_nonzero(rejected):
        return passing(len(rejected))
    return Verdicts(rejected.astype(np.int16), (None, status))


def failing(size: int, error: str) -> Verdicts:
    """The plugin cannot do its work: an error for every row, and the end of the attempt."""
    return Verdicts(np.ones(size, np.int16), (None, Status(Code.ERROR, (error,))))


def _is_local(plugin: FilterPlugin) -> bool:
    return getattr(plugin, "filter_locality", None) is not None


def _verdicts_of(step: _Step | _KeptStep, view: RowView) -> list[tuple[str, Any, Sequence[Status | None]]]:
    if isinstance(step, _Step):
        return [(step.plugin, step.codes, step.table)]
    rows = view.rows if step.positions is None else view.rows[step.positions]
    kept = step.kept
    return [
        (plugin.name, kept.codes[i][rows], kept.tables[i])
        for i, plugin in enumerate(kept.plugins)
        if len(kept.tables[i]) > 1
    ]


def _attribute(ids: Ids, positions: Rows | None, codes: Any, base: int) -> None:
    """Enter failures where there is none yet."""
    failed = np.flatnonzero(codes)
    where = failed if positions is None else positions[failed]
    first = ids[where] == 0
    ids[where[first]] = codes[failed[first]].astype(np.intp) + base


def _named(status: Status | None, plugin: str) -> Status | None:
    if status is None or status.rejected:
        return status and Status(status.code, status.reasons, plugin)
    return Status(Code.ERROR, (failure_text(plugin, "filter", status.message),), plugin)
