"""Whether we may bind pods, in namespaces that come and go."""

import asyncio
from contextlib import asynccontextmanager

import msgspec

from schedcache.kube.write.rights import NAMESPACES, BindRights
from schedcache.ports import RefusedError
from schedcache.testing import wait_until


class Api:
    """Namespaces, and those in which binding is allowed."""

    def __init__(self, *namespaces):
        self.namespaces, self.allowed, self.may_list = set(namespaces), set(), True

    async def send(self, method, path, body):
        asked = msgspec.json.decode(body)["spec"]["resourceAttributes"]["namespace"]
        return msgspec.json.encode({"status": {"allowed": asked in self.allowed}})

    async def get(self, path, params):
        assert path == NAMESPACES
        if not self.may_list:
            raise RefusedError("no", status=403)
        wanted = params["fieldSelector"].removeprefix("metadata.name=")
        return msgspec.json.encode({"items": [{"metadata": {"name": n}} for n in self.namespaces & {wanted}]})


@asynccontextmanager
async def rights(api):
    found = BindRights(api, lambda _seconds: asyncio.sleep(0.005))
    running = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def denied(found, namespace):
    async def as_wanted():
        return found.denied_in == namespace

    await wait_until(as_wanted, 2, 0.005)


async def test_a_right_that_is_missing_is_told_until_it_is_given():
    api = Api("a")
    async with rights(api) as found:
        found.doubt("a")
        await denied(found, "a")
        api.allowed.add("a")
        await denied(found, "")


async def test_a_namespace_that_is_deleted_takes_its_missing_right_with_it():
    """Nobody grants a right there any more, so readiness would fail for ever."""
    api = Api("a", "b")
    async with rights(api) as found:
        found.doubt("a")
        await denied(found, "a")
        api.namespaces.remove("a")
        await denied(found, "")
        found.doubt("b")
        await denied(found, "b")


async def test_a_namespace_that_is_gone_before_the_answer_is_nothing_to_tell():
    api = Api()
    async with rights(api) as found:
        found.doubt("a")
        await asyncio.sleep(0.05)
        assert found.denied_in == ""


async def test_who_may_not_list_namespaces_is_told_all_the_same():
    api = Api()
    api.may_list = False
    async with rights(api) as found:
        found.doubt("a")
        await denied(found, "a")
