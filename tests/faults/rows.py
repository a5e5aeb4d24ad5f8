"""The rows of the fault table: what is done, what users see, and what must hold how soon. docs/faults.md is written from here."""

from typing import NamedTuple

BOTH = ("reflector", "kopf")
ALWAYS = ("I1", "I2", "I3", "I4", "I5", "I9")
ALONE = ("I1", "I3", "I4", "I5", "I9")
"""Without I2: nobody can know in time what another scheduler does to the same nodes."""
HEALTH = (*ALWAYS, "I8")

INVARIANTS = {
    "I1": ("Each pod's UID is bound once", "the API server's audit log, not ours"),
    "I2": ("No node is given more than it has", "sums over the API's pods at the end; `/dump`, every second all along"),
    "I3": ("Nothing assumed, in flight or queued is left over", "`/dump`, compared with the API's pods"),
    "I4": ("The cache equals the API", "pods, nodes, and each node's sums, counted afresh from the API's pods"),
    "I5": ("Every pod that fits is bound", "the API's pods"),
    "I6": ("The generation never goes back", "`/dump`, every second"),
    "I7": (
        "Only the holder of the lease binds, and never later than the lease lasts",
        "the audit log's times of bindings and of writes to the Lease, for each replica's own identity",
    ),
    "I8": ("Health tells the truth", "`/readyz` and `/livez`, five times a second during the fault and after it"),
    "I9": ("Bounded", "memory, open files, size of the log; processor time while nothing can be done"),
}
"""Invariant -> what it says, and where that is looked up."""


class Row(NamedTuple):
    """A kind of fault.

    Attributes:
        key: its name.
        fault: what is done, against the real API server.
        seen: what users see.
        within: seconds after the end of the fault by which every invariant holds again.
        invariants: those that are checked; I6 is checked in every row.
        simulated: whether the simulation has it too.
        sources: the event sources that it is run with.
        root: whether it needs root.
        lasts: seconds that it takes at most, until the fault is over.
        elsewhere: what cannot be shown here, why, and how to run it.
    """

    key: str
    fault: str
    seen: str
    within: float = 60.0
    invariants: tuple[str, ...] = ALWAYS
    simulated: bool = False
    sources: tuple[str, ...] = BOTH
    root: bool = False
    lasts: float = 60.0
    elsewhere: str = ""


