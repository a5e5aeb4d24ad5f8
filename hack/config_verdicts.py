"""Asks kube-scheduler what it makes of each configuration in tests/config/verdicts.json, and writes its answers there.

An entry has `text`, a whole file. kube-scheduler adds `message` where it refuses, and `effective` where it accepts: the fields
of what it writes with --write-config-to that differ from what it writes for a file without settings. `ours`, by hand, is a
part of our own message where kube-scheduler accepts and we do not.
"""

import json
import pathlib
import re
import subprocess
import tempfile
from typing import Any

import yaml

from schedcache.testing import find_binaries

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "config" / "verdicts.json"
HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
_LONGEST_MESSAGE = 300


def ask(binary: pathlib.Path, text: str) -> dict[str, Any] | str:
    """What it writes, or the message with which it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        given, written = pathlib.Path(folder, "given.yaml"), pathlib.Path(folder, "written.yaml")
        given.write_text(text, encoding="utf-8")
        # It need not reach an API server for this, but wants to know of one; and a port that is taken is no verdict.
        options = [
            "--config",
            given,
            "--write-config-to",
            written,
            "--master",
            "http://127.0.0.1:1",
            "--secure-port",
            "0",
        ]
        done = subprocess.run([binary, *options], capture_output=True, text=True, check=False)
        if written.exists():
            answer: dict[str, Any] = yaml.safe_load(written.read_text(encoding="utf-8"))
            return answer
    failure = re.search(r'"command failed" err=(<\n.*|".*")', done.stderr, re.DOTALL)
    assert failure, done.stderr
    message: str = json.loads(failure[1].splitlines()[0]) if failure[1][0] == '"' else failure[1]
    return " ".join(message.split())[:_LONGEST_MESSAGE]


def changes(default: Any, found: Any, path: str = "") -> dict[str, Any]:
    """Path -> value where two configurations differ; None: not there any more."""
    if isinstance(default, dict) and isinstance(found, dict):
        pairs = {f"{path}.{name}" if path else name: (default.get(name), found.get(name)) for name in default | found}
    elif isinstance(default, list) and isinstance(found, list) and len(default) == len(found):
        pairs = {f"{path}[{i}]": pair for i, pair in enumerate(zip(default, found, strict=True))}
    else:
        return {} if default == found else {path: found}
    return {place: value for name, pair in pairs.items() for place, value in changes(*pair, name).items()}


def judged(entry: dict[str, Any], binary: pathlib.Path, default: Any) -> dict[str, Any]:
    """The entry with kube-scheduler's answer, what was written by hand last."""
    answer = ask(binary, entry["text"])
    verdict = {"message": answer} if isinstance(answer, str) else {"effective": changes(default, answer)}
    by_hand = {key: value for key, value in entry.items() if key not in ("text", "message", "effective")}
    return {"text": entry["text"], **verdict, **by_hand}


def main() -> None:
    """Rewrite the file."""
    binary = find_binaries(["kube-scheduler"])["kube-scheduler"]
    entries = json.loads(FILE.read_text(encoding="utf-8"))["entries"]
    default = ask(binary, HEADER)
    entries = [judged(entry, binary, default) for entry in entries]
    FILE.write_text(json.dumps({"default": default, "entries": entries}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
