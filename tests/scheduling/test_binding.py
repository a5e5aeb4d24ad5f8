"""Binding: what comes back from the API server, and what must be true afterwards."""

import pytest
from msgspec.structs import replace

from schedcache.framework import Status, unschedulable
from schedcache.framework.status import Code
from schedcache.kube.http.outcomes import ThrottledError
from schedcache.ports import ApiError, ConflictError, NotFoundError, OutcomeUnknownError, RefusedError, UnavailableError
from schedcache.scheduling.binding_cycle import SENDINGS
from schedcache.scheduling.live_read import Truth, judge
from schedcache.testing import settle
from tests.scheduling.world import World, make_pod, raises

REFUSED = RefusedError("the server refused", status=422)
UNKNOWN = OutcomeUnknownError("time-out")


async def test_a_refused_bind_is_undone_told_and_tried_again_with_backoff():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.before_bind.append(raises(REFUSED))
        world.api.create("a", cpu="1")
        await settle()
        assert world.requested("n1") == 0
        assert [info.pod.uid for info in world.queue.error_backoff_pods()] == ["a"]
        (_, condition, nominated) = world.recorder.patches[0]
        assert (condition.status, condition.reason, condition.message) == (
            "False",
            "SchedulerError",
            "the server refused",
        )
        assert nominated is None
        assert world.recorder.reasons("a") == ["FailedScheduling"]
        await world.advance(3)
        assert world.api.node_of("a") == "n1"
        assert world.api.reads == 0
        world.check_at_rest()


async def test_a_pod_that_waits_for_the_room_of_a_failed_bind_is_woken():
    """kubernetes/kubernetes#122444."""
    async with World() as world:
        world.add_node("n1", "1")

        async def late_refusal(pod, node):
            await world.clock.sleep(2)
            raise REFUSED

        world.api.before_bind.append(late_refusal)
        world.api.create("a", cpu="1", priority=1)
        await settle()
        world.api.create("b", cpu="1")
        await settle()
        assert [info.pod.uid for info in world.queue.unschedulable_pods()] == ["b"]
        await world.advance(3.5)
        assert world.api.node_of("b") == "n1"
        assert world.api.node_of("a") == ""


@pytest.mark.parametrize("error", [UNKNOWN, ConflictError("already assigned", status=409)])
async def test_a_bind_that_went_through_in_spite_of_its_answer_is_confirmed_by_a_read(error):
    async with World() as world:
        world.add_node("n1")
        world.api.watching = False
        world.api.after_bind.append(raises(error))
        world.api.create("a")
        world.api.deliver()
        await settle()
        assert world.metrics.doubts == ["bound"]
        assert world.cache.dump().assumed_pods == frozenset()
        assert world.requested("n1") == 100
        assert world.recorder.reasons("a") == ["Scheduled"]
        world.api.deliver()  # the watch brings the same at last
        await world.advance(60)
        assert world.api.posts == [("a", "n1")]
        world.check_at_rest()


def test_an_error_of_a_call_says_whether_something_was_done_and_says_it_once():
    """Each class is of one kind only, so that no order of `except` clauses can change what is done about it."""
    kinds = {RefusedError, UnavailableError, OutcomeUnknownError}
    below = {error for error in all_below(ApiError) if error.__module__.startswith("schedcache.")}
    assert ThrottledError in below
    for error in below:
        assert len([kind for kind in kinds if issubclass(error, kind)]) == 1, error

    class NeitherError(ApiError):
        """Does not say."""

    for error in (ApiError, NeitherError):
        with pytest.raises(TypeError, match=f"{error.__name__}: expected a RefusedError"):
            error("no", status=500)


def all_below(root):
    for error in root.__subclasses__():
        yield error
        yield from all_below(error)


