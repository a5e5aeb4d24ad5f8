"""What `make faults` tells of a row that is red before its test begins."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from tests.faults.__main__ import again

ROOT = Path(__file__).parents[2]


def test_a_row_whose_surroundings_cannot_be_made_is_red_and_not_left_out(tmp_path):
    results = tmp_path / "faults.json"
    # Nothing can be made there, by nobody.
    row = ("--row", "watches-that-end", "--source", "reflector", "--json", str(results), "--basetemp", "/proc/none")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults", *row], cwd=ROOT, capture_output=True, text=True, check=False, timeout=150
    )
    assert ended.returncode == 1, ended.stdout
    found = json.loads(results.read_text())["results"]
    assert found
    assert {(one["row"], one["source"], one["passed"]) for one in found} == {("watches-that-end", "reflector", False)}
    assert all("/proc/none" in one["error"] for one in found)
    table = ended.stdout[ended.stdout.rindex("healed after s") :]
    assert [line.split()[:4] for line in table.splitlines() if line.startswith("watches-that-end ")] == [
        ["watches-that-end", "reflector", str(len(found)), "NO"]
    ]


def test_the_command_for_the_same_again_has_the_same_rows():
    options = argparse.Namespace(seed=7, row=["bind-late", "odd-node"], source="kopf")
    assert again(options, ["-x"]) == "make faults ARGS='--seed 7 --row bind-late --row odd-node --source kopf -x'"
    assert again(argparse.Namespace(seed=7, row=None, source=None), []) == "make faults ARGS='--seed 7'"
