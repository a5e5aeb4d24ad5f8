"""The four volume plugins against answers recorded from kube-scheduler 1.37.2's, for random clusters full of odd volumes.

In-tree types that CSI drivers have taken over, unsound affinities, prebound and lost claims, ephemeral and inline volumes,
limits, attachments, room: `want` is the verdict on each node, the rejection of the pod as a whole, and the total scores.
"""

import gzip
import json
from pathlib import Path

import pytest

from schedcache.config.defaults import default_plugin_names
from schedcache.simulation import simulate

RECORDED = Path(__file__).parent / "recorded" / "volumes.jsonl.gz"
KEPT = {
    "PrioritySort",
    "DefaultBinder",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
}
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"disabled": [{"name": n} for n in sorted(default_plugin_names() - KEPT)]}},
        }
    ],
}
CASES = [json.loads(line) for line in gzip.decompress(RECORDED.read_bytes()).splitlines()]


def verdict(found):
    return found["plugin"], found["code"], sorted(found["reasons"])


@pytest.mark.parametrize("case", [pytest.param(case, id=f"random-{i:03}") for i, case in enumerate(CASES)])
def test_decides_as_kube_scheduler_did(case):
    got = simulate(objects=case["objects"], pod=case["pod"], config=CONFIG)
    want = case["want"]
    stopped = want["preFilterRejected"]
    if stopped is not None and stopped["code"] == "Error":
        assert got["message"] == stopped["reasons"][0]
    elif stopped is not None:
        assert verdict(got["preFilterRejected"]) == verdict(stopped)
    else:
        assert got["preFilterRejected"] is None
        rejected = {node: verdict(found) for node, found in want["rejected"].items()}
        assert {node: verdict(found) for node, found in got["rejected"].items()} == rejected
        errors = {reasons[0] for _, code, reasons in rejected.values() if code == "Error"}
        if errors:
            assert got["message"] in errors
        else:
            assert got["feasible"] == want["feasible"]
            assert {node: scores["total"] for node, scores in got["scores"].items()} == want["scores"]
