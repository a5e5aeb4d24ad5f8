"""Writes the chart's Grafana dashboard from the list of its panels."""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).resolve().parent.parent / "charts" / "schedcache" / "dashboards" / "schedcache.json"
HERE = 'namespace=~"$namespace",job=~"$job"'
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT = 8, 8


class Panel(NamedTuple):
    """A graph; `{}` in an expression stands for the labels that choose the scheduler. `unit` is Grafana's name."""

    title: str
    description: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """Expressions with their legends."""


def quantiles(metric: str, where: str = "", by: str = "") -> tuple[tuple[str, str], ...]:
    """The median and the 99th percentile of a histogram."""
    selector = f"{HERE},{where}" if where else HERE
    grouped = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    return tuple(
        (
            f"histogram_quantile({q}, sum by ({grouped}) (rate({metric}_bucket{{{selector}}}[$__rate_interval])))",
            f"p{q * 100:g}{legend}",
        )
        for q in (0.5, 0.99)
    )


def rate(metric: str, by: str, where: str = "") -> tuple[tuple[str, str], ...]:
    """How often a second, by a label or several."""
    selector = f"{HERE},{where}" if where else HERE
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", ") if label)
    grouped = f" by ({by})" if by else ""
    return ((f"sum{grouped} (rate({metric}{{{selector}}}[$__rate_interval]))", legend or metric),)


def value(expression: str, legend: str) -> tuple[tuple[str, str], ...]:
    """A state, as it is; `{}` stands for the labels."""
    return ((expression.replace("{}", f"{{{HERE}}}").replace("{,", f"{{{HERE},"), legend),)


