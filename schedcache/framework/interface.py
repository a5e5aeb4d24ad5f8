"""The extension points as Protocols (kube-scheduler's framework, 1.37), working on columns.

A plugin is made once for each profile as `Plugin(args, handle)` and has a class attribute `name`. It takes part in an
extension point by having the method. Filter and Score look at many nodes in one call: a `RowView` says which.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from schedcache.framework.plugin_timer import PluginTimer
from schedcache.framework.status import Status
from schedcache.model import Pod
from schedcache.queue.heap import SortKey
from schedcache.queue.hints import EventHint
from schedcache.queue.queued_pod import QueuedPodInfo

if TYPE_CHECKING:
    from schedcache.cache import Snapshot
    from schedcache.framework.row_view import RowView

Scores = npt.NDArray[np.int64]
MAX_NODE_SCORE = 100


class Verdicts(NamedTuple):
    """Statuses of rows, as a column: `codes[i]` indexes `table`; code 0 is a pass and `table[0]` is None.

    A filter returns it for the rows of a view; kept results, the first failure of each row and a diagnosis have the same form.
    Codes are of any integer type that is large enough for the table.
    """

    codes: npt.NDArray[np.integer[Any]]
    table: Sequence[Status | None]

    @property
    def faulty(self) -> bool:
        """Some row has a status that is not a rejection but an error."""
        errors = [i for i, status in enumerate(self.table) if status is not None and not status.rejected]
        return bool(errors) and bool(np.isin(self.codes, errors).any())


ALL_PASS: Sequence[None] = (None,)
"""The table of an answer in which every row passes."""


class PreFilterResult(NamedTuple):
    """The only nodes worth looking at, by name."""

    node_names: frozenset[str]


class CycleState(dict[Any, Any]):
    """What plugins keep between the extension points of one attempt; the keys are up to the plugins.

    `skip_filter`, `skip_score` and `skip_pre_bind` hold the names of plugins that returned Skip in PreFilter, PreScore or
    PreBindPreFlight. A plugin without PreScore may add itself to `skip_score` in PreFilter. `timer` is set in attempts whose plugins
    are timed.
    """

    __slots__ = ("skip_filter", "skip_pre_bind", "skip_score", "timer")

    def __init__(self, timer: PluginTimer | None = None) -> None:
        super().__init__()
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.timer = timer


class Plugin(Protocol):
    """What every plugin has: its name in the configuration, usually a class attribute."""

    @property
    def name(self) -> str: ...


@runtime_checkable
class QueueSortPlugin(Plugin, Protocol):
    """Orders the pods of the active queue, the smallest key first."""

    def sort_key(self, info: QueuedPodInfo, /) -> SortKey: ...


@runtime_checkable
class PreEnqueuePlugin(Plugin, Protocol):
    """Keeps a pod out of the active queue until it passes."""

    def pre_enqueue(self, pod: Pod, /) -> Status | None: ...


@runtime_checkable
class PreFilterPlugin(Plugin, Protocol):
    """Computes once per attempt what the filter needs, rejects the pod as a whole, narrows the nodes, or skips the filter."""

    def pre_filter(self, state: CycleState, pod: Pod, snapshot: "Snapshot", /) -> PreFilterResult | Status | None: ...


@runtime_checkable
class FilterPlugin(Plugin, Protocol):
    """Says for each row of the view whether the pod may run there.

    The same code serves all nodes, a nominated node's second pass (one row) and preemption (all candidates): each row of a
    view may have pods added or removed (`view.added`, `view.removed`), and the verdict is about that hypothetical node.
    A plugin with `per_node = True` gets one NodeInfo instead of the view, and returns a Status or None.
    """

    def filter(self, state: CycleState, pod: Pod, view: "RowView", /) -> Verdicts: ...


@runtime_checkable
class ExplainsPlugin(Plugin, Protocol):
    """A filter that can explain a rejection in more detail than its reasons do: figures, names of what is in the way."""

    def explain(self, state: CycleState, pod: Pod, view: "RowView", /) -> str:
        """About the only row of the view; "" if there is nothing to add."""


@runtime_checkable
class PreScorePlugin(Plugin, Protocol):
    """Computes once per attempt what the score needs from the feasible rows, or skips the score."""

    def pre_score(self, state: CycleState, pod: Pod, view: "RowView", /) -> Status | None: ...


@runtime_checkable
class ScorePlugin(Plugin, Protocol):
    """Ranks the rows of the view; a plugin that also has `normalize_score` may use any range before that.

    A plugin with `per_node = True` gets one NodeInfo instead of the view, and returns an int.
    """

    def score(self, state: CycleState, pod: Pod, view: "RowView", /) -> Scores: ...


@runtime_checkable
class NormalizeScorePlugin(Plugin, Protocol):
    """Brings all scores of one attempt into 0..100."""

    def normalize_score(self, state: CycleState, pod: Pod, scores: Scores, /) -> Scores: ...


class Locality:
    """What a plugin's Filter or raw Score for a row depends on, besides the pod's `spec`: the runtime keeps such results.

    Plugins declare it in the class attributes `filter_locality` and `score_locality`. If a result also depends on something
    outside the row, the plugin has a method `locality_key(snapshot)`: results are kept only as long as its value stays equal.
    """

    NODE = "node"
    """Only the node object: valid until the row's `node_generation` changes."""
    ROW = "row"
    """The node and the pods on it: valid until the row's `generation` changes."""


