"""Who sends a request: a front proxy's word, else a client certificate, else a bearer token, in the order of kube-scheduler."""

import base64
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDictProxy

from schedcache.ports import ClusterAuthentication, UserInfo
from schedcache.server.access.reviewing import Reviewer
from schedcache.server.tls_connection import ClientCertificate

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_PEM_BEGIN, _PEM_END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class Authenticator:
    """Recognises users.

    Args:
        reviewer: for tokens.
        cluster: authorities and front proxies, as they are now.
        wall_clock: seconds since 1970.
    """

    def __init__(
        self,
        reviewer: Reviewer,
        cluster: Callable[[], ClusterAuthentication],
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._reviewer = reviewer
        self._cluster = cluster
        self._wall_clock = wall_clock

    async def user_of(self, request: web.Request, client: str) -> UserInfo | None:
        """The user, None if there is none. Raises TooManyReviewsError or NoReviewError.

        A certificate was verified when the connection was opened. That was a while ago, so it is looked at again whether it is still
        valid, and whether its authority still counts.
        """
        certificate = _certificate_of(request)
        if certificate is not None and certificate.not_after > self._wall_clock():
            user = self._certified(certificate, request.headers)
            if user is not None:
                return _authenticated(user)
        token = bearer_token(request.headers)
        return None if token is None else await self._reviewer.user_of(token, client)

    def _certified(self, certificate: ClientCertificate, headers: CIMultiDictProxy[str]) -> UserInfo | None:
        cluster = self._cluster()
        if certificate.authority in authorities_in(cluster.requestheader_client_ca):
            allowed = cluster.requestheader_allowed_names
            if not allowed or certificate.common_name in allowed:
                user = user_in_headers(headers, cluster)
                if user is not None:
                    return user
        if certificate.authority in authorities_in(cluster.client_ca) and certificate.common_name:
            credential = (f"X509SHA256={certificate.fingerprint}",)
            return UserInfo(certificate.common_name, "", certificate.organizations, ((CREDENTIAL_ID, credential),))
        return None


def _certificate_of(request: web.Request) -> ClientCertificate | None:
    transport = request.transport
    found = None if transport is None else transport.get_extra_info("client_certificate")
    return found if isinstance(found, ClientCertificate) else None


def _authenticated(user: UserInfo) -> UserInfo:
    """With the group that every user has but those who are nobody; for tokens, the API server adds it."""
    if user.name == ANONYMOUS or {AUTHENTICATED, UNAUTHENTICATED} & set(user.groups):
        return user
    return UserInfo(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """The token of the header Authorization, None if there is none or the header is of another kind.

    Tokens are ASCII (RFC 6750, 2.1). Anything else is nobody's, and may not even be text that a review could have.
    """
    scheme, _, token = headers.get("Authorization", "").strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token and " " not in token and token.isascii() else None


def user_in_headers(headers: CIMultiDictProxy[str], cluster: ClusterAuthentication) -> UserInfo | None:
    """Whom a front proxy speaks for, None if it does not say."""
    name = _first(headers, cluster.requestheader_username_headers)
    if not name:
        return None
    groups = tuple(
        _text(value) for header in cluster.requestheader_group_headers for value in headers.getall(header, ()) if value
    )
    extra: dict[str, list[str]] = {}
    for header, value in headers.items():
        for prefix in cluster.requestheader_extra_headers_prefix:
            if header.lower().startswith(prefix.lower()):
                extra.setdefault(unquote(header[len(prefix) :].lower()), []).append(_text(value))
    return UserInfo(
        name,
        _first(headers, cluster.requestheader_uid_headers),
        groups,
        tuple(sorted((key, tuple(values)) for key, values in extra.items())),
    )


def _first(headers: CIMultiDictProxy[str], names: Iterable[str]) -> str:
    return next((_text(value) for name in names if (value := headers.get(name, ""))), "")


def _text(value: str) -> str:
    """What is no UTF-8 is replaced, as Go does when it writes a review; aiohttp keeps it in a form that nobody can write."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@lru_cache(maxsize=8)
def authorities_in(pem: str) -> frozenset[bytes]:
    """The certificates of a bundle, in DER."""
    found = set()
    for part in pem.split(_PEM_BEGIN)[1:]:
        body, end, _ = part.partition(_PEM_END)
        if end:
            found.add(base64.b64decode("".join(body.split())))
    return frozenset(found)
