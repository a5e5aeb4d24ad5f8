"""Which pod `schedcache dump` asks, of all those in a namespace."""

import json

import pytest

from schedcache.cli.dump.finding import find
from schedcache.ports import NotFoundError


class Transport:
    """To a cluster with these pods, each by its name, arguments and whether it is ready, and these holders of Leases."""

    def __init__(self, pods, holders):
        self.pods = pods
        self.holders = holders

    async def get(self, path, params=None):
        kind, _, name = path.rpartition("/")
        if name == "pods":
            return json.dumps({"items": [self._pod(*pod) for pod in self.pods]}).encode()
        assert kind.endswith("/leases")
        if name not in self.holders:
            raise NotFoundError(path)
        return json.dumps({"spec": {"holderIdentity": self.holders[name]}}).encode()

    def _pod(self, name, arguments, ready):
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        return {"metadata": {"name": name}, "spec": {"containers": [{"args": ["run", *arguments]}]}, "status": status}


def elects(lease):
    return f"--leader-elect-resource-name={lease}"


OBSERVER = ("a-observer", ["--observe"], True)


@pytest.mark.parametrize(
    ("pods", "holders", "found", "leads"),
    [
        ([OBSERVER, ("b", [elects("b")], True), ("c", [elects("b")], True)], {"b": "c_1"}, "c", True),
        ([("a", [elects("a")], True), ("b", [elects("b")], True)], {"b": "b_1"}, "b", True),
        ([("a", [elects("a")], False), ("b", [elects("b")], True)], {"a": "gone_1"}, "b", False),
        ([OBSERVER, ("b", ["--leader-elect=false"], False)], {}, "b", None),
        ([OBSERVER], {}, "a-observer", None),
    ],
    ids=[
        "beside an observer",
        "another one that leads",
        "none that leads",
        "without election",
        "nothing but an observer",
    ],
)
async def test_which_one_is_asked(pods, holders, found, leads):
    pod = await find(Transport(pods, holders), "kube-system", "app=x", None)
    assert (pod.name, pod.leads) == (found, leads)
