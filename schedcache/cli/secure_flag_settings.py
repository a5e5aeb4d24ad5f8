"""From the flags of the HTTPS port to its settings."""

import argparse
from typing import Any

from schedcache.app.errors import UsageError
from schedcache.config.duration import Duration
from schedcache.server.secure_settings import AccessSettings, TLSSettings

SECURE_PORT = 10259
_DURATIONS = {
    "authentication_token_webhook_cache_ttl": "token_ttl_seconds",
    "authorization_webhook_cache_authorized_ttl": "authorized_ttl_seconds",
    "authorization_webhook_cache_unauthorized_ttl": "unauthorized_ttl_seconds",
}


def secure_port_of(options: argparse.Namespace) -> int | None:
    """Whoever asks for a port without TLS has to ask for the other one too. 0 is none, as in kube-scheduler."""
    if options.secure_port is None:
        return None if options.port is not None else SECURE_PORT
    return options.secure_port or None


def tls_of(options: argparse.Namespace) -> TLSSettings:
    """Raises UsageError for one of two flags that belong together."""
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        raise UsageError("--tls-cert-file and --tls-private-key-file: expected both or neither")
    return TLSSettings(
        cert_file=options.tls_cert_file,
        private_key_file=options.tls_private_key_file,
        cert_dir=options.cert_dir,
        min_version=options.tls_min_version,
        cipher_suites=options.tls_cipher_suites or (),
    )


def access_of(options: argparse.Namespace) -> AccessSettings:
    """Raises UsageError, naming the flag."""
    given: dict[str, Any] = {
        "authentication_kubeconfig": options.authentication_kubeconfig,
        "authorization_kubeconfig": options.authorization_kubeconfig,
        "skip_lookup": options.authentication_skip_lookup,
        "tolerate_lookup_failure": options.authentication_tolerate_lookup_failure,
        "token_audiences": options.authentication_token_audiences,
        "client_ca_file": options.client_ca_file,
        "requestheader_client_ca_file": options.requestheader_client_ca_file,
        "always_allow_paths": options.authorization_always_allow_paths,
    }
    for name in ("allowed_names", "username_headers", "uid_headers", "group_headers", "extra_headers_prefix"):
        given[f"requestheader_{name}"] = getattr(options, f"requestheader_{name}")
    for flag, field in _DURATIONS.items():
        text = getattr(options, flag)
        if text is not None:
            given[field] = _seconds(f"--{flag.replace('_', '-')}", text)
    for path in given["always_allow_paths"] or ():
        if "*" in path[:-1]:
            raise UsageError(f"--authorization-always-allow-paths: only a final * is allowed, got {path!r}")
    return AccessSettings(**{field: value for field, value in given.items() if value is not None})


def _seconds(flag: str, text: str) -> float:
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error
