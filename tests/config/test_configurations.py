"""Configurations as people have them: gardener, kwok, scheduler-plugins, koordinator, course notes, kube-scheduler's own output.

`cases/<id>.expect.json` names its input, whose name says what the case is about. `accept`: whether check-config takes it;
`message` and `notMessage`: patterns that a refusal matches and does not; `effective`: values of what check-config prints, by
path (`[name]` picks the entry of that name).
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from schedcache.cli import main

CASES = Path(__file__).parent / "cases"
EXPECTED = {
    Path(case["config"]).stem: case for case in (json.loads(path.read_text()) for path in CASES.glob("*.expect.json"))
}


def value_at(found, path):
    for step in re.findall(r"[^.\[\]]+", path):
        if not isinstance(found, list):
            found = found[step]
        elif step.isdigit():
            found = found[int(step)]
        else:
            [found] = [entry for entry in found if entry["name"] == step]
    return found


@pytest.mark.parametrize("case_id", sorted(EXPECTED))
def test_is_taken_or_refused_with_what_helps(case_id, capsys):
    case = EXPECTED[case_id]
    status = main(["check-config", str(CASES / case["config"])])
    out, err = capsys.readouterr()
    assert (status == 0) is case["accept"], err
    for path, value in case.get("effective", {}).items():
        assert value_at(yaml.safe_load(out), path) == value, path
    for pattern in case.get("message", ()):
        assert re.search(pattern, err), pattern
    for pattern in case.get("notMessage", ()):
        assert not re.search(pattern, err), pattern


def test_all_foreign_plugins_are_named_at_once_each_with_its_line(capsys):
    main(["check-config", str(CASES / EXPECTED["14-every-foreign-plugin-at-once"]["config"])])
    lines = capsys.readouterr().err.splitlines()
    text = (CASES / EXPECTED["14-every-foreign-plugin-at-once"]["config"]).read_text().splitlines()
    found = [
        re.search(r":(\d+): profiles\[0\]\.plugins\.(\w+)\.enabled\[0\]\.name: there is no plugin '(\w+)'", line)
        for line in lines
    ]
    assert [(match[2], match[3]) for match in found] == [
        ("queueSort", "TopologicalSort"),
        ("filter", "NetworkOverhead"),
        ("score", "NetworkOverhead"),
    ]
    assert all(match[3] in text[int(match[1]) - 1] for match in found)