@runtime_checkable
class EnqueueExtensions(Plugin, Protocol):
    """Registers the events that may help pods that the plugin rejected."""

    def events_to_register(self) -> Sequence[EventHint]: ...


@runtime_checkable
class WatchesKinds(Plugin, Protocol):
    """Names the kinds besides Pod and Node whose objects the plugin reads from `handle.cluster_objects`."""

    kinds: ClassVar[Sequence[str]]


@runtime_checkable
class ReservePlugin(Plugin, Protocol):
    """Reserves something for the pod before it is bound; `unreserve` releases it, and may be called repeatedly."""

    def reserve(self, state: CycleState, pod: Pod, node_name: str, /) -> Status | None: ...
    def unreserve(self, state: CycleState, pod: Pod, node_name: str, /) -> None: ...


@runtime_checkable
class PermitPlugin(Plugin, Protocol):
    """Allows, rejects, or asks to wait: (Status Wait, seconds)."""

    def permit(self, state: CycleState, pod: Pod, node_name: str, /) -> tuple[Status | None, float]: ...


@runtime_checkable
class PreBindPlugin(Plugin, Protocol):
    """Work that must be done before the pod may be bound; may wait, and is cancelled when the pod is not to be bound any more.

    Errors of the API may be raised: they are the attempt's, which is repeated after its backoff.
    """

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, /) -> Status | None: ...


@runtime_checkable
class PreBindPreFlightPlugin(PreBindPlugin, Protocol):
    """Answers Skip beforehand where PreBind has nothing to do for the pod; None where it has. Must be quick."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str, /) -> Status | None: ...


@runtime_checkable
class BindPlugin(Plugin, Protocol):
    """Binds the pod, or answers Skip to leave it to the next. Errors of the API are raised (schedcache.ports)."""

    async def bind(self, state: CycleState, pod: Pod, node_name: str, /) -> Status | None: ...


@runtime_checkable
class PostBindPlugin(Plugin, Protocol):
    """Called after the pod is bound."""

    def post_bind(self, state: CycleState, pod: Pod, node_name: str, /) -> None: ...


@runtime_checkable
class PostFilterPlugin(Plugin, Protocol):
    """Tries to make room for a pod that fits nowhere; `rejected` maps node names to their first failure."""

    def post_filter(
        self, state: CycleState, pod: Pod, snapshot: "Snapshot", rejected: Mapping[str, Status], /
    ) -> tuple[str | None, Status]: ...
