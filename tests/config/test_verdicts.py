"""Some 440 configurations, and what kube-scheduler 1.37.2 says of each: recorded from its binary by hack/config_verdicts.py."""

import copy
import json
import re
from pathlib import Path

import pytest
import yaml

from schedcache.cli import main
from schedcache.config import load_config, to_yaml

RECORDED = json.loads(Path(__file__).with_name("verdicts.json").read_text())
ENTRIES = RECORDED["entries"]
BOTH_ACCEPT = [entry for entry in ENTRIES if "effective" in entry and "ours" not in entry]


def shown(entry):
    return entry["text"].partition("KubeSchedulerConfiguration\n")[2] or entry["text"]


def without_empty(value):
    """null and an empty list say the same as nothing."""
    if isinstance(value, dict):
        kept = {name: without_empty(found) for name, found in value.items() if found not in (None, [])}
        return {
            name: found for name, found in kept.items() if (name, found) not in (("preference", {}), ("urlPrefix", ""))
        }
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def fields(message):
    """The fields and plugins that kube-scheduler names; of a selector's requirement it is enough to name that."""
    paths = re.findall(r"([\w.\[\]]+): (?:Invalid|Required|Duplicate|Unsupported|Forbidden)", message)
    paths += re.findall(r"unknown field \"(.*?)\"", message) + re.findall(r"Go struct field \w*\.([\w.]+) of", message)
    plain = [re.sub(r"\[\w+\]", "", path).lstrip("[") for path in paths]
    names = [re.sub(r"(match(Expressions|Fields))\.(values|operator)$", r"\1", path).split(".")[-1] for path in plain]
    return names + re.findall(r"lugin \"(\w+)\" (?:does not|already)", message)


def written(entry):
    """The whole file that kube-scheduler writes."""
    whole = copy.deepcopy(RECORDED["default"])
    for path, value in entry["effective"].items():
        *parents, last = [int(index) if index else name for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path)]
        at = whole
        for step in parents:
            at = at[step]
        at[last] = copy.deepcopy(value)
    return without_empty(whole)


@pytest.fixture
def check(tmp_path, capsys):
    """Text -> what check-config prints, None where it refuses, and what it says of it."""

    def checked(text):
        file = tmp_path / "FILE"
        file.write_bytes(text.encode())
        status = main(["check-config", str(file)])
        captured = capsys.readouterr()
        return (yaml.safe_load(captured.out), "") if status == 0 else (None, captured.err)

    return checked


@pytest.mark.parametrize("entry", BOTH_ACCEPT, ids=shown)
def test_what_kube_scheduler_accepts_comes_to_the_same(entry, check):
    found, message = check(entry["text"])
    assert found is not None, message
    assert without_empty(found) == written(entry)


@pytest.mark.parametrize("entry", [e for e in ENTRIES if "effective" in e and "ours" in e], ids=shown)
def test_what_cannot_be_honoured_is_refused_by_name(entry, check):
    found, message = check(entry["text"])
    assert found is None
    assert entry["ours"] in message


@pytest.mark.parametrize("entry", [e for e in ENTRIES if "message" in e], ids=shown)
def test_what_kube_scheduler_refuses_is_refused_naming_the_field(entry, check):
    found, message = check(entry["text"])
    assert found is None
    assert all(field.lower() in message.lower() for field in fields(entry["message"])), message


@pytest.mark.parametrize("entry", BOTH_ACCEPT, ids=shown)
def test_what_kube_scheduler_writes_is_accepted_and_says_the_same(entry):
    again = load_config(yaml.safe_dump(written(entry)))
    assert to_yaml(again.config) == to_yaml(load_config(entry["text"]).config)


@pytest.mark.parametrize("entry", BOTH_ACCEPT, ids=shown)
def test_what_we_write_is_accepted_and_says_the_same(entry):
    text = to_yaml(load_config(entry["text"]).config)
    assert to_yaml(load_config(text).config) == text
