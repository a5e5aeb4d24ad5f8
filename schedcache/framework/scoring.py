"""Scores the feasible rows: PreScore, Score, NormalizeScore, weights, totals."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from schedcache.framework.amounts import percent
from schedcache.framework.diagnosis import PluginError
from schedcache.framework.interface import (
    MAX_NODE_SCORE,
    CycleState,
    PreScorePlugin,
    ScorePlugin,
    Scores,
)
from schedcache.framework.kept import KeptBySpec, KeptScores
from schedcache.framework.plugin_calls import (
    call,
    call_normalize_score,
    call_score,
    checked_status,
    failed,
    rejection,
    status_error,
)
from schedcache.framework.row_view import Rows, RowView
from schedcache.framework.status import Code
from schedcache.model import Pod


class ScoreTable:
    """The scores of one attempt: `total[i]` for position i of `view`.

    The parts of single plugins are looked up on demand: ask before the next attempt, and before the snapshot is updated.
    """

    def __init__(self, view: RowView, total: Scores, by_plugin: Callable[[], dict[str, "PluginScores"]]) -> None:
        self.view = view
        self.total = total
        self._by_plugin = by_plugin

    def best(self) -> Rows:
        """The positions with the highest total, ascending."""
        return np.flatnonzero(self.total == self.total.max())

    def plus(self, scores: Scores) -> "ScoreTable":
        """With what others than plugins add to the totals."""
        return ScoreTable(self.view, self.total + scores, self._by_plugin)

    def by_plugin(self) -> dict[str, Scores]:
        """Weighted scores of each plugin that was not skipped."""
        return {plugin: scores.weighted for plugin, scores in self._by_plugin().items()}

    def raw_by_plugin(self) -> dict[str, Scores]:
        """As `by_plugin`, but before NormalizeScore and weights; only if they were to be kept."""
        return {plugin: scores.raw for plugin, scores in self._by_plugin().items() if scores.raw is not None}


class PluginScores(NamedTuple):
    """One plugin's part of a ScoreTable; `raw` is None unless it was to be kept."""

    weighted: Scores
    raw: Scores | None


class _Active:
    """Score plugins that are not skipped: row-local ones, whose scores are kept, and the others; `asked`: how often."""

    __slots__ = ("asked", "local", "other", "plugins")

    def __init__(self, plugins: tuple[ScorePlugin, ...]) -> None:
        self.plugins = plugins
        self.local = tuple(p for p in plugins if _is_local(p))
        self.other = tuple(p for p in plugins if not _is_local(p))
        self.asked = 0


