"""`/readyz` tells the truth while binds are refused, throttled or not answered, and scheduling goes on all the same."""

import time

import pytest

from schedcache.app.deadlines import HealthSettings
from schedcache.app.health import health_of
from schedcache.testing import Answer, FaultProxy, Hang, wait_until
from tests.e2e.in_process import scheduler
from tests.e2e.test_rights import kubeconfig_of

PATIENCE_SECONDS = 3.0
IMPATIENT = HealthSettings(lost_seconds=PATIENCE_SECONDS)
BINDING = {"method": "POST", "path": "/binding$"}
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/schedcache"
pytestmark = [pytest.mark.controlplane, pytest.mark.slow, pytest.mark.long]


@pytest.fixture
async def proxy(control_plane):
    async with FaultProxy(control_plane) as opened:
        yield opened


def asking(program):
    """Whether it is ready, or which check fails with which words."""
    health = health_of(program)

    def is_ready():
        async def ready():
            assert not any(health.live().values()), "a restart would not help"
            return not any(health.ready().values())

        return ready

    def says(check, *words):
        async def found():
            problems = {name: problem for name, problem in health.ready().items() if problem}
            return problems.keys() == {check} and all(word in problems[check] for word in words)

        return found

    return is_ready(), says


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        pytest.param(Answer(403), "403 Forbidden", id="forbidden"),
        pytest.param(Answer(422), "422 Invalid", id="invalid"),
        pytest.param(Answer(429, retry_after=2), "no answer yet", id="throttled"),
        pytest.param(Answer(500), "500 InternalError", id="failing"),
        pytest.param(Hang(), "no answer yet", id="silent"),
    ],
)
async def test_binds_that_are_all_refused_are_told_and_made_up_for(cluster, proxy, answer, word):
    await cluster.make_nodes(3)
    async with scheduler(proxy.kubeconfig, health=IMPATIENT) as program:
        ready, says = asking(program)
        await wait_until(ready)
        refusing = proxy.add(answer, **BINDING)
        await cluster.make_pods(3)
        await wait_until(says("binding", "no bind has succeeded for", word), 30)
        await refusing.wait(2)
        refusing.remove()
        proxy.clear()
        # Not being ready stops nothing.
        await cluster.wait_until_bound(3, timeout=40)
        await wait_until(ready)


async def test_one_pod_that_is_refused_for_ever_is_no_reason(cluster, proxy):
    await cluster.make_nodes(3)
    async with scheduler(proxy.kubeconfig, health=IMPATIENT) as program:
        ready, _ = asking(program)
        refusing = proxy.add(
            Answer(403, 'admission webhook "w" denied the request'), method="POST", path="/odd/binding$"
        )
        await cluster.make_pods(1, name="odd")
        await refusing.wait(4)
        await wait_until(ready, 5)


async def test_a_right_that_is_missing_is_named_and_its_return_is_noticed_without_a_pod(cluster):
    kubeconfig = await kubeconfig_of(cluster, "scheduler", "schedcache")
    await cluster.make_nodes(1)
    async with scheduler(kubeconfig) as program:
        ready, says = asking(program)
        await wait_until(ready)
        role = await cluster.get(ROLE)
        without = [rule for rule in role["rules"] if "pods/binding" not in rule["resources"]]
        assert len(without) < len(role["rules"])
        await cluster.replace(ROLE, {**role, "rules": without})
        await cluster.make_pods(1)
        # One pod is enough, and no time need pass.
        await wait_until(says("binding", "not allowed to bind pods in namespace default"), 10)
        await cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
        await wait_until(says("binding", "not allowed to bind pods in namespace default"), 10)
        again = await cluster.get(ROLE)
        await cluster.replace(ROLE, {**again, "rules": role["rules"]})
        await wait_until(ready, 15)


@pytest.mark.parametrize("source", ["reflector", "kopf"])
async def test_an_api_server_that_hangs_with_its_watches_open_is_noticed_within_15_seconds(cluster, proxy, source):
    await cluster.make_nodes(1)
    async with scheduler(proxy.kubeconfig, event_source=source) as program:
        ready, says = asking(program)
        await wait_until(ready)
        await wait_until(open_watches(program))
        for watch in proxy.watches:
            watch.hold()
        proxy.add(Hang())
        hung = time.monotonic()
        await wait_until(says("watches", "the API server has not answered for"), 17)
        assert 8 < time.monotonic() - hung < 15.5
        proxy.clear()
        await wait_until(ready, 15)


def open_watches(program):
    async def are_open():
        return not program.source.outages()

    return are_open
