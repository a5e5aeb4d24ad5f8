"""Plugins of installed packages, found by their entry points; nothing is loaded to learn their names."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

ENTRY_POINT_GROUP = "schedcache.plugins"


@cache
def installed_plugins() -> tuple[EntryPoint, ...]:
    """Entry points, each with its plugin's name. Looked up once, since this reads the metadata of every installed package."""
    return tuple(entry_points(group=ENTRY_POINT_GROUP))


def installed_names() -> frozenset[str]:
    """Names of the plugins."""
    return frozenset(plugin.name for plugin in installed_plugins())
