"""Turns what a file says into the effective configuration (kube-scheduler 1.37, apis/config/v1: defaults.go, default_plugins.go)."""

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from schedcache.config import v1
from schedcache.config.duration import Duration
from schedcache.config.plugin_args import NodeResourcesFitArgs, default_args
from schedcache.config.types import (
    ClientConnection,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
)

T = TypeVar("T", bound=msgspec.Struct)

ALL_PLUGINS = "*"
_EXTENDER_TIMEOUT = Duration.parse("5s")

_DEFAULT_PLUGINS = PluginSet(
    enabled=(
        Plugin(name="SchedulingGates"),
        Plugin(name="PrioritySort"),
        Plugin(name="NodeName"),
        Plugin(name="NodeUnschedulable"),
        Plugin(name="TaintToleration", weight=3),
        Plugin(name="NodeAffinity", weight=2),
        Plugin(name="NodePorts"),
        Plugin(name="NodeResourcesFit", weight=1),
        Plugin(name="VolumeRestrictions"),
        Plugin(name="NodeVolumeLimits"),
        Plugin(name="VolumeBinding"),
        Plugin(name="VolumeZone"),
        Plugin(name="PodTopologySpread", weight=2),
        Plugin(name="InterPodAffinity", weight=2),
        Plugin(name="DynamicResources", weight=2),
        Plugin(name="DefaultPreemption"),
        Plugin(name="NodeResourcesBalancedAllocation", weight=1),
        Plugin(name="ImageLocality", weight=1),
        Plugin(name="DefaultBinder"),
        Plugin(name="NodeDeclaredFeatures"),
    )
)
"""In the order of every extension point; the weight counts if the plugin scores."""


def default_plugin_names() -> frozenset[str]:
    """Names of all plugins that kube-scheduler enables by default."""
    return frozenset(plugin.name for plugin in _DEFAULT_PLUGINS.enabled)


def with_defaults(given: v1.KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Fill in every field and merge the plugin sets with the default ones. Nothing is checked: see `schedcache.config.validation`."""
    profiling = given.enable_profiling is not False
    contention = given.enable_contention_profiling
    default = KubeSchedulerConfiguration(
        leader_election=_with_non_zero(LeaderElection(), given.leader_election),
        client_connection=_with_non_zero(ClientConnection(), given.client_connection),
        enable_profiling=profiling,
        enable_contention_profiling=profiling if contention is None else contention,
        profiles=_beside(given.extenders, _profiles(given.profiles or [v1.KubeSchedulerProfile()])),
        extenders=tuple(replace(e, http_timeout=e.http_timeout or _EXTENDER_TIMEOUT) for e in given.extenders),
        delay_cache_until_active=given.delay_cache_until_active,
    )
    return _with_given(
        default,
        parallelism=given.parallelism,
        percentage_of_nodes_to_score=given.percentage_of_nodes_to_score,
        pod_initial_backoff_seconds=given.pod_initial_backoff_seconds,
        pod_max_backoff_seconds=given.pod_max_backoff_seconds,
    )


def profile_with_defaults(given: v1.KubeSchedulerProfile) -> KubeSchedulerProfile:
    """Merge the plugin sets with the default ones, and add arguments for every enabled plugin that takes some."""
    plugins = _merged_plugins(given.plugins or v1.Plugins())
    args = {config.name: config.args for config in reversed(given.plugin_config)}
    names = sorted(_enabled_names(plugins))
    configs = ((name, default_args(name) if args.get(name) is None else args[name]) for name in names)
    profile = KubeSchedulerProfile(
        percentage_of_nodes_to_score=given.percentage_of_nodes_to_score,
        plugins=plugins,
        plugin_config=tuple(PluginConfig(name=name, args=found) for name, found in configs if found is not None),
    )
    return _with_given(profile, scheduler_name=given.scheduler_name)


def _profiles(given: list[v1.KubeSchedulerProfile]) -> tuple[KubeSchedulerProfile, ...]:
    if len(given) > 1:
        # With several, each needs its own name, which validation checks.
        given = [replace(profile, scheduler_name=profile.scheduler_name or "") for profile in given]
    return tuple(map(profile_with_defaults, given))


def _beside(
    extenders: Iterable[v1.Extender], profiles: tuple[KubeSchedulerProfile, ...]
) -> tuple[KubeSchedulerProfile, ...]:
    """NodeResourcesFit looks past what an extender manages in the scheduler's place, and at its own `ignoredResources` no more.

    kube-scheduler does that when it makes its extenders (buildExtenders), and writes it out.
    """
    managed = (resource for extender in extenders for resource in extender.managed_resources)
    ignored = [resource.name for resource in managed if resource.ignored_by_scheduler]
    if not ignored:
        return profiles

    def ignoring(config: PluginConfig) -> PluginConfig:
        if not isinstance(config.args, NodeResourcesFitArgs):
            return config
        return replace(config, args=replace(config.args, ignored_resources=ignored))

    return tuple(replace(p, plugin_config=tuple(map(ignoring, p.plugin_config))) for p in profiles)


def _merged_plugins(custom: v1.Plugins) -> Plugins:
    sets = {point: getattr(custom, point) or v1.PluginSet() for point in Plugins.__struct_fields__}
    merged = {point: _merged_set(PluginSet(), found) for point, found in sets.items()}
    return Plugins(**{**merged, "multi_point": _merged_set(_DEFAULT_PLUGINS, sets["multi_point"])})


def _merged_set(default: PluginSet, custom: v1.PluginSet) -> PluginSet:
    """Custom settings change the default list in place; plugins that are not in it are appended (mergePluginSet)."""
    disabled = tuple(Plugin(name=plugin.name) for plugin in custom.disabled)
    off = {plugin.name for plugin in disabled}
    given = [Plugin(name=plugin.name, weight=plugin.weight or 0) for plugin in custom.enabled]
    wanted = {plugin.name: plugin for plugin in given}
    kept = () if ALL_PLUGINS in off else (plugin for plugin in default.enabled if plugin.name not in off)
    enabled = [wanted.get(plugin.name, plugin) for plugin in kept]
    replaced = {id(plugin) for plugin in enabled}
    # A name that is given twice is appended too; the framework will refuse it.
    return PluginSet(enabled=(*enabled, *(p for p in given if id(p) not in replaced)), disabled=disabled)


def _enabled_names(plugins: Plugins) -> set[str]:
    sets: list[PluginSet] = [getattr(plugins, point) for point in Plugins.__struct_fields__]
    return {plugin.name for found in sets for plugin in found.enabled}


def _with_given(default: T, **given: Any) -> T:
    """Optional fields: those left out keep the default."""
    return replace(default, **{name: value for name, value in given.items() if value is not None})


def _with_non_zero(default: T, given: msgspec.Struct | None) -> T:
    """Other fields: a Go program writes 0, 0s and "" for fields that were not set, so these stand for the default too."""
    if given is None:
        return default
    fields = {name: getattr(given, name) for name in given.__struct_fields__}
    return replace(default, **{name: value for name, value in fields.items() if value or value is False})
