"""The HTTPS port with the real API server behind it, which decides who may ask; the scheduler has the rights that are shipped."""

import asyncio
import contextlib
import json

import aiohttp
import jsonschema
import pytest
import structlog

from schedcache.app.errors import UsageError
from schedcache.dump import json_schema, load_dump
from schedcache.server.secure_settings import AccessSettings, TLSSettings
from schedcache.testing import FaultProxy, Hang, wait_until
from tests.e2e.secured_world import RBAC, USER
from tests.server.pki import Authority, trusting

pytestmark = pytest.mark.controlplane


async def test_tokens(world):
    """No token 401, one for somebody else 401, no right 403, a reader's 200; and the shipped rights are enough for it."""
    async with world.secured() as port:
        assert await port.status() == 401
        assert await port.status(token="nonsense") == 401
        assert await port.status(token=await world.token("reader", audiences=["vault"])) == 401
        status, text = await port.ask(token=await world.token("stranger"))
        assert status == 403
        assert 'User \\"system:serviceaccount:default:stranger\\" cannot get path \\"/dump\\"' in text
        reader = await world.token("reader")
        await world.cluster.make_nodes(2)
        await world.cluster.make_pods(3, requests={"cpu": "100m"})
        await world.cluster.wait_until_bound(3)
        status, text = await port.ask("/dump?stories&namespace=default", token=reader)
        assert status == 200
        assert len(load_dump(text).pods) == 3
        jsonschema.validate(json.loads(text), json_schema())
        assert await port.status("/compare", token=reader) == 200
        assert await port.status("/metrics", token=reader) == 403
        assert await port.status("/metrics", token=world.control_plane.admin_token) == 200
        assert await port.status("/readyz") == 200
    await world.cluster.audit.settled(world.cluster)
    assert world.cluster.audit.refused(USER) == []


async def test_a_token_can_be_for_us_alone(world):
    async with world.secured(access=AccessSettings(token_audiences=("schedcache",))) as port:
        assert await port.status(token=await world.token("reader")) == 401
        assert await port.status(token=await world.token("reader", audiences=["vault"])) == 401
        assert await port.status(token=world.control_plane.admin_token) == 401
        assert await port.status(token=await world.token("reader", audiences=["schedcache"])) == 200
        assert await port.status(token=await world.token("stranger", audiences=["schedcache"])) == 403


async def test_client_certificates_and_front_proxies_as_the_api_server_publishes_them(world):
    async with world.secured() as port:
        await port.knows_certificates(world.clients)
        assert await port.status(client=world.clients.client("jane")) == 200
        assert await port.status(client=world.clients.client("joe", "readers")) == 200
        assert await port.status(client=world.clients.client("joe")) == 403
        assert await port.status("/metrics", client=world.clients.client("root", "system:masters")) == 200
        proxy = world.proxies.client("front-proxy-client")
        assert await port.status(client=proxy, headers={"X-Remote-User": "jane"}) == 200
        assert await port.status(client=proxy, headers={"X-Remote-User": "joe", "X-Remote-Group": "readers"}) == 200
        assert await port.status(client=proxy, headers={"X-Remote-User": "joe"}) == 403
        assert await port.status(client=world.proxies.client("x"), headers={"X-Remote-User": "jane"}) == 401
        with pytest.raises(aiohttp.ClientError):
            await port.ask(client=world.clients.client("jane", days=-1))
        with pytest.raises(aiohttp.ClientError):
            await port.ask(client=Authority(world.clients.folder, "unknown").client("jane"))


async def test_without_the_right_to_look_them_up_tokens_are_recognised_all_the_same(world):
    path = f"{RBAC}/namespaces/kube-system/rolebindings/schedcache-auth-reader"
    await world.cluster.delete(path)
    with structlog.testing.capture_logs() as logs:
        async with world.secured() as port:
            assert await port.status(token=await world.token("reader")) == 200
            assert await port.status(client=world.clients.client("jane")) == 401

            async def told():
                return any("client certificates could not be" in line["event"] for line in logs)

            await wait_until(told, 10)
    strict = AccessSettings(tolerate_lookup_failure=False)
    with pytest.raises(UsageError, match=r"tolerate-lookup-failure=false: .*403 Forbidden"):
        async with world.secured(access=strict):
            pass


