"""A control plane whose etcd can be stopped, frozen, compacted, filled and put back to an earlier state."""

import asyncio
import http.client
import json
import os
import signal
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from schedcache.testing import ControlPlane, wait_until
from schedcache.testing.certificates import openssl
from schedcache.testing.control_plane import free_ports
from schedcache.testing.processes import SupervisedProcess
from tests.faults.relay import Relay


class Lagging(NamedTuple):
    """An API server, and its way to etcd."""

    url: str
    relay: Relay

    def stand_still(self) -> None:
        self.relay.stand_still()


class Servers(ControlPlane):
    """As its base; etcd takes `etcd_flags` (the last of equal ones counts) and may have its data elsewhere."""

    def __init__(self, *, etcd_flags: Sequence[str] = (), data: Path | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._more_etcd_flags = tuple(etcd_flags)
        self._data = data

    def _etcd_flags(self, program: Path, client: int, peer: int, attempt: int) -> list[str]:
        flags = super()._etcd_flags(program, client, peer, attempt)
        place = (f"--data-dir={self._data / f'etcd-{attempt}'}",) if self._data is not None else ()
        return [*flags, *place, *self._more_etcd_flags]

    @property
    def etcd(self) -> SupervisedProcess:
        assert self._etcd is not None, "etcd is stopped"
        return self._etcd

    @property
    def api_server(self) -> SupervisedProcess:
        assert self._api_server is not None, "the API server is stopped"
        return self._api_server

    @property
    def data(self) -> Path:
        return self._data_directory

    def stop_etcd(self) -> None:
        self.etcd.kill()
        self._etcd = None

    def start_etcd(self) -> None:
        """Again, on its port and its data; for requests that follow at once the API server may still say no."""
        self._etcd = self._spawn(self._etcd_command)

    def wait_until_ready(self) -> None:
        self._wait_until_ready()

    def revision(self) -> int:
        answer = self.ask_etcd("/v3/kv/range", {"key": "AA==", "count_only": True})
        return int(answer["header"]["revision"])

    def compact(self) -> None:
        """etcd forgets all that was before now, as it does every five minutes for an API server."""
        self.ask_etcd("/v3/kv/compaction", {"revision": self.revision(), "physical": True})

    def ask_etcd(self, path: str, body: Any) -> Any:
        """Through etcd's own JSON gateway."""
        connection = http.client.HTTPConnection(urlsplit(self._etcd_flag("listen-client-urls")).netloc, timeout=10)
        try:
            connection.request("POST", path, json.dumps(body))
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200, text
            return json.loads(text)
        finally:
            connection.close()

    def make_room(self) -> None:
        """What an administrator does after NOSPACE: etcd starts again with a larger quota, and the alarm is taken back."""
        self.stop_etcd()
        self._etcd_command = [*self._etcd_command, f"--quota-backend-bytes={2**30}"]
        self.start_etcd()
        self._wait_until_ready()
        raised = self.ask_etcd("/v3/maintenance/alarm", {"action": "GET"})["alarms"]
        for alarm in raised:
            self.ask_etcd("/v3/maintenance/alarm", {"action": "DEACTIVATE", **alarm})
        assert raised, "there was no alarm"

    @asynccontextmanager
    async def second_api_server(self) -> AsyncIterator["Lagging"]:
        """Another API server of the same etcd, over a connection that can be made to stand still."""
        etcd = urlsplit(self._etcd_flag("listen-client-urls"))
        with free_ports(1) as (port,):
            pass
        async with Relay("127.0.0.1", etcd.port or 0) as relay:
            changed = {
                "--etcd-servers": f"http://127.0.0.1:{relay.port}",
                "--secure-port": str(port),
                "--audit-log-path": str(self.directory / "audit-2.log"),
            }
            # Given twice, --etcd-servers would name two ways to etcd, one of them past the relay.
            kept = [flag for flag in self._api_server_command if flag.partition("=")[0] not in changed]
            command = [*kept, *(f"{key}={value}" for key, value in changed.items())]
            process = SupervisedProcess(command, self.directory / "kube-apiserver-2.log")
            try:
                made = Lagging(f"https://127.0.0.1:{port}", relay)
                context = ssl.create_default_context(cafile=str(self.ca_file))
                await wait_until(lambda: asyncio.to_thread(self._is_ready, context, made.url), 60)
                yield made
            finally:
                relay.flow()
                await asyncio.to_thread(process.kill)

    def rotate_authority(self) -> None:
        """Another certificate authority and a serving certificate of it, and an API server that serves with these."""
        folder = self.directory
        for name in ("authority", "serving"):
            openssl(folder, f"ecparam -name prime256v1 -genkey -noout -out {name}.key")
        openssl(
            folder,
            "req -x509 -new -config openssl.cnf -extensions authority -subj /CN=schedcache-testing-ca-2"
            " -key authority.key -days 30 -out authority.new",
        )
        # Whoever reads it never finds half a file, as with a mounted Secret.
        (folder / "authority.new").replace(folder / "authority.crt")
        openssl(folder, "req -new -config openssl.cnf -subj /CN=kube-apiserver -key serving.key -out serving.csr")
        openssl(
            folder,
            "x509 -req -in serving.csr -CA authority.crt -CAkey authority.key -CAcreateserial"
            " -extfile openssl.cnf -extensions serving -days 30 -out serving.crt",
        )


def freeze(process: SupervisedProcess) -> None:
    os.kill(process.pid, signal.SIGSTOP)


def thaw(process: SupervisedProcess) -> None:
    os.kill(process.pid, signal.SIGCONT)
