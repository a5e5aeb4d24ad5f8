"""The effective configuration: complete, immutable, and what the rest of the program works with.

`schedcache.config.defaults` makes it from what a file says. The defaults of the fields are kube-scheduler 1.37's
(apis/config/v1/defaults.go).
"""

import re
from typing import Any

import msgspec

from schedcache.config.duration import Duration
from schedcache.config.v1 import API_VERSION, KIND, Extender
from schedcache.model.pod_spec import DEFAULT_SCHEDULER_NAME


class _Effective(msgspec.Struct, rename="camel", kw_only=True, frozen=True):
    """The names are those in the file."""


class LeaderElection(_Effective, frozen=True):
    """Leader election: the lease, and how it is kept."""

    leader_elect: bool = True
    lease_duration: Duration = Duration.parse("15s")
    renew_deadline: Duration = Duration.parse("10s")
    retry_period: Duration = Duration.parse("2s")
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(_Effective, frozen=True):
    """How to reach the API server, and the request rate; `qps` in requests per second, unlimited below zero.

    `kubeconfig` "": the usual places are searched.
    """

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class Plugin(_Effective, frozen=True):
    """One plugin of a set; a weight of 0 counts as 1."""

    name: str
    weight: int = 0


class PluginSet(_Effective, frozen=True):
    """The enabled and disabled plugins of one extension point; the name `*` under disabled stands for all."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(_Effective, frozen=True):
    """The plugin sets by extension point; `multi_point` is for every point that a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()


class PluginConfig(_Effective, frozen=True):
    """Arguments of one plugin: of a type in `schedcache.config.plugin_args`, or plain data for other plugins."""

    name: str
    args: Any


class KubeSchedulerProfile(_Effective, frozen=True):
    """The plugins behind one scheduler name.

    `percentage_of_nodes_to_score` None: that of the whole configuration. `plugin_config`: by name, for enabled plugins only.
    """

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class KubeSchedulerConfiguration(_Effective, frozen=True):
    """The whole configuration; backoffs are in seconds, percentages 0 to 100."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False


def camel(name: str) -> str:
    """`pre_filter` as the file writes it: `preFilter`."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


GROUP_POINTS = ("placement_generate", "placement_score", "pod_group_post_filter")
"""Extension points for scheduling groups of pods, which are not supported: nothing is ever enabled there."""
POINTS = tuple(field for field in Plugins.__struct_fields__ if field not in GROUP_POINTS)
"""The others, including `multi_point`."""
