"""Keys and certificates of a control plane on loopback, made with the ``openssl`` command."""

import subprocess
from pathlib import Path
from typing import NamedTuple

CONFIGURATION = """\
[req]
distinguished_name = subject
prompt = no
[subject]
CN = schedcache-testing
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[serving]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = IP:127.0.0.1, DNS:localhost, DNS:kubernetes.default.svc
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""
"""With every extension that OpenSSL's strict mode, Python 3.13's default, asks for."""

VALID_DAYS = "30"


class Certificates(NamedTuple):
    """Files in PEM form."""

    authority: Path
    certificate: Path
    key: Path
    service_account_key: Path
    service_account_public_key: Path


def make_certificates(folder: Path) -> Certificates:
    """A certificate authority, a certificate for 127.0.0.1 and localhost, and a key to sign service-account tokens.

    Args:
        folder: where the files go; it should be readable by this user only.

    Raises:
        RuntimeError: ``openssl`` is not installed, or fails.
    """
    (folder / "openssl.cnf").write_text(CONFIGURATION)
    for name in ("authority", "serving", "service-account"):
        openssl(folder, f"ecparam -name prime256v1 -genkey -noout -out {name}.key")
    openssl(
        folder,
        "req -x509 -new -config openssl.cnf -extensions authority -subj /CN=schedcache-testing-ca"
        f" -key authority.key -days {VALID_DAYS} -out authority.crt",
    )
    openssl(folder, "req -new -config openssl.cnf -subj /CN=kube-apiserver -key serving.key -out serving.csr")
    openssl(
        folder,
        "x509 -req -in serving.csr -CA authority.crt -CAkey authority.key -CAcreateserial"
        f" -extfile openssl.cnf -extensions serving -days {VALID_DAYS} -out serving.crt",
    )
    openssl(folder, "ec -in service-account.key -pubout -out service-account.pub")
    return Certificates(
        *(
            folder / n
            for n in ("authority.crt", "serving.crt", "serving.key", "service-account.key", "service-account.pub")
        )
    )


def openssl(folder: Path, arguments: str) -> None:
    """Run one openssl command in ``folder``."""
    try:
        subprocess.run(
            ["openssl", *arguments.split()],  # noqa: S607 - wherever PATH has it
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise RuntimeError("the control-plane harness needs the openssl command: install OpenSSL") from None
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"openssl {arguments} failed: {error.stderr.strip()}") from error
