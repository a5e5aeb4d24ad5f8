"""Whether the profiles of a configuration can be made with the plugins that are installed."""

import time
from pathlib import Path

from schedcache.app.errors import UsageError
from schedcache.cache import ClusterObjects
from schedcache.config import KubeSchedulerConfiguration
from schedcache.framework import Framework, PluginSetError, RegistryError
from schedcache.kube.watch.kinds import KINDS
from schedcache.model import Pod
from schedcache.plugins.default_plugins import installed_registry
from schedcache.ports import WILDCARD
from schedcache.queue import events
from schedcache.scheduling import make_profiles


def check_profiles(configuration: KubeSchedulerConfiguration, file: Path) -> None:
    """Raises UsageError, naming profile, plugin and extension point."""
    try:
        frameworks, _ = make_profiles(
            configuration.profiles,
            installed_registry(),
            objects=ClusterObjects(),
            binder=None,
            pod_lister=_no_pod,
            clock=time.monotonic,
        )
        for framework in frameworks.values():
            watched_kinds(framework)
    except (PluginSetError, RegistryError) as error:
        raise UsageError(f"{file}: {error}") from error


def watched_kinds(framework: Framework) -> set[str]:
    """What the profile's plugins read beside pods and nodes.

    Raises PluginSetError for a kind that nobody can watch, be it read or waited for.
    """
    for plugin in framework.plugins.values():
        for kind in getattr(plugin, "kinds", ()):
            if kind not in KINDS:
                known = ", ".join(sorted(KINDS))
                raise PluginSetError(f"plugin {plugin.name!r} reads objects of kind {kind!r}; expected one of {known}")
    resources = (*sorted(KINDS), events.ASSIGNED_POD, events.UNSCHEDULED_POD, events.TARGET_POD, WILDCARD)
    for hint in framework.queueing_hints():
        if hint.resource not in resources:
            known = ", ".join(resources)
            raise PluginSetError(
                f"plugin {hint.plugin!r} waits for events of {hint.resource!r}, which never come; expected one of {known}"
            )
    return framework.kinds()


def _no_pod(_namespace: str, _name: str) -> Pod | None:
    return None
