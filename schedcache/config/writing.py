"""The effective configuration as kube-scheduler itself writes it (`--write-config-to`)."""

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from schedcache.config.plugin_args import ARGS
from schedcache.config.types import KubeSchedulerConfiguration
from schedcache.config.v1 import API_VERSION


def plain(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The configuration as plain data, from which the same configuration can be read again."""
    written = msgspec.to_builtins(config, enc_hook=str)
    for profile in written["profiles"]:
        for plugin in profile["pluginConfig"]:
            if plugin["name"] in ARGS:
                plugin["args"] = {"apiVersion": API_VERSION, "kind": f"{plugin['name']}Args", **plugin["args"]}
    for name in ("extenders", "delayCacheUntilActive"):
        if not written[name]:
            del written[name]
    return {name: _without_empty(value) for name, value in written.items()}


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    """The configuration as YAML."""
    return yaml.safe_dump(plain(config), sort_keys=False, default_flow_style=False)


def _without_empty(value: Any) -> Any:
    """Leave out fields that hold null or an empty list: they mean the same."""
    if isinstance(value, Mapping):
        return {name: _without_empty(found) for name, found in value.items() if found not in (None, [], ())}
    return [_without_empty(item) for item in value] if isinstance(value, list | tuple) else value
