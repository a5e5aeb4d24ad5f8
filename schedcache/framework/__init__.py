"""The scheduling framework: extension points, statuses, the registry of plugins and the runtime that calls them."""

from schedcache.framework.diagnosis import Diagnosis, FitError, NodeStatuses, NoNodesError, PluginError
from schedcache.framework.filtering import failing, one_reason, passing
from schedcache.framework.handle import Handle, PodNominator
from schedcache.framework.interface import (
    MAX_NODE_SCORE,
    BindPlugin,
    CycleState,
    EnqueueExtensions,
    ExplainsPlugin,
    FilterPlugin,
    Locality,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    Scores,
    Verdicts,
    WatchesKinds,
)
from schedcache.framework.plugin_sets import PluginSetError
from schedcache.framework.registry import PluginFactory, Registry, RegistryError
from schedcache.framework.row_view import Amounts, Rows, RowView
from schedcache.framework.runtime import Framework, ScheduleResult
from schedcache.framework.scoring import default_normalize_score
from schedcache.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from schedcache.framework.waiting_pods import WaitingPod, WaitingPods
from schedcache.queue import EventHint, QueuedPodInfo

__all__ = [
    "MAX_NODE_SCORE",
    "SKIP",
    "Amounts",
    "BindPlugin",
    "Code",
    "CycleState",
    "Diagnosis",
    "EnqueueExtensions",
    "EventHint",
    "ExplainsPlugin",
    "FilterPlugin",
    "FitError",
    "Framework",
    "Handle",
    "Locality",
    "NoNodesError",
    "NodeStatuses",
    "NormalizeScorePlugin",
    "PermitPlugin",
    "Plugin",
    "PluginError",
    "PluginFactory",
    "PluginSetError",
    "PodNominator",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QueuedPodInfo",
    "Registry",
    "RegistryError",
    "ReservePlugin",
    "RowView",
    "Rows",
    "ScheduleResult",
    "ScorePlugin",
    "Scores",
    "Status",
    "Verdicts",
    "WaitingPod",
    "WaitingPods",
    "WatchesKinds",
    "default_normalize_score",
    "failing",
    "one_reason",
    "passing",
    "unresolvable",
    "unschedulable",
]
