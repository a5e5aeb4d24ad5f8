"""What can be tuned: described where it is, and handed down to where it is used."""

import asyncio
import dataclasses

import pytest

from schedcache.app.deadlines import HealthSettings, StopSettings
from schedcache.app.health import health_of
from schedcache.app.program import assembled
from schedcache.app.settings import Settings
from schedcache.kube.settings import (
    KopfSettings,
    LeaderElectionSettings,
    RequestSettings,
    SourceSettings,
    WatchSettings,
    WriteSettings,
)
from schedcache.ports import Backoff, Outage

PARTS = [RequestSettings, SourceSettings, WatchSettings, KopfSettings, WriteSettings, HealthSettings, StopSettings]


@pytest.mark.parametrize("part", PARTS)
def test_each_setting_is_described_and_a_time_has_its_unit_in_its_name(part):
    inherited = {name for base in part.__mro__[1:] for name in getattr(base, "__annotations__", ())}
    own = part.__annotations__
    described = [line.strip().partition(":")[0] for line in part.__doc__.partition("Attributes:")[2].splitlines()]
    assert [name for name in described if name in own] == list(own)
    for field in dataclasses.fields(part):
        if isinstance(field.default, float) and field.name not in inherited:
            assert field.name.endswith("_seconds"), field.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(part(), next(iter(own)), 1)


async def test_a_program_hands_its_settings_down(unreachable_kubeconfig):
    backoff = Backoff(first=3.0, limit=3.0)
    given = Settings(
        kubeconfig=unreachable_kubeconfig,
        requests=RequestSettings(request_timeout_seconds=2.0, connect_timeout_seconds=1.0, idle_connection_seconds=7.0),
        watch=WatchSettings(inactivity_timeout_seconds=3.0, page_limit=11, backoff=backoff),
        writes=WriteSettings(concurrent_binds=5, concurrent_patches=6, waiting_events=9),
    )
    async with assembled(given) as program:
        transport, source, (recorder, status_writer) = program.transport, program.source, program._writers
        assert (transport._timeout.total, transport._timeout.connect) == (2.0, 1.0)
        assert (transport._writes._connect_timeout, transport._writes._idle_limit) == (1.0, 7.0)
        pods = source._watches["Pod"]
        assert (pods._inactivity_timeout, pods.lister._settings.page_limit, pods._backoff.pause()) == (3.0, 11, 3.0)
        assert source._backoff.pause() == 3.0
        assert transport._session.connector._keepalive_timeout == 7.0
        assert (program.binder._turn._value, program.scheduler.bindings._max_binding) == (5, 10)
        assert (status_writer._queue._workers, recorder._queue._limit) == (6, 9)


async def test_kopf_gets_its_own(unreachable_kubeconfig):
    given = Settings(
        kubeconfig=unreachable_kubeconfig,
        event_source="kopf",
        kopf=KopfSettings(relogin_seconds=60.0, stalled_seconds=4.0, page_limit=3),
    )
    async with assembled(given) as program:
        source = program.source
        assert source._operator._settings is source._settings is given.kopf
        assert (source._fed["Pod"]._stalled_seconds, source._fed["Pod"].lister._settings.page_limit) == (4.0, 3)


@pytest.mark.parametrize(("limit", "said"), [(1.0, True), (3.0, False)])
async def test_what_counts_as_lost_is_a_setting(unreachable_kubeconfig, monkeypatch, limit, said):
    async with assembled(
        Settings(kubeconfig=unreachable_kubeconfig, health=HealthSettings(lost_seconds=limit))
    ) as program:
        monkeypatch.setattr(program.source, "outages", lambda: {"Pod": Outage(2.0, "connection")})
        told = health_of(program).ready()["watches"]
        assert ("no connection for pods (2 s, connection)" in told) is said


@pytest.mark.parametrize("kind_of_trouble", ["watches", "cache", "none"])
async def test_a_candidate_whose_view_of_the_cluster_is_out_of_date_leaves_the_lease_to_others(
    unreachable_kubeconfig, monkeypatch, kind_of_trouble
):
    election = LeaderElectionSettings(resource_name="schedcache", resource_namespace="kube-system")
    async with assembled(Settings(kubeconfig=unreachable_kubeconfig, leader_election=election)) as program:
        source, elector = program.source, program.elector
        monkeypatch.setattr(source, "has_synced", lambda: True)
        monkeypatch.setattr(source, "ages", lambda: {"Pod": 1.0})
        lost = {"Pod": Outage(16.0, "connection")} if kind_of_trouble == "watches" else {}
        monkeypatch.setattr(source, "outages", lambda: lost)
        if kind_of_trouble == "cache":
            source.request_rebuild("sink error")
        scheduling = asyncio.create_task(program._schedule())
        await asyncio.wait_for(elector._standing.wait(), 5)
        assert elector._may_take() is (kind_of_trouble == "none")
        scheduling.cancel()
        await asyncio.wait([scheduling])
