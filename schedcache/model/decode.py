"""Reads one Kubernetes object from JSON or Python values into a wire struct; errors name the kind, the object and the field."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from schedcache.model.errors import MalformedObjectError
from schedcache.model.quantity import QuantityError, parse_quantity
from schedcache.model.resources import ResourceList
from schedcache.model.wire import ObjectMeta, Quantity, QuantityMap

W = TypeVar("W")
T = TypeVar("T")

DECODE_ERRORS = (msgspec.DecodeError, RecursionError)
"""All that msgspec raises for bytes that it cannot read: the second for what is nested a thousand times."""

_AT = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)


class _FieldError(ValueError):
    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        self.problem = problem
        super().__init__(f"{field}: {problem}")


class _Named(msgspec.Struct):
    """Just enough of an object to say which one is malformed."""

    metadata: object = None


class Reader(Generic[W]):
    """Decodes objects of one kind into the wire struct `W`."""

    def __init__(self, kind: str, wire_type: type[W]) -> None:
        self._kind = kind
        self._wire_type = wire_type
        self._decoder = msgspec.json.Decoder(wire_type)

    def parse(self, raw: bytes | memoryview | msgspec.Raw) -> W:
        """From JSON. Raises MalformedObjectError."""
        try:
            return self._decoder.decode(raw)
        except msgspec.ValidationError as error:
            raise self._malformed(error, _metadata(raw)) from None
        except DECODE_ERRORS as error:
            raise MalformedObjectError(self._kind, "", "", f"not valid JSON: {error}") from None

    def convert(self, obj: Mapping[str, Any]) -> W:
        """From Python values as a JSON or YAML reader gives them. Raises MalformedObjectError."""
        try:
            return msgspec.convert(obj, self._wire_type)
        except msgspec.ValidationError as error:
            raise self._malformed(error, dict(obj).get("metadata")) from None

    def build(self, found: W, construct: Callable[[W], T]) -> T:
        """Make the model object; an error inside becomes a MalformedObjectError that names the object."""
        try:
            return construct(found)
        except _FieldError as error:
            metadata = msgspec.to_builtins(getattr(found, "metadata", None))
            raise MalformedObjectError(self._kind, _name(metadata), error.field, error.problem) from None

    def _malformed(self, error: msgspec.ValidationError, metadata: object) -> MalformedObjectError:
        problem, path = problem_and_path(error)
        return MalformedObjectError(self._kind, _name(metadata), path.removeprefix("."), problem)


def problem_and_path(error: msgspec.ValidationError) -> tuple[str, str]:
    """What msgspec found wrong, and the path to it: `.spec.containers[0]`, "" for the whole object."""
    match = _AT.fullmatch(str(error))
    problem, path = (match["problem"], match["path"] or "") if match else (str(error), "")
    return problem[:1].lower() + problem[1:], path


def name_of(meta: ObjectMeta) -> str:
    """The object's name, which every stored object has, or the generateName of a manifest. For use inside `Reader.build`."""
    name = meta.name or meta.generate_name
    if not name:
        raise _FieldError("metadata.name", "is missing")
    return name


def quantity(value: Quantity | None, field: str) -> int:
    """One quantity in nanos; null is zero, as in Kubernetes. For use inside `Reader.build`."""
    if value is None:
        return 0
    try:
        return parse_quantity(value if isinstance(value, str) else repr(value))
    except QuantityError as error:
        raise _FieldError(field, str(error)) from None


def quantities(amounts: QuantityMap | None, field: str) -> ResourceList:
    """A resource list in nanos. For use inside `Reader.build`, which names the object if an amount is not a quantity."""
    return {name: quantity(value, f"{field}.{name}") for name, value in (amounts or {}).items()}


def labels_of(found: Mapping[str, str | None] | None) -> dict[str, str]:
    """Labels; a null value is read as an empty string."""
    return {key: value or "" for key, value in (found or {}).items()}


def strings(found: Iterable[str] | None) -> tuple[str, ...]:
    """A list; null is read as an empty one."""
    return tuple(found or ())


def _metadata(raw: bytes | memoryview | msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(raw, type=_Named).metadata
    except DECODE_ERRORS:
        return None


def _name(metadata: object) -> str:
    if not isinstance(metadata, Mapping):
        return ""
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return f"{namespace}/{name}" if namespace and name else str(name or "")
