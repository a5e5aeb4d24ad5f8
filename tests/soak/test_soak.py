"""A minute of what `make soak` does for half an hour, and how it judges."""

import random
import sys

import pytest

from tests.soak import __main__ as command
from tests.soak.bindings import Bindings
from tests.soak.run import Report, SoakSettings, _judge_growth, soak
from tests.soak.samples import BOUNDS, Bound, Sample, connections_to, metric_gauges, theil_sen, trend

SECONDS = 60.0
SEED = 12


@pytest.mark.controlplane
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(400)
async def test_a_minute_of_load_and_faults_leaves_nothing_behind(cluster, tmp_path):
    settings = SoakSettings(seed=SEED, seconds=SECONDS, per_second=30.0, nodes=20, pause=(2.0, 8.0))
    report = await soak(cluster, settings, tmp_path / "log")
    assert report.problems == []
    assert report.counts["pods bound"] > SECONDS * settings.per_second / 2
    assert sum(report.faults.values()) >= 4


def samples(value, seconds=300, quiet=lambda _at: True):
    return [Sample(float(at), quiet(at), {"rss MiB": value(at)}) for at in range(seconds)]


RSS = BOUNDS["rss MiB"]


def grows(found):
    return not trend(found, "rss MiB", 300.0, RSS).flat


def test_noise_is_no_growth():
    rng = random.Random(1)
    assert not grows(samples(lambda _at: 100 + rng.gauss(0, 3)))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda at: 100 + 0.06 * at, id="steadily"),
        pytest.param(lambda at: 89.0 if at < 200 else 160.0, id="by a step"),
        pytest.param(lambda at: 100 + max(0, at - 190) * 0.2, id="late"),
    ],
)
def test_growth_is_found(value):
    assert grows(samples(value))


def test_what_a_fault_takes_for_a_moment_counts_for_the_most_alone():
    found = samples(lambda at: 400.0 if 250 <= at < 280 else 100.0, quiet=lambda at: not 250 <= at < 285)
    judged = trend(found, "rss MiB", 300.0, RSS)
    assert judged.flat
    assert judged.most == 400.0


def test_the_beginning_may_grow():
    assert not grows(samples(lambda at: 50 + min(at, 90)))


def test_a_third_that_is_never_quiet_is_judged_by_all_its_samples():
    assert grows(samples(lambda at: 100.0 if at < 200 else 120.0, quiet=lambda at: at < 200))


def test_a_third_without_a_sample_is_no_verdict():
    with pytest.raises(ValueError, match="rss MiB: a third of the run has no sample"):
        trend(samples(float, seconds=190), "rss MiB", 300.0, Bound(0.1, 1.0))


def test_the_median_of_slopes():
    assert theil_sen([(float(x), 2.0 * x + (50 if x == 7 else 0)) for x in range(20)]) == pytest.approx(2.0)
    assert theil_sen([(1.0, 5.0)]) == 0.0
    assert theil_sen([(float(x), float(x)) for x in range(5000)]) == pytest.approx(1.0)


def test_connections_are_counted_at_one_end():
    table = """
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 3
   3: 0100007F:C002 0100007F:1F90 06 00000000:00000000 00:00000000 00000000     0        0 0
"""
    assert connections_to(8080, table) == 1
    assert connections_to(443, table) == 0


def test_metrics_are_read():
    text = """
# HELP scheduler_pending_pods Pending pods.
scheduler_pending_pods{queue="active"} 3.0
scheduler_pending_pods{queue="gated"} 2.0
scheduler_cache_size{type="pods"} 700.0
scheduler_cache_size{type="nodes"} 50.0
scheduler_event_loop_tasks 110.0
scheduler_goroutines{operation="binding"} 8.0
"""
    assert metric_gauges(text.strip()) == {
        "metric series": 6,
        "tasks": 102.0,
        "pods queued": 5.0,
        "pods cached": 700.0,
        "nodes cached": 50.0,
    }


def test_a_pod_that_is_bound_twice_is_found(tmp_path):
    line = (
        '{"verb":"create","stage":"ResponseComplete","user":{"username":"u"},"requestReceivedTimestamp":"2026-01-01T00:00:00Z","stageTimestamp":"2026-01-01T00:00:00Z",'
        '"requestURI":"/api/v1/namespaces/default/pods/p/binding","objectRef":{"resource":"pods","subresource":"binding",'
        '"namespace":"default","name":"p"},"responseStatus":{"code":CODE},"requestObject":{"metadata":{"uid":"UID"}}}\n'
    )
    log = tmp_path / "audit.log"
    bindings = Bindings(log)
    log.write_text(
        "".join(line.replace("CODE", code).replace("UID", uid) for code, uid in [("201", "a"), ("409", "a")])
    )
    bindings.read()
    assert bindings.twice() == []
    whole = line.replace("CODE", "201").replace("UID", "a")
    with log.open("a") as file:
        file.write(whole[:40])
    bindings.read()
    assert bindings.twice() == []
    with log.open("a") as file:
        file.write(whole[40:])
    bindings.read()
    assert bindings.twice() == ["a"]
    assert bindings.answers == {201: 2, 409: 1}


@pytest.mark.parametrize(
    ("end", "status", "told"),
    [
        pytest.param(KeyboardInterrupt(), 130, "seed 7: stopped before its end", id="Ctrl-C"),
        pytest.param(OSError("it died"), 1, "seed 7: the soak could not go on", id="crash"),
    ],
)
def test_a_soak_that_does_not_reach_its_end_keeps_its_log(end, status, told, tmp_path, monkeypatch, capsys):
    async def run(_settings, log):
        log.write_text("what the scheduler said")
        raise end

    output = tmp_path / "new" / "soak.json"
    monkeypatch.setattr(command, "_run", run)
    monkeypatch.setattr(command.logging, "disable", lambda _level: None)
    monkeypatch.setattr(sys, "argv", ["soak", "--seed", "7", "--output", str(output)])
    assert command.main() == status
    log = output.with_suffix(".log")
    assert log.read_text() == "what the scheduler said"
    assert f"{told} ({log})" in capsys.readouterr().out


def test_what_never_healed_is_not_told_as_healed():
    report = Report(SoakSettings(seed=1))
    assert "not everything came to be in order" in command.table(report)
    report.healed_seconds = 1.5
    assert "all was in order within 1.5 s" in command.table(report)


def test_too_few_samples_are_a_problem_and_leave_the_rest_of_the_report():
    report = Report(SoakSettings(seed=1, seconds=300.0))
    _judge_growth(report)
    assert "rss MiB: a third of the run has no sample" in report.problems
