"""Figures that the pages quote are those of the code.

`QUOTED` has, for each page, the words around a figure and what it is in the code. A sentence that is reworded has to be reworded
here too; one that is gone takes its line with it. Whoever writes a new time or size into one of these pages is asked, by
the last test, where it comes from.
"""

import inspect
import pkgutil
import re

import pytest

from schedcache.app.deadlines import HealthSettings, StopSettings
from schedcache.app.settings import Settings
from schedcache.kube import sockets
from schedcache.kube.kopf.operator import ERROR_DELAY_SECONDS
from schedcache.kube.leader_election import elector
from schedcache.kube.leader_election.fence import _CLOCK_RATES
from schedcache.kube.settings import (
    KopfSettings,
    LeaderElectionSettings,
    RequestSettings,
    SourceSettings,
    WatchSettings,
    WriteSettings,
)
from schedcache.server.access import reviewing
from schedcache.server.limits import ServingSettings
from schedcache.server.secure_settings import AccessSettings, TLSSettings
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


def at_most(backoff, pauses):
    """How long that many pauses take, stretched as far as chance can."""
    return sum(min(backoff.limit, backoff.first * backoff.factor**i * (1 + backoff.jitter)) for i in range(pauses))


def keepalive():
    idle, interval, count = sockets.PROBES.values()
    return idle + interval * count


ELECTION = LeaderElectionSettings(resource_name="", resource_namespace="")
LOOKS = elector._LOOKS
RETRYING = at_most(WriteSettings.retry_backoff, WriteSettings.retry_tries - 1)

