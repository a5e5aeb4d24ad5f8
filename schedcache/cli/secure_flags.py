"""Flags of the HTTPS port of `schedcache run`: kube-scheduler's, with its names and defaults, and one of our own."""

import argparse
from pathlib import Path
from typing import Any

from schedcache.cli.flags import boolean
from schedcache.server.secure_settings import CIPHER_SUITES, TLS_VERSIONS


def strings(text: str) -> tuple[str, ...]:
    """A list as kube-scheduler's flags have it: with commas."""
    return tuple(part for part in text.split(",") if part)


def cipher_suites(text: str) -> tuple[str, ...]:
    """Go's names of suites."""
    names = strings(text)
    for name in names:
        if name not in CIPHER_SUITES:
            raise argparse.ArgumentTypeError(f"expected suites out of {', '.join(CIPHER_SUITES)}, got {name!r}")
    return names


def add_tls_flags(parser: argparse.ArgumentParser) -> None:
    """How the HTTPS port proves who it is."""
    group = parser.add_argument_group("HTTPS")
    group.add_argument(
        "--tls-cert-file",
        type=Path,
        metavar="FILE",
        help="certificate in PEM, followed by those of intermediate authorities; read again when it changes (without it, one of"
        " our own, see --cert-dir)",
    )
    group.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="its key")
    group.add_argument(
        "--cert-dir",
        type=Path,
        metavar="FOLDER",
        help="where schedcache.crt and schedcache.key are, or are written if they are missing; ignored with --tls-cert-file"
        " (without it, our own certificate is in memory alone)",
    )
    group.add_argument(
        "--tls-min-version",
        choices=TLS_VERSIONS,
        default=TLS_VERSIONS[0],
        help="the oldest version of TLS (default %(default)s)",
    )
    group.add_argument(
        "--tls-cipher-suites",
        type=cipher_suites,
        metavar="NAMES",
        help="suites of TLS 1.2 by their names in Go, separated by commas (without it OpenSSL's choice; those of TLS 1.3 are always on)",
    )


def add_access_flags(parser: argparse.ArgumentParser) -> None:
    """Who may ask there."""
    group = parser.add_argument_group("authentication and authorization")
    lists: dict[str, Any] = {"type": strings, "metavar": "NAMES"}
    group.add_argument(
        "--authentication-kubeconfig",
        metavar="FILE",
        help="for TokenReviews, and to read the ConfigMap extension-apiserver-authentication (without it, as --kubeconfig)",
    )
    group.add_argument(
        "--authorization-kubeconfig", metavar="FILE", help="for SubjectAccessReviews (without it, as --kubeconfig)"
    )
    for name, text in (
        ("skip-lookup", "do not read that ConfigMap, and recognise client certificates by files alone (default false)"),
        (
            "tolerate-lookup-failure",
            "start without that ConfigMap if it cannot be read, and try again all the time (default true)",
        ),
    ):
        group.add_argument(
            f"--authentication-{name}", type=boolean, nargs="?", const=True, metavar="true|false", help=text
        )
    group.add_argument(
        "--authentication-token-audiences",
        help="a bearer token must be meant for one of these (without it, for the API server); not a flag of kube-scheduler",
        **lists,
    )
    for name, text in (
        ("authentication-token-webhook-cache-ttl", "how long it is remembered whose token it is (default 10s)"),
        (
            "authorization-webhook-cache-authorized-ttl",
            "how long it is remembered that access was granted (default 10s)",
        ),
        ("authorization-webhook-cache-unauthorized-ttl", "how long it is remembered that it was denied (default 10s)"),
    ):
        group.add_argument(f"--{name}", metavar="DURATION", help=text)
    group.add_argument(
        "--authorization-always-allow-paths",
        help="answered to everybody; a final * stands for any ending (default /healthz,/readyz,/livez)",
        **lists,
    )
    group.add_argument(
        "--client-ca-file",
        type=Path,
        metavar="FILE",
        help="authorities of client certificates (without it, the ConfigMap's)",
    )
    group.add_argument(
        "--requestheader-client-ca-file",
        type=Path,
        metavar="FILE",
        help="authorities of front proxies (without it, the ConfigMap's, and the next five flags have no effect)",
    )
    for name, text in (
        ("allowed-names", "common names of front proxies (without it, any that the authority has signed)"),
        ("username-headers", "where a front proxy names the user (default x-remote-user)"),
        ("uid-headers", "where it names the user's UID (without it, nowhere)"),
        ("group-headers", "where it names groups (default x-remote-group)"),
        ("extra-headers-prefix", "what other headers about the user begin with (default x-remote-extra-)"),
    ):
        group.add_argument(f"--requestheader-{name}", help=text, **lists)
