"""Plain data to typed structs without letting anything slip: unknown fields are all found, with the nearest known name."""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from schedcache.config.problems import Path, Problem
from schedcache.model.decode import problem_and_path

T = TypeVar("T")

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")


def convert(data: object, wanted: type[T], at: Path, problems: list[Problem]) -> T | None:
    """The struct; None when something is wrong, which is then among the problems."""
    found = list(unknown_fields(data, inspect.type_info(wanted), at))
    try:
        value = msgspec.convert(data, wanted)
    except msgspec.ValidationError as error:
        problems += [*found, _as_problem(error, at)]
        return None
    problems += found
    return None if found else value


def unknown_fields(data: object, wanted: inspect.Type, at: Path) -> Iterator[Problem]:
    """A problem for each field that the type does not have."""
    if isinstance(wanted, inspect.UnionType):
        wanted = next((t for t in wanted.types if not isinstance(t, inspect.NoneType)), wanted)
    if isinstance(wanted, inspect.StructType) and isinstance(data, Mapping):
        fields = {field.encode_name: field.type for field in wanted.fields}
        for name, value in data.items():
            if name in fields:
                yield from unknown_fields(value, fields[name], (*at, name))
            else:
                yield Problem((*at, name), f"unknown field{_hint(str(name), fields)}")
    elif isinstance(wanted, inspect.ListType) and isinstance(data, list):
        for i, item in enumerate(data):
            yield from unknown_fields(item, wanted.item_type, (*at, i))


def _hint(name: str, fields: Mapping[str, Any]) -> str:
    by_lower_case = {known.lower(): known for known in fields}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=0.6)
    known = ", ".join(sorted(fields))
    return f"; did you mean {by_lower_case[near[0]]!r}?" if near else f"; expected one of {known}"


def _as_problem(error: msgspec.ValidationError, at: Path) -> Problem:
    text, where = problem_and_path(error)
    steps = tuple(int(m[2]) if m[2] else m[1] for m in _STEP.finditer(where) if m[1] or m[2])
    return Problem((*at, *steps), text)
