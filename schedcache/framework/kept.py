"""Row-local results, kept for each pod spec: only rows that changed since are computed again.

A plugin declares with `filter_locality` or `score_locality` what its result for a row depends on besides the pod's spec. The
same plugin code computes all rows and the few that changed: it is called with a view of those.

What is kept
    The verdicts of neighbouring row-local filters (`KeptFilters`) and the raw scores of row-local score plugins
    (`KeptScores`), by row, for every live row, whichever rows were asked about.

By what key
    Columns (rows are numbered by snapshot), spec, the plugins that were not skipped, the values of their `locality_key`.
    Specs are compared by identity: equal ones are one object.

What makes a result invalid
    For one row: its generation, or for Locality.NODE its node generation, is later than the version of the result. For all
    rows: another key, or other columns. `Moved` has the rows to compute again, so these hold:

    - `version` of what is kept is the columns' version when it was last refreshed, -1 before; no row that has moved since
      is read before the next refresh.
    - `Moved(snapshot, version)` names every live row that changed after `version`, those whose node has come on a used row
      included, and from -1 every live row. It never names a row without a node: what is kept there is stale, and no view
      shows it.
    - Codes and table of a plugin belong together. A table only grows; when more of its statuses may be unused than used, all
      rows are computed again with an empty table, so that reasons that name amounts, or nodes that come and go, do not
      accumulate.

Why a changed view never gets here
    Results are looked up only in `KeptBySpec.of`, which is called only by `FilterChain` and `ScoreChain`, with the view that
    they were given. It returns None for anything but a plain `RowView`, which has no way to put pods on rows. Adding or
    removing pods takes a `HypotheticalView`, for which every plugin is called.
    It also returns None for a pod whose requests differ from its spec's (a resize), and for a single row, which is cheaper to
    compute than all rows that changed.

What goes wrong
    If a plugin raises, or returns an error for some row, the kept results stay at their version, and the plugins are called, in
    order, only for the rows in question: a fault on another row does not count, and one that passes is not kept.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt

from schedcache.framework.diagnosis import PluginError
from schedcache.framework.interface import (
    MAX_NODE_SCORE,
    CycleState,
    FilterPlugin,
    Locality,
    ScorePlugin,
    Scores,
    Verdicts,
)
from schedcache.framework.plugin_calls import call_filter, call_score
from schedcache.framework.row_view import Rows, RowView
from schedcache.framework.status_table import StatusTable
from schedcache.model import Pod, PodSpec

if TYPE_CHECKING:
    from schedcache.cache import Columns, Snapshot

_MAX_SPECS = 128
_MIN_SPECS = 16
# Bytes in arrays, for each snapshot: what the default profile keeps of one row is about 80 bytes.
_MAX_BYTES = 64 * 2**20
_ROW_BYTES = 80
# Up to here the live ones among the changed rows are picked one by one; beyond, all rows are computed again.
_FEW_ROWS = 64
# A table may have twice as many statuses as there are live rows, and these: so many changes pay for computing all rows anew.
_SLACK = 256


class KeptFilters:
    """The verdicts of neighbouring row-local filters, by row.

    `codes[i, row]` is a number in `tables[i]`, the statuses of plugin i; `passes[row]`: all of them pass.
    """

    def __init__(self, plugins: Sequence[FilterPlugin], columns: "Columns") -> None:
        self.plugins = plugins
        self.version = -1
        # Bytes, until some table has more than 256 statuses: what is kept for the specs of a cluster does not fit into caches.
        self.codes: npt.NDArray[np.unsignedinteger[Any]] = np.zeros((len(plugins), len(columns.generation)), np.uint8)
        self.passes: npt.NDArray[np.bool_] = np.ones(len(columns.generation), np.bool_)
        self.tables = [StatusTable() for _ in plugins]
        self.statuses = 1
        """The length of the longest table."""

    def refresh(self, state: CycleState, pod: Pod, moved: "Moved") -> bool:
        """False: nothing is kept, as some row has an error. Raises PluginError."""
        if self.version == moved.version:
            return True
        if len(self.passes) < moved.capacity:
            self._grow(moved.capacity)
        for i, plugin in enumerate(self.plugins):
            view = moved.nodes if _filter_locality(plugin) == Locality.NODE else moved.all
            if len(view):
                verdicts = call_filter(plugin, state, pod, view)
                if verdicts.faulty:
                    return False
                self.codes[i, view.index] = 0 if len(verdicts.table) == 1 else self._own_codes(i, verdicts)
        if len(moved.all):
            passes = np.ones(len(moved.all), np.bool_)
            for i, table in enumerate(self.tables):
                if len(table.statuses) > 1:
                    passes &= self.codes[i, moved.all.index] == 0
            self.passes[moved.all.index] = passes
        self.version = moved.version
        return True

    def verdicts(self, index: int, rows: Rows) -> Verdicts:
        """What one of the plugins says of these rows. Ask before the snapshot moves on."""
        return Verdicts(self.codes[index][rows], self.tables[index].statuses)

    def forget(self) -> None:
        """All rows are to be computed again."""
        self.version = -1
        if self.statuses > 1:
            self.tables = [StatusTable() for _ in self.plugins]
        self.statuses = 1

    def _own_codes(self, index: int, verdicts: Verdicts) -> npt.NDArray[np.integer[Any]]:
        """Each call has a table of its own; one table lasts here."""
        table = self.tables[index]
        numbers = list(map(table.code, verdicts.table))
        numbers[0] = 0
        if len(table.statuses) > self.statuses:
            self.statuses = len(table.statuses)
            self._widen()
        if numbers == list(range(len(numbers))):
            return verdicts.codes
        return np.array(numbers, self.codes.dtype).take(verdicts.codes)

    def _widen(self) -> None:
        """Let codes count to the end of the longest table."""
        needed = np.min_scalar_type(self.statuses - 1)
        if needed.itemsize > self.codes.itemsize:
            self.codes = self.codes.astype(needed)

    def _grow(self, capacity: int) -> None:
        more = capacity - len(self.passes)
        self.codes = np.concatenate([self.codes, np.zeros((len(self.plugins), more), self.codes.dtype)], axis=1)
        self.passes = np.concatenate([self.passes, np.ones(more, np.bool_)])


class KeptScores:
    """The raw scores of row-local plugins, by row: `raw[i, row]` of `plugins[i]`.

    The first `finals` of the plugins do not normalize: but for the weight their raw score is final, and `final_total[row]` is
    the weighted sum of these.
    """

    def __init__(self, plugins: Sequence[ScorePlugin], weights: Mapping[str, int], columns: "Columns") -> None:
        self.plugins = sorted(plugins, key=lambda plugin: hasattr(plugin, "normalize_score"))
        self.finals = sum(not hasattr(plugin, "normalize_score") for plugin in plugins)
        self._weights = [weights[plugin.name] for plugin in self.plugins[: self.finals]]
        self.version = -1
        self.raw = np.zeros((len(plugins), len(columns.generation)), np.int64)
        self.final_total = np.zeros(len(columns.generation), np.int64)
        self.in_range = True
        """No final score was ever outside 0..100."""

    def refresh(self, state: CycleState, pod: Pod, moved: "Moved") -> bool:
        """Raises PluginError."""
        if self.version == moved.version:
            return True
        if len(self.final_total) < moved.capacity:
            more = moved.capacity - len(self.final_total)
            self.raw = np.concatenate([self.raw, np.zeros((len(self.plugins), more), np.int64)], axis=1)
            self.final_total = np.concatenate([self.final_total, np.zeros(more, np.int64)])
        for i, plugin in enumerate(self.plugins):
            view = moved.nodes if _score_locality(plugin) == Locality.NODE else moved.all
            if len(view):
                self.raw[i, view.index] = call_score(plugin, state, pod, view)
        if self.finals and len(moved.all):
            final = self.raw[: self.finals, moved.all.index]
            self.in_range = self.in_range and bool(final.min() >= 0 and final.max() <= MAX_NODE_SCORE)
            total = final[0] * self._weights[0]
            for i in range(1, self.finals):
                total += final[i] * self._weights[i]
            self.final_total[moved.all.index] = total
        self.version = moved.version
        return True

    def scores(self, index: int, view: RowView) -> Scores:
        """The raw scores of one of the plugins. Ask before the snapshot moves on."""
        raw: Scores = self.raw[index][view.rows]
        return raw

    def forget(self) -> None:
        """All rows are to be computed again."""
        self.version = -1
        self.in_range = True


class Moved:
    """The live rows that changed after a version (`all`), and those of them whose node object did (`nodes`).

    See the top of the module for what must hold.
    """

    def __init__(self, snapshot: "Snapshot", version: int) -> None:
        columns = snapshot.columns
        self.since = version
        self.version = columns.version
        self.capacity = len(columns.generation)
        self.all, self.nodes = self._views(snapshot, version)

    @staticmethod
    def _views(snapshot: "Snapshot", version: int) -> tuple[RowView, RowView]:
        columns = snapshot.columns
        if version >= 0:
            changed = columns.changed_since(version)
            if len(changed) <= _FEW_ROWS:
                names = columns.names
                rows = np.array([row for row in changed.tolist() if names[row]], np.intp)
                return RowView(snapshot, rows), RowView(snapshot, rows[columns.node_generation[rows] > version])
        view = RowView.of_all_rows(snapshot)
        return view, view


class KeptResults:
    """Everything kept for one spec on the columns of one snapshot."""

    def __init__(self) -> None:
        self._filters: dict[tuple[Any, ...], KeptFilters] = {}
        self._scores: dict[tuple[Any, ...], KeptScores] = {}
        self._moved: Moved | None = None

    def filters(
        self, plugins: tuple[FilterPlugin, ...], state: CycleState, pod: Pod, view: RowView
    ) -> KeptFilters | None:
        """The verdicts of these plugins, as of now; None where one of them fails on some row, of this view or not."""
        snapshot = view.snapshot
        key = locality_of(plugins, snapshot)
        kept = self._filters.get(key)
        if kept is None:
            # A key that moved on makes the results under the old one worthless.
            self._filters = {k: v for k, v in self._filters.items() if k[0] != plugins}
            kept = self._filters[key] = KeptFilters(plugins, snapshot.columns)
        elif kept.statuses > 2 * len(snapshot.columns.order) + _SLACK:
            kept.forget()
        return kept if self._refreshed(kept, state, pod, snapshot) else None

    def scores(
        self, plugins: tuple[ScorePlugin, ...], weights: Mapping[str, int], state: CycleState, pod: Pod, view: RowView
    ) -> KeptScores | None:
        """The raw scores of these plugins, as of now; None where one of them fails on some row, of this view or not."""
        snapshot = view.snapshot
        key = locality_of(plugins, snapshot)
        kept = self._scores.get(key)
        if kept is None:
            self._scores = {k: v for k, v in self._scores.items() if k[0] != plugins}
            kept = self._scores[key] = KeptScores(plugins, weights, snapshot.columns)
        return kept if self._refreshed(kept, state, pod, snapshot) else None

    def forget(self) -> None:
        """All rows are to be computed again."""
        for filters in self._filters.values():
            filters.forget()
        for scores in self._scores.values():
            scores.forget()

    def _refreshed(self, kept: KeptFilters | KeptScores, state: CycleState, pod: Pod, snapshot: "Snapshot") -> bool:
        try:
            return kept.refresh(state, pod, self._moved_since(kept.version, snapshot))
        except PluginError:
            return False

    def _moved_since(self, version: int, snapshot: "Snapshot") -> Moved:
        moved = self._moved
        if moved is None or moved.since != version or moved.version != snapshot.columns.version:
            moved = self._moved = Moved(snapshot, version)
        return moved


class KeptBySpec:
    """The results kept for the specs seen last, on each snapshot apart (rows are numbered by snapshot)."""

    def __init__(self) -> None:
        self._by_columns: WeakKeyDictionary[Columns, OrderedDict[PodSpec, KeptResults]] = WeakKeyDictionary()
        # An attempt asks for its filters and again for its scores. The columns may go meanwhile.
        self._last: tuple[PodSpec, ReferenceType[Columns], KeptResults] | None = None

    def of(self, pod: Pod, view: RowView) -> KeptResults | None:
        """What is kept for the pod's spec on the snapshot of the view; None where the plugins are to be asked about its rows."""
        # Not isinstance: what any other type of view shows need not be what the rows have.
        if type(view) is not RowView or len(view.rows) == 1 or pod.requests is not pod.spec.requests:
            return None
        snapshot, spec, last = view.snapshot, pod.spec, self._last
        if last is not None and last[0] is spec and last[1]() is snapshot.columns:
            return last[2]
        by_spec = self._by_columns.get(snapshot.columns)
        if by_spec is None:
            by_spec = self._by_columns[snapshot.columns] = OrderedDict()
        kept = by_spec.get(spec)
        if kept is None:
            # The arrays of the spec longest unused serve the new one: fresh memory costs more than the computation.
            kept = by_spec.popitem(last=False)[1] if len(by_spec) >= most_specs(snapshot) else KeptResults()
            kept.forget()
            by_spec[spec] = kept
        else:
            by_spec.move_to_end(spec)
        self._last = spec, ref(snapshot.columns), kept
        return kept


def most_specs(snapshot: "Snapshot") -> int:
    """How many specs' results are kept at once: fewer in larger clusters."""
    fitting = _MAX_BYTES // (_ROW_BYTES * len(snapshot.columns.generation))
    return max(_MIN_SPECS, min(_MAX_SPECS, fitting))


def locality_of(plugins: tuple[Any, ...], snapshot: "Snapshot") -> tuple[Any, ...]:
    """What results of row-local plugins go by besides the row and the pod's spec; the plugins themselves come first."""
    keys = (getattr(plugin, "locality_key", None) for plugin in plugins)
    return plugins, *(None if locality_key is None else locality_key(snapshot) for locality_key in keys)


def _filter_locality(plugin: FilterPlugin) -> str | None:
    return getattr(plugin, "filter_locality", None)


def _score_locality(plugin: ScorePlugin) -> str | None:
    return getattr(plugin, "score_locality", None)
