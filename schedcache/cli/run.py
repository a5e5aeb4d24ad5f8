"""`schedcache run`: follow a cluster and schedule its pods until told to stop."""

import argparse

from schedcache.cli.flags import (
    add_cluster_flags,
    add_leader_election_flags,
    add_logging_flags,
    add_scheduling_flags,
    add_serving_flags,
)
from schedcache.cli.secure_flags import add_access_flags, add_tls_flags


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `run` to the command line."""
    parser = commands.add_parser(
        "run", help="schedule pods", description="Follow a cluster and schedule its pods until SIGTERM or SIGINT."
    )
    add_cluster_flags(parser)
    add_scheduling_flags(parser)
    add_leader_election_flags(parser)
    add_serving_flags(parser)
    add_tls_flags(parser)
    add_access_flags(parser)
    add_logging_flags(parser)
    parser.set_defaults(execute=execute, parser=parser)


def execute(options: argparse.Namespace) -> int:
    """0: stopped as asked; 1: something that should run ended by itself, or leadership was lost."""
    from schedcache.cli.flag_settings import settings_of
    from schedcache.cli.logs import logging_to_stderr

    with logging_to_stderr(options.log_format, options.v, capture=True) as log:
        settings = settings_of(options)
        # Bad input is told before the rest is loaded.
        from schedcache.cli.running import run

        return run(settings, log)
