"""Leader election in virtual time: who leads, from when until when, and what the fence lets through."""

import asyncio
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedcache.kube.leader_election.fence import LeaseFence, clock_with_suspend
from schedcache.kube.settings import LeaderElectionSettings
from schedcache.kube.times import to_micro_time
from schedcache.ports import FencedError, LeaderElectionRecord, RefusedError
from schedcache.testing.virtual_clock import VirtualClock, settle
from tests.kube.lease_world import LeaseWorld


async def test_the_first_one_creates_the_lease_and_renews_it_every_retry_period():
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await settle()
        assert world.leaders() == [one.name]
        first = world.lease.record
        assert first.holder_identity == one.name
        assert (first.lease_duration_seconds, first.leader_transitions) == (15, 0)
        assert first.acquire_time == first.renew_time
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", first.renew_time)
        await world.elapse(20)
        assert [round(time) for time, _ in world.lease.history] == [1000 + 2 * n for n in range(11)]
        assert world.lease.record.acquire_time == first.acquire_time
        assert world.lease.record.renew_time > first.renew_time
        assert one.link.calls.count("get") == 1, "a leader that knows what it wrote need not look"


async def test_only_looks_before_it_stands_and_leads_at_once_then():
    async with LeaseWorld() as world:
        one = world.candidate()
        one.task = asyncio.ensure_future(one.elector.run())
        await world.elapse(7)
        assert world.lease.record is None
        assert one.link.calls.count("get") >= 4
        one.elector.stand()
        await settle()
        assert one.elector.leading


async def test_who_does_not_see_the_cluster_leaves_the_lease_to_others_and_keeps_it_where_it_leads(capsys):
    async with LeaseWorld() as world:
        world.hold("dead")
        one, two = world.candidate(), world.candidate()
        blind = ["no connection for pods (16 s, connection)"]
        one.start()
        one.elector.stand(lambda: blind[0])
        await world.elapse(40)
        assert world.leaders() == []
        assert capsys.readouterr().out.count("left to others") == 1
        two.start()
        await world.elapse(20)
        assert world.leaders() == [two.name]
        await two.stop()
        await world.elapse(30)
        assert not one.elector.leading
        blind[0] = ""
        await world.elapse(2)
        assert one.elector.leading
        blind[0] = "no connection for pods (16 s, connection)"
        await world.elapse(30)
        assert one.elector.leading


async def test_the_time_in_which_it_only_looked_counts():
    """After a crash of the only replica, listing the cluster and waiting for the old lease go on side by side."""
    async with LeaseWorld() as world:
        world.hold("dead")
        one = world.candidate()
        one.task = asyncio.ensure_future(one.elector.run())
        await world.elapse(14)
        one.elector.stand()
        await world.elapse(1.1)
        assert one.elector.leading


async def test_others_wait_for_the_whole_duration_after_the_last_renewal_that_they_saw():
    async with LeaseWorld() as world:
        one, two = world.candidate().start(), world.candidate()
        await world.elapse(1)
        two.start()
        await world.elapse(30)
        assert (world.leaders(), two.elector.leader) == ([one.name], one.name)
        await one.stop()  # as a crash: nothing is released
        died = world.lease.history[-1][0]
        await world.elapse(30)
        assert two.elector.leading
        taken = next(time for time, record in world.lease.history if record.holder_identity == two.name)
        assert 15 <= taken - died <= 15 + 2
        assert world.lease.record.leader_transitions == 1


async def test_what_the_clock_of_the_holder_says_does_not_matter():
    async with LeaseWorld() as world:
        one, two = world.candidate(), world.candidate()
        one.wall, two.wall = 0.0, 4e9
        one.start()
        await world.elapse(1)
        two.start()
        for jump in (0.0, 4e9, 1e9, 0.0):
            one.wall = jump
            await world.elapse(20)
            assert world.leaders() == [one.name]


async def test_the_duration_that_counts_is_the_one_in_the_lease():
    async with LeaseWorld() as world:
        world.hold("slow", 60)
        one = world.candidate().start()
        await world.elapse(59)
        assert not one.elector.leading
        await world.elapse(2)
        assert one.elector.leading


@pytest.mark.parametrize("seconds", [0, -3])
async def test_a_lease_without_a_duration_is_waited_for_by_our_own(seconds):
    async with LeaseWorld() as world:
        world.hold("odd", seconds)
        one = world.candidate().start()
        await world.elapse(14)
        assert not one.elector.leading
        await world.elapse(2)
        assert one.elector.leading


