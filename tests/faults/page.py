"""Writes the tables of docs/faults.md: the rows, the tests that carry them out, and what was measured.

With files that `make faults` wrote as arguments, what they have is measured anew; the rest stays.
"""

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.faults.report import healed
from tests.faults.rows import BOTH, INVARIANTS, ROWS, Row

FOLDER = Path(__file__).parent
PAGE = FOLDER.parents[1] / "docs" / "faults.md"
RESULTS = FOLDER / "results.json"
"""What runs of `make faults` measured, the last one of each test."""

BEGIN, END = "<!-- {}: written by make docs -->", "<!-- end of {} -->"


def tests() -> dict[str, list[tuple[str, str, bool]]]:
    """Row -> file and name of each test, and whether every run of the tests has it."""
    found: dict[str, list[tuple[str, str, bool]]] = {}
    for path in sorted(FOLDER.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.AsyncFunctionDef):
                for mark in node.decorator_list:
                    if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "fault":
                        row = ast.literal_eval(mark.args[0])
                        found.setdefault(row, []).append((path.name, node.name, bool(mark.keywords)))
    return found


def take(files: Iterable[Path]) -> None:
    """Put what these runs measured in the place of what was measured before."""
    kept = {one["test"]: one for one in json.loads(RESULTS.read_text())["results"]}
    for file in files:
        run = json.loads(file.read_text())
        kept |= {one["test"]: {**one, "seed": run["seed"]} for one in run["results"]}
    order = list(ROWS)
    listed = sorted(kept.values(), key=lambda one: (order.index(one["row"]), one["test"]))
    RESULTS.write_text(json.dumps({"results": listed}, indent=1) + "\n")


def measured(row: Row) -> str:
    """Seconds until healed with each source; the longest of the row's tests."""
    results = json.loads(RESULTS.read_text())["results"]
    told = []
    for source in BOTH:
        ones = [one for one in results if (one["row"], one["source"]) == (row.key, source)]
        passed = all(one["passed"] for one in ones)
        told.append("not yet" if not ones else f"{healed(ones)} s" if passed else "red")
    return " / ".join(told)


def fault_table() -> Iterator[str]:
    yield "| row | how it is injected | what users see | healed within | measured | holds | simulated | tests |"
    yield "|---|---|---|---|---|---|---|---|"
    carried_out = tests()
    for row in ROWS.values():
        files = dict.fromkeys(file for file, _, _ in carried_out[row.key])
        links = ", ".join(f"[{Path(file).stem}](../tests/faults/{file})" for file in files)
        quick = ", in every run" if any(quick for _, _, quick in carried_out[row.key]) else ""
        cells = (
            row.key,
            row.fault + (f". {row.elsewhere[0].upper()}{row.elsewhere[1:]}" if row.elsewhere else ""),
            row.seen,
            f"{row.within:.0f} s",
            measured(row),
            " ".join(row.invariants),
            "yes" if row.simulated else "no",
            links + quick + (", as root" if row.root else ""),
        )
        yield "| " + " | ".join(cells) + " |"


def invariant_table() -> Iterator[str]:
    yield "| | holds | as seen in |"
    yield "|---|---|---|"
    for key, (says, seen) in INVARIANTS.items():
        yield f"| {key} | {says} | {seen} |"


def written(page: str) -> str:
    """The page with its tables as they should be."""
    for name, table in (("faults", fault_table()), ("invariants", invariant_table())):
        begin, end = BEGIN.format(name), END.format(name)
        head, _, rest = page.partition(begin)
        _, _, tail = rest.partition(end)
        page = "\n".join([f"{head}{begin}", "", *table, "", f"{end}{tail}"])
    return page


if __name__ == "__main__":
    take(map(Path, sys.argv[1:]))
    PAGE.write_text(written(PAGE.read_text()))
    sys.stdout.write(f"{PAGE.name}: the tables are written\n")
