"""The benchmarks are no part of the tests, but they start: what they use of the package is there."""

import subprocess
import sys

import pytest

from tests.packaging.pages import ROOT


@pytest.mark.parametrize("script", sorted((ROOT / "bench").glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_starts(script):
    # -P: bench/queue.py would otherwise stand in the place of the standard library's queue.
    done = subprocess.run(
        [sys.executable, "-P", script, "--help"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
