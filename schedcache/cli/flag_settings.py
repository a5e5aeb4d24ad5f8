"""From flags and the configuration file to what is run; flags win."""

import argparse

import structlog

from schedcache.app.errors import UsageError
from schedcache.app.settings import Settings, configuration_of
from schedcache.config.duration import seconds

_log = structlog.get_logger(__name__)


def settings_of(options: argparse.Namespace) -> Settings:
    """Raises UsageError, naming the flag, or the file and its field."""
    if options.leader_elect:
        raise UsageError("--leader-elect: there is no leader election yet; run one replica with --leader-elect=false")
    configuration = configuration_of(options.config, options.scheduler_name)
    connection, election = configuration.client_connection, configuration.leader_election
    if election.leader_elect and options.config and options.leader_elect is None:
        _log.warning("no leader election yet: run one replica", field="leaderElection.leaderElect")
    return Settings(
        configuration=configuration,
        kubeconfig=str(options.kubeconfig) if options.kubeconfig else connection.kubeconfig or None,
        qps=connection.qps if options.kube_api_qps is None else options.kube_api_qps,
        burst=connection.burst if options.kube_api_burst is None else options.kube_api_burst,
        event_source=options.event_source,
        observe=options.observe,
        max_in_unschedulable=_duration(
            "--pod-max-in-unschedulable-pods-duration", options.pod_max_in_unschedulable_pods_duration
        ),
        validate=options.validate,
        bind_address=options.bind_address,
        port=options.port,
        probe_port=options.probe_port,
    )


def _duration(flag: str, text: str) -> float:
    try:
        return seconds(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
