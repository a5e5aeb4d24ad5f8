"""Plugins of installed packages, by the entry points that announce them: nothing is loaded to know their names."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

ENTRY_POINT_GROUP = "schedcache.plugins"


@cache
def installed_plugins() -> tuple[EntryPoint, ...]:
    """The name of an entry point is the plugin's. Looked up once: it reads the metadata of every installed package."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def installed_names() -> frozenset[str]:
    """Names of the plugins."""
    return frozenset(plugin.name for plugin in installed_plugins())
