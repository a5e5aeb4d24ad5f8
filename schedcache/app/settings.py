"""What is run, and the configuration that it is run with."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from msgspec.structs import replace

from schedcache.app.deadlines import HealthSettings, StopSettings
from schedcache.app.errors import UsageError
from schedcache.config import (
    ConfigError,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LoadedConfig,
    config_from_dict,
    installed_names,
    load_config,
)
from schedcache.kube.settings import (
    KopfSettings,
    LeaderElectionSettings,
    RequestSettings,
    WatchSettings,
    WriteSettings,
)
from schedcache.server.limits import ServingSettings
from schedcache.server.secure_settings import AccessSettings, TLSSettings

DEFAULT_SCHEDULER_NAME = "schedcache"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What to run; by default a scheduler named `schedcache` with kube-scheduler's default plugins.

    `kubeconfig` is a file; None: the cluster is found as `load_credentials` finds it. `qps` and `burst` are for binds and for the
    other writes each; a `qps` of 0 or less is no limit. An assumed pod that the watch has not confirmed `assumed_pod_ttl` seconds
    after its binding is asked about. `leader_election` None: this is the only replica (`leader_election_of` gives what the
    configuration says).

    `secure_port` is that of metrics and dump over HTTPS, for those who may ask; `port` is the same without TLS and for everybody. Both
    are on `bind_address`; None: all addresses for the first, loopback for the second. `probe_port` is that of the probes on all
    addresses. 0: any free one, None: not served.

    The nested ones are deadlines, pauses and limits that no flag sets; each says what it is for.
    """

    configuration: KubeSchedulerConfiguration = field(
        default_factory=lambda: configuration_of()  # noqa: PLW0108  made below
    )
    kubeconfig: str | Path | None = None
    qps: float = 50.0
    burst: int = 100
    event_source: str = "reflector"
    observe: bool = False
    max_in_unschedulable: float = 300.0
    assumed_pod_ttl: float = 30.0
    validate: bool = False
    bind_address: str | None = None
    secure_port: int | None = None
    port: int | None = None
    probe_port: int | None = None
    leader_election: LeaderElectionSettings | None = None
    requests: RequestSettings = RequestSettings()
    watch: WatchSettings = WatchSettings()
    kopf: KopfSettings = KopfSettings()
    writes: WriteSettings = WriteSettings()
    health: HealthSettings = HealthSettings()
    stop: StopSettings = StopSettings()
    serving: ServingSettings = ServingSettings()
    tls: TLSSettings = TLSSettings()
    access: AccessSettings = AccessSettings()

    @property
    def profiles(self) -> Sequence[KubeSchedulerProfile]:
        """The profiles to schedule for: none when observing."""
        return () if self.observe else self.configuration.profiles


def configuration_of(file: Path | None = None, scheduler_name: str | None = None) -> KubeSchedulerConfiguration:
    """The effective configuration, with `--scheduler-name` applied; without a file it has one profile. Raises UsageError."""
    if file is None:
        name = scheduler_name or DEFAULT_SCHEDULER_NAME
        return config_from_dict({"profiles": [{"schedulerName": name}]}).config
    loaded = load_file(file)
    for note in loaded.notes:
        _log.warning("setting without effect", file=str(file), note=note)
    configuration = loaded.config
    if scheduler_name is None:
        return configuration
    profiles = configuration.profiles
    if len(profiles) > 1:
        names = ", ".join(profile.scheduler_name for profile in profiles)
        raise UsageError(
            f"--scheduler-name renames the only profile, but {file} has {len(profiles)} ({names}); rename them in the file"
        )
    return replace(configuration, profiles=(replace(profiles[0], scheduler_name=scheduler_name),))


def load_file(file: Path) -> LoadedConfig:
    """Read a configuration file for the plugins that are installed. Raises UsageError with every problem in it."""
    try:
        return load_config(file.read_text(encoding="utf-8"), str(file), installed_names())
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: not UTF-8 text: {error.reason}") from error
    except ConfigError as error:
        raise UsageError(str(error)) from error
