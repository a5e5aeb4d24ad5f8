"""After the choice of a node: Reserve, Permit with waiting pods, PreBind, Bind, PostBind."""

import asyncio

import pytest

from schedcache.framework import SKIP, Code, CycleState, Status, unschedulable
from schedcache.framework import waiting_pods as waiting_module
from schedcache.ports import OutcomeUnknownError
from tests.framework.world import make_framework, make_pod, plugin

WAIT = Status(Code.WAIT)


def reserving(name, log, *, status=None):
    return plugin(
        name,
        reserve=lambda *_: log.append(f"reserve {name}") or status,
        unreserve=lambda *_: log.append(f"unreserve {name}"),
    )


def test_reserve_stops_at_the_first_refusal_and_unreserve_runs_backwards():
    log = []
    framework = make_framework(
        reserving("A", log), reserving("B", log, status=unschedulable("no")), reserving("C", log)
    )
    state, pod = CycleState(), make_pod("p")
    assert framework.run_reserve(state, pod, "n") == Status(Code.UNSCHEDULABLE, ("no",), "B")
    assert framework.run_unreserve(state, pod, "n") is None
    assert log == ["reserve A", "reserve B", "unreserve C", "unreserve B", "unreserve A"]


def test_a_fault_in_one_unreserve_does_not_keep_the_others():
    log = []
    faulty = plugin("B", reserve=lambda *_: 1 / 0, unreserve=lambda *_: 1 / 0)
    framework = make_framework(reserving("A", log), faulty, reserving("C", log))
    fault = framework.run_reserve(CycleState(), make_pod("p"), "n")
    assert fault == Status(Code.ERROR, ('running Reserve plugin "B": division by zero',), "B")
    assert framework.run_unreserve(CycleState(), make_pod("p"), "n").code is Code.ERROR
    assert log == ["reserve A", "unreserve C", "unreserve A"]


def permitting(name, status, seconds=10.0):
    return plugin(name, permit=lambda *_: (status, seconds))


async def test_permit_lets_pass_rejects_or_makes_wait():
    pod = make_pod("p")
    assert make_framework(permitting("A", None)).run_permit(CycleState(), pod, "n") is None
    rejected = make_framework(permitting("A", WAIT), permitting("B", unschedulable("no")))
    assert rejected.run_permit(CycleState(), pod, "n") == Status(Code.UNSCHEDULABLE, ("no",), "B")
    assert len(rejected.waiting_pods) == 0
    assert await rejected.wait_on_permit(pod) is None
    failed = make_framework(plugin("A", permit=lambda *_: 1 / 0)).run_permit(CycleState(), pod, "n")
    assert failed == Status(Code.ERROR, ('running Permit plugin "A": division by zero',), "A")


async def test_a_waiting_pod_goes_on_when_all_have_allowed_it():
    framework, pod = make_framework(permitting("A", WAIT), permitting("B", WAIT)), make_pod("p")
    assert framework.run_permit(CycleState(), pod, "n").code is Code.WAIT
    waiting = framework.waiting_pods.get(pod.uid)
    assert waiting.pending_plugins() == ["A", "B"]
    task = asyncio.create_task(framework.wait_on_permit(pod))
    waiting.allow("A")
    await asyncio.sleep(0)
    assert not task.done()
    waiting.allow("B")
    assert await task is None
    assert not waiting.reject("A", "too late")
    assert framework.waiting_pods.get(pod.uid) is None


async def test_one_rejection_is_enough():
    framework, pod = make_framework(permitting("A", WAIT), permitting("B", WAIT)), make_pod("p")
    framework.run_permit(CycleState(), pod, "n")
    task = asyncio.create_task(framework.wait_on_permit(pod))
    await asyncio.sleep(0)
    assert framework.waiting_pods.get(pod.uid).reject("B", "changed my mind")
    assert await task == Status(Code.UNSCHEDULABLE, ("changed my mind",), "B")


async def test_the_shortest_time_rejects_and_none_is_longer_than_a_quarter_of_an_hour():
    framework, pod = make_framework(permitting("A", WAIT, 0.02), permitting("B", WAIT, 1e9)), make_pod("p")
    framework.run_permit(CycleState(), pod, "n")
    assert framework.waiting_pods.get(pod.uid)._pending["B"] == waiting_module.MAX_WAIT == 900
    text = "rejected due to timeout after waiting 20ms at plugin A"
    assert await framework.wait_on_permit(pod) == Status(Code.UNSCHEDULABLE, (text,), "A")


