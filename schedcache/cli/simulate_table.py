"""The simulate command's answer for people: one table a pod, what to think of it, and where copies go."""

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_ROWS = 20
"""Nodes listed a pod: the best ones and the nearest misses; more would hide the answer."""


def table_text(report: Mapping[str, Any], output: TextIO | None) -> str:
    """What `simulate -o json` would print, in words and tables, as `output` can show it: in colours on a terminal."""
    # Not on the output itself: rich ends the process with status 1 when that is a pipe which nobody reads.
    page = io.TextIOWrapper(io.BytesIO(), encoding=output.encoding if output is not None else "utf-8")
    on_terminal = output is not None and output.isatty()
    console = Console(file=page, force_terminal=on_terminal or None, highlight=False, soft_wrap=True)
    for answer in report["pods"]:
        _print_pod(answer, console)
    if report["replicas"] is not None:
        _print_replicas(report["replicas"], console)
    page.seek(0)
    return page.read()


def _print_pod(answer: Mapping[str, Any], console: Console) -> None:
    selected = answer["selected"]
    if selected:
        choice = (
            selected[0]
            if len(selected) == 1
            else f"one of {', '.join(selected[:5])}" + (f" and {len(selected) - 5} more" if len(selected) > 5 else "")
        )
        console.print(f"[bold]{escape(answer['pod'])}[/] goes to [bold green]{escape(choice)}[/]")
    else:
        stopped = answer["preFilterRejected"] or {"reasons": []}
        text = answer["message"] or ", ".join(stopped["reasons"])
        console.print(f"[bold]{escape(answer['pod'])}[/] [bold red]fits nowhere[/]: {escape(text)}")
        _print_preemption(answer["preemption"], console)
    if answer["scores"] or answer["rejected"]:
        console.print(_nodes_table(answer))
    for line in answer["explanation"]:
        console.print(f"  {escape(line)}")
    for line in answer["warnings"]:
        console.print(f"  [yellow]warning:[/] {escape(line)}")
    console.print()


def _print_preemption(preemption: Mapping[str, Any] | None, console: Console) -> None:
    if preemption is None or not preemption["message"]:
        return
    console.print(escape(preemption["message"]))
    if preemption["victims"]:
        console.print(f"  [yellow]evicts[/] {escape(', '.join(preemption['victims']))}")


def _nodes_table(answer: Mapping[str, Any]) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for column in ("NODE", "FITS", "SCORE", "WHY"):
        table.add_column(column, justify="right" if column == "SCORE" else "left")
    chosen = set(answer["selected"])
    scores = answer["scores"]
    ranked = sorted(scores, key=lambda name: (name not in chosen, -scores[name]["total"], name))
    for name in ranked[:_ROWS]:
        points = ", ".join(f"{plugin} {score}" for plugin, score in scores[name]["plugins"].items() if score)
        table.add_row(escape(name), "chosen" if name in chosen else "yes", str(scores[name]["total"]), escape(points))
    rejected = answer["rejected"]
    for name in sorted(rejected)[: max(_ROWS - len(ranked), 0)]:
        reasons = ", ".join(rejected[name]["reasons"])
        table.add_row(escape(name), "no", "", escape(f"{rejected[name]['plugin']}: {reasons}"))
    left = len(scores) + len(rejected) - table.row_count
    if left > 0:
        table.add_row(f"... {left} more", "", "", "")
    return table


def _print_replicas(replicas: Mapping[str, Any], console: Console) -> None:
    placed = replicas["placed"]
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("NODE")
    table.add_column("REPLICAS", justify="right")
    for name, number in sorted(Counter(placed).items(), key=lambda item: (-item[1], item[0])):
        table.add_row(escape(name), str(number))
    console.print(f"[bold]{len(placed)}[/] replicas placed")
    if placed:
        console.print(table)
    if replicas["evicted"]:
        _print_evicted(replicas["evicted"], console)
    if replicas["stopped_by"]:
        console.print(f"the next one does not fit: [bold red]{escape(replicas['stopped_by'])}[/]")


def _print_evicted(evicted: Sequence[Mapping[str, Any]], console: Console) -> None:
    table = Table(show_edge=False, pad_edge=False)
    for column in ("EVICTED", "PRIORITY", "NODE", "FOR", "BREAKS BUDGETS"):
        table.add_column(column, justify="right" if column == "PRIORITY" else "left")
    for found in evicted[:_ROWS]:
        broken = ", ".join(found["budgetsBroken"])
        table.add_row(*map(escape, (found["pod"], str(found["priority"]), found["node"], found["for"], broken)))
    if len(evicted) > _ROWS:
        table.add_row(f"... {len(evicted) - _ROWS} more")
    what = "pod" if len(evicted) == 1 else "pods"
    console.print(f"[bold]{len(evicted)}[/] {what} [yellow]evicted[/]")
    console.print(table)
