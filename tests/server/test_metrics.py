"""Metrics under kube-scheduler's names."""

import pathlib
import re

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schedcache.cli.source_metrics import SourceCollector
from schedcache.kube.stats import KindStats, SourceStats
from schedcache.server.metrics import PrometheusMetrics
from schedcache.server.state_metrics import StateCollector
from tests.scheduling.world import World, settle


def samples(registry):
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_is_told_is_counted_under_its_name_and_labels():
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    metrics.schedule_attempt("schedcache", "scheduled", 0.003)
    metrics.schedule_attempt("schedcache", "scheduled", 0.003)
    metrics.scheduling_algorithm(0.0005)
    metrics.pod_scheduled(2, 0.5)
    metrics.pod_scheduled(40, None)
    metrics.event_handled("PodAdd", 0.00001)
    metrics.permit_wait("Success", 1.0)
    metrics.bind_doubt("bound")
    metrics.cache_error("corruption")
    metrics.rebuilt()
    metrics.malformed_object("Pod")
    metrics.queue_incoming_pods("active", "PodAdd")
    metrics.inflight_events("PodPopped", 1)
    metrics.inflight_events("PodPopped", -1)
    metrics.queueing_hint("Fit", "NodeAdd", "Queue", 0.00001)
    metrics.pod_scheduled_after_flush("schedcache")
    found = samples(registry)
    scheduled = (("profile", "schedcache"), ("result", "scheduled"))
    assert found["scheduler_schedule_attempts_total", scheduled] == 2
    assert found["scheduler_scheduling_attempt_duration_seconds_count", scheduled] == 2
    assert found["scheduler_scheduling_algorithm_duration_seconds_count", ()] == 1
    assert found["scheduler_pod_scheduling_attempts_sum", ()] == 42
    assert found["scheduler_pod_scheduling_sli_duration_seconds_sum", (("attempts", "2"),)] == 0.5
    assert found["scheduler_event_handling_duration_seconds_count", (("event", "PodAdd"),)] == 1
    assert found["scheduler_permit_wait_duration_seconds_count", (("result", "Success"),)] == 1
    assert found["scheduler_bind_doubts_total", (("outcome", "bound"),)] == 1
    assert found["scheduler_cache_errors_total", (("kind", "corruption"),)] == 1
    assert found["scheduler_cache_rebuilds_total", ()] == 1
    assert found["scheduler_malformed_objects_total", (("kind", "Pod"),)] == 1
    assert found["scheduler_queue_incoming_pods_total", (("event", "PodAdd"), ("queue", "active"))] == 1
    assert found["scheduler_inflight_events", (("event", "PodPopped"),)] == 0
    assert found["scheduler_pod_scheduled_after_flush_total", ()] == 1
    hint = (("event", "NodeAdd"), ("hint", "Queue"), ("plugin", "Fit"))
    assert found["scheduler_queueing_hint_execution_duration_seconds_count", hint] == 1


async def test_every_extension_point_is_timed():
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    async with World(metrics=metrics) as world:
        world.add_node("n1", "1")
        world.add_node("n2", "1")
        world.api.create("a")
        world.api.create("big", cpu="64")
        await settle()
    name = "scheduler_framework_extension_point_duration_seconds_count"
    found = {
        (labels["extension_point"], labels["status"]): value
        for (sample, pairs), value in samples(registry).items()
        if sample == name and (labels := dict(pairs))["profile"] == "schedcache"
    }
    assert found == {
        ("PreFilter", "Success"): 2,
        ("Filter", "Success"): 1,
        ("Filter", "Unschedulable"): 1,
        ("Score", "Success"): 1,
        ("Bind", "Success"): 1,
    }


async def test_states_are_read_when_scraped():
    async with World() as world:
        registry = CollectorRegistry()
        registry.register(StateCollector(world.scheduler))
        world.add_node("n1", "1")
        world.api.create("a", node="n1")
        world.api.create("big", cpu="64")
        world.api.create("gated", schedulingGates=[{"name": "hold"}])
        await settle()
        await world.clock.advance(40)
        found = samples(registry)
    assert found["scheduler_cache_size", (("type", "nodes"),)] == 1
    assert found["scheduler_cache_size", (("type", "pods"),)] == 1
    assert found["scheduler_cache_size", (("type", "assumed_pods"),)] == 0
    assert found["scheduler_pending_pods", (("queue", "unschedulable"),)] == 1
    assert found["scheduler_pending_pods", (("queue", "gated"),)] == 1
    assert found["scheduler_pending_pods", (("queue", "active"),)] == 0
    assert found["scheduler_unschedulable_pods", (("plugin", "Fit"), ("profile", "schedcache"))] == 1
    assert found["scheduler_oldest_pending_pod_age_seconds", ()] == 40
    assert found["scheduler_goroutines", (("operation", "binding"),)] == 0


def test_the_metrics_that_the_documentation_lists_are_there():
    """Ours and kube-scheduler's; those of the watch path are listed with their prefix left out, so they are looked up by it."""
    registry = CollectorRegistry()
    PrometheusMetrics(registry)
    world = World()
    registry.register(StateCollector(world.scheduler))
    registry.register(SourceCollector(Source()))
    exported = {family.name for family in registry.collect()}
    text = (pathlib.Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    listed = set(re.findall(r"`(scheduler_[a-z_]+)", text))
    listed |= {f"scheduler_informer{name}" for name in re.findall(r"`(_[a-z_]+_total)`", text)}
    assert {name.removesuffix("_total") for name in listed} == exported


class Source:
    """A source that has not begun."""

    stats = SourceStats(kinds={"Pod": KindStats(), "Node": KindStats()})

    @staticmethod
    def ages():
        return {"Pod": 1.0, "Node": float("inf")}
