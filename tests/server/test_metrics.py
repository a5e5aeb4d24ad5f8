"""Metrics under kube-scheduler's names."""

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schedcache.framework import SKIP, Code, Status, Verdicts, unschedulable
from schedcache.kube.watch.stats import KindStats, SourceStats
from schedcache.ports import Outage
from schedcache.scheduling import measured_framework
from schedcache.server.metrics import PrometheusMetrics
from schedcache.server.state_metrics import StateCollector
from schedcache.testing import settle
from tests.scheduling.world import World


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
    metrics.plugin_execution("Fit", "Filter", "Success", 0.00002)
    metrics.filter_failed("Fit")
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
    fit = (("extension_point", "Filter"), ("plugin", "Fit"), ("status", "Success"))
    assert found["scheduler_plugin_execution_duration_seconds_count", fit] == 1
    assert found["scheduler_filter_errors_total", (("plugin", "Fit"),)] == 1
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


def test_what_is_told_of_preemption_and_volumes_is_counted_under_its_name_and_labels():
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    metrics.preemption_attempt()
    metrics.preemption_evaluated("Unschedulable", 0.002)
    metrics.preemption_victims(3)
    metrics.preemption_violations(2)
    metrics.preemption_done("error", 0.5)
    metrics.volume_stage_failed("bind")
    found = samples(registry)
    by_a_pod = ("preemptor", "pod")
    evaluated, failed = (by_a_pod, ("result", "Unschedulable")), (by_a_pod, ("result", "error"))
    assert found["scheduler_preemption_attempts_total", ()] == 1
    assert found["scheduler_preemption_victims_sum", ()] == 3
    assert found["scheduler_preemption_evaluation_duration_seconds_sum", evaluated] == 0.002
    assert found["scheduler_preemption_pdb_violations_total", (by_a_pod,)] == 2
    assert found["scheduler_preemption_execution_duration_seconds_sum", failed] == 0.5
    assert found["scheduler_preemption_goroutines_execution_total", failed[1:]] == 1
    assert found["scheduler_preemption_goroutines_duration_seconds_sum", failed[1:]] == 0.5
    assert found["scheduler_volume_scheduling_stage_error_total", (("operation", "bind"),)] == 1


class Ranks:
    """Takes part in every point of the choice; skips both for pods of priority 7."""

    name = "Ranks"

    def __init__(self, _args, _handle):
        pass

    def events_to_register(self):
        return []

    def pre_filter(self, _state, pod, _snapshot):
        return SKIP if pod.priority == 7 else None

    def filter(self, _state, _pod, view):
        return Verdicts(np.zeros(len(view), np.int16), (None,))

    def pre_score(self, _state, pod, _view):
        return SKIP if pod.priority == 7 else None

    def score(self, _state, _pod, view):
        return np.arange(len(view))

    def normalize_score(self, _state, _pod, scores):
        return scores

    def reserve(self, _state, pod, _node):
        return unschedulable("not there") if pod.priority == 8 else None

    def unreserve(self, _state, _pod, _node):
        pass

    def permit(self, _state, _pod, _node):
        return None, 0.0

    async def pre_bind(self, _state, _pod, _node):
        return None

    def post_bind(self, _state, _pod, _node):
        pass


async def test_every_extension_point_is_timed():
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    async with World(metrics=metrics, extra={"Ranks": Ranks}) as world:
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
        ("PreScore", "Success"): 1,
        ("Score", "Success"): 1,
        ("Reserve", "Success"): 1,
        ("Permit", "Success"): 1,
        ("PreBindPreFlight", "Success"): 1,
        ("PreBind", "Success"): 1,
        ("Bind", "Success"): 1,
        ("PostBind", "Success"): 1,
    }


async def test_every_call_of_a_plugin_is_timed_in_an_attempt_that_is_sampled(monkeypatch):
    monkeypatch.setattr(measured_framework, "SAMPLED", 1.0)
    registry = CollectorRegistry()
    async with World(metrics=PrometheusMetrics(registry), extra={"Ranks": Ranks}) as world:
        world.add_node("n1", "1")
        world.add_node("n2", "1")
        world.api.create("a")
        world.api.create("big", cpu="64")
        world.api.create("odd", priority=7)
        world.api.create("refused", priority=8)
        world.api.create("gated", schedulingGates=[{"name": "hold"}])
        await settle()
    assert executions(registry) == {
        ("Gates", "PreEnqueue", "Success"): 4,
        ("Gates", "PreEnqueue", "Unschedulable"): 1,
        ("Ranks", "PreFilter", "Success"): 3,
        ("Ranks", "PreFilter", "Skip"): 1,
        ("Fit", "Filter", "Success"): 3,
        ("Fit", "Filter", "Unschedulable"): 1,
        ("Ranks", "Filter", "Success"): 2,
        ("Ranks", "PreScore", "Success"): 2,
        ("Ranks", "PreScore", "Skip"): 1,
        ("Ranks", "Score", "Success"): 2,
        ("Ranks", "ScoreExtensionNormalize", "Success"): 2,
        ("Ranks", "Reserve", "Success"): 2,
        ("Ranks", "Reserve", "Unschedulable"): 1,
        ("Ranks", "Unreserve", "Success"): 1,
        ("Ranks", "Permit", "Success"): 2,
        ("Ranks", "PreBind", "Success"): 2,
        ("Bind", "Bind", "Success"): 2,
        ("Ranks", "PostBind", "Success"): 2,
    }


