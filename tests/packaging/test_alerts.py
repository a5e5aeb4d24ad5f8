"""Alerts and dashboard: their queries read metrics that there are, by labels that these have, and each alert has a runbook."""

import json
import re

import pytest
import yaml

from schedcache.app.leader_election import leader_election_of
from schedcache.app.program import assembled
from schedcache.app.settings import Settings, configuration_of
from schedcache.cli.log_metrics import LogCollector
from schedcache.cli.log_output import LogOutput
from tests.packaging import pages
from tests.packaging.helm import CHART, one, render
from tests.packaging.queries import FROM_PROMETHEUS, chosen, grouped, parsed
from tests.packaging.test_docs_surface import exported

ALERTS = yaml.safe_load((CHART / "alerts.yaml").read_text())
DASHBOARD = json.loads((CHART / "dashboards" / "schedcache.json").read_text())
SELECTOR = 'namespace="x",job="y"'
RUNBOOKS = "docs/runbooks.md"
PROCESS = {f"process_{name}": () for name in ("cpu_seconds_total", "resident_memory_bytes")}
with_helm = pytest.mark.usefixtures("helm_built")


def targets():
    return [target for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]


def queries():
    """Every query, by where it is."""
    found = {alert["alert"]: alert["expr"].replace("SELECTOR", SELECTOR) for alert in ALERTS}
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            found[f"{panel['title']} {target['refId']}"] = target["expr"]
    return found


@pytest.fixture
async def metrics(unreachable_kubeconfig):
    """Names with their labels, as the registry of a whole program has them."""
    configuration = configuration_of(None, None)
    settings = Settings(
        configuration=configuration,
        kubeconfig=str(unreachable_kubeconfig),
        leader_election=leader_election_of(configuration),
    )
    async with assembled(settings) as program:
        program.registry.register(LogCollector(LogOutput(2)))
        found = exported(program.registry)
        # Families that are collected name their labels with their samples only, and those that describe themselves with none.
        for family in program.registry.collect():
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            suffix = "_total" if family.type == "counter" else ""
            found[f"{family.name}{suffix}"] = tuple(labels | set(found.get(f"{family.name}{suffix}", ())))
    return found | PROCESS


def family(metric, metrics):
    base = re.sub(r"_(bucket|sum|count)$", "", metric)
    return base if base in metrics and metric not in metrics else metric


WITHOUT_SAMPLES = {
    "scheduler_unschedulable_pods": {"plugin", "profile"},
    "scheduler_compare_drift_total": {"kind", "cause"},
    "scheduler_informer_relists_total": {"kind", "reason"},
    "scheduler_informer_watch_events_total": {"kind", "type"},
    "rest_client_requests_total": {"code", "host", "method"},
    "rest_client_request_duration_seconds": {"verb", "host"},
    "rest_client_rate_limiter_duration_seconds": {"verb", "host"},
}
"""Collected, and with nothing to collect in a program that has not run. tests/e2e/test_chart.py asks one that has."""


@pytest.mark.parametrize(("where", "query"), queries().items(), ids=queries())
async def test_a_query_reads_what_there_is(where, query, metrics):
    selected = chosen(query)
    assert selected
    own = set()
    for metric, labels in selected:
        name = family(metric, metrics)
        assert name in metrics, f"{where}: no metric {metric}"
        own = set(metrics[name]) | WITHOUT_SAMPLES.get(name, set()) | ({"le"} if metric.endswith("_bucket") else set())
        given = {label for label, _, _ in labels}
        assert given >= {"namespace", "job"}, f"{where}: {metric} of any scheduler"
        assert given <= own | FROM_PROMETHEUS, f"{where}: {metric} has no {given - own - FROM_PROMETHEUS}"
        assert grouped(query) <= own | FROM_PROMETHEUS, f"{where}: {metric} has no {grouped(query) - own}"


@pytest.mark.parametrize("query", ["sum(rate(x[5m])", "rate(scheduler_pending_pods)", "a +"])
def test_what_is_no_query_would_be_seen(query):
    with pytest.raises(ValueError, match=r"\w"):
        parsed(query)


def test_legends_and_summaries_name_labels_that_the_query_keeps():
    for target in targets():
        named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert named <= grouped(target["expr"]), target
    for alert in ALERTS:
        named = set(re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"]))
        assert named <= grouped(alert["expr"].replace("SELECTOR", SELECTOR)), alert


def test_a_rate_is_of_a_counter_or_a_histogram():
    for where, query in queries().items():
        for metric in re.findall(r"(?:rate|increase)\((\w+)", query):
            assert re.search(r"_(total|bucket|sum|count)$", metric), where


def test_every_alert_has_a_runbook_and_every_runbook_an_alert():
    names = [alert["alert"] for alert in ALERTS]
    assert len(set(names)) == len(names)
    headings = re.findall(r"^## (Schedcache\w+)$", pages.text(RUNBOOKS), re.MULTILINE)
    assert headings == names
    for name in names:
        assert name.lower() in pages.anchors(RUNBOOKS)
        written = pages.section(RUNBOOKS, f"## {name}")
        assert len(written.split()) > 30, name


def test_alerts_are_no_more_severe_than_two_words_say():
    assert {alert["labels"]["severity"] for alert in ALERTS} == {"critical", "warning"}


@with_helm
def test_the_rendered_rules_are_the_alerts_with_selector_and_runbook():
    (group,) = one("PrometheusRule", render(CHART / "ci" / "everything-values.yaml", release="rel"))["spec"]["groups"]
    assert [rule["alert"] for rule in group["rules"]] == [alert["alert"] for alert in ALERTS]
    for rule, alert in zip(group["rules"], ALERTS, strict=True):
        assert rule["annotations"]["summary"] == alert["annotations"]["summary"]
        assert rule["annotations"]["runbook_url"] == f"https://example.com/runbooks#{rule['alert'].lower()}"
        assert {label for _, labels in chosen(rule["expr"]) for label in labels} >= {
            ("namespace", "MatchOp.Equal", "kube-system"),
            ("job", "MatchOp.Equal", "rel-batch"),
        }


@with_helm
def test_without_election_there_is_no_alert_about_it():
    values = {"prometheusRule": {"enabled": True}, "observe": True, "replicaCount": 1}
    (group,) = one("PrometheusRule", render(values))["spec"]["groups"]
    names = {rule["alert"] for rule in group["rules"]}
    assert {alert["alert"] for alert in ALERTS} - names == {
        "SchedcacheNoLeader",
        "SchedcacheTwoLeaders",
        "SchedcacheLeaderChanges",
    }
    assert group["rules"][0]["annotations"]["runbook"] == "docs/runbooks.md#schedcacheabsent"


@with_helm
def test_the_dashboard_is_in_its_config_map():
    objects = render(CHART / "ci" / "everything-values.yaml", release="rel")
    (found,) = [item for item in objects if item["metadata"]["name"] == "rel-batch-dashboard"]
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["rel-batch.json"]) == DASHBOARD


def test_panels_do_not_overlap_and_say_what_they_show():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert panel["type"] == "row" or panel["description"].endswith(".")
