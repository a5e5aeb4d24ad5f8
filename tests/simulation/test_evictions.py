"""What simulate says of evictions: for a pod that fits nowhere, and for copies that are to be placed by all means."""

import json
import re

import pytest

from schedcache.cli import main
from schedcache.config import config_from_dict
from schedcache.simulation import InputError, SourcedObject, WhatIf, simulate

WITHOUT = {"profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}]}
BREAKS_NONE = "this would break no PodDisruptionBudget"


def node(name, cpu=4):
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": 20}}}


def pod(name, cpu, priority=0, on=None, app=None, **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": app} if app else {}
    on = {"nodeName": on} if on else {}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "priority": priority, **on, **spec},
    }


def budget(name, app, allowed):
    spec = {"selector": {"matchLabels": {"app": app}}}
    metadata = {"name": name, "namespace": "default"}
    return {
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
        "status": {"disruptionsAllowed": allowed},
    }


def explained(objects, asked, config=None):
    return [line for line in simulate(objects, asked, config)["explanation"] if "evict" in line and "might" not in line]


def test_the_explanation_has_the_cheapest_nodes_and_what_each_would_cost():
    objects = [
        *map(node, ("n1", "n2", "n3", "n4", "n5")),
        pod("one", 2, 5, on="n1", app="web"),
        pod("two", 2, 1, on="n1"),
        pod("cheap", 4, 3, on="n2"),
        pod("dear", 4, 7, on="n3"),
        pod("dearest", 4, 8, on="n4"),
        pod("untouchable", 4, 100, on="n5"),
        budget("web", "web", 0),
    ]
    assert explained(objects, pod("p", 4, 10)) == [
        f"node n2: the pod would fit after the eviction of 1 pod: default/cheap (priority 3); {BREAKS_NONE}",
        f"node n3: the pod would fit after the eviction of 1 pod: default/dear (priority 7); {BREAKS_NONE}",
        f"node n4: the pod would fit after the eviction of 1 pod: default/dearest (priority 8); {BREAKS_NONE}",
        "on 1 more node it would fit after evictions that cost as much or more",
    ]
    assert explained(
        [o for o in objects if o["metadata"]["name"] not in ("n2", "n3", "n4", "n5")], pod("p", 4, 10)
    ) == [
        (
            "node n1: the pod would fit after the eviction of 2 pods: default/one (priority 5), default/two (priority 1);"
            " this would break 1 PodDisruptionBudget: default/web"
        )
    ]


def test_the_node_that_comes_first_is_the_one_that_is_nominated():
    objects = [*map(node, ("n1", "n2", "n3")), *(pod(f"low-{i}", 4, i, on=f"n{i}") for i in (3, 2, 1))]
    answer = simulate(objects, pod("p", 4, 10))
    assert answer["preemption"]["nominatedNode"] == "n1"
    assert answer["preemption"]["victims"] == ["default/low-1"]
    [first, *_] = explained(objects, pod("p", 4, 10))
    assert first.startswith("node n1: ")


def test_a_budget_that_only_counts_as_broken_is_told_from_one_that_would_be():
    # While all of lower priority are off, the second is one too many. Then the first may stay after all.
    objects = [node("n1"), pod("a", 1, 2, on="n1", app="web"), pod("b", 3, 1, on="n1", app="web")]
    [line] = explained([*objects, budget("web", "web", 1)], pod("p", 2, 10))
    assert line == (
        "node n1: the pod would fit after the eviction of 1 pod: default/b (priority 1); "
        f"{BREAKS_NONE}, though the scheduler counts 1 as breaking one"
    )


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
def test_a_pod_that_never_preempts_says_so(policy):
    objects = [node("n1"), pod("low", 4, on="n1")]
    asked = pod("p", 4, 10, preemptionPolicy=policy)
    lines = simulate(objects, asked)["explanation"]
    assert ("no pod is evicted to make room: the pod's preemptionPolicy is Never" in lines) is (policy == "Never")
    assert any("default/low" in line for line in lines) is (policy != "Never")


@pytest.mark.parametrize("policy", ["Never", "PreemptLowerPriority"])
def test_a_profile_without_preemption_has_nothing_to_say_of_evictions(policy):
    objects = [node("n1"), pod("low", 4, on="n1")]
    assert explained(objects, pod("p", 4, 10, preemptionPolicy=policy), WITHOUT) == []


def what_if(objects, config=None):
    return WhatIf([SourcedObject("f", obj) for obj in objects], config_from_dict(config).config)


def placed(objects, asked, count, *, preempt=True, config=None):
    world = what_if(objects, config)
    before = world.ask(world.pods_of([SourcedObject("p", asked)]))
    answer = world.ask(world.pods_of([SourcedObject("p", asked)]), replicas=count, preempt=preempt)
    assert world.ask(world.pods_of([SourcedObject("p", asked)])) == before, "the cluster stays as it was"
    return answer