@pytest.mark.parametrize("kept", [True, False], ids=["known", "unknown"])
async def test_without_an_api_server_it_refuses_within_a_second(world, kept):
    """Whoever was let in a moment ago still is, for ten seconds at most."""
    reader, other = await world.token("reader"), await world.token("stranger")
    ttl = 10.0 if kept else 0.0
    access = AccessSettings(token_ttl_seconds=ttl, authorized_ttl_seconds=ttl, unauthorized_ttl_seconds=ttl)
    async with (
        FaultProxy(world.control_plane) as proxy,
        world.secured(proxy.kubeconfig_for(world.own), access=access) as port,
    ):
        assert await port.status(token=reader) == 200
        # It takes requests, and answers none.
        proxy.add(Hang(), path=r"reviews$")
        async with asyncio.timeout(1):
            assert await port.status(token=other) == 503
        assert await port.status(token=reader) == (200 if kept else 503)
        proxy.clear()
        world.control_plane.stop_api_server()
        try:
            async with asyncio.timeout(1):
                assert await port.status(token=other) == 503
        finally:
            await asyncio.to_thread(world.control_plane.start_api_server)
        assert await port.status() == 401

        async def let_in():
            return await port.status(token=reader) == 200

        await wait_until(let_in, 20)


async def test_the_right_to_ask_for_reviews_is_needed_and_nothing_is_answered_without_it(world):
    await world.cluster.delete(f"{RBAC}/clusterrolebindings/schedcache-auth-delegator")
    async with world.secured() as port:
        assert await port.status(token=await world.token("reader")) == 503
        assert await port.status(token=world.control_plane.admin_token) == 503
        assert await port.status() == 401
        assert await port.status("/livez") == 200


async def test_a_rotated_certificate_is_shown_while_a_dump_is_read(world, tmp_path):
    await world.cluster.make_nodes(50)
    authority = Authority(tmp_path, "serving")
    files = authority.server(days=-1)
    tls = TLSSettings(cert_file=files.certificate, private_key_file=files.key, look_seconds=0.1)
    reader = await world.token("reader")
    async with world.secured(tls=tls) as port:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await port.ask(token=reader, authority=authority.file)
        connector = aiohttp.TCPConnector(ssl=trusting())
        async with aiohttp.ClientSession(f"https://127.0.0.1:{port.port}", connector=connector) as session:
            headers = {"Authorization": f"Bearer {reader}"}
            async with session.get("/dump", headers=headers) as answer:
                begun = await answer.content.readexactly(100)
                authority.server()

                async def renewed():
                    with contextlib.suppress(aiohttp.ClientError):
                        return await port.status(token=reader, authority=authority.file) == 200

                await wait_until(renewed, 10)
                assert len(load_dump(begun + await answer.read()).nodes) == 50
            # The connection from before the rotation goes on.
            async with session.get("/dump", headers=headers) as answer:
                assert answer.status == 200


async def test_a_flood_of_wrong_tokens_costs_the_api_server_little_and_readers_nothing(world):
    reader = await world.token("reader")
    async with world.secured() as port:
        assert await port.status(token=reader) == 200
        context, statuses = trusting(), []

        async def flood(number):
            connector = aiohttp.TCPConnector(ssl=context)
            async with aiohttp.ClientSession(f"https://127.0.0.1:{port.port}", connector=connector) as session:
                for i in range(40):
                    headers = {"Authorization": f"Bearer wrong-{number}-{i}"} if i % 2 else {}
                    async with session.get("/dump", headers=headers) as answer:
                        statuses.append(answer.status)

        floods = [asyncio.create_task(flood(i)) for i in range(10)]
        while not all(task.done() for task in floods):
            assert await port.status(token=reader) == 200
        await asyncio.gather(*floods)
        assert set(statuses) == {401, 429}
        assert await port.status(token=reader) == 200
    await world.cluster.audit.settled(world.cluster)
    reviews = world.cluster.audit.events(user=USER, resource="tokenreviews")
    assert len(reviews) < 120


async def test_a_hundred_slow_readers_share_reviews_and_dumps(world):
    await world.cluster.make_nodes(300)
    reader = await world.token("reader")
    async with world.secured() as port:
        context = trusting()
        request = f"GET /dump?stories HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {reader}\r\n\r\n".encode()
        writers = []
        for _ in range(100):
            _, writer = await asyncio.open_connection("127.0.0.1", port.port, ssl=context, limit=1024)
            writer.transport.pause_reading()
            writer.write(request)
            writers.append(writer)
        for _ in range(5):
            async with asyncio.timeout(3):
                assert await port.status("/livez") == 200
            await asyncio.sleep(0.1)
        for writer in writers:
            writer.transport.abort()

        async def left():
            return port.program.serving.connections["main"] == 0

        await wait_until(left, 20)
        async with asyncio.timeout(5):
            assert await port.status(token=reader) == 200
    await world.cluster.audit.settled(world.cluster)
    assert len(world.cluster.audit.events(user=USER, resource="tokenreviews")) <= 3
