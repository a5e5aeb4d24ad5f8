"""An API server that keeps its watches open and carries nothing out, as one that has lost its etcd."""

import pytest

from schedcache.app.deadlines import HealthSettings
from schedcache.app.health import health_of
from schedcache.testing import Answer, FaultProxy, wait_until
from tests.e2e.in_process import dump_of, scheduler
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth

PATIENCE_SECONDS = 1.5
IMPATIENT = HealthSettings(lost_seconds=PATIENCE_SECONDS)
pytestmark = pytest.mark.controlplane


async def test_it_is_not_ready_while_no_bind_is_answered(cluster):
    await cluster.make_nodes(2)
    async with FaultProxy(cluster.control_plane) as proxy, scheduler(proxy.kubeconfig, health=IMPATIENT) as program:
        health = health_of(program)
        rule = proxy.add(Answer(500, reason="InternalError"), method="POST", path=r"/binding$")
        await cluster.make_pods(5, requests={"cpu": "100m"})
        await rule.wait(5)
        assert not any(health.ready().values()), "once may be chance"

        async def told():
            return health.ready()["binding"]

        await wait_until(told)
        assert health.ready()["binding"].endswith("(500 InternalError)")
        assert not any(health.live().values()), "a restart would not help"
        rule.remove()
        await cluster.wait_until_bound(5)
        await assert_dump_is_truth(cluster, dump_of(program))
        assert not any(health.ready().values())
        await assert_bound_once(cluster)
