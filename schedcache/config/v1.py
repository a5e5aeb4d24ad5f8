"""KubeSchedulerConfiguration as the file has it (kubescheduler.config.k8s.io/v1); field names are upstream's in snake_case.

As in upstream's type, a field is optional where leaving it out differs from writing zero, and is zero otherwise.
`schedcache.config.defaults` turns it into the effective configuration, which is another type (`schedcache.config.types`).
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from schedcache.config.duration import Duration

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Float32 = Annotated[float, Meta(ge=-3.4028235e38, le=3.4028235e38)]


class _V1(msgspec.Struct, rename="camel", kw_only=True):
    """Python's snake_case for the file's camelCase."""


class LeaderElection(_V1):
    """Zero stands for the default in every field but the first."""

    leader_elect: bool | None = None
    lease_duration: Duration = Duration()
    renew_deadline: Duration = Duration()
    retry_period: Duration = Duration()
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnection(_V1):
    """How to reach the API server, and the request rate; `qps` in requests per second, `burst` in requests."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: Float32 = 0.0
    burst: Int32 = 0


class Plugin(_V1):
    """One plugin of a set."""

    name: str = ""
    weight: Int32 | None = None


class PluginSet(_V1):
    """Plugins to enable and disable at one extension point; the name `*` under disabled stands for all."""

    enabled: list[Plugin] = []
    disabled: list[Plugin] = []


class Plugins(_V1):
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
    placement_generate: PluginSet | None = None
    placement_score: PluginSet | None = None
    pod_group_post_filter: PluginSet | None = None


class PluginConfig(_V1):
    """Arguments of one plugin: of a type in `schedcache.config.plugin_args`, or plain data for other plugins."""

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(_V1):
    """The plugins behind one scheduler name."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] = []


class _Extender(msgspec.Struct, rename="camel", kw_only=True, frozen=True, omit_defaults=True):
    """Extenders have the same type in the effective configuration, since hardly any field has its own default."""


class ExtenderTLSConfig(_Extender, frozen=True):
    """Keys and certificates, as file names or as bytes (base64 in the file)."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderManagedResource(_Extender, frozen=True):
    """An extended resource that the extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(_Extender, frozen=True):
    """A webhook that takes part in filtering, scoring, preemption or binding; a timeout of zero stands for the default."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: Int64 = 0
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = msgspec.field(name="httpTimeout", default=Duration())
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] = []
    ignorable: bool = False


class KubeSchedulerConfiguration(_V1):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 | None = None
    leader_election: LeaderElection | None = None
    client_connection: ClientConnection | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: list[KubeSchedulerProfile] = []
    extenders: list[Extender] = []
    delay_cache_until_active: bool = False
