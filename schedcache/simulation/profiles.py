"""Finds the profile for a pod."""

from collections.abc import Mapping
from typing import Any

from schedcache.config import KubeSchedulerConfiguration, KubeSchedulerProfile, config_from_dict, installed_names


class ProfileError(ValueError):
    """The configuration has no profile for the pod."""


def effective_config(config: Mapping[str, Any] | None) -> KubeSchedulerConfiguration:
    """None is kube-scheduler's default configuration. Raises ConfigError."""
    return config_from_dict(config, installed_names()).config


def profile_for(scheduler_name: str, config: KubeSchedulerConfiguration) -> tuple[KubeSchedulerProfile, list[str]]:
    """The pod's profile, and warnings. A single profile also gets the pods of other schedulers.

    Raises ProfileError if there are several and none has the name.
    """
    profiles = config.profiles
    for profile in profiles:
        if profile.scheduler_name == scheduler_name:
            return profile, []
    if len(profiles) == 1:
        only = profiles[0]
        text = f"schedulerName {scheduler_name!r} has no profile; the answer is that of {only.scheduler_name!r}"
        return only, [text]
    names = ", ".join(repr(p.scheduler_name) for p in profiles)
    raise ProfileError(f"spec.schedulerName: no profile is named {scheduler_name!r}, there are {names}")
