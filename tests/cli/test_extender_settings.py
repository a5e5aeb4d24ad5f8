"""What a configuration says of extenders, on its way to who calls them."""

import base64

import pytest

from schedcache.app.extenders import extender_settings, known_kinds
from schedcache.cli import main
from schedcache.config import config_from_dict
from schedcache.framework import Extenders
from schedcache.kube.extender.client import ExtenderSettings, HttpExtenders
from schedcache.kube.extender.tls import TLSSettings
from schedcache.testing import make_node, node_manifest, pod_manifest
from schedcache.testing.builders import as_stored

GPU = "example.com/gpu"


def configured(**extender):
    return config_from_dict({"extenders": [{"urlPrefix": "https://x", **extender}]}).config


def test_every_field_arrives():
    tls = {
        "serverName": "n",
        **{f"{part}File": f"/{part}" for part in ("cert", "key", "ca")},
        **{f"{part}Data": base64.b64encode(part.encode()).decode() for part in ("cert", "key", "ca")},
    }
    verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "preempt", "bind")}
    managed = [{"name": GPU, "ignoredByScheduler": True}, {"name": "example.com/b"}]
    config = configured(
        **verbs,
        weight=3,
        enableHTTPS=True,
        tlsConfig=tls,
        httpTimeout="1500ms",
        nodeCacheCapable=True,
        managedResources=managed,
        ignorable=True,
    )
    assert extender_settings(config) == [
        ExtenderSettings(
            url_prefix="https://x",
            filter_verb="filter",
            prioritize_verb="prioritize",
            preempt_verb="preempt",
            bind_verb="bind",
            weight=3,
            enable_https=True,
            tls=TLSSettings(
                server_name="n",
                cert_file="/cert",
                key_file="/key",
                ca_file="/ca",
                cert_data=b"cert",
                key_data=b"key",
                ca_data=b"ca",
            ),
            timeout_seconds=1.5,
            node_cache_capable=True,
            managed_resources=frozenset({GPU, "example.com/b"}),
            ignorable=True,
        )
    ]


def test_what_is_left_out_is_as_in_kube_scheduler():
    assert extender_settings(configured()) == [ExtenderSettings(url_prefix="https://x", timeout_seconds=5.0)]


def kept(config, *manifests):
    """Which of the objects are kept whole, by name."""
    settings = extender_settings(config)
    known = known_kinds(settings, Extenders(HttpExtenders(settings)), ["ours"])
    objects = [known[manifest["kind"]].from_dict(as_stored(manifest)) for manifest in manifests]
    return {obj.name for obj in objects if obj.json}


OBJECTS = (
    node_manifest("node"),
    pod_manifest("asks", requests={GPU: 1}, scheduler_name="ours"),
    pod_manifest("placed", "node", requests={GPU: 1}, scheduler_name="ours"),
    pod_manifest("plain", scheduler_name="ours"),
    pod_manifest("foreign", requests={GPU: 1}, scheduler_name="theirs"),
)


@pytest.mark.parametrize(
    ("extender", "names"),
    [
        ({"filterVerb": "f"}, {"node", "asks"}),
        ({"prioritizeVerb": "p", "weight": 1}, {"node", "asks"}),
        ({"filterVerb": "f", "nodeCacheCapable": True}, {"asks"}),
        ({"preemptVerb": "p"}, {"asks", "placed", "plain", "foreign"}),
        ({"preemptVerb": "p", "nodeCacheCapable": True}, {"asks"}),
        ({"bindVerb": "b"}, set()),
    ],
)
def test_only_what_will_be_sent_is_kept_whole(extender, names):
    assert kept(configured(managedResources=[{"name": GPU}], **extender), *OBJECTS) == names


def test_without_extenders_nothing_is_kept_whole():
    assert kept(config_from_dict(None).config, *OBJECTS) == set()
    assert make_node("n").json == b""


def test_check_config_finds_what_cannot_be_called(tmp_path, capsys):
    file = tmp_path / "f.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "extenders: [{urlPrefix: https://x, filterVerb: f, tlsConfig: {caFile: /nowhere}}]\n"
    )
    assert main(["check-config", str(file)]) == 2
    assert "f.yaml: extender 'https://x': caFile: /nowhere: No such file or directory" in capsys.readouterr().err
