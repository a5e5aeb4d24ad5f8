"""KubeSchedulerConfiguration: reading, defaults and validation.

`load_config` and `config_from_dict` turn what a file or a program says into a complete, immutable `KubeSchedulerConfiguration`.
The file's own types, in which most fields are optional, are in `schedcache.config.v1`.
"""

from schedcache.config.defaults import profile_with_defaults
from schedcache.config.installed import installed_names
from schedcache.config.loading import LoadedConfig, config_from_dict, load_config
from schedcache.config.problems import ConfigError
from schedcache.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile, LeaderElection
from schedcache.config.v1 import Extender
from schedcache.config.validation import leader_election_problems
from schedcache.config.writing import to_yaml

__all__ = [
    "ConfigError",
    "Extender",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "LeaderElection",
    "LoadedConfig",
    "config_from_dict",
    "installed_names",
    "leader_election_problems",
    "load_config",
    "profile_with_defaults",
    "to_yaml",
]
