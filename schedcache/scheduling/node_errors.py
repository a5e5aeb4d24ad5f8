"""Tells of nodes that filters failed at. Pods go elsewhere meanwhile, so nothing else would show that something is wrong."""

from collections import OrderedDict
from collections.abc import Sequence

import structlog

from schedcache.framework.filtering import NodeError
from schedcache.ports import Metrics

_MOST_TOLD = 4096
_EXAMPLES = 3
_log = structlog.get_logger(__name__)


class NodeErrors:
    """Counts the attempts, and names each node with each cause once; of causes that are new all the time, the newest are known."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    def tell(self, errors: Sequence[NodeError]) -> None:
        """The errors of one attempt."""
        for plugin in dict.fromkeys(status.plugin for _, status in errors):
            self._metrics.filter_failed(plugin)
        new: dict[tuple[str, str], list[str]] = {}
        for node_name, status in errors:
            key = status.plugin, status.message, node_name
            if key not in self._told:
                new.setdefault(key[:2], []).append(node_name)
            self._told[key] = None
            self._told.move_to_end(key)
        while len(self._told) > _MOST_TOLD:
            self._told.popitem(last=False)
        for (plugin, message), names in new.items():
            _log.warning(
                "a filter failed at nodes, which count as rejected",
                plugin=plugin,
                nodes=names[:_EXAMPLES],
                number=len(names),
                error=message,
            )
