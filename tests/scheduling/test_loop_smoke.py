from schedcache.testing import settle
from tests.scheduling.world import World


async def test_a_pod_is_bound_and_confirmed():
    async with World() as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        assert world.api.posts == [("a", "n1")]
        assert world.recorder.reasons("a") == ["Scheduled"]
        world.check_at_rest()
