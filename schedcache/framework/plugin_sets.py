"""Turns a profile's plugin sets into the list of plugins of each extension point (kube-scheduler's expandMultiPointPlugins)."""

from collections.abc import Iterable, Mapping
from typing import Any

from schedcache.config.defaults import ALL_PLUGINS
from schedcache.config.types import POINTS, Plugins, camel

_METHODS = {"queue_sort": "sort_key"}


class PluginSetError(ValueError):
    """A profile whose plugin sets do not make sense; the text names plugin and extension point."""


def takes_part(plugin: object, point: str) -> bool:
    """Whether a plugin has the method of the extension point."""
    return hasattr(plugin, _METHODS.get(point, point))


def enabled_names(plugins: Plugins) -> list[str]:
    """The names enabled at any point, each once, in the order of their first mention."""
    names: dict[str, None] = {}
    for point in ("multi_point", *POINTS):
        names.update((p.name, None) for p in getattr(plugins, point).enabled)
    return list(names)


def expand(plugins: Plugins, instances: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The plugins of every extension point, in the order in which they are called. Raises PluginSetError.

    First those that are enabled both at the point and in multiPoint, then the rest of multiPoint except those disabled at
    the point, then the others enabled at the point.
    """
    return {
        point: [instances[name] for name in _names_at(point, plugins, instances)]
        for point in POINTS
        if point != "multi_point"
    }


def _names_at(point: str, plugins: Plugins, instances: Mapping[str, Any]) -> list[str]:
    here = getattr(plugins, point)
    explicit = _unique((p.name for p in here.enabled), point)
    for name in explicit:
        if not takes_part(instances[name], point):
            raise PluginSetError(f"plugin {name!r} does not take part in {camel(point)}")
    disabled = {p.name for p in here.disabled}
    if ALL_PLUGINS in disabled:
        return explicit
    from_multi_point = [
        p.name for p in plugins.multi_point.enabled if takes_part(instances[p.name], point) and p.name not in disabled
    ]
    overriding = [name for name in explicit if name in from_multi_point]
    rest = _unique((name for name in from_multi_point if name not in explicit), point)
    return [*overriding, *rest, *(name for name in explicit if name not in overriding)]


def _unique(names: Iterable[str], point: str) -> list[str]:
    seen: list[str] = []
    for name in names:
        if name in seen:
            raise PluginSetError(f"plugin {name!r} is enabled twice at {camel(point)}")
        seen.append(name)
    return seen


def score_weights(plugins: Plugins, score_plugins: Iterable[Any]) -> dict[str, int]:
    """Plugin name -> weight; the weight at score overrides that at multiPoint. With 32 bits each, no total overflows."""
    weights: dict[str, int] = {}
    for plugin in (*plugins.score.enabled, *plugins.multi_point.enabled):
        weights.setdefault(plugin.name, plugin.weight or 1)
    return {plugin.name: weights[plugin.name] for plugin in score_plugins}
