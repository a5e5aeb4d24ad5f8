"""The flags of the HTTPS port: kube-scheduler's, with its defaults, and refused where they make no sense."""

from pathlib import Path

import pytest

from schedcache.app.errors import UsageError
from schedcache.cli.commands import make_parser, run_command
from schedcache.cli.flag_settings import settings_of
from schedcache.server.secure_settings import AccessSettings, TLSSettings


def settings(*flags):
    return settings_of(make_parser().parse_args(["run", *flags]))


def test_without_flags_it_is_https_with_a_certificate_of_our_own():
    found = settings()
    assert (found.secure_port, found.port, found.bind_address) == (10259, None, None)
    assert found.tls == TLSSettings()
    assert found.access == AccessSettings()


@pytest.mark.parametrize(
    ("flags", "secure", "plain"),
    [
        (["--port=10251"], None, 10251),
        (["--port=0"], None, 0),
        (["--port=10251", "--secure-port=10259"], 10259, 10251),
        (["--secure-port=8443"], 8443, None),
        (["--secure-port=0"], None, None),
    ],
)
def test_which_ports_are_served(flags, secure, plain):
    found = settings(*flags)
    assert (found.secure_port, found.port) == (secure, plain)


def test_each_flag_is_a_setting():
    tls = settings(
        *("--tls-cert-file=a.crt", "--tls-private-key-file=a.key", "--cert-dir=certs"),
        *("--tls-min-version=VersionTLS13", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384"),
    ).tls
    assert tls == TLSSettings(
        cert_file=Path("a.crt"),
        private_key_file=Path("a.key"),
        cert_dir=Path("certs"),
        min_version="VersionTLS13",
        cipher_suites=("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"),
    )
    access = settings(
        *("--authentication-kubeconfig=a", "--authorization-kubeconfig=b", "--authentication-skip-lookup"),
        *("--authentication-tolerate-lookup-failure=false", "--authentication-token-audiences=x,y"),
        *("--authentication-token-webhook-cache-ttl=1s", "--authorization-webhook-cache-authorized-ttl=2m"),
        *("--authorization-webhook-cache-unauthorized-ttl=500ms", "--authorization-always-allow-paths=/a,/b/*"),
        *("--client-ca-file=c", "--requestheader-client-ca-file=d", "--requestheader-allowed-names=e,f"),
        *("--requestheader-username-headers=g", "--requestheader-uid-headers=h", "--requestheader-group-headers=i"),
        "--requestheader-extra-headers-prefix=j-",
    ).access
    assert access == AccessSettings(
        authentication_kubeconfig="a",
        authorization_kubeconfig="b",
        skip_lookup=True,
        tolerate_lookup_failure=False,
        token_audiences=("x", "y"),
        token_ttl_seconds=1.0,
        authorized_ttl_seconds=120.0,
        unauthorized_ttl_seconds=0.5,
        always_allow_paths=("/a", "/b/*"),
        client_ca_file=Path("c"),
        requestheader_client_ca_file=Path("d"),
        requestheader_allowed_names=("e", "f"),
        requestheader_username_headers=("g",),
        requestheader_uid_headers=("h",),
        requestheader_group_headers=("i",),
        requestheader_extra_headers_prefix=("j-",),
    )


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--tls-cert-file=a"], "--tls-cert-file and --tls-private-key-file: expected both or neither"),
        (["--authorization-always-allow-paths=/a*b"], "--authorization-always-allow-paths: only a final * is allowed"),
        (["--authentication-token-webhook-cache-ttl=soon"], "--authentication-token-webhook-cache-ttl: 'soon'"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(flags, says):
    with pytest.raises(UsageError) as raised:
        settings(*flags)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--tls-min-version=VersionTLS10", "invalid choice: 'VersionTLS10'"),
        ("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA", "got 'TLS_RSA_WITH_RC4_128_SHA'"),
        ("--authentication-skip-lookup=perhaps", "expected true or false, got 'perhaps'"),
        ("--tls-sni-cert-key=a,b", "unrecognized arguments: --tls-sni-cert-key=a,b"),
        ("--secure-port=65536", "expected a port"),
    ],
)
def test_a_value_that_there_is_not_is_refused(flag, says, capsys):
    with pytest.raises(SystemExit):
        run_command(["run", flag])
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--tls-cert-file=/no.crt", "HTTPS: /no.crt: No such file or directory"),
        ("--authentication-kubeconfig=/no/file", "/no/file"),
    ],
)
def test_files_that_there_are_not_are_told_at_the_start(flag, says, unreachable_kubeconfig, capsys):
    flags = [flag, "--tls-private-key-file=/no.key"] if "tls" in flag else [flag]
    arguments = [f"--kubeconfig={unreachable_kubeconfig}", "--secure-port=1", "--bind-address=127.0.0.1", *flags]
    assert run_command(["run", *arguments]) == 2
    assert says in capsys.readouterr().err
