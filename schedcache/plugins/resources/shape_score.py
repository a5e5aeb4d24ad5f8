"""Scores from a piecewise linear function: utilization in percent to a score of 0..100 (upstream's helper/shape_score.go)."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from schedcache.config.plugin_args import UtilizationShapePoint

FULL = 100
# Shape points score 0..10 (MaxCustomPriorityScore), nodes 0..100.
_SCALE = 10

ScoreByPercent = npt.NDArray[np.int64]


def broken_line(shape: Sequence[UtilizationShapePoint]) -> ScoreByPercent:
    """The score at every whole percent 0..100. Points ascend by utilization; divisions truncate towards zero."""
    return np.array([_at(percent, shape) for percent in range(FULL + 1)], np.int64)


def _at(percent: int, shape: Sequence[UtilizationShapePoint]) -> int:
    for i, point in enumerate(shape):
        if percent > point.utilization:
            continue
        score = point.score * _SCALE
        if i == 0:
            return score
        before = shape[i - 1]
        start = before.score * _SCALE
        rise = (score - start) * (percent - before.utilization)
        run = point.utilization - before.utilization
        return start + (rise // run if rise >= 0 else -(-rise // run))
    return shape[-1].score * _SCALE
