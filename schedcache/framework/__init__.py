"""The scheduling framework: extension points, what plugins receive and return, and the runtime that calls them.

Promises: each extension point is called where kube-scheduler 1.37 calls it, with all nodes of one snapshot at once. If a plugin
raises, or returns a wrong type, its pod's attempt ends with an error that names the plugin; nothing else is affected.
Results are kept only for rows that have not changed, and only for plugins that declare what they depend on.

May touch: cache, queue and config, which it only reads, and the outside world only through the `Handle`. It changes no cache and
moves no pod; that is for `schedcache.scheduling`. A `Framework` is for one thread.

Start reading with `interface`, the Protocols, and `status`; then `runtime`, whose `Framework.evaluate` is one attempt and
`Framework.schedule` the decision. `filtering` and `scoring` are its halves, `evaluation` what comes of it, `row_view` what plugins
look at, `kept` what is not asked again. Everything that a plugin needs is
exported here, and plugins import it from here alone.
"""

from schedcache.framework.amounts import Amounts, add_amounts, percent
from schedcache.framework.diagnosis import (
    Diagnosis,
    FitError,
    NodeStatuses,
    NoNodesError,
    PluginError,
    SchedulingFailure,
)
from schedcache.framework.evaluation import Evaluation, ScheduleResult
from schedcache.framework.extenders import Advice, Extenders, PreemptionAdvice
from schedcache.framework.filtering import failing, one_reason, passing
from schedcache.framework.handle import Filters, Handle, NodeLister, PodNominator, no_node
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
    PreBindPreFlightPlugin,
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
from schedcache.framework.lifted import LiftedPods, Mask
from schedcache.framework.plugin_sets import PluginSetError
from schedcache.framework.registry import PluginFactory, Registry, RegistryError
from schedcache.framework.row_view import HypotheticalView, Rows, RowView
from schedcache.framework.runtime import Framework
from schedcache.framework.sampling import NodeSampling
from schedcache.framework.scoring import default_normalize_score
from schedcache.framework.shared_view import SharedView
from schedcache.framework.status import SKIP, Code, Status, unresolvable, unschedulable
from schedcache.framework.status_table import StatusTable
from schedcache.framework.waiting_pods import WaitingPod, WaitingPods
from schedcache.queue import EventHint, QueuedPodInfo

__all__ = [
    "MAX_NODE_SCORE",
    "SKIP",
    "Advice",
    "Amounts",
    "BindPlugin",
    "Code",
    "CycleState",
    "Diagnosis",
    "EnqueueExtensions",
    "Evaluation",
    "EventHint",
    "ExplainsPlugin",
    "Extenders",
    "FilterPlugin",
    "Filters",
    "FitError",
    "Framework",
    "Handle",
    "HypotheticalView",
    "LiftedPods",
    "Locality",
    "Mask",
    "NoNodesError",
    "NodeLister",
    "NodeSampling",
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
    "PreBindPreFlightPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "PreemptionAdvice",
    "QueueSortPlugin",
    "QueuedPodInfo",
    "Registry",
    "RegistryError",
    "ReservePlugin",
    "RowView",
    "Rows",
    "ScheduleResult",
    "SchedulingFailure",
    "ScorePlugin",
    "Scores",
    "SharedView",
    "Status",
    "StatusTable",
    "Verdicts",
    "WaitingPod",
    "WaitingPods",
    "WatchesKinds",
    "add_amounts",
    "default_normalize_score",
    "failing",
    "no_node",
    "one_reason",
    "passing",
    "percent",
    "unresolvable",
    "unschedulable",
]