ROWS: dict[str, tuple[Panel, ...]] = {
    "Scheduling": (
        Panel(
            "Attempts",
            "By profile and result.",
            "ops",
            rate("scheduler_schedule_attempts_total", "profile, result"),
        ),
        Panel(
            "Time of an attempt",
            "Binding included.",
            "s",
            quantiles("scheduler_scheduling_attempt_duration_seconds", by="result"),
        ),
        Panel(
            "Time of the search for a node",
            "Without binding.",
            "s",
            quantiles("scheduler_scheduling_algorithm_duration_seconds"),
        ),
        Panel(
            "From the first attempt to the binding",
            "Of pods that were scheduled.",
            "s",
            quantiles("scheduler_pod_scheduling_sli_duration_seconds"),
        ),
        Panel(
            "Time at extension points, p99",
            "All plugins of a point together.",
            "s",
            quantiles("scheduler_framework_extension_point_duration_seconds", by="extension_point")[1:],
        ),
        Panel(
            "Time of plugins, p99",
            "Measured in a tenth of the attempts.",
            "s",
            quantiles("scheduler_plugin_execution_duration_seconds", by="plugin")[1:],
        ),
    ),
    "Pods that wait": (
        Panel("Pending pods", "By queue.", "short", value("max by (queue) (scheduler_pending_pods{})", "{{queue}}")),
        Panel(
            "Why they wait",
            "Unschedulable pods, by the plugin that rejected them.",
            "short",
            value("max by (plugin) (scheduler_unschedulable_pods{})", "{{plugin}}"),
        ),
        Panel(
            "Age of the oldest",
            "Unschedulable ones included.",
            "s",
            value("max(scheduler_oldest_pending_pod_age_seconds{})", "oldest"),
        ),
        Panel(
            "Pods that enter a queue",
            "By queue and event.",
            "ops",
            rate("scheduler_queue_incoming_pods_total", "queue, event"),
        ),
        Panel(
            "Preemption",
            "Attempts to make room, and victims.",
            "ops",
            (
                *rate("scheduler_preemption_attempts_total", ""),
                *rate("scheduler_preemption_victims_sum", ""),
                *rate("scheduler_preemption_pdb_violations_total", ""),
            ),
        ),
        Panel(
            "Extenders",
            "Calls, by how they ended.",
            "ops",
            rate("scheduler_extender_calls_total", "extender, verb, result"),
        ),
    ),
    "Leader and cache": (
        Panel(
            "Leader",
            "1: this replica leads. The sum should always be 1.",
            "short",
            value("max by (pod) (leader_election_master_status{})", "{{pod}}"),
        ),
        Panel(
            "The Lease runs out in",
            "As each replica sees it.",
            "s",
            value("min by (pod) (scheduler_leader_election_lease_expiry_seconds{})", "{{pod}}"),
        ),
        Panel("Cache", "What it holds.", "short", value("max by (type) (scheduler_cache_size{})", "{{type}}")),
        Panel(
            "What should not happen",
            "Contradictions, differences, events that were missed or could not be applied, and rebuilds.",
            "short",
            (
                *value("sum by (kind) (scheduler_cache_errors_total{})", "cache error {{kind}}"),
                *value("sum by (kind, cause) (scheduler_compare_drift_total{})", "drift {{kind}} {{cause}}"),
                *value("sum by (kind) (scheduler_informer_sink_errors_total{}) > 0", "not applied {{kind}}"),
                *value("sum(scheduler_pod_scheduled_after_flush_total{})", "missed event"),
                *value("sum(scheduler_cache_rebuilds_total{})", "rebuild"),
            ),
        ),
        Panel(
            "Bindings in doubt",
            "By what a read of the pod showed.",
            "ops",
            rate("scheduler_bind_doubts_total", "outcome"),
        ),
        Panel(
            "Time of an event, p99",
            "Applying it to cache and queue.",
            "s",
            quantiles("scheduler_event_handling_duration_seconds", by="event")[1:],
        ),
    ),
    "API server": (
        Panel(
            "Requests",
            "By method and answer.",
            "ops",
            rate("rest_client_requests_total", "method, code"),
        ),
        Panel(
            "Time of a request, p99",
            "Watches left out.",
            "s",
            quantiles("rest_client_request_duration_seconds", by="verb")[1:],
        ),
        Panel(
            "Wait for our own rate limit, p99",
            "`kubeApi.qps` and `kubeApi.burst`.",
            "s",
            quantiles("rest_client_rate_limiter_duration_seconds", by="verb")[1:],
        ),
        Panel(
            "Events of watches",
            "By kind and type.",
            "ops",
            rate("scheduler_informer_watch_events_total", "kind, type"),
        ),
        Panel(
            "Without a watch for",
            "0 while there is one.",
            "s",
            value("max by (kind) (scheduler_informer_disconnected_seconds{})", "{{kind}}"),
        ),
        Panel(
            "Lists after the first one",
            "By kind and reason.",
            "ops",
            rate("scheduler_informer_relists_total", "kind, reason"),
        ),
    ),
    "Process": (
        Panel("CPU", "Cores.", "short", (*rate("process_cpu_seconds_total", "pod"),)),
        Panel("Memory", "Resident.", "bytes", value("max by (pod) (process_resident_memory_bytes{})", "{{pod}}")),
        Panel(
            "Tasks of the event loop",
            "Should not grow.",
            "short",
            value("max by (pod) (scheduler_event_loop_tasks{})", "{{pod}}"),
        ),
    ),
}


def panel_json(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    """A panel as Grafana has it."""
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]}},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
            for place, (expression, legend) in enumerate(panel.queries)
        ],
    }


def variable(name: str, query: str) -> dict[str, Any]:
    """A choice at the top of the dashboard."""
    return {
        "name": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def dashboard() -> dict[str, Any]:
    """The whole dashboard."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}}
        )
        y += 1
        for place, panel in enumerate(row):
            x, line = place % 3 * WIDTH, place // 3
            panels.append(panel_json(panel, len(panels) + 1, x, y + line * HEIGHT))
        y += (len(row) + 2) // 3 * HEIGHT
    return {
        "uid": "schedcache",
        "title": "schedcache",
        "tags": ["kubernetes", "scheduler"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus"},
                # Of metrics that kube-scheduler does not have under the same name.
                variable("namespace", "label_values(scheduler_event_loop_tasks, namespace)"),
                variable("job", 'label_values(scheduler_event_loop_tasks{namespace=~"$namespace"}, job)'),
            ]
        },
        "panels": panels,
    }


def text() -> str:
    """What the file should have in it."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
    sys.stdout.write(f"wrote {FILE.relative_to(FILE.parents[3])}\n")
