"""A real etcd and kube-apiserver on loopback, for as long as a ``with`` block lasts."""

import asyncio
import base64
import contextlib
import http.client
import json
import secrets
import shutil
import signal
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from schedcache.testing import audit
from schedcache.testing.binaries import find_binaries
from schedcache.testing.certificates import Certificates, make_certificates
from schedcache.testing.processes import RunDirectory, SupervisedProcess

ADMIN = "admin"
PORT_ATTEMPTS = 5
LOOK_SECONDS = 0.05
ANSWER_SECONDS = 1.0
PORT_TAKEN = "address already in use"


class ControlPlaneError(RuntimeError):
    """The control plane did not start; the message has the server's last log lines."""


class _PortTakenError(ControlPlaneError):
    """Another process has taken a port that was free a moment ago."""


class ControlPlane:
    """One etcd and one kube-apiserver with RBAC on, as a context manager, sync or async.

    Ready in one to two seconds. The servers end with the block, and also whatever happens to this process: Ctrl-C, a crash,
    SIGKILL. There is no controller manager: nothing collects garbage, fills namespaces with ServiceAccounts or sets nodes'
    taints; :class:`schedcache.testing.Cluster` does as much of that as tests need.

    Attributes:
        server: URL of the API server.
        ca_file: its certificate authority, PEM.
        kubeconfig: file with the identity ``admin`` of group ``system:masters``, which may do everything.
        admin_token: the bearer token in it.
        directory: logs, certificates and data; removed at the end.
        audit: every request the API server answered.

    Args:
        binaries: paths of ``etcd`` and ``kube-apiserver``; default: found or built, see
            :func:`schedcache.testing.find_binaries`.
        api_server_arguments: further flags of kube-apiserver.
        disable_admission_plugins: ``ServiceAccount`` by default, since nothing creates the ServiceAccount ``default``
            that pods would need. With ``TaintNodesByCondition`` as well, new nodes are not tainted and
            :meth:`Cluster.make_nodes` takes one request a node instead of two.
        start_timeout: seconds to wait for readiness.
    """

    server: str
    ca_file: Path
    kubeconfig: Path
    directory: Path
    audit: audit.AuditLog

    def __init__(
        self,
        *,
        binaries: Mapping[str, Path] | None = None,
        api_server_arguments: Sequence[str] = (),
        disable_admission_plugins: Sequence[str] = ("ServiceAccount",),
        start_timeout: float = 60.0,
    ) -> None:
        self._binaries = binaries
        self._api_server_arguments = tuple(api_server_arguments)
        self._disabled_plugins = tuple(disable_admission_plugins)
        self._start_timeout = start_timeout
        self._run: RunDirectory | None = None
        self._etcd: SupervisedProcess | None = None
        self._api_server: SupervisedProcess | None = None
        self._given_up = threading.Event()
        self.admin_token = secrets.token_urlsafe(24)
        self.initial_uids: frozenset[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        starting = asyncio.ensure_future(asyncio.to_thread(self.start))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The thread cannot be cancelled: it is told to give up, and has stopped the servers when it ends.
            self._given_up.set()
            with contextlib.suppress(ControlPlaneError):
                await starting
            self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def start(self) -> None:
        """Start both servers and wait until the API server is ready.

        Raises:
            ControlPlaneError: a server ended, or was not ready in time.
            BinaryError: etcd or kube-apiserver was not found and could not be built.
        """
        if self._run is not None:
            raise RuntimeError("this control plane has already been started")
        binaries = self._binaries or find_binaries()
        try:
            self._run = RunDirectory()
            self.directory = self._run.path
            self._certificates = make_certificates(self.directory)
            self.ca_file = self._certificates.authority
            self.audit = audit.AuditLog(self.directory / "audit.log")
            self._write_inputs()
            self._start_on_free_ports(binaries)
        except BaseException:
            self.stop()
            raise
        self.kubeconfig = self.kubeconfig_for(self.admin_token, user=ADMIN)

    def stop(self) -> None:
        """End both servers at once and remove everything they wrote; safe to call again."""
        for process in (self._api_server, self._etcd):
            if process is not None:
                process.kill()
        self._api_server = self._etcd = None
        if self._run is not None:
            self._run.remove()
            self._run = None

    def stop_api_server(self) -> None:
        """Stop the API server; etcd keeps the objects."""
        if self._api_server is not None:
            self._api_server.kill()
            self._api_server = None

    def start_api_server(self) -> None:
        """Start the API server again, on the port it had, and wait until it is ready."""
        if self._run is None or self._api_server is not None:
            raise RuntimeError("start_api_server() is for after stop_api_server()")
        self._api_server = self._spawn(self._api_server_command)
        self._wait_until_ready()

    def back_up(self) -> Path:
        """A copy of etcd's data, for `restore`, taken while etcd stands still: that is what a snapshot of its disk is."""
        if self._etcd is None:
            raise ControlPlaneError("there is nothing to back up before the start")
        backup = self.directory / f"backup-{secrets.token_hex(4)}"
        self._etcd.signal(signal.SIGSTOP)
        try:
            shutil.copytree(self._data_directory, backup)
        finally:
            self._etcd.signal(signal.SIGCONT)
        return backup

    def restore(self, backup: Path) -> None:
        """Set etcd back to a backup: what has happened since is lost, and resourceVersions are given out again.

        Nothing is done about those versions, as `etcdutl snapshot restore` does not either unless it is asked to. Waits until the
        API server is ready.
        """
        self.stop_api_server()
        if self._etcd is not None:
            self._etcd.kill()
        shutil.rmtree(self._data_directory)
        shutil.copytree(backup, self._data_directory)
        self._etcd = self._spawn(self._etcd_command)
        self.start_api_server()

    @property
    def _data_directory(self) -> Path:
        return Path(self._etcd_flag("data-dir"))

    def _etcd_flag(self, name: str) -> str:
        """The last one counts, as it does for etcd."""
        return [flag.partition("=")[2] for flag in self._etcd_command if flag.startswith(f"--{name}=")][-1]

    def kubeconfig_for(self, token: str, *, user: str = "token", server: str | None = None) -> Path:
        """Write a kubeconfig with a bearer token.

        Args:
            token: such as one from :meth:`Cluster.service_account_token`.
            user: name of the entry; not the name by which the API server knows the user.
            server: another URL, such as a proxy's.

        Returns:
            The file, readable by this user only.
        """
        ca = base64.b64encode(self.ca_file.read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "testing",
                    "cluster": {"server": server or self.server, "certificate-authority-data": ca},
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": user, "context": {"cluster": "testing", "user": user}}],
            "current-context": user,
        }
        path = self.directory / f"kubeconfig-{user}-{secrets.token_hex(4)}"
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content))
        return path

    @property
    def certificates(self) -> Certificates:
        """The files that the API server serves with."""
        return self._certificates

    def _write_inputs(self) -> None:
        (self.directory / "audit-policy.yaml").write_text(json.dumps(audit.POLICY))
        tokens = self.directory / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(f'{self.admin_token},{ADMIN},{ADMIN},"system:masters"\n')

    def _start_on_free_ports(self, binaries: Mapping[str, Path]) -> None:
        for attempt in range(PORT_ATTEMPTS):
            with free_ports(3) as ports:
                client, peer, secure = ports
            self.server = f"https://127.0.0.1:{secure}"
            self._etcd_command = self._etcd_flags(binaries["etcd"], client, peer, attempt)
            self._api_server_command = self._api_server_flags(binaries["kube-apiserver"], client, secure)
            # Both at once: the API server waits for etcd by itself.
            self._etcd = self._spawn(self._etcd_command)
            self._api_server = self._spawn(self._api_server_command)
            try:
                self._wait_until_ready()
            except _PortTakenError:
                self._api_server.kill()
                self._etcd.kill()
                if attempt == PORT_ATTEMPTS - 1:
                    raise
            else:
                return

    def _spawn(self, command: Sequence[str]) -> SupervisedProcess:
        if self._run is None:
            raise RuntimeError("the control plane is not running")
        log = self.directory / f"{Path(command[0]).name}.log"
        log.write_bytes(b"")
        return SupervisedProcess(command, log, inherited=[self._run.fileno()])

    def _etcd_flags(self, program: Path, client: int, peer: int, attempt: int) -> list[str]:
        client_url, peer_url = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        flags = {
            # Of its own for each attempt: a data directory remembers the peer URL it was made with.
            "data-dir": self.directory / f"etcd-{attempt}",
            "listen-client-urls": client_url,
            "advertise-client-urls": client_url,
            "listen-peer-urls": peer_url,
            "initial-advertise-peer-urls": peer_url,
            "initial-cluster": f"default={peer_url}",
            "log-level": "warn",
            "unsafe-no-fsync": "true",
        }
        return [str(program), *(f"--{key}={value}" for key, value in flags.items())]

    def _api_server_flags(self, program: Path, etcd: int, port: int) -> list[str]:
        files, directory = self._certificates, self.directory
        flags = {
            "etcd-servers": f"http://127.0.0.1:{etcd}",
            "secure-port": port,
            "bind-address": "127.0.0.1",
            "cert-dir": directory,
            "tls-cert-file": files.certificate,
            "tls-private-key-file": files.key,
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": files.service_account_public_key,
            "service-account-signing-key-file": files.service_account_key,
            "service-cluster-ip-range": "10.96.0.0/16",
            "authorization-mode": "RBAC",
            "token-auth-file": directory / "tokens.csv",
            "audit-policy-file": directory / "audit-policy.yaml",
            "audit-log-path": self.audit.path,
            # Lines are written before the next request of the same connection is read, and no file is ever rotated.
            "audit-log-mode": "blocking",
            "audit-log-maxsize": 2**20,
            "disable-admission-plugins": ",".join(self._disabled_plugins),
            # Tests and benchmarks send bursts that a shared API server should refuse, and this one should not.
            "max-requests-inflight": 4000,
            "max-mutating-requests-inflight": 2000,
            "delete-collection-workers": 16,
        }
        given = [f"--{key}={value}" for key, value in flags.items() if value != ""]
        return [str(program), *given, *self._api_server_arguments]

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._start_timeout
        context = ssl.create_default_context(cafile=str(self.ca_file))
        while not self._is_ready(context, self.server):
            for process in (self._etcd, self._api_server):
                if process is not None and process.poll() is not None:
                    raise _startup_error(process, f"ended with status {process.poll()}")
            if self._api_server is not None and time.monotonic() > deadline:
                raise _startup_error(self._api_server, f"was not ready within {self._start_timeout:g} s")
            if self._given_up.wait(LOOK_SECONDS):
                raise ControlPlaneError("the start was cancelled")

    def _is_ready(self, context: ssl.SSLContext, server: str) -> bool:
        host, _, port = server.removeprefix("https://").partition(":")
        connection = http.client.HTTPSConnection(host, int(port), timeout=ANSWER_SECONDS, context=context)
        try:
            connection.request("GET", "/readyz", headers={"Authorization": f"Bearer {self.admin_token}"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _startup_error(process: SupervisedProcess, what: str) -> ControlPlaneError:
    tail = process.log_tail()
    error = _PortTakenError if PORT_TAKEN in tail else ControlPlaneError
    return error(f"{Path(process.command[0]).name} {what}. Its last log lines:\n{tail}")


@contextlib.contextmanager
def free_ports(count: int) -> Iterator[list[int]]:
    """TCP ports of 127.0.0.1 that are free, kept from others until the block ends."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        yield [one.getsockname()[1] for one in sockets]
