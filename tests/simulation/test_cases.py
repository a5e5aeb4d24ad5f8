"""Demanding workloads and reports of users, restated: what kube-scheduler 1.37.2 says of each, node by node.

`<id>.expect.json` names its input, whose name says what the case is about; `subjects`: pod -> node -> `fit` or a pattern
of the reason, `chosen` the only right choice, or in mode `preempt` what preemption does: `nominated`, the number of
`victims`, `victimFrom`; `messages` the aggregate text; `scores` by plugin, before the weight; `requested` totals by node;
`warn` what a warning must contain.
"""

import itertools
import json
import random
import re
from pathlib import Path

import pytest

from schedcache.config import ConfigError, config_from_dict, load_config
from schedcache.model import MalformedObjectError, parse_quantity
from schedcache.simulation import WhatIf, parse_objects, simulate
from schedcache.testing import make_pod, node_manifest, pod_manifest

CASES = Path(__file__).parent / "cases"
EXPECTED = {
    Path(case["input"]).stem: case for case in (json.loads(path.read_text()) for path in CASES.glob("*.expect.json"))
}
WEIGHTS = {"TaintToleration": 3, "NodeAffinity": 2, "PodTopologySpread": 2, "InterPodAffinity": 2}


def ids_with(*keys, preempting=False):
    cases = ((name, case) for name, case in EXPECTED.items() if (case.get("mode") == "preempt") == preempting)
    return sorted(name for name, case in cases if any(key in case for key in keys))


def config_of(case):
    if "config" not in case:
        return config_from_dict(None).config
    return load_config((CASES / case["config"]).read_text(), case["config"]).config


def objects_of(case):
    return parse_objects((CASES / case["input"]).read_text(), case["input"])


def ask(case, subject, objects=None):
    what_if = WhatIf(objects_of(case) if objects is None else objects, config_of(case))
    pod = what_if.take_out(subject if "/" in subject else f"default/{subject}")
    return what_if.ask([pod]).report["pods"][0]


@pytest.mark.parametrize("case_id", ids_with("subjects"))
def test_each_node_gets_the_verdict_of_kube_scheduler(case_id):
    case = EXPECTED[case_id]
    for subject, verdicts in case["subjects"].items():
        answer = ask(case, subject)
        for node, expected in verdicts.items():
            if node == "chosen":
                assert answer["selected"] == [expected], subject
            elif expected == "fit":
                assert node in answer["feasible"], (subject, answer["rejected"].get(node), answer["message"])
            else:
                stopped = answer["rejected"].get(node) or answer["preFilterRejected"]
                assert stopped, (subject, node)
                assert re.search(expected, ", ".join(stopped["reasons"])), (subject, node)


@pytest.mark.parametrize("case_id", ids_with("subjects", preempting=True))
def test_room_is_made_where_kube_scheduler_makes_it(case_id):
    for subject, expected in EXPECTED[case_id]["subjects"].items():
        found = ask(EXPECTED[case_id], subject)["preemption"]
        victims = [name.rpartition("/")[2] for name in found["victims"]]
        assert (found["nominatedNode"], len(victims)) == (expected["nominated"], expected["victims"]), subject
        assert set(victims) <= set(expected["victimFrom"]), subject


@pytest.mark.parametrize("case_id", ids_with("messages"))
def test_the_message_is_that_of_kube_scheduler(case_id):
    case = EXPECTED[case_id]
    assert {subject: ask(case, subject)["message"] for subject in case["messages"]} == case["messages"]


@pytest.mark.parametrize("case_id", ids_with("scores", "scoreEqual"))
def test_scores_are_those_of_kube_scheduler(case_id):
    case = EXPECTED[case_id]
    for subject, by_plugin in case.get("scores", {}).items():
        found = ask(case, subject)["scores"]
        for plugin, scores in by_plugin.items():
            weight = WEIGHTS.get(plugin, 1)
            assert {node: found[node]["plugins"].get(plugin, 0) / weight for node in scores} == scores, plugin
    for plugin, nodes in case.get("scoreEqual", {}).items():
        found = ask(case, next(iter(case["subjects"])))["scores"]
        assert len({found[node]["plugins"].get(plugin, 0) for node in nodes}) == 1


@pytest.mark.parametrize("case_id", ids_with("warn"))
def test_warns_where_the_verdict_is_right_and_surely_not_meant(case_id):
    case = EXPECTED[case_id]
    words = [case["warn"]] if isinstance(case["warn"], str) else case["warn"]
    warnings = list(itertools.chain.from_iterable(ask(case, subject)["warnings"] for subject in case["subjects"]))
    assert any(all(word in warning for word in words) for warning in warnings), warnings


