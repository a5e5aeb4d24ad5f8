"""Thousands of simulated clusters, in each of which no invariant may break, and bugs planted on purpose, which must be found."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.seeds import many
from tests.seeds.planted import BUGS, planted
from tests.seeds.scenario import make_scenario
from tests.seeds.shrinking import invariant_of, shrink, smallest
from tests.seeds.simulation import simulate

ROOT = Path(__file__).parents[2]
SEEDS = 2000


def run(*arguments, **environment):
    """As `make seeds` does it. Returns how it ended, and what it printed."""
    command = [sys.executable, "-m", "tests.seeds", *arguments]
    ended = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=1800
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """Planted bug -> after how many seeds it was found, and how."""
    _, output = run("--bugs", "--count", str(SEEDS))
    return dict(re.findall(r"^([a-z-]+): (.*)$", output, re.MULTILINE))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_invariant_breaks():
    status, output = run("--count", str(SEEDS))
    assert status == 0, output
    assert f"{SEEDS} of {SEEDS} seeds, 0 failed" in output


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(found, bug):
    assert re.match(r"\d+ seeds: ", found[bug]), found[bug]


def test_the_page_lists_the_planted_bugs():
    page = (ROOT / "docs/seeds.md").read_text().partition("## Planted bugs")[2]
    assert [name for name in re.findall(r"^\| ([a-z-]+) \|", page, re.MULTILINE) if name != "name"] == list(BUGS)


def test_a_seed_is_always_the_same():
    def digests(hash_seed):
        return run("--digests", "--count", "30", PYTHONHASHSEED=hash_seed)

    once = digests("1")
    assert once == digests("2")
    here = [f"{seed} {simulate(make_scenario(seed)).digest}" for seed in range(30)]
    assert here == once[1].splitlines()


def test_different_seeds_are_different():
    assert len({simulate(make_scenario(seed)).digest for seed in range(20)}) == 20


def test_a_failure_shrinks_and_is_shown_again():
    with planted("not-forgotten"):
        seed, scenario, violation = next(
            (seed, scenario, violation)
            for seed in range(SEEDS)
            if (violation := simulate(scenario := make_scenario(seed)).violation)
        )
        kept = shrink(scenario, violation)
        small = scenario.keeping(kept)
        again = simulate(small).violation
    assert invariant_of(again) == invariant_of(violation)
    assert len(small.actions) < len(scenario.actions)
    numbers = ",".join(map(str, kept))
    status, output = run("--seed", str(seed), "--keep", numbers, "--bug", "not-forgotten")
    assert status == 1
    assert again in output
    assert f"make seeds SEED={seed} BUG=not-forgotten KEEP={numbers}" in output


def test_the_command_that_a_failure_names_finds_it():
    status, output = run("--count", "50", "--jobs", "1", "--bug", "not-forgotten")
    assert status == 1
    seed = re.search(r"replay: make seeds SEED=(\d+) BUG=not-forgotten$", output, re.MULTILINE)[1]
    status, output = run("--seed", seed, "--bug", "not-forgotten")
    assert status == 1
    assert "leaving out what it does not take" in output


def test_a_seed_without_failure_ends_well():
    status, output = run("--seed", "1")
    assert status == 0
    assert "nothing is wrong" in output


def test_shrinking_leaves_only_what_it_takes():
    tried = []

    def fails(kept):
        tried.append(kept)
        return {7, 50, 51} <= set(kept)

    assert smallest(range(100), fails) == [7, 50, 51]
    assert len(tried) < 100


@pytest.mark.parametrize("flag", ["--count", "--jobs"])
def test_a_run_of_nothing_is_refused(flag):
    status, output = run(flag, "0")
    assert status == 2
    assert "expected 1 or more, found 0" in output


def test_a_crash_names_its_seed_and_leaves_the_others_be(monkeypatch):
    def crashing(scenario):
        if scenario.seed == 7:
            raise KeyError("odd")
        return simulate(scenario)

    monkeypatch.setattr(many, "simulate", crashing)
    found = dict(many._run_chunk((6, 3, "")))
    assert list(found) == [6, 7, 8]
    assert "the simulation crashed" in found[7]
    assert "KeyError: 'odd'" in found[7]
    assert found[6] == found[8] == ""


@pytest.mark.parametrize(
    ("broken", "status"), [pytest.param("", 130, id="nothing broken"), pytest.param("I1: twice", 1, id="one broken")]
)
def test_ctrl_c_tells_what_was_found(broken, status, monkeypatch, capsys):
    def interrupted(*_):
        yield [(3, broken), (4, "")]
        raise KeyboardInterrupt

    monkeypatch.setattr(many, "_in_turn", interrupted)
    assert many.run_many(0, 100, 1, "") == status
    told = capsys.readouterr().out
    assert f"stopped after 2 of 100 seeds, {int(bool(broken))} failed" in told
    assert ("seed 3: I1: twice\nreplay: make seeds SEED=3" in told) == bool(broken)