@pytest.mark.parametrize(
    ("error", "read"),
    [
        (RefusedError("no", status=403), False),
        (NotFoundError("no", status=404), False),
        (ThrottledError("no", reason="TooManyRequests", retry_after=None), False),
        (UnavailableError("no", reason="Unreachable"), False),
        (OutcomeUnknownError("no", status=504), True),
        (OutcomeUnknownError("no", reason="NoAnswer"), True),
        (ConflictError("no", status=409), True),
    ],
)
async def test_the_pod_is_read_where_the_bind_may_have_been_done_and_only_there(error, read):
    async with World() as world:
        world.add_node("n1")
        world.api.watching = False
        world.api.after_bind.append(raises(error))
        world.api.create("a")
        world.api.deliver()
        await settle()
        assert world.api.reads == int(read)
        assert world.metrics.doubts == ["bound"] * read
        assert world.requested("n1") == (100 if read else 0)


async def test_a_confirmation_that_overtakes_the_error_keeps_the_pod():
    """kubernetes/kubernetes#101877: the write happened, its event came, then the call failed."""
    async with World() as world:
        world.add_node("n1")
        world.api.after_bind.append(raises(OutcomeUnknownError("internal error", status=500)))
        world.api.create("a")
        await world.advance(60)
        assert world.api.posts == [("a", "n1")]
        assert world.requested("n1") == 100
        world.check_at_rest()


async def test_a_bind_that_another_component_won_leaves_the_pod_there():
    async with World() as world:
        world.add_node("n1")
        world.add_node("n2")
        world.api.watching = False

        def someone_else(pod, node):
            world.api._bind(pod, "n2" if node == "n1" else "n1")

        world.api.before_bind.append(someone_else)
        world.api.create("a")
        world.api.deliver()
        await settle()
        assert world.metrics.doubts == ["elsewhere"]
        (_, ours) = world.api.posts[0]
        assert world.requested(ours) == 0
        world.api.deliver()
        await world.advance(60)
        assert len(world.api.posts) == 1
        world.check_at_rest()


async def test_an_answered_bind_that_was_not_done_is_tried_again():
    async with World() as world:
        world.add_node("n1")
        world.api.before_bind.append(raises(OutcomeUnknownError("internal error", status=500)))
        world.api.create("a")
        await settle()
        assert world.metrics.doubts == ["unbound"]
        assert world.requested("n1") == 0
        await world.advance(3)
        assert world.api.node_of("a") == "n1"
        world.check_at_rest()


@pytest.mark.parametrize("error", [UNKNOWN, OutcomeUnknownError("gateway time-out", status=504)])
async def test_a_bind_without_an_answer_keeps_its_room_and_is_sent_to_the_same_node_again(error):
    """kubernetes/kubernetes#106361: it may arrive when the room has long been another pod's."""
    async with World() as world:
        world.add_node("n1", "1")
        world.api.before_bind.append(raises(error))
        world.api.create("a", cpu="1")
        world.api.create("rival", cpu="1")
        await settle()
        assert world.metrics.doubts == ["unbound"]
        assert world.api.node_of("a") == "n1"
        assert world.api.node_of("rival") == ""
        await world.advance(60)
        assert world.api.posts == [("a", "n1")] * 2
        assert world.recorder.reasons("a") == ["Scheduled"]


async def test_a_bind_that_is_never_answered_is_given_up_so_that_others_have_their_turn():
    async with World() as world:
        world.add_node("n1")
        world.api.before_bind.extend(raises(UNKNOWN) for _ in range(SENDINGS))
        world.api.create("a")
        await settle()
        assert world.metrics.doubts == ["unbound"] * SENDINGS
        assert world.requested("n1") == 0
        await world.advance(3)
        assert world.api.node_of("a") == "n1"
        world.check_at_rest()


async def test_a_bind_without_an_answer_is_not_sent_again_for_a_pod_that_was_deleted_meanwhile():
    async with World() as world:
        world.add_node("n1")

        def deleted(pod, node):
            world.api.delete("a")
            raise UNKNOWN

        world.api.before_bind.append(deleted)
        world.api.create("a")
        await world.advance(60)
        assert world.api.posts == [("a", "n1")]
        assert world.requested("n1") == 0
        world.check_at_rest()


