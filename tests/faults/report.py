"""The results of a run, by row: a table on standard output, and a JSON document."""

import json
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rows import ROWS

HEAD = ("row", "source", "tests", "passed", "healed after s", "invariants")


class Report:
    """A plugin of pytest that collects what each test of a row measured."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.results: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup" and report.passed:
            return
        if report.when == "call":
            self.results.append({"test": report.nodeid, "passed": report.passed, "seconds": round(report.duration, 1)})
            if report.failed:
                self.results[-1]["error"] = _last_line(report)
            return
        # What the world has measured is known once it is closed.
        if not self.results or self.results[-1]["test"] != report.nodeid:
            self.results.append({"test": report.nodeid, "passed": False, "seconds": 0.0})
        self.results[-1] |= dict(report.user_properties)
        if report.failed:
            self.results[-1] |= {"passed": False, "error": _last_line(report)}
        self._tell(self.results[-1])

    def _tell(self, one: dict[str, Any]) -> None:
        """As soon as it is known: the whole takes hours."""
        end = f"healed after {one.get('healed_after')} s" if one["passed"] else f"RED: {one.get('error')}"
        sys.stdout.write(f"\n{one['test'].rpartition('::')[2]}: {end} ({one['seconds']:.0f} s) ")
        sys.stdout.flush()

    def document(self) -> dict[str, Any]:
        """seed, Python and kernel of the run; results in the order of the tests."""
        return {
            "seed": self.seed,
            "python": platform.python_version(),
            "kernel": platform.release(),
            "results": [one for one in self.results if "row" in one],
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.document(), indent=1) + "\n")

    def table(self) -> str:
        return "\n".join(_aligned([HEAD, *lines(self.document()["results"])]))


def lines(results: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """A line for each row and source, in the table's order."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in results:
        found.setdefault((one["row"], one["source"]), []).append(one)
    order = list(ROWS)
    return [
        (
            row,
            source,
            str(len(ones)),
            "yes" if all(one["passed"] for one in ones) else "NO",
            healed(ones),
            " ".join(sorted(set.intersection(*(set(one["checked"]) for one in ones)))),
        )
        for (row, source), ones in sorted(
            found.items(), key=lambda item: (order.index(item[0][0]), item[0][1] == "kopf")
        )
    ]


def healed(ones: list[dict[str, Any]]) -> str:
    """The longest of the tests; "-" if one never was."""
    times = [one["healed_after"] for one in ones]
    return "-" if None in times else f"{max(times):.1f}"


def _last_line(report: pytest.TestReport) -> str:
    return next((line for line in report.longreprtext.splitlines() if line.startswith("E ")), "")[1:].strip()


def _aligned(table: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table]
