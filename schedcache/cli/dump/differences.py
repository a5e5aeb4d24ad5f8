"""What two dumps of one scheduler say differently, but for times."""

from collections.abc import Mapping
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from schedcache.cli.dump.tables import on_page
from schedcache.dump import Dump

Differences = dict[str, list[dict[str, Any]]]
"""By kind (nodes, pods, queue): entries with `name`, and `change` added or removed, or `field`, `before` and `after`."""
_TIMES = frozenset({"assumedDeadline", "timestamp", "initialAttempt", "backoffUntil", "resourceVersion"})


def differences(first: Dump, second: Dump) -> Differences:
    """From the first to the second; pods are known by their UIDs and named by their names."""
    names = {uid: f"{pod.namespace}/{pod.name}" for dump in (first, second) for uid, pod in dump.pods.items()}
    queued = {uid: pod.name for dump in (first, second) for uid, pod in dump.queue.pods.items()}
    return {
        "nodes": _of_maps(first.nodes, second.nodes, {}),
        "pods": _of_maps(first.pods, second.pods, names),
        "queue": _of_maps(first.queue.pods, second.queue.pods, queued),
    }


def _of_maps(first: Mapping[str, Any], second: Mapping[str, Any], names: Mapping[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for key in sorted({*first, *second}, key=lambda key: (names.get(key, key), key)):
        name = {"name": names.get(key, key), **({"uid": key} if key in names else {})}
        if key not in second:
            found.append({**name, "change": "removed"})
        elif key not in first:
            found.append({**name, "change": "added"})
        elif first[key] != second[key]:
            before, after = (msgspec.to_builtins(each[key]) for each in (first, second))
            found += [{**name, **change} for change in _of_fields(before, after, "")]
    return found


def _of_fields(before: Any, after: Any, path: str) -> list[dict[str, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in sorted({*before, *after} - _TIMES):
            inner = f"{path}.{key}" if path else key
            found += _of_fields(before.get(key), after.get(key), inner)
        return found
    return [] if before == after else [{"field": path, "before": before, "after": after}]


def differences_text(found: Differences, output: TextIO | None) -> str:
    """For people."""

    def show(console: Console) -> None:
        if not any(found.values()):
            console.print("nothing differs but times")
        for kind, changes in found.items():
            if changes:
                console.print(_changes_table(kind, changes))
                console.print()

    return on_page(show, output)


def _changes_table(kind: str, changes: list[dict[str, Any]]) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for column in (kind.upper(), "FIELD", "BEFORE", "AFTER"):
        table.add_column(column)
    for change in changes:
        if "change" in change:
            table.add_row(escape(change["name"]), f"[bold]{change['change']}[/]", "", "")
        else:
            before, after = _shown(change["before"], change["after"])
            table.add_row(escape(change["name"]), escape(change["field"]), escape(before), escape(after))
    return table


def _shown(before: Any, after: Any) -> tuple[str, str]:
    """Of lists only what one has and the other has not."""
    if isinstance(before, tuple | list) and isinstance(after, tuple | list):
        gone, new = [x for x in before if x not in after], [x for x in after if x not in before]
        if gone or new:
            return _text(gone), _text(new)
    return _text(before), _text(after)


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