class Broken(Ranks):
    """Fails where a pod's priority says."""

    name = "Broken"

    def pre_filter(self, _state, pod, _snapshot):
        return 1 / 0 if pod.priority == 1 else "yes" if pod.priority == 2 else None

    def filter(self, state, pod, view):
        if pod.priority == 3:
            raise RuntimeError
        if pod.priority == 4:
            return Verdicts(np.ones(len(view), np.int16), (None, Status(Code.ERROR, ("bug",))))
        return super().filter(state, pod, view)

    def score(self, state, pod, view):
        return "best" if pod.priority == 5 else super().score(state, pod, view)

    def permit(self, _state, pod, _node):
        return None if pod.priority == 6 else (None, 0.0)


@pytest.mark.parametrize(
    ("priority", "point"),
    [(1, "PreFilter"), (2, "PreFilter"), (3, "Filter"), (4, "Filter"), (5, "Score"), (6, "Permit")],
)
async def test_a_fault_of_a_plugin_is_timed_as_an_error_and_told_as_without_the_timer(priority, point, monkeypatch):
    told = []
    for sampled in (0.0, 1.0):
        monkeypatch.setattr(measured_framework, "SAMPLED", sampled)
        registry = CollectorRegistry()
        async with World(metrics=PrometheusMetrics(registry), extra={"Broken": Broken}) as world:
            world.add_node("n1")
            world.add_node("n2")
            world.api.create("a", priority=priority)
            await settle()
        told.append(world.recorder.events[-1])
        errors = [(plugin, at) for plugin, at, status in executions(registry) if status == "Error"]
        assert errors == ([("Broken", point)] if sampled else [])
    assert told[0] == told[1]


def executions(registry):
    """(plugin, extension point, status) -> how often it was timed."""
    return {
        (labels["plugin"], labels["extension_point"], labels["status"]): value
        for (sample, pairs), value in samples(registry).items()
        if sample == "scheduler_plugin_execution_duration_seconds_count" and (labels := dict(pairs))
    }


async def test_a_tenth_of_the_attempts_is_sampled():
    registry = CollectorRegistry()
    async with World(metrics=PrometheusMetrics(registry)) as world:
        world.add_node("n1", "64")
        for i in range(600):
            world.api.create(f"p{i}", cpu="1m")
            await settle(2)
        await settle()
    found = executions(registry)
    assert 40 < found["Fit", "Filter", "Success"] < 80
    assert 40 < found["Gates", "PreEnqueue", "Success"] < 80


async def test_looks_of_plugins_are_counted_unless_they_skip():
    async with World(extra={"Ranks": Ranks}) as world:
        registry = CollectorRegistry()
        registry.register(StateCollector(world.scheduler))
        world.add_node("n1", "1")
        world.add_node("n2", "1")
        world.api.create("a")
        world.api.create("big", cpu="64")
        world.api.create("odd", priority=7)
        await settle()
        found = {
            (labels["plugin"], labels["extension_point"], labels["profile"]): value
            for (sample, pairs), value in samples(registry).items()
            if sample == "scheduler_plugin_evaluation_total" and (labels := dict(pairs))
        }
    assert found == {
        ("Ranks", "PreFilter", "schedcache"): 2,
        ("Fit", "Filter", "schedcache"): 3,
        ("Ranks", "Filter", "schedcache"): 1,
        ("Ranks", "PreScore", "schedcache"): 1,
        ("Ranks", "Score", "schedcache"): 1,
    }


async def test_kept_answers_count_as_looks_and_take_no_time(monkeypatch):
    monkeypatch.setattr(measured_framework, "SAMPLED", 1.0)
    local = type("Local", (Ranks,), {"name": "Local", "filter_locality": "node", "score_locality": "node"})
    registry = CollectorRegistry()
    async with World(metrics=PrometheusMetrics(registry), extra={"Local": local}) as world:
        registry.register(StateCollector(world.scheduler))
        world.add_node("n1", "64")
        world.add_node("n2", "64")
        for i in range(5):
            world.api.create(f"p{i}")
            await settle()
    at_filter = (("extension_point", "Filter"), ("plugin", "Local"), ("profile", "schedcache"))
    assert samples(registry)["scheduler_plugin_evaluation_total", at_filter] == 5
    assert executions(registry)["Local", "Filter", "Success"] == 1


async def test_states_are_read_when_scraped():
    async with World() as world:
        registry = CollectorRegistry()
        registry.register(StateCollector(world.scheduler))
        world.add_node("n1", "1")
        world.api.create("a", node="n1")
        world.api.create("big", cpu="64")
        world.api.create("gated", schedulingGates=[{"name": "hold"}])
        await settle()
        await world.advance(40)
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


class Source:
    """A source that has not begun."""

    stats = SourceStats(kinds={"Pod": KindStats(), "Node": KindStats()})

    @staticmethod
    def ages():
        return {"Pod": 1.0, "Node": float("inf")}

    @staticmethod
    def outages():
        return {"Node": Outage(7.0, "connection")}
