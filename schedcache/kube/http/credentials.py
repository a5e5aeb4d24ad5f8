"""Where the API server is and who we are there, read by the official client and kept fresh.

The official `kubernetes` client knows kubeconfig files, contexts, exec plugins, client certificates and the token that a
pod is given; this module turns what it finds into what an HTTP client needs.
"""

import hashlib
import os
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import should_bypass_proxies
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes.config.kube_config import KUBE_CONFIG_DEFAULT_LOCATION, load_kube_config

__all__ = ["CredentialError", "Credentials", "load_credentials"]

TOKEN_FILE_SECONDS = 60.0
"""How long a token read from a file of the kubeconfig is used, as client-go does."""


class CredentialError(Exception):
    """No usable credentials; the message names the file and what is wrong with it."""


@dataclass(frozen=True)
class Access:
    """Everything needed to open a connection and to send a request, as of one moment.

    Attributes:
        server: base URL, without a slash at its end.
        authorization: value of the Authorization header, "" for none.
        ca_file, certificate_file, key_file: PEM files, or None.
        verify: whether the server's certificate is checked.
        server_hostname: the name expected in that certificate, None for the one in the URL.
        proxy: URL of an HTTP proxy, None for none.
        ssl_context: kept as long as the files stay the same; None for plain HTTP.
    """

    server: str
    authorization: str = field(repr=False)
    ca_file: str | None
    certificate_file: str | None
    key_file: str | None
    verify: bool
    server_hostname: str | None
    proxy: str | None
    ssl_context: ssl.SSLContext | None = field(repr=False)


