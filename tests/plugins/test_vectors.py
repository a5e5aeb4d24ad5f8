"""kube-scheduler 1.37.2's own decisions: a cluster, a pod, and the verdict on every node, every score, the message.

The hand-made files pin one behaviour each, `random.jsonl.gz` holds clusters that exercise many plugins at once. They were
recorded from kube-scheduler; `want` has the form that `simulate` returns. `vectors_found` holds what a comparison of random
clusters with kube-scheduler's packages found to differ once; these say nothing of preemption.
"""

import gzip
import json
from pathlib import Path

import pytest

from schedcache.simulation import simulate

VECTORS = Path(__file__).parent / "vectors"
FOUND = Path(__file__).parent / "vectors_found"
KEYS = ["feasible", "rejected", "preFilterRejected", "scores", "selected", "message", "preemption"]


def cases():
    for path in sorted([*VECTORS.iterdir(), *FOUND.iterdir()]):
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
        for line in filter(None, text.splitlines()):
            case = json.loads(line)
            yield pytest.param(case, id=case["name"])


def tidy(key, value):
    """A plugin that is missing from the scores gave 0; reasons have no order."""
    if key == "scores":
        return {
            node: {"total": s["total"], "plugins": {p: v for p, v in s["plugins"].items() if v}}
            for node, s in value.items()
        }
    if key == "rejected":
        return {node: {**r, "reasons": sorted(r["reasons"])} for node, r in value.items()}
    return value


@pytest.mark.parametrize("case", list(cases()))
def test_decides_as_kube_scheduler_does(case):
    got = simulate(objects=case["objects"], pod=case["pod"], config=case["config"])
    want = case["want"]
    keys = [key for key in KEYS if key in want]
    assert {key: tidy(key, got[key]) for key in keys} == {key: tidy(key, want[key]) for key in keys}
