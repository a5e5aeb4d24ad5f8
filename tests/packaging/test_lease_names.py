"""Which Lease replicas share: one of their own, never that of the cluster's main scheduler unless it is asked for."""

from pathlib import Path

import pytest

from schedcache.app.errors import UsageError
from schedcache.app.leader_election import leader_election_of, lease_name, new_identity
from schedcache.config import config_from_dict

NOWHERE = "/no/such/file"


def election(leader_election=None, *profiles, file=NOWHERE, **arguments):
    names = profiles or ("schedcache",)
    given = {"profiles": [{"schedulerName": name} for name in names], "leaderElection": leader_election or {}}
    return leader_election_of(config_from_dict(given).config, namespace_file=Path(file), **arguments)


def lease(*args, **kwargs):
    found = election(*args, **kwargs)
    return found.resource_namespace, found.resource_name


def test_it_is_named_after_the_first_profile():
    assert lease() == ("kube-system", "schedcache")
    assert lease(None, "other") == ("kube-system", "schedcache-other")
    assert lease(None, "one", "two") == ("kube-system", "schedcache-one")
    assert lease(None, "default-scheduler") == ("kube-system", "schedcache-default-scheduler")


def test_the_name_of_the_main_schedulers_lease_stands_for_none():
    given = {"resourceName": "kube-scheduler", "resourceNamespace": "kube-system"}
    assert lease(given) == ("kube-system", "schedcache")
    assert lease(given, "kube-scheduler") == ("kube-system", "schedcache-kube-scheduler")


def test_only_an_argument_can_name_it():
    assert lease(resource_name="kube-scheduler") == ("kube-system", "kube-scheduler")


def test_in_a_pod_the_namespace_is_the_pods(tmp_path):
    file = tmp_path / "namespace"
    file.write_text("scheduling\n")
    assert lease(file=file) == ("scheduling", "schedcache")
    assert lease({"resourceNamespace": "there"}, file=file) == ("there", "schedcache")
    assert lease({"resourceName": "mine"}, file=file) == ("kube-system", "mine"), "who names it says where, too"
    assert lease(file=file, resource_namespace="here") == ("here", "schedcache")


def test_without_election_there_is_none():
    assert election({"leaderElect": False}) is None


def test_timings_are_the_configurations():
    found = election({"leaseDuration": "30s", "renewDeadline": "20s", "retryPeriod": "1500ms"})
    assert (found.lease_duration_seconds, found.renew_deadline_seconds, found.retry_period_seconds) == (30, 20, 1.5)


def test_any_scheduler_name_makes_a_lease_of_its_own():
    names = ["My Scheduler", "my-scheduler", "a/b", "a-b", "ä", "ö", "-x-", "x" * 300, "x" * 299, "A.B_c", "a.b"]
    # leader_election_of refuses what no Lease can be called.
    assert len({lease(None, name)[1] for name in names}) == len(names)
    assert lease_name("a.b") == "schedcache-a.b"


@pytest.mark.parametrize("wrong", ["", "No", "a b", "-a", "a-", "a..b", "x" * 254])
def test_a_name_that_no_lease_can_have_is_refused(wrong):
    with pytest.raises(UsageError, match="expected the name of a Lease"):
        election(resource_name=wrong)


@pytest.mark.parametrize("wrong", ["", "No", "a.b", "x" * 64])
def test_a_namespace_that_cannot_be_is_refused(wrong):
    with pytest.raises(UsageError, match="expected a namespace"):
        election(resource_namespace=wrong)


def test_a_duration_that_no_lease_can_have_is_refused():
    with pytest.raises(
        UsageError, match=r"leaderElection\.leaseDuration: expected at most 2147483647 s, found 596524h"
    ):
        election({"leaseDuration": "596524h"})
    assert election({"leaseDuration": "596523h"}) is not None


def test_no_two_candidates_have_the_same_identity():
    assert len({new_identity() for _ in range(100)}) == 100