class Credentials:
    """The current `Access`, and how to renew it. Safe to use from several threads.

    Args:
        load: reads everything from its source. Raises CredentialError.
        origin: what it was read from, for messages.
        reload_seconds: read everything again after that time. None leaves that to the client's refresh hook, which
            re-reads a pod's token every minute and runs an exec plugin again before its token expires.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        load: Callable[[], Configuration],
        origin: str,
        *,
        reload_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.origin = origin
        self._load = load
        self._reload_seconds = reload_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._context: tuple[bytes, ssl.SSLContext] | None = None
        self._configuration = load()
        self._loaded_at = clock()
        self.access = self._as_access()

    def refresh(self) -> Access:
        """Renew what is due. May run an exec plugin, so call it in a thread. Raises CredentialError."""
        with self._lock:
            due = self._reload_seconds is not None and self._clock() - self._loaded_at >= self._reload_seconds
            return self._renew(everything=due)

    def reload(self) -> Access:
        """Read everything again, since the server refused what we have. As slow as `refresh`. Raises CredentialError."""
        with self._lock:
            return self._renew(everything=True)

    def _renew(self, *, everything: bool) -> Access:
        if everything:
            self._configuration = self._load()
            self._loaded_at = self._clock()
        fresh = self._as_access()
        # The same object for the same content, so that users can tell a change by identity.
        if fresh != self.access:
            self.access = fresh
        return self.access

    def _as_access(self) -> Access:
        found = self._configuration
        if not _is_server(found.host):
            raise CredentialError(
                f"{self.origin}: server: expected a URL such as https://HOST:PORT, found {found.host!r}"
            )
        proxy = found.proxy
        if proxy is not None and not _is_server(proxy):
            # Without the name and password that may be in it.
            raise CredentialError(
                f"{self.origin}: proxy: expected a URL such as http://HOST:PORT, found {proxy.rpartition('@')[2]!r}"
            )
        try:
            authorization = found.get_api_key_with_prefix("BearerToken") or ""
            context = self._ssl_context(found) if found.host.startswith("https:") else None
        except (OSError, ssl.SSLError, ConfigException) as error:
            raise CredentialError(f"{self.origin}: {_text(error)}") from error
        return Access(
            server=found.host.rstrip("/"),
            # The client prefixes the bytes of a token file, which may end in a line break.
            authorization=authorization.strip(),
            ca_file=found.ssl_ca_cert,
            certificate_file=found.cert_file,
            key_file=found.key_file,
            verify=found.verify_ssl,
            server_hostname=found.tls_server_name,
            proxy=proxy,
            ssl_context=context,
        )

    def _ssl_context(self, found: Configuration) -> ssl.SSLContext:
        digest = hashlib.sha256(repr(found.verify_ssl).encode())
        for name in (found.ssl_ca_cert, found.cert_file, found.key_file):
            digest.update(Path(name).read_bytes() if name else b"-")
        key = digest.digest()
        if self._context is None or self._context[0] != key:
            self._context = key, make_ssl_context(found)
        return self._context[1]


def make_ssl_context(found: Configuration) -> ssl.SSLContext:
    """A TLS client context for a configuration of the official client. Raises OSError or ssl.SSLError."""
    context = ssl.create_default_context(cafile=found.ssl_ca_cert)
    # From Python 3.13 on, certificates without all RFC 5280 extensions are refused; many clusters' authorities are such.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not found.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if found.cert_file:
        context.load_cert_chain(found.cert_file, found.key_file)
    return context


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Sockets encode the name so, and some names cannot be: a..b, or labels of more than 63 characters.
        return parts.scheme in ("http", "https") and bool((parts.hostname or "").encode("idna")) and parts.port != 0
    except ValueError:
        return False


def _apply_no_proxy(found: Configuration) -> None:
    """Decide about the proxy of $HTTPS_PROXY once and for all, where the client decides for each request.

    As in Go, $NO_PROXY lifts it, and loopback is never proxied. Neither is true of a proxy that the kubeconfig names.
    """
    if not found.proxy or should_bypass_proxies(found.host, f"localhost,127.0.0.0/8,::1,{found.no_proxy or ''}"):
        found.proxy = None


def load_credentials(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    token_file: str | Path = SERVICE_TOKEN_FILENAME,
    ca_file: str | Path = SERVICE_CERT_FILENAME,
) -> Credentials:
    """Find the cluster: the given kubeconfig, else the cluster this pod runs in, else `$KUBECONFIG` or `~/.kube/config`.

    Args:
        kubeconfig: a file, or None to look for the cluster.
        context: a context of the kubeconfig; None for its current one.
        environ: the process's environment.
        token_file: where Kubernetes mounts the token of a pod's ServiceAccount.
        ca_file: where it mounts the cluster's certificate authority.

    Raises:
        CredentialError: names the file, or all the places that were searched.
    """
    if kubeconfig is not None:
        return _from_kubeconfig(str(kubeconfig), context)
    if environ.get(SERVICE_HOST_ENV_NAME) and Path(token_file).exists():
        return _in_cluster(environ, str(token_file), str(ca_file))
    paths = environ.get("KUBECONFIG") or KUBE_CONFIG_DEFAULT_LOCATION
    if not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path):
        raise CredentialError(
            f"no cluster found: no kubeconfig given, no ServiceAccount token at {token_file}, and no file at {paths} "
            f"({'$KUBECONFIG' if environ.get('KUBECONFIG') else 'the default kubeconfig'})"
        )
    return _from_kubeconfig(paths, context)


def _in_cluster(environ: Mapping[str, str], token_file: str, ca_file: str) -> Credentials:
    origin = f"ServiceAccount of this pod ({token_file}, {ca_file})"

    def load() -> Configuration:
        configuration = Configuration()
        try:
            loader = InClusterConfigLoader(token_file, ca_file, environ=environ)  # type: ignore[no-untyped-call]  # the client has no types here
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]  # likewise
        except (ConfigException, OSError) as error:
            raise CredentialError(f"{origin}: {_text(error)}") from error
        _apply_no_proxy(configuration)
        return configuration

    return Credentials(load, origin)


def _from_kubeconfig(paths: str, context: str | None) -> Credentials:
    origin = f"kubeconfig {paths}"
    user, _ = _kubeconfig_entries(paths, context)

    def load() -> Configuration:
        configuration = Configuration()
        user, cluster = _kubeconfig_entries(paths, context)
        try:
            # A scheduler reads its kubeconfig and never writes it, refreshed tokens included.
            load_kube_config(paths, context, configuration, persist_config=False)  # type: ignore[no-untyped-call]  # likewise
        except (ConfigException, OSError, ValueError, TypeError, AttributeError, KeyError, yaml.YAMLError) as error:
            raise CredentialError(f"{origin}: {_text(error)}") from error
        _check_plugin(origin, user, configuration)
        if not cluster.get("proxy-url"):
            _apply_no_proxy(configuration)
        return configuration

    return Credentials(load, origin, reload_seconds=TOKEN_FILE_SECONDS if "tokenFile" in user else None)


def _kubeconfig_entries(paths: str, context: str | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The user and the cluster that the context names, {} for one that it does not name.

    The official client treats a context whose user does not exist as anonymous, and skips missing files. Both are
    mistakes that should be reported.
    """
    contexts: dict[str, Any] = {}
    users: dict[str, Any] = {}
    clusters: dict[str, Any] = {}
    current = context
    for path in filter(None, paths.split(os.pathsep)):
        found = _read_kubeconfig(Path(path).expanduser(), required=os.pathsep not in paths)
        current = current or found.get("current-context")
        for kind, entries in (("context", contexts), ("user", users), ("cluster", clusters)):
            for entry in found.get(f"{kind}s") or ():
                if isinstance(entry, Mapping) and "name" in entry:
                    entries.setdefault(entry["name"], entry.get(kind) or {})
    if not current:
        raise CredentialError(f"kubeconfig {paths}: current-context: expected the name of a context, found none")
    if current not in contexts:
        known = ", ".join(sorted(map(str, contexts))) or "none"
        raise CredentialError(f"kubeconfig {paths}: there is no context {current!r}, only {known}")
    name = contexts[current].get("user")
    if name and name not in users:
        raise CredentialError(f"kubeconfig {paths}: context {current!r} names user {name!r}, which is not in users")
    return users[name] if name else {}, clusters.get(contexts[current].get("cluster"), {})


def _read_kubeconfig(path: Path, *, required: bool) -> Mapping[str, Any]:
    if not required and not path.exists():
        return {}
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CredentialError(f"kubeconfig {path}: {_text(error)}") from error
    if not isinstance(found, Mapping):
        raise CredentialError(f"kubeconfig {path}: expected a mapping with clusters, contexts and users")
    return found


def _check_plugin(origin: str, user: Mapping[str, Any], configuration: Configuration) -> None:
    # The official client logs a plugin's failure and goes on without credentials.
    plugin = user.get("exec")
    if plugin and not configuration.api_key.get("BearerToken") and not configuration.cert_file:
        command = plugin.get("command") if isinstance(plugin, Mapping) else plugin
        raise CredentialError(
            f"{origin}: the exec plugin {command!r} gave no credentials; its error is in the log above"
        )


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
