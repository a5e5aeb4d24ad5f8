"""Finding the cluster and the identity, and renewing it."""

import datetime as dt
import json
import os
import stat
from pathlib import Path

import pytest
import yaml

from schedcache.kube.http.credentials import CredentialError, load_credentials
from schedcache.testing.certificates import make_certificates


def config(**changes):
    content = {
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "near", "user": "someone"}},
            {"name": "two", "context": {"cluster": "far", "user": "nobody"}},
        ],
        "clusters": [
            {"name": "near", "cluster": {"server": "https://127.0.0.1:1/prefix/"}},
            {"name": "far", "cluster": {"server": "https://far.example:6443", "tls-server-name": "api"}},
        ],
        "users": [{"name": "someone", "user": {"token": "secret"}}, {"name": "nobody", "user": {}}],
    }
    return content | changes


@pytest.fixture
def write(tmp_path):
    def write_kubeconfig(content, name="kubeconfig") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write_kubeconfig


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def user(**fields):
    return config(users=[{"name": "someone", "user": fields}])


def at(server):
    return config(clusters=[{"name": "near", "cluster": {"server": server}}])


def through(proxy):
    return config(clusters=[{"name": "near", "cluster": {"server": "https://far.example:6443", "proxy-url": proxy}}])


def plugin(tmp_path, **status):
    script = tmp_path / "plugin"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    script.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)})


def test_a_kubeconfig_gives_server_and_token(write):
    access = load_credentials(write(config())).access
    assert access.server == "https://127.0.0.1:1/prefix"
    assert access.authorization == "Bearer secret"
    assert access.verify
    assert access.ssl_context is not None
    assert access.proxy is None
    assert "secret" not in repr(access)


def test_another_context_can_be_asked_for(write):
    access = load_credentials(write(config()), context="two").access
    assert access.server == "https://far.example:6443"
    assert access.authorization == ""
    assert access.server_hostname == "api"


def test_certificates_and_authority_come_from_files_or_data(write, certificates):
    content = user(**{"client-certificate": str(certificates.certificate), "client-key": str(certificates.key)})
    content["clusters"][0]["cluster"]["certificate-authority"] = str(certificates.authority)
    access = load_credentials(write(content)).access
    assert access.certificate_file == str(certificates.certificate)
    assert access.ssl_context.cert_store_stats()["x509_ca"] == 1