async def test_the_largest_number_of_transitions_stays_what_it_is():
    async with LeaseWorld() as world:
        world.lease.put(LeaderElectionRecord("", 1, "then", "0", 2**31 - 1))
        one = world.candidate().start()
        await world.elapse(1)
        assert one.elector.leading
        # An int32 of the API: one more is refused.
        assert world.lease.record.leader_transitions == 2**31 - 1


async def test_a_released_lease_is_taken_within_the_retry_period():
    async with LeaseWorld() as world:
        one, two = world.candidate().start(), world.candidate()
        await world.elapse(1)
        two.start()
        for pause in (3.1, 0.7, 1.9, 1.2):
            await world.elapse(pause)
            first, second = (one, two) if one.elector.leading else (two, one)
            await first.stop()
            await first.elector.release()
            assert not first.write()
            free = world.lease.record
            assert (free.holder_identity, free.lease_duration_seconds) == ("", 1)
            await world.elapse(2)
            assert second.elector.leading
            first.task = asyncio.ensure_future(first.elector.run())
            first.elector._has_led = False  # a new process
            assert world.lease.record.leader_transitions == free.leader_transitions + 1


async def test_release_writes_nothing_if_somebody_else_has_the_lease():
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await settle()
        await one.stop()
        world.hold("other")
        await one.elector.release()
        assert world.lease.record.holder_identity == "other"


async def test_release_gets_past_a_renewal_of_its_own_that_was_cut_off():
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await settle()
        one.link.answer = None
        await world.elapse(2)  # the renewal is carried out and its answer on its way
        await one.stop()
        one.link.answer = 0.0
        await one.elector.release()
        assert world.lease.record.holder_identity == ""


async def test_a_conflict_with_another_holder_ends_it_at_once():
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await settle()
        world.hold("other")
        assert one.write(), "nobody has told it yet"
        await world.elapse(2)
        assert one.lost
        assert (one.elector.leading, one.write()) == (False, False)
        assert "other" in str(one.task.exception())


async def test_a_conflict_with_somebody_who_only_labelled_the_lease_ends_nothing():
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await settle()
        world.lease.put(world.lease.record)
        await world.elapse(2)
        assert world.leaders() == [one.name]
        assert one.spans == [[1000, None]]


async def test_refused_renewals_end_it_at_the_deadline():
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await world.elapse(2.5)
        one.link.refuse = RefusedError
        await world.elapse(9.4)
        assert one.write()
        await world.elapse(0.2)
        assert one.lost
        assert not one.write()
        assert one.spans == [[1000, 1012]]


async def test_a_candidate_that_never_led_is_not_ended_by_refusals():
    async with LeaseWorld() as world:
        one = world.candidate()
        one.link.refuse = RefusedError
        one.start()
        await world.elapse(60)
        assert not one.task.done()
        seconds, why = one.elector.silence()
        assert (seconds, why) == (60, "get")
        one.link.refuse = None
        await world.elapse(2)
        assert one.elector.leading


@pytest.mark.parametrize("request_delay", [None, 3.0])
async def test_without_answers_it_is_suspended_and_goes_on_if_nobody_else_has_led(request_delay):
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await settle()
        one.link.request, one.link.answer = request_delay, None
        await world.elapse(60)
        assert one.elector.suspended()
        assert not one.write()
        one.link.request = one.link.answer = 0.0
        await world.elapse(8)
        assert not one.lost
        assert one.elector.leading
        assert one.write()
        assert len(one.spans) == 2
        assert world.lease.record.leader_transitions == 0


async def test_without_answers_it_ends_as_soon_as_it_hears_of_another():
    async with LeaseWorld() as world:
        one, two = world.candidate().start(), world.candidate()
        await world.elapse(1)
        two.start()
        await world.elapse(1)
        one.link.request = None
        await world.elapse(40)
        assert world.leaders() == [two.name]
        assert one.spans[0][1] < two.spans[0][0]
        one.link.request = 0.0
        await world.elapse(8)
        assert one.lost


