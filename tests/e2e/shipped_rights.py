"""Accounts with the rights that the chart gives a scheduler, and nothing more."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from schedcache.testing import read_manifest
from schedcache.testing.api_client import ApiClient
from schedcache.testing.builders import JSONObject

RBAC = Path(__file__).parents[2] / "deploy" / "scheduler" / "rbac.yaml"
"""What the chart renders; tests/packaging holds it against the chart."""
NAMESPACE = "kube-system"
LEASES = ["schedcache", "schedcache-other"]
"""Of the tests' schedulers: the chart names the one that its own has."""
DAY_SECONDS = 86400


def shipped_rights(account: str) -> Iterator[JSONObject]:
    """The shipped objects under another name, since some tests install them as they are."""
    for item in read_manifest(RBAC):
        item["metadata"]["name"] = account
        if "roleRef" in item:
            item["roleRef"]["name"] = item["subjects"][0]["name"] = account
        for rule in item.get("rules", ()):
            if "resourceNames" in rule:
                rule["resourceNames"] = LEASES
        yield item


def granted() -> set[tuple[str, str, str]]:
    """Group, resource and verb of each right; of Leases whatever their name."""
    return {
        right
        for item in shipped_rights("any")
        for rule in item.get("rules", ())
        for right in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def user_of(account: str) -> str:
    """How the API server and its audit log call it."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


async def make_account(admin: ApiClient, account: str) -> str:
    """An account with these rights; its token, which is good for a day."""
    for item in shipped_rights(account):
        resource = await admin.resource(item["apiVersion"], item["kind"])
        await admin.create(resource.path(item["metadata"].get("namespace")), item)
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    answer = await admin.create(path, {"spec": {"expirationSeconds": DAY_SECONDS}})
    return str(answer["status"]["token"])
