"""What `/metrics` tells of plugins after attempts in a real cluster, under kube-scheduler's names."""

import pytest

from tests.e2e.figures import figures
from tests.e2e.scheduler_process import SchedulerProcess

LOOKS = "scheduler_plugin_evaluation_total"
TIMES = "scheduler_plugin_execution_duration_seconds"
POINTS = "scheduler_framework_extension_point_duration_seconds_count"
PODS = 120
pytestmark = pytest.mark.controlplane


async def test_looks_are_counted_for_each_attempt_and_calls_timed_in_a_tenth(cluster, tmp_path):
    await cluster.make_nodes(3)
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "log") as process:
        await cluster.make_pods(PODS, requests={"cpu": "10m"})
        await cluster.wait_until_bound(PODS)
        found = await figures(process)
    assert found.types["scheduler_plugin_evaluation"] == "counter"
    assert found.types[TIMES] == "histogram"

    def looks(plugin, point):
        return found.of(LOOKS, plugin=plugin, extension_point=point, profile="schedcache")

    assert looks("NodeResourcesFit", "PreFilter") == looks("NodeResourcesFit", "Filter") == PODS
    assert looks("NodeResourcesFit", "Score") == looks("ImageLocality", "Score") == PODS
    # Nothing to do with volumes, nor with other pods: skipped.
    assert looks("NodeVolumeLimits", "PreFilter") == looks("NodeVolumeLimits", "Filter") == 0
    assert looks("InterPodAffinity", "PreFilter") == looks("InterPodAffinity", "Score") == 0
    for point in ("PreFilter", "Filter", "PreScore", "Score", "Bind"):
        assert found.of(POINTS, extension_point=point, status="Success", profile="schedcache") == PODS
    timed = {dict(labels)["extension_point"] for labels in found.labels(f"{TIMES}_count")}
    assert {"PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "ScoreExtensionNormalize", "Bind"} <= timed
    for plugin, point in (("NodeResourcesFit", "PreFilter"), ("DefaultBinder", "Bind")):
        sampled = {"plugin": plugin, "extension_point": point, "status": "Success"}
        assert 0 < found.of(f"{TIMES}_count", **sampled) < PODS / 3
        assert 0 < found.of(f"{TIMES}_sum", **sampled) < 10
    assert found.of("process_resident_memory_bytes") > 10**7