@pytest.mark.parametrize("case_id", ids_with("requested"))
def test_totals_of_a_node_follow_the_formula_of_the_filter(case_id):
    case = EXPECTED[case_id]
    what_if = WhatIf(objects_of(case), config_of(case))
    probe = make_pod("probe", scheduler_name="default-scheduler", containers=[])
    nodes = what_if.ask([probe]).report["nodes"]
    for node, expected in case["requested"].items():
        found = nodes[node]["requested"]
        assert found["pods"] == expected["pods"]
        for resource in ("cpu", "memory"):
            assert parse_quantity(found[resource]) == parse_quantity(expected[resource]), (node, resource)


def test_the_order_of_objects_does_not_matter():
    case = EXPECTED["008-resource-on-few-nodes-any-order"]
    objects = objects_of(case)
    answers = []
    for seed in range(8):
        random.Random(seed).shuffle(objects)
        answers.append(ask(case, "infer", objects))
    assert all(answer == answers[0] for answer in answers)


def test_the_explanation_gives_the_domain_that_holds_the_others_back_and_why_it_is_closed():
    lines = "\n".join(ask(EXPECTED["044-full-zone-holds-everyone-back"], "app-2")["explanation"])
    assert "has 1 matching pods, the emptiest is 'zc' with 0, maxSkew is 1" in lines
    assert "node c1: Insufficient cpu (cpu: asks 100m, 0 of 1 free)" in lines


def test_the_explanation_gives_volume_node_and_shortfall():
    lines = "\n".join(ask(EXPECTED["050-bound-local-volume-on-a-full-node"], "reader")["explanation"])
    assert "node n1: Insufficient cpu (cpu: asks 500m, 0 of 1 free)" in lines
    assert re.search(r"node n2: .*PersistentVolume's node affinity \(volume \S+ of claim \S+ is not reachable", lines)


def test_every_legal_quantity_is_read_and_no_illegal_one():
    data = json.loads((CASES / EXPECTED["030-quantity-forms"]["input"]).read_text())

    def requests(kind, text):
        return make_pod("p", requests={kind: text}).requests.resource

    for entry in data["ok"]:
        nanos = parse_quantity(entry["text"])
        assert -(-nanos // 10**9) == entry["value"] or nanos / 10**9 == entry["value"], entry
    for entry in data["schedulingValue"]:
        found = requests(entry["kind"], entry["text"])
        assert (found.memory == entry["bytes"]) if "bytes" in entry else (found.milli_cpu == entry["milli"]), entry
    for text in data["error"]:
        with pytest.raises(
            MalformedObjectError, match=r"Pod default/p: spec\.containers\[0\]\.resources\.requests\.memory"
        ):
            requests("memory", text)


@pytest.mark.parametrize(
    "entry",
    json.loads((CASES / EXPECTED["078-fields-from-a-newer-version"]["input"]).read_text())["configs"],
    ids=lambda entry: entry["error"],
)
def test_an_unknown_field_is_named_with_its_line_and_a_hint(entry):
    with pytest.raises(ConfigError) as caught:
        load_config(entry["yaml"], "file.yaml")
    text = str(caught.value)
    line = next(i for i, row in enumerate(entry["yaml"].splitlines(), 1) if entry["error"].split(".")[-1] in row)
    assert text.startswith(f"file.yaml:{line}: {entry['error']}: ")
    assert entry.get("suggest", "") in text


@pytest.mark.parametrize(
    "entry",
    EXPECTED["057-small-image-vanishes-below-threshold"]["numbers"]["cases"],
    ids=lambda entry: "{image} bytes on {onNodes} nodes, {containers} containers".format(**entry),
)
def test_an_image_counts_by_its_size_its_spread_and_the_number_of_containers(entry):
    def node(i):
        return node_manifest(f"n{i}", images=[(["app:1"], entry["image"])] if i < entry["onNodes"] else ())

    containers = [{"name": f"c{i}", "image": f"{('app', 'other')[i > 0]}:1"} for i in range(entry["containers"])]
    nodes = [node(i) for i in range(EXPECTED["057-small-image-vanishes-below-threshold"]["numbers"]["nodes"])]
    answer = simulate(nodes, pod_manifest("p", scheduler_name="default-scheduler", containers=containers))
    assert answer["scores"]["n0"]["plugins"]["ImageLocality"] == entry["score"]


def test_the_second_scheduler_of_jupyterhub_loads_with_its_weights():
    profile = config_of(EXPECTED["33-packing-second-scheduler-config"]).profiles[0]
    assert {p.name: p.weight for p in profile.plugins.score.enabled} == {
        "NodeAffinity": 14631,
        "InterPodAffinity": 1331,
        "NodeResourcesFit": 121,
        "ImageLocality": 11,
    }
    [fit] = [config.args for config in profile.plugin_config if config.name == "NodeResourcesFit"]
    assert fit.scoring_strategy.type == "MostAllocated"
    subject = next(iter(EXPECTED["33-packing-second-scheduler-config"]["subjects"]))
    scored = {
        plugin
        for node in ask(EXPECTED["33-packing-second-scheduler-config"], subject)["scores"].values()
        for plugin in node["plugins"]
    }
    assert "NodeResourcesFit" in scored
    assert "NodeResourcesBalancedAllocation" not in scored
