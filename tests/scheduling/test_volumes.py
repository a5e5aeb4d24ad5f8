"""Claims that wait for their first consumer, through queue, cycles and VolumeBinding, in a world of memory."""

from schedcache.ports import RefusedError
from schedcache.testing import MemoryApi, World, make_node, settle
from tests.plugins.volumes import claim, pod_with, storage_class, volume


class Unwilling(MemoryApi):
    """Refuses to have volumes reserved, after ten seconds."""

    async def prebind(self, volume, claim):
        self.volume_writes.append((volume.name, claim.name))
        await self.clock.sleep(10)
        raise RefusedError("no", status=403)


async def test_a_volume_that_is_free_again_wakes_those_who_found_none():
    """No event of the API tells of it: it was taken in thought alone."""
    static = storage_class(provisioner="kubernetes.io/no-provisioner")
    api = Unwilling()
    async with World(api=api) as world:
        api.clock = world.clock
        world.add(make_node("n1"), static, claim("c"), claim("d"), volume("v"))
        world.add(pod_with("p", "c"))
        await settle()
        world.add(pod_with("q", "d"))
        await world.advance(9)
        assert world.queue.find("default", "q")[0] == "unschedulable"
        assert api.volume_writes == [("v", "c")]
        await world.advance(2)
        assert api.volume_writes == [("v", "c"), ("v", "d")]


async def test_a_pod_is_bound_once_its_claim_is():
    async with World() as world:
        world.add(make_node("n1"), storage_class(), claim("c"))
        world.add(pod_with("p", "c"))
        await settle()
        assert (world.api.volume_writes, world.node_of("p")) == ([("c", "n1")], "")
        held = world.objects.get("PersistentVolumeClaim", "default", "c")
        bound = claim("c", bound_to="v", annotations=dict(held.annotations), meta={"resourceVersion": "2000"})
        world.add(volume("v", claim=("c", "uid-c"), phase="Bound"))
        world.scheduler.handlers.on_update("PersistentVolumeClaim", held, bound)
        await settle()
        assert world.node_of("p") == "n1"
        world.check_at_rest()
