"""Writes to the API server: bindings, volumes' reservations, conditions and events, each within its budget.

Promises: a bind is sent once, with the pod's UID, and its error says whether it may have been carried out; so are the writes to
volumes and claims, with UID and resourceVersion. Conditions and events are written in the background, from bounded queues:
newer ones replace or join those that wait, and dropped ones are counted by reason. They are retried if that is safe, and never
draw from the budget of binds.

May touch: a `Transport`, the wall clock for the times in objects. `run` of a writer is a task of the caller's; before it is ended,
`drain` writes what waits.

Start with `binder`. `status_writer` and `event_recorder` are built on `write_queue`, `rate` and `retrying`.
"""
