"""A dump for people: everything at a glance, one pod, or one node."""

import io
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from schedcache.dump import Amounts, Dump, NodeState, PodState

_ROWS = 30
"""Of each table: those that matter most. `-o json` has all."""
_GIB = 2**30
_MIB = 2**20


class NotInDumpError(Exception):
    """What was asked for is not there; the message says so."""


def dump_text(dump: Dump, what: str, output: TextIO | None) -> str:
    """In words and tables, as `output` can show it. `what` is NAMESPACE/POD, a node, or "" for everything. Raises NotInDumpError."""

    def print_it(console: Console) -> None:
        _print_heading(dump, console)
        if "/" in what:
            _print_pod(dump, what, console)
        elif what:
            _print_node(dump, what, console)
        else:
            _print_all(dump, console)

    return on_page(print_it, output)


def on_page(show: Callable[[Console], None], output: TextIO | None) -> str:
    """What is shown, as text: rich ends the process with status 1 when it writes to a pipe which nobody reads."""
    page = io.TextIOWrapper(io.BytesIO(), encoding=output.encoding if output is not None else "utf-8")
    on_terminal = output is not None and output.isatty()
    show(Console(file=page, force_terminal=on_terminal or None, highlight=False, soft_wrap=True))
    page.seek(0)
    return page.read()


def _print_heading(dump: Dump, console: Console) -> None:
    console.print(f"[bold]{dump.taken_at:%Y-%m-%d %H:%M:%S} UTC[/], generation {dump.generation}")
    if dump.filter is not None:
        asked = [f"{name}={value}" for name, value in _parts_of(dump) if value]
        console.print(f"only {escape(', '.join(asked))}")


def _parts_of(dump: Dump) -> list[tuple[str, str]]:
    asked = dump.filter
    if asked is None:
        return []
    return [
        ("nodes", ",".join(asked.nodes)),
        ("namespace", ",".join(asked.namespace)),
        ("selector", asked.selector),
        ("fields", ",".join(asked.fields)),
    ]


def _print_all(dump: Dump, console: Console) -> None:
    states = Counter(pod.state for pod in dump.pods.values())
    told = ", ".join(f"{number} {state}" for state, number in states.most_common())
    console.print(f"{len(dump.nodes)} nodes, {len(dump.pods)} pods{f': {told}' if told else ''}\n")
    if dump.queue.pods:
        console.print(_queue_table(dump))
        console.print()
    if dump.nodes:
        console.print(_nodes_table(dump))


def _queue_table(dump: Dump) -> Table:
    table = _table("PENDING POD", "STATE", "TRIES", "REJECTED BY", "SINCE", "AGAIN IN")
    waiting = sorted(dump.queue.pods.items(), key=lambda item: item[1].initial_attempt or item[1].timestamp)
    for uid, pod in waiting[:_ROWS]:
        table.add_row(
            escape(pod.name),
            dump.pods[uid].state if uid in dump.pods else "",
            str(pod.attempts),
            escape(", ".join(pod.unschedulable_plugins) or pod.gated_by),
            _span(dump.taken_at - (pod.initial_attempt or pod.timestamp)),
            "" if pod.backoff_until is None else _span(pod.backoff_until - dump.taken_at),
        )
    _say_more(table, len(waiting))
    return table


def _nodes_table(dump: Dump) -> Table:
    table = _table("NODE", "PODS", "CPU", "", "MEMORY", "")
    fullest = sorted(dump.nodes.items(), key=lambda item: (-_fullness(item[1]), item[0]))
    for name, node in fullest[:_ROWS]:
        requested, offered = node.requested, node.allocatable
        table.add_row(
            escape(name) if node.present else f"[yellow]{escape(name)} (gone)[/]",
            f"{len(node.pods)}/{offered.allowed_pod_number}",
            f"{_cpu(requested.milli_cpu)}/{_cpu(offered.milli_cpu)}",
            _percent(requested.milli_cpu, offered.milli_cpu),
            f"{_bytes(requested.memory)}/{_bytes(offered.memory)}",
            _percent(requested.memory, offered.memory),
        )
    _say_more(table, len(fullest))
    return table


def _fullness(node: NodeState) -> float:
    pairs = (
        (node.requested.milli_cpu, node.allocatable.milli_cpu),
        (node.requested.memory, node.allocatable.memory),
        (len(node.pods), node.allocatable.allowed_pod_number),
    )
    return max((asked / offered if offered else float(asked > 0) for asked, offered in pairs), default=0.0)


