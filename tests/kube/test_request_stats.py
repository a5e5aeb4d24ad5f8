"""Requests to the API server, counted as client-go counts them."""

from contextlib import asynccontextmanager

import pytest
import yaml
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from schedcache.app.request_metrics import RequestCollector
from schedcache.kube.http.credentials import load_credentials
from schedcache.kube.http.request_stats import Distribution, RequestStats
from schedcache.kube.http.transport import Transport
from schedcache.kube.write.rate import TokenBucket
from schedcache.ports import ApiError

PATH = "/api/v1/x"


@asynccontextmanager
async def opened(kubeconfig, answer):
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host = f"127.0.0.1:{runner.addresses[0][1]}"
    content = yaml.safe_load(kubeconfig.read_text())
    content["clusters"][0]["cluster"]["server"] = f"http://{host}"
    kubeconfig.write_text(yaml.safe_dump(content))
    try:
        async with Transport(load_credentials(kubeconfig)) as transport:
            yield transport, host
    finally:
        await runner.cleanup()


def told(stats):
    registry = CollectorRegistry()
    registry.register(RequestCollector(stats))
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


async def test_reads_writes_and_watches_are_counted_by_code_method_and_host(unreachable_kubeconfig):
    async def answer(request):
        if request.method == "PATCH":
            request.transport.abort()
        return web.Response(status=404 if request.method == "DELETE" else 200, body=b"x" * 300)

    async with opened(unreachable_kubeconfig, answer) as (transport, host):
        await transport.get(PATH)
        for method in ("POST", "POST", "DELETE", "PATCH"):
            try:
                await transport.send(method, PATH, b"b" * 100)
            except ApiError:
                assert method in ("DELETE", "PATCH")
        async with transport.stream(PATH, {}, 5.0) as body:
            await body.read()
    found = told(transport.stats)

    def of(name, **labels):
        return found["rest_client_" + name, frozenset({**labels, "host": host}.items())]

    assert of("requests_total", code="200", method="GET") == 2
    assert of("requests_total", code="200", method="POST") == 2
    assert of("requests_total", code="404", method="DELETE") == 1
    assert of("requests_total", code="<error>", method="PATCH") == 1
    assert of("request_duration_seconds_count", verb="GET") == 1, "a watch has no duration"
    assert of("request_duration_seconds_count", verb="PATCH") == 1
    assert of("request_size_bytes_bucket", verb="POST", le="64.0") == 0
    assert of("request_size_bytes_bucket", verb="POST", le="256.0") == 2
    assert of("request_size_bytes_sum", verb="GET") == 0
    assert of("response_size_bytes_sum", verb="POST") == 600
    assert of("response_size_bytes_bucket", verb="GET", le="256.0") == 0
    assert of("response_size_bytes_bucket", verb="GET", le="512.0") == 1


async def test_a_server_that_cannot_be_reached_is_counted_too(unreachable_kubeconfig):
    async with Transport(load_credentials(unreachable_kubeconfig)) as transport:
        for ask in (
            transport.get(PATH),
            transport.send("POST", PATH, b"{}"),
            transport.stream(PATH, {}, 1.0).__aenter__(),
        ):
            with pytest.raises(ApiError):
                await ask
    assert transport.stats.requests == {("<error>", "GET", "127.0.0.1:1"): 2, ("<error>", "POST", "127.0.0.1:1"): 1}


async def test_waits_for_our_own_limit_are_told_by_method():
    stats = RequestStats()
    stats.host = "api:6443"

    async def sleep(_seconds):
        pass

    budget = TokenBucket(10, 1, clock=lambda: 0.0, sleep=sleep, observe=stats.throttled)
    await budget.acquire("POST")
    await budget.acquire("PATCH")
    found = told(stats)
    name, host = "rest_client_rate_limiter_duration_seconds", ("host", "api:6443")
    assert found[name + "_sum", frozenset({("verb", "POST"), host})] == 0
    assert found[name + "_sum", frozenset({("verb", "PATCH"), host})] == pytest.approx(0.1)
    assert found[name + "_bucket", frozenset({("verb", "PATCH"), host, ("le", "0.1")})] == 1
    assert found[name + "_bucket", frozenset({("verb", "PATCH"), host, ("le", "0.025")})] == 0


def test_a_value_counts_for_the_first_bound_that_it_does_not_exceed():
    distribution = Distribution((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 7.0):
        distribution.add(value)
    assert (distribution.counts, distribution.total) == ([2, 1, 1], 10.0)
