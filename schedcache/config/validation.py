"""kube-scheduler 1.37's rules for a configuration with its defaults filled in (apis/config/validation)."""

import re
from collections.abc import Callable, Iterator, Sequence

from schedcache.config.args_validation import VALIDATORS
from schedcache.config.defaults import POINTS
from schedcache.config.duration import seconds
from schedcache.config.plugin_args import Args
from schedcache.config.problems import Path, Problem
from schedcache.config.types import (
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
    PluginSet,
)
from schedcache.model.resources import is_extended_resource

_REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
_CAMEL = re.compile(r"_(\w)")


def validate(config: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Every problem of an effective configuration."""
    yield from _client_connection(config)
    if config.leader_election is not None:
        yield from _leader_election(config.leader_election)
    if (config.parallelism or 0) <= 0:
        yield Problem(("parallelism",), f"{config.parallelism} is not greater than zero")
    yield from _percentage(config.percentage_of_nodes_to_score, ("percentageOfNodesToScore",))
    profiles = config.profiles or []
    for i, profile in enumerate(profiles):
        yield from _profile(profile, ("profiles", i))
        earlier = [p.scheduler_name for p in profiles[:i]]
        if profile.scheduler_name in earlier:
            yield Problem(
                ("profiles", i, "schedulerName"), f"{profile.scheduler_name!r} is the name of another profile too"
            )
        if i and _names(profile, "queue_sort") != _names(profiles[0], "queue_sort"):
            yield Problem(("profiles", i, "plugins", "queueSort"), "must be the same for all profiles")
    initial, longest = config.pod_initial_backoff_seconds or 0, config.pod_max_backoff_seconds or 0
    if initial <= 0:
        yield Problem(("podInitialBackoffSeconds",), f"{initial} is not greater than 0")
    if longest < initial:
        yield Problem(("podMaxBackoffSeconds",), f"{longest} is less than podInitialBackoffSeconds, {initial}")
    yield from _extenders(config.extenders or [])


def _client_connection(config: KubeSchedulerConfiguration) -> Iterator[Problem]:
    connection = config.client_connection
    if connection is not None and (connection.burst or 0) < 0:
        yield Problem(("clientConnection", "burst"), f"{connection.burst} is negative")


def _leader_election(election: LeaderElection) -> Iterator[Problem]:
    if not election.leader_elect:
        return
    times: dict[str, float] = {}
    for name in ("lease_duration", "renew_deadline", "retry_period"):
        try:
            times[name] = seconds(getattr(election, name))
        except ValueError as error:
            yield Problem(("leaderElection", _camel(name)), str(error))
    for name, value in times.items():
        if value <= 0:
            yield Problem(("leaderElection", _camel(name)), "must be greater than zero")
    if len(times) == 3:
        if times["lease_duration"] <= times["renew_deadline"]:
            yield Problem(("leaderElection", "leaseDuration"), "must be greater than renewDeadline")
        if times["renew_deadline"] <= times["retry_period"]:
            yield Problem(("leaderElection", "renewDeadline"), "must be greater than retryPeriod")
    if election.resource_lock != "leases":
        yield Problem(("leaderElection", "resourceLock"), f'{election.resource_lock!r} is not "leases", the only kind')


def _percentage(value: int | None, at: Path) -> Iterator[Problem]:
    if value is not None and not 0 <= value <= 100:
        yield Problem(at, f"{value} is not in the range 0 to 100")


def _profile(profile: KubeSchedulerProfile, at: Path) -> Iterator[Problem]:
    if not profile.scheduler_name:
        yield Problem((*at, "schedulerName"), "is missing; with several profiles each needs one of its own")
    yield from _percentage(profile.percentage_of_nodes_to_score, (*at, "percentageOfNodesToScore"))
    for point in POINTS:
        yield from _plugin_set(getattr(profile.plugins, point), (*at, "plugins", _camel(point)))
    if len(_names(profile, "queue_sort")) > 1:
        yield Problem((*at, "plugins", "queueSort", "enabled"), "only one queue sort plugin can be enabled")
    seen: set[str] = set()
    for i, plugin in enumerate(profile.plugin_config or ()):
        where = (*at, "pluginConfig", i)
        if plugin.name in seen:
            yield Problem((*where, "name"), f"{plugin.name!r} is configured twice")
        seen.add(plugin.name)
        if plugin.name in _REMOVED:
            yield Problem((*where, "name"), _removed(plugin.name))
        elif isinstance(plugin.args, Args):
            yield from VALIDATORS[plugin.name](plugin.args, (*where, "args"))


def _plugin_set(found: PluginSet, at: Path) -> Iterator[Problem]:
    for i, plugin in enumerate(found.enabled or ()):
        if plugin.name in _REMOVED:
            yield Problem((*at, "enabled", i, "name"), _removed(plugin.name))
        if plugin.weight is not None and plugin.weight < 0:
            yield Problem((*at, "enabled", i, "weight"), f"{plugin.weight} is negative")


def _removed(name: str) -> str:
    return f"plugin {name!r} is not part of kubescheduler.config.k8s.io/v1; NodeVolumeLimits has taken its place"


def _names(profile: KubeSchedulerProfile, point: str) -> list[str]:
    found: PluginSet = getattr(profile.plugins, point)
    return [plugin.name for plugin in found.enabled or ()]


def _extenders(extenders: Sequence[Extender]) -> Iterator[Problem]:
    managed: set[str] = set()
    binders = 0
    for i, extender in enumerate(extenders):
        if extender.prioritize_verb and extender.weight <= 0:
            yield Problem(("extenders", i, "weight"), "must be greater than 0 for an extender that prioritizes")
        binders += bool(extender.bind_verb)
        for j, resource in enumerate(extender.managed_resources or ()):
            at = ("extenders", i, "managedResources", j, "name")
            if not is_extended_resource(resource.name):
                yield Problem(at, f"{resource.name!r} is not the name of an extended resource")
            if resource.name in managed:
                yield Problem(at, f"{resource.name!r} is managed by another extender too")
            managed.add(resource.name)
    if binders > 1:
        yield Problem(("extenders",), f"{binders} extenders bind, only one can")


def _camel(name: str) -> str:
    upper: Callable[[re.Match[str]], str] = lambda match: match[1].upper()  # noqa: E731  one line, used once
    return _CAMEL.sub(upper, name)
