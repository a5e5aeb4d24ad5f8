"""Settings that kube-scheduler knows and this scheduler does not support, and those that it accepts without effect."""

from collections.abc import Collection, Iterator

from schedcache.config import v1
from schedcache.config.defaults import default_plugin_names
from schedcache.config.hints import nearest
from schedcache.config.problems import Problem
from schedcache.config.types import GROUP_POINTS, POINTS, camel
from schedcache.config.validation import REMOVED_PLUGINS

_GROUP_PLUGINS = frozenset({"GangScheduling", "PodGroupPodsCount", "TopologyPlacementGenerator"})
_GROUPS = "is for scheduling groups of pods, which this scheduler does not support"


def unsupported(given: v1.KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Settings that are understood but not supported."""
    for i, profile in enumerate(given.profiles):
        for point in GROUP_POINTS:
            found = getattr(profile.plugins, point, None)
            if found is not None and found.enabled:
                names = ", ".join(repr(plugin.name) for plugin in found.enabled)
                yield Problem(("profiles", i, "plugins", camel(point)), f"{_GROUPS}: {names} cannot be enabled")


def unknown_plugins(given: v1.KubeSchedulerConfiguration, plugins: Collection[str]) -> Iterator[Problem]:
    """A problem for each mention of an enabled plugin that is neither one of kube-scheduler's nor one of `plugins`.

    A default plugin that is not installed is left out of a profile. Validation reports those that were removed.
    """
    known = default_plugin_names().union(plugins, REMOVED_PLUGINS)
    for i, profile in enumerate(given.profiles):
        for point in POINTS:
            found = getattr(profile.plugins, point, None) or v1.PluginSet()
            for j, plugin in enumerate(found.enabled):
                if plugin.name not in known:
                    at = ("profiles", i, "plugins", camel(point), "enabled", j)
                    yield Problem((*at, "name") if plugin.name else at, _unknown(plugin.name, known))


def _unknown(name: str, known: Collection[str]) -> str:
    if not name:
        return "name: is missing"
    if name in _GROUP_PLUGINS:
        return f"kube-scheduler's plugin {name!r} {_GROUPS}"
    near = nearest(name, known)
    return f"there is no plugin {name!r}" + (
        f"; did you mean {near!r}?" if near else ": no installed package provides it"
    )


def notes(given: v1.KubeSchedulerConfiguration) -> Iterator[str]:
    """Settings in the file that are accepted but have no effect."""
    if given.parallelism is not None:
        yield "parallelism: all nodes are evaluated at once, not by parallel workers"
    if given.enable_profiling or given.enable_contention_profiling:
        yield "enableProfiling, enableContentionProfiling: there are no Go profiles to serve"
    connection = given.client_connection
    if connection is not None and (connection.content_type or connection.accept_content_types):
        yield "clientConnection: requests to the API are always in JSON"
    if given.delay_cache_until_active:
        yield "delayCacheUntilActive: the cache is filled at once, so that a standby takes over without delay"
