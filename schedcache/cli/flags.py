"""Flags of `schedcache run`, under kube-scheduler's names where it has them."""

import argparse
from pathlib import Path

DEFAULT_PORT = 10251
FORMATS = ("auto", "console", "json")
"""Of the log."""
_TRUE = frozenset({"true", "t", "1"})
_FALSE = frozenset({"false", "f", "0"})
_LARGEST_PORT = 65535


def boolean(text: str) -> bool:
    """A boolean as Go's flags write it."""
    value = text.lower()
    if value not in _TRUE | _FALSE:
        raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")
    return value in _TRUE


def port(text: str) -> int:
    """A TCP port; 0 stands for any free one."""
    if not text.isdigit() or int(text) > _LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port, 0 to {_LARGEST_PORT}, got {text!r}")
    return int(text)


def positive(text: str) -> float:
    """A number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return value


def positive_integer(text: str) -> int:
    """A whole number above zero."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, got {text!r}")
    return int(text)


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """Which cluster, and how fast to ask it."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="the cluster and who we are there; else the configuration's clientConnection.kubeconfig, else the cluster that"
        " this runs in, else $KUBECONFIG",
    )
    group.add_argument(
        "--kube-api-qps", type=positive, metavar="N", help="binds a second, and as many other writes (default 50)"
    )
    group.add_argument("--kube-api-burst", type=positive_integer, metavar="N", help="binds at once (default 100)")
    group.add_argument(
        "--event-source",
        choices=("reflector", "kopf"),
        default="reflector",
        help="how events come in: our own list and watch, or kopf's handlers with a periodic sweep (default reflector)",
    )


def add_scheduling_flags(parser: argparse.ArgumentParser) -> None:
    """What is scheduled, and how."""
    group = parser.add_argument_group("scheduling")
    group.add_argument("--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration v1")
    group.add_argument(
        "--scheduler-name",
        metavar="NAME",
        help="the pods to schedule: those whose spec.schedulerName it is (default schedcache, or as the configuration says;"
        " with one profile this renames it)",
    )
    group.add_argument(
        "--observe", action="store_true", help="follow the cluster and answer; write and schedule nothing"
    )
    group.add_argument(
        "--pod-max-in-unschedulable-pods-duration",
        default="5m",
        metavar="DURATION",
        help="how long a rejected pod waits for an event that may help it, before it is tried again anyway (default 5m)",
    )
    group.add_argument(
        "--leader-elect",
        type=boolean,
        nargs="?",
        const=True,
        metavar="true|false",
        help="not there yet: run one replica, with false",
    )
    group.add_argument(
        "--validate",
        action="store_true",
        help="recompute and compare the whole cache after each change; for a canary, since it takes time in proportion to the"
        " cluster",
    )


def add_serving_flags(parser: argparse.ArgumentParser, default_port: int = DEFAULT_PORT) -> None:
    """Where it answers."""
    group = parser.add_argument_group("serving")
    group.add_argument(
        "--bind-address", default="127.0.0.1", metavar="ADDRESS", help="of /metrics and /dump (default 127.0.0.1)"
    )
    group.add_argument(
        "--port",
        type=port,
        default=default_port,
        metavar="N",
        help=f"of /metrics and /dump; 0: any free one, logged at the start (default {default_port})",
    )
    group.add_argument(
        "--probe-port",
        type=port,
        metavar="N",
        help="serves /livez and /readyz, and nothing else, on all addresses; 0: any free one (default: not served)",
    )


def add_logging_flags(parser: argparse.ArgumentParser) -> None:
    """What it says."""
    group = parser.add_argument_group("logging")
    group.add_argument(
        "--log-format",
        "--logging-format",
        choices=FORMATS,
        default="auto",
        help="auto (default): console on a terminal, JSON otherwise",
    )
    group.add_argument(
        "-v",
        "--v",
        type=int,
        nargs="?",
        const=2,
        default=0,
        metavar="N",
        help="verbosity: from 2 each decision, from 4 what libraries say, from 6 everything",
    )
