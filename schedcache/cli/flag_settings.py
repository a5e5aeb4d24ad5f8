"""From flags and the configuration file to what is run; flags win."""

import argparse
import re
from typing import Any

from msgspec.structs import replace

from schedcache.app.errors import UsageError
from schedcache.app.leader_election import leader_election_of
from schedcache.app.settings import Settings, configuration_of
from schedcache.cli.secure_flag_settings import access_of, secure_port_of, tls_of
from schedcache.config import LeaderElection, leader_election_problems
from schedcache.config.duration import Duration


def settings_of(options: argparse.Namespace) -> Settings:
    """Raises UsageError, naming the flag, or the file and its field."""
    configuration = configuration_of(options.config, options.scheduler_name)
    configuration = replace(configuration, leader_election=_election(options, configuration.leader_election))
    connection = configuration.client_connection
    return Settings(
        configuration=configuration,
        kubeconfig=str(options.kubeconfig) if options.kubeconfig else connection.kubeconfig or None,
        qps=connection.qps if options.kube_api_qps is None else options.kube_api_qps,
        burst=connection.burst if options.kube_api_burst is None else options.kube_api_burst,
        event_source=options.event_source,
        observe=options.observe,
        max_in_unschedulable=_parsed(
            "--pod-max-in-unschedulable-pods-duration", options.pod_max_in_unschedulable_pods_duration
        ).seconds,
        validate=options.validate,
        bind_address=options.bind_address,
        secure_port=secure_port_of(options),
        port=options.port,
        probe_port=options.probe_port,
        leader_election=leader_election_of(
            configuration,
            resource_name=options.leader_elect_resource_name,
            resource_namespace=options.leader_elect_resource_namespace,
        ),
        tls=tls_of(options),
        access=access_of(options),
    )


def _election(options: argparse.Namespace, file: LeaderElection) -> LeaderElection:
    given: dict[str, Any] = {"leader_elect": options.leader_elect, "resource_lock": options.leader_elect_resource_lock}
    for field in ("lease_duration", "renew_deadline", "retry_period"):
        text = getattr(options, f"leader_elect_{field}")
        if text is not None:
            given[field] = _parsed(f"--leader-elect-{field.replace('_', '-')}", text)
    election = replace(file, **{field: value for field, value in given.items() if value is not None})
    problems = [
        f"--leader-elect-{re.sub('[A-Z]', lambda upper: f'-{upper[0].lower()}', str(problem.path[-1]))}: {problem.text}"
        for problem in leader_election_problems(election)
    ]
    if problems:
        raise UsageError("\n".join(problems))
    return election


def _parsed(flag: str, text: str) -> Duration:
    try:
        return Duration.parse(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
