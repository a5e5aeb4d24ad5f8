"""`schedcache dump`: what a running scheduler holds, fetched from the cluster of the current kubeconfig, and compared."""

import argparse
from pathlib import Path

from schedcache.cli.flags import add_output_flag, boolean

NAMESPACE = "kube-system"
SELECTOR = "app.kubernetes.io/name=schedcache"
DIFF = "diff"


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `dump` to the command line."""
    parser = commands.add_parser(
        "dump",
        help="show what a running scheduler holds",
        usage="schedcache dump [NAMESPACE/POD | NODE] [flags]\n       schedcache dump diff FILE FILE [-o json]",
        description="Show what a running scheduler holds: all of it, a pod, or a node. The scheduler is found in the cluster of the"
        " current kubeconfig by its label, and reached through the API server, as with kubectl port-forward. Exit status 0 means"
        " that it was shown, or that two dumps do not differ; 1 that it was not, or that they do; 2 that a flag or a file is wrong.",
    )
    parser.add_argument(
        "what", nargs="*", metavar="WHAT", help="NAMESPACE/POD or NODE; without it, everything; or diff and two files"
    )
    add_output_flag(parser)
    parser.add_argument("--save", type=Path, metavar="FILE", help="also write the dump into a file, as JSON")
    _add_cluster_flags(parser)
    _add_other_sources(parser)
    _add_credential_flags(parser)
    parser.set_defaults(execute=execute, parser=parser)


def _add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where the scheduler is")
    group.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: as kubectl has it)")
    group.add_argument("--context", metavar="NAME", help="a context of the kubeconfig (default: its current one)")
    group.add_argument(
        "-n",
        "--namespace",
        default=NAMESPACE,
        help="the scheduler's namespace, whose pods are trusted (default %(default)s)",
    )
    group.add_argument("-l", "--selector", default=SELECTOR, help="labels of its pods (default %(default)s)")
    group.add_argument("--pod", metavar="NAME", help="one of its pods (default: the one that leads)")


def _add_other_sources(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("instead")
    group.add_argument("--file", type=Path, metavar="FILE", help="show a dump that was saved")
    group.add_argument("--url", metavar="URL", help="ask a scheduler at an address, such as http://localhost:10251")
    group.add_argument(
        "--certificate-authority", type=Path, metavar="FILE", help="with --url: who signed the scheduler's certificate"
    )
    group.add_argument(
        "--insecure-skip-tls-verify",
        type=boolean,
        nargs="?",
        const=True,
        default=False,
        metavar="true|false",
        help="with --url: take any certificate (default false)",
    )


def _add_credential_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("who asks")
    group.add_argument(
        "--token", metavar="TOKEN", help="a bearer token (default: token and certificate of the kubeconfig)"
    )
    group.add_argument(
        "--service-account",
        metavar="NAME",
        help="ask as this ServiceAccount of the scheduler's namespace, with a token for ten minutes, which is all that the"
        " scheduler sees",
    )
    group.add_argument(
        "--token-audience",
        metavar="NAME",
        help="with --service-account: whom the token is for (default: the API server)",
    )


def execute(options: argparse.Namespace) -> int:
    """0: shown, or alike; 1: not. Raises UsageError."""
    from schedcache.cli.dump.showing import diff, show

    if options.what[:1] == [DIFF]:
        return diff(options)
    return show(options)
