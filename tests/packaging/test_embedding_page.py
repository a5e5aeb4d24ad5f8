"""The page on embedding: each of its blocks is run, those that are files as programs against a real API server."""

import asyncio
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from schedcache.dump import load_dump
from schedcache.testing import free_ports, wait_until

PAGE = Path(__file__).parents[2] / "docs" / "embedding.md"
FENCE = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    language: str
    file: str
    code: str
    line: int


def blocks():
    text = PAGE.read_text()
    return [
        Block(found["language"], found["file"] or "", found["code"], text.count("\n", 0, found.start("code")))
        for found in FENCE.finditer(text)
    ]


STORY = [block for block in blocks() if block.language == "python" and not block.file]
FILES = {block.file: block for block in blocks() if block.file}
COMMANDS = [line for block in blocks() if block.language == "sh" for line in block.code.splitlines()]


def test_there_is_no_block_that_no_test_runs():
    text = PAGE.read_text()
    assert text.count("```") == 2 * len(blocks())
    assert len(STORY) + len(FILES) + sum(block.language == "sh" for block in blocks()) == len(blocks())
    assert (
        sorted(shlex.split(command)[-1] for command in COMMANDS)
        == sorted(FILES)
        == [
            "follow.py",
            "schedule.py",
            "with_cache.py",
        ]
    )
    assert not re.search(r"^    \S", FENCE.sub("", text), re.MULTILINE), "an indented block"


def test_the_story_holds():
    namespace = {"__name__": "story"}
    for block in STORY:
        # The line in the page, for whoever reads the traceback.
        exec(compile("\n" * block.line + block.code, str(PAGE), "exec"), namespace)


def test_its_code_is_typed(tmp_path):
    (tmp_path / "story.py").write_text("\n".join(block.code for block in STORY))
    for block in FILES.values():
        (tmp_path / block.file).write_text(block.code)
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, sorted(tmp_path.glob("*.py")))]
    done = subprocess.run(command, cwd=PAGE.parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


class Program:
    """A file of the page, run with the page's own command; SIGINT at the end."""

    def __init__(self, cluster, folder, file, port=0):
        (folder / file).write_text(FILES[file].code)
        [command] = [command for command in COMMANDS if command.endswith(f" {file}")]
        self._command = command.replace(":8080/", f":{port}/")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)}
        self._folder = folder

    async def __aenter__(self):
        self._output = self._folder / "output"
        with self._output.open("wb") as output:
            self.process = await asyncio.create_subprocess_exec(
                *shlex.split(self._command), cwd=self._folder, env=self._environment, stdout=output, stderr=output
            )
        return self

    async def __aexit__(self, kind, error, trace):
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGINT)
            async with asyncio.timeout(20):
                status = await self.process.wait()
            assert error is not None or status == 0, self.text()

    def text(self):
        assert self.process.returncode is None or self.process.returncode == 0, self._output.read_text()
        return self._output.read_text()

    async def says(self, line):
        async def so():
            return line in self.text().splitlines()

        try:
            await wait_until(so, 20)
        except TimeoutError:
            pytest.fail(f"{line!r} is not in:\n{self.text()}")


@pytest.mark.controlplane
async def test_the_program_with_a_reflector(cluster, tmp_path):
    await cluster.make_nodes(2, capacity={"cpu": "4", "memory": "16Gi", "pods": "110"})
    [pod] = await cluster.make_pods(1, requests={"cpu": "1"})
    async with Program(cluster, tmp_path, "follow.py") as program:
        await program.says("{'node-0': 4000, 'node-1': 4000}")
        await cluster.bind(pod, "node-1")
        await program.says("{'node-0': 4000, 'node-1': 3000}")
        await cluster.delete("/api/v1/nodes/node-0")
        await program.says("{'node-1': 3000}")
        await cluster.delete("/api/v1/namespaces/default/pods/pod-0", grace_seconds=0)
        await program.says("{'node-1': 4000}")
    assert "Traceback" not in program.text()


@pytest.mark.controlplane
async def test_the_program_that_schedules(cluster, tmp_path):
    await cluster.make_nodes(2)
    async with Program(cluster, tmp_path, "schedule.py") as program, aiohttp.ClientSession() as session:
        await cluster.make_pods(3, schedulerName="schedcache")
        await cluster.make_pods(1, name="other-{}", schedulerName="other")
        bound = await cluster.wait_until_bound(3, timeout=30)
        assert sorted(pod["metadata"]["name"] for pod in bound) == ["pod-0", "pod-1", "pod-2"]
        [port] = re.findall(r"serving metrics and dump .*port=(\d+)", program.text())
        async with session.get(f"http://127.0.0.1:{port}/dump") as response:
            dump = load_dump(await response.read())
        assert sorted(dump.nodes) == ["node-0", "node-1"]
    assert "stopped" in program.text()
    assert "Traceback" not in program.text()


@pytest.mark.controlplane
async def test_the_operator_with_a_cache(cluster, tmp_path):
    await cluster.make_nodes(2)
    [pod, _] = await cluster.make_pods(2)
    await cluster.bind(pod, "node-1")
    with free_ports(1) as ports:
        port = ports[0]
    url = f"http://127.0.0.1:{port}/healthz"
    async with Program(cluster, tmp_path, "with_cache.py", port) as program, aiohttp.ClientSession() as session:
        # Asked before it has synced, it repeats its answer for ten seconds.
        await asyncio.sleep(4)

        async def so():
            program.text()
            try:
                async with session.get(url) as response:
                    answer = json.loads(await response.text())
            except aiohttp.ClientConnectionError:
                return False
            return answer["cache"] == {"synced": True, "nodes": 2, "pods": 1}

        await wait_until(so, 30)
    assert "Traceback" not in program.text()
    stored = await cluster.list_all("/api/v1/nodes") + await cluster.list_all("/api/v1/pods")
    assert not any(item["metadata"].get("finalizers") for item in stored)
    assert not any("kopf" in json.dumps(item["metadata"].get("annotations", {})) for item in stored)
    # The API server writes events of its own about the Service that it makes.
    events = await cluster.list_all("/api/v1/events")
    assert [event for event in events if event["involvedObject"]["kind"] in ("Pod", "Node")] == []
