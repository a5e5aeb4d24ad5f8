"""A namespace that is being deleted takes no binding and no event any more, while its pods are still there."""

from collections import Counter

import pytest

from schedcache.cli.repeats import MOST_VARIANTS
from schedcache.testing import wait_until
from tests.e2e.figures import figures
from tests.e2e.scheduler_process import SchedulerProcess
from tests.e2e.truth import assert_dump_is_truth

PODS = 20
PATH = "/api/v1/namespaces/doomed"
pytestmark = pytest.mark.controlplane


async def test_its_pods_are_told_of_once_and_leak_nothing(cluster, tmp_path):
    await cluster.make_nodes(1, capacity={"cpu": "1"})
    await cluster.create_namespace("doomed")
    async with SchedulerProcess(cluster.kubeconfig, tmp_path / "log") as scheduler:
        await cluster.make_pods(PODS, namespace="doomed", requests={"cpu": "2"})
        await cluster.make_pods(1, name="elsewhere", requests={"cpu": "4"})
        await cluster.delete(PATH)
        await cluster.make_nodes(1, name="large", capacity={"cpu": "60"})

        async def tried_again_and_again():
            found, name = await figures(scheduler), "scheduler_schedule_attempts_total"
            error = {"result": "error", "profile": "schedcache"}
            return frozenset(error.items()) in found.labels(name) and found.of(name, **error) >= 3 * PODS

        await wait_until(tried_again_and_again, interval=0.2)
        # The others are not held up by it.
        (bound,) = await cluster.wait_until_bound(1)
        assert bound["metadata"]["name"] == "elsewhere"
        warned = Counter(line["event"] for line in scheduler.lines() if line["level"] == "warning")
        # Of each pod once, until it is enough for a minute.
        assert warned == {"scheduling failed; retrying": MOST_VARIANTS, "an event could not be written": 1}
        # What the namespace controller does.
        await cluster.delete(f"{PATH}/pods", grace_seconds=0)
        dump = await assert_dump_is_truth(cluster, scheduler.dump)
        assert len(dump.pods) == 1
        assert dump.queue.pods == {}
        assert (await figures(scheduler)).of("scheduler_cache_size", type="assumed_pods") == 0
        assert scheduler.complaints() == []
