"""Settings for the connection to the API server; every default is what `schedcache run` uses.

Seconds unless a name says otherwise. What follows from the protocol, and how work is sliced, are constants in the code that uses them.
"""

from dataclasses import dataclass

from schedcache.ports import Backoff

__all__ = [
    "KopfSettings",
    "LeaderElectionSettings",
    "RequestSettings",
    "SourceSettings",
    "WatchSettings",
    "WriteSettings",
]


@dataclass(frozen=True, kw_only=True)
class RequestSettings:
    """For a `Transport`.

    Attributes:
        request_timeout_seconds: for a whole request, from taking a connection to the last byte of the answer.
        connect_timeout_seconds: for opening a connection.
        idle_connection_seconds: a connection that was idle for longer is not used again: API servers close theirs after 90 s.
        throttled_tries: how often a request that is answered 429 is sent, the first time included.
        retry_after_limit_seconds: the longest pause that a Retry-After can impose.
        credentials_check_seconds: how often to check whether the credentials are due for renewal.
        credentials_reload_seconds: the least time between two complete reloads of the credentials after answers of 401.
    """

    request_timeout_seconds: float = 15.0
    connect_timeout_seconds: float = 10.0
    idle_connection_seconds: float = 60.0
    throttled_tries: int = 6
    retry_after_limit_seconds: float = 30.0
    credentials_check_seconds: float = 10.0
    credentials_reload_seconds: float = 5.0


@dataclass(frozen=True, kw_only=True)
class SourceSettings:
    """For either event source.

    Attributes:
        rebuild_calm_seconds: a rebuild that is requested sooner after the last one waits first, since something keeps failing; so does
            a sweep after an outage.
        backoff: pauses after failures. The default is that of client-go's reflector, as is the next one.
        backoff_reset_seconds: after this long without a failure, the pauses start over.
        page_limit: objects per page of a list. A whole list in one page would take gigabytes, and block the event loop for seconds.
        metadata_page_limit: objects per page of a comparison. Metadata is small, so it can be larger.
        page_timeout_seconds: for one page; a list that has to come in one piece may be large.
        unreachable_pause_seconds: the longest pause while there is no connection at all, since trying costs the server nothing then.
        probe_interval_seconds: between questions whether the server answers and is not behind what was seen of it; None for none.
        probe_look_seconds: how soon one is asked after a watch has been opened anew.
        probe_timeout_seconds: for the answer.
    """

    rebuild_calm_seconds: float = 60.0
    backoff: Backoff = Backoff(first=0.8, limit=30.0, jitter=1.0)
    backoff_reset_seconds: float = 120.0
    page_limit: int = 500
    metadata_page_limit: int = 2000
    page_timeout_seconds: float = 60.0
    unreachable_pause_seconds: float = 8.0
    probe_interval_seconds: float | None = 3.0
    probe_look_seconds: float = 0.5
    probe_timeout_seconds: float = 4.0


@dataclass(frozen=True, kw_only=True)
class WatchSettings(SourceSettings):
    """For a `Reflector`.

    Attributes:
        inactivity_timeout_seconds: a watch that is silent for that long is considered dead; a bookmark comes every minute.
        sweep_interval_seconds: between comparisons of what is held with what the server has, which find events that were lost
            anywhere on the way; None for no comparisons.
        sweep_grace_seconds: after that time, a difference counts as lost and not as still on its way.
    """

    inactivity_timeout_seconds: float = 70.0
    sweep_interval_seconds: float | None = 600.0
    sweep_grace_seconds: float = 5.0


