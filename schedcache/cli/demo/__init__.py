"""`schedcache demo`: a control plane of its own, a mixed workload, and where it went."""

import argparse

from schedcache.cli.flags import add_logging_flags, add_port_flag


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `demo` to the command line."""
    parser = commands.add_parser(
        "demo",
        help="schedule a mixed workload on a control plane of its own",
        description="Start a real API server on loopback with 60 nodes that have no kubelet, schedule a few hundred pods onto"
        " them, and show where they went and why the others are pending. Runs until Ctrl-C.",
    )
    parser.add_argument(
        "--exit", action="store_true", help="exit when done: with status 0 if all pods are where they should be, else 1"
    )
    group = parser.add_argument_group("serving")
    group.add_argument(
        "--bind-address", default="127.0.0.1", metavar="ADDRESS", help="address of that port (default %(default)s)"
    )
    add_port_flag(group, default=0)
    add_logging_flags(parser)
    parser.set_defaults(execute=execute, parser=parser)


def execute(options: argparse.Namespace) -> int:
    """0: everything is where it should be; 1: it is not."""
    from schedcache.cli.demo.flow import run_demo
    from schedcache.cli.logs import logging_to_stderr

    # Standard output is the demo's own; what goes wrong is still told.
    with logging_to_stderr(options.log_format, options.v, quiet=options.v == 0):
        return run_demo(options)
