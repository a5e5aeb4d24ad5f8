"""A pod that is read because nobody knows where it is: what may happen between the question and what follows from its answer."""

import asyncio

import pytest
from msgspec.structs import replace

from schedcache.ports import OutcomeUnknownError, UnavailableError
from schedcache.scheduling.live_read import READS_AT_ONCE
from schedcache.testing import settle
from tests.scheduling.world import Api, World, raises

UNKNOWN = OutcomeUnknownError("time-out")


class Overtaken(Api):
    """The watch is faster than the answer to a read: `meanwhile` happens between the two, once."""

    meanwhile = staticmethod(lambda: None)

    async def get_pod(self, namespace, name):
        found = await super().get_pod(namespace, name)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        return found


@pytest.mark.parametrize("bound", [True, False])
async def test_a_pod_whose_end_overtakes_the_answer_is_not_brought_back(bound):
    """No event would ever end it again: it would fill its node for ever."""
    api = Overtaken()
    async with World(api=api) as world:
        world.add_node("n1")
        (api.after_bind if bound else api.before_bind).append(raises(UNKNOWN))
        api.meanwhile = lambda: api.delete("a")
        api.create("a")
        await world.advance(60)
        assert world.metrics.doubts == ["gone"]
        assert world.requested("n1") == 0
        assert len(world.pods) == 0
        assert world.queue.find("default", "a") is None
        assert api.posts == [("a", "n1")]
        world.check_at_rest()


async def test_a_successor_under_the_name_that_overtakes_the_answer_is_left_alone():
    api = Overtaken()
    async with World(api=api) as world:
        world.add_node("n1")
        api.after_bind.append(raises(UNKNOWN))

        def recreated():
            api.delete("a")
            api.create("b", "a")

        api.meanwhile = recreated
        api.create("a")
        await world.advance(60)
        assert api.posts == [("a", "n1"), ("b", "n1")]
        assert world.requested("n1") == 100
        world.check_at_rest()


async def test_an_end_of_the_program_while_nobody_knows_forgets_the_pod():
    world = World()
    async with world:
        world.add_node("n1")
        world.api.before_bind.append(raises(UNKNOWN))
        world.api.on_get = [UnavailableError("down", status=503)]
        world.api.create("a")
        await settle()
        assert world.cache.dump().assumed_pods == {"a"}
    assert world.cache.dump().assumed_pods == frozenset()


@pytest.mark.parametrize("bound", [True, False])
async def test_a_fault_of_ours_while_the_pod_is_read_leaks_no_room(bound):
    """It keeps its room until it has been read after all: it may be bound."""
    async with World() as world:
        world.add_node("n1")
        world.api.watching = False
        (world.api.after_bind if bound else world.api.before_bind).append(raises(UNKNOWN))
        world.api.on_get = [RuntimeError("a fault of ours")]
        world.api.create("a")
        world.api.deliver()
        await world.advance(20)
        assert world.requested("n1") == 100
        assert world.cache.dump().assumed_pods == {"a"}
        await world.advance(20)
        world.api.watching = True
        world.api.deliver()
        await world.advance(5)
        assert world.api.node_of("a") == "n1"
        assert len(world.api.posts) == (1 if bound else 2)
        world.check_at_rest()


@pytest.mark.parametrize("first_node", ["n1", "n2"])
async def test_a_bind_that_ends_after_its_pod_was_deleted_and_came_back_leaves_the_later_decision_alone(
    first_node, capsys
):
    """A restored backup has the pod as it was before its deletion, with the same UID, and it is decided again at once."""
    async with World() as world:
        node = world.add_node(first_node)
        answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
        world.api.before_bind = [lambda _pod, _node, answer=answer: answer for answer in answers]
        world.api.create("a")
        await settle()
        world.api.delete("a")
        if first_node == "n2":
            world.delete(node)
            world.add_node("n1")
        world.api.create("a")
        await settle()
        assert world.api.posts == [("a", first_node), ("a", "n1")]
        assert len(world.scheduler.bindings) == 2
        answers[0].set_exception(UNKNOWN)
        await settle()
        assert world.cache.dump().assumed_pods == {"a"}
        assert world.requested("n1") == 100
        answers[1].set_result(None)
        await settle()
        assert world.api.node_of("a") == "n1"
        assert [uid for uid, reason, _ in world.recorder.events if reason == "Scheduled"] == ["a"]
        assert "binding cycle failed" not in capsys.readouterr().out
        await world.advance(60)
        world.check_at_rest()


class Counting(Api):
    """Reads take a turn of their own, and are counted while they last."""

    under_way = most = 0

    async def get_pod(self, namespace, name):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
            return await super().get_pod(namespace, name)
        finally:
            self.under_way -= 1


async def test_reads_of_pods_in_doubt_are_few_at_a_time_and_none_is_lost():
    api = Counting()
    count = 3 * READS_AT_ONCE
    async with World(api=api) as world:
        world.add_node("n1", cpu="1000")
        api.after_bind += [raises(UNKNOWN)] * count
        for number in range(count):
            api.create(f"pod-{number}")
        await world.advance(5)
        assert 1 < api.most <= READS_AT_ONCE
        assert world.metrics.doubts == ["bound"] * count
        world.check_at_rest()


class Finished(Api):
    """Reads show that the pod has run and ended, which no event has told yet."""

    async def get_pod(self, namespace, name):
        found = await super().get_pod(namespace, name)
        return replace(found, node_name="n1", phase="Succeeded", resource_version=self.version())


async def test_events_from_before_the_end_that_was_read_do_not_bring_the_pod_back():
    api = Finished()
    async with World(api=api) as world:
        world.add_node("n1")
        api.before_bind.append(raises(UNKNOWN))
        pod = api.create("a")
        await world.advance(5)
        assert world.metrics.doubts == ["gone"]
        for late in (pod, pod.with_node("n1"), pod):
            world.scheduler.handlers.on_update("Pod", pod, late)
            assert (len(world.pods), world.requested("n1")) == (0, 0)
            assert world.queue.find("default", "a") is None
        world.scheduler.handlers.on_update("Pod", pod, replace(pod, phase="Succeeded"))
        assert len(world.pods) == 0


async def test_a_backup_that_was_restored_brings_it_back_all_the_same():
    api = Finished()
    async with World(api=api) as world:
        node = world.add_node("n1")
        api.before_bind.append(raises(UNKNOWN))
        pod = api.create("a")
        await world.advance(5)
        world.scheduler.handlers.on_rebuild({"Pod": [pod], "Node": [node]})
        assert len(world.pods) == 1