FULL = [
    *map(node, ("n1", "n2", "n3")),
    *(pod(f"low-{n}-{i}", 2, n, on=f"n{n}", app="web") for n in (1, 2) for i in (0, 1)),
    pod("high", 4, 100, on="n3"),
]


def test_copies_evict_when_asked_and_each_victim_counts_once():
    answer = placed([*FULL, budget("web", "web", 3)], pod("p", 2, 10), 6)
    copies = answer.report["replicas"]
    assert not answer.fits
    assert copies["placed"] == ["n1", "n1", "n2", "n2"]
    assert [(e["pod"], e["node"], e["priority"], e["for"], e["budgetsBroken"]) for e in copies["evicted"]] == [
        ("default/low-1-1", "n1", 1, "p-0", []),
        ("default/low-1-0", "n1", 1, "p-1", []),
        ("default/low-2-0", "n2", 2, "p-2", []),
        ("default/low-2-1", "n2", 2, "p-3", ["default/web"]),
    ]
    assert copies["stopped_by"].startswith("0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are")


def test_the_room_that_one_eviction_leaves_is_used_before_another():
    objects = [node("n1"), node("n2"), pod("big", 4, on="n1"), pod("other", 4, on="n2")]
    answer = placed(objects, pod("p", 2, 10), 3)
    copies = answer.report["replicas"]
    assert answer.fits
    assert copies["placed"] == ["n1", "n1", "n2"]
    assert [(e["pod"], e["for"]) for e in copies["evicted"]] == [("default/big", "p-0"), ("default/other", "p-2")]


def test_a_budget_that_evictions_have_used_up_sends_the_next_copy_elsewhere():
    objects = [
        node("n1"),
        node("n2"),
        *(pod(f"web-{i}", 2, 0, on="n1", app="web") for i in (0, 1)),
        pod("free", 4, 5, on="n2"),
        budget("web", "web", 1),
    ]
    copies = placed(objects, pod("p", 2, 10), 2).report["replicas"]
    assert copies["placed"] == ["n1", "n2"]
    assert [(e["pod"], e["budgetsBroken"]) for e in copies["evicted"]] == [("default/web-0", []), ("default/free", [])]


def test_nobody_is_evicted_unasked_or_for_a_pod_that_never_preempts():
    copies = placed(FULL, pod("p", 2, 10), 2, preempt=False).report["replicas"]
    assert copies == {"placed": [], "stopped_by": "0/3 nodes are available: 3 Insufficient cpu.", "evicted": []}
    copies = placed(FULL, pod("p", 2, 10, preemptionPolicy="Never"), 2).report["replicas"]
    assert (copies["placed"], copies["evicted"]) == ([], [])
    assert copies["stopped_by"].endswith("preemption: not eligible due to preemptionPolicy=Never.")


def test_a_victim_that_is_terminating_makes_room_and_is_not_evicted():
    going = pod("going", 4, on="n1")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    answer = placed([node("n1"), going], pod("p", 4, 10), 1)
    assert answer.fits
    assert answer.report["replicas"]["evicted"] == []
    [line] = explained([node("n1"), going], pod("p", 4, 10))
    assert "default/going (priority 0, terminating already)" in line


def test_a_profile_without_preemption_cannot_be_asked_to_preempt():
    with pytest.raises(InputError, match="profile 'default-scheduler' evicts nobody: it is without DefaultPreemption"):
        placed(FULL, pod("p", 2, 10), 2, config=WITHOUT)


@pytest.fixture
def files(tmp_path):
    objects = [*FULL, budget("web", "web", 3)]
    (tmp_path / "cluster.json").write_text(json.dumps({"kind": "List", "items": objects}))
    (tmp_path / "pod.json").write_text(json.dumps(pod("p", 2, 10)))
    return ["--cluster", str(tmp_path / "cluster.json"), "--pod", str(tmp_path / "pod.json")]


def test_the_command_lists_who_is_evicted_for_which_copy(capsys, files):
    assert main(["simulate", *files, "--replicas", "4", "--preempt"]) == 0
    out = capsys.readouterr().out
    assert "4 replicas placed" in out
    assert "4 pods evicted" in out
    assert ["default/low-2-1", "2", "n2", "p-3", "default/web"] in [
        re.findall(r"[\w/-]+", line) for line in out.splitlines()
    ]
    assert f"default/low-1-1 (priority 1); {BREAKS_NONE}" in out


def test_the_command_prints_the_same_as_json(capsys, files):
    assert main(["simulate", *files, "--replicas", "1", "--preempt", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    [evicted] = report["replicas"]["evicted"]
    assert evicted == {
        "pod": "default/low-1-1",
        "node": "n1",
        "priority": 1,
        "for": "p-0",
        "budgetsBroken": [],
    }
    assert any(BREAKS_NONE in line for line in report["pods"][0]["explanation"])


def test_the_command_preempts_for_copies_alone(capsys, files):
    assert main(["simulate", *files, "--preempt"]) == 2
    assert "--preempt: needs --replicas" in capsys.readouterr().err
