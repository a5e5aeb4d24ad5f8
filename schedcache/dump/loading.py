"""Reads a dump; errors name the field and what was expected there."""

import re
import reprlib
from typing import Any, TypeVar, get_args

import msgspec

from schedcache.dump.document import API_VERSION, KIND, Dump
from schedcache.model.decode import problem_and_path

_GROUP, _VERSION = API_VERSION.split("/v")
_OURS = re.compile(rf"{_GROUP}/v(?P<version>[0-9]+)")
_MISSING = re.compile(r"object missing required field `(?P<name>\w+)`")
_SOME_MEMBER = "[...]"
T = TypeVar("T")


class DumpError(ValueError):
    """The text is not a dump, or not one that this version can read.

    `field` is a path from the top (`nodes[worker-1].requested.milliCpu`), "" for the whole.
    """

    def __init__(self, source: str, field: str, problem: str) -> None:
        self.source = source
        self.field = field
        self.problem = problem
        super().__init__(f"{source}: {field}: {problem}" if field else f"{source}: {problem}")


class _Identity(msgspec.Struct, rename="camel"):
    kind: object = None
    api_version: object = None


def load_dump(text: bytes | str, source: str = "dump") -> Dump:
    """A dump from its JSON; `source`, such as the file name, is its name in errors. Unknown fields are ignored.

    Raises DumpError for anything but a complete dump of this version; kind and version are checked first.
    """
    _check_identity(_decoded(text, _Identity, source), source)
    return _decoded(text, Dump, source)


def _check_identity(found: _Identity, source: str) -> None:
    if found.kind != KIND:
        raise DumpError(source, "kind", _expected(KIND, found.kind))
    if found.api_version != API_VERSION:
        ours = _OURS.fullmatch(found.api_version) if isinstance(found.api_version, str) else None
        newer = ours is not None and int(ours["version"][:9]) > int(_VERSION)
        hint = ", which needs a newer schedcache" if newer else ""
        raise DumpError(source, "apiVersion", _expected(API_VERSION, found.api_version) + hint)


def _expected(wanted: str, found: object) -> str:
    return f"expected {wanted!r}, " + ("but it is missing" if found is None else f"got {reprlib.repr(found)}")


def _decoded(text: bytes | str, type_: type[T], source: str) -> T:
    try:
        return msgspec.json.decode(text, type=type_)
    except msgspec.ValidationError as error:
        problem, path = problem_and_path(error)
        if _SOME_MEMBER in path:
            problem, path = _of_member(problem, path, type_, _decoded(text, object, source))
        raise DumpError(source, *_field_and_problem(problem, path)) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DumpError(source, "", f"expected the JSON of a dump, but it is cut short or malformed: {error}") from None
    except RecursionError:
        raise DumpError(source, "", "expected the JSON of a dump, but it is nested too deeply") from None


def _field_and_problem(problem: str, path: str) -> tuple[str, str]:
    if missing := _MISSING.fullmatch(problem):
        path, problem = f"{path}.{missing['name']}", "expected a value, but it is missing"
    return path.removeprefix("."), problem


def _of_member(problem: str, path: str, type_: Any, value: Any) -> tuple[str, str]:
    """The problem and its path with the key of the member in it: msgspec does not tell which member of a map it was."""
    to_map, _, _ = path.partition(_SOME_MEMBER)
    for name in filter(None, to_map.split(".")):
        type_ = next(field.type for field in msgspec.structs.fields(type_) if field.encode_name == name)
        value = value.get(name) if isinstance(value, dict) else None
    member_type = get_args(type_)[1]
    for key, member in value.items() if isinstance(value, dict) else ():
        try:
            msgspec.convert(member, member_type)
        except msgspec.ValidationError as error:
            inner, below = problem_and_path(error)
            if _SOME_MEMBER in below:
                inner, below = _of_member(inner, below, member_type, member)
            return inner, f"{to_map}[{key}]{below}"
    return problem, path  # a name given twice: what was at fault is not what the whole came to