async def test_without_an_answer_the_pod_keeps_its_room_and_is_looked_at_less_and_less_often():
    async with World() as world:
        world.add_node("n1", "1")
        world.api.watching = False
        world.api.after_bind.append(raises(UNKNOWN))
        world.api.on_get = [UnavailableError("down", status=503) for _ in range(200)]
        world.api.create("a", cpu="1")
        world.api.deliver()
        await world.advance(600)
        assert world.requested("n1") == 1000
        assert world.cache.dump().assumed_pods == {"a"}
        assert 55 < world.api.reads < 70
        world.api.on_get.clear()
        await world.advance(11)
        assert world.cache.dump().assumed_pods == frozenset()
        assert world.requested("n1") == 1000
        assert world.recorder.reasons("a") == ["Scheduled"]
        world.api.deliver()
        world.check_at_rest()


async def test_without_an_answer_the_watch_settles_it():
    async with World() as world:
        world.add_node("n1")
        world.api.watching = False
        world.api.after_bind.append(raises(UNKNOWN))
        world.api.on_get = [UnavailableError("down", status=503) for _ in range(200)]
        world.api.create("a")
        world.api.deliver()
        await world.advance(20)
        world.api.deliver()
        await world.advance(60)
        assert world.recorder.reasons("a") == ["Scheduled"]
        world.check_at_rest()


async def test_404_drops_the_pod_once_the_watch_says_so_too():
    async with World() as world:
        world.add_node("n1")
        world.api.watching = False
        world.api.create("a")
        world.api.deliver()
        world.api.before_bind.append(lambda pod, node: world.api.delete("a"))
        await settle()
        assert world.requested("n1") == 0
        world.api.deliver()
        await world.advance(60)
        assert world.api.posts == [("a", "n1")]
        assert world.queue.find("default", "a") is None
        world.check_at_rest()


async def test_404_for_a_pod_that_exists_does_not_lose_it():
    async with World() as world:
        world.add_node("n1")
        world.api.before_bind.append(raises(NotFoundError("not found", status=404)))
        world.api.create("a")
        await world.advance(3)
        assert world.api.node_of("a") == "n1"
        world.check_at_rest()


async def test_a_pod_replaced_under_its_name_during_the_bind_is_scheduled_for_itself():
    async with World() as world:
        world.add_node("n1")

        def replaced(pod, node):
            world.api.delete("u1")
            world.api.create("u2", "web-0")

        world.api.before_bind.append(replaced)
        world.api.create("u1", "web-0")
        await world.advance(5)
        assert [uid for uid, _ in world.api.posts] == ["u1", "u2"]
        assert world.api.node_of("u2") == "n1"
        world.check_at_rest()


@pytest.mark.parametrize("first_timestamp", [True, False])
async def test_a_pod_deleted_while_it_is_bound_frees_its_node_at_once(first_timestamp):
    """kubernetes/kubernetes#134217."""
    async with World() as world:
        world.add_node("n1", "1")
        world.api.before_bind.append(lambda pod, node: world.clock.sleep(5))
        world.api.create("a", cpu="1")
        await settle()
        assert world.requested("n1") == 1000
        if first_timestamp:
            world.api.change("a", deletion_timestamp="2026-01-01T00:00:00Z")
        else:
            world.api.delete("a")
        assert world.requested("n1") == 0
        world.api.create("b", cpu="1")
        await settle()
        assert world.api.node_of("b") == "n1"
        await world.advance(30)
        assert world.requested("n1") == 1000
        assert [uid for uid, _ in world.api.posts] == ["a", "b"]
        world.check_at_rest()


def world_that_is_slow_before_a_bind():
    class SlowPreBind:
        name = "SlowPreBind"

        def __init__(self, args, handle): ...

        async def pre_bind(self, state, pod, node_name):
            await world.clock.sleep(5)

    world = World(extra={"SlowPreBind": SlowPreBind})
    return world


