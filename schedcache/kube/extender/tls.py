"""Which certificates an extender is called with (client-go's TLSConfigFor, as kube-scheduler 1.37 calls it for extenders)."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile


class TLSError(Exception):
    """Certificates or a key that cannot be used; the message says which."""


@dataclass(frozen=True, kw_only=True)
class TLSSettings:
    """Keys and certificates in PEM form. What is given as data counts, a file where there is no data.

    Attributes:
        insecure: the extender's certificate is not checked; not allowed together with a certificate authority.
        server_name: the name expected in its certificate, and asked for; "" for the one in the URL.
        cert_file, key_file, ca_file: names of files, "" for none.
        cert_data, key_data, ca_data: their contents, b"" for none.
    """

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


def make_context(tls: TLSSettings, *, enable_https: bool) -> ssl.SSLContext:
    """A context for connections to an extender.

    As in kube-scheduler, `enable_https` without a certificate authority checks nothing. Raises TLSError.
    """
    authority = _pem("caFile", tls.ca_data, tls.ca_file)
    if tls.insecure and authority:
        raise TLSError("insecure cannot be combined with a certificate authority")
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError) as error:
        raise TLSError(f"caFile or caData: {error}") from error
    # As for the API server: certificates of clusters' own authorities lack extensions that the strict mode of 3.13 asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.insecure or (enable_https and not authority):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate, key = _pem("certFile", tls.cert_data, tls.cert_file), _pem("keyFile", tls.key_data, tls.key_file)
    if bool(certificate) != bool(key):
        raise TLSError("a client certificate and its key go together; found only one of them")
    if certificate:
        _load(context, certificate, key)
    return context


def _pem(field: str, data: bytes, file: str) -> bytes:
    if data or not file:
        return data
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise TLSError(f"{field}: {file}: {error.strerror}") from error


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    # Python reads certificates of its own from files only; these are readable by nobody else and gone at once.
    with NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            # Without a password an encrypted key would be asked for at the terminal.
            context.load_cert_chain(file.name, password="")
        except (ssl.SSLError, ValueError) as error:
            raise TLSError(f"client certificate or key: {error}") from error
