"""`schedcache simulate`: where pods would go in a cluster that is given as files."""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schedcache.app.errors import UsageError
from schedcache.cli.flags import add_output_flag
from schedcache.cli.output import tell, writing


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `simulate` to the command line."""
    parser = commands.add_parser(
        "simulate",
        help="say where pods would go, from files alone",
        description="Say where pods would go, and why not elsewhere, from files alone: in the form that kubectl prints, or raw"
        " manifests. Each pod is considered on its own. Exit status 0 means that all pods fit, 1 that some do not, and 2 that"
        " the input is wrong. Any other status means that the command failed.",
    )
    parser.add_argument(
        "--cluster",
        nargs="+",
        action="extend",
        required=True,
        metavar="FILE",
        help="files with nodes, pods and other objects; - is standard input; may be given several times",
    )
    parser.add_argument(
        "--pod",
        required=True,
        metavar="FILE|NAMESPACE/NAME",
        help="a file with the pods to place, or the name of one of the cluster's pods, which is then taken out first",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration v1")
    parser.add_argument("--replicas", type=_count, metavar="N", help="place N copies of the pod, one after the other")
    parser.add_argument(
        "--preempt",
        action="store_true",
        help="with --replicas: have pods evicted for each copy that does not fit otherwise",
    )
    add_output_flag(parser)
    parser.set_defaults(execute=execute, parser=parser)


def execute(options: argparse.Namespace) -> int:
    """0: all fit, 1: some do not. Raises UsageError for bad input."""
    from schedcache.app.settings import load_file
    from schedcache.config import config_from_dict
    from schedcache.framework import PluginSetError, RegistryError
    from schedcache.simulation import InputError, ProfileError, WhatIf, parse_objects

    if options.preempt and options.replicas is None:
        raise UsageError("--preempt: needs --replicas; what a single pod would evict is told anyway")
    configuration = load_file(options.config).config if options.config else config_from_dict(None).config
    try:
        what_if = WhatIf(
            [found for name in options.cluster for found in parse_objects(_read(name), name)], configuration
        )
        if Path(options.pod).is_file() or options.pod == "-":
            pods = what_if.pods_of(parse_objects(_read(options.pod), options.pod), options.pod)
        elif options.pod.endswith((".yaml", ".yml", ".json")):
            raise UsageError(f"--pod: {options.pod}: no such file")
        else:
            pods = [what_if.take_out(options.pod)]
        answer = what_if.ask(pods, options.replicas, preempt=options.preempt)
    except (InputError, ProfileError, PluginSetError, RegistryError) as error:
        raise UsageError(str(error)) from None
    for warning in answer.cluster_warnings:
        tell(f"warning: {warning}")
    _print(answer.report, options.output)
    return 0 if answer.fits else 1


def _print(report: Mapping[str, Any], form: str) -> None:
    if form == "json":
        text = json.dumps(report, indent=1) + "\n"
    else:
        from schedcache.cli.simulate_table import table_text

        text = table_text(report, sys.stdout)
    with writing():
        print(text, end="")


def _read(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}: cannot be read: {error}") from None


def _count(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of copies, 1 or more, got {text!r}")
    return number
