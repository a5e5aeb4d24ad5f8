"""Figures that the pages quote are those of the code.

`QUOTED` has, for each page, the words around a figure and what it is in the code. A sentence that is reworded has to be reworded
here too; one that is gone takes its line with it. Whoever writes a new time or size into one of these pages is asked, by
the last test, where it comes from.
"""

import inspect
import pkgutil
import re

import pytest

from schedcache.app.settings import Settings
from schedcache.kube.http import sockets
from schedcache.kube.write import retrying
from tests.packaging import pages

MINUTE, MIB, MILLI = 1 / 60, 2**20, 1000


def default(function, parameter):
    """What a parameter is when it is not given; `function` as a dotted name within the package."""
    return inspect.signature(pkgutil.resolve_name(f"schedcache.{function}")).parameters[parameter].default


def literal(file, pattern):
    """A figure that the code has in one place, without a name."""
    (found,) = re.findall(pattern, (pages.ROOT / "schedcache" / file).read_text())
    return float(found)


def required(what):
    """A version that pyproject.toml asks for, as people write it: major and minor."""
    return float(re.search(rf'{what} ?=? ?"?>=(\d+\.\d+)', (pages.ROOT / "pyproject.toml").read_text())[1])


def first_pauses(number):
    """How long that many tries of a reflector take at most, if all fail at once."""
    first = default("kube.watch.pacing.Backoff", "first")
    return sum(first * 2**i for i in range(number)) * 2


def all_pauses():
    """How long a write is tried, at most: pauses are stretched by up to a half."""
    pauses = [min(retrying.LONGEST_PAUSE, retrying.FIRST_PAUSE * retrying.GROWTH**i) for i in range(retrying.TRIES - 1)]
    return round(sum(pauses) * 1.5)


def keepalive():
    idle, interval, count = sockets.PROBES.values()
    return idle + interval * count


BACKOFF = "kube.watch.pacing.Backoff"

