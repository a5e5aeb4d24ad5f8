"""percentageOfNodesToScore: how many feasible nodes are scored, and which."""

import random

import numpy as np
import pytest
from msgspec.structs import replace

from schedcache.framework import Framework, NodeSampling, PreFilterResult, Registry
from schedcache.testing import make_node
from tests.framework.world import make_framework, make_pod, make_snapshot, plugin, rejecting

NAMES = [f"n{i:03}" for i in range(250)]
SNAPSHOT = make_snapshot(*map(make_node, NAMES))


def sampled(*plugins, sampling, percentage=None):
    """A profile with these plugins and this percentage of its own, beside others of the same scheduler."""
    made = make_framework(*plugins)
    profile = replace(made.profile, percentage_of_nodes_to_score=percentage)
    classes = Registry({name: type(found) for name, found in made.plugins.items()})
    return Framework(profile, classes, made.handle, sampling)


def scoring(seen):
    def score(state, pod, view):
        seen.append(view.names())
        return np.zeros(len(view), np.int64)

    return plugin("S", score=score)


def scored(framework, seen, *, exhaustive=False):
    seen.clear()
    nominated = framework.handle.nominator.nominated_pods_for_node
    found = framework.evaluate(make_pod("p"), SNAPSHOT, nominated, exhaustive=exhaustive)
    assert found.evaluated_count == len(NAMES)
    [names] = seen
    assert found.feasible.names() == names
    return names


@pytest.mark.parametrize(
    ("of_all", "of_profile", "expected"),
    [(0, None, 250), (50, None, 125), (50, 0, 250), (0, 60, 150), (50, 60, 150), (1, None, 100), (100, None, 250)],
)
def test_the_profiles_percentage_counts_before_that_of_all_and_100_nodes_are_the_least(of_all, of_profile, expected):
    seen = []
    framework = sampled(scoring(seen), sampling=NodeSampling(of_all), percentage=of_profile)
    assert len(scored(framework, seen)) == expected


def test_pods_take_turns_on_the_nodes_whatever_their_profile():
    sampling, seen = NodeSampling(50), []
    one, two = (sampled(rejecting("F", "n003", "n124"), scoring(seen), sampling=sampling) for _ in range(2))
    left = [name for name in NAMES if name not in ("n003", "n124")]
    assert scored(one, seen) == left[:125]
    # From the first that was left out to the last, and round to the beginning; in node list order.
    assert scored(two, seen) == sorted([*left[125:], *left[:2]])
    assert scored(one, seen) == left[2:127]


def test_a_simulation_scores_all_and_nobodys_turn_changes():
    seen = []
    framework = sampled(scoring(seen), sampling=NodeSampling(50))
    assert scored(framework, seen, exhaustive=True) == NAMES
    assert scored(framework, seen) == NAMES[:125]


def one_by_one(order, passes, wanted, start, num_nodes):
    """As kube-scheduler goes about it with one worker: the names kept, and where the next pod starts."""
    kept, processed = [], 0
    for i in range(len(order)):
        name = order[(start + i) % len(order)]
        if name in passes and len(kept) == wanted:
            break
        kept += [name] if name in passes else []
        processed += 1
    return kept, (start + processed) % num_nodes


def test_the_choice_is_that_of_looking_at_one_node_after_the_other():
    rng, start, seen = random.Random(5), 0, []
    sampling = NodeSampling()
    for percentage in [rng.randint(1, 100) for _ in range(60)]:
        candidates = sorted(rng.sample(NAMES, rng.choice([50, 150, 250])))
        failing = rng.sample(NAMES, rng.choice([0, 30, 140]))
        narrow = plugin("N", pre_filter=lambda *_, c=frozenset(candidates): PreFilterResult(c))
        framework = sampled(narrow, rejecting("F", *failing), scoring(seen), sampling=sampling, percentage=percentage)
        passes = set(candidates) - set(failing)
        wanted = max(len(candidates) * percentage // 100, 100)
        kept, start = one_by_one(candidates, passes, wanted, start, len(NAMES))
        found = framework.evaluate(make_pod("p"), SNAPSHOT, framework.handle.nominator.nominated_pods_for_node)
        assert found.feasible.names() == sorted(kept)
        assert sampling.start == start
