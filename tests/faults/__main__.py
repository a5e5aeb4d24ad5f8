"""`make faults`: every row of the fault table, with both event sources.

Exit status: pytest's own; 0 if no row is red.
"""

import argparse
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.report import Report
from tests.faults.rows import BOTH, ROWS

FOLDER = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31), help="of an earlier run")
    parser.add_argument("--row", action="append", choices=ROWS, metavar="ROW", help="only this one; may be repeated")
    parser.add_argument("--source", choices=BOTH, help="only with this event source")
    parser.add_argument("--json", type=Path, default=Path("build/faults.json"), help="where the results go")
    options, rest = parser.parse_known_args()
    print(f"faults: seed {options.seed}; the same again: {again(options, rest)}", flush=True)
    os.environ |= {"SCHEDCACHE_FAULTS": "full", "SCHEDCACHE_FAULTS_SEED": str(options.seed)}
    os.environ["SCHEDCACHE_FAULTS_ROWS"] = ",".join(options.row or ROWS)
    os.environ["SCHEDCACHE_FAULTS_SOURCES"] = options.source or ",".join(BOTH)
    report = Report(options.seed)
    status = pytest.main([str(FOLDER), "--tb=short", "--show-capture=no", *rest], plugins=[report])
    report.write(options.json)
    print(report.table())
    print(f"faults: seed {options.seed}, results in {options.json}")
    return int(status)


def again(options: argparse.Namespace, rest: Sequence[str]) -> str:
    """The command for the same rows, sources and chance."""
    rows = (f"--row {row}" for row in options.row or ())
    source = [f"--source {options.source}"] if options.source else []
    return f"make faults ARGS='{' '.join([f'--seed {options.seed}', *rows, *source, *rest])}'"


if __name__ == "__main__":
    sys.exit(main())