QUOTED = {
    "README.md": [
        ("`--pod-max-in-unschedulable-pods-duration` | `{}m`", Settings.max_in_unschedulable * MINUTE),
        ("Python >= {}", required("requires-python")),
    ],
    "CONTRIBUTING.md": [
        ("Python >= {}", required("requires-python")),
    ],
    "docs/getting-started.md": [
        ("Python >= {}", required("requires-python")),
    ],
    "docs/watch.md": [
        ("within a minute, it waits ({} s to {} s)", default(BACKOFF, "first"), default(BACKOFF, "limit")),
        ("Lists are quorum reads in pages of {},", "kube.watch.lister:PAGE_LIMIT"),
        (
            "for a random {} to {} s",
            literal("kube/watch/kind_watch.py", r"randint\((\d+), \d+\)"),
            literal("kube/watch/kind_watch.py", r"randint\(\d+, (\d+)\)"),
        ),
        ("run in slices of {} ms", ("kube.watch.pacing:SLICE_SECONDS", MILLI)),
        ("the same, within {} s and without an event, {} times", "kube.watch.edges:IDLE_SECONDS", "kube.watch.edges:IDLE_CLOSES"),
        ("(at most {} s, plus up to a fifth)", "kube.http.transport:RETRY_AFTER_LIMIT"),
        ("TCP keepalive notices within {} s", keepalive()),
        ("no byte for {} s", "kube.watch.reflector:INACTIVITY_SECONDS"),
        (
            "Backoff is {} s, doubled up to {} s, multiplied by a random factor of 1 to 2, and starts over after {} minutes",
            default(BACKOFF, "first"),
            default(BACKOFF, "limit"),
            default(BACKOFF, "reset_after") * MINUTE,
        ),
        ("Every {} minutes what is held", ("kube.watch.reflector:SWEEP_SECONDS", MINUTE)),
        ("still the same {} seconds later", "kube.watch.reflector:GRACE_SECONDS"),
        ("without an open watch for {} s**", "app.health:LOST_SECONDS"),
        ("The first three attempts to connect again come within {} s", first_pauses(3)),
        ("nothing has come over it for {} s**", "app.health:STALE_SECONDS"),
        ("TCP ends the watch after {} s, and readiness fails {} s later", keepalive(), "app.health:LOST_SECONDS"),
        ("`binding` fails when for {} s every bind", "app.health:LOST_SECONDS"),
        ("for {} s it would report that all is well", "app.health:STALE_SECONDS"),
        ("kopf {} alone cannot keep them", required("kopf")),
        ("deletes what is gone: every {} s", "kube.kopf.source:SWEEP_SECONDS"),
        ("in the end every {} s", "kube.kopf.operator:LAST_PAUSE"),
        ("if {} sweeps find it behind", "kube.kopf.source:STALE_SWEEPS"),
        ("A sweep waits {} seconds for kopf", "kube.kopf.source:GRACE_SECONDS"),
        ("with the pod's UID; {} at once", "kube.write.binder:CONCURRENT_BINDS"),
        ("sent again, {} times in about {} seconds", "kube.write.retrying:TRIES", all_pauses()),
        ("after Retry-After, {} times at most", "kube.http.transport:THROTTLED_TRIES"),
        ("credentials are read again (at most every {} s)", "kube.http.transport:RELOAD_SECONDS"),
        ("at the end of the series, {} minutes after", ("kube.write.event_recorder:FINISH_SECONDS", MINUTE)),
        ("further ones every {} hour", ("kube.write.event_recorder:REFRESH_SECONDS", MINUTE * MINUTE)),
        (
            "One pod may start {} events at once and one more in {} minutes",
            "kube.write.event_recorder:POD_BURST",
            ("kube.write.event_recorder:POD_REFILL_SECONDS", MINUTE),
        ),
        ("{} events and {} conditions may wait", "kube.write.event_recorder:WAITING_LIMIT", "kube.write.status_writer:WAITING_LIMIT"),
        ("and then one of them every {} minute", ("kube.write.sparing:SPARING_SECONDS", MINUTE)),
        ("a bind has {} s", default("kube.http.transport.Transport", "request_timeout")),
    ],
    "docs/loop.md": [
        ("share one turn of the event loop, {} milliseconds at most", ("scheduling.scheduler:_SLICE_SECONDS", MILLI)),
        ("At most {} pods are between decision and answer", "scheduling.binding_cycle:MAX_BINDING"),
        (
            "read again, after {} s doubling to {} s",
            "scheduling.binding_cycle:_FIRST_LOOK_AGAIN",
            "scheduling.binding_cycle:LAST_LOOK_AGAIN",
        ),
        ("starts a deadline of {} s", Settings.assumed_pod_ttl),
        ("{} pods are read at a time", "scheduling.expiry:_READS_AT_ONCE"),
        ("Bindings under way get {} s", "app.program:DRAIN_SECONDS"),
        ("Events and conditions that wait get {} s", "app.program:WRITE_SECONDS"),
    ],
    "docs/queue.md": [
        ("{} second after the first failure, doubled", default("scheduling.make_profiles", "initial_backoff")),
        ("for each further one, {} seconds at most", default("scheduling.make_profiles", "max_backoff")),
        ("an update of the pod, `activate`, {} minutes", Settings.max_in_unschedulable * MINUTE),
        ("registered, an update, {} minutes", Settings.max_in_unschedulable * MINUTE),
        ("unschedulable for {} minutes is tried anyway", Settings.max_in_unschedulable * MINUTE),
        ("as soon as their {} minutes are over", Settings.max_in_unschedulable * MINUTE),
    ],
    "docs/operations.md": [
        ("- {}: a fault in the program", "cli.entry:FAULT"),
        ("- {}: the answer could not be written", "cli.output:IO_ERROR"),
        ("- {}: whoever was reading", "cli.output:_BROKEN_PIPE"),
        ("`--kube-api-burst` ({} and {})", Settings.qps, Settings.burst),
        ("{} binds per second is kube-scheduler's default", Settings.qps),
        ("the loop has not turned for {} s", "app.health:STALLED_SECONDS"),
        ("when a kind has been without an open watch for {} s", "app.health:LOST_SECONDS"),
        ("when no bind has been answered for {} s", "app.health:LOST_SECONDS"),
        ("when a watch has been silent for {} s", "app.health:STALE_SECONDS"),
        ("says why it is {} s", "app.health:LOST_SECONDS"),
        ("scheduler_informer_disconnected_seconds > {}`", "app.health:LOST_SECONDS"),
        ("scheduler_informer_last_heard_seconds > {}`", "app.health:STALE_SECONDS"),
        ("check takes longer than {} ms", ("cache.checks.validator:_SECONDS_PER_CALL", MILLI)),
        ("that it takes {} ms per change", ("cache.checks.validator:_SECONDS_PER_CALL", MILLI)),
        ("`/readyz` says so after {} s", "app.health:LOST_SECONDS"),
        ("once it answers again, {} s later at most", "scheduling.binding_cycle:LAST_LOOK_AGAIN"),
    ],
    "docs/plugins.md": [
        ("must lie in 0..{}", "framework.interface:MAX_NODE_SCORE"),
        ("code Wait waits, {} minutes at most", ("framework.waiting_pods:MAX_WAIT", MINUTE)),
        ("counts {}m and 200Mi where", "model.resources:DEFAULT_MILLI_CPU"),
        ("counts 100m and {}Mi where", ("model.resources:DEFAULT_MEMORY", 1 / MIB)),
    ],
    "docs/upstream-parity.md": [
        ("counts {} milli-CPU and {} MiB", "model.resources:DEFAULT_MILLI_CPU", ("model.resources:DEFAULT_MEMORY", 1 / MIB)),
    ],
    "docs/embedding.md": [
        ("the last {} transitions", "cache.stories:CAPACITY"),
    ],
    "docs/dump.md": [
        ("the last {} transitions", "cache.stories:CAPACITY"),
        ("thousandths of a CPU; {} for a container", "model.resources:DEFAULT_MILLI_CPU"),
        ("bytes; {} MiB for a container", ("model.resources:DEFAULT_MEMORY", 1 / MIB)),
    ],
    "CHANGELOG.md": [
        ("`/readyz` reports within {} s", "app.health:LOST_SECONDS"),
    ],
}  # fmt: skip

