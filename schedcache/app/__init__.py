"""A scheduler assembled and run: settings, the program made of them, its ports, its health.

The whole of it in a program of your own::

    settings = Settings(kubeconfig="cluster.yaml", port=10251)
    async with assembled(settings) as program, served(program):
        await program.run()

`run_until` takes an event that ends it in good order, as a signal may set it; docs/embedding.md has such a program.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedcache.app.deadlines import HealthSettings, StopSettings
    from schedcache.app.errors import UsageError
    from schedcache.app.health import health_of
    from schedcache.app.leader_election import leader_election_of
    from schedcache.app.program import Program, assembled
    from schedcache.app.running import Ports, run_until, served
    from schedcache.app.settings import Settings, configuration_of

__all__ = [
    "HealthSettings",
    "Ports",
    "Program",
    "Settings",
    "StopSettings",
    "UsageError",
    "assembled",
    "configuration_of",
    "health_of",
    "leader_election_of",
    "run_until",
    "served",
]

# Loaded when asked for: every command imports modules of this package, and most of them need no program, which takes a second.
_MODULES = {
    "HealthSettings": "deadlines",
    "Ports": "running",
    "Program": "program",
    "Settings": "settings",
    "StopSettings": "deadlines",
    "UsageError": "errors",
    "assembled": "program",
    "configuration_of": "settings",
    "health_of": "health",
    "leader_election_of": "leader_election",
    "run_until": "running",
    "served": "running",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
