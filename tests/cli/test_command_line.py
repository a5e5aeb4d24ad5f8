"""The command line: what is bad input, what the exit status says, what is logged."""

import asyncio
import json
import socket
import subprocess
import sys

import aiohttp
import pytest

from schedcache import __version__
from schedcache.app.errors import UsageError
from schedcache.app.settings import configuration_of
from schedcache.cli import main
from schedcache.cli.commands import make_parser
from schedcache.cli.flag_settings import settings_of
from schedcache.kube.settings import LeaderElectionSettings

TWO_PROFILES = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: one}, {schedulerName: two}]
"""
ONE_PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 7, burst: 9, kubeconfig: /from/the/file}
podMaxBackoffSeconds: 20
"""


def status(*arguments):
    try:
        return main(arguments)
    except SystemExit as ending:
        return ending.code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--kubeconfg", "x"], "did you mean --kubeconfig?"),
        (["run", "--port", "70000"], "--port: expected a port, 0 to 65535, got '70000'"),
        (["run", "--port", "abc"], "got 'abc'"),
        (["run", "--kube-api-qps", "0"], "--kube-api-qps: expected a number above 0, got '0'"),
        (["run", "--kube-api-burst", "1.5"], "--kube-api-burst: expected a whole number above 0, got '1.5'"),
        (["run", "--kube-api-qps", "nan"], "expected a number above 0, got 'nan'"),
        (["run", "--leader-elect=perhaps"], "expected true or false, got 'perhaps'"),
        (["run", "--leader-elect-lease-duration=15"], "--leader-elect-lease-duration: '15' is not a duration"),
        (["run", "--leader-elect-lease-duration=5s"], "-lease-duration: 5s is not greater than renewDeadline, 10s"),
        (
            ["run", "--leader-elect-renew-deadline=2s"],
            "-renew-deadline: 2s is not greater than 1.2 times retryPeriod, 2s",
        ),
        (["run", "--leader-elect-retry-period=0s"], "--leader-elect-retry-period: must be greater than zero"),
        (["run", "--leader-elect-resource-lock=endpoints"], "-resource-lock: 'endpoints' is not \"leases\""),
        (["run", "--leader-elect-resource-name="], "expected the name of a Lease, found ''"),
        (["run", "--leader-elect-resource-namespace=No"], "expected a namespace, found 'No'"),
        (["run", "--event-source", "list"], "invalid choice: 'list'"),
        (["run", "--pod-max-in-unschedulable-pods-duration", "5"], "'5' is not a duration"),
        (["run", "--kubeconfig", "/no/such/file"], "/no/such/file"),
        (["run", "--config", "/no/such/file"], "/no/such/file: No such file"),
        (["check-config", "/no/such/file"], "/no/such/file: No such file"),
        (["sun"], "invalid choice: 'sun'"),
        ([], "COMMAND"),
    ],
)
def test_bad_input_ends_with_2_and_says_what_was_expected(arguments, said, capsys):
    assert status(*arguments) == 2
    assert said in capsys.readouterr().err


def test_flags_are_not_abbreviated(capsys):
    assert status("run", "--kubeconf", "x") == 2
    assert "unrecognized arguments: --kubeconf x (did you mean --kubeconfig?)" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(arguments, capsys):
    assert status(*arguments) == 0
    assert capsys.readouterr().out == f"schedcache {__version__}\n"


def test_the_default_scheduler_name_is_schedcache():
    assert [profile.scheduler_name for profile in configuration_of().profiles] == ["schedcache"]
    assert [profile.scheduler_name for profile in configuration_of(None, "mine").profiles] == ["mine"]


