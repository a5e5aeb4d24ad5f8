"""A token that is not accepted any more: nothing is bound, health says so, and with a new one everything goes on."""

import pytest

from schedcache.app.health import health_of
from schedcache.testing import Answer, FaultProxy, wait_until
from tests.e2e.in_process import dump_of, scheduler
from tests.e2e.truth import assert_bound_once, assert_dump_is_truth

pytestmark = pytest.mark.controlplane


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_a_scheduler_whose_token_is_refused_is_not_ready_until_it_has_another(cluster, source):
    await cluster.make_nodes(2)
    async with FaultProxy(cluster.control_plane) as proxy, scheduler(proxy.kubeconfig, event_source=source) as program:
        health = health_of(program)

        async def ready():
            return not any(health.ready().values())

        await wait_until(ready)
        # As with the real one: requests are refused from now on, watches that are open go on.
        rule = proxy.add(Answer(401), watch=False)
        await cluster.make_pods(10, requests={"cpu": "100m"})
        await rule.wait(10)

        async def told():
            return health.ready()["credentials"] == "the API server rejects them (401)"

        await wait_until(told)
        assert not any(health.live().values()), "a restart would not help"
        assert await cluster.list_pods(fieldSelector="spec.nodeName!=") == []
        rule.remove()
        await cluster.wait_until_bound(10, timeout=30)
        await wait_until(ready)
        await assert_dump_is_truth(cluster, dump_of(program))
        await assert_bound_once(cluster)
