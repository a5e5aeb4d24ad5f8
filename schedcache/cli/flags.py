"""Flags of `schedcache run`, under kube-scheduler's names where it has them."""

import argparse
from pathlib import Path

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


def add_output_flag(parser: argparse.ArgumentParser) -> None:
    """A table for people, or JSON."""
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "json"),
        default="table",
        help="the form of the answer (default %(default)s)",
    )


def add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    """Which cluster, and how fast to send requests to it."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="the cluster and our credentials for it; without it the configuration's clientConnection.kubeconfig, else the"
        " cluster that this runs in, else $KUBECONFIG",
    )
    group.add_argument(
        "--kube-api-qps", type=positive, metavar="N", help="binds per second, and as many other writes (default 50)"
    )
    group.add_argument(
        "--kube-api-burst",
        type=positive_integer,
        metavar="N",
        help="how many of these may go out at once (default 100)",
    )
    group.add_argument(
        "--event-source",
        choices=("reflector", "kopf"),
        default="reflector",
        help="where events come from: our own list and watch (reflector), or kopf with a periodic sweep (default"
        " %(default)s)",
    )


def add_scheduling_flags(parser: argparse.ArgumentParser) -> None:
    """What is scheduled, and how."""
    group = parser.add_argument_group("scheduling")
    group.add_argument("--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration v1")
    group.add_argument(
        "--scheduler-name",
        metavar="NAME",
        help="schedule the pods whose spec.schedulerName is this; with --config it renames the only profile (default schedcache,"
        " or the names in --config)",
    )
    group.add_argument(
        "--observe", action="store_true", help="follow the cluster and answer requests, but schedule and write nothing"
    )
    group.add_argument(
        "--pod-max-in-unschedulable-pods-duration",
        default="5m",
        metavar="DURATION",
        help="how long a rejected pod waits for an event that may help it before it is tried again anyway (default"
        " %(default)s)",
    )
    group.add_argument(
        "--validate",
        action="store_true",
        help="for a canary: recompute and compare the whole cache after each change, which takes longer the larger the cluster"
        " is",
    )


def add_leader_election_flags(parser: argparse.ArgumentParser) -> None:
    """Which of several replicas schedules."""
    group = parser.add_argument_group("leader election")
    group.add_argument(
        "--leader-elect",
        type=boolean,
        nargs="?",
        const=True,
        metavar="true|false",
        help="schedule only while holding a Lease, so that of several replicas one does (default true)",
    )
    for name, text in (
        ("lease-duration", "how long the others wait for a leader that is no longer heard of (default 15s)"),
        ("renew-deadline", "how long after its last renewal the leader still writes (default 10s)"),
        ("retry-period", "the time between two renewals, or two looks at the Lease (default 2s)"),
    ):
        group.add_argument(f"--leader-elect-{name}", metavar="DURATION", help=text)
    group.add_argument(
        "--leader-elect-resource-lock", metavar="KIND", help='what is held: "leases", nothing else (default leases)'
    )
    group.add_argument(
        "--leader-elect-resource-name",
        metavar="NAME",
        help="the Lease (default schedcache, or schedcache-NAME for another scheduler name; never that of kube-scheduler)",
    )
    group.add_argument(
        "--leader-elect-resource-namespace",
        metavar="NAMESPACE",
        help="its namespace; without it that of the pod that this runs in, else kube-system",
    )


def add_serving_flags(parser: argparse.ArgumentParser) -> None:
    """Where it answers."""
    group = parser.add_argument_group("serving")
    group.add_argument(
        "--secure-port",
        type=port,
        metavar="N",
        help="port for /metrics, /dump and /compare over HTTPS, for those who may ask; 0: not served (without it 10259, unless there"
        " is --port)",
    )
    group.add_argument(
        "--bind-address",
        metavar="ADDRESS",
        help="address of these ports (without it, all for HTTPS and 127.0.0.1 for --port)",
    )
    add_port_flag(group)
    group.add_argument(
        "--probe-port",
        type=port,
        metavar="N",
        help="port for /livez, /readyz and /healthz alone, on all addresses; 0 picks a free one (default: not served)",
    )


def add_port_flag(group: argparse._ArgumentGroup, default: int | None = None) -> None:
    """The one without TLS."""
    group.add_argument(
        "--port",
        type=port,
        default=default,
        metavar="N",
        help="port for the same without TLS and for everybody, as on a laptop; 0 picks a free one, which is logged at the start"
        " (default: not served)"
        if default is None
        else "port for /metrics and /dump; 0 picks a free one (default %(default)s)",
    )


def add_logging_flags(parser: argparse.ArgumentParser) -> None:
    """What it says."""
    group = parser.add_argument_group("logging")
    group.add_argument(
        "--log-format",
        "--logging-format",
        choices=FORMATS,
        default="auto",
        help="auto means console on a terminal, JSON otherwise (default %(default)s)",
    )
    group.add_argument(
        "-v",
        "--v",
        type=int,
        nargs="?",
        const=2,
        default=0,
        metavar="N",
        help="verbosity: 2 logs each decision, 4 adds what libraries say, 6 logs everything (without N: 2)",
    )