_ROWS = (
    Row(
        "killed-before-bind",
        "SIGKILL while bind requests wait in the proxy, which the API server never gets; another process starts",
        "the pods stay pending until the new process is ready",
        within=30,
        simulated=True,
    ),
    Row(
        "killed-after-bind",
        "SIGKILL after the API server has carried binds out and before it could say so; another process starts",
        "nothing: the pods run, and no event is written twice",
        within=30,
        simulated=True,
    ),
    Row(
        "bind-answer-lost",
        "binds are carried out, and their answers are lost: the connection is reset, or nothing comes",
        "nothing: the pods run. `scheduler_bind_doubts_total` counts the reads that found out",
        within=30,
        simulated=True,
    ),
    Row(
        "bind-late",
        "a bind reaches the API server 60 s late, long after we have given up; a rival wants the same room",
        "the pod is tried again after 15 s; the rival waits",
        simulated=True,
        lasts=100,
    ),
    Row(
        "bind-409",
        "the API server's own 409s: the pod is bound already, is another one by now, is being deleted",
        "a pod that is gone is dropped, one that is bound is left where it is",
        within=30,
        simulated=True,
    ),
    Row(
        "bind-throttled",
        "429 with Retry-After, 500 and 503 for binds, at random, for 8 s",
        "pods take longer; `/readyz` fails only if no bind at all gets through for 15 s",
        within=30,
        invariants=HEALTH,
        simulated=True,
    ),
    Row(
        "api-server-restart",
        "the API server is killed under load, and started again on the same data 10 s, 2 min or 15 min later",
        "`/readyz` fails after 15 s, with `no connection for`; `/livez` does not. Everything goes on by itself",
        invariants=HEALTH,
        simulated=True,
        lasts=960,
    ),
    Row(
        "compaction",
        "etcd is compacted while no watch gets through and the API server starts again: real 410s for watches",
        "nothing; `scheduler_informer_relists_total` counts the lists",
        invariants=HEALTH,
        simulated=True,
    ),
    Row(
        "silent-watches",
        "watches stay open and nothing comes over them, not even bookmarks",
        "new pods stay pending for 70 s at most, when the watches are opened again",
        within=90,
        simulated=True,
        lasts=120,
    ),
    Row(
        "stale-api-server",
        "all requests go to a second API server, whose connection to etcd stands still: a real one that lags behind",
        "`/readyz` fails after 15 s; nothing that was known is forgotten",
        invariants=HEALTH,
        simulated=True,
        lasts=150,
    ),
    Row(
        "watches-that-end",
        "watches end every 15 events, in the middle of an event, or with a reset; opening one is answered 500",
        "nothing; `scheduler_informer_watch_restarts_total` counts them",
        simulated=True,
    ),
    Row(
        "lost-event",
        "single events do not come: a pod's addition, a pod's deletion, a change of a node",
        "the next comparison with the API server finds it: every ten minutes (kopf: every minute), here every 5 s",
        within=30,
        simulated=True,
    ),
    Row(
        "reordered-events",
        "every event comes twice; pods are seen on a node that has not been seen yet",
        "nothing",
        within=30,
        simulated=True,
    ),
    Row(
        "pod-made-again",
        "pods are deleted and made again under their names, all the time, while binds take 0.3 s",
        "the new pods are scheduled, the old ones forgotten",
        simulated=True,
    ),
    Row(
        "deleted-in-a-gap",
        "pods that are assumed are deleted while no watch gets through",
        "their room is free again as soon as a watch or a read says so",
        simulated=True,
    ),
    Row(
        "node-made-again",
        "a node is deleted with its pods and made again under its name, smaller, ten times",
        "new pods get what the new node has and no more",
        simulated=True,
    ),
    Row(
        "node-flaps",
        "a node is tainted and cordoned, and not, five times a second, during a burst",
        "its pods may go elsewhere; none waits longer than the others",
    ),
    Row(
        "node-shrinks",
        "a node's allocatable falls below what its pods request",
        "nothing new is placed there until its pods have gone",
        simulated=True,
    ),
    Row(
        "lease-refused",
        "writes of the Lease are refused, everything else goes on; a second replica waits",
        "the leader stops binding in time, and the other replica takes over",
        invariants=(*HEALTH, "I7"),
        simulated=True,
        lasts=60,
    ),
    Row(
        "leader-frozen",
        "SIGSTOP of the leader for 30 s, in the middle of binds, and SIGCONT; a second replica waits",
        "the other replica goes on after 20 s at most; the first one binds nothing any more",
        invariants=(*ALWAYS, "I7"),
        simulated=True,
        lasts=60,
    ),
    Row(
        "clock-jump",
        "the wall clock of the process jumps by an hour, back and forth (a library in front of libc's clock);"
        " the monotonic clock starts somewhere else (a time namespace)",
        "nothing",
        invariants=HEALTH,
        lasts=60,
    ),
    Row(
        "two-leaders",
        "two replicas that elect nobody, under one scheduler name",
        "each pod is bound once; `scheduler_bind_doubts_total` shows the conflicts",
        invariants=ALONE,
        simulated=True,
    ),
    Row(
        "beside-kube-scheduler",
        "the real kube-scheduler places its own pods on the same nodes in the same moments; a kubelet rejects what is too much",
        "pods that a kubelet rejects (`OutOfcpu`) are counted once, and not tried again",
        invariants=ALONE,
    ),
    Row(
        "rights-withdrawn",
        "the role is taken away and given back; the ServiceAccount is deleted and made again, so that its token is refused",
        "`/readyz` fails, and names the right or the credentials",
        invariants=HEALTH,
        lasts=90,
    ),
    Row(
        "burst-and-poison",
        "10,000 pods in a burst, half of them deleted in the middle of it, nodes drained; annotations of 200 kB and absurd"
        " quantities, and objects in the watch that cannot be read",
        "one object that cannot be read is reported, and counted; the others are scheduled",
        within=120,
        lasts=240,
    ),
    Row(
        "stopped-in-a-burst",
        "SIGTERM with binds under way, and the next process starts, three times in a burst",
        "exit status 0 within 30 s; pods wait for the next process",
        simulated=True,
        elsewhere="an OOM kill is the kernel's SIGKILL, which the first two rows send",
    ),
    Row(
        "dump-under-fire",
        "50 clients ask for `/dump` without a pause during a burst, with 5,000 nodes",
        "pods are bound at most a tenth later",
        lasts=240,
    ),
    Row(
        "etcd-restored",
        "etcd and the API server start again on an older copy of etcd's data",
        "`/readyz` fails until everything has been read again; pods and nodes that the backup does not have are forgotten",
        within=90,
        invariants=("I2", "I3", "I4", "I5", "I8", "I9"),
        simulated=True,
        lasts=60,
    ),
    Row(
        "binds-refused",
        "403 for every bind, for 25 s",
        "`/readyz` fails after 15 to 20 s, with the next attempt, and says `binding`",
        invariants=HEALTH,
        simulated=True,
    ),
    Row(
        "binds-put-off",
        "429 for every bind, for 40 s",
        "`/readyz` fails after 15 s and says `binding`",
        invariants=HEALTH,
        simulated=True,
        lasts=80,
    ),
    Row(
        "authority-rotated",
        "another certificate authority: the API server starts again with it, and the kubeconfig's file of it is replaced",
        "`/readyz` fails if the new file comes late; no restart is needed",
        invariants=HEALTH,
        lasts=60,
    ),
    Row(
        "odd-refusals",
        "answers that no API server gives, for 20 s: 302, 400, 404, 418, 502 with HTML, 200 with half a document",
        "`/readyz` fails while it lasts, and only then",
        lasts=60,
        invariants=HEALTH,
    ),
    Row(
        "odd-node",
        "a node with the largest quantities that an API server stores, and one with none at all",
        "pods that fit are bound, there or elsewhere",
        within=30,
    ),
    Row(
        "hostile-clients",
        "100 clients that ask for `/dump` and do not read it; HEAD; 1,000 requests that are no HTTP",
        "memory, open files and log stay small; the next answer on a connection is the right one",
        within=30,
    ),
    Row(
        "few-descriptors",
        "a limit of 40 open files, fewer than the watches and binds need, for 30 s",
        "one line of log and a count; bound as far as connections allow, and all once the limit is raised",
        invariants=ALWAYS,
        lasts=60,
    ),
    Row(
        "log-blocked",
        "standard output and error are a pipe that nobody reads, a full disk, or closed",
        "lines are missing; pods are bound, and `/livez` does not fail",
        within=30,
        invariants=HEALTH,
    ),
    Row(
        "etcd-frozen",
        "SIGSTOP of etcd for 40 s: the API server answers reads from its cache, and carries nothing out",
        "`/readyz` fails once no bind has been answered for 15 s, each of which takes up to 15 s",
        invariants=HEALTH,
        lasts=80,
    ),
    Row(
        "etcd-full",
        "etcd's space runs out: its quota (the alarm NOSPACE), and its disk (a small file system)",
        "binds fail, `/readyz` says `binding`",
        invariants=HEALTH,
        root=True,
        within=90,
        lasts=90,
    ),
    Row(
        "api-server-frozen",
        "SIGSTOP of the API server for 100 s: connections stay up, and nothing answers",
        "`/readyz` fails after 15 s",
        within=90,
        invariants=HEALTH,
        lasts=140,
    ),
    Row(
        "packet-loss",
        "a tenth, then a third of all packets between scheduler and API server are lost (iptables in a network namespace)",
        "binds are slower",
        root=True,
        invariants=HEALTH,
        lasts=90,
        elsewhere="where the kernel has netem, tc can add delay and reordering on the namespace's cable"
        " (netem delay 200ms 100ms reorder 25%); many kernels, such as that of our CI, have none",
    ),
    Row(
        "network-cut",
        "every packet between scheduler and API server is dropped silently for 60 s, and then not any more",
        "`/readyz` fails after 15 s",
        within=90,
        root=True,
        invariants=HEALTH,
        lasts=100,
    ),
    Row(
        "process-frozen",
        "SIGSTOP of the only replica for 100 s, while pods and a node are deleted; SIGCONT",
        "the pods wait as long",
        lasts=140,
        simulated=True,
    ),
    Row(
        "leader-killed",
        "SIGKILL of the leader in the middle of binds, a second replica waits; and SIGTERM",
        "the other replica binds after 20 s at most; after a clean stop within 2 s",
        invariants=(*ALWAYS, "I7"),
        simulated=True,
        lasts=60,
    ),
    Row(
        "leader-cut-off",
        "the leader alone cannot reach the API server any more, for 40 s; a second replica can",
        "the leader is not ready and binds nothing; the other one takes over within 20 s",
        invariants=(*ALWAYS, "I7"),
        simulated=True,
        lasts=90,
    ),
    Row(
        "slow-api-server",
        "every answer takes 2 s, and binds 5 s",
        "pods take longer, and nothing else",
        invariants=HEALTH,
        lasts=60,
    ),
)

ROWS = {row.key: row for row in _ROWS}
