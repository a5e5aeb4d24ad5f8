"""What the health of a program depends on: its tasks, its loop, its watches, its binds."""

from schedcache.app.currency import cache_problems, plural, watch_problems
from schedcache.app.program import Program
from schedcache.kube.leader_election.elector import LeaderElector
from schedcache.server.health import Health


def health_of(program: Program) -> Health:
    """Alive: every task runs and the loop turns. Ready: all kinds are listed and heard of, and nothing is stopping.

    A standby is ready as one: it has everything to take over, and says who leads.
    """
    scheduler, source, limits = program.scheduler, program.source, program.settings.health

    def tasks() -> str:
        failed = program.failed_task()
        return f"{failed} has ended" if failed and not program.stopping else ""

    def loop() -> str:
        last = scheduler.last_housekeeping
        age = 0.0 if last is None or program.stopping else scheduler.state.clock() - last
        return f"stalled for {age:.0f} s" if age > limits.stalled_seconds else ""

    def synced() -> str:
        missing = [plural(kind) for kind in source.ages() if kind not in scheduler.handlers.synced_kinds]
        return f"not listed yet: {', '.join(missing)}" if missing else "" if source.has_synced() else "not synced"

    def binding() -> str:
        if namespace := program.binder.rights.denied_in:
            return f"not allowed to bind pods in namespace {namespace}: the verb create on pods/binding is needed"
        # An API server that has lost its etcd keeps watches open and carries nothing out.
        outages = {
            "bind has succeeded": program.binder.binds.outage(),
            "read of a pod that may be bound was answered": program.binder.reads.outage(),
        }
        return "; ".join(
            f"no {what} for {outage.seconds:.0f} s ({outage.why})"
            for what, outage in outages.items()
            if outage is not None and outage.seconds > limits.lost_seconds
        )

    def credentials() -> str:
        # Watches that are open stay so for minutes after the token has expired.
        return "the API server rejects them (401)" if program.transport.unauthorized else ""

    def scheduling() -> str:
        return "" if scheduler.last_housekeeping is not None else "not started"

    def shutdown() -> str:
        return "stopping" if program.stopping else ""

    return Health(
        livez=[("tasks", tasks), ("scheduling-loop", loop)],
        readyz=[
            ("informer-sync", synced),
            ("watches", lambda: watch_problems(source, limits)),
            ("cache", lambda: cache_problems(source)),
            ("binding", binding),
            ("credentials", credentials),
            ("scheduling", scheduling),
            ("leader-election", lambda: _election(program.elector, limits.lost_seconds)),
            ("shutdown", shutdown),
        ],
        standing=lambda: _standing(program.elector),
    )


def _election(elector: LeaderElector | None, lost_seconds: float) -> str:
    """A standby that cannot read the Lease would never take over; who led and cannot renew it does nothing."""
    if elector is None:
        return ""
    seconds, why = elector.silence()
    if elector.suspended():
        return f"suspended, the lease was not renewed for {seconds:.0f} s ({why})"
    return f"nothing known of the lease for {seconds:.0f} s ({why})" if seconds > lost_seconds else ""


def _standing(elector: LeaderElector | None) -> str:
    if elector is None or elector.leading:
        return ""
    return f"standby, the leader is {elector.leader or 'nobody'}"
