"""A dump from a running scheduler, as bytes: at an address, or in a cluster."""

import argparse
import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import msgspec

from schedcache.app.errors import UsageError
from schedcache.cli.dump.finding import NoSchedulerError, find
from schedcache.cli.output import tell
from schedcache.kube.http.credentials import Access, CredentialError, load_credentials
from schedcache.kube.http.port_forward import PortForward, PortForwardError, port_forward
from schedcache.kube.http.transport import Transport
from schedcache.ports import ApiError

_SECONDS = 60.0
_TOKEN_SECONDS = 600
_READER = "kubectl create clusterrolebinding NAME --clusterrole=schedcache-dump-reader"


class NotFetchedError(Exception):
    """There is no dump; the message says why, and what may help."""


class _Status(msgspec.Struct):
    message: str = ""


class _TokenStatus(msgspec.Struct):
    token: str


class _TokenRequest(msgspec.Struct):
    status: _TokenStatus


class _Way(NamedTuple):
    """How to a scheduler: base URL, TLS, and who asks."""

    url: str
    context: ssl.SSLContext
    token: str


def fetch(options: argparse.Namespace, parameters: Mapping[str, str]) -> bytes:
    """The JSON of `/dump` with these parameters. Raises NotFetchedError or UsageError."""
    return asyncio.run(_fetch(options, parameters))


async def _fetch(options: argparse.Namespace, parameters: Mapping[str, str]) -> bytes:
    if options.url is not None:
        context = _trusting(options)
        return await _ask(_Way(options.url.rstrip("/"), context, options.token or ""), parameters)
    forward: PortForward | None = None
    try:
        async with _found(options) as (way, forward):
            return await _ask(way, parameters)
    except NotFetchedError as error:
        if forward is not None and forward.error:
            raise NotFetchedError(f"{error} ({forward.error})") from error
        raise
    except CredentialError as error:
        raise UsageError(str(error)) from error
    except (ApiError, NoSchedulerError, PortForwardError) as error:
        raise NotFetchedError(str(error)) from error


@asynccontextmanager
async def _found(options: argparse.Namespace) -> AsyncIterator[tuple[_Way, PortForward]]:
    """The scheduler in the cluster, through the API server."""
    credentials = load_credentials(options.kubeconfig, options.context)
    async with Transport(credentials) as transport:
        found = await find(transport, options.namespace, options.selector, options.pod)
        token = await _token(options, transport, credentials.access)
    tell(f"asking pod {options.namespace}/{found.name}{' (the leader)' if found.leads else ''}")
    own = options.token is None and options.service_account is None
    context = _of_tunnel(credentials.access if own else None)
    async with port_forward(credentials.access, options.namespace, found.name, found.port) as forward:
        yield _Way(f"https://127.0.0.1:{forward.port}", context, token), forward


async def _token(options: argparse.Namespace, transport: Transport, access: Access) -> str:
    """What the scheduler is shown: as little as was asked for."""
    if options.token is not None:
        return str(options.token)
    if options.service_account is not None:
        path = f"/api/v1/namespaces/{options.namespace}/serviceaccounts/{options.service_account}/token"
        spec: dict[str, object] = {"expirationSeconds": _TOKEN_SECONDS}
        if options.token_audience is not None:
            spec["audiences"] = [options.token_audience]
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = await transport.send("POST", path, msgspec.json.encode(body))
        return msgspec.json.decode(answer, type=_TokenRequest).status.token
    scheme, _, token = access.authorization.partition(" ")
    return token if scheme.lower() == "bearer" else ""


def _of_tunnel(access: Access | None) -> ssl.SSLContext:
    """The API server says which pod is at the other end, so its certificate, which is mostly its own, need not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if access is not None and access.certificate_file is not None:
        context.load_cert_chain(access.certificate_file, access.key_file)
    return context


def _trusting(options: argparse.Namespace) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.certificate_authority)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--certificate-authority: {options.certificate_authority}: {error}") from error
    if options.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _ask(way: _Way, parameters: Mapping[str, str]) -> bytes:
    headers = {"Authorization": f"Bearer {way.token}"} if way.token else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session,
            session.get(f"{way.url}/dump", params=parameters, headers=headers, ssl=way.context) as answer,
        ):
            body = await answer.read()
            if answer.status != 200:
                raise NotFetchedError(_explained(answer.status, body))
            return body
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise UsageError(f"--url: expected a URL such as https://HOST:PORT, got {way.url!r}") from error
    except (aiohttp.ClientError, OSError) as error:
        # aiohttp's own words have an SSLContext in them.
        cause = getattr(error, "os_error", error)
        raise NotFetchedError(f"{way.url}: {str(cause) or type(cause).__name__}") from error


def _explained(status: int, body: bytes) -> str:
    try:
        message = msgspec.json.decode(body, type=_Status).message
    except msgspec.DecodeError:
        message = body[:200].decode("utf-8", "replace").strip()
    hint = {
        401: "; it knows neither token nor certificate of the kubeconfig: --token and --service-account are other ways",
        403: f"; somebody who may has to: {_READER} --user=NAME",
    }.get(status, "")
    return f"the scheduler answers {status}: {message}{hint}"
