"""What kube-scheduler 1.37 fills in where the file says nothing (apis/config/v1: defaults.go, default_plugins.go)."""

from collections.abc import Iterable
from typing import TypeVar

from msgspec.structs import fields, replace

from schedcache.config.plugin_args import default_args
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
from schedcache.model.pod_spec import DEFAULT_SCHEDULER_NAME

T = TypeVar("T")

ALL_PLUGINS = "*"

_DEFAULT_PLUGINS = (
    ("SchedulingGates", None),
    ("PrioritySort", None),
    ("NodeName", None),
    ("NodeUnschedulable", None),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", None),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", None),
    ("NodeVolumeLimits", None),
    ("VolumeBinding", None),
    ("VolumeZone", None),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", None),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", None),
    ("NodeDeclaredFeatures", None),
)
"""In the order of every extension point; the weight counts where the plugin scores."""

POINTS = tuple(f.name for f in fields(Plugins))


def default_plugin_names() -> frozenset[str]:
    """Names of all plugins that kube-scheduler enables by default."""
    return frozenset(name for name, _ in _DEFAULT_PLUGINS)


def with_defaults(given: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """The effective configuration: every field filled in, plugin sets merged with the default ones."""
    profiles = given.profiles or [KubeSchedulerProfile()]
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        # With several profiles each must have a name of its own, which validation checks.
        profiles = [replace(profiles[0], scheduler_name=DEFAULT_SCHEDULER_NAME)]
    profiling = _or(given.enable_profiling, default=True)
    return replace(
        given,
        parallelism=_or(given.parallelism, 16),
        leader_election=_leader_election(given.leader_election or LeaderElection()),
        client_connection=_client_connection(given.client_connection or ClientConnection()),
        enable_profiling=profiling,
        enable_contention_profiling=_or(given.enable_contention_profiling, profiling),
        percentage_of_nodes_to_score=_or(given.percentage_of_nodes_to_score, 0),
        pod_initial_backoff_seconds=_or(given.pod_initial_backoff_seconds, 1),
        pod_max_backoff_seconds=_or(given.pod_max_backoff_seconds, 10),
        profiles=[profile_with_defaults(profile) for profile in profiles],
        extenders=given.extenders or [],
        delay_cache_until_active=_or(given.delay_cache_until_active, default=False),
    )


def profile_with_defaults(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    """Plugin sets merged with the default ones, and arguments for every plugin that takes some."""
    plugins = _merged_plugins(profile.plugins or Plugins())
    given = {config.name for config in profile.plugin_config or ()}
    missing = ((name, default_args(name)) for name in _enabled_names(plugins) if name not in given)
    added = [PluginConfig(name=name, args=args) for name, args in missing if args is not None]
    return replace(profile, plugins=plugins, plugin_config=[*(profile.plugin_config or ()), *added])


def _merged_plugins(custom: Plugins) -> Plugins:
    default = PluginSet(enabled=[Plugin(name=name, weight=weight) for name, weight in _DEFAULT_PLUGINS])
    merged = {point: _merged_set(PluginSet(), getattr(custom, point) or PluginSet()) for point in POINTS}
    merged["multi_point"] = _merged_set(default, custom.multi_point or PluginSet())
    return Plugins(**merged)


def _merged_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Custom settings change the default list in place; what it lacks is appended (mergePluginSet)."""
    disabled = [*(custom.disabled or ()), *(default.disabled or ())]
    off = {plugin.name for plugin in disabled}
    wanted = {plugin.name: plugin for plugin in custom.enabled or ()}
    kept = [] if ALL_PLUGINS in off else [p for p in default.enabled or () if p.name not in off]
    enabled = [wanted.get(plugin.name, plugin) for plugin in kept]
    replaced = {id(plugin) for plugin in enabled}
    enabled += [plugin for plugin in custom.enabled or () if id(plugin) not in replaced]
    return PluginSet(enabled=enabled, disabled=disabled)


def _enabled_names(plugins: Plugins) -> Iterable[str]:
    return sorted({p.name for point in POINTS for p in (getattr(plugins, point).enabled or ())})


def _leader_election(given: LeaderElection) -> LeaderElection:
    return LeaderElection(
        leader_elect=_or(given.leader_elect, default=True),
        lease_duration=given.lease_duration or "15s",
        renew_deadline=given.renew_deadline or "10s",
        retry_period=given.retry_period or "2s",
        resource_lock=given.resource_lock or "leases",
        resource_name=given.resource_name or "kube-scheduler",
        resource_namespace=given.resource_namespace or "kube-system",
    )


def _client_connection(given: ClientConnection) -> ClientConnection:
    return ClientConnection(
        kubeconfig=given.kubeconfig or "",
        accept_content_types=given.accept_content_types or "",
        content_type=given.content_type or "application/vnd.kubernetes.protobuf",
        qps=given.qps or 50.0,
        burst=given.burst or 100,
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
