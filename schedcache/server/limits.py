"""What clients of the ports may take; every default is what `schedcache run` uses."""

from dataclasses import dataclass

__all__ = ["ServingSettings"]


@dataclass(frozen=True, kw_only=True)
class ServingSettings:
    """For one port, except where it says otherwise. Seconds unless a name says otherwise.

    Attributes:
        connections: open at once. One more takes the place of the one that has been idle longest, or else of one that takes
            nothing; if there is none, it is answered 503.
        connections_per_address: likewise, of one client address. The kubelet, a port-forward and a pod on the host's network
            may all have the same one.
        head_seconds: until the head of a request is complete, from the opening of the connection or the first byte.
        idle_seconds: a connection that was answered and asks nothing is closed after that time.
        stalled_seconds: a client that takes nothing of its answer for that long is cut off.
        head_line_bytes: the longest line of a head.
        head_fields: the most header fields.
        body_seconds: how long a body that nobody asked for is read and dropped, so that the client gets its answer.
        send_buffer_bytes: what the kernel holds of an answer; what is in the process besides the dump itself is 192 KiB at most.
        dump_readers: of `/dump` at once; one more is answered 503.
        dump_bodies: dumps that are in memory at once, each shared by all that asked before it was taken.
        dump_reading_seconds: a reader may take its time, but when another dump is waited for, one that has taken longer than
            this is cut off.
        dump_waiting_seconds: a reader whose dump has not begun by then is answered 503.
        busy_share: the most of the processor that answers may take while pods are being scheduled.
        probe_waiting_seconds: how long that share can delay a request that is not one for a dump.
    """

    connections: int = 200
    connections_per_address: int = 100
    head_seconds: float = 10.0
    idle_seconds: float = 75.0
    stalled_seconds: float = 10.0
    head_line_bytes: int = 8190
    head_fields: int = 64
    body_seconds: float = 1.0
    send_buffer_bytes: int = 262_144
    dump_readers: int = 64
    dump_bodies: int = 2
    dump_reading_seconds: float = 15.0
    dump_waiting_seconds: float = 30.0
    busy_share: float = 0.05
    probe_waiting_seconds: float = 0.25
