"""Turns plain data into typed structs, and finds every wrong value and unknown field, not only the first.

null is read as in Go: as if the field were not there, and in a list as the empty value.
"""

import re
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec.structs import fields

from schedcache.config.duration import Duration
from schedcache.config.hints import nearest
from schedcache.config.problems import Path, Problem
from schedcache.model.decode import problem_and_path

T = TypeVar("T")

_WRONG = object()
"""Stands for a value that cannot be read."""
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


def convert(data: object, wanted: type[T], at: Path, problems: list[Problem]) -> T:
    """The struct; what is wrong in the data is left out, and added to the problems."""
    value: T = _value(data, wanted, at, problems)
    return value


def _value(data: object, wanted: Any, at: Path, problems: list[Problem]) -> Any:
    if wanted is Any:
        return data
    if get_origin(wanted) in (Union, UnionType):
        [inner] = [option for option in get_args(wanted) if option is not NoneType]
        return None if data is None else _value(data, inner, at, problems)
    if get_origin(wanted) is list:
        return _items(data, get_args(wanted)[0], at, problems)
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return _struct(data, wanted, at, problems)
    return _leaf(data, wanted, at, problems)


def _struct(data: object, wanted: type[msgspec.Struct], at: Path, problems: list[Problem]) -> Any:
    if not isinstance(data, Mapping):
        if data is not None:
            problems.append(Problem(at, f"expected fields and values, got {_glimpse(data)}"))
        return wanted()
    known = {field.encode_name: field for field in fields(wanted)}
    values = {}
    for name, value in data.items():
        field = known.get(name)
        if field is None:
            problems.append(Problem((*at, str(name)), f"unknown field{_hint(str(name), known)}"))
        elif value is not None or field.type is Duration:
            values[field.name] = _value(value, field.type, (*at, name), problems)
    return wanted(**{name: value for name, value in values.items() if value is not _WRONG})


def _items(data: object, wanted: Any, at: Path, problems: list[Problem]) -> list[Any]:
    if not isinstance(data, list):
        if data is not None:
            problems.append(Problem(at, f"expected a list, got {_glimpse(data)}"))
        return []
    items = [_value(item, wanted, (*at, i), problems) for i, item in enumerate(data)]
    return [item for item in items if item is not _WRONG]


def _leaf(data: object, wanted: Any, at: Path, problems: list[Problem]) -> Any:
    if data is None and wanted is str:
        return ""
    try:
        return msgspec.convert(data, wanted, dec_hook=_duration)
    except msgspec.ValidationError as error:
        text, where = problem_and_path(error)
        steps = tuple(int(m[2]) if m[2] else m[1] for m in _STEP.finditer(where) if m[1] or m[2])
        problems.append(Problem((*at, *steps), text))
        return _WRONG


def _duration(_wanted: type, data: object) -> Duration:
    if not isinstance(data, str):
        raise ValueError(f"expected a duration, such as 15s or 1m30s, got {_glimpse(data)}")  # noqa: TRY004  msgspec's hook
    return Duration.parse(data)


def _hint(name: str, known: Mapping[str, Any]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near!r}?" if near else f"; expected one of {', '.join(sorted(known))}"


def _glimpse(value: object) -> str:
    return {dict: "fields and values", list: "a list", NoneType: "nothing"}.get(type(value)) or repr(value)