def test_insecure_connections_have_to_be_asked_for(write):
    content = config()
    content["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    access = load_credentials(write(content)).access
    assert not access.verify
    assert not access.ssl_context.check_hostname


def test_loopback_is_never_proxied(write, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "")
    assert load_credentials(write(config())).access.proxy is None
    assert load_credentials(write(config()), context="two").access.proxy == "http://proxy.example:3128"


def test_a_proxy_that_the_kubeconfig_names_is_used_whatever_else_is_said(write, monkeypatch):
    """As kubectl does: for loopback, too, and whatever $HTTPS_PROXY and $NO_PROXY say."""
    monkeypatch.setenv("HTTPS_PROXY", "http://other.example:3128")
    monkeypatch.setenv("NO_PROXY", "*")
    content = config()
    content["clusters"][0]["cluster"].update(
        {"server": "https://127.0.0.1:6443", "proxy-url": "http://127.0.0.1:28999"}
    )
    assert load_credentials(write(content)).access.proxy == "http://127.0.0.1:28999"


def test_a_plugin_is_run_and_run_again_before_its_token_expires(write, tmp_path):
    soon = (dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    credentials = load_credentials(write(plugin(tmp_path, token="made", expirationTimestamp=soon)))
    before = credentials.access
    assert before.authorization == "Bearer made"
    runs = len((tmp_path / "runs").read_text().split())
    assert credentials.refresh() is before, "the same access for the same content"
    assert len((tmp_path / "runs").read_text().split()) > runs


def test_a_token_file_is_read_again(write, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    credentials = load_credentials(write(user(tokenFile=str(token))))
    now = [0.0]
    credentials._clock = lambda: now[0]
    credentials._loaded_at = 0.0
    assert credentials.access.authorization == "Bearer first"
    token.write_text("second\n")
    assert credentials.refresh().authorization == "Bearer first"
    now[0] = 61.0
    assert credentials.refresh().authorization == "Bearer second"
    token.write_text("third\n")
    assert credentials.reload().authorization == "Bearer third"
    assert credentials.access.authorization == "Bearer third"


@pytest.fixture
def pod(tmp_path, certificates):
    token, ca = tmp_path / "sa-token", tmp_path / "ca.crt"
    token.write_text("mounted")
    ca.write_bytes(certificates.authority.read_bytes())
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    return {"environ": environ, "token_file": token, "ca_file": ca}


def test_a_pods_token_is_found_and_rotated(pod):
    credentials = load_credentials(**pod)
    assert credentials.access.server == "https://10.96.0.1:443"
    assert credentials.access.authorization.lower() == "bearer mounted"
    pod["token_file"].write_text("rotated")
    assert credentials.refresh().authorization.lower() == "bearer mounted", "read at most once a minute"
    assert credentials.reload().authorization.lower() == "bearer rotated"


def test_a_given_kubeconfig_goes_before_the_pods_token(pod, write):
    assert load_credentials(write(config()), **pod).access.authorization == "Bearer secret"


def test_the_pods_token_goes_before_the_environment(pod, write):
    pod["environ"]["KUBECONFIG"] = str(write(config()))
    assert load_credentials(**pod).access.server == "https://10.96.0.1:443"


def test_the_environment_names_several_files(write, tmp_path):
    users = write({"users": config()["users"]}, "users")
    rest = write(config(users=[]), "rest")
    paths = os.pathsep.join([str(tmp_path / "missing"), str(users), str(rest)])
    credentials = load_credentials(environ={"KUBECONFIG": paths}, token_file=tmp_path / "none")
    assert credentials.access.authorization == "Bearer secret"


def test_no_cluster_at_all_names_what_was_tried(tmp_path):
    with pytest.raises(CredentialError) as caught:
        load_credentials(environ={"KUBECONFIG": str(tmp_path / "gone")}, token_file=tmp_path / "token")
    assert str(tmp_path / "gone") in str(caught.value)
    assert str(tmp_path / "token") in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "while parsing"),
        ("", "expected a mapping"),
        ([1], "expected a mapping"),
        ({}, "current-context"),
        (config(**{"current-context": "three"}), "no context 'three', only one, two"),
        (config(users=[]), "names user 'someone'"),
        (config(clusters=[]), "near"),
        (at(""), "server: expected a URL such as https://HOST:PORT, found ''"),
        (at("https://api..example"), "server: expected a URL such as https://HOST:PORT, found 'https://api..example'"),
        (at("api.example:6443"), "found 'api.example:6443'"),
        (at("https://"), "found 'https:'"),
        (at("https://api.example:port"), "found 'https://api.example:port'"),
        (through("socks5://proxy:1080"), "proxy: expected a URL such as http://HOST:PORT, found 'socks5://proxy:1080'"),
        (through("proxy:3128"), "found 'proxy:3128'"),
        (through("http://proxy..example:3128"), "found 'http://proxy..example:3128'"),
        (through("ftp://me:secret@proxy:3128"), "found 'proxy:3128'"),
        (user(tokenFile="/nowhere/token"), "/nowhere/token"),
        (user(**{"client-certificate": "/nowhere/crt"}), "/nowhere/crt"),
        (user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/plugin"}), "/nowhere/plugin"),
        (user(exec={"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}), "'false'"),
    ],
)
def test_a_bad_kubeconfig_is_named_with_its_fault(write, content, says):
    path = write(content)
    with pytest.raises(CredentialError) as caught:
        load_credentials(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)


def test_a_missing_kubeconfig_is_named(tmp_path):
    with pytest.raises(CredentialError, match="missing"):
        load_credentials(tmp_path / "missing")


def test_a_bad_certificate_is_named(write, tmp_path):
    (tmp_path / "ca").write_text("no certificate")
    content = config()
    content["clusters"][0]["cluster"]["certificate-authority"] = str(tmp_path / "ca")
    with pytest.raises(CredentialError, match="kubeconfig"):
        load_credentials(write(content))


def test_a_token_file_that_vanishes_is_an_error_that_names_it(pod):
    credentials = load_credentials(**pod)
    pod["token_file"].unlink()
    with pytest.raises(CredentialError, match="sa-token"):
        credentials.reload()
    assert credentials.access.authorization.lower() == "bearer mounted"
