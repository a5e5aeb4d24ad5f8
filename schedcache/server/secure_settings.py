"""How the HTTPS port proves who it is, and finds out who asks; every default is what `schedcache run` uses."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["AccessSettings", "TLSSettings"]

TLS_VERSIONS = ("VersionTLS12", "VersionTLS13")
"""Go's names. kube-scheduler also takes the two older ones, which nobody should use."""
CIPHER_SUITES = {
    "TLS_AES_128_GCM_SHA256": "",
    "TLS_AES_256_GCM_SHA384": "",
    "TLS_CHACHA20_POLY1305_SHA256": "",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Go's name -> OpenSSL's. Those of TLS 1.3, without one, are always on, as in Go. Older suites are not offered at all."""


@dataclass(frozen=True, kw_only=True)
class TLSSettings:
    """The certificate, and how connections are encrypted.

    Attributes:
        cert_file: PEM, followed by the certificates of intermediate authorities; None: see `cert_dir`.
        private_key_file: PEM, without a password; given exactly if `cert_file` is.
        cert_dir: without `cert_file`, where `schedcache.crt` and `schedcache.key` are, or are written if they are missing; None: the
            process makes a certificate of its own that is never stored.
        min_version: one of `TLS_VERSIONS`.
        cipher_suites: of TLS 1.2, by their names in `CIPHER_SUITES`; empty: OpenSSL's choice.
        look_seconds: how often files are looked at for changes.
        self_signed_days: how long a certificate of our own is valid; one that is not stored is replaced after two thirds of that.
        warning_days: before the certificate expires, from when on the log says so.
    """

    cert_file: Path | None = None
    private_key_file: Path | None = None
    cert_dir: Path | None = None
    min_version: str = "VersionTLS12"
    cipher_suites: tuple[str, ...] = ()
    look_seconds: float = 10.0
    self_signed_days: float = 365.0
    warning_days: float = 7.0


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """Who may ask, as far as that is not the API server's decision. Names and defaults are those of kube-scheduler's flags.

    Attributes:
        authentication_kubeconfig: for TokenReviews and for the lookup; None: the scheduler's own credentials.
        authorization_kubeconfig: for SubjectAccessReviews, likewise.
        skip_lookup: do not read the ConfigMap extension-apiserver-authentication.
        tolerate_lookup_failure: start without it; otherwise the program does not start if it cannot be read.
        token_audiences: a token must be meant for one of these; empty: for the API server.
        client_ca_file: authorities of client certificates; None: those of the ConfigMap.
        requestheader_client_ca_file: authorities of front proxies; None: the ConfigMap's, with its names and headers.
        requestheader_allowed_names: common names of front proxies; empty: any.
        requestheader_username_headers: where a front proxy names the user, in order.
        requestheader_uid_headers: likewise, the user's UID.
        requestheader_group_headers: likewise, groups, all of which count.
        requestheader_extra_headers_prefix: what names of headers with anything else about the user begin with.
        always_allow_paths: answered to everybody; a final `*` stands for any ending.
        token_ttl_seconds: how long the answer to a TokenReview is kept, be it yes or no.
        authorized_ttl_seconds: how long access that was granted is kept.
        unauthorized_ttl_seconds: how long access that was denied is kept.
        review_seconds: for all that has to be asked about a request. kube-scheduler waits for ten seconds each.
        kept_reviews: of each kind, yes and no apart; the one that has not been used for longest goes first.
        client_reviews_per_second: about unknown tokens, for one client address; for the access of one user, likewise.
        client_review_burst: how many of these at once.
        reviews_per_second: about unknown tokens, of all clients; for the access of all users, likewise.
        review_burst: how many of these at once.
        concurrent_reviews: about unknown tokens, under way at once.
        lookup_seconds: between two reads of the ConfigMap.
    """

    authentication_kubeconfig: str | None = None
    authorization_kubeconfig: str | None = None
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    token_audiences: tuple[str, ...] = ()
    client_ca_file: Path | None = None
    requestheader_client_ca_file: Path | None = None
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    token_ttl_seconds: float = 10.0
    authorized_ttl_seconds: float = 10.0
    unauthorized_ttl_seconds: float = 10.0
    review_seconds: float = 0.8
    kept_reviews: int = 1024
    client_reviews_per_second: float = 5.0
    client_review_burst: int = 20
    reviews_per_second: float = 50.0
    review_burst: int = 100
    concurrent_reviews: int = 8
    lookup_seconds: float = 30.0