async def test_a_pod_that_grows_before_its_bind_is_sent_is_not_bound_on_the_old_numbers():
    """kubernetes/kubernetes#126891."""
    async with world_that_is_slow_before_a_bind() as world:
        world.add_node("n1", "4")
        world.api.create("big", cpu="1500m", node="n1")
        world.api.create("a", cpu="1")
        await settle()
        assert world.requested("n1") == 2500
        world.api.change("a", requests=make_pod("x", cpu="2").requests, shape=make_pod("a", cpu="2").shape)
        assert world.requested("n1") == 3500
        await world.advance(6)
        assert world.api.posts == []
        await world.advance(20)
        assert world.api.node_of("a") == "n1"
        assert world.requested("n1") == 3500
        world.check_at_rest()


async def test_a_pod_that_shrinks_during_its_bind_wakes_those_who_wait_for_the_room():
    async with World() as world:
        world.add_node("n1", "2")
        world.api.before_bind.append(lambda pod, node: world.clock.sleep(5))
        world.api.create("a", cpu="2")
        world.api.create("b", cpu="1")
        await settle()
        assert world.queue.find("default", "b")[0] == "unschedulable"
        world.api.change("a", requests=make_pod("x", cpu="1").requests)
        await world.advance(3)
        assert world.api.node_of("b") == "n1"
        assert world.requested("n1") == 2000


class Permit:
    """Waits for ten seconds unless somebody says otherwise."""

    name = "Permit"

    def __init__(self, args, handle): ...

    def permit(self, state, pod, node_name):
        return Status(Code.WAIT), 10.0

    def events_to_register(self):
        return []


async def test_a_pod_waits_on_permit_and_is_bound_when_allowed():
    async with World(extra={"Permit": Permit}) as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        assert world.api.posts == []
        assert world.cache.dump().assumed_pods == {"a"}
        world.scheduler.frameworks["schedcache"].waiting_pods.get("a").allow("Permit")
        await settle()
        assert world.api.posts == [("a", "n1")]
        world.check_at_rest()


async def test_a_pod_deleted_while_it_waits_on_permit_is_rejected():
    async with World(extra={"Permit": Permit}) as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        world.api.delete("a")
        await settle()
        assert world.requested("n1") == 0
        assert world.api.posts == []
        world.check_at_rest()


async def test_a_pod_bound_elsewhere_while_it_waits_on_permit_is_left_there():
    async with World(extra={"Permit": Permit}) as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        world.add_node("n2")
        world.api.change("a", node_name="n2")
        await settle()
        assert (world.requested("n1"), world.requested("n2")) == (0, 100)
        assert world.api.posts == []
        world.check_at_rest()


async def test_a_reserve_that_refuses_is_undone_in_reverse_and_the_pod_waits_for_that_plugin():
    calls = []

    class Claims:
        name = "Claims"

        def __init__(self, args, handle): ...

        def reserve(self, state, pod, node_name):
            calls.append("reserve")
            return unschedulable("no device left")

        def unreserve(self, state, pod, node_name):
            calls.append("unreserve")

        def events_to_register(self):
            return []

    async with World(extra={"Claims": Claims}) as world:
        world.add_node("n1")
        world.api.create("a")
        await world.advance(60)
        assert calls == ["reserve", "unreserve"]
        (info,) = world.queue.unschedulable_pods()
        assert info.unschedulable_plugins == {"Claims"}
        assert world.recorder.events[-1][2] == "0/1 nodes are available: 1 no device left."
        assert world.requested("n1") == 0


async def test_a_plugin_that_raises_while_a_pod_is_reserved_leaks_nothing():
    class Broken:
        name = "Broken"

        def __init__(self, args, handle): ...

        def reserve(self, state, pod, node_name):
            raise RuntimeError("out of order")

        def unreserve(self, state, pod, node_name): ...

    async with World(extra={"Broken": Broken}) as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        assert world.requested("n1") == 0
        assert [info.pod.uid for info in world.queue.error_backoff_pods()] == ["a"]


