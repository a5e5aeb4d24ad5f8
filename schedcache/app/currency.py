"""Whether what a program knows of the cluster is what the cluster is now."""

from schedcache.app.deadlines import HealthSettings
from schedcache.kube.watch.kinds import KINDS
from schedcache.ports import EventSource


def watch_problems(source: EventSource, limits: HealthSettings) -> str:
    """Why changes do not arrive, "" if they do."""
    outages = source.outages()
    lost = [
        f"{plural(kind)} ({outage.seconds:.0f} s, {outage.why})"
        for kind, outage in outages.items()
        if outage.seconds > limits.lost_seconds
    ]
    stale = [
        f"{plural(kind)} ({age:.0f} s)"
        for kind, age in source.ages().items()
        if age > limits.stale_seconds and kind not in outages
    ]
    told = {"no connection for": lost, "nothing heard about": stale}
    problems = [f"{what} {', '.join(kinds)}" for what, kinds in told.items() if kinds]
    # Watches that are open say nothing: an API server that hangs keeps them so.
    silence = source.unanswered()
    if silence is not None and silence.seconds > limits.answer_seconds:
        problems.append(f"the API server has not answered for {silence.seconds:.0f} s ({silence.why})")
    return "; ".join(problems)


def cache_problems(source: EventSource) -> str:
    """Why what is held is wrong, "" as far as is known."""
    why = source.rebuild_wanted()
    return f"found to be wrong ({why}), about to be rebuilt" if why else ""


def plural(kind: str) -> str:
    """As people call the kind, and as the API's paths do."""
    return KINDS[kind].plural
