"""Turns a file or plain data into the effective configuration: reads, fills in defaults, validates; or reports every problem."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from schedcache.config import v1
from schedcache.config.defaults import with_defaults
from schedcache.config.plain_yaml import Document, PlainYAMLError, documents
from schedcache.config.plugin_args import ARGS, Args
from schedcache.config.problems import ConfigError, Lines, Path, Problem, line_of
from schedcache.config.strict import convert
from schedcache.config.support import notes, unknown_plugins, unsupported
from schedcache.config.types import KubeSchedulerConfiguration
from schedcache.config.validation import validate

_IDENTITY = {"apiVersion": v1.API_VERSION, "kind": v1.KIND}


class LoadedConfig(NamedTuple):
    """The effective configuration, and notes on settings that have no effect here."""

    config: KubeSchedulerConfiguration
    notes: list[str]


def load_config(text: str, source: str = "", plugins: Collection[str] | None = None) -> LoadedConfig:
    """Read a KubeSchedulerConfiguration in YAML or JSON. Raises ConfigError.

    Args:
        text: one document, which may be followed by empty ones.
        source: its name in messages.
        plugins: names of the plugins available besides kube-scheduler's; to enable any other is a problem. None: not
            checked.
    """
    document = _only_document(text, source or "configuration")
    lines = Lines(source, document.root)
    problems = _identity_problems(document.value)
    if isinstance(document.value, Mapping):
        problems += [
            Problem((field,), f"is missing; expected {expected!r}")
            for field, expected in _IDENTITY.items()
            if field not in document.value
        ]
    if problems:
        raise _error(problems, lines)
    return _load(document.value, lines, plugins)


def config_from_dict(data: Mapping[str, Any] | None, plugins: Collection[str] | None = None) -> LoadedConfig:
    """The same from Python values; `apiVersion` and `kind` may be left out. None means all defaults. Raises ConfigError."""
    given = {} if data is None else data
    problems = _identity_problems(given)
    if problems:
        raise _error(problems, Lines())
    return _load(given, Lines(), plugins)


def _only_document(text: str, source: str) -> Document:
    try:
        found = list(documents(text)) or [Document(None, None)]
    except PlainYAMLError as error:
        raise ConfigError([f"{source}: not valid YAML: {error}"]) from None
    first, *others = found
    for other in others:
        # kube-scheduler reads the first and silently ignores the others, which is hardly what their author wants.
        if other.value is not None and other.root is not None:
            begins = f"{source}:{line_of(other.root)}: another document begins here, but only the first is read"
            raise ConfigError([begins if first.value is not None else f"{begins}, which is empty"])
    return first


def _load(data: Any, lines: Lines, plugins: Collection[str] | None) -> LoadedConfig:
    problems: list[Problem] = []
    given = convert(data, v1.KubeSchedulerConfiguration, (), problems)
    readable = not problems
    problems += _read_plugin_args(given)
    if plugins is not None:
        problems += unknown_plugins(given, plugins)
    effective = with_defaults(given)
    if readable:
        # Otherwise a field that could not be read would be reported a second time, as missing.
        problems += [*validate(given, effective), *unsupported(given)]
    if problems:
        raise _error(problems, lines)
    return LoadedConfig(effective, list(notes(given)))


def _error(problems: list[Problem], lines: Lines) -> ConfigError:
    in_order = sorted(problems, key=lambda problem: lines.of(problem.path))
    return ConfigError([lines.describe(problem) for problem in in_order])


def _identity_problems(data: Any) -> list[Problem]:
    if not isinstance(data, Mapping):
        got = "nothing" if data is None else type(data).__name__
        return [Problem((), f"expected a {v1.KIND}, got {got}")]
    return [
        Problem((field,), f"expected {expected!r}, got {data[field]!r}")
        for field, expected in _IDENTITY.items()
        if data.get(field, expected) != expected
    ]


def _read_plugin_args(config: v1.KubeSchedulerConfiguration) -> Iterator[Problem]:
    for i, profile in enumerate(config.profiles):
        for j, plugin in enumerate(profile.plugin_config):
            args_type = ARGS.get(plugin.name)
            if args_type is not None:
                at = ("profiles", i, "pluginConfig", j, "args")
                problems: list[Problem] = []
                plugin.args = _plugin_args(plugin.name, plugin.args, args_type, at, problems)
                yield from problems


def _plugin_args(name: str, data: Any, args_type: type[Args], at: Path, problems: list[Problem]) -> Args | None:
    """kube-scheduler decodes them as a separate object, whose `apiVersion` and `kind` may be left out."""
    if isinstance(data, Mapping):
        identity = {"apiVersion": v1.API_VERSION, "kind": f"{name}Args"}
        for field, expected in identity.items():
            if data.get(field) not in (None, "", expected):
                problems.append(Problem((*at, field), f"expected {expected!r}, got {data[field]!r}"))
        data = {field: value for field, value in data.items() if field not in identity and value is not None}
    args = convert(data, args_type, at, problems)
    return None if problems else args
