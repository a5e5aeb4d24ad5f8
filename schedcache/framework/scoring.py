"""Scoring the feasible rows: PreScore, Score, NormalizeScore, weights, totals."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedcache.framework.diagnosis import PluginError
from schedcache.framework.interface import (
    MAX_NODE_SCORE,
    CycleState,
    PreScorePlugin,
    ScorePlugin,
    Scores,
)
from schedcache.framework.kept import KeptResults, KeptScores
from schedcache.framework.plugin_calls import (
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
    """The scores of one attempt: `total[i]` for position i of `view`."""

    def __init__(self, view: RowView, total: Scores, by_plugin: Callable[[], dict[str, Scores]]) -> None:
        self.view = view
        self.total = total
        self._by_plugin = by_plugin

    def best(self) -> Rows:
        """The positions with the highest total, ascending."""
        return np.flatnonzero(self.total == self.total.max())

    def by_plugin(self) -> dict[str, Scores]:
        """Weighted scores of each plugin that was not skipped. Ask before the snapshot moves on."""
        return self._by_plugin()


class ScoreChain:
    """The score plugins of a profile with their weights."""

    def __init__(
        self, pre_score: Sequence[PreScorePlugin], plugins: Sequence[ScorePlugin], weights: dict[str, int]
    ) -> None:
        self.pre_score = tuple(pre_score)
        self.plugins = tuple(plugins)
        self.weights = weights
        self._split: dict[frozenset[str], tuple[tuple[ScorePlugin, ...], tuple[ScorePlugin, ...]]] = {}

    def run(self, state: CycleState, pod: Pod, view: RowView, kept: KeptResults | None = None) -> ScoreTable:
        """Score the rows of the view. Raises PluginError."""
        if not self.plugins:
            # kube-scheduler's prioritizeNodes: without any score plugin all nodes are worth 1.
            return ScoreTable(view, np.ones(len(view), np.int64), dict)
        self._run_pre_score(state, pod, view)
        local, other = self._active(state, use_kept=kept is not None)
        total = np.zeros(len(view), np.int64)
        done: dict[str, Scores] = {}
        results: KeptScores | None = None
        if kept is not None and local:
            results = kept.scores(local, self.weights, state, pod, view.snapshot)
            total = results.final_total[view.rows]
            self._check_final(results, pod, view)
            for i in range(results.finals, len(local)):
                total += self._finish(results.plugins[i], results.raw[i][view.rows], state, pod, done)
        for plugin in other:
            total += self._finish(plugin, call_score(plugin, state, pod, view), state, pod, done)
        return ScoreTable(view, total, lambda: self._by_plugin(view, done, results))

    def _run_pre_score(self, state: CycleState, pod: Pod, view: RowView) -> None:
        for plugin in self.pre_score:
            try:
                status = rejection(checked_status(plugin.pre_score(state, pod, view)))
            except Exception as error:
                raise failed(pod, plugin.name, "pre_score", error) from error
            if status is None:
                continue
            if status.code is not Code.SKIP:
                raise status_error(pod, plugin.name, "pre_score", status)
            state.skip_score.add(plugin.name)

    def _active(self, state: CycleState, *, use_kept: bool) -> tuple[tuple[ScorePlugin, ...], tuple[ScorePlugin, ...]]:
        """The plugins that are not skipped: row-local ones, whose scores are kept, and the others."""
        skipped = frozenset(state.skip_score)
        if not use_kept:
            return (), tuple(p for p in self.plugins if p.name not in skipped)
        split = self._split.get(skipped)
        if split is None:
            active = [p for p in self.plugins if p.name not in skipped]
            local = tuple(p for p in active if _is_local(p))
            split = self._split[skipped] = local, tuple(p for p in active if not _is_local(p))
        return split

    def _finish(self, plugin: ScorePlugin, raw: Scores, state: CycleState, pod: Pod, done: dict[str, Scores]) -> Scores:
        if hasattr(plugin, "normalize_score"):
            raw = call_normalize_score(plugin, state, pod, raw)
        _check_range(pod, plugin.name, raw)
        weighted: Scores = raw * self.weights[plugin.name]
        done[plugin.name] = weighted
        return weighted

    @staticmethod
    def _check_final(results: KeptScores, pod: Pod, view: RowView) -> None:
        if results.in_range:
            return
        for i in range(results.finals):
            _check_range(pod, results.plugins[i].name, results.raw[i][view.rows])

    def _by_plugin(self, view: RowView, done: dict[str, Scores], results: KeptScores | None) -> dict[str, Scores]:
        found = dict(done)
        for i in range(results.finals if results is not None else 0):
            name = results.plugins[i].name  # type: ignore[union-attr]  # not None where there is something to go through
            found[name] = results.raw[i][view.rows] * self.weights[name]  # type: ignore[union-attr]  # as above
        return {plugin.name: found[plugin.name] for plugin in self.plugins if plugin.name in found}


def default_normalize_score(scores: Scores, *, reverse: bool) -> Scores:
    """Scale non-negative scores to 0..100 by their maximum (kube-scheduler's DefaultNormalizeScore)."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full(len(scores), MAX_NODE_SCORE, np.int64) if reverse else scores
    scaled = scores * MAX_NODE_SCORE // highest
    return MAX_NODE_SCORE - scaled if reverse else scaled


def divide(numerator: Any, denominator: Any) -> Any:
    """Integer division that truncates towards zero, as Go's does."""
    quotient = np.abs(numerator) // np.abs(denominator)
    return np.where((numerator < 0) != (denominator < 0), -quotient, quotient)


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