@dataclass(frozen=True, kw_only=True)
class KopfSettings(SourceSettings):
    """For a `KopfSource`.

    Attributes:
        sweep_interval_seconds: between sweeps; one comes at once after anything that looks like a gap.
        sweep_grace_seconds: how long kopf has to deliver what a sweep has found, before the sweep repairs it.
        stalled_seconds: if kopf's first list brings nothing new for that long, the rest is read without it.
        stale_sweeps: after that many sweeps that found kopf behind, without an event from it in between, it is restarted.
        relogin_seconds: the least time between two logins of kopf, which reads the credentials again when the server refuses them.
        retry_after_limit_seconds: the longest pause that a Retry-After can impose on kopf.
        blind_seconds: kopf is restarted when it has had no watch open for that long although the server answers, and brought nothing.
        blind_sweep_seconds: between sweeps while it has none, and after its start; from then on they become rarer.
        stop_seconds: for kopf to stop when asked to, and again when it is forced to.
        error_backoff: between kopf's tries of one request: much like kopf's own, but it never gives up.
        backoff: before kopf is started again, and after other failures. Shorter than the reflector's, since every kind waits for it.
    """

    sweep_interval_seconds: float = 60.0
    sweep_grace_seconds: float = 2.0
    stalled_seconds: float = 15.0
    stale_sweeps: int = 3
    relogin_seconds: float = 5.0
    retry_after_limit_seconds: float = 30.0
    blind_seconds: float = 10.0
    blind_sweep_seconds: float = 5.0
    stop_seconds: float = 3.0
    error_backoff: Backoff = Backoff(first=1.0, limit=8.0)
    backoff: Backoff = Backoff(first=0.8, limit=8.0, jitter=1.0)


@dataclass(frozen=True, kw_only=True)
class WriteSettings:
    """For an `ApiBinder`, an `ApiEvictor`, an `ApiStatusWriter` and an `ApiEventRecorder`.

    Attributes:
        concurrent_binds: requests under way at once; twice as many pods may be on their way. Measured with an event for each bind:
            16 are a tenth slower, 32 a few per cent (etcd has less to batch), and 100 gain nothing.
        concurrent_evictions: their requests under way at once: as many as kube-scheduler has workers by default.
        concurrent_patches: of conditions and nominations, likewise.
        concurrent_events: as many as binds, so that the events of a burst do not appear long after it.
        waiting_patches: how many pods' writes may wait; further ones are dropped.
        waiting_events: events that may wait, likewise.
        retry_tries: how often an eviction, a condition or an event is sent, the first time included.
        retry_backoff: the pauses between tries; about ten seconds in all.
        repeated_warning_seconds: similar failures are logged at most once in this time.
        event_series_limit: events that are remembered for merging; the oldest is forgotten first.
        event_series_end_seconds: a series ends, and its last count is written, when nothing was added for this long.
            client-go's finishTime.
        event_series_refresh_seconds: a series that goes on is written this often, so that the API server does not forget it.
            client-go's refreshTime.
        pod_event_burst: new events of one pod at once; the budget of client-go's older recorder, as is the next one.
        pod_event_refill_seconds: the time until one more is allowed.
    """

    concurrent_binds: int = 64
    concurrent_evictions: int = 16
    concurrent_patches: int = 8
    concurrent_events: int = 64
    waiting_patches: int = 50_000
    waiting_events: int = 10_000
    retry_tries: int = 5
    retry_backoff: Backoff = Backoff(first=0.05, factor=5.0, limit=7.5, jitter=0.5)
    repeated_warning_seconds: float = 30.0
    event_series_limit: int = 20_000
    event_series_end_seconds: float = 360.0
    event_series_refresh_seconds: float = 1800.0
    pod_event_burst: int = 25
    pod_event_refill_seconds: float = 300.0


MOST_IN_A_LEASE = 2**31 - 1
"""Seconds of its duration, and transitions: both are an int32 there."""


@dataclass(frozen=True, kw_only=True)
class LeaderElectionSettings:
    """For a `LeaderElector`; kube-scheduler's defaults.

    Attributes:
        resource_name: of the Lease. All replicas of one scheduler need the same, and no others may have it.
        resource_namespace: of the Lease.
        lease_duration_seconds: how long the others wait after the last renewal that they saw. Written rounded up to whole seconds.
        renew_deadline_seconds: after so long without a renewal the leader sends nothing more.
        retry_period_seconds: between two renewals, and a little more than between two looks of those who wait.
    """

    resource_name: str
    resource_namespace: str
    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0
