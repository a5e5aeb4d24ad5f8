"""Default plugins that a registry lacks: the profile does without them, and pods that need one wait and say so."""

from collections.abc import Callable, Collection, Mapping

from msgspec.structs import replace

from schedcache.config import KubeSchedulerProfile
from schedcache.config.defaults import POINTS, default_plugin_names
from schedcache.config.types import Plugins, PluginSet
from schedcache.model import Pod

Need = Callable[[Pod], bool]
_NEEDS: Mapping[str, Need] = {
    "VolumeBinding": lambda pod: bool(pod.volumes),
    "VolumeRestrictions": lambda pod: bool(pod.volumes),
    "VolumeZone": lambda pod: bool(pod.volumes),
    "NodeVolumeLimits": lambda pod: bool(pod.volumes),
    "PodTopologySpread": lambda pod: bool(pod.spec.topology_spread),
    "InterPodAffinity": lambda pod: pod.spec.has_pod_affinity,
}
"""Plugin -> whether a pod would be placed wrongly without it."""


def without_missing(
    profile: KubeSchedulerProfile, registry: Collection[str]
) -> tuple[KubeSchedulerProfile, frozenset[str]]:
    """The profile without the default plugins that the registry lacks, and their names. Others' plugins are left in."""
    missing = default_plugin_names() - set(registry)
    plugins = profile.plugins
    if not missing or plugins is None:
        return profile, frozenset()
    found = {point: getattr(plugins, point) for point in POINTS}
    kept = {point: _without(plugin_set, missing) for point, plugin_set in found.items() if plugin_set is not None}
    return replace(profile, plugins=Plugins(**kept)), missing


def _without(plugin_set: PluginSet, missing: Collection[str]) -> PluginSet:
    return replace(plugin_set, enabled=[plugin for plugin in plugin_set.enabled or () if plugin.name not in missing])


def refusal(pod: Pod, missing: Collection[str]) -> str:
    """Why a pod cannot be placed without the missing plugins, "" where it can."""
    needed = sorted(name for name in missing if name in _NEEDS and _NEEDS[name](pod))
    return f"pod needs the plugin {needed[0]}, which this scheduler does not have yet" if needed else ""
