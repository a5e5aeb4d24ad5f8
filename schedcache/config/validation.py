"""kube-scheduler 1.37's rules for a configuration (apis/config/validation)."""

from collections.abc import Iterator, Sequence

from schedcache.config import v1
from schedcache.config.args_validation import VALIDATORS, is_qualified_name
from schedcache.config.duration import Duration
from schedcache.config.plugin_args import Args
from schedcache.config.problems import Path, Problem
from schedcache.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile, LeaderElection, Plugins, camel
from schedcache.model.resources import is_extended_resource

REMOVED_PLUGINS = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_JITTER = 1.2
"""The longest time that client-go waits between two tries to renew a lease, in retry periods."""
_DEFAULT_QUEUE_SORT = "PrioritySort"


def validate(given: v1.KubeSchedulerConfiguration, effective: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Every problem of a configuration: of what the file says, and of the effective configuration."""
    if effective.client_connection.burst < 0:
        yield Problem(("clientConnection", "burst"), f"{effective.client_connection.burst} is negative")
    yield from leader_election_problems(effective.leader_election)
    if effective.parallelism <= 0:
        yield Problem(("parallelism",), f"{effective.parallelism} is not greater than zero")
    yield from _percentage(effective.percentage_of_nodes_to_score, ("percentageOfNodesToScore",))
    for i, profile in enumerate(given.profiles):
        yield from _profile(profile, ("profiles", i))
    yield from _profiles(effective.profiles)
    initial, longest = effective.pod_initial_backoff_seconds, effective.pod_max_backoff_seconds
    if initial <= 0:
        yield Problem(("podInitialBackoffSeconds",), f"{initial} is not greater than 0")
    if longest < initial:
        yield Problem(("podMaxBackoffSeconds",), f"{longest} is less than podInitialBackoffSeconds, {initial}")
    yield from _extenders(effective.extenders)


def leader_election_problems(election: LeaderElection) -> Iterator[Problem]:
    """Every problem of this part."""
    if not election.leader_elect:
        return
    for name in ("lease_duration", "renew_deadline", "retry_period"):
        if getattr(election, name) <= Duration():
            yield Problem(("leaderElection", camel(name)), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        yield Problem(
            ("leaderElection", "leaseDuration"),
            f"{election.lease_duration} is not greater than renewDeadline, {election.renew_deadline}",
        )
    if election.renew_deadline.seconds <= election.retry_period.seconds * _JITTER:
        yield Problem(
            ("leaderElection", "renewDeadline"),
            f"{election.renew_deadline} is not greater than {_JITTER} times retryPeriod, {election.retry_period}",
        )
    if election.resource_lock != "leases":
        yield Problem(("leaderElection", "resourceLock"), f'{election.resource_lock!r} is not "leases", the only kind')


def _percentage(value: int | None, at: Path) -> Iterator[Problem]:
    if value is not None and not 0 <= value <= 100:
        yield Problem(at, f"{value} is not in the range 0 to 100")


def _profile(profile: v1.KubeSchedulerProfile, at: Path) -> Iterator[Problem]:
    yield from _percentage(profile.percentage_of_nodes_to_score, (*at, "percentageOfNodesToScore"))
    for point in Plugins.__struct_fields__:
        found = getattr(profile.plugins, point, None)
        if found is not None:
            yield from _plugin_set(found, point, (*at, "plugins", camel(point)))
    seen: set[str] = set()
    for i, plugin in enumerate(profile.plugin_config):
        where = (*at, "pluginConfig", i)
        if plugin.name in seen:
            yield Problem((*where, "name"), f"{plugin.name!r} is configured twice")
        seen.add(plugin.name)
        if plugin.name in REMOVED_PLUGINS:
            yield Problem((*where, "name"), _removed(plugin.name))
        elif isinstance(plugin.args, Args):
            yield from VALIDATORS[plugin.name](plugin.args, (*where, "args"))


def _plugin_set(found: v1.PluginSet, point: str, at: Path) -> Iterator[Problem]:
    if point == "queue_sort" and len(found.enabled) > 1:
        yield Problem((*at, "enabled"), "only one queue sort plugin can be enabled")
    for i, plugin in enumerate(found.enabled):
        if plugin.name in REMOVED_PLUGINS:
            yield Problem((*at, "enabled", i, "name"), _removed(plugin.name))
        if point in ("score", "multi_point") and (plugin.weight or 0) < 0:
            # kube-scheduler takes it for an overflow of the sum, unless it is the last plugin that scores.
            yield Problem((*at, "enabled", i, "weight"), f"{plugin.weight} is negative")


def _removed(name: str) -> str:
    return f"plugin {name!r} is not part of {v1.API_VERSION}; NodeVolumeLimits has replaced it"


def _profiles(profiles: Sequence[KubeSchedulerProfile]) -> Iterator[Problem]:
    names = [profile.scheduler_name for profile in profiles]
    for i, profile in enumerate(profiles):
        at = ("profiles", i, "schedulerName")
        if not profile.scheduler_name:
            yield Problem(
                at, "is missing; with several profiles each needs one of its own" if i or names[1:] else "is empty"
            )
        elif profile.scheduler_name in names[:i]:
            yield Problem(at, f"{profile.scheduler_name!r} is also the name of another profile")
        if profile.plugins.queue_sort != profiles[0].plugins.queue_sort:
            yield Problem(("profiles", i, "plugins", "queueSort"), "must be the same for all profiles")
        elif _queue_sort_args(profile) != _queue_sort_args(profiles[0]):
            yield Problem(
                ("profiles", i, "pluginConfig"), "args of the queue sort plugin must be the same for all profiles"
            )


def _queue_sort_args(profile: KubeSchedulerProfile) -> object:
    own = profile.plugins.queue_sort.enabled
    name = own[0].name if own else _DEFAULT_QUEUE_SORT
    return next((config.args for config in profile.plugin_config if config.name == name), None)


def _extenders(extenders: Sequence[v1.Extender]) -> Iterator[Problem]:
    managed: set[str] = set()
    binders = 0
    for i, extender in enumerate(extenders):
        if extender.prioritize_verb and extender.weight <= 0:
            yield Problem(
                ("extenders", i, "weight"),
                f"{extender.weight} is not greater than 0, which an extender that prioritizes needs",
            )
        binders += bool(extender.bind_verb)
        tls = extender.tls_config
        if tls is not None and tls.insecure and (tls.ca_file or tls.ca_data):
            yield Problem(("extenders", i, "tlsConfig", "insecure"), "cannot be true when caFile or caData is given")
        for j, resource in enumerate(extender.managed_resources):
            at = ("extenders", i, "managedResources", j, "name")
            if not is_qualified_name(resource.name) or not is_extended_resource(resource.name):
                yield Problem(at, f"{resource.name!r} is not the name of an extended resource")
            if resource.name in managed:
                yield Problem(at, f"{resource.name!r} is also managed by another extender")
            managed.add(resource.name)
    if binders > 1:
        yield Problem(("extenders",), f"{binders} extenders bind pods; only one may")