async def test_a_cancelled_wait_forgets_the_pod():
    framework, pod = make_framework(permitting("A", WAIT)), make_pod("p")
    framework.run_permit(CycleState(), pod, "n")
    task = asyncio.create_task(framework.wait_on_permit(pod))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(framework.waiting_pods) == 0


def answering(name, point, answer):
    async def call(*_):
        if isinstance(answer, Exception):
            raise answer
        return answer

    return plugin(name, **{point: call})


async def test_the_first_binder_that_does_not_skip_decides():
    framework = make_framework(answering("A", "bind", SKIP), answering("B", "bind", None), answering("C", "bind", SKIP))
    assert await framework.run_bind(CycleState(), make_pod("p"), "n") is None
    nobody = make_framework(answering("A", "bind", SKIP))
    assert await nobody.run_bind(CycleState(), make_pod("p"), "n") == SKIP
    refused = make_framework(answering("A", "bind", unschedulable("no")))
    assert await refused.run_bind(CycleState(), make_pod("p"), "n") == Status(Code.UNSCHEDULABLE, ("no",), "A")
    faulty = make_framework(answering("A", "bind", RuntimeError("bug")))
    assert (await faulty.run_bind(CycleState(), make_pod("p"), "n")).reasons == ('running Bind plugin "A": bug',)


async def test_what_the_api_answers_to_a_bind_is_for_the_caller_to_judge():
    framework = make_framework(answering("A", "bind", OutcomeUnknownError("lost")))
    with pytest.raises(OutcomeUnknownError):
        await framework.run_bind(CycleState(), make_pod("p"), "n")


async def test_what_the_api_answers_in_pre_bind_is_an_error_like_any_other():
    framework = make_framework(answering("A", "pre_bind", OutcomeUnknownError("lost")))
    status = await framework.run_pre_bind(CycleState(), make_pod("p"), "n")
    assert status == Status(Code.ERROR, ('running PreBind plugin "A": lost',), "A")


def with_pre_flight(name, answer):
    """A PreBind plugin that says beforehand whether it has anything to do."""
    made = answering(name, "pre_bind", unschedulable(f"{name} ran"))
    made.pre_bind_pre_flight = lambda *_: answer
    return made


@pytest.mark.parametrize(
    ("plugins", "skips"),
    [
        ([], True),
        ([with_pre_flight("A", SKIP), with_pre_flight("B", SKIP)], True),
        ([with_pre_flight("A", SKIP), with_pre_flight("B", None)], False),
        ([with_pre_flight("A", SKIP), answering("B", "pre_bind", unschedulable("B ran"))], False),
    ],
)
async def test_pre_bind_is_left_out_where_no_plugin_has_anything_to_do(plugins, skips):
    framework, state = make_framework(*plugins), CycleState()
    assert framework.run_pre_bind_pre_flight(state, make_pod("p"), "n") is (SKIP if skips else None)
    status = await framework.run_pre_bind(state, make_pod("p"), "n")
    assert status == (None if skips else Status(Code.UNSCHEDULABLE, ("B ran",), "B"))


def test_a_pre_flight_that_fails_ends_the_attempt():
    faulty = answering("A", "pre_bind", None)
    faulty.pre_bind_pre_flight = lambda *_: 1 / 0
    status = make_framework(faulty).run_pre_bind_pre_flight(CycleState(), make_pod("p"), "n")
    assert status == Status(Code.ERROR, ('running PreBindPreFlight "A": division by zero',), "A")


async def test_pre_bind_stops_at_the_first_that_does_not_succeed():
    framework = make_framework(
        answering("A", "pre_bind", None), answering("B", "pre_bind", unschedulable("no")), answering("C", "pre_bind", 1)
    )
    status = await framework.run_pre_bind(CycleState(), make_pod("p"), "n")
    assert status == Status(Code.UNSCHEDULABLE, ("no",), "B")


def test_post_bind_tells_everybody():
    told = []
    framework = make_framework(
        plugin("A", post_bind=lambda *_: 1 / 0), plugin("B", post_bind=lambda state, pod, node: told.append(node))
    )
    status = framework.run_post_bind(CycleState(), make_pod("p"), "n")
    assert told == ["n"]
    assert status == Status(Code.ERROR, ('running PostBind plugin "A": division by zero',), "A")