async def test_an_acquisition_whose_answer_was_lost_is_known_by_reading():
    async with LeaseWorld() as world:
        one = world.candidate()
        one.link.answer = None
        one.start()
        await world.elapse(6)
        one.link.answer = 0.0
        await world.elapse(10)
        assert one.elector.leading
        assert world.lease.record.leader_transitions == 0


async def test_time_counts_from_before_a_renewal_was_sent():
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await settle()
        one.link.request, one.link.answer = 2.0, 2.5
        await world.elapse(2 + 4.5)  # sent at 2, known at 6.5
        one.link.request = None
        await world.elapse(5.4)  # until 11.9
        assert one.write()
        await world.elapse(0.2)
        assert not one.write()


async def test_a_process_that_stood_still_writes_nothing_before_anything_else_has_run():
    async with LeaseWorld() as world:
        one = world.candidate().start()
        await settle()
        world.clock.now += 14.0  # no task has had its turn
        assert not one.write()
        await world.elapse(0)
        await world.elapse(3)
        assert one.elector.leading, "nobody else has taken it"


async def test_an_answer_that_was_waiting_while_the_process_stood_still_makes_nobody_lead():
    async with LeaseWorld() as world:
        one = world.candidate()
        one.link.request, one.link.answer = 1.0, 1.0
        one.start()
        await world.elapse(3.5)  # read; the creation is at the server
        assert world.lease.record is not None
        world.clock.now += 40
        one.link.request = None
        await world.elapse(0.0)
        assert (one.elector.leading, one.write(), one.spans) == (False, False, [])


async def test_a_deleted_lease_is_not_taken_before_it_would_have_run_out():
    async with LeaseWorld() as world:
        one, two = world.candidate().start(), world.candidate()
        await world.elapse(1)
        two.start()
        await world.elapse(1.5)
        one.link.request = None
        world.lease.record = None
        await world.elapse(12)
        assert not two.elector.leading
        await world.elapse(6)
        assert two.elector.leading
        assert one.spans[0][1] < two.spans[0][0]
        assert world.lease.record.leader_transitions == 1


async def test_its_holder_makes_a_deleted_lease_again():
    async with LeaseWorld() as world:
        one, two = world.candidate().start(), world.candidate()
        await world.elapse(1)
        two.start()
        await world.elapse(1.5)
        world.lease.record = None
        await world.elapse(30)
        assert world.leaders() == [one.name]
        assert one.spans == [[1000, None]]


async def test_a_lease_restored_from_before_its_time_ends_it():
    async with LeaseWorld() as world:
        world.hold("before", 1)
        before = world.lease.record
        one = world.candidate().start()
        await world.elapse(5)
        assert one.elector.leading
        world.lease.put(before)
        await world.elapse(2)
        assert one.lost


async def test_fractions_of_a_second_are_rounded_up_for_others():
    timings = LeaderElectionSettings(
        resource_name="x",
        resource_namespace="y",
        lease_duration_seconds=2.5,
        renew_deadline_seconds=2.0,
        retry_period_seconds=0.5,
    )
    async with LeaseWorld() as world:
        world.candidate(timings).start()
        await settle()
        assert world.lease.record.lease_duration_seconds == 3


async def test_seconds_to_expiry():
    async with LeaseWorld() as world:
        one, two = world.candidate(), world.candidate()
        assert one.elector.seconds_to_expiry() == 0
        one.start()
        await settle()
        two.task = asyncio.ensure_future(two.elector.run())
        await settle()
        assert (one.elector.seconds_to_expiry(), two.elector.seconds_to_expiry()) == (15, 15)
        one.link.request = None
        await world.elapse(4)
        assert one.elector.seconds_to_expiry() == pytest.approx(11, abs=1e-6)
        await world.elapse(30)
        assert one.elector.seconds_to_expiry() == two.elector.seconds_to_expiry() == 0


def test_micro_time_always_has_six_digits():
    assert to_micro_time(1_800_000_000) == "2027-01-15T08:00:00.000000Z"
    assert to_micro_time(1_800_000_000.25) == "2027-01-15T08:00:00.250000Z"


# The fence alone.


def test_the_fence_is_closed_until_the_first_renewal():
    clock = VirtualClock()
    with pytest.raises(FencedError):
        LeaseFence(15, 10, clock).allow(1)


