"""KubeSchedulerConfiguration: reading, defaults and validation."""

from schedcache.config.defaults import profile_with_defaults, with_defaults
from schedcache.config.loading import LoadedConfig, config_from_dict, load_config
from schedcache.config.problems import ConfigError
from schedcache.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile

__all__ = [
    "ConfigError",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LoadedConfig",
    "config_from_dict",
    "load_config",
    "profile_with_defaults",
    "with_defaults",
]