QUOTED = {
    "README.md": [
        ("`--pod-max-in-unschedulable-pods-duration` | `{}m`", Settings.max_in_unschedulable * MINUTE),
        ("Python >= {}", required("requires-python")),
        ("`--leader-elect-lease-duration` | `{}s`", ELECTION.lease_duration_seconds),
        ("`--leader-elect-renew-deadline` | `{}s`", ELECTION.renew_deadline_seconds),
        ("`--leader-elect-retry-period` | `{}s`", ELECTION.retry_period_seconds),
        ("`--authentication-token-webhook-cache-ttl` | `{}s`", AccessSettings.token_ttl_seconds),
        ("`--authorization-webhook-cache-authorized-ttl` | `{}s`", AccessSettings.authorized_ttl_seconds),
        ("`--authorization-webhook-cache-unauthorized-ttl` | `{}s`", AccessSettings.unauthorized_ttl_seconds),
    ],
    "docs/security.md": [
        ("publishes them, and again every {} s", AccessSettings.lookup_seconds),
        ("the API server has not said within {} s", AccessSettings.review_seconds),
        ("What it has said is remembered for {} s", AccessSettings.token_ttl_seconds),
        ("is let in for {} s more if the API server fails", AccessSettings.authorized_ttl_seconds),
        ("a right that was taken away ends within {} s", AccessSettings.authorized_ttl_seconds),
        ("within its limit: {} in a second, {} at once", AccessSettings.client_reviews_per_second,
            AccessSettings.client_review_burst),
        ("{} in a second for all, {} at a time", AccessSettings.reviews_per_second, AccessSettings.concurrent_reviews),
        ("within the last {} minutes", reviewing._PROVEN_SECONDS * MINUTE),
        ("cause at most {} access reviews in a second", AccessSettings.client_reviews_per_second),
        ("handshake that takes longer than {} s", ServingSettings.head_seconds),
        ("Files are looked at every {} s", TLSSettings.look_seconds),
        ("the log does during the last {} days", TLSSettings.warning_days),
        ("Reviews have {} s, in kube-scheduler", AccessSettings.review_seconds),
    ],
    "CONTRIBUTING.md": [
        ("Python >= {}", required("requires-python")),
    ],
    "docs/getting-started.md": [
        ("Python >= {}", required("requires-python")),
        ("the build begins within {} s", "testing.releases:REACH_SECONDS"),
    ],
    "docs/watch.md": [
        ("within a minute, it waits ({} s to {} s)", SourceSettings.backoff.first, SourceSettings.backoff.limit),
        ("Lists are quorum reads in pages of {},", SourceSettings.page_limit),
        (
            "for a random {} to {} s",
            literal("kube/watch/kind_watch.py", r"randint\((\d+), \d+\)"),
            literal("kube/watch/kind_watch.py", r"randint\(\d+, (\d+)\)"),
        ),
        ("run in slices of {} ms", ("kube.watch.pacing:SLICE_SECONDS", MILLI)),
        ("the same, within {} s and without an event, {} times", "kube.watch.edges:IDLE_SECONDS", "kube.watch.edges:IDLE_CLOSES"),
        ("(at most {} s, plus up to a fifth)", RequestSettings.retry_after_limit_seconds),
        ("TCP keepalive notices within {} s", keepalive()),
        ("no byte for {} s", WatchSettings.inactivity_timeout_seconds),
        ("Backoff is {} s, doubled each time", SourceSettings.backoff.first),
        ("by a random factor of 1 to {}, {} s at most", 1 + SourceSettings.backoff.jitter, SourceSettings.backoff.limit),
        ("starts over after {} minutes without", SourceSettings.backoff_reset_seconds * MINUTE),
        ("Every {} minutes what is held", WatchSettings.sweep_interval_seconds * MINUTE),
        ("still the same {} seconds later", WatchSettings.sweep_grace_seconds),
        ("without an open watch for {} s**", HealthSettings.lost_seconds),
        ("The first three attempts to connect again come within {} s", at_most(SourceSettings.backoff, 3)),
        ("nothing has come over it for {} s**", HealthSettings.stale_seconds),
        ("before any watch does: TCP ends that only after {} s", keepalive()),
        ("No question has been answered for {} s**", HealthSettings.answer_seconds),
        (
            "is asked every {} s (see above), and has {} s for its answer",
            SourceSettings.probe_interval_seconds,
            SourceSettings.probe_timeout_seconds,
        ),
        ("No bind has succeeded for {} s**", HealthSettings.lost_seconds),
        ("has been answered for {} s.", HealthSettings.lost_seconds),
        ("is asked about every {} s until it is back", "kube.write.rights:ASK_SECONDS"),
        ("pause is {} s at most, and a kind", SourceSettings.unreachable_pause_seconds),
        ("Every {} s, and within half a second", SourceSettings.probe_interval_seconds),
        ("All this takes {} s and a complete list", SourceSettings.probe_look_seconds),
        ("and one is tried: {} s later at most", SourceSettings.unreachable_pause_seconds),
        ("are read at once instead of after {} s", Settings.assumed_pod_ttl),
        ("after a backoff of {} s at most", KopfSettings.backoff.limit),
        ("waits {} s at most, and kopf never", KopfSettings.retry_after_limit_seconds),
        ("after {} s without a watch or an event", KopfSettings.blind_seconds),
        ("until then sweeps come every {} s", KopfSettings.blind_sweep_seconds),
        ("| {} s at most |", ERROR_DELAY_SECONDS),
        ("| {} s apart, as each login", KopfSettings.relogin_seconds),
        ("for {} s it would report that all is well", HealthSettings.stale_seconds),
        ("kopf {} alone cannot keep them", required("kopf")),
        ("deletes what is gone: every {} s", KopfSettings.sweep_interval_seconds),
        ("in the end every {} s", KopfSettings.error_backoff.limit),
        ("if {} sweeps find it behind", KopfSettings.stale_sweeps),
        ("A sweep waits {} seconds for kopf", KopfSettings.sweep_grace_seconds),
        ("or for {} minutes if none succeeds", ("kube.watch.graveyard:REMEMBERED_SECONDS", MINUTE)),
        ("with the pod's UID; {} at once", WriteSettings.concurrent_binds),
        ("sent again, {} times in about {} seconds", WriteSettings.retry_tries, round(RETRYING)),
        ("after Retry-After, {} times at most", RequestSettings.throttled_tries),
        ("credentials are read again (at most every {} s)", RequestSettings.credentials_reload_seconds),
        ("at the end of the series, {} minutes after", WriteSettings.event_series_end_seconds * MINUTE),
        ("further ones every {} hour", WriteSettings.event_series_refresh_seconds * MINUTE * MINUTE),
        (
            "One pod may start {} events at once and one more in {} minutes",
            WriteSettings.pod_event_burst,
            WriteSettings.pod_event_refill_seconds * MINUTE,
        ),
        ("{} events and {} conditions may wait", WriteSettings.waiting_events, WriteSettings.waiting_patches),
        ("and then one of them every {} minute", WriteSettings.repeated_warning_seconds * MINUTE),
    ],
    "docs/loop.md": [
        ("share one turn of the event loop, {} milliseconds at most", ("scheduling.scheduler:_SLICE_SECONDS", MILLI)),
        ("At most {} pods are between decision and answer", "scheduling.binding_cycle:MAX_BINDING"),
        (
            "read again, after {} s doubling to {} s",
            "scheduling.binding_cycle:LOOK_AGAIN.first",
            "scheduling.binding_cycle:LOOK_AGAIN.limit",
        ),
        ("the same bind is sent again, {} times in all", "scheduling.binding_cycle:SENDINGS"),
        (
            "{} times take {} s, longer",
            "scheduling.binding_cycle:SENDINGS",
            ("scheduling.binding_cycle:SENDINGS", RequestSettings.request_timeout_seconds),
        ),
        ("starts a deadline of {} s", Settings.assumed_pod_ttl),
        ("{} pods are read at a time", "scheduling.expiry:_READS_AT_ONCE"),
        ("Bindings under way get {} s", StopSettings.drain_seconds),
        ("Events and conditions that wait get {} s", StopSettings.write_seconds),
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
        ("the loop has not turned for {} s", HealthSettings.stalled_seconds),
        ("when a kind has been without an open watch for {} s", HealthSettings.lost_seconds),
        ("which is asked every {} s, has not answered for {} s", SourceSettings.probe_interval_seconds, HealthSettings.answer_seconds),
        ("when no bind has succeeded for {} s", HealthSettings.lost_seconds),
        ("when a watch has been silent for {} s", HealthSettings.stale_seconds),
        ("scheduler_informer_disconnected_seconds > {}`", HealthSettings.lost_seconds),
        ("scheduler_informer_last_heard_seconds > {}`", HealthSettings.stale_seconds),
        ("check takes longer than {} ms", ("cache.checks.validator:_SECONDS_PER_CALL", MILLI)),
        ("that it takes {} ms per change", ("cache.checks.validator:_SECONDS_PER_CALL", MILLI)),
        ("`/readyz` says so after {} s", HealthSettings.answer_seconds),
        ("could be learnt of the Lease for {} s", HealthSettings.lost_seconds),
        ("its Lease runs out within {} s", ELECTION.lease_duration_seconds),
        ("up to {} MiB of lines waits", ("cli.log_output:MOST_BYTES", 1 / MIB)),
        ("waits for its log for {} second at most", "cli.logs:_FLUSH_SECONDS"),
        ("library writes, {} are written in a minute", "cli.repeats:MOST_VARIANTS"),
        ("at most {} connections, {} of them", ServingSettings.connections, ServingSettings.connections_per_address),
        ("has to be there within {} s", ServingSettings.head_seconds),
        ("nothing of its answer for {} s", ServingSettings.stalled_seconds),
        ("connection is kept for {} s", ServingSettings.idle_seconds),
        ("once it answers again, {} s later at most", "scheduling.binding_cycle:LOOK_AGAIN.limit"),
    ],
    "docs/leader-election.md": [
        ("`leaseDuration` | `{}s`", ELECTION.lease_duration_seconds),
        ("`renewDeadline` | `{}s`", ELECTION.renew_deadline_seconds),
        ("`retryPeriod` | `{}s`", ELECTION.retry_period_seconds),
        ("measured, {} s and two requests at most", LOOKS[1] * ELECTION.retry_period_seconds),
        ("has run out: {} s after they saw", ELECTION.lease_duration_seconds),
        (
            "as measured, {} s at most",
            ELECTION.lease_duration_seconds + LOOKS[1] * ELECTION.retry_period_seconds,
        ),
        ("outage of the API server that is longer than {} s", ELECTION.renew_deadline_seconds),
        (
            "end of the Lease (by default {} s) does no harm",
            round(_CLOCK_RATES * ELECTION.lease_duration_seconds - ELECTION.renew_deadline_seconds, 2),
        ),
        ("neither read nor renew the Lease for {} s", HealthSettings.lost_seconds),
        ("every {} to {} s, so that a release", *(look * ELECTION.retry_period_seconds for look in LOOKS)),
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
        ("at most {} dumps are in memory", ServingSettings.dump_bodies),
        ("where there are {} already, and one whose dump is not written after {} s", ServingSettings.dump_readers,
            ServingSettings.dump_waiting_seconds),
        ("nothing of its answer for {} s", ServingSettings.stalled_seconds),
        ("has been reading for more than {} s", ServingSettings.dump_reading_seconds),
        ("with a token for {} minutes", ("cli.dump.fetching:_TOKEN_SECONDS", MINUTE)),
        ("the last {} transitions", "cache.stories:CAPACITY"),
        ("thousandths of a CPU; {} for a container", "model.resources:DEFAULT_MILLI_CPU"),
        ("bytes; {} MiB for a container", ("model.resources:DEFAULT_MEMORY", 1 / MIB)),
    ],
    "docs/compare.md": [
        ("or within {} s of its beginning", "server.comparing:LEAST_SECONDS"),
        ("with the reflector every {} minutes, with kopf every {} s", WatchSettings.sweep_interval_seconds * MINUTE,
            KopfSettings.sweep_interval_seconds),
        ("handed on | every {} minutes", WatchSettings.sweep_interval_seconds * MINUTE),
        ("node by node | every {} minutes", WatchSettings.sweep_interval_seconds * MINUTE),
        ("has brought nothing for {} seconds", WatchSettings.sweep_grace_seconds),
        ("An object is given {} seconds", KopfSettings.sweep_grace_seconds),
        ("the first {} of them", "server.comparing:SHOWN"),
    ],
    "CHANGELOG.md": [
        ("It reports within {} s, and by name", HealthSettings.lost_seconds),
    ],
}  # fmt: skip

UNQUOTED = {
    "docs/leader-election.md": (
        "within the retry period: 0.4 to 0.9 s",
        "15.7 s after it was sent as measured",
        "no replica leads for longer than 20 s",
        "every 2 to 4.4 s",  # client-go's
    ),
    "CHANGELOG.md": ("within 2 s of a clean stop and 20 s of a crash",),  # what tests/e2e/test_leader_election.py demands
    "docs/watch.md": (
        "requires that within 15 s of the server's return",  # the test itself
        "holds back an object's events for up to ten minutes",  # kopf's
        "never holds the event loop for 50 ms",
        "about 1 ms of CPU per event instead of 0.02 ms",
        "again five minutes before their token expires",  # the official client's
    ),
    "docs/plugins.md": ("with 5,000 nodes, 1 to 2 ms per pod, and about 10 ms if it rejects every node",),
    "docs/compare.md": ("metadata is 5 MB and takes 0.1 s of CPU", "with 50,000 pods takes 0.3 s", "for less than 50 ms"),
    "docs/security.md": ("in kube-scheduler 10 s for each try",),
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
