"""Which rows run, and the world of each; `python -m tests.faults` runs all of them, anything else the quick ones."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from schedcache.testing import Cluster
from tests.faults.disk import disk
from tests.faults.proxy import SwitchingProxy
from tests.faults.rows import ROWS, Row
from tests.faults.servers import Servers
from tests.faults.world import World

HERE = Path(__file__).parent
FULL = "SCHEDCACHE_FAULTS"
SEED = "SCHEDCACHE_FAULTS_SEED"
ROWS_WANTED, SOURCES_WANTED = "SCHEDCACHE_FAULTS_ROWS", "SCHEDCACHE_FAULTS_SOURCES"
PASSED = pytest.StashKey[bool]()


def full() -> bool:
    return os.environ.get(FULL) == "full"


def seed() -> int:
    return int(os.environ.get(SEED, "1"))


def row_of(item: pytest.Item) -> Row:
    mark = item.get_closest_marker("fault")
    assert mark is not None, f"{item.name} belongs to no row"
    return ROWS[mark.args[0]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "world" in metafunc.fixturenames:
        row = row_of(metafunc.definition)
        marks = [
            pytest.mark.timeout(int(row.lasts + row.within) + 240),
            pytest.mark.controlplane,
            pytest.mark.long,
        ]
        metafunc.parametrize("source", [pytest.param(source, marks=marks) for source in row.sources])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Outside of the full form, rows that take long or need root are no part of the run at all."""
    wanted = _named if full() else _quick
    # All items of the session come here, and other folders have worlds of their own.
    ours = [item for item in items if HERE in item.path.parents and "world" in getattr(item, "fixturenames", ())]
    left_out = [item for item in ours if not wanted(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _named(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    rows, sources = (os.environ[name].split(",") for name in (ROWS_WANTED, SOURCES_WANTED))
    return row_of(item).key in rows and item.callspec.params["source"] in sources


def _quick(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    mark = item.get_closest_marker("fault")
    assert mark is not None
    return item.callspec.params["source"] in mark.kwargs.get("quick", ())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture, so that a test whose surroundings cannot be made is a red one of its row, and not none at all."""
    if isinstance(item, pytest.Function) and "world" in item.fixturenames:
        nothing = {
            "row": row_of(item).key,
            "source": item.callspec.params["source"],
            "healed_after": None,
            "checked": [],
        }
        item.user_properties.extend(nothing.items())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report


@pytest.fixture
async def world(request, source, tmp_path) -> AsyncIterator[World]:
    row = row_of(request.node)
    assert not row.root or os.geteuid() == 0, f"the row {row.key} needs root"
    own = request.node.get_closest_marker("servers")
    async with AsyncExitStack() as exits:
        if own is None:
            servers = request.getfixturevalue("control_plane")
        else:
            options = dict(own.kwargs)
            if size := options.pop("disk_mib", None):
                options["data"] = exits.enter_context(disk(tmp_path / "disk", size))
            servers = await exits.enter_async_context(Servers(**options))
        cluster = await exits.enter_async_context(Cluster(servers))
        if own is None:
            await cluster.clean()
        proxy = await exits.enter_async_context(SwitchingProxy(servers))
        world = World(row, source, seed(), cluster, proxy, tmp_path)
        exits.push_async_callback(world.close)
        yield world
        request.node.user_properties.extend(
            {
                "healed_after": world.healed_after,
                "checked": sorted(world.checked),
                **world.measured,
            }.items()
        )
        if request.node.stash.get(PASSED, False):
            assert world.healed_after is not None, "the test never asked whether all was well again"
            left = set(row.invariants) - world.checked
            assert not left, f"not looked at: {sorted(left)}"
