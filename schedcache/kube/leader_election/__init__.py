"""Which of several replicas schedules: client-go's leader election on a Lease, and a fence for what the leader writes.

Promises: at most one replica writes at a time, as long as clocks run at the same speed to within a hundredth; a write is not begun
unless it will be given up before the lease can have run out; the clocks on the walls of other machines do not matter.

May touch: one Lease, through a `LeaseLock`.

Start with `elector`, then `fence`; `lease_lock` is the Lease on the API server.
"""
