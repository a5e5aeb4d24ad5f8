"""Names of plugins and how to make them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import EntryPoint
from typing import Any

from schedcache.config.installed import installed_plugins
from schedcache.framework.handle import Handle
from schedcache.framework.interface import Plugin
from schedcache.model.error_text import error_text

PluginFactory = Callable[[Any, Handle], Plugin]
"""Called as `factory(args, handle)`: a plugin class, or a function that makes a plugin."""


class RegistryError(ValueError):
    """A plugin name is already taken, or a package's plugin cannot be loaded."""


class Registry(Mapping[str, PluginFactory]):
    """Plugin name -> factory."""

    def __init__(self, factories: Mapping[str, PluginFactory] | None = None) -> None:
        self._factories = dict(factories or {})

    def __getitem__(self, name: str) -> PluginFactory:
        return self._factories[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)

    def register(self, name: str, factory: PluginFactory) -> None:
        """Add a plugin. Raises RegistryError if the name is taken."""
        if name in self._factories:
            raise RegistryError(f"a plugin named {name!r} is already registered")
        self._factories[name] = factory

    def register_installed(self) -> None:
        """Add the plugins of all installed packages (entry point group `schedcache.plugins`).

        The entry point's name is the plugin's name in the configuration. A package is loaded only when a profile uses its
        plugin, so a broken one that is not used does no harm. Raises RegistryError for a name that is taken.
        """
        for entry_point in installed_plugins():
            self.register(entry_point.name, partial(_load_and_make, entry_point))


def _load_and_make(entry_point: EntryPoint, args: Any, handle: Handle) -> Plugin:
    try:
        factory: PluginFactory = entry_point.load()
    except Exception as error:
        raise RegistryError(
            f"plugin {entry_point.name!r} ({entry_point.value}) cannot be loaded: {error_text(error)}"
        ) from error
    return factory(args, handle)
