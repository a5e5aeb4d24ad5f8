"""KubeSchedulerConfiguration: types, defaults and validation."""

from schedcache.config.defaults import profile_with_defaults, with_defaults
from schedcache.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile

__all__ = ["KubeSchedulerConfiguration", "KubeSchedulerProfile", "profile_with_defaults", "with_defaults"]