def _print_pod(dump: Dump, what: str, console: Console) -> None:
    found = next(((uid, pod) for uid, pod in dump.pods.items() if f"{pod.namespace}/{pod.name}" == what), None)
    if found is None:
        raise NotInDumpError(f"there is no pod {what}, or it has finished")
    uid, pod = found
    table = _facts(
        ("pod", what),
        ("state", f"{pod.state}{' (being deleted)' if pod.deleting else ''}"),
        ("node", pod.node or "none"),
        ("nominated", pod.nominated_node_name),
        ("scheduler", pod.scheduler_name),
        ("priority", str(pod.priority)),
        ("uid", uid),
        (
            "bound until",
            "" if pod.assumed_deadline is None else f"{pod.assumed_deadline:%H:%M:%S}, if nothing confirms it",
        ),
    )
    queued = dump.queue.pods.get(uid)
    if queued is not None:
        waits = dump.taken_at - (queued.initial_attempt or queued.timestamp)
        _add_facts(
            table,
            ("tries", f"{queued.attempts}, {queued.unschedulable_count} of them rejections"),
            ("rejected by", ", ".join(queued.unschedulable_plugins)),
            ("waits for", ", ".join(queued.pending_plugins)),
            ("held back by", queued.gated_by),
            ("waiting", _span(waits)),
            (
                "tried again",
                "" if queued.backoff_until is None else f"in {_span(queued.backoff_until - dump.taken_at)}",
            ),
        )
    console.print(table)
    _print_stories(dump, console)


def _print_node(dump: Dump, what: str, console: Console) -> None:
    node = dump.nodes.get(what)
    if node is None:
        raise NotInDumpError(f"there is no node {what}")
    console.print(f"[bold]{escape(what)}[/]{'' if node.present else ', of which there is no object any more'}")
    console.print(_amounts_table(node))
    pods = _table("POD", "STATE", "PRIORITY", "UID")
    shown: Iterable[tuple[str, PodState]] = [(uid, dump.pods[uid]) for uid in node.pods if uid in dump.pods]
    for uid, pod in sorted(shown, key=lambda item: (item[1].namespace, item[1].name)):
        pods.add_row(escape(f"{pod.namespace}/{pod.name}"), pod.state, str(pod.priority), uid)
    console.print()
    console.print(pods)
    _print_stories(dump, console)


def _amounts_table(node: NodeState) -> Table:
    table = _table("RESOURCE", "REQUESTED", "OFFERED", "")
    requested, offered = node.requested, node.allocatable
    rows: list[tuple[str, int, int, Callable[[int], str]]] = [
        ("pods", len(node.pods), offered.allowed_pod_number, str),
        ("cpu", requested.milli_cpu, offered.milli_cpu, _cpu),
        ("memory", requested.memory, offered.memory, _bytes),
        ("ephemeral-storage", requested.ephemeral_storage, offered.ephemeral_storage, _bytes),
    ]
    names = sorted({*requested.scalar, *offered.scalar})
    rows += [(name, _scalar(requested, name), _scalar(offered, name), str) for name in names]
    for name, asked, there, show in rows:
        table.add_row(escape(name), show(asked), show(there), _percent(asked, there))
    return table


def _scalar(amounts: Amounts, name: str) -> int:
    return amounts.scalar.get(name, 0)


def _print_stories(dump: Dump, console: Console) -> None:
    if not dump.stories:
        return
    table = _table("TIME", "WHAT THE CACHE DID", "NODE", "CAUSE")
    for story in dump.stories[-_ROWS:]:
        table.add_row(_time(story.time), escape(story.operation), escape(story.node), escape(story.cause))
    console.print()
    console.print(table)


def _table(*columns: str) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in ("TRIES", "PRIORITY", "") else "left")
    return table


def _facts(*facts: tuple[str, str]) -> Table:
    table = Table(show_edge=False, pad_edge=False, show_header=False)
    _add_facts(table, *facts)
    return table


def _add_facts(table: Table, *facts: tuple[str, str]) -> None:
    for name, value in facts:
        if value:
            table.add_row(name, escape(value))


def _say_more(table: Table, number: int) -> None:
    if number > _ROWS:
        table.add_row(f"... {number - _ROWS} more", *[""] * (len(table.columns) - 1))


def _time(moment: datetime) -> str:
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def _span(span: timedelta) -> str:
    """As kubectl shows ages: the two largest units."""
    seconds = max(0, round(span.total_seconds()))
    parts: list[str] = []
    for name, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number or (name == "s" and not parts):
            parts.append(f"{number}{name}")
    return "".join(parts[:2])


def _cpu(milli: int) -> str:
    return f"{milli / 1000:g}"


def _bytes(number: int) -> str:
    if number >= _GIB:
        return f"{number / _GIB:.1f}Gi"
    return f"{number / _MIB:.0f}Mi" if number else "0"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else ""
