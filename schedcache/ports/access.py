"""Who asks, and whether they may: what the server wants to know of the API server, which alone decides."""

from typing import Protocol

import msgspec


class UserInfo(msgspec.Struct, frozen=True, gc=False):
    """A user as Kubernetes knows one: `authentication.k8s.io/v1` UserInfo. Hashable, so `extra` is pairs, sorted."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class ClusterAuthentication(msgspec.Struct, frozen=True, gc=False):
    """How a cluster's API server recognises clients by their certificates, and the proxies that speak for others.

    What kube-apiserver publishes in the ConfigMap extension-apiserver-authentication. Authorities are PEM, "" for none.
    """

    client_ca: str = ""
    requestheader_client_ca: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    """Common names of the proxies; empty: any that their authority has signed."""
    requestheader_username_headers: tuple[str, ...] = ()
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ()
    requestheader_extra_headers_prefix: tuple[str, ...] = ()


class AccessReviews(Protocol):
    """Questions to the API server. Each raises ApiError if it has no answer, and takes as long as the caller lets it."""

    async def review_token(self, token: str) -> UserInfo | None:
        """Whose token it is; None if it is nobody's, or is not meant for us."""

    async def review_access(self, user: UserInfo, verb: str, path: str) -> bool:
        """Whether the user may do that with a path that is no resource."""
