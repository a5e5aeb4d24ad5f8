"""Runs filters over many rows: each plugin sees the rows that passed all earlier ones, and the first failure counts."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from schedcache.framework.diagnosis import PluginError
from schedcache.framework.interface import ALL_PASS, CycleState, FilterPlugin, Verdicts
from schedcache.framework.kept import KeptBySpec, KeptFilters, locality_of
from schedcache.framework.plugin_calls import call_filter, failure_text
from schedcache.framework.row_view import Rows, RowView
from schedcache.framework.status import Code, Status
from schedcache.model import Pod

if TYPE_CHECKING:
    from schedcache.cache import Snapshot


class _Step(NamedTuple):
    """What one plugin said to the positions that were still in (None: all)."""

    plugin: str
    positions: Rows | None
    answer: Verdicts

    @property
    def faulty(self) -> bool:
        return self.answer.faulty

    def verdicts(self, _view: RowView) -> Iterator[tuple[str, Verdicts]]:
        yield self.plugin, self.answer


class _KeptStep(NamedTuple):
    """Neighbouring row-local plugins at once."""

    kept: KeptFilters
    positions: Rows | None

    @property
    def faulty(self) -> bool:
        """Errors are not kept."""
        return False

    def verdicts(self, view: RowView) -> Iterator[tuple[str, Verdicts]]:
        rows = view.rows if self.positions is None else view.rows[self.positions]
        for i, plugin in enumerate(self.kept.plugins):
            if len(self.kept.tables[i].statuses) > 1:
                yield plugin.name, self.kept.verdicts(i, rows)


class FilterOutcome:
    """Which rows passed (`feasible`: positions in `view`, ascending), and on demand why the others failed.

    `faulty`: some plugin returned an error for a position.
    """

    def __init__(
        self, view: RowView, feasible: Rows, steps: Sequence[_Step | _KeptStep] = (), *, faulty: bool = False
    ) -> None:
        self.view = view
        self.feasible = feasible
        self._steps = steps
        self.faulty = faulty

    def verdicts(self) -> Verdicts:
        """The first failure of each position. Ask before the next attempt, and before the snapshot moves on.

        Each plugin's codes count from where the table of those before it ends.
        """
        codes = np.zeros(len(self.view), np.intp)
        table: list[Status | None] = [None]
        for step in self._steps:
            for plugin, verdicts in step.verdicts(self.view):
                _attribute(codes, step.positions, verdicts.codes, len(table) - 1)
                table += [_named(status, plugin) for status in verdicts.table[1:]]
        return Verdicts(codes, table)


class Crowded(NamedTuple):
    """What filters say of rows on which the pods nominated to them count as running: `positions` in the view without these."""

    positions: Rows
    outcome: FilterOutcome


class Advised(NamedTuple):
    """What extenders say of rows that passed all filters: `positions` in the view, and a verdict on each."""

    positions: Rows
    verdicts: Verdicts


class NodeError(NamedTuple):
    """What a filter returned for a node that is not a rejection; `status` names the plugin, and says what it failed at."""

    node_name: str
    status: Status


class Feasibility(NamedTuple):
    """Which rows of `view` passed all filters (`feasible`: positions, ascending), taking nominated pods into account."""

    outcome: FilterOutcome
    feasible: Rows
    crowded: Crowded | None = None
    """The look at the rows that have pods nominated to them, which comes first: what fails there has failed."""
    advised: Advised | None = None
    """Where extenders object to something that passed."""

    @property
    def view(self) -> RowView:
        return self.outcome.view

    @property
    def faulty(self) -> bool:
        """Some plugin returned an error for a position, be it the first failure there or not."""
        return self.outcome.faulty or (self.crowded is not None and self.crowded.outcome.faulty)

    def errors(self) -> list[NodeError]:
        """The errors that plugins returned for single rows, by position, where they are the first failure.

        Ask before the next attempt, and before the snapshot moves on.
        """
        if not self.faulty:
            return []
        codes, table = self.verdicts()
        erroneous = np.array([status is not None and not status.rejected for status in table], np.bool_)
        found = ((position, table[int(codes[position])]) for position in np.flatnonzero(erroneous[codes]).tolist())
        return [NodeError(self.view.name(position), status) for position, status in found if status is not None]

    def check(self, pod: Pod) -> None:
        """Raises PluginError if no row passed and a plugin returned an error for one.

        As long as there is a row that passed, an error only rejects the row that it is about: kube-scheduler fails the attempt, so
        that whatever is wrong with one node stops every pod.
        """
        if len(self.feasible):
            return
        errors = self.errors()
        if errors:
            node, status = errors[0]
            where = node if len(errors) < len(self.view) else ""
            raise PluginError(pod, status.plugin, "filter", status.message, node_name=where)

    def verdicts(self) -> Verdicts:
        """The first failure of each position. Ask before the next attempt, and before the snapshot moves on."""
        verdicts = self.outcome.verdicts()
        if self.crowded is not None:
            verdicts = _overlaid(verdicts, self.crowded.positions, self.crowded.outcome.verdicts())
        if self.advised is not None:
            verdicts = _overlaid(verdicts, *self.advised)
        return verdicts


def _overlaid(verdicts: Verdicts, positions: Rows, others: Verdicts) -> Verdicts:
    """The verdicts with the failures among others, on some of the positions, in their place."""
    codes, table = verdicts
    failed = np.flatnonzero(others.codes)
    codes[positions[failed]] = others.codes[failed] + (len(table) - 1)
    return Verdicts(codes, [*table, *others.table[1:]])


class _Group:
    """Neighbouring row-local plugins, or a single one that is not; `asked`: how often."""

    __slots__ = ("asked", "local", "plugins")

    def __init__(self, plugins: tuple[FilterPlugin, ...]) -> None:
        self.plugins = plugins
        self.local = _is_local(plugins[0])
        self.asked = 0


class FilterChain:
    """The filters of a profile, in order, and what is kept of their answers."""

    def __init__(self, plugins: Sequence[FilterPlugin], kept: KeptBySpec) -> None:
        self.plugins = tuple(plugins)
        self._kept = kept
        self._groups: dict[frozenset[str], list[_Group]] = {}

    def run(self, state: CycleState, pod: Pod, view: RowView) -> FilterOutcome:
        """Filter the rows of the view.

        Raises PluginError if a plugin raises anything. If one returns an error for a row, that row fails; see `faulty`.
        """
        kept = self._kept.of(pod, view)
        positions: Rows | None = None
        steps: list[_Step | _KeptStep] = []
        for group in self._active(state):
            if positions is not None and not len(positions):
                break
            group.asked += 1
            results = kept.filters(group.plugins, state, pod, view) if kept is not None and group.local else None
            if results is not None:
                positions = self._take_kept(results, view, positions, steps)
                continue
            for plugin in group.plugins:
                positions = self._run_one(plugin, state, pod, view, positions, steps)
        feasible = np.arange(len(view)) if positions is None else positions
        faulty = any(step.faulty for step in steps)
        return FilterOutcome(view, feasible, steps, faulty=faulty)

    def run_each(self, state: CycleState, pod: Pod, view: RowView) -> list[tuple[FilterPlugin, Verdicts]]:
        """The verdicts of every filter on every row, whatever the others say. Raises PluginError."""
        kept = self._kept.of(pod, view)
        found: list[tuple[FilterPlugin, Verdicts]] = []
        for group in self._active(state):
            results = kept.filters(group.plugins, state, pod, view) if kept is not None and group.local else None
            if results is not None:
                found += [(plugin, results.verdicts(i, view.rows)) for i, plugin in enumerate(group.plugins)]
            else:
                found += [(plugin, call_filter(plugin, state, pod, view)) for plugin in group.plugins]
        return found

    def locality(self, state: CycleState, pod: Pod, snapshot: "Snapshot") -> tuple[object, ...] | None:
        """What the verdict on a row depends on besides the row and the pod's spec; None where that is more of the cluster."""
        groups = self._active(state)
        if not all(group.local for group in groups) or pod.requests is not pod.spec.requests:
            return None
        return locality_of(tuple(plugin for group in groups for plugin in group.plugins), snapshot)

    def evaluations(self) -> dict[str, int]:
        """Plugin -> how often `run` asked it about nodes, many at a time, or used its kept results."""
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
    def _take_kept(
        kept: KeptFilters, view: RowView, positions: Rows | None, steps: list[_Step | _KeptStep]
    ) -> Rows | None:
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
        answer = call_filter(plugin, state, pod, part)
        if len(answer.table) == 1:
            return positions
        passes = answer.codes == 0
        if np.count_nonzero(passes) == len(passes):
            return positions
        steps.append(_Step(plugin.name, positions, answer))
        return np.flatnonzero(passes) if positions is None else positions[passes]