UNQUOTED = {
    "docs/watch.md": (
        "never holds the event loop for 50 ms",
        "about 1 ms of CPU per event instead of 0.02 ms",
        "again five minutes before their token expires",  # the official client's
    ),
    "docs/plugins.md": ("with 5,000 nodes, 1 to 2 ms per pod, and about 10 ms if it rejects every node",),
    "docs/queue.md": ("not up to 30 s later",),  # kube-scheduler's
    "docs/operations.md": (
        "takes some four minutes longer",
        "10 to 30 ms with 500 nodes and 4,500 pods, 0.3 s with 5,000 and 45,000",
    ),
    "docs/embedding.md": ("event takes 5 µs, and the event itself, in the sink below, 14 µs",
        "it takes 60 ms for 5,000 nodes with 20,000 pods", "the longest of which takes 10 ms", "An event costs about 1 ms of CPU"),
}  # fmt: skip
"""Times that were measured, or are somebody else's."""
MEASURED = ("## Measured", "## What it costs")

WORDS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
NUMBERS = {"half": 0.5, **{word: float(number) for number, word in enumerate(WORDS.split(), 1)}}
DIGITS, WORD = r"\d[\d,]*(?:\.\d+)?", rf"(?i:{'|'.join(NUMBERS)})"
UNIT = r"(?:µs|us|ms|s|m|MiB|MB|(?:milli)?seconds?|minutes?|hours?)\b"
TIME = re.compile(rf"(?<![\w.,])(?:{DIGITS}(?= ?{UNIT})|{WORD}(?= {UNIT}))")


def number(told):
    return NUMBERS[told.lower()] if told.lower() in NUMBERS else float(told.replace(",", ""))


def value(source):
    name, factor = source if isinstance(source, tuple) else (source, 1)
    return round(factor * (pkgutil.resolve_name(f"schedcache.{name}") if isinstance(name, str) else name), 6)


def pattern(words):
    return re.compile(re.escape(words).replace(r"\{\}", f"({DIGITS}|{WORD})"))


def read(page, words):
    found = pattern(words).findall(pages.prose(page))
    assert len(found) == 1, f"{page} says {len(found)} times: {words}"
    told = found[0] if isinstance(found[0], tuple) else (found[0],)
    return [number(text) for text in told]


def cases():
    lines = [(page, words, sources) for page, quoted in QUOTED.items() for words, *sources in quoted]
    return [pytest.param(*line, id=f"{line[0]}: {line[1]}") for line in lines]


@pytest.mark.parametrize(("page", "words", "sources"), cases())
def test_the_figure_is_the_codes(page, words, sources):
    assert read(page, words) == [value(source) for source in sources]


@pytest.mark.parametrize("page", QUOTED)
def test_every_time_on_the_page_has_a_source(page):
    told = re.sub(
        rf"^({'|'.join(MEASURED)})\n.*?(?=^## |\Z)", "", pages.without_fences(page), flags=re.MULTILINE | re.DOTALL
    )
    prose = re.sub(r"\s+", " ", told)
    known = [found.span() for words, *_ in QUOTED[page] for found in pattern(words).finditer(prose)]
    for words in UNQUOTED.get(page, ()):
        assert words in prose, words
        known.append((prose.index(words), prose.index(words) + len(words)))
    unknown = [
        prose[max(0, found.start() - 40) : found.end() + 10]
        for found in TIME.finditer(prose)
        if not any(start <= found.start() < end for start, end in known)
    ]
    assert unknown == []
