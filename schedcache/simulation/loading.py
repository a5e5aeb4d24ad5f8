"""Cluster and pod files as kubectl prints them, or raw manifests: YAML or JSON, one object, a List or many documents."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from schedcache.config.plain_yaml import PlainYAMLError, documents
from schedcache.model import MalformedObjectError
from schedcache.simulation.manifest_checks import READ


class InputError(ValueError):
    """Input that cannot be used; the text names the file, the object and the field."""


class SourcedObject(NamedTuple):
    """An object and where it comes from."""

    source: str
    obj: Mapping[str, Any]


def parse_objects(text: str, source: str) -> list[SourcedObject]:
    """All objects of a file, Lists taken apart. Raises InputError."""
    objects = []
    found = _documents(text, source)
    if not found:
        # A failed kubectl leaves such a file; taking it for an empty cluster would give a misleading answer.
        raise InputError(f"{source}: there is no object in it; an empty cluster is a List without items")
    for document in found:
        for obj in _items(document, source):
            if not isinstance(obj.get("kind"), str):
                raise InputError(f"{source}: object without kind: {_glimpse(obj)}")
            if obj["kind"] == "Status":
                raise InputError(
                    f"{source}: contains an error of the API server instead of objects: {obj.get('message')}"
                )
            objects.append(SourcedObject(source, obj))
    return objects


@contextmanager
def reading(source: str) -> Iterator[None]:
    """A MalformedObjectError inside becomes an InputError that names the file too."""
    try:
        yield
    except MalformedObjectError as error:
        raise InputError(f"{source}: {error}") from None


def _documents(text: str, source: str) -> Sequence[Any]:
    if text.lstrip().startswith("{"):
        try:
            return list(_json_documents(text))
        except (json.JSONDecodeError, RecursionError):
            # Flow-style YAML: YAML reads it or says where it fails.
            pass
    try:
        return [document.value for document in documents(text) if document.value is not None]
    except PlainYAMLError as error:
        raise InputError(f"{source}: neither YAML nor JSON: {error}") from None


def _json_documents(text: str) -> Iterator[Any]:
    """One after the other, as when several kubectl have written to one file."""
    decoder, rest = json.JSONDecoder(), text.strip()
    while rest:
        document, end = decoder.raw_decode(rest)
        yield document
        rest = rest[end:].lstrip()


def _items(document: Any, source: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(document, Mapping):
        raise InputError(f"{source}: expected a Kubernetes object, got {_glimpse(document)}")
    kind = document.get("kind")
    if not (isinstance(kind, str) and kind.endswith("List")):
        yield document
        return
    if "items" not in document:
        if kind.removesuffix("List") in {"", *READ}:
            raise InputError(f"{source}: items: is missing from a {kind}")
        # A kind of that name, not a list of another kind.
        yield document
        return
    items = document["items"] or ()
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise InputError(f"{source}: items: expected a list, got {_glimpse(items)}")
    for item in items:
        if not isinstance(item, Mapping):
            raise InputError(f"{source}: items: expected Kubernetes objects, got {_glimpse(item)}")
        # Typed lists (PodList) leave out the kind of their items.
        inherited = {"kind": kind.removesuffix("List")} if kind != "List" else {}
        yield from _items({**inherited, **item}, source)


def _glimpse(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