def passing(size: int) -> Verdicts:
    """Everything passes."""
    return Verdicts(np.zeros(size, np.int16), ALL_PASS)


def one_reason(rejected: Any, status: Status) -> Verdicts:
    """Rows for which the boolean array is true have the status, the others pass."""
    if not np.count_nonzero(rejected):
        return passing(len(rejected))
    return Verdicts(rejected.astype(np.int16), (None, status))


def failing(size: int, error: str) -> Verdicts:
    """The plugin cannot work: an error for every row that has passed so far, which ends the attempt."""
    return Verdicts(np.ones(size, np.int16), (None, Status(Code.ERROR, (error,))))


def _is_local(plugin: FilterPlugin) -> bool:
    return getattr(plugin, "filter_locality", None) is not None


def _attribute(
    into: npt.NDArray[np.intp], positions: Rows | None, codes: npt.NDArray[np.integer[Any]], base: int
) -> None:
    """Enter failures where there is none yet."""
    failed = np.flatnonzero(codes)
    where = failed if positions is None else positions[failed]
    first = into[where] == 0
    into[where[first]] = codes[failed[first]].astype(np.intp) + base


def _named(status: Status | None, plugin: str) -> Status | None:
    if status is None or status.rejected:
        return status and Status(status.code, status.reasons, plugin)
    return Status(Code.ERROR, (failure_text(plugin, "filter", status.message),), plugin)
