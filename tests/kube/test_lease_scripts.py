"""Scripts of what happens to a Lease, carried out on the elector in virtual time.

Their steps: `object`, a Lease that exists; `start` {schedulerName}, a scheduler with default settings; `leading`, one that leads, with
`leaseDuration`, `renewDeadline` and `retryPeriod`, and `restart`, another one; `renewAnswers`, statuses that its next requests get, or a
conflict, after which somebody else holds the Lease; `clock`, seconds that pass; and `expect`.
"""

import json
import re
from pathlib import Path

import pytest

from schedcache.app.leader_election import leader_election_of
from schedcache.app.settings import configuration_of
from schedcache.kube.settings import LeaderElectionSettings
from schedcache.ports import LeaderElectionRecord, RefusedError
from tests.kube.lease_world import LeaseWorld

SCRIPTS = sorted(Path(__file__).with_name("lease_scripts").glob("*.json"))
QUICK_SECONDS = 0.01


class Refusals:
    """Before each request of a candidate: the next of the answers."""

    def __init__(self, lock, answers, hold):
        self.lock, self.answers, self.hold = lock, list(answers), hold
        self.call, lock._call = lock._call, self.answered

    async def answered(self, verb, *arguments):
        if not self.answers:
            return await self.call(verb, *arguments)
        answer = self.answers.pop(0)
        if isinstance(answer, dict):
            assert answer["code"] == 409
            self.hold(answer["holderNow"])
            return await self.call(verb, *arguments)
        raise RefusedError(verb, status=answer)


class Script:
    """A world with one Lease for each name."""

    def __init__(self, folder):
        self.worlds = {}
        self.folder = folder
        self.before = {}
        self.candidate = None
        self.refused = None

    def world(self, key):
        return self.worlds.setdefault(key, LeaseWorld())

    async def carry_out(self, step):
        if "object" in step:
            lease = step["object"]
            key = f"{lease['metadata']['namespace']}/{lease['metadata']['name']}"
            spec = lease["spec"]
            self.world(key).lease.put(
                LeaderElectionRecord(
                    spec["holderIdentity"],
                    spec["leaseDurationSeconds"],
                    spec["acquireTime"],
                    spec["renewTime"],
                    spec["leaseTransitions"],
                )
            )
            self.before[key] = self.world(key).lease.version
        elif "start" in step:
            configuration = configuration_of(None, step["start"]["schedulerName"])
            election = leader_election_of(configuration, namespace_file=self.folder / "none")
            await self.start(self.world(f"{election.resource_namespace}/{election.resource_name}"), election)
        elif "leading" in step:
            given = {
                f"{name}_seconds": float(step[key])
                for name, key in (
                    ("lease_duration", "leaseDuration"),
                    ("renew_deadline", "renewDeadline"),
                    ("retry_period", "retryPeriod"),
                )
                if key in step
            }
            election = LeaderElectionSettings(resource_name="x", resource_namespace="y", **given)
            await self.start(self.world("y/x"), election)
            if step.get("restart"):
                await self.running().elapse(20)  # the former one's lease
            assert self.candidate.elector.leading
        elif "renewAnswers" in step:
            hold = self.running().hold
            self.refused = Refusals(self.candidate.elector._lock, step["renewAnswers"], hold)
        elif "clock" in step:
            await self.running().elapse(step["clock"])
        else:
            await self.check(step["expect"])

    def running(self):
        return self.candidate.world

    async def start(self, world, election):
        self.candidate = world.candidate(election).start()
        await world.elapse(QUICK_SECONDS)

    async def check(self, expected):
        within = expected.pop("withinSeconds", 0)
        if self.refused is not None and within:
            # From when the conflict is answered, which comes with the next renewal.
            await self.running().elapse(self.candidate.elector.settings.retry_period_seconds)
        await self.running().elapse(within)
        for what, value in expected.items():
            getattr(self, "check_" + re.sub("[A-Z]", lambda upper: f"_{upper[0].lower()}", what))(value)

    def check_leader(self, value):
        assert self.candidate.elector.leading is value

    def check_lease_touched(self, names):
        held = {key for key, world in self.worlds.items() if world.lease.history and key not in self.before}
        assert {key.rpartition("/")[2] for key in held} == set(names)

    def check_lease_untouched(self, keys):
        for key in keys:
            assert self.worlds[key].lease.version == self.before[key]
            assert self.worlds[key].candidates == []

    def check_binds_after(self, number):
        assert number == 0
        assert not self.candidate.write()

    def check_exit(self, how):
        assert how == "non-zero"
        assert self.candidate.lost, "what run_until ends with 1 for"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
async def test_what_a_script_expects_of_a_lease_holds(path, tmp_path):
    script = Script(tmp_path)
    try:
        for step in json.loads(path.read_text())["steps"]:
            await script.carry_out(step)
    finally:
        for world in script.worlds.values():
            await world.__aexit__()


def test_there_are_scripts():
    assert len(SCRIPTS) == 2
