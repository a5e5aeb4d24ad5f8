"""KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1) as data; field names are upstream's in snake_case.

None means "not given"; `schedcache.config.defaults` fills everything in.
"""

from typing import Any

import msgspec

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"


class _Config(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """Python's snake_case for the file's camelCase."""


class LeaderElection(_Config):
    """Durations are Go texts (`15s`) in the file and stay texts here; `seconds` of `schedcache.config.duration` reads them."""

    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class ClientConnection(_Config):
    """How to reach the API server and how fast to ask; `qps` and `burst` in requests a second."""

    kubeconfig: str | None = None
    accept_content_types: str | None = None
    content_type: str | None = None
    qps: float | None = None
    burst: int | None = None


class Plugin(_Config):
    """One plugin of a set; a weight of None or 0 counts as 1."""

    name: str
    weight: int | None = None


class PluginSet(_Config):
    """What to switch on and off at one extension point; the name `*` under disabled stands for all."""

    enabled: list[Plugin] | None = None
    disabled: list[Plugin] | None = None


class Plugins(_Config):
    """The plugin sets by extension point; `multi_point` is for every point that a plugin implements."""

    pre_enqueue: PluginSet | None = None
    queue_sort: PluginSet | None = None
    pre_filter: PluginSet | None = None
    filter: PluginSet | None = None
    post_filter: PluginSet | None = None
    pre_score: PluginSet | None = None
    score: PluginSet | None = None
    reserve: PluginSet | None = None
    permit: PluginSet | None = None
    pre_bind: PluginSet | None = None
    bind: PluginSet | None = None
    post_bind: PluginSet | None = None
    multi_point: PluginSet | None = None


class PluginConfig(_Config):
    """Arguments of one plugin: of a type in `schedcache.config.plugin_args`, or as read for a plugin from elsewhere."""

    name: str
    args: Any = None


class KubeSchedulerProfile(_Config):
    """What one scheduler name stands for."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] | None = None


class ExtenderTLSConfig(_Config):
    """Key material as file names or base64 texts."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ExtenderManagedResource(_Config):
    """An extended resource that the extender looks after."""

    name: str
    ignored_by_scheduler: bool = False


class Extender(_Config):
    """A webhook that takes part in filtering, scoring, preemption or binding."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: str | None = msgspec.field(name="httpTimeout", default=None)
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] | None = None
    ignorable: bool = False


class KubeSchedulerConfiguration(_Config):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: int | None = None
    leader_election: LeaderElection | None = None
    client_connection: ClientConnection | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    profiles: list[KubeSchedulerProfile] | None = None
    extenders: list[Extender] | None = None
    delay_cache_until_active: bool | None = None
