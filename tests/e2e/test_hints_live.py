"""Each kind of change that can help a waiting pod wakes it within its backoff, and what cannot help costs no attempt."""

import time

import pytest

from schedcache.testing import wait_until
from tests.e2e.acts import pending
from tests.e2e.in_process import scheduler
from tests.e2e.wakings import ALL
from tests.e2e.watching_queue import attempts, queued, sample, seen, until_in

BACKOFF = 1.0
# Backoff ends with the whole second in which it is over; the rest is for a loaded machine. The flush comes after 300 s.
WOKEN_WITHIN = BACKOFF + 1.0 + 3.0
pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("waking", ALL, ids=lambda waking: waking.name)
async def test_what_helps_wakes_and_nothing_else_does(cluster, waking):
    if waking.node is not None:
        await cluster.make_nodes(1, **waking.node)
    for act in waking.prepare:
        await act(cluster)
    async with scheduler(cluster.kubeconfig) as program:
        await cluster.make_pods(1, name="waits", **waking.pod)
        entry = await until_in(program, "unschedulable", "waits")
        assert waking.rejected_by in entry.unschedulable_plugins
        for act in waking.unrelated:
            obj = await act(cluster)
            if obj["kind"] != "Pod":
                await seen(program, obj["kind"], obj)
        # A deletion has no version to wait for: what comes after it does.
        await seen(program, "Pod", await pending("last")(cluster))
        assert queued(program, "waits") == ("unschedulable", entry)
        assert entry.attempts == attempts(program) == 1

        await waking.helps(cluster)
        woken = time.monotonic()

        async def tried_again():
            return attempts(program) >= 2

        await wait_until(tried_again, WOKEN_WITHIN, interval=0.01)
        assert time.monotonic() - woken < WOKEN_WITHIN
        if waking.binds:
            await cluster.wait_until_bound(1, timeout=10, fieldSelector="metadata.name=waits,spec.nodeName!=")
            assert attempts(program) <= 2 + waking.arrival
        assert sample(program, "scheduler_pod_scheduled_after_flush_total") == 0
