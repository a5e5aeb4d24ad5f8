"""TokenReview, SubjectAccessReview and the ConfigMap extension-apiserver-authentication."""

from collections.abc import Mapping, Sequence

import msgspec

from schedcache.kube.http.transport import Transport
from schedcache.model.decode import DECODE_ERRORS
from schedcache.ports import ApiError, ClusterAuthentication, UnavailableError, UserInfo

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
"""Whoever has the Role extension-apiserver-authentication-reader of kube-system may read it."""

_MALFORMED = "Malformed"
_encode = msgspec.json.Encoder().encode


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None
    audiences: list[str] | None = None


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] | None = None


_token_review = msgspec.json.Decoder(_TokenReview).decode
_access_review = msgspec.json.Decoder(_AccessReview).decode
_config_map = msgspec.json.Decoder(_ConfigMap).decode
_names = msgspec.json.Decoder(list[str]).decode


class ApiReviews:
    """An `AccessReviews` that asks the API server.

    Args:
        authentication: the way to the one that reviews tokens.
        authorization: the way to the one that reviews access.
        audiences: a token must be meant for one of these; empty: for the API server itself.
    """

    def __init__(self, authentication: Transport, authorization: Transport, audiences: Sequence[str] = ()) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self._audiences = tuple(audiences)

    async def review_token(self, token: str) -> UserInfo | None:
        spec: dict[str, object] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        # Without what was answered, here and below: whatever stands between us and the API server may quote the token.
        try:
            status = _token_review(await self._authentication.send("POST", TOKEN_REVIEWS, _encode(review))).status
        except ApiError as error:
            text = f"POST {TOKEN_REVIEWS}: {error.status or 'no answer'} {error.reason}".rstrip()
            raise UnavailableError(text, status=error.status, reason=error.reason) from None
        except DECODE_ERRORS:
            raise UnavailableError(f"POST {TOKEN_REVIEWS}: the answer is no TokenReview", reason=_MALFORMED) from None
        user = status.user
        if not status.authenticated or user is None or not user.username:
            return None
        # An authenticator that knows no audiences leaves them empty: its tokens are for the API server alone.
        if self._audiences and not set(self._audiences) & set(status.audiences or ()):
            return None
        extra = tuple(sorted((key, tuple(values)) for key, values in (user.extra or {}).items()))
        return UserInfo(user.username, user.uid, tuple(user.groups or ()), extra)

    async def review_access(self, user: UserInfo, verb: str, path: str) -> bool:
        spec = {
            "user": user.name,
            "uid": user.uid,
            "groups": user.groups,
            "extra": dict(user.extra),
            "nonResourceAttributes": {"path": path, "verb": verb},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._authorization.send("POST", ACCESS_REVIEWS, _encode(review))
        try:
            status = _access_review(answer).status
        except DECODE_ERRORS as error:
            text = f"POST {ACCESS_REVIEWS}: the answer is no SubjectAccessReview: {error}"
            raise UnavailableError(text, reason=_MALFORMED) from error
        return status.allowed and not status.denied


async def cluster_authentication(transport: Transport, timeout: float) -> ClusterAuthentication:
    """What kube-apiserver publishes. Raises ApiError, also for a ConfigMap that makes no sense."""
    try:
        data = _config_map(await transport.get(CONFIG_MAP, timeout=timeout)).data or {}
        return ClusterAuthentication(
            client_ca=data.get("client-ca-file", ""),
            requestheader_client_ca=data.get("requestheader-client-ca-file", ""),
            requestheader_allowed_names=_listed(data, "allowed-names"),
            requestheader_username_headers=_listed(data, "username-headers"),
            requestheader_uid_headers=_listed(data, "uid-headers"),
            requestheader_group_headers=_listed(data, "group-headers"),
            requestheader_extra_headers_prefix=_listed(data, "extra-headers-prefix"),
        )
    except DECODE_ERRORS as error:
        raise UnavailableError(f"GET {CONFIG_MAP}: {error}", reason=_MALFORMED) from error


def _listed(data: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(_names(data.get(f"requestheader-{name}") or "[]"))
