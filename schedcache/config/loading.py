"""From a file or plain data to the effective configuration: read, defaulted, validated; or every problem at once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import yaml

from schedcache.config.defaults import with_defaults
from schedcache.config.plain_yaml import PlainYAMLError, documents
from schedcache.config.plugin_args import ARGS
from schedcache.config.problems import ConfigError, Lines, Problem
from schedcache.config.strict import convert
from schedcache.config.support import notes, unsupported, unsupported_fields
from schedcache.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from schedcache.config.validation import validate

_IDENTITY = {"apiVersion": API_VERSION, "kind": KIND}


class LoadedConfig(NamedTuple):
    """The effective configuration, and what its writer should know about settings that do nothing here."""

    config: KubeSchedulerConfiguration
    notes: list[str]

    def to_yaml(self) -> str:
        """The effective configuration as `check-config` prints it."""
        plain = msgspec.to_builtins(self.config)
        for profile in plain["profiles"]:
            for plugin in profile["pluginConfig"]:
                if plugin["name"] in ARGS:
                    plugin["args"] = _without_nulls(plugin["args"])
        return yaml.safe_dump(plain, sort_keys=False, default_flow_style=False)


def load_config(text: str, source: str = "") -> LoadedConfig:
    """Read a KubeSchedulerConfiguration in YAML or JSON; `source` names it in messages. Raises ConfigError."""
    try:
        found = documents(text)
    except PlainYAMLError as error:
        raise ConfigError([f"{source or 'configuration'}: no valid YAML: {error}"]) from None
    if len(found) > 1:
        raise ConfigError([f"{source or 'configuration'}: expected one document, got {len(found)}"])
    data, lines = found[0] if found else None, Lines(text, source)
    problems = _identity_problems(data)
    if isinstance(data, Mapping):
        problems += [
            Problem((field,), f"is missing; expected {_IDENTITY[field]!r}") for field in _IDENTITY if field not in data
        ]
    if problems:
        raise _error(problems, lines)
    return _load(data, lines)


def config_from_dict(data: Mapping[str, Any] | None) -> LoadedConfig:
    """The same from Python values, whose `apiVersion` and `kind` may be left out; None is all defaults. Raises ConfigError."""
    given, nowhere = {} if data is None else data, Lines("", "")
    problems = _identity_problems(given)
    if problems:
        raise _error(problems, nowhere)
    return _load(given, nowhere)


def _load(data: Any, lines: Lines) -> LoadedConfig:
    problems = unsupported_fields(data)
    given = convert(_without(data, problems), KubeSchedulerConfiguration, (), problems)
    if given is None:
        raise _error(problems, lines)
    _read_plugin_args(given, problems)
    effective = with_defaults(given)
    problems += [*validate(effective), *unsupported(effective)]
    if problems:
        raise _error(problems, lines)
    return LoadedConfig(effective, notes(given))


def _error(problems: list[Problem], lines: Lines) -> ConfigError:
    return ConfigError([lines.describe(problem) for problem in problems])


def _identity_problems(data: Any) -> list[Problem]:
    if not isinstance(data, Mapping):
        return [Problem((), f"expected a {KIND}, got {type(data).__name__}")]
    problems = []
    for field, expected in _IDENTITY.items():
        if data.get(field, expected) != expected:
            problems.append(Problem((field,), f"expected {expected!r}, got {data[field]!r}"))
    return problems


def _without(data: Any, problems: list[Problem]) -> Any:
    """The data without the fields that have been reported already."""
    if not problems:
        return data
    copy = msgspec.json.decode(msgspec.json.encode(data))
    for problem in problems:
        parent = copy
        for step in problem.path[:-1]:
            parent = parent[step]
        del parent[problem.path[-1]]
    return copy


def _without_nulls(args: Any) -> Any:
    if isinstance(args, Mapping):
        return {name: _without_nulls(value) for name, value in args.items() if value is not None}
    return [_without_nulls(item) for item in args] if isinstance(args, list) else args


def _read_plugin_args(config: KubeSchedulerConfiguration, problems: list[Problem]) -> None:
    for i, profile in enumerate(config.profiles or ()):
        for j, plugin in enumerate(profile.plugin_config or ()):
            args_type = ARGS.get(plugin.name)
            if args_type is None:
                continue
            at = ("profiles", i, "pluginConfig", j, "args")
            args = (
                {k: v for k, v in (plugin.args or {}).items() if v is not None}
                if isinstance(plugin.args, Mapping | None)
                else plugin.args
            )
            read = convert(args, args_type, at, problems)
            plugin.args = args_type() if read is None else read