def test_the_fence_shortens_what_it_lets_through_to_end_before_the_lease():
    clock = VirtualClock()
    fence = LeaseFence(15, 10, clock)
    fence.renewed(clock())
    assert fence.allow(5) == 5
    assert fence.allow(20) == pytest.approx(14.85)
    clock.advance(9.9)
    assert fence.allow(20) == pytest.approx(4.95)
    clock.advance(0.1)
    with pytest.raises(FencedError):
        fence.allow(0.001)
    fence.renewed(clock())
    fence.close()
    with pytest.raises(FencedError):
        fence.allow(0.001)


@given(
    lease=st.floats(0.1, 1000),
    deadline=st.floats(0.01, 2000),
    age=st.floats(0, 2000),
    wanted=st.floats(0.001, 100),
)
def test_nothing_that_the_fence_lets_through_outlives_the_lease(lease, deadline, age, wanted):
    """Whatever the settings: even a renew deadline beyond the lease."""
    clock = VirtualClock(0.0)
    fence = LeaseFence(lease, deadline, clock)
    fence.renewed(0.0)
    clock.advance(age)
    try:
        allowed = fence.allow(wanted)
    except FencedError:
        assert age >= min(deadline, 0.88 * lease)
    else:
        assert 0 < allowed <= wanted
        assert age + allowed <= lease
        assert age < deadline


def test_the_clock_goes_on():
    before = clock_with_suspend()
    assert 0 <= clock_with_suspend() - before < 5


# Any interleaving.

LINKS = st.tuples(
    st.sampled_from([0.0, 0.0, 0.3, 4.0, 7.0, None]),
    st.sampled_from([0.0, 0.0, 0.3, 4.0, None]),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("link"), st.integers(0, 2), LINKS),
        st.tuples(st.just("refuse"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("let_pass"), st.floats(0.05, 12), st.none()),
        st.tuples(st.just("freeze_all"), st.floats(0.5, 40), st.none()),
        st.tuples(st.just("restart"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("wall"), st.integers(0, 2), st.floats(0, 4e9)),
    ),
    min_size=5,
    max_size=25,
)


class Trial:
    """Three candidates who write whenever they may."""

    def __init__(self, world, rates):
        self.world, self.rates = world, rates
        self.running = [world.candidate(rate=rate).start() for rate in rates]

    async def elapse(self, seconds):
        for _ in range(max(1, round(seconds / 0.5))):
            await self.world.elapse(min(seconds, 0.5))
            self.write()

    def write(self):
        for candidate in self.running:
            candidate.write()

    async def link(self, which, delays):
        self.running[which].link.request, self.running[which].link.answer = delays

    async def refuse(self, which, refused):
        self.running[which].link.refuse = RefusedError if refused else None

    async def let_pass(self, seconds, _):
        await self.elapse(seconds)

    async def freeze_all(self, seconds, _):
        self.world.clock.now += seconds
        self.write()

    async def wall(self, which, seconds):
        self.running[which].wall = seconds

    async def restart(self, which, released):
        former = self.running[which]
        await former.stop()
        if released:
            former.link.refuse = None
            releasing = asyncio.ensure_future(former.elector.release())
            await self.elapse(0.5)
            releasing.cancel()
            await asyncio.gather(releasing, return_exceptions=True)
        self.running[which] = self.world.candidate(rate=self.rates[which]).start()


@given(steps=STEPS, rates=st.tuples(*[st.sampled_from([0.996, 1.0, 1.004])] * 3))
@settings(max_examples=150, deadline=None)
async def test_no_two_ever_write_at_a_time(steps, rates):
    """Though requests are late, lost or refused, processes are killed or stand still, and no two clocks agree."""
    async with LeaseWorld() as world:
        trial = Trial(world, rates)
        for what, which, how in steps:
            await getattr(trial, what)(which, how)
        await trial.elapse(1)
        assert_one_writer_at_a_time(world)


def assert_one_writer_at_a_time(world):
    writers = [name for _, name in sorted((sent, one.name) for one in world.candidates for sent, _ in one.sent)]
    turns = [name for name, _ in itertools.groupby(writers)]
    assert len(set(turns)) == len(turns), "once another one has written, the former never does again"
    for one in world.candidates:
        for sent, end in one.sent:
            after = [(time, record.holder_identity) for time, record in world.lease.history if time >= sent]
            for time, holder in after:
                if holder != one.name:
                    # What is released was awaited before.
                    assert not holder or end <= time + 1e-6, "what was sent could still arrive when the next one led"
                    break