def test_a_file_keeps_kube_schedulers_default_name_and_the_flag_renames_the_only_profile(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(ONE_PROFILE)
    assert [profile.scheduler_name for profile in configuration_of(file, None).profiles] == ["default-scheduler"]
    assert [profile.scheduler_name for profile in configuration_of(file, "mine").profiles] == ["mine"]


def test_with_several_profiles_the_flag_is_refused(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(TWO_PROFILES)
    assert [profile.scheduler_name for profile in configuration_of(file, None).profiles] == ["one", "two"]
    with pytest.raises(UsageError, match=r"has 2 \(one, two\)"):
        configuration_of(file, "mine")


def settings(*flags):
    return settings_of(make_parser().parse_args(["run", *flags]))


def test_flags_win_over_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(ONE_PROFILE)
    from_file = settings("--config", str(file))
    assert (from_file.qps, from_file.burst, from_file.kubeconfig) == (7, 9, "/from/the/file")
    assert from_file.configuration.pod_max_backoff_seconds == 20
    flags = settings("--config", str(file), "--kube-api-qps=70", "--kube-api-burst=90", "--kubeconfig=/flag")
    assert (flags.qps, flags.burst, flags.kubeconfig) == (70, 90, "/flag")


def test_flags_of_leader_election_win_over_the_file(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(
        ONE_PROFILE
        + "leaderElection: {leaseDuration: 30s, renewDeadline: 20s, resourceName: its, resourceNamespace: x}\n"
    )
    found = settings("--config", str(file), "--leader-elect-renew-deadline=12s", "--leader-elect-resource-name=ours")
    assert found.leader_election == LeaderElectionSettings(
        resource_name="ours",
        resource_namespace="x",
        lease_duration_seconds=30,
        renew_deadline_seconds=12,
        retry_period_seconds=2,
    )
    assert settings("--config", str(file)).leader_election.resource_name == "its"
    assert settings("--config", str(file), "--leader-elect=false").leader_election is None


def test_leader_election_is_on_as_with_kube_scheduler_and_on_a_lease_of_its_own():
    found = settings().leader_election
    assert (found.resource_name, found.resource_namespace) == ("schedcache", "kube-system")
    assert settings("--scheduler-name=other").leader_election.resource_name == "schedcache-other"


def test_without_file_and_flags_the_limits_are_kube_schedulers():
    found = settings()
    assert (found.qps, found.burst, found.kubeconfig, found.observe) == (50, 100, None, False)
    assert found.max_in_unschedulable == 300


def test_check_config_prints_what_a_file_amounts_to(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text(ONE_PROFILE)
    assert status("check-config", str(file)) == 0
    assert "podMaxBackoffSeconds: 20" in capsys.readouterr().out


def test_check_config_names_what_is_wrong(tmp_path, capsys):
    file = tmp_path / "config.yaml"
    file.write_text(ONE_PROFILE + "podMaxBackofSeconds: 3\n")
    assert status("check-config", str(file)) == 2
    assert "podMaxBackofSeconds" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--port", "--probe-port"])
def test_a_port_that_is_taken_ends_it_with_2(unreachable_kubeconfig, flag):
    with socket.create_server(("", 0)) as taken:
        ports = {"--port": "0", flag: str(taken.getsockname()[1])}
        command = [sys.executable, "-m", "schedcache", "run", f"--kubeconfig={unreachable_kubeconfig}"]
        command += [f"{name}={value}" for name, value in ports.items()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2, done.stderr
    assert f"{flag}: cannot listen on" in done.stderr


async def test_it_starts_without_an_api_server_is_not_ready_and_stops_when_asked(unreachable_kubeconfig):
    command = (
        "-m",
        "schedcache",
        "run",
        f"--kubeconfig={unreachable_kubeconfig}",
        "--port=0",
        "--probe-port=0",
        "--log-format=json",
    )
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.PIPE)
    lines = []
    async with asyncio.timeout(30):
        while not any(line["event"] == "starting" for line in lines):
            lines.append(json.loads(await process.stderr.readline()))
        ports = {line["event"]: line["port"] for line in lines if "port" in line}
        async with aiohttp.ClientSession() as session:
            probes = f"http://127.0.0.1:{ports['serving probes']}"
            async with session.get(f"{probes}/livez") as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
            async with session.get(f"{probes}/readyz") as answer:
                text = await answer.text()
                assert answer.status == 500
                assert "[-]informer-sync failed: not listed yet: pods, nodes" in text
                assert "[+]tasks ok" in text
            async with session.get(f"{probes}/dump") as answer:
                assert answer.status == 404
            async with session.get(f"{probes}/metrics") as answer:
                assert answer.status == 404
        process.terminate()
        rest = await process.stderr.read()
        assert await process.wait() == 0
    told = [json.loads(line) for line in rest.splitlines()]
    # What was left out because it repeated comes at the end.
    assert [line["event"] for line in told if "repeated" not in line][-1] == "stopped"