async def test_bind_requests_are_bounded():
    async with World(max_binding=3) as world:
        world.add_node("n1", "100")
        world.api.before_bind += [lambda pod, node: world.clock.sleep(5) for _ in range(20)]
        for i in range(20):
            world.api.create(f"p{i}")
        await settle()
        assert len(world.api.posts) <= 4
        await world.advance(60)
        assert len(world.api.posts) == 20
        world.check_at_rest()


async def test_stopping_lets_binds_end_and_forgets_those_that_do_not():
    world = World()
    async with world:
        world.add_node("n1")
        world.api.before_bind.append(lambda pod, node: world.clock.sleep(5))
        world.api.create("a")
        await settle()
        assert world.cache.dump().assumed_pods == {"a"}
    assert world.cache.dump().assumed_pods == frozenset()
    assert len(world.scheduler.bindings) == 0


async def test_a_pod_handed_to_another_scheduler_before_its_bind_is_sent_is_not_bound():
    async with world_that_is_slow_before_a_bind() as world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        world.api.change("a", shape=make_pod("a", scheduler_name="other").shape)
        await world.advance(30)
        assert world.api.posts == []
        assert world.queue.find("default", "a") is None
        world.check_at_rest()


async def test_a_pod_that_is_being_deleted_is_not_queued_after_its_bind_failed():
    async with World() as world:
        world.add_node("n1")

        async def deleted_meanwhile(pod, node):
            world.api.change("a", deletion_timestamp="2026-01-01T00:00:00Z")
            raise REFUSED

        world.api.before_bind.append(deleted_meanwhile)
        world.api.create("a")
        await world.advance(30)
        assert world.recorder.events == []
        assert world.queue.find("default", "a") is None
        world.check_at_rest()


async def test_a_fault_between_assume_and_bind_leaks_no_room(monkeypatch):
    async with World() as world:
        world.add_node("n1")
        monkeypatch.setattr(world.scheduler.frameworks["schedcache"], "run_permit", lambda *_: 1 / 0)
        world.api.create("a")
        await settle()
        assert world.requested("n1") == 0
        assert [info.pod.uid for info in world.queue.error_backoff_pods()] == ["a"]


async def test_the_nomination_ends_when_the_pod_is_assumed():
    async with World() as world:
        world.add_node("n1")
        world.api.before_bind.append(lambda pod, node: world.clock.sleep(5))
        world.api.create("a", status={"nominatedNodeName": "n1"})
        assert world.queue.nominated_nodes() == ["n1"]
        await settle()
        assert world.cache.dump().assumed_pods == {"a"}
        assert world.queue.nominated_nodes() == []


ASSUMED = make_pod("web", uid="u1", node="n1")
GOING = replace(make_pod("web", uid="u1"), deletion_timestamp="2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("live", "truth"),
    [
        (None, Truth.GONE),
        (make_pod("web", uid="u2", node="n1"), Truth.GONE),
        (make_pod("web", uid="u1", node="n1", status={"phase": "Succeeded"}), Truth.GONE),
        (make_pod("web", uid="u1", node="n1"), Truth.BOUND),
        (replace(GOING, node_name="n1"), Truth.BOUND),
        (make_pod("web", uid="u1", node="n2"), Truth.ELSEWHERE),
        (make_pod("web", uid="u1"), Truth.UNBOUND),
        (GOING, Truth.DELETING),
    ],
)
def test_what_a_live_read_means(live, truth):
    assert judge(ASSUMED, live) is truth


async def test_stopping_forgets_pods_that_wait_on_permit_without_a_word():
    world = World(extra={"Permit": Permit})
    async with world:
        world.add_node("n1")
        world.api.create("a")
        await settle()
        assert world.cache.dump().assumed_pods == {"a"}
    assert world.cache.dump().assumed_pods == frozenset()
    assert world.recorder.events == []
    # Where it was to go stays written: that is where a scheduler which is started again tries first.
    assert world.recorder.patches == [("a", None, "n1")]