class ScoreChain:
    """The score plugins of a profile with their weights."""

    def __init__(
        self,
        pre_score: Sequence[PreScorePlugin],
        plugins: Sequence[ScorePlugin],
        weights: dict[str, int],
        kept: KeptBySpec,
    ) -> None:
        self.pre_score = tuple(pre_score)
        self.plugins = tuple(plugins)
        self.weights = weights
        self._kept = kept
        self.pre_evaluations = dict.fromkeys((plugin.name for plugin in pre_score), 0)
        """Plugin -> how often it was called at PreScore and did not return Skip."""
        self._by_skipped: dict[frozenset[str], _Active] = {}

    def run(self, state: CycleState, pod: Pod, view: RowView, *, keep_raw: bool = False) -> ScoreTable:
        """Score the rows of the view, after `run_pre_score`. Raises PluginError."""
        active = self._active(state)
        active.asked += 1
        kept = self._kept.of(pod, view) if active.local else None
        results = kept.scores(active.local, self.weights, state, pod, view) if kept is not None else None
        done: dict[str, PluginScores] = {}
        if results is None:
            total = np.zeros(len(view), np.int64)
        else:
            total = results.final_total[view.rows]
            self._check_final(results, pod, view)
            for i, plugin in enumerate(results.plugins[results.finals :], results.finals):
                total += self._finish(plugin, results.scores(i, view), state, pod, done, keep_raw=keep_raw)
        for plugin in active.plugins if results is None else active.other:
            total += self._finish(plugin, call_score(plugin, state, pod, view), state, pod, done, keep_raw=keep_raw)
        return ScoreTable(view, total, lambda: self._by_plugin(view, done, results))

    def run_pre_score(self, state: CycleState, pod: Pod, view: RowView) -> None:
        """Let the plugins prepare for these rows, all of them feasible. Raises PluginError."""
        for plugin in self.pre_score:
            try:
                ask = plugin.pre_score if state.timer is None else partial(call, plugin, "pre_score")
                status = rejection(checked_status(ask(state, pod, view)))
            except Exception as error:
                raise failed(pod, plugin.name, "pre_score", error) from error
            if status is not None and status.code is Code.SKIP:
                state.skip_score.add(plugin.name)
                continue
            self.pre_evaluations[plugin.name] += 1
            if status is not None:
                raise status_error(pod, plugin.name, "pre_score", status)

    def evaluations(self) -> dict[str, int]:
        """Plugin -> how often it was asked for the scores of all rows, including kept ones."""
        counts = {plugin.name: 0 for plugin in self.plugins}
        for active in self._by_skipped.values():
            for plugin in active.plugins:
                counts[plugin.name] += active.asked
        return counts

    def _active(self, state: CycleState) -> _Active:
        """The plugins that are not skipped."""
        skipped = frozenset(state.skip_score)
        active = self._by_skipped.get(skipped)
        if active is None:
            active = self._by_skipped[skipped] = _Active(tuple(p for p in self.plugins if p.name not in skipped))
        return active

    def _finish(
        self,
        plugin: ScorePlugin,
        scores: Scores,
        state: CycleState,
        pod: Pod,
        done: dict[str, PluginScores],
        *,
        keep_raw: bool,
    ) -> Scores:
        # A plugin may normalize in place.
        raw = scores.copy() if keep_raw else None
        if hasattr(plugin, "normalize_score"):
            scores = call_normalize_score(plugin, state, pod, scores)
        _check_range(pod, plugin.name, scores)
        weighted: Scores = scores * self.weights[plugin.name]
        done[plugin.name] = PluginScores(weighted, raw)
        return weighted

    @staticmethod
    def _check_final(results: KeptScores, pod: Pod, view: RowView) -> None:
        if results.in_range:
            return
        for i in range(results.finals):
            _check_range(pod, results.plugins[i].name, results.scores(i, view))

    def _by_plugin(
        self, view: RowView, done: dict[str, PluginScores], results: KeptScores | None
    ) -> dict[str, PluginScores]:
        found = dict(done)
        if results is not None:
            for i, plugin in enumerate(results.plugins[: results.finals]):
                raw = results.scores(i, view)
                found[plugin.name] = PluginScores(raw * self.weights[plugin.name], raw)
        return {plugin.name: found[plugin.name] for plugin in self.plugins if plugin.name in found}


def default_normalize_score(scores: Scores, *, reverse: bool = False) -> Scores:
    """Scale non-negative scores to 0..100 by their maximum (kube-scheduler's DefaultNormalizeScore)."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full(len(scores), MAX_NODE_SCORE, np.int64) if reverse else scores
    scaled = percent(scores, highest)
    return MAX_NODE_SCORE - scaled if reverse else scaled


def _check_range(pod: Pod, plugin: str, scores: Scores) -> None:
    if not len(scores) or (scores.min() >= 0 and scores.max() <= MAX_NODE_SCORE):
        return
    wrong = int(scores[(scores < 0) | (scores > MAX_NODE_SCORE)][0])
    text = (
        f'applying score defaultWeights on Score plugins: plugin "{plugin}" returns an invalid score {wrong}, '
        f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
    )
    raise PluginError(pod, plugin, "score", text)


def _is_local(plugin: ScorePlugin) -> bool:
    return getattr(plugin, "score_locality", None) is not None
