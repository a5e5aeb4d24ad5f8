"""What can be tuned about what counts as healthy, and about the end; every default is what `schedcache run` uses."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class HealthSettings:
    """What `/livez` and `/readyz` go by.

    Attributes:
        answer_seconds: not ready after so long without any answer of the API server, which is asked every three seconds: two questions
            in a row may be lost, and a third is under way.
        lost_seconds: not ready after so long without a connection, or without a bind that succeeds. Longer than the first three
            tries to connect again take (11.2 s): when one API server of several goes, or the only one is restarted in some
            seconds, nobody has to know. Shorter than anything that may be called work.
        stale_seconds: not ready after so long without a word on a watch; it brings something at least every minute, a bookmark if
            nothing else.
        stalled_seconds: not alive after so long without housekeeping, which runs every second in a loop that lives.
    """

    answer_seconds: float = 12.0
    lost_seconds: float = 15.0
    stale_seconds: float = 75.0
    stalled_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True)
class StopSettings:
    """How long the end may take. With kopf's and that of the connections to us it is all over within Kubernetes' grace period of 30 s.

    Attributes:
        drain_seconds: for bindings under way: as long as one request may take.
        write_seconds: for events and conditions that wait, after that.
    """

    drain_seconds: float = 15.0
    write_seconds: float = 3.0
