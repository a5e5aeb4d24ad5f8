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


def as_decided_here(want):
    """kube-scheduler's answer as ours has to be: (verdicts, feasible nodes, messages of which it has one, scores or None).

    They differ in one point, on purpose. There an error at any node ends the attempt, so a single bound pod that a filter cannot
    read stops every pod that has volumes, wherever these would fit. Here that node counts as rejected, with the same
    status, and the attempt ends with the error only if no node is left. What the other nodes would score was not recorded then.
    """
    rejected = {node: verdict(found) for node, found in want["rejected"].items()}
    errors = {reasons[0] for _, code, reasons in rejected.values() if code == "Error"}
    return rejected, want["feasible"], {""} if want["feasible"] else errors, None if errors else want["scores"]


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
        rejected, feasible, messages, scores = as_decided_here(want)
        assert {node: verdict(found) for node, found in got["rejected"].items()} == rejected
        assert got["feasible"] == feasible
        assert not messages or got["message"] in messages
        if scores is None:
            assert sorted(got["scores"]) == feasible
        else:
            assert {node: found["total"] for node, found in got["scores"].items()} == scores
