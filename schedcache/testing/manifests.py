"""Reads YAML manifests and creates the objects in them, of any kind that the API server serves."""

from collections.abc import Iterable
from pathlib import Path

import yaml

from schedcache.testing.api_client import APPLY_PATCH, ApiClient
from schedcache.testing.builders import JSONObject

FIELD_MANAGER = "schedcache-testing"


def read_manifest(path: Path) -> list[JSONObject]:
    """The objects of a YAML or JSON file; the items of a ``List`` one by one, empty documents left out.

    Raises:
        ValueError: a document is not a Kubernetes object; the message names the file and the document.
    """
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not YAML: {error}") from error
    objects: list[JSONObject] = []
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue
        is_list = isinstance(document, dict) and str(document.get("kind", "")).endswith("List")
        for item in document.get("items") or () if is_list else (document,):
            check_object(item, f"{path}, document {number}")
            objects.append(item)
    return objects


def check_object(item: object, where: str) -> None:
    """Refuse what cannot be sent to an API server."""
    if not isinstance(item, dict):
        raise ValueError(f"{where}: expected an object with apiVersion, kind and metadata, found {item!r:.80}")  # noqa: TRY004 - bad input
    metadata = item.get("metadata")
    missing = [key for key in ("apiVersion", "kind") if not isinstance(item.get(key), str)]
    if not isinstance(metadata, dict) or not (metadata.get("name") or metadata.get("generateName")):
        missing.append("metadata.name")
    if missing:
        raise ValueError(f"{where}: {', '.join(missing)} missing or not a string")


async def apply_manifest(client: ApiClient, manifest: Path | Iterable[JSONObject]) -> list[JSONObject]:
    """Create the objects of a manifest, or update those that exist, in order, but Namespaces first.

    Args:
        client: sends the requests.
        manifest: a file, or objects.

    Returns:
        The objects as the API server stored them.

    Raises:
        ValueError: a document is not a Kubernetes object.
        LookupError: the API server does not serve its kind.
        ApiStatusError: the API server refused one; those before it were created.
    """
    objects = read_manifest(manifest) if isinstance(manifest, Path) else list(manifest)
    for number, item in enumerate(objects, start=1):
        check_object(item, f"object {number}")
    objects.sort(key=lambda item: item["kind"] != "Namespace")
    return [await apply_object(client, item) for item in objects]


async def apply_object(client: ApiClient, item: JSONObject) -> JSONObject:
    """Server-side apply of one object; a POST if it leaves its name to the API server."""
    resource = await client.resource(item["apiVersion"], item["kind"])
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "default") if resource.namespaced else None
    if "name" not in metadata:
        return await client.create(resource.path(namespace), item)
    applied: JSONObject = await client.request(
        "PATCH",
        resource.path(namespace, metadata["name"]),
        item,
        params={"fieldManager": FIELD_MANAGER, "force": "true"},
        content_type=APPLY_PATCH,
    )
    return applied
